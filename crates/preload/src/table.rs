//! Which descriptors belong to which file of ours.
//!
//! A flag for each descriptor keeps everybody else's calls fast: a load, a branch, the system call. A
//! flagged one is looked up, and its inode compared: a descriptor may have been closed by a call
//! that nobody stands in for, and be another file's now.
//!
//! A child of `fork` starts with nothing: the parent's streams are not its own. What it opens
//! itself is routed again.

use crate::bulk::Bulk;
use crate::raw;
use crate::routed::Routed;
use libc::c_int;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Descriptors from here on are never routed.
const DESCRIPTORS_MAX: usize = 65536;

static FLAGGED: [AtomicBool; DESCRIPTORS_MAX] = [const { AtomicBool::new(false) }; DESCRIPTORS_MAX];
/// How many are: with none, opening for reading needs no look.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The table of this process; a child of `fork` takes a new one.
static TABLE: AtomicPtr<Mutex<Table>> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// Whether this thread is inside the library: its own calls pass.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A file of ours.
#[derive(Clone)]
pub(crate) enum File {
    Wal(Arc<Routed>),
    Bulk(Arc<Bulk>),
}

/// The table.
#[derive(Default)]
pub(crate) struct Table {
    files: BTreeMap<c_int, File>,
}

/// Begins with nothing: at the start of the program, and in a child of `fork`.
pub(crate) fn begin() {
    let fresh = Box::into_raw(Box::default());
    // Never freed: in a child somebody may have held the old one's lock, and its streams are the
    // parent's.
    TABLE.store(fresh, Ordering::Release);
    if COUNT.swap(0, Ordering::AcqRel) > 0 {
        for flag in &FLAGGED {
            flag.store(false, Ordering::Relaxed);
        }
    }
}

fn table() -> Option<MutexGuard<'static, Table>> {
    // SAFETY: null, or a table that is never freed.
    let table = unsafe { TABLE.load(Ordering::Acquire).as_ref() }?;
    // A map of handles: sound also after a panic.
    Some(table.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs `action` with this thread's own calls passing. `None`: it is inside already, or it
/// panicked, which has been told.
pub(crate) fn inside<T>(action: impl FnOnce() -> T) -> Option<T> {
    if INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true) {
        return None;
    }
    let outcome = catch_unwind(AssertUnwindSafe(action)).ok();
    // The thread is alive: it came in above.
    let _ = INSIDE.try_with(|inside| inside.set(false));
    outcome
}

fn flag_of(fd: c_int) -> Option<&'static AtomicBool> {
    FLAGGED.get(usize::try_from(fd).ok()?)
}

/// Whether the descriptor may be one of ours.
pub(crate) fn is_flagged(fd: c_int) -> bool {
    flag_of(fd).is_some_and(|flag| flag.load(Ordering::Acquire))
}

/// Whether any is.
pub(crate) fn is_any_flagged() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// The file of a descriptor.
pub(crate) fn file_of(fd: c_int) -> Option<File> {
    if !is_flagged(fd) {
        return None;
    }
    let file = table()?.files.get(&fd).cloned()?;
    let status = raw::status(fd);
    let is_still = status.is_some_and(|status| file.identity() == (status.st_dev, status.st_ino));
    if !is_still {
        forget(fd);
        return None;
    }
    Some(file)
}

/// The file with this identity, if it is one of ours.
pub(crate) fn file_with(identity: (u64, u64)) -> Option<File> {
    table()?.files.values().find(|file| file.identity() == identity).cloned()
}

/// The descriptor is this file's from now on.
pub(crate) fn remember(fd: c_int, file: File) {
    let (Some(flag), Some(mut table)) = (flag_of(fd), table()) else { return };
    if table.files.insert(fd, file).is_none() {
        COUNT.fetch_add(1, Ordering::AcqRel);
    }
    flag.store(true, Ordering::Release);
}

/// The descriptor is nobody's. Returns the file if that was the last one that could write to it.
pub(crate) fn forget(fd: c_int) -> Option<File> {
    let mut table = table()?;
    let file = table.files.remove(&fd)?;
    COUNT.fetch_sub(1, Ordering::AcqRel);
    if let Some(flag) = flag_of(fd) {
        flag.store(false, Ordering::Release);
    }
    let identity = file.identity();
    let writes = |fd: &c_int| raw::flags_of(*fd) & libc::O_ACCMODE != libc::O_RDONLY;
    let is_used = table.files.iter().any(|(other, it)| it.identity() == identity && writes(other));
    (!is_used).then_some(file)
}

/// Files that a program started now would get, by one of their descriptors.
pub(crate) fn inherited() -> Vec<File> {
    let Some(table) = table() else { return Vec::new() };
    let files = table.files.iter().filter(|(fd, _)| raw::is_inherited(**fd));
    files.map(|(_, file)| file.clone()).collect()
}

/// Descriptors of ours from `first` to `last`.
pub(crate) fn flagged_between(first: u32, last: u32) -> Vec<c_int> {
    let Some(table) = table() else { return Vec::new() };
    let range =
        c_int::try_from(first).unwrap_or(c_int::MAX)..=c_int::try_from(last).unwrap_or(c_int::MAX);
    if range.is_empty() {
        Vec::new()
    } else {
        table.files.range(range).map(|(fd, _)| *fd).collect()
    }
}

/// Every file, once.
pub(crate) fn files() -> Vec<File> {
    let mut files: BTreeMap<(u64, u64), File> = BTreeMap::new();
    if let Some(table) = table() {
        files.extend(table.files.values().map(|file| (file.identity(), file.clone())));
    }
    files.into_values().collect()
}

impl File {
    /// Device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        match self {
            Self::Wal(routed) => routed.identity(),
            Self::Bulk(bulk) => bulk.identity(),
        }
    }
}
