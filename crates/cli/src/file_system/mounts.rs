//! How `umount` knows that the daemon of a mount has made everything durable: the daemon holds a lock on a file that is named after the
//! mounted device, and lets go of it when it ends, however it ends.

use crate::control::{directories, prepare};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A mount that is served; its file goes with it.
pub(super) struct Served {
    path: PathBuf,
    _locked: File,
}

fn name_of(device: u64) -> String {
    format!("mount-{device}.lock")
}

impl Served {
    /// This process serves the mount with this device number. None where no file can be made: then `umount` does not wait.
    pub(super) fn note(device: u64) -> Option<Self> {
        let name = name_of(device);
        let path = directories().into_iter().find(|directory| prepare(directory))?.join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { path, _locked: file })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The file of whoever serves what is mounted at `folder`, if there is one.
pub(super) fn find(folder: &Path) -> Option<File> {
    let name = name_of(std::fs::metadata(folder).ok()?.dev());
    directories().iter().find_map(|directory| File::open(directory.join(&name)).ok())
}

/// Waits until it has ended.
pub(super) fn wait_for(file: &File) -> std::io::Result<()> {
    Ok(flock(file, FlockOperation::LockShared)?)
}
