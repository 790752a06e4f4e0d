//! The end of a recovery: the map and the logs as they were are the engine's own, or the reason why not is told.

use super::{Remains, Snapshot, Step, chain};
use crate::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use crate::request::ErrorKind;
use crate::snapshot::LoneHeader;
use nearhead_disk::{Class, Command, SECTOR_BYTES};
use nearhead_format::Place;
use nearhead_format::record::Claim;
use nearhead_format::snapshot::{FLAG_CLEAN_SHUTDOWN, SnapshotHeader};
use nearhead_planted::{Mistake, is_made};
use std::collections::BTreeSet;

impl Engine {
    /// Every log was read: puts their records in order, takes them over and serves.
    pub(super) fn scans_are_done(&mut self) {
        let accept_loss = self.setup.config.accept_loss;
        let Some(recovery) = self.recovering() else { return };
        let Some(snapshot) = recovery.snapshot.take() else { return };
        let found = std::mem::take(&mut recovery.found);
        let remains = std::mem::take(&mut recovery.remains);
        let mut result = std::mem::take(&mut recovery.result);
        for problem in std::mem::take(&mut recovery.problems).into_values().flatten() {
            result.note(problem);
        }
        let base = snapshot.header.record_sequence;
        let known = recovery.known_sequence;
        if let Some(problem) = recovery.outside.take() {
            return self.recovery_fails(&problem);
        }
        if let Some(problem) = recovery.unreadable.take().filter(|_| !accept_loss) {
            self.recovered = result;
            return self.recovery_fails(&format!(
                "{problem}; it may hold writes newer than everything else, so nothing is served: mend the \
                 device, or run `nearhead forget-log` to accept the loss"
            ));
        }
        let records = match chain::order(found, base..known.max(base), accept_loss, &mut result) {
            Ok(records) => records,
            Err(problem) => {
                self.recovered = result;
                return self.recovery_fails(&problem);
            }
        };
        result.records = records.len() as u64;
        self.recovered = result;
        self.adopt(snapshot, records);
        self.note_torn(remains.into_values().flatten());
        self.finish_recovery();
    }

    fn adopt(&mut self, snapshot: Snapshot, records: Vec<chain::Link>) {
        let Snapshot { header, map, logs, claims, hints } = snapshot;
        let lone = self.lone_header(&header);
        self.map = map;
        for hint in hints.into_iter().filter(|_| !is_made(Mistake::HintsNotRestored)) {
            self.durability_only.insert(hint.start_sector..hint.start_sector + hint.len_sectors);
        }
        for state in logs.values() {
            if let Some(ring) = self.logs.get_or_create(state.log_index) {
                ring.position = state.position;
                ring.generation = state.generation;
            }
        }
        for claim in claims {
            self.adopt_claim(claim);
        }
        self.snapshotter.recovered(
            header.snapshot_number,
            header.record_sequence,
            header.flags & FLAG_CLEAN_SHUTDOWN != 0,
        );
        self.note_lone_header(lone);
        self.commit.sequence_done = header.record_sequence;
        for link in records {
            self.replay(&link);
        }
        self.count_live();
    }

    /// The header that counts, for the place of its slot that does not hold it.
    fn lone_header(&mut self, header: &SnapshotHeader) -> Option<LoneHeader> {
        let copy_offset = self.setup.layout.snapshot_copy_offset(header.slot() as usize);
        let slots = &self.recovering()?.slots;
        let mut places = slots.iter().filter_map(|slot| slot.place_without(header, copy_offset));
        Some(LoneHeader::new(places.next()?, &header.encode()))
    }

    /// The claim is durable: the log may be used, from where the claim says; one that was unused
    /// when it was claimed began anew, whatever the snapshot says.
    pub(crate) fn adopt_claim(&mut self, claim: Claim) {
        if self.logs.is_claimed(claim.log_index) || claim.log_index >= self.logs.count() {
            return;
        }
        self.logs.note_claimed(claim.log_index);
        if let Some(ring) = self.logs.get_or_create(claim.log_index) {
            ring.position = claim.position;
            ring.generation = claim.generation;
        }
    }

