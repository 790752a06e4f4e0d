//! File systems of the kernel on both devices, swap space, and the space that the files below take.
//!
//! Each step that a tool does must end alike on both sides. The files in the file system must have the
//! same bytes after its worker was killed, and after it was mounted again. At the end the devices are
//! discarded, and hold zeros.

use crate::act::{FileSystem, Who, word_of};
use crate::allowed::METADATA_BYTES;
use crate::content;
use crate::history::{History, Reached};
use crate::run::Twin;
use crate::side::{Side, space_taken};
use crate::{Step, differs, tools};
use std::path::{Path, PathBuf};

const SPACE: &str = "files below take no more space than the oracle's, logs apart";
const SAME_STEPS: &str = "a tool ends alike on both sides";
const SAME_FILES: &str = "files have the same bytes on both sides";
const ZEROS: &str = "a discarded device reads as zeros";
/// Files that are written, and the bytes of the largest.
const FILES: u64 = 24;
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Smallest device that each file system takes.
const XFS_BYTES_MIN: u64 = 320 << 20;
const BTRFS_BYTES_MIN: u64 = 128 << 20;

/// Tools of a file system: to make it, and to check it unmounted.
fn tools_of(kind: FileSystem) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        FileSystem::Ext4 => (&["mkfs.ext4", "-q", "-F"], &["e2fsck", "-fn"]),
        FileSystem::Xfs => (&["mkfs.xfs", "-q", "-f"], &["xfs_repair", "-n"]),
        FileSystem::Btrfs => (&["mkfs.btrfs", "-q", "-f"], &["btrfs", "check"]),
    }
}

