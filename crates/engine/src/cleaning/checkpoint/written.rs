//! The end of a batch's writes: what is at home may be let go, what is not stays in the logs.

use super::{BLOCK_BYTES, Checkpoint, Step};
use crate::core::Core;
use crate::home::FailedHomes;
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::{DiskError, DiskErrorKind, Payload};
use nearhead_format::Entry;

impl Checkpoint {
    pub(crate) fn on_write(
        &mut self,
        core: &mut Core,
        homes: &mut FailedHomes,
        extent: Option<(u64, u64)>,
        result: Result<Payload, DiskError>,
    ) {
        let Some(window) = self.window.as_mut() else { return };
        if let (Err(error), Some((offset, len))) = (result, extent) {
            window.failed.push((offset..offset + len, error.kind));
        }
        let Step::Writing { remaining } = &mut window.step else { return };
        *remaining -= 1;
        if *remaining > 0 {
            return;
        }
        self.keep_what_failed(core, homes);
        let Some(window) = self.window.as_mut() else { return };
        core.flusher_mut().note_volatile_write();
        let ticket = core.flusher_mut().want();
        window.step = Step::Flushing { ticket };
        if core.flusher().is_done(ticket) {
            self.release_batch(core);
        }
    }

    /// What of the batch is not at home stays in the logs, which keep the newest copies: what failed together with
    /// others is written alone next, what failed alone in a later pass.
    fn keep_what_failed(&mut self, core: &Core, homes: &mut FailedHomes) {
        let Some(window) = self.window.as_mut() else { return };
        let failed = std::mem::take(&mut window.failed);
        let (layout, mut again) = (&core.setup().layout, Vec::new());
        let why = |entry: &Entry| {
            let start = layout.home(entry.home_sector * SECTOR as u64)?.device_offset;
            let end = start + u64::from(entry.len_sectors) * SECTOR as u64;
            failed.iter().find(|(range, _)| range.start < end && start < range.end)
        };
        let batch = std::mem::take(&mut window.batch);
        let (missed, written) = batch.into_iter().partition(|entry| why(entry).is_some());
        window.batch = written;
        for entry in &window.batch {
            homes.note_written(entry.home_sector / BLOCK_SECTORS);
        }
        for entry in &missed as &Vec<Entry> {
            let Some((range, DiskErrorKind::Io)) = why(entry) else { continue };
            let alone = range.end - range.start <= BLOCK_BYTES;
            homes.note_failed(entry.home_sector / BLOCK_SECTORS, alone, core.now());
            if !alone && !self.stopped {
                again.push(*entry);
            }
        }
        if !missed.is_empty() {
            window.band = None;
        }
        again.into_iter().rev().for_each(|entry| window.entries.push_front(entry));
    }
}
