//! A block device under a mount, for the kernel alone: it reports `sync(2)`, `syncfs(2)` and the sync of `umount` to mounts that have one.
//!
//! The device is a loop device over a page of memory. No byte of the file system is on it, and neither side reads it. The kernel lets it go
//! with the mount.

use rustix::fs::MemfdFlags;
use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;

/// First kernel that reports syncs to every mount of this kind.
const KERNEL_MIN: (u32, u32) = (6, 18);
/// Length of the device: a block of the file system.
pub(super) const DEVICE_BYTES: u64 = 4096;

/// A loop device that goes when nothing uses it any more.
#[derive(Debug)]
pub(super) struct BlockSource {
    pub(super) path: String,
}

impl BlockSource {
    pub(super) fn new() -> io::Result<Self> {
        if !is_new_enough(rustix::system::uname().release().to_string_lossy().as_ref()) {
            let (major, minor) = KERNEL_MIN;
            return Err(io::Error::other(format!("expected Linux {major}.{minor} or later")));
        }
        let memory = rustix::fs::memfd_create("nearhead-mount", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&memory, DEVICE_BYTES)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        let output = Command::new("losetup").args(["--find", "--show", &path]).output()?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(io::Error::other(words));
        }
        Ok(Self { path: String::from_utf8_lossy(&output.stdout).trim().to_owned() })
    }
}

impl Drop for BlockSource {
    /// While it is mounted the kernel defers this to the end of the mount.
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).output();
    }
}

fn is_new_enough(release: &str) -> bool {
    let mut numbers = release.split(|part: char| !part.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    match (next(), next()) {
        (Some(major), Some(minor)) => (major, minor) >= KERNEL_MIN,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_compared_by_its_numbers() {
        for release in ["6.18.0", "6.18-rc1", "6.100.3", "7.0.0-generic"] {
            assert!(is_new_enough(release), "{release}");
        }
        for release in ["6.17.9", "5.19.0", "", "six", "6"] {
            assert!(!is_new_enough(release), "{release}");
        }
    }
}
