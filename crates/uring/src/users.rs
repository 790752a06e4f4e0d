//! Who uses a file or device: what the kernel's lists tell, in words for the one who is refused.
//!
//! Mounts, swap space, devices built on it, loop devices attached to it, and processes that have it
//! open. What cannot be found out (another user's process, another mount namespace) is left unsaid;
//! nothing here refuses anybody.

use crate::identity::Identity;
use crate::loops::Loop;
use crate::mounts;
use crate::sysfs::Kin;
use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

/// Somebody who uses a disk, and how to end that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// A noun phrase.
    pub(crate) what: String,
    /// What to do, as a clause.
    pub(crate) advice: String,
}

impl User {
    fn new(what: String, advice: impl Into<String>) -> Self {
        Self { what, advice: advice.into() }
    }

    /// A living process; `None` for one that has ended, although the kernel may still clean up
    /// after it.
    pub(crate) fn process(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let name = living_name_in(&stat)?;
        if pid == std::process::id() {
            let what = format!("this command itself (process {pid}, {name}), under another name");
            return Some(Self::new(what, "name each disk once"));
        }
        Some(Self::new(format!("process {pid} ({name})"), "stop it, or open another disk"))
    }

    fn mount(point: &str) -> Self {
        Self::new(
            format!("a file system mounted at {point}"),
            format!("unmount it: umount {point}"),
        )
    }

    fn swap(name: &str) -> Self {
        Self::new(
            format!("swap space of this machine ({name})"),
            format!("give it up: swapoff {name}"),
        )
    }

    /// The user of a loop device attached to the disk.
    pub(crate) fn loop_device(found: &Loop) -> Self {
        let device = format!("/dev/{}", found.name);
        let what = format!("the loop device {device} attached to it");
        let detach = format!("detach it: losetup --detach {device}");
        match of_device(found.number()) {
            None => Self::new(what, detach),
            Some(user) => Self::new(
                format!("{what}, in use by {}", user.what),
                format!("{}, then {detach}", user.advice),
            ),
        }
    }
}

/// Who uses the regular file as swap space.
pub(crate) fn swap_on(file: Identity) -> Option<User> {
    let swaps = fs::read_to_string("/proc/swaps").ok()?;
    let path =
        swap_paths_in(&swaps).into_iter().find(|path| Identity::of_path(path) == Some(file))?;
    Some(User::swap(&path.display().to_string()))
}

/// Who keeps a block device busy, or a partition of it, or the whole of which it is one.
pub(crate) fn of_device(number: u64) -> Option<User> {
    let kin = Kin::of(number);
    let mounts = mounts::list();
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let related = kin.sharing_bytes();
    let of_kernel = related.iter().find_map(|number| {
        if let Some(point) = mounts::points_in(&mounts, *number).next() {
            return Some(User::mount(&point));
        }
        let is_it = |path: &PathBuf| Identity::of_path(path) == Some(Identity::Device(*number));
        if let Some(path) = swap_paths_in(&swaps).into_iter().find(is_it) {
            return Some(User::swap(&path.display().to_string()));
        }
        let holder = Kin::of(*number).holders.into_iter().next()?;
        let advice = format!("stop the device {holder} first");
        Some(User::new(format!("the device {holder}, which is built on it"), advice))
    });
    of_kernel.or_else(|| {
        let mut pids: Vec<u32> =
            related.iter().flat_map(|number| with_device_open(*number)).collect();
        // This very process comes last: it is the answer only if nobody else is.
        pids.sort_by_key(|pid| *pid == std::process::id());
        pids.into_iter().find_map(User::process)
    })
}

/// The process with a byte-range lock on the file that belongs to an open file, which
/// `/proc/locks` does not tell but `/proc/PID/fdinfo` does.
pub(crate) fn with_byte_lock(device: u64, inode: u64) -> Option<User> {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let own = std::process::id();
    processes()
        .filter(|pid| *pid != own)
        .find(|pid| {
            let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return false };
            entries.filter_map(Result::ok).any(|entry| {
                fs::read_to_string(entry.path()).is_ok_and(|info| has_byte_lock_in(&info, &file))
            })
        })
        .and_then(User::process)
}

/// Whether the text of `/proc/PID/fdinfo/N` (`proc_pid_fdinfo(5)`) tells of a byte-range lock:
/// `lock:  1: OFDLCK ADVISORY READ -1 fe:00:77 100 100`.
fn has_byte_lock_in(info: &str, file: &str) -> bool {
    info.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.next() == Some("lock:")
            && fields.nth(1) == Some("OFDLCK")
            && fields.nth(3) == Some(file)
    })
}

/// The paths in the text of `/proc/swaps`, but for its first line.
fn swap_paths_in(swaps: &str) -> Vec<PathBuf> {
    let first = |line: &str| line.split_whitespace().next().map(|path| unescaped(path).into());
    swaps.lines().skip(1).filter_map(first).collect()
}

/// Text in which the kernel wrote space, tab, line end and backslash as three octal digits.
pub(crate) fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Only root sees the descriptors of other users' processes; then this stays empty.
fn with_device_open(number: u64) -> Vec<u32> {
    processes().filter(|pid| has_device_open(*pid, number)).collect()
}

fn has_device_open(pid: u32, number: u64) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.filter_map(Result::ok).any(|entry| {
        // What is no device by its name is not looked at: its file system might not answer.
        let is_device = fs::read_link(entry.path()).is_ok_and(|path| path.starts_with("/dev"));
        is_device
            && fs::metadata(entry.path())
                .is_ok_and(|found| found.file_type().is_block_device() && found.rdev() == number)
    })
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

    #[test]
    fn a_process_that_has_ended_keeps_nobody_out() {
        assert_eq!(living_name_in("708 (near (head)) S 1 708"), Some("near (head)"));
        assert_eq!(living_name_in("708 (nearhead) Z 1 708"), None);
        assert_eq!(living_name_in(""), None);
        assert_eq!(User::process(u32::MAX), None);
    }

    #[test]
    fn whoever_has_it_under_another_name_is_told_so_and_another_process_is_named() {
        let own = User::process(std::process::id()).unwrap();
        assert!(own.what.starts_with("this command itself"), "{own:?}");
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let other = User::process(child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(other.unwrap().what, format!("process {} (cat)", child.id()));
        assert_eq!(User::process(child.id()), None, "it has ended");
    }

    #[test]
    fn swap_space_is_listed_after_one_line_of_titles() {
        let swaps =
            "Filename Type Size Used Priority\n/dev/sda2 partition 9 0 -2\n/a\\040b file 9 0 -3\n";
        assert_eq!(swap_paths_in(swaps), [PathBuf::from("/dev/sda2"), PathBuf::from("/a b")]);
    }

    #[test]
    fn a_byte_range_lock_is_told_of_by_its_open_file() {
        let info = "pos:\t0\nlock:\t1: OFDLCK ADVISORY  READ -1 fe:00:77 100 100\n";
        assert!(has_byte_lock_in(info, "fe:00:77"));
        assert!(!has_byte_lock_in(info, "fe:00:7"));
        assert!(!has_byte_lock_in(
            "lock:\t1: FLOCK  ADVISORY  WRITE 7 fe:00:77 0 EOF\n",
            "fe:00:77"
        ));
    }
}
