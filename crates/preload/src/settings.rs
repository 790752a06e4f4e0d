//! What `nearhead run` said, by environment variables, read once before the program begins.
//!
//! Until they are read, and in a program started without them, everything passes.

use nearhead_basics::pattern::matches;
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

/// Patterns of log files, separated by colons.
pub(crate) const WAL_VARIABLE: &str = "NEARHEAD_RUN_WAL";
/// Patterns of bulk files.
pub(crate) const BULK_VARIABLE: &str = "NEARHEAD_RUN_BULK";
/// `thread` or `caller`: who writes.
pub(crate) const MODE_VARIABLE: &str = "NEARHEAD_RUN_MODE";
/// Anything but `0` or nothing: one line for each file that is routed, too.
pub(crate) const VERBOSE_VARIABLE: &str = "NEARHEAD_RUN_VERBOSE";

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is a log.
    Wal,
    /// It is written in bulk.
    Bulk,
}

/// The settings.
pub(crate) struct Settings {
    wal: Vec<Vec<u8>>,
    bulk: Vec<Vec<u8>>,
    /// Whether a thread of ours writes, or whoever syncs.
    pub(crate) by_thread: bool,
    /// Whether routing is told.
    pub(crate) verbose: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// What was said; `None` if nothing was.
pub(crate) fn settings() -> Option<&'static Settings> {
    SETTINGS.get()
}

/// Reads them.
pub(crate) fn read() {
    let patterns = |name: &str| -> Vec<Vec<u8>> {
        let value = std::env::var_os(name).unwrap_or_default().into_vec();
        let parts = value.split(|byte| *byte == b':').filter(|part| !part.is_empty());
        parts.map(<[u8]>::to_vec).collect()
    };
    let (wal, bulk) = (patterns(WAL_VARIABLE), patterns(BULK_VARIABLE));
    if wal.is_empty() && bulk.is_empty() {
        return;
    }
    let by_thread = std::env::var_os(MODE_VARIABLE).is_none_or(|mode| mode != "caller");
    let verbose = std::env::var_os(VERBOSE_VARIABLE).is_some_and(|it| !it.is_empty() && it != "0");
    // Read once: a second library of the same kind finds it done.
    let _ = SETTINGS.set(Settings { wal, bulk, by_thread, verbose });
}

impl Settings {
    /// What is to be done with the file at this path.
    pub(crate) fn use_of(&self, path: &[u8]) -> Option<Use> {
        let any = |patterns: &[Vec<u8>]| patterns.iter().any(|pattern| matches(pattern, path));
        if any(&self.wal) { Some(Use::Wal) } else { any(&self.bulk).then_some(Use::Bulk) }
    }
}
