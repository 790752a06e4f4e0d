//! Keeping every other process out, and naming the one that is already in.
//!
//! Files are held by `flock` (the lock belongs to the open file, and `/proc/locks` names its owner;
//! an OFD lock would hide the owner), block devices by `O_EXCL`, which also refuses a mounted
//! device. Both outlive a killed process for a moment, because the kernel tears an `io_uring` down
//! in the background: a lock without a living owner is therefore waited for, within a bound. And a process
//! that is just starting another one has for a moment a child that holds all it had open, also what it
//! closes meanwhile: a living owner is asked after more than once.

use crate::error::{OpenError, OpenErrorKind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a killed owner may take to let go: its last commands must come back from the disk.
const DYING_OWNER_WAIT_MAX: Duration = Duration::from_secs(3);
const DYING_OWNER_RETRY: Duration = Duration::from_millis(5);
/// How long a living owner must be seen to be one that stays.
const LIVING_OWNER_WAIT: Duration = Duration::from_millis(50);

/// Takes the lock of a regular file.
pub(crate) fn lock_file(file: &OwnedFd, path: &str) -> Result<(), OpenError> {
    retry_while_owner_leaves(
        || rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive),
        Errno::WOULDBLOCK,
        || lock_owner(file),
    )
    .map_err(|failure| failure.into_error("lock", path))
}

/// Opens a block device that nobody else uses.
pub(crate) fn open_device(path: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
    let shown = path.display().to_string();
    retry_while_owner_leaves(
        || rustix::fs::open(path, flags | OFlags::EXCL, Mode::empty()),
        Errno::BUSY,
        || device_user(path),
    )
    .map_err(|failure| failure.into_error("open", &shown))
}

/// Gives the lock up now rather than when the kernel drops its last reference to the file.
pub(crate) fn unlock_file(file: impl AsFd) {
    // Closing unlocks as well; this only makes it prompt.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

enum Failure {
    InUse(Option<String>),
    Other(Errno),
}

impl Failure {
    fn into_error(self, action: &str, path: &str) -> OpenError {
        match self {
            Self::InUse(user) => {
                let user = user.unwrap_or_else(|| "one that cannot be named from here".to_owned());
                let detail = format!(
                    "{path} is in use by another process: expected nobody, found {user}; stop it, or open another disk"
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
    owner: impl Fn() -> Option<String>,
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
fn lock_owner(file: &OwnedFd) -> Option<String> {
    let stat = rustix::fs::fstat(file).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    owner_in(&locks, major, minor, stat.st_ino).and_then(describe_living_process)
}

/// Finds the pid in the text of `/proc/locks`, whose lines read (`proc_locks(5)`)
/// `1: FLOCK  ADVISORY  WRITE 708 fe:00:2097 0 EOF`: pid, then device in hex and inode.
/// A pid of 0 or -1 is an owner that is dead or has none.
fn owner_in(locks: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip_while(|field| *field == "->");
        let is_flock = fields.nth(1)? == "FLOCK";
        let pid: u32 = fields.nth(2)?.parse().ok()?;
        (is_flock && fields.next()? == file && pid != 0).then_some(pid)
    })
}

/// Who keeps a block device busy: a mount, a device built on it, or a process that has it open.
fn device_user(path: &Path) -> Option<String> {
    let number = fs::metadata(path).ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(point) = mount_point_in(&mounts, major, minor) {
        return Some(format!("a file system mounted at {point}"));
    }
    let holders = fs::read_dir(format!("/sys/dev/block/{major}:{minor}/holders")).ok();
    if let Some(holder) = holders.and_then(|mut entries| entries.next()).and_then(Result::ok) {
        return Some(format!("the device {}", holder.file_name().to_string_lossy()));
    }
    process_with_device_open(number).and_then(describe_living_process)
}

/// The mount point of a device in the text of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`):
/// the third field is `major:minor`, the fifth the mount point.
fn mount_point_in(mounts: &str, major: u32, minor: u32) -> Option<String> {
    let device = format!("{major}:{minor}");
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let found = fields.next()? == device;
        let point = fields.nth(1)?;
        found.then(|| point.to_owned())
    })
}

/// Only root sees the descriptors of other users' processes; then this stays `None`.
fn process_with_device_open(number: u64) -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?;
    let own = std::process::id();
    let pids = processes
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    let mut users: Vec<u32> = pids.filter(|pid| has_device_open(*pid, number)).collect();
    // This very process comes last: it is the answer only if nobody else is.
    users.sort_by_key(|pid| *pid == own);
    users.first().copied()
}

fn has_device_open(pid: u32, number: u64) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.filter_map(Result::ok).any(|entry| {
        fs::metadata(entry.path())
            .is_ok_and(|found| found.file_type().is_block_device() && found.rdev() == number)
    })
}

/// `None` for a process that has ended, although the kernel may still clean up after it.
fn describe_living_process(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    living_name_in(&stat).map(|name| format!("process {pid} ({name})"))
}

/// The name in the text of `/proc/PID/stat` (`proc_pid_stat(5)`): `708 (name) S ...`, where the
/// name may hold anything, and the state is Z or X for a process that has ended.
fn living_name_in(stat: &str) -> Option<&str> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let state = rest.trim_start().chars().next()?;
    (!matches!(state, 'Z' | 'X' | 'x')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 41 fe:00:77 0 EOF\n\
                         2: FLOCK  ADVISORY  WRITE 708 fe:00:77 0 EOF\n\
                         2: -> FLOCK  ADVISORY  WRITE 9 fe:00:77 0 EOF\n\
                         3: FLOCK  ADVISORY  WRITE 0 fe:00:78 0 EOF\n\
                         4: OFDLCK ADVISORY  WRITE -1 fe:00:79 0 EOF\n";

    #[test]
    fn the_owner_of_a_lock_is_found_by_device_and_inode() {
        assert_eq!(owner_in(LOCKS, 0xfe, 0, 77), Some(708));
        assert_eq!(owner_in(LOCKS, 0xfd, 0, 77), None);
        assert_eq!(owner_in(LOCKS, 0xfe, 0, 7), None);
    }

    #[test]
    fn a_dead_or_unnamed_owner_is_nobody() {
        assert_eq!(owner_in(LOCKS, 0xfe, 0, 78), None);
        assert_eq!(owner_in(LOCKS, 0xfe, 0, 79), None);
    }

    #[test]
    fn a_line_that_does_not_parse_is_passed_over() {
        assert_eq!(
            owner_in("nonsense\n\n5:\n1: FLOCK ADVISORY WRITE x fe:00:1 0 EOF", 0xfe, 0, 1),
            None
        );
    }

    #[test]
    fn a_process_that_has_ended_keeps_nobody_out() {
        assert_eq!(living_name_in("708 (near (head)) S 1 708"), Some("near (head)"));
        assert_eq!(living_name_in("708 (nearhead) Z 1 708"), None);
        assert_eq!(living_name_in(""), None);
        assert_eq!(describe_living_process(u32::MAX), None);
    }

    #[test]
    fn the_mount_point_is_found_by_device_number() {
        let mounts = "36 35 254:0 / / rw,relatime - ext4 /dev/vda rw\n40 36 7:3 / /mnt/x rw - ext4 /dev/loop3 rw\n";
        assert_eq!(mount_point_in(mounts, 7, 3).as_deref(), Some("/mnt/x"));
        assert_eq!(mount_point_in(mounts, 7, 33), None);
    }
}
