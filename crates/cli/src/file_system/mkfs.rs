//! `nearhead mkfs`: an empty ext4 file system on a volume.
//!
//! The metadata is made by `mkfs.ext4` of e2fsprogs in a sparse file and copied from there: what others read is made by those who
//! defined it. Nothing else of the volume is read or kept. Content of any kind is refused unless the operator insists. The ends of the
//! volume, where file systems have their superblocks, are zeroed first and the first block is written last: what an interruption leaves
//! is never taken for a file system.

use crate::offline::{self, Offline};
use crate::target::{Access, DiskArgs};
use crate::unfinished::Unfinished;
use crate::units::ByteSize;
use nearhead_disk::{BufferMut, Payload};
use nearhead_output::{say, say_json};
use nearhead_service::{Operation, Service};
use nearhead_volume::{PROBED_END_BYTES, PROBED_START_BYTES, probe_device};
use rustix::fs::SeekFrom;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Features that are left out: the volume under the file system has logs, and names are found by an index in memory.
const LEFT_OUT: &str = "^has_journal,^dir_index,^resize_inode,^orphan_file";
/// Bytes copied at once.
const PIECE_BYTES: u64 = 256 << 10;
/// The block with the superblock.
const FIRST_BYTES: u64 = 4096;
/// Bytes of one trim.
const TRIM_BYTES: u64 = 1 << 30;

/// Arguments of `nearhead mkfs`.
#[derive(clap::Args, Debug)]
pub struct MkfsArgs {
    /// The volume: block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// Name of the file system, up to 16 bytes
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub label: String,
    /// Bytes for each inode that there is room for [default: as mkfs.ext4 has it]
    #[arg(long, value_name = "BYTES")]
    pub bytes_per_inode: Option<ByteSize>,
    /// Overwrite whatever is on the volume
    #[arg(long)]
    pub force: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// The file system that was made.
#[derive(Debug, Serialize)]
struct Made<'a> {
    target: &'a str,
    size_bytes: u64,
    label: &'a str,
}

/// Runs the command.
pub fn run(args: &MkfsArgs) -> Result<(), String> {
    let mut offline = offline::open(&args.target, Access::Write, &args.disk, false)?;
    refuse_to_overwrite(args, &mut offline)?;
    let size = offline.volume.info().size_bytes;
    let unfinished = Unfinished::begin("mkfs")?;
    let (file, path) = scratch(size, &unfinished)?;
    let made = make(args, &path).and_then(|()| {
        unfinished
            .leaves(&format!("{} holds no file system; run `nearhead mkfs` again", args.target));
        clear_ends(&mut offline, size)?;
        give_back(&mut offline, size)?;
        copy(&file, &mut offline)
    });
    if made.is_err() {
        unfinished.failed();
    }
    // It is gone in any case: no command needs it.
    let _ = std::fs::remove_file(&path);
    made?;
    offline.close()?;
    unfinished.finish();
    if args.json {
        return say_json(&Made { target: &args.target, size_bytes: size, label: &args.label });
    }
    say(&format!("made an ext4 file system of {} on {}", ByteSize(size), args.target));
    Ok(())
}

fn refuse_to_overwrite(args: &MkfsArgs, offline: &mut Offline) -> Result<(), String> {
    if args.force {
        return Ok(());
    }
    let size = offline.volume.info().size_bytes;
    // What cannot be read may be anything.
    let found =
        probe_device(size, |offset, len| offline.read(offset, len as u32)).map_err(|error| {
            format!(
                "mkfs {}: cannot find out what is on the volume: {error}; --force overwrites it",
                args.target
            )
        })?;
    if found.is_empty() {
        return Ok(());
    }
    Err(format!(
        "mkfs {}: expected an empty volume, found {found}; use another volume, or --force to overwrite what is there",
        args.target
    ))
}

/// Zeros where file systems and others have what they are known by.
fn clear_ends(offline: &mut Offline, size: u64) -> Result<(), String> {
    let (start, end) = (size.min(PROBED_START_BYTES as u64), size.min(PROBED_END_BYTES as u64));
    for (offset, len) in [(0, start), (size - end, end)] {
        let (fua, fast_only, may_unmap) = (false, false, true);
        offline.request(Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap })?;
    }
    offline.request(Operation::Flush)
}

/// A sparse file of this length that only this process needs.
fn scratch(size: u64, unfinished: &Unfinished) -> Result<(File, PathBuf), String> {
    let path = std::env::temp_dir().join(format!("nearhead-mkfs-{}", std::process::id()));
    let failed = |error: io::Error| format!("cannot use {}: {error}", path.display());
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(failed)?;
    unfinished.add(&path);
    unfinished.are_locked();
    if let Err(error) = file.set_len(size) {
        let _ = std::fs::remove_file(&path);
        return Err(format!(
            "{}; its file system takes no file of the volume's size: set TMPDIR to a folder on another",
            failed(error)
        ));
    }
    Ok((file, path))
}

fn make(args: &MkfsArgs, path: &PathBuf) -> Result<(), String> {
    let mut command = super::e2fsprogs("mkfs.ext4");
    command.args(["-q", "-F", "-b", "4096", "-I", "256", "-O", LEFT_OUT]);
    // The root folder belongs to the user who makes the file system, who could not write in it otherwise.
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let extended =
        format!("lazy_itable_init=1,nodiscard,root_owner={}:{}", user.as_raw(), group.as_raw());
    command.args(["-E", &extended, "-L", &args.label]);
    if let Some(ByteSize(bytes)) = args.bytes_per_inode {
        command.args(["-i", &bytes.to_string()]);
    }
    command.arg(path);
    let told = command.output().map_err(|error| {
        format!("mkfs: expected the program mkfs.ext4 (package e2fsprogs), found none: {error}")
    })?;
    if told.status.success() {
        return Ok(());
    }
    Err(format!("mkfs.ext4: {}", String::from_utf8_lossy(&told.stderr).trim()))
}

/// Frees the content of the volume.
fn give_back(offline: &mut Offline, size: u64) -> Result<(), String> {
    let mut offset = 0;
    while offset < size {
        let len = TRIM_BYTES.min(size - offset);
        offline.request(Operation::Trim { offset, len, fua: false })?;
        offset += len;
    }
    Ok(())
}

/// Copies what is stored in the file, the first block last.
fn copy(file: &File, offline: &mut Offline) -> Result<(), String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("mkfs: cannot read what was made: {error}");
    let size = file.metadata().map_err(|error| failed(&error))?.len();
    let mut at = FIRST_BYTES;
    while at < size {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(failed(&error)),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(data)).map_err(|error| failed(&error))?;
        at = data;
        while at < end {
            let len = PIECE_BYTES.min(end - at);
            let mut piece = BufferMut::zeroed(len as usize);
            file.read_exact_at(&mut piece, at).map_err(|error| failed(&error))?;
            let data = Payload::Bytes(piece.freeze());
            offline.request(Operation::Write { offset: at, data, fua: false })?;
            at += len;
        }
    }
    offline.request(Operation::Flush)?;
    let mut first = BufferMut::zeroed(FIRST_BYTES as usize);
    file.read_exact_at(&mut first, 0).map_err(|error| failed(&error))?;
    let data = Payload::Bytes(first.freeze());
    offline.request(Operation::Write { offset: 0, data, fua: true })
}
