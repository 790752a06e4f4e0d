//! What a report tells of a file system that is mounted from the volume.

use super::StatusReport;
use crate::units::ByteSize;
use nearhead_fs::FsReport;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A mounted file system.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSystemReport {
    /// Where.
    pub folder: String,
    /// Which parts of a transaction go where.
    pub mode: String,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Files and directories that the kernel holds.
    pub files_held: u64,
    /// Bytes of files that wait to be written.
    pub dirty_bytes: u64,
    /// Commits since it was mounted.
    pub commits: u64,
    /// Records that they took.
    pub records: u64,
    /// Bytes in these, data and metadata.
    pub record_bytes: u64,
    /// Bytes of files written in place.
    pub in_place_bytes: u64,
    /// Free bytes that the volume was told of.
    pub trimmed_bytes: u64,
    /// Bytes of the file system.
    pub size_bytes: u64,
    /// Bytes of it that are free.
    pub free_bytes: u64,
    /// Why it cannot go on, if it cannot.
    pub failure: Option<String>,
}

impl FileSystemReport {
    /// Of what is mounted at `folder`.
    pub fn of(folder: &Path, told: &FsReport) -> Self {
        let bytes = |blocks: u64| blocks * nearhead_ext4::BLOCK_BYTES as u64;
        Self {
            folder: folder.display().to_string(),
            mode: told.mode.to_owned(),
            read_only: told.read_only,
            files_held: told.nodes_held,
            dirty_bytes: told.dirty_bytes,
            commits: told.counts.commits,
            records: told.counts.records,
            record_bytes: told.counts.record_bytes,
            in_place_bytes: told.counts.in_place_bytes,
            trimmed_bytes: told.counts.trimmed_bytes,
            size_bytes: told.statistics.as_ref().map_or(0, |of| bytes(of.blocks)),
            free_bytes: told.statistics.as_ref().map_or(0, |of| bytes(of.free)),
            failure: told.failure.clone(),
        }
    }

    /// For people.
    pub(super) fn lines(&self) -> [(&'static str, String); 2] {
        let how = if self.read_only { "read-only" } else { &self.mode };
        [
            (
                "files",
                format!(
                    "at {} ({how}), {} of {} free, {} files held, {} to be written",
                    self.folder,
                    ByteSize(self.free_bytes),
                    ByteSize(self.size_bytes),
                    self.files_held,
                    ByteSize(self.dirty_bytes)
                ),
            ),
            (
                "commits",
                format!(
                    "{}, with {} in {} records and {} in place; {} of what is free was told to it",
                    self.commits,
                    ByteSize(self.record_bytes),
                    self.records,
                    ByteSize(self.in_place_bytes),
                    ByteSize(self.trimmed_bytes)
                ),
            ),
        ]
    }
}

impl StatusReport {
    /// The same of a volume whose file system is mounted.
    pub fn with_file_system(mut self, report: FileSystemReport) -> Self {
        if let Some(why) = &report.failure
            && self.state.failure.is_none()
        {
            "failed".clone_into(&mut self.health.state);
            self.health.reasons.insert(0, format!("the file system takes no change: {why}"));
        }
        self.file_system = Some(report);
        self
    }
}
