//! The map's own journal on a map device: a copy of every record's header.
//!
//! With it recovery reads only the map device (and the newest record, to see whether it is whole):
//! no log is scanned, so no log needs a claim and the near one can be used at once. A record counts
//! as durable when both the log and the journal have it, each on its own device: neither is flushed for the other.
//!
//! The journal is a ring of [`JOURNAL_BLOCK_BYTES`] blocks; entries since the last committed
//! snapshot are never overwritten.

use crate::config::JournalPlace;
use crate::disk::dispatch::Purpose;
use crate::engine::Engine;
use crate::placement::Need;
use crate::state::logs::Ring;
use nearhead_disk::{Buffer, Class, Command, Payload};
use nearhead_format::map_device::JOURNAL_BLOCK_BYTES;
use nearhead_format::record::HEADER_BYTES_MAX;
use std::num::NonZeroU32;

/// Blocks of the largest entry.
const ENTRY_BLOCKS_MAX: u32 = (HEADER_BYTES_MAX as u64 / JOURNAL_BLOCK_BYTES) as u32;
/// A snapshot is wished for when this share of the journal is in use.
const WISH_ABOVE_PCT: u32 = 50;

/// The journal.
#[derive(Debug)]
pub(crate) struct MapJournal {
    offset: u64,
    pub(crate) ring: Ring,
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

    pub(crate) fn has_room(&self) -> bool {
        self.ring.place(Need { blocks: ENTRY_BLOCKS_MAX, reserve: 0 }).is_some()
    }
}

/// Journal blocks of a header.
pub(crate) fn entry_blocks(header_bytes: usize) -> u32 {
    (header_bytes as u64).div_ceil(JOURNAL_BLOCK_BYTES) as u32
}

impl Engine {
    /// Whether the journal takes another entry; asks for a snapshot in time, and at the latest. Without room
    /// for one there is no record either, and nobody who waits is told by anything else.
    pub(crate) fn journal_has_room(&mut self) -> bool {
        let Some(journal) = &self.core.journal else { return true };
        let room = journal.has_room();
        if !room && !self.snapshotter.is_busy() {
            self.demand_snapshot_or_fail("the map's journal has no room");
        } else if journal.ring.fill_pct() >= WISH_ABOVE_PCT {
            self.snapshotter.wish();
        }
        room
    }

    /// Writes the copy of a record's header; says where, if there is a journal.
    pub(crate) fn journal_header(&mut self, header: &Buffer) -> Option<u32> {
        let journal = self.core.journal.as_mut()?;
        let blocks = entry_blocks(header.len());
        let Some(position) = journal.ring.place(Need { blocks, reserve: 0 }) else {
            self.fail("internal: no place in the map's journal".to_owned());
            return None;
        };
        journal.ring.advance(position, blocks);
        self.commit.note_journal_from(position);
        let command = self.journal_command(position, header)?;
        self.issue_on(self.setup.map.lane, Class::Durable, Purpose::Journal, command);
        Some(position)
    }

    /// Device byte of a block.
    pub(crate) fn journal_offset(&self, position: u32) -> Option<u64> {
        Some(self.core.journal.as_ref()?.bytes_of(position, position).start)
    }

    /// The write of that copy.
    pub(crate) fn journal_command(&self, position: u32, header: &Buffer) -> Option<Command> {
        let offset = self.journal_offset(position)?;
        let blocks = entry_blocks(header.len());
        let padding = blocks as usize * JOURNAL_BLOCK_BYTES as usize - header.len();
        let mut parts = vec![Payload::Bytes(header.clone())];
        if padding > 0 {
            parts.push(Payload::Zeros(padding));
        }
        Some(Command::Write { offset, parts, durable: self.map_is_volatile() })
    }
}
