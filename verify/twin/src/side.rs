//! A side: a block device that acts are carried out on.
//!
//! Both sides have the same size and the same sector size. A side opens its device once for direct
//! and once for buffered I/O, as a long-lived user of it does.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The kernel's device or ours.
pub trait Side {
    /// Word for messages.
    fn name(&self) -> &'static str;
    /// Path of the block device.
    fn device(&self) -> PathBuf;
    /// Files below it, for `du`.
    fn below(&self) -> Vec<PathBuf>;
    /// Takes the device away in order and makes it again; no user has it open.
    fn reattach(&mut self) -> Result<(), String>;
}

/// The open device.
#[derive(Debug)]
pub struct Open {
    /// Past the page cache.
    pub direct: File,
    /// Through the page cache.
    pub buffered: File,
}

impl Open {
    /// Opens the device at `path`.
    pub fn device(path: &Path) -> Result<Self, String> {
        let open = |flags: OFlags| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(flags.bits().cast_signed());
            options.open(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        Ok(Self { direct: open(OFlags::DIRECT)?, buffered: open(OFlags::empty())? })
    }
}

/// Bytes that the files take from their file system, as `du` counts.
pub fn space_taken(files: &[PathBuf]) -> Result<u64, String> {
    let mut sum = 0;
    for file in files {
        let found = std::fs::metadata(file);
        sum += found.map_err(|error| format!("{}: {error}", file.display()))?.blocks() * 512;
    }
    Ok(sum)
}

/// Size of a block device in bytes.
pub fn size_of(device: &Path) -> Result<u64, String> {
    let text = crate::tools::ok("blockdev", &["--getsize64".as_ref(), device.as_os_str()])?;
    text.parse().map_err(|_| format!("blockdev: expected a size, found {text:?}"))
}
