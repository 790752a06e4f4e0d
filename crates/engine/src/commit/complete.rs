//! A record's transfer ended: the map learns of it, waiters go on; or it is written elsewhere.

use super::RecordInFlight;
use crate::engine::Engine;
use crate::state::Fate;
use nearhead_disk::{DiskError, Payload};
use nearhead_format::record::FLAG_RELOCATION;
use nearhead_planted::{Mistake, is_made};

impl Engine {
    pub(crate) fn on_record(&mut self, result: Result<Payload, DiskError>) {
        match result {
            Ok(_) => self.record_part_is_done(),
            Err(_) if is_made(Mistake::RecordErrorIgnored) => self.record_part_is_done(),
            Err(error) => self.record_part_failed(false, &error),
        }
    }

    pub(crate) fn on_journal(
        &mut self,
        extent: Option<(u64, u64)>,
        result: Result<Payload, DiskError>,
    ) {
        let at = self.commit.in_flight.as_ref().and_then(|record| record.journal_at);
        let place = at.and_then(|position| self.journal_offset(position));
        match result {
            Ok(_) => self.record_part_is_done(),
            // Of a header that the record no longer has, since it went to another log: nobody needs it. To send
            // the present one in its stead would be one copy for two that are waited for.
            Err(_) if extent.map(|(offset, _)| offset) != place => self.record_part_is_done(),
            Err(error) => self.record_part_failed(true, &error),
        }
    }

    /// One transfer of the record in flight is durable; with the last one the record is.
    pub(crate) fn record_part_is_done(&mut self) {
        let Some(mut record) = self.commit.in_flight.take() else { return };
        record.pending -= 1;
        if record.pending > 0 && !is_made(Mistake::RecordDurableInOnePlace) {
            self.commit.in_flight = Some(record);
        } else {
            self.record_is_durable(&record);
        }
    }

    fn record_is_durable(&mut self, record: &RecordInFlight) {
        self.commit.journal_from = None;
        if std::mem::take(&mut self.commit.is_short_of_space) {
            self.note_space();
        }
        let header = &record.header;
        self.core.logs.note_well(header.log_index);
        // What of a relocation was overwritten or cut since: both copies hold the same bytes, and the map keeps the older.
        let holds = |old| self.core.map.holds(old) || is_made(Mistake::SwapOverNewer);
        let newest: Vec<bool> = record.relocated.iter().map(holds).collect();
        let fate = |chunk| match newest.get(chunk) {
            Some(false) => Fate::Superseded,
            _ => Fate::Counts,
        };
        self.core.apply(header, record.blocks, fate);
        for entry in self.invalidations.commit(record.invalidations) {
            self.core.logs.drop_live(&entry);
        }
        self.commit.note_told(header);
        if header.flags & FLAG_RELOCATION != 0 {
            self.stats.swapped_bytes += nearhead_disk::total_len(&record.parts) as u64;
        }
        if !record.releases.is_empty() && !self.checkpoint.has_releases() {
            self.checkpoint_released();
        }
        if let Some(end) = record.stage_end {
            self.commit.committed = end;
            self.checkpoint.note_logged();
            self.schedule.room.note_found();
            self.taken = crate::stage::Taken::default();
        }
        self.retry_blocked();
        self.retry_waiting_for_room();
    }
}