/// Why the machine or the device has no file system of this kind.
pub fn why_not(kind: FileSystem, size_bytes: u64) -> Option<String> {
    let (make, check) = tools_of(kind);
    if let Err(why) = tools::need(&[make[0], check[0], "mount", "umount", "fstrim"]) {
        return Some(why);
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let word = word_of(&FileSystem::ALL, &kind);
    if !known.split_whitespace().any(|own| own == word) {
        return Some(format!("the kernel has no {word}"));
    }
    let min = match kind {
        FileSystem::Ext4 => 0,
        FileSystem::Xfs => XFS_BYTES_MIN,
        FileSystem::Btrfs => BTRFS_BYTES_MIN,
    };
    (size_bytes < min).then(|| format!("{word} takes a device of {min} bytes"))
}

/// Makes, uses, trims and checks a file system on both sides.
pub fn use_one(twin: &mut Twin, kind: FileSystem) -> Step {
    if let Some(why) = why_not(kind, twin.shape()?.size_bytes) {
        println!("skipped: {}: {why}", word_of(&FileSystem::ALL, &kind));
        return Ok(());
    }
    twin.close_both();
    let folder = twin.scratch.0.join("mounted");
    let created = std::fs::create_dir_all(&folder);
    created.map_err(|error| format!("{}: {error}", folder.display()))?;
    let (make, check) = tools_of(kind);
    let devices = [twin.oracle.device(), twin.subject.device()];
    both(&devices, |device| tool(make, device))?;
    compare_space(twin, "mkfs")?;
    let subject = devices[1].clone();
    let sums = both_give(&devices, |device| {
        let mounted = Mounted::new(device, &folder, "rw")?;
        write_files(&folder)?;
        if *device == subject {
            twin.subject.kill(Who::Worker)?;
        }
        tools::ok("sync", &["--file-system".as_ref(), folder.as_os_str()])?;
        let before = sums_in(&folder)?;
        tools::ok("fstrim", &[&folder])?;
        mounted.unmount()?;
        tool(check, device)?;
        let mounted = Mounted::new(device, &folder, "ro")?;
        let after = sums_in(&folder)?;
        mounted.unmount()?;
        if before == after { Ok(after) } else { Err("other bytes after a remount".to_owned()) }
    })?;
    if sums[0] != sums[1] {
        return differs(SAME_FILES, format!("expected {}, found {}", sums[0], sums[1]));
    }
    compare_space(twin, "fstrim")?;
    wipe(twin)
}

/// Makes swap space on both sides, switches it on and off.
pub fn swap(twin: &mut Twin) -> Step {
    if let Err(why) = tools::need(&["mkswap", "swapon", "swapoff"]) {
        println!("skipped: swap: {why}");
        return Ok(());
    }
    twin.close_both();
    let devices = [twin.oracle.device(), twin.subject.device()];
    let id = "6e656172-6865-6164-0000-000000000001";
    both(&devices, |device| tool(&["mkswap", "-U", id], device))?;
    both(&devices, |device| tool(&["swapon"], device))?;
    twin.subject.kill(Who::Worker)?;
    both(&devices, |device| tool(&["swapoff"], device))?;
    wipe(twin)
}

/// Discards both devices; they hold zeros, and the files below no space.
fn wipe(twin: &mut Twin) -> Step {
    let devices = [twin.oracle.device(), twin.subject.device()];
    both(&devices, |device| tool(&["blkdiscard", "-f"], device))?;
    both(&devices, |device| tool(&["blockdev", "--flushbufs"], device))?;
    twin.history = History::default();
    twin.open_both()?;
    if let Some(pair) = &twin.open {
        let synced = [&pair.subject, &pair.oracle].map(|open| open.buffered.sync_all());
        for result in synced {
            result.map_err(|error| format!("flush after a discard: {error}"))?;
        }
    }
    twin.compare(Reached::Cache, ZEROS)?;
    compare_space(twin, "discard")
}

/// `du` of the files below: logs and metadata may come on top.
fn compare_space(twin: &Twin, after: &str) -> Step {
    if !twin.medium.disks.is_empty() {
        // An emulated disk keeps what it likes.
        return Ok(());
    }
    let found = space_taken(&twin.subject.below())?;
    let expected = space_taken(&twin.oracle.below())?;
    let allowed = expected + twin.subject.logs_bytes + METADATA_BYTES;
    if found <= allowed {
        return Ok(());
    }
    let mib = |bytes: u64| bytes >> 20;
    let detail = format!(
        "after {after}: {} MiB, the oracle's {} MiB, allowed {} MiB",
        mib(found),
        mib(expected),
        mib(allowed)
    );
    differs(SPACE, detail)
}

fn tool(words: &[&str], device: &Path) -> Result<(), String> {
    let args = words[1..].iter().map(std::ffi::OsStr::new).chain([device.as_os_str()]);
    tools::ok(words[0], &args.collect::<Vec<_>>()).map(drop)
}

fn both(devices: &[PathBuf; 2], work: impl Fn(&Path) -> Result<(), String>) -> Step {
    both_give(devices, |device| work(device)).map(drop)
}

/// The same on the oracle, then on the subject, which must not fail where the oracle did not.
fn both_give<T>(
    devices: &[PathBuf; 2],
    work: impl Fn(&PathBuf) -> Result<T, String>,
) -> Step<[T; 2]> {
    let oracle = work(&devices[0])?;
    let subject = work(&devices[1]).or_else(|why| differs(SAME_STEPS, why))?;
    Ok([oracle, subject])
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct Mounted(Option<PathBuf>);

impl Mounted {
    /// Mounts `device` at `folder`.
    pub fn new(device: &Path, folder: &Path, options: &str) -> Result<Self, String> {
        let args = ["-o".as_ref(), options.as_ref(), device.as_os_str(), folder.as_os_str()];
        tools::ok("mount", &args)?;
        Ok(Self(Some(folder.to_owned())))
    }

    /// Unmounts it in order.
    pub fn unmount(mut self) -> Result<(), String> {
        let folder = self.0.take().unwrap_or_default();
        tools::unmounted("umount", &[folder.as_os_str()])
    }
}

impl Mounted {
    /// Unmounts it, in order if that is possible.
    pub fn end(&mut self) {
        let Some(folder) = self.0.take() else { return };
        if tools::ok("umount", &[&folder]).is_err() {
            let _ = tools::run("umount", &["--lazy".as_ref(), folder.as_os_str()]);
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.end();
    }
}

fn write_files(folder: &Path) -> Result<(), String> {
    for number in 1..=FILES {
        let path = folder.join(format!("file{number}"));
        let len = number * number * 7919 % FILE_BYTES_MAX;
        let done = std::fs::write(&path, content::bytes(number, 0, len));
        done.map_err(|error| format!("{}: {error}", path.display()))?;
        if number % 3 == 0 {
            let removed = folder.join(format!("file{}", number - 1));
            std::fs::remove_file(&removed)
                .map_err(|error| format!("{}: {error}", removed.display()))?;
        }
    }
    Ok(())
}

/// A sum over names and bytes of all files, read past the page cache's pages of them.
fn sums_in(folder: &Path) -> Result<String, String> {
    let script = "find . -xdev -type f | LC_ALL=C sort | xargs cksum | cksum";
    let mut command = tools::command("sh", &["-c", script]);
    let output = command.current_dir(folder).output();
    let output = output.map_err(|error| format!("cksum: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(text) } else { Err(tools::words_of(&output)) }
}
