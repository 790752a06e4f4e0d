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

/// The socket of the guardian, in the abstract name space: zeros may be written ahead of logs.
pub(crate) const AHEAD_VARIABLE: &str = "NEARHEAD_RUN_AHEAD";

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is a log.
    Wal,
    /// It is written in bulk.
    Bulk,
}

/// Names of files that a pattern for logs may match and that are none: zeros behind them are content.
const NOT_LOGS: [&[u8]; 4] = [b".index", b".idx", b".state", b".pid"];

/// The settings.
pub(crate) struct Settings {
    wal: Vec<Vec<u8>>,
    bulk: Vec<Vec<u8>>,
    /// Whether a thread of ours writes, or whoever syncs.
    pub(crate) by_thread: bool,
    /// The guardian, if zeros are written ahead of logs: for programs that skip them.
    pub(crate) guardian: Option<Vec<u8>>,
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
    let guardian = std::env::var_os(AHEAD_VARIABLE).map(OsStringExt::into_vec);
    let guardian = guardian.filter(|name| !name.is_empty());
    let verbose = std::env::var_os(VERBOSE_VARIABLE).is_some_and(|it| !it.is_empty() && it != "0");
    // Read once: a second library of the same kind finds it done.
    let _ = SETTINGS.set(Settings { wal, bulk, by_thread, guardian, verbose });
}

impl Settings {
    /// Whether any file is a log.
    pub(crate) fn has_logs(&self) -> bool {
        !self.wal.is_empty()
    }

    /// What is to be done with the file at this path.
    pub(crate) fn use_of(&self, path: &[u8]) -> Option<Use> {
        let any = |patterns: &[Vec<u8>]| patterns.iter().any(|pattern| matches(pattern, path));
        let is_log =
            self.guardian.is_none() || !NOT_LOGS.iter().any(|ending| path.ends_with(ending));
        if is_log && any(&self.wal) { Some(Use::Wal) } else { any(&self.bulk).then_some(Use::Bulk) }
    }
}
