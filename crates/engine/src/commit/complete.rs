//! A record's transfer ended: the map learns of it, waiters go on; or it is written elsewhere.

use super::RecordInFlight;
use crate::engine::Engine;
use crate::sectors::{BLOCK_SECTORS, blocks_of};
use nearhead_disk::{DiskError, Payload, SECTOR_BYTES};
use nearhead_format::record::{FLAG_RELOCATION, WriteItem};
use nearhead_format::{Entry, Place};
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
            self.record_is_durable(record);
        }
    }

    fn record_is_durable(&mut self, record: RecordInFlight) {
        let header = &record.header;
        self.commit.sequence_done = header.sequence;
        self.commit.journal_from = None;
        if std::mem::take(&mut self.commit.is_short_of_space) {
            self.note_space();
        }
        let header = &record.header;
        if header.flags & FLAG_RELOCATION == 0 {
            self.commit.last_log = header.log_index;
        }
        self.logs.advance(header.log_index, header.position, record.blocks);
        self.logs.note_well(header.log_index);
        for claim in &header.claims {
            // From where the claim says: a snapshot may have let go of an unused ring meanwhile.
            self.logs.adopt_claim(*claim);
        }
        for entry in self.invalidations.commit(record.invalidations) {
            self.logs.drop_live(&entry);
        }
        self.commit.note_told(header);
        self.apply_releases(&record.releases);
        if record.relocated.is_empty() {
            self.apply_writes(&record);
        } else {
            self.apply_relocation(&record);
        }
        if let Some(end) = record.stage_end {
            self.commit.committed = end;
            self.checkpoint.note_logged();
            self.schedule.room.note_found();
            self.taken = crate::stage::Taken::default();
        }
        self.commit.echo = record.ranges;
        self.retry_blocked();
        self.retry_waiting_for_room();
    }

    /// Device sector of the first payload byte.
    fn payload_sector(&self, record: &RecordInFlight) -> u64 {
        let header = &record.header;
        let log_block = self.setup.layout.log_block_bytes as usize;
        let start = self.setup.layout.log_block_offset(header.log_index, header.position);
        (start.unwrap_or(0) + header.encoded_bytes(log_block) as u64) / SECTOR_BYTES
    }

    fn apply_writes(&mut self, record: &RecordInFlight) {
        let writes = &record.header.writes;
        self.map.warm(writes.iter().map(|item| match *item {
            WriteItem::Chunk { home_sector, .. } | WriteItem::Zeros { home_sector, .. } => {
                home_sector
            }
        }));
        let mut sector = self.payload_sector(record);
        for item in &record.header.writes {
            match *item {
                WriteItem::Chunk { home_sector, len_sectors, crc } => {
                    let place =
                        Place::Log { chunk_sector: sector, chunk_len: len_sectors, offset: 0 };
                    self.logs.add_live(sector, u32::from(len_sectors));
                    self.insert(Entry { home_sector, len_sectors, place, crc });
                    sector += u64::from(len_sectors);
                }
                WriteItem::Zeros { home_sector, run_sectors } => {
                    for (block, first, len_sectors) in blocks_of(home_sector, run_sectors.into()) {
                        let home_sector = block * BLOCK_SECTORS + u64::from(first);
                        self.insert(Entry { home_sector, len_sectors, place: Place::Zero, crc: 0 });
                    }
                }
            }
        }
    }

    pub(crate) fn insert(&mut self, entry: Entry) {
        let logs = &mut self.logs;
        self.map.insert(entry, &mut |lost| logs.drop_live(&lost));
    }

    /// Entries that a checkpoint has copied home leave the map, unless something newer took their
    /// place while the record was on its way.
    fn apply_releases(&mut self, releases: &[Entry]) {
        for entry in releases {
            if self.map.holds(entry) || is_made(Mistake::CheckpointOfOverwritten) {
                let len = u64::from(entry.len_sectors);
                let logs = &mut self.logs;
                self.map.remove(entry.home_sector, len, &mut |lost| logs.drop_live(&lost));
            }
        }
        if !releases.is_empty() && !self.checkpoint.has_releases() {
            self.checkpoint_released();
        }
    }

    /// A moved chunk replaces exactly what it was a copy of. If that was cut or overwritten since,
    /// the map keeps what it has: both copies hold the same bytes, and the older one stays counted.
    fn apply_relocation(&mut self, record: &RecordInFlight) {
        let mut sector = self.payload_sector(record);
        for (item, old) in record.header.writes.iter().zip(&record.relocated) {
            let WriteItem::Chunk { home_sector, len_sectors, crc } = *item else { continue };
            if self.map.holds(old) || is_made(Mistake::SwapOverNewer) {
                let place = Place::Log { chunk_sector: sector, chunk_len: len_sectors, offset: 0 };
                self.logs.add_live(sector, u32::from(len_sectors));
                self.insert(Entry { home_sector, len_sectors, place, crc });
            }
            sector += u64::from(len_sectors);
        }
        self.stats.swapped_bytes += nearhead_disk::total_len(&record.parts) as u64;
    }
}
