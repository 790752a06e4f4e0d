//! Images: an empty one, and what e2fsck says of one.

use super::{BLOCK, Blocks};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

/// An empty file system of this size; `None`, with a word why, where no program makes one.
pub fn empty(size: u64) -> Option<Blocks> {
    made(size, &[])
}

/// The same, in groups of so many blocks, none of which are kept for root.
pub fn empty_in_groups(size: u64, blocks: u32) -> Option<Blocks> {
    made(size, &["-m", "0", "-g", &blocks.to_string()])
}

/// The same, with so many percent of its blocks for root alone.
pub fn empty_with_reserve(size: u64, percent: u32) -> Option<Blocks> {
    made(size, &["-m", &percent.to_string()])
}

fn made(size: u64, arguments: &[&str]) -> Option<Blocks> {
    let path = scratch("empty");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(size).unwrap();
    let features = "^has_journal,^dir_index,^resize_inode,^orphan_file";
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-I", "256", "-O", features])
        .args(["-E", "lazy_itable_init=1,nodiscard"])
        .args(arguments)
        .arg(&path)
        .status();
    let blocks = match made {
        Ok(status) if status.success() => Some(blocks_of(&path)),
        _ => {
            println!("skipped: expected mkfs.ext4 (package e2fsprogs), found none");
            None
        }
    };
    let _ = std::fs::remove_file(path);
    blocks
}

fn blocks_of(path: &PathBuf) -> Blocks {
    let bytes = std::fs::read(path).unwrap();
    let stored = (0..).zip(bytes.chunks(BLOCK)).filter(|(_, part)| part.iter().any(|it| *it != 0));
    stored.map(|(block, part)| (block, Rc::new(part.to_vec()))).collect()
}

pub fn scratch(what: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("nearhead-fs-{what}-{}-{number}", std::process::id()))
}

/// Panics with what e2fsck says, unless it finds nothing.
pub fn assert_clean(size: u64, blocks: &Blocks, told: &str) {
    use std::os::unix::fs::FileExt;
    let path = scratch("fsck");
    let mut file = std::fs::File::create(&path).unwrap();
    file.set_len(size).unwrap();
    for (block, bytes) in blocks {
        file.write_all_at(bytes, block * BLOCK as u64).unwrap();
    }
    file.flush().unwrap();
    let output = Command::new("e2fsck").arg("-fn").arg(&path).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let kept = std::env::temp_dir().join("nearhead-fs-failed.img");
        let _ = std::fs::copy(&path, &kept);
        panic!("{told}: e2fsck (image kept at {}):\n{words}", kept.display());
    }
    let _ = std::fs::remove_file(path);
}
