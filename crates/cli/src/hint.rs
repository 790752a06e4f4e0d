//! `nearhead hint`: tells what a range of a volume is used for.

use crate::control::Client;
use crate::offline;
use crate::target::{Access, DiskArgs};
use crate::units::ByteSize;
use nearhead_output::say;
use nearhead_service::{Hint, Operation};
use std::path::PathBuf;

/// What `nearhead hint` is told.
#[derive(clap::Args, Debug)]
pub struct HintArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// First byte of the range
    #[arg(long, value_name = "BYTES")]
    pub offset: ByteSize,
    /// Length of the range
    #[arg(long, value_name = "BYTES")]
    pub len: ByteSize,
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

/// Runs the command.
pub fn run(args: &HintArgs) -> Result<(), String> {
    let (offset, len) = (args.offset.0, args.len.0);
    let (name, hint) = match args.kind {
        KindArg::DurabilityOnly => ("durability-only", Hint::DurabilityOnly),
        KindArg::Normal => ("normal", Hint::Normal),
    };
    if let Some(mut client) = Client::find(&args.target, args.control.as_deref())? {
        let _: String = client.ask(&format!("hint {offset} {len} {name}"))?;
    } else {
        let mut offline = offline::open(&args.target, Access::Write, &args.disk, false)?;
        offline.request(Operation::Hint { offset, len, hint })?;
        offline.close()?;
    }
    say(&format!("{len} bytes at byte {offset} of {} are {name} now", args.target));
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
