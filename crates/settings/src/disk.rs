//! How a disk is driven, as flags say it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;

/// How a file or device is driven; an emulated disk says that in its own options.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DiskArgs {
    /// How commands reach the kernel: `io_uring`, or threads where that is missing
    #[arg(long, value_enum, default_value_t)]
    pub io: IoEngine,
    /// Whether to read and write through the page cache rather than past it [default: image files where no
    /// head moves]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub page_cache: Option<bool>,
    /// Read past the page cache even where no head moves; together with --page-cache=false
    #[arg(long)]
    pub direct_reads: bool,
    /// Whether a head must move [default: found out by timing reads when the disk is opened]
    #[arg(long, value_name = "BOOL")]
    pub rotational: Option<bool>,
    /// A small fast device or file for the map of the volume: recovery reads only that, and the log
    /// nearest the head is usable at once; name it at creation and at every use after it
    #[arg(long, value_name = "PATH")]
    pub map_device: Option<PathBuf>,
    /// The devices of a chain (preset gecko), all of them, with commas between them: the first in place of TARGET, the others as
    /// --data-devices; of mirrors (mirror:A,B) each one with the flag again
    // Taken apart before anything is parsed.
    #[arg(long, value_name = "D0,D1,...")]
    pub chain: Vec<String>,
    /// The devices beside the target: those that hold the data if that has nothing but logs (preset trail), or the others of a chain, with commas between
    /// them; each one a target, those with commas of their own (mirror:A,B) with the flag again; `missing` in place of one
    /// that is away, to use the volume without it
    #[arg(long, value_name = "D1,D2,...")]
    pub data_devices: Vec<String>,
    /// Further log devices beside the target, which is the first (preset trail with --data-devices), in the same way: what one arm does
    /// between two records another takes over
    #[arg(long, value_name = "L1,L2,...")]
    pub log_devices: Vec<String>,
    /// Read the volume without its log device, which is lost, TARGET being `missing`: its data devices (--data-devices) must have been
    /// drained and stopped in order
    #[arg(long)]
    pub without_log: bool,
    /// The kind of process that opens it.
    #[arg(skip)]
    pub opener: Opener,
}

/// The kind of process that opens a disk with a change, where the volume on it may be attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Opener {
    /// A command: refused while the attached volume keeps answered writes, or is about to be served again.
    #[default]
    Command,
    /// A command that mends the volume and changes no byte of its clients: kept writes can be carried out after it.
    Mend,
    /// The worker of the attached volume with this name.
    Worker(String),
}

/// Which way commands reach the kernel.
#[derive(clap::ValueEnum, serde::Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum IoEngine {
    /// `io_uring` if possible, else threads
    #[default]
    Auto,
    /// `io_uring` or an error
    Uring,
    /// Threads
    Threads,
}

/// Data devices in a volume file: a text as the flag has it, or a list of such.
pub(crate) fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Named {
        One(String),
        Several(Vec<String>),
    }
    let named = Named::deserialize(from).map_err(|_| {
        D::Error::custom(
            "expected the name of a data device or log device, or a list of them such as [\"a\", \"b\"]",
        )
    })?;
    Ok(match named {
        Named::One(text) => vec![text],
        Named::Several(texts) => texts,
    })
}
