//! Which bytes a name stands for: a regular file's inode or a block device's number.
//!
//! Two names with one identity are one disk, whatever links, spellings and mount points lead to it.

use rustix::fs::Stat;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A regular file: the number of its file system and its inode.
    File {
        /// `st_dev`.
        device: u64,
        /// `st_ino`.
        inode: u64,
    },
    /// A block device: its number.
    Device(u64),
}

impl Identity {
    /// Of what `path` leads to now, if that is a file or a block device.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        if found.file_type().is_block_device() {
            return Some(Self::Device(found.rdev()));
        }
        let file = Self::File { device: found.dev(), inode: found.ino() };
        found.is_file().then_some(file)
    }

    /// Of an open regular file.
    pub(crate) fn of_file(stat: &Stat) -> Self {
        Self::File { device: stat.st_dev, inode: stat.st_ino }
    }
}
