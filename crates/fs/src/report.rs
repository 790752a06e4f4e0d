//! What a mounted file system tells of itself: how it stands now, and what it has done since it was mounted. Nothing is decided by it.

use crate::core::{BLOCK, Core};
use nearhead_ext4::FsStatistics;

/// Counts since the file system was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsCounts {
    /// Requests of clients, but for those that only say what they forgot.
    pub requests: u64,
    /// Those that were answered with an error of the disk or the volume, not with one that programs live with.
    pub errors: u64,
    /// Commits that wrote something.
    pub commits: u64,
    /// Records that they took.
    pub records: u64,
    /// Bytes in these records, data and metadata.
    pub record_bytes: u64,
    /// Bytes of files that were written in place.
    pub in_place_bytes: u64,
    /// Free bytes that the volume was told of.
    pub trimmed_bytes: u64,
    /// Bytes of files that were read before a write asked for them.
    pub read_ahead_bytes: u64,
}

/// How it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsReport {
    /// Name of the mode.
    pub mode: &'static str,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Nodes that the kernel holds.
    pub nodes_held: u64,
    /// Bytes of files that wait to be written.
    pub dirty_bytes: u64,
    /// Bytes that were read ahead of writes, or are being read, and that these have not reached.
    pub ahead_bytes: u64,
    /// Blocks of metadata that are changed and in no record yet.
    pub dirty_blocks: u64,
    /// How full it is; none before it is open.
    pub statistics: Option<FsStatistics>,
    /// What it did.
    pub counts: FsCounts,
    /// Why it cannot go on.
    pub failure: Option<String>,
}

impl Core {
    pub(crate) fn report(&self) -> FsReport {
        let held = self.files.values().filter(|file| file.references > 0).count();
        FsReport {
            mode: self.options.mode.name(),
            read_only: self.options.ext4.read_only,
            nodes_held: held as u64,
            dirty_bytes: self.unsaved_pages as u64 * BLOCK,
            ahead_bytes: self.ahead.pages() * BLOCK,
            dirty_blocks: self.ext4.as_ref().map_or(0, |ext4| ext4.changes_len() as u64),
            statistics: self.ext4.as_ref().map(|ext4| ext4.statistics()),
            counts: self.counts,
            failure: match &self.phase {
                crate::mounted::Phase::Failed(error) => Some(error.detail.clone()),
                _ => None,
            },
        }
    }
}
