//! The write-ahead log: beside bulk on an emulated disk, by itself, and beside other logs.
//!
//! What it needs of the system (a loop device, a mount, other logs) it takes away again, also when
//! it is interrupted; where something is missing that part is skipped and a line says what.

mod append;
mod beside;
mod contest;
mod load;
mod peers;
mod stack;
mod writers;

use super::Effort;
use super::row::Row;
use super::{cleanup, commands};
use cleanup::Cleanup;
use std::fs;
use std::path::{Path, PathBuf};

/// 4 KiB durable writes beside bulk writes on an emulated flash disk.
pub(super) fn measure_beside(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    beside::measure(effort, &Cleanup::on_signals()?, &own(folder)?)
}

/// What a durable append costs.
pub(super) fn measure_append(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    append::measure(effort, &Cleanup::on_signals()?, &own(folder)?)
}

/// Appends beside those of other logs.
pub(super) fn measure_peers(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    peers::measure(effort, &own(folder)?)
}

/// Everything is below a folder of its own, by which leftovers are known.
fn own(folder: &Path) -> Result<PathBuf, String> {
    let own = folder.join("wal");
    fs::create_dir_all(&own).map_err(|error| format!("cannot make {}: {error}", own.display()))?;
    Ok(own)
}
