//! The map's own journal on a map device: a copy of every record's header.
//!
//! With it recovery reads only the map device (and the newest record, to see whether it is whole):
//! no log is scanned, so no log needs a claim and the near one can be used at once. A record counts
//! as durable when both the log and the journal have it, each on its own device: neither is flushed for the other.
//!
//! The journal is a ring of [`JOURNAL_BLOCK_BYTES`] blocks; entries since the last committed
//! snapshot are never overwritten.

use super::logs::{Need, Ring};
use nearhead_format::map_device::JOURNAL_BLOCK_BYTES;
use nearhead_format::record::HEADER_BYTES_MAX;
use std::num::NonZeroU32;

/// Blocks of the largest entry.
const ENTRY_BLOCKS_MAX: u32 = (HEADER_BYTES_MAX as u64 / JOURNAL_BLOCK_BYTES) as u32;
/// A snapshot is wished for when this share of the journal is in use.
const WISH_ABOVE_PCT: u32 = 50;

/// Where the map's journal is on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPlace {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// The journal.
#[derive(Debug)]
pub(crate) struct MapJournal {
    offset: u64,
    ring: Ring,
}

impl MapJournal {
    /// An empty one at that place; none if it has no block.
    pub(crate) fn at(place: JournalPlace) -> Option<Self> {
        let blocks = u32::try_from(place.bytes / JOURNAL_BLOCK_BYTES).ok()?;
        Some(Self { offset: place.offset, ring: Ring::new(NonZeroU32::new(blocks)?) })
    }

    /// The entry of a record that recovery replays stands there. The ring is empty before the first of them, and
    /// what is to stay begins with that one, wherever it stands: later ones may have gone round.
    pub(crate) fn replay(&mut self, position: u32, blocks: u32) {
        self.ring.begin_at(position);
        self.ring.advance(position, blocks);
    }

    /// Device bytes of blocks `start` to `end`.
    pub(crate) fn bytes_of(&self, start: u32, end: u32) -> std::ops::Range<u64> {
        let at = |position: u32| self.offset + u64::from(position) * JOURNAL_BLOCK_BYTES;
        at(start)..at(end)
    }

    /// What of it is in use.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(crate) fn ring_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// Whether a snapshot would be welcome, which frees what is behind it.
    pub(crate) fn wishes_snapshot(&self) -> bool {
        self.ring.fill_pct() >= WISH_ABOVE_PCT
    }

    /// Whether it takes the largest entry.
    pub(crate) fn has_room(&self) -> bool {
        self.ring.place(Need { blocks: ENTRY_BLOCKS_MAX, reserve: 0 }).is_some()
    }
}

/// Journal blocks of a header.
pub(crate) fn entry_blocks(header_bytes: usize) -> u32 {
    (header_bytes as u64).div_ceil(JOURNAL_BLOCK_BYTES) as u32
}
