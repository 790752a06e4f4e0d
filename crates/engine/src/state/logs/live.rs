//! What is needed of each log, counted as the map comes to point there and no longer does.
//!
//! A count is never too low: log space that something points to is not written over. Where the map is paged it may be too high for a while.

use super::{Logs, SLICES};
use crate::state::fragments::needed_for;
use nearhead_format::{Entry, Place};

impl Logs {
    /// The map now points to `sectors` sectors of the chunk of `chunk_len` sectors at `chunk_sector`.
    pub(crate) fn add_live(&mut self, chunk_sector: u64, chunk_len: u8, sectors: u32) {
        let (index, blocks) = self.blocks_of(chunk_sector, chunk_len);
        if self.get_or_create(index).is_some_and(|ring| ring.add_live_chunk(blocks, sectors)) {
            self.measure(index);
        }
    }

    /// The same of an entry of the map.
    pub(crate) fn add_entry(&mut self, entry: &Entry) {
        if let Place::Log { chunk_sector, chunk_len, .. } = entry.place {
            self.add_live(chunk_sector, chunk_len, u32::from(entry.len_sectors));
        }
    }

    /// This entry is no longer needed, durably.
    pub(crate) fn drop_live(&mut self, entry: &Entry) {
        if let Place::Log { chunk_sector, chunk_len, .. } = entry.place {
            let (index, blocks) = self.blocks_of(chunk_sector, chunk_len);
            let sectors = u32::from(entry.len_sectors);
            // Or it would be passed over until it is written again, which may never be.
            if self.get_or_create(index).is_some_and(|ring| ring.drop_live_chunk(blocks, sectors)) {
                self.measure(index);
            }
        }
    }

    /// A piece of a record that begins at this device sector is needed, which counts as one sector of it.
    pub(crate) fn add_piece(&mut self, record_sector: u64) {
        *self.pieces.entry(self.log_of(record_sector)).or_default() += 1;
        self.add_live(record_sector, 1, 1);
    }

    /// It is no longer needed, durably.
    pub(crate) fn drop_piece(&mut self, record_sector: u64) {
        self.forget_piece(record_sector);
        self.drop_live(&needed_for(0, record_sector));
    }

    /// It is needed no longer, but counts until a record says so.
    pub(crate) fn forget_piece(&mut self, record_sector: u64) {
        let log = self.log_of(record_sector);
        if let Some(count) = self.pieces.get_mut(&log) {
            *count -= 1;
            if *count == 0 {
                self.pieces.remove(&log);
            }
        }
    }

    /// Whether a log is needed for pieces: those stay where they are when what else it has goes to another.
    pub(crate) fn has_pieces(&self, index: u32) -> bool {
        self.pieces.contains_key(&index)
    }

    /// The log and the slice of it in which the chunk at this device sector is counted.
    pub(in crate::state) fn slice_of(&self, chunk_sector: u64) -> (u32, usize) {
        let (log, blocks) = self.blocks_of(chunk_sector, 1);
        (log, self.get(log).map_or(0, |ring| ring.slice_of(blocks.start)) as usize)
    }

    /// So many sectors of each slice are no longer needed, durably.
    pub(in crate::state) fn drop_slices(&mut self, log: u32, counts: &[u32; SLICES as usize]) {
        let Some(ring) = self.get_or_create(log) else { return };
        for (slice, sectors) in (0..).zip(counts).filter(|(_, sectors)| **sectors > 0) {
            ring.drop_in_slice(slice, *sectors);
        }
        self.measure(log);
    }
}