    pub(super) fn count_live(&mut self) {
        let logs = &mut self.logs;
        for entry in &self.map {
            if let Place::Log { chunk_sector, .. } = entry.place {
                logs.add_live(chunk_sector, u32::from(entry.len_sectors));
            }
        }
        // Positions came from the snapshot, without a record that would have been measured.
        logs.measure_all();
    }

    /// Records newer than all that was taken over are left of a write that a power cut tore, and must not become
    /// whole later. Those below are damage, and stay for people to look at. What the map points to is what a client
    /// wrote, whatever it looks like.
    fn note_torn(&mut self, remains: impl Iterator<Item = Remains>) {
        let newest = self.commit.sequence_done;
        let floor = newest - u64::from(is_made(Mistake::TornClearedOverNewest) && newest > 0);
        let newer = remains.filter(|remains| remains.sequence > floor);
        let mut offsets: BTreeSet<u64> = newer.map(|remains| remains.offset).collect();
        if offsets.is_empty() || is_made(Mistake::TornRecordLeft) {
            return;
        }
        let block = u64::from(self.setup.layout.log_block_bytes);
        for entry in &self.map {
            if let Place::Log { chunk_sector, chunk_len, .. } = entry.place
                && !is_made(Mistake::TornClearedOverLive)
            {
                keep_off(&mut offsets, block, chunk_sector, u64::from(chunk_len));
            }
        }
        self.commit.torn.note(offsets);
    }

    pub(super) fn finish_recovery(&mut self) {
        let flushes = !is_made(Mistake::RecoveryNotFlushed);
        if self.setup.properties.volatile_cache && !self.setup.config.read_only && flushes {
            if let Some(recovery) = self.recovering() {
                recovery.step = Step::Flush;
            }
            return self.issue(Class::Durable, Purpose::Recovery, Command::Flush);
        }
        self.recovery_is_done();
    }

    pub(super) fn recovery_is_done(&mut self) {
        self.phase = Phase::Serving;
        self.schedule.note_request(self.now);
        while let Some(request) = self.held.pop_front() {
            self.handle_request(request, self.now);
        }
    }

    pub(super) fn recovery_fails(&mut self, problem: &str) {
        self.failure = Some(problem.to_owned());
        self.phase = Phase::Stopped;
        while let Some(request) = self.held.pop_front() {
            self.fail_request(request.id, ErrorKind::Io, problem);
        }
    }
}

/// Takes out of `offsets`, device bytes, those of blocks that share a byte with these sectors.
fn keep_off(offsets: &mut BTreeSet<u64>, block_bytes: u64, sector: u64, sectors: u64) {
    let start = sector * SECTOR_BYTES;
    let end = start + sectors * SECTOR_BYTES;
    offsets.retain(|offset| offset + block_bytes <= start || end <= *offset);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_is_cleared_that_shares_a_byte_with_what_a_client_wrote() {
        let blocks = [8, 12, 16, 20, 24, 28, 32].map(|kib| kib << 10);
        let left = |sector, sectors| {
            let mut offsets = BTreeSet::from(blocks);
            keep_off(&mut offsets, 4096, sector, sectors);
            offsets.into_iter().map(|offset| offset >> 10).collect::<Vec<_>>()
        };
        // From 16 KiB on, two blocks; then one sector of each of two; then more than all.
        assert_eq!(left(32, 16), [8, 12, 24, 28, 32]);
        assert_eq!(left(39, 2), [8, 12, 24, 28, 32]);
        assert_eq!(left(40, 1), [8, 12, 16, 24, 28, 32]);
        assert_eq!(left(0, 100), [0; 0]);
        assert_eq!(left(72, 100), [8, 12, 16, 20, 24, 28, 32]);
    }
}
