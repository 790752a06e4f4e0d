//! `nearhead mkfs`: an empty ext4 file system on a volume.
//!
//! The metadata is made by `mkfs.ext4` of e2fsprogs in a sparse file and copied from there: what others read is made by those who
//! defined it. Nothing else of the volume is read or kept.

use crate::offline::{self, Offline};
use crate::target::{Access, DiskArgs};
use crate::units::ByteSize;
use nearhead_disk::{BufferMut, Payload};
use nearhead_ext4::Ext4;
use nearhead_output::say;
use nearhead_service::{Operation, Service};
use rustix::fs::SeekFrom;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Features that are left out: the volume under the file system has logs, and names are found by an index in memory.
const LEFT_OUT: &str = "^has_journal,^dir_index,^resize_inode,^orphan_file";
/// Bytes copied at once.
const PIECE_BYTES: u64 = 256 << 10;
/// What is given back in one request.
const TRIM_BYTES: u64 = 1 << 30;

/// What `nearhead mkfs` is told.
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
    /// Also over a file system that is there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// Runs the command.
pub fn run(args: &MkfsArgs) -> Result<(), String> {
    let mut offline = offline::open(&args.target, Access::Write, &args.disk, false)?;
    refuse_to_overwrite(args, &mut offline)?;
    let size = offline.volume.info().size_bytes;
    let (file, path) = scratch(size)?;
    let made = make(args, &path).and_then(|()| {
        give_back(&mut offline, size)?;
        copy(&file, &mut offline)
    });
    // It is gone in any case: nobody needs it.
    let _ = std::fs::remove_file(&path);
    made?;
    offline.close()?;
    say(&format!("made an ext4 file system of {} on {}", ByteSize(size), args.target));
    Ok(())
}

fn refuse_to_overwrite(args: &MkfsArgs, offline: &mut Offline) -> Result<(), String> {
    if args.force {
        return Ok(());
    }
    let first = offline.read(0, nearhead_ext4::BLOCK_BYTES as u32)?;
    match Ext4::probe(&first) {
        Ok(_) => Err(format!(
            "mkfs {}: expected a volume without a file system, found one; --force makes a new one over it",
            args.target
        )),
        Err(_) => Ok(()),
    }
}

/// A sparse file of this length that only this process needs.
fn scratch(size: u64) -> Result<(File, PathBuf), String> {
    let path = std::env::temp_dir().join(format!("nearhead-mkfs-{}", std::process::id()));
    let failed = |error: io::Error| format!("cannot use {}: {error}", path.display());
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(failed)?;
    file.set_len(size).map_err(failed)?;
    Ok((file, path))
}

fn make(args: &MkfsArgs, path: &PathBuf) -> Result<(), String> {
    let mut command = super::e2fsprogs("mkfs.ext4");
    command.args(["-q", "-F", "-b", "4096", "-I", "256", "-O", LEFT_OUT]);
    command.args(["-E", "lazy_itable_init=1,nodiscard", "-L", &args.label]);
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

/// Nothing of what the volume held is needed.
fn give_back(offline: &mut Offline, size: u64) -> Result<(), String> {
    let mut offset = 0;
    while offset < size {
        let len = TRIM_BYTES.min(size - offset);
        offline.request(Operation::Trim { offset, len, fua: false })?;
        offset += len;
    }
    Ok(())
}

/// Copies what is stored in the file.
fn copy(file: &File, offline: &mut Offline) -> Result<(), String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("mkfs: cannot read what was made: {error}");
    let size = file.metadata().map_err(|error| failed(&error))?.len();
    let mut at = 0;
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
    offline.request(Operation::Flush)
}
