//! A record's transfer ended: the map learns of it, waiters go on; or it is written elsewhere.

use super::record::Record;
use crate::engine::Engine;
use crate::state::Fate;
use nearhead_disk::{DiskError, Payload};

impl Engine {
    pub(crate) fn on_record(&mut self, result: Result<Payload, DiskError>) {
        match result {
            Ok(_) => self.record_part_is_done(),
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
    fn record_part_is_done(&mut self) {
        let Some(mut record) = self.commit.in_flight.take() else { return };
        record.pending -= 1;
        if record.pending > 0 {
            self.commit.in_flight = Some(record);
        } else {
            self.record_is_durable(&record);
        }
    }

    fn record_is_durable(&mut self, record: &Record) {
        self.commit.journal_from = None;
        if std::mem::take(&mut self.commit.is_short_of_space) {
            self.note_space();
        }
        self.core.logs.note_well(record.header.log_index);
        let fates = self.fates(record);
        let fate = |chunk| fates.get(chunk).copied().unwrap_or(Fate::Counts);
        self.core.apply(&record.header, record.blocks, fate);
        self.commit.note_told(&record.header);
        for part in &record.parts {
            self.part_is_durable(part, record);
        }
        self.retry_blocked();
        self.retry_waiting_for_room();
    }
}
