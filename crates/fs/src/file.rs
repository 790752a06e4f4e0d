//! What is known of one node beyond its metadata: the pages of a file, its length while that is ahead of the disk's, who uses it.

use crate::ahead::Steps;
use crate::error::FsError;
use crate::pages::Pages;
use nearhead_disk::RangeSet;
use nearhead_ext4::{Attributes, BLOCK_BYTES, Times, Timestamp};

/// One node that is in use.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// Differs between two nodes that had the same number: what was begun for one is not the other's.
    pub(crate) incarnation: u64,
    pub(crate) pages: Pages,
    /// Length of a file, if it is not that of its metadata.
    pub(crate) size: Option<u64>,
    /// Times that its metadata does not have yet: those of the last write, unless a later request set or moved one.
    pub(crate) times: Times,
    /// Write-outs under way.
    pub(crate) writing: u32,
    /// Those that came to their end and were not flushed.
    pub(crate) unflushed: u32,
    /// Pages that are in their places, and count as unwritten until a commit.
    pub(crate) in_place: RangeSet,
    /// Its pages are being put into a record.
    pub(crate) is_packed: bool,
    /// A write-out that failed: the next `fsync` says so, once.
    pub(crate) error: Option<FsError>,
    /// The transaction in which its metadata changed last; 0 for none.
    pub(crate) changed_in: u64,
    /// References that clients have.
    pub(crate) references: u64,
    /// Whether it is needed after a crash only, once that was asked.
    pub(crate) durability_only: Option<bool>,
    /// Its last name is gone.
    pub(crate) is_gone: bool,
    /// It never had a name.
    pub(crate) is_nameless: bool,
    /// The run that is written in order now: from where, to where.
    pub(crate) stream: (u64, u64),
    /// How its last writes follow each other.
    pub(crate) steps: Steps,
}

impl File {
    /// What clients are told: its metadata as it will be.
    pub(crate) fn told(&self, mut attributes: Attributes) -> Attributes {
        attributes.size = self.size.unwrap_or(attributes.size);
        attributes.blocks_512 += self.pages.without_block_len() as u64 * (BLOCK_BYTES as u64 / 512);
        attributes.modified = self.times.modified.unwrap_or(attributes.modified);
        attributes.changed = self.times.changed.unwrap_or(attributes.changed);
        attributes
    }

    /// Its content changed at `now`.
    pub(crate) fn note_written(&mut self, now: Timestamp) {
        (self.times.modified, self.times.changed) = (Some(now), Some(now));
    }

    /// Whether its metadata lacks a time.
    pub(crate) fn has_pending_times(&self) -> bool {
        self.times != Times::default()
    }

    /// Whether something of its content is not durable.
    pub(crate) fn has_unsaved_data(&self) -> bool {
        self.pages.is_dirty() || self.writing > 0 || self.unflushed > 0 || self.size.is_some()
    }

    /// Whether its blocks may be taken away now.
    pub(crate) fn is_busy(&self) -> bool {
        self.writing > 0 || self.unflushed > 0 || self.is_packed
    }

    /// Whether nothing would be lost if this were forgotten.
    pub(crate) fn is_idle(&self) -> bool {
        self.references == 0
            && self.pages.is_empty()
            && !self.has_unsaved_data()
            && !self.is_packed
            && !self.has_pending_times()
            && self.error.is_none()
    }
}
