//! Keeping every other process out, and naming the one that is already in.
//!
//! Files are held by `flock` (the lock belongs to the open file, and `/proc/locks` names its owner;
//! an OFD lock would hide the owner) and, so that programs for virtual machines see it too, by an OFD lock
//! of all bytes; block devices by `O_EXCL`, which also refuses a mounted device, and with what lies
//! beneath them ([`crate::beneath`]). All of it outlives a killed process for a moment, because the
//! kernel tears an `io_uring` down in the background: a lock without a living owner is therefore
//! waited for, within a bound. And a process that is just starting another one has for a moment a child
//! that holds all it had open, also what it closes meanwhile: a living owner is asked after more than once.

use crate::beneath;
use crate::byte_lock;
use crate::error::{OpenError, OpenErrorKind};
use crate::identity::Identity;
use crate::users::{self, User};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a killed owner may take to let go: its last commands must come back from the disk.
const DYING_OWNER_WAIT_MAX: Duration = Duration::from_secs(3);
const DYING_OWNER_RETRY: Duration = Duration::from_millis(5);
/// How long a living owner must be seen to be one that stays.
const LIVING_OWNER_WAIT: Duration = Duration::from_millis(50);

/// Takes the locks of a regular file, and refuses one that is in use without locks.
pub(crate) fn lock_file(file: &OwnedFd, path: &str, for_writing: bool) -> Result<(), OpenError> {
    lock_by(file, FlockOperation::NonBlockingLockExclusive, path)?;
    retry_while_owner_leaves(
        || byte_lock::lock_all(file, for_writing).map_or(Ok(()), |_| Err(Errno::WOULDBLOCK)),
        Errno::WOULDBLOCK,
        || byte_lock_owner(file),
    )
    .map_err(|failure| failure.into_error("lock", path))?;
    let stat =
        rustix::fs::fstat(file).map_err(|errno| OpenError::from_errno("open", path, errno))?;
    beneath::refuse_used_file(Identity::of_file(&stat), path)
}

/// Takes one `flock`.
pub(crate) fn lock_by(
    file: &OwnedFd,
    operation: FlockOperation,
    path: &str,
) -> Result<(), OpenError> {
    retry_while_owner_leaves(
        || rustix::fs::flock(file, operation),
        Errno::WOULDBLOCK,
        || lock_owner(file),
    )
    .map_err(|failure| failure.into_error("lock", path))
}

/// Opens a block device that nobody else uses, and takes what lies beneath it.
pub(crate) fn open_device(
    path: &Path,
    flags: OFlags,
) -> Result<(OwnedFd, Vec<OwnedFd>), OpenError> {
    let device = open_whole_device(path, flags)?;
    let shown = path.display().to_string();
    let stat =
        rustix::fs::fstat(&device).map_err(|errno| OpenError::from_errno("open", &shown, errno))?;
    let beneath = beneath::claim(stat.st_rdev, &shown)?;
    Ok((device, beneath))
}

/// Opens a block device that nobody else has, by the kernel's account.
pub(crate) fn open_whole_device(path: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
    let shown = path.display().to_string();
    retry_while_owner_leaves(
        || rustix::fs::open(path, flags | OFlags::EXCL, Mode::empty()),
        Errno::BUSY,
        || users::of_device(fs::metadata(path).ok()?.rdev()),
    )
    .map_err(|failure| failure.into_error("open", &shown))
}

/// Gives the lock up now rather than when the kernel drops its last reference to the file.
pub(crate) fn unlock_file(file: impl AsFd) {
    // Closing unlocks as well; this only makes it prompt.
    byte_lock::unlock_all(&file);
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// Why a disk cannot be had.
pub(crate) enum Failure {
    /// Somebody has it.
    InUse(Option<User>),
    /// Anything else.
    Other(Errno),
}

impl Failure {
    pub(crate) fn into_error(self, action: &str, path: &str) -> OpenError {
        match self {
            Self::InUse(user) => {
                let User { what, advice } = user.unwrap_or_else(|| User {
                    what: "one that cannot be named from here".to_owned(),
                    advice: "stop it, or open another disk".to_owned(),
                });
                let detail = format!(
                    "{path} is in use by another process: expected nobody, found {what}; {advice}"
                );
                OpenError::new(OpenErrorKind::InUse, detail)
            }
            Self::Other(errno) => OpenError::from_errno(action, path, errno),
        }
    }
}

fn retry_while_owner_leaves<T>(
    attempt: impl Fn() -> Result<T, Errno>,
    busy: Errno,
    owner: impl Fn() -> Option<User>,
) -> Result<T, Failure> {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(Errno::INTR) => {}
            Err(errno) if errno == busy => {
                let owner = owner();
                let wait = if owner.is_some() { LIVING_OWNER_WAIT } else { DYING_OWNER_WAIT_MAX };
                if began.elapsed() >= wait {
                    return Err(Failure::InUse(owner));
                }
                // There is no event to wait for: nobody announces the end of a dead owner's I/O, or that a child
                // has become a program of its own.
                std::thread::sleep(DYING_OWNER_RETRY);
            }
            Err(errno) => return Err(Failure::Other(errno)),
        }
    }
}

/// The living process that holds a lock on `file`, according to `/proc/locks`.
fn lock_owner(file: &OwnedFd) -> Option<User> {
    let stat = rustix::fs::fstat(file).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    owner_in(&locks, major, minor, stat.st_ino).and_then(User::process)
}

/// Finds the pid in the text of `/proc/locks`, whose lines read (`proc_locks(5)`)
/// `1: FLOCK  ADVISORY  WRITE 708 fe:00:2097 0 EOF`: pid, then device in hex and inode.
/// A pid of 0 or -1 is an owner that is dead or has none. Behind the number of one that only waits for a lock stands `->`.
fn owner_in(locks: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let is_flock = fields.nth(1)? == "FLOCK";
        let pid: u32 = fields.nth(2)?.parse().ok()?;
        (is_flock && fields.next()? == file && pid != 0).then_some(pid)
    })
}

/// Refuses a file that somebody has locked, whole or in part.
pub(crate) fn refuse_locked(path: &Path) -> Result<(), OpenError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return Ok(()) };
    // Let go again with the file: who asked locks it for itself.
    lock_by(&file, FlockOperation::NonBlockingLockExclusive, &path.display().to_string())?;
    retry_while_owner_leaves(
        || byte_lock::holder(&file).map_or(Ok(()), |_| Err(Errno::WOULDBLOCK)),
        Errno::WOULDBLOCK,
        || byte_lock_owner(&file),
    )
    .map_err(|failure| failure.into_error("lock", &path.display().to_string()))
}

/// The living process with a byte-range lock on `file`.
pub(crate) fn byte_lock_owner(file: &OwnedFd) -> Option<User> {
    if let Some(pid) = byte_lock::holder(file)?.pid {
        return User::process(pid);
    }
    let stat = rustix::fs::fstat(file).ok()?;
    users::with_byte_lock(stat.st_dev, stat.st_ino)
}

#[cfg(test)]
#[path = "exclusive_tests.rs"]
mod tests;
