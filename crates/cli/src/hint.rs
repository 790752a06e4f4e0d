//! `nearhead hint`: tells what a range of a volume is used for, or the ranges of a file on a file system that is on it.

mod file;

use crate::control::Client;
use crate::offline;
use crate::report::StatusReport;
use crate::target::{Access, DiskArgs};
use crate::units::ByteSize;
use nearhead_output::{note, say};
use nearhead_service::{Hint, Operation};
use std::path::{Path, PathBuf};

/// What `nearhead hint` is told.
#[derive(clap::Args, Debug)]
pub struct HintArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// First byte of the range
    #[arg(long, value_name = "BYTES", required_unless_present = "file")]
    pub offset: Option<ByteSize>,
    /// Length of the range
    #[arg(long, value_name = "BYTES", required_unless_present = "file")]
    pub len: Option<ByteSize>,
    /// Instead: the ranges where this file lies now, on a file system (ext4, xfs) on the NBD or loop device that the volume is
    #[arg(long, value_name = "PATH", conflicts_with_all = ["offset", "len"])]
    pub file: Option<PathBuf>,
    /// The use
    #[arg(long, value_enum)]
    pub kind: KindArg,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// What a range is used for.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindArg {
    /// Needed only after a crash, soon trimmed: kept in the logs, brought home last
    DurabilityOnly,
    /// No special use
    Normal,
}

/// Ranges that a volume keeps, at most.
const RANGES_MAX: usize = 4096;

/// Runs the command.
pub fn run(args: &HintArgs) -> Result<(), String> {
    let (name, hint) = match args.kind {
        KindArg::DurabilityOnly => ("durability-only", Hint::DurabilityOnly),
        KindArg::Normal => ("normal", Hint::Normal),
    };
    let client = Client::find(&args.target, args.control.as_deref())?;
    if let Some(path) = &args.file {
        return of_file(args, path, client, name);
    }
    let (offset, len) = (args.offset.map_or(0, |it| it.0), args.len.map_or(0, |it| it.0));
    if let Some(mut client) = client {
        let _: String = client.ask(&format!("hint {offset} {len} {name}"))?;
    } else {
        let mut offline = offline::open(&args.target, Access::Write, &args.disk, false)?;
        offline.request(Operation::Hint { offset, len, hint })?;
        offline.close()?;
    }
    say(&format!("{len} bytes at byte {offset} of {} are {name} now", args.target));
    Ok(())
}

/// The ranges of a file, which is on the volume that a daemon serves.
fn of_file(args: &HintArgs, path: &Path, client: Option<Client>, name: &str) -> Result<(), String> {
    let shown = path.display();
    let Some(mut client) = client else {
        return Err(format!(
            "hint --file {shown}: expected a daemon that serves {}, found none: a file is there only while its file system is mounted",
            args.target
        ));
    };
    if let Some(folder) = path.parent()
        && Client::find(&folder.to_string_lossy(), None)?.is_some()
    {
        return Err(format!(
            "hint --file {shown}: it lies on a file system of Nearhead's, which knows its files: `chattr +j {shown}`, for good"
        ));
    }
    let report: StatusReport = client.ask("status")?;
    let placed = file::placed(path, report.volume.client_bytes)?;
    let count = placed.ranges.len();
    if count > RANGES_MAX {
        return Err(format!(
            "hint --file {shown}: expected at most {RANGES_MAX} ranges, which is what a volume keeps, found {count}: it lies in too many parts"
        ));
    }
    for range in &placed.ranges {
        let (offset, len) = (range.start, range.end - range.start);
        let _: String = client.ask(&format!("hint {offset} {len} {name}"))?;
    }
    let bytes: u64 = placed.ranges.iter().map(|range| range.end - range.start).sum();
    let left_out = match placed.without_place {
        0 => String::new(),
        parts => format!("; {parts} parts have no blocks of their own, and are left out"),
    };
    say(&format!(
        "{shown}: {} in {count} ranges of {} (on {}) are {name} now{left_out}",
        ByteSize(bytes),
        args.target,
        placed.device
    ));
    if args.kind == KindArg::DurabilityOnly {
        note(
            "this holds for the blocks, not for the file: if it grows, is written anew, moved (defragmented, restored) or removed, say so again; \
             blocks that another file gets stay so, safe but home late, until --kind normal",
        );
    }
    Ok(())
}

/// The words of a hint: first byte, length, use.
pub fn hint_of(offset: &str, len: &str, kind: &str) -> Result<(u64, u64, Hint), String> {
    let number = |name: &str, text: &str| {
        text.parse::<u64>().map_err(|_| format!("hint: expected {name} in bytes, found {text:?}"))
    };
    let hint = match kind {
        "durability-only" => Hint::DurabilityOnly,
        "normal" => Hint::Normal,
        _ => return Err(format!("hint: expected durability-only or normal, found {kind:?}")),
    };
    Ok((number("an offset", offset)?, number("a length", len)?, hint))
}
