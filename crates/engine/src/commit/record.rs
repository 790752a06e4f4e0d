//! A record on its way to the disk: its header, its payload, and the parts it carries.
//!
//! It is whole in memory until it is durable, so that it can be written elsewhere. What it carries is looked at by the
//! names of [`Part`], never by what its header happens to hold.

use super::parts::Part;
use nearhead_disk::{Nanos, Payload};
use nearhead_format::Entry;
use nearhead_format::record::{Fragment, RecordHeader, SectorRange, WriteItem};

/// A record in flight.
#[derive(Debug)]
pub(crate) struct Record {
    pub(super) header: RecordHeader,
    /// Its length in log blocks, once it has a place.
    pub(super) blocks: u32,
    /// Its chunks, in order.
    pub(super) payload: Vec<Payload>,
    pub(super) parts: Vec<Part>,
    /// Transfers not done yet: the record itself, and its header's copy on a map device.
    pub(super) pending: u8,
    /// Logs that failed to take it.
    pub(super) failed_logs: Vec<u32>,
    /// Places that did not take it and may hold it all the same: log and block, each once.
    pub(super) failed_places: Vec<(u32, u32)>,
    /// Failures in a row at the place where it is.
    pub(super) attempts: u32,
    /// How often every place that there is had failed to take it.
    pub(super) rounds: u32,
    /// The newest snapshot when they had for the first time.
    pub(super) snapshot_then: u64,
    /// Since when somebody waits for it, if anybody does.
    pub(super) wanted_since: Option<Nanos>,
    /// Block of the map's journal where the copy of its header goes, if there is a journal.
    pub(super) journal_at: Option<u32>,
}

impl Record {
    /// One that has no place yet.
    pub(super) fn new(header: RecordHeader, payload: Vec<Payload>, parts: Vec<Part>) -> Self {
        Self {
            header,
            blocks: 0,
            payload,
            parts,
            pending: 0,
            failed_logs: Vec::new(),
            failed_places: Vec::new(),
            attempts: 0,
            rounds: 0,
            snapshot_then: 0,
            wanted_since: None,
            journal_at: None,
        }
    }

    pub(crate) fn header(&self) -> &RecordHeader {
        &self.header
    }

    /// The home sectors that it writes, wholly or in part.
    pub(crate) fn written(&self) -> impl Iterator<Item = SectorRange> + '_ {
        let RecordHeader { writes, fragments, .. } = &self.header;
        writes.iter().map(WriteItem::range).chain(fragments.iter().map(Fragment::range))
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Places that did not take it and may hold it all the same: log and block.
    pub(crate) fn failed_places(&self) -> &[(u32, u32)] {
        &self.failed_places
    }

    /// What it carries, for those it belongs to.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The same, to go back to them.
    pub(crate) fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    /// Its chunks, in order.
    pub(crate) fn payload(&self) -> &[Payload] {
        &self.payload
    }

    /// How many of its chunks, the first ones, it moved.
    pub(crate) fn moved_len(&self) -> usize {
        self.moved().len()
    }

    /// Bytes of its chunks.
    pub(crate) fn payload_bytes(&self) -> u64 {
        nearhead_disk::total_len(&self.payload) as u64
    }

    /// Its log, and the block behind it.
    pub(super) fn end(&self) -> (u32, u32) {
        let RecordHeader { log_index, position, .. } = self.header;
        (log_index, position + self.blocks)
    }

    /// Whether it moves logged blocks, and so may not stand behind a snapshot that began before it is durable.
    pub(crate) fn moves(&self) -> bool {
        let moves = |part: &Part| matches!(part, Part::Moved { .. } | Part::Named { .. });
        self.parts.iter().any(moves)
    }

    /// Whether it does nothing else that anybody waits for.
    pub(crate) fn only_moves(&self) -> bool {
        self.moves() && !self.has_staged()
    }

    /// What its chunks were before, if it moves them.
    pub(super) fn moved(&self) -> &[Entry] {
        let moved = self.parts.iter().find_map(|part| match part {
            Part::Moved { before } => Some(before),
            _ => None,
        });
        moved.map_or(&[], Vec::as_slice)
    }

    /// What the copies that it names were made of.
    pub(super) fn named(&self) -> &[Entry] {
        let named = self.parts.iter().find_map(|part| match part {
            Part::Named { before } => Some(before),
            _ => None,
        });
        named.map_or(&[], Vec::as_slice)
    }

    /// How many queued invalidations it carries.
    pub(crate) fn taken_back(&self) -> usize {
        let count = |part: &Part| if let Part::TakenBack { count } = part { *count } else { 0 };
        self.parts.iter().map(count).sum()
    }

    pub(crate) fn releases(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Released { .. }))
    }

    pub(crate) fn has_staged(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Staged { .. }))
    }

    /// Whether a place failed to take it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.failed_logs.is_empty()
    }
}
