//! Which entries a pass takes home: window by window, and of a window batch by batch.

use super::{BAND_BYTES_MAX, BATCH_ENTRIES_MAX, BLOCK_BYTES, Checkpoint, CheckpointContext};
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_format::{Entry, Place};
use std::ops::Range;

impl Checkpoint {
    /// What is read next: all that is logged of a band, or a bounded number of entries.
    pub(super) fn choose_entries(
        &mut self,
        context: &CheckpointContext<'_>,
    ) -> (Vec<Entry>, Option<Range<u64>>) {
        let core = &context.core;
        let cleaning = &core.setup().config.cleaning;
        let bytes_max = u64::from(cleaning.window_bytes.max(cleaning.batch_bytes));
        let entries_max = (bytes_max / BLOCK_BYTES) as usize;
        let (mut entries, mut bytes, mut band) = (Vec::new(), 0, None);
        let cursor = self.cursor;
        let mut next = u64::MAX;
        if cursor != u64::MAX {
            for entry in core.map().iter_from(cursor) {
                let is_full = band.as_ref().map_or(
                    entries.len() >= entries_max || bytes >= bytes_max,
                    |band: &Range<u64>| entry.home_sector >= band.end,
                );
                if is_full {
                    next = entry.home_sector;
                    break;
                }
                if !self.leaves_out(context, &entry) {
                    if entries.is_empty() {
                        band = band_at(context, entry.home_sector);
                    }
                    bytes += u64::from(entry.len_sectors) * SECTOR as u64;
                    entries.push(entry);
                }
            }
        }
        self.cursor = next;
        (entries, band)
    }

    /// Whether this pass leaves the entry where it is.
    fn leaves_out(&mut self, context: &CheckpointContext<'_>, entry: &Entry) -> bool {
        let range = entry.home_sector..entry.end_sector();
        let block = entry.home_sector / BLOCK_SECTORS;
        let is_written = context.is_written(range.clone());
        self.met_transfers |= is_written;
        let (offset, len) =
            (range.start * SECTOR as u64, (range.end - range.start) * SECTOR as u64);
        entry.place == Place::Poisoned
            || context.core.is_given_up_under(offset, len)
            || (!self.tries_all && context.homes.rests(block, context.core.now()))
            || is_written
            || (!self.everything && context.core.recorded().hints().overlaps(range))
    }

    /// The next entries of the window that nothing newer replaced: all of a band, or a batch.
    pub(super) fn take_batch(&mut self, context: &CheckpointContext<'_>) -> Vec<Entry> {
        let bytes_max = u64::from(context.core.setup().config.cleaning.batch_bytes);
        let Some(window) = self.window.as_mut() else { return Vec::new() };
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while window.band.is_some() || (batch.len() < BATCH_ENTRIES_MAX && bytes < bytes_max) {
            let Some(entry) = window.entries.pop_front() else { break };
            let range = entry.home_sector..entry.end_sector();
            let is_written = context.is_written(range.clone());
            self.met_transfers |= is_written;
            let recorded = context.core.recorded();
            let is_read = entry.place != Place::Home
                || recorded.fragments().has_base_of(&entry, window.read_at);
            if recorded.map().holds(&entry) && is_read && !is_written {
                self.homes.insert(range);
                bytes += u64::from(entry.len_sectors) * SECTOR as u64;
                batch.push(entry);
            }
        }
        batch
    }
}

/// The band of home sector `sector`, if it can be written as a whole now.
fn band_at(context: &CheckpointContext<'_>, sector: u64) -> Option<Range<u64>> {
    let bytes = context.core.setup().bands.as_ref()?.band_at(sector * SECTOR as u64)?;
    let band = bytes.start / SECTOR as u64..bytes.end / SECTOR as u64;
    let blocks = band.start / BLOCK_SECTORS..band.end.div_ceil(BLOCK_SECTORS);
    let fits = bytes.end - bytes.start <= BAND_BYTES_MAX && !context.homes.any_suspect(blocks);
    (fits && !context.transferring.overlaps(band.clone())).then_some(band)
}
