//! `attach --mount`: what is on the device, mounted by whom it belongs to.
//!
//! The first bytes decide. A file system that `nearhead mkfs` made has no journal of its own, since the volume has one; the kernel would mount it
//! and keep none of its promises after a crash. So it is named and left to `nearhead mount`, which has it without a block device. Nothing is
//! ever formatted here.

use super::place::Place;
use nearhead_output::note;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where ext4 keeps its superblock, its mark and what it is compatible with, in bytes of the device.
const EXT4_MARK: (u64, [u8; 2]) = (1024 + 56, [0x53, 0xef]);
const EXT4_COMPATIBLE: u64 = 1024 + 92;
const HAS_JOURNAL: u8 = 4;

/// Refuses a folder at which nothing can be mounted.
pub(super) fn refuse_folder(folder: &Path) -> Result<(), String> {
    if folder.is_dir() {
        return Ok(());
    }
    Err(format!("attach --mount: expected a folder, found none at {}", folder.display()))
}

/// Mounts what is on the device of `place` at `folder`. If that fails, the device stays.
pub(super) fn mount(place: &Place, folder: &Path) -> Result<(), String> {
    let (device, facts) = (place.link(), place.facts()?);
    let failed = |why: &dyn std::fmt::Display| {
        format!(
            "attach --mount {}: {why}. It stays attached as {}; `nearhead detach {}` ends that",
            folder.display(),
            device.display(),
            place.name
        )
    };
    if is_our_own(&facts.device).map_err(|error| failed(&error))? {
        return Err(failed(&format!(
            "expected a file system for the kernel, found one that `nearhead mkfs` made: it needs no block device; detach this, then \
             nearhead mount {} {}",
            facts.target,
            folder.display()
        )));
    }
    let output = Command::new("mount").arg(&facts.device).arg(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&error))?;
    if output.status.success() {
        note(&format!("mounted {} at {} by the kernel", device.display(), folder.display()));
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(failed(&format!(
        "{}; if nothing is on it yet, make a file system first (mkfs.ext4 {})",
        words.trim(),
        device.display()
    )))
}

/// Whether there is an ext4 without a journal.
fn is_our_own(device: &Path) -> io::Result<bool> {
    let file = File::open(device)?;
    let (mut mark, mut compatible) = ([0; 2], [0; 1]);
    file.read_exact_at(&mut mark, EXT4_MARK.0)?;
    file.read_exact_at(&mut compatible, EXT4_COMPATIBLE)?;
    Ok(mark == EXT4_MARK.1 && compatible[0] & HAS_JOURNAL == 0)
}
