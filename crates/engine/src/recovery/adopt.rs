//! The end of a recovery: snapshot and records become the volume as it was, or the reason is told why it is not
//! served; and what the engine makes of either.

use super::find::{Findings, Remains};
use super::replay::{begin, replay};
use super::{Next, RecoveredState, Recovery, Refusal, Snapshot, Step, chain};
use crate::disk::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use crate::snapshot::LoneHeader;
use crate::state::Core;
use nearhead_disk::{At, Class, Command, DiskError, Payload, SECTOR_BYTES};
use nearhead_format::Place;
use nearhead_format::snapshot::{FLAG_CLEAN_SHUTDOWN, SnapshotHeader};
use nearhead_service::ErrorKind;
use std::collections::BTreeSet;

/// A volume as its disk has it.
pub(crate) struct Recovered {
    /// What snapshot and records say.
    pub(super) core: Core,
    /// Number of the snapshot that counts.
    pub(super) snapshot_number: u64,
    /// The newest record that it includes.
    pub(super) snapshot_sequence: u64,
    /// Whether it ended an orderly stop.
    pub(super) is_clean: bool,
    /// Its header, if only one of the two places holds it.
    pub(super) lone: Option<LoneHeader>,
    pub(super) torn: Torn,
    /// What a rebuild found; such a volume is not written to before its owner has decided.
    pub(super) rebuilt: Option<Box<super::Rebuilt>>,
    pub(super) found: RecoveredState,
}

/// Remains of records that must not become whole.
#[derive(Debug, Default)]
pub(super) struct Torn {
    /// Device bytes where they begin.
    pub(super) offsets: BTreeSet<u64>,
    /// The newest record that any of them says it is.
    pub(super) newest_sequence: u64,
}

impl Recovery {
    /// Every record was found: puts them in order and replays them.
    pub(super) fn replay(&mut self, findings: Findings) -> Next {
        let Findings { records, remains, problems, unreadable, outside, logs, .. } = findings;
        self.result.logs = logs;
        for problem in problems {
            self.result.note(problem);
        }
        if let Some(problem) = outside {
            return self.refuse(problem);
        }
        let accept_loss = self.terms.accept_loss;
        if let Some(problem) = self.unreadable.take().or(unreadable).filter(|_| !accept_loss) {
            return self.refuse(format!(
                "{problem}; it may hold writes newer than everything else, so nothing is served: mend the \
                 device, or run `nearhead forget-log` to accept the loss"
            ));
        }
        let Some(snapshot) = self.snapshot.take() else {
            return self.refuse("no snapshot was read (internal error)".to_owned());
        };
        let base = snapshot.header.record_sequence;
        let known = base..self.known_sequence.max(base);
        let links = match chain::order(records, known, accept_loss, &mut self.result) {
            Ok(links) => links,
            Err(problem) => return self.refuse(problem),
        };
        self.result.records = links.len() as u64;
        let header = snapshot.header;
        let core = self.replayed(snapshot, &links);
        let recovered = Recovered {
            torn: torn_records(&core, u64::from(self.context.layout.log_block_bytes), remains),
            core,
            snapshot_number: header.snapshot_number,
            snapshot_sequence: header.record_sequence,
            is_clean: header.flags & FLAG_CLEAN_SHUTDOWN != 0,
            lone: self.lone_header(&header),
            rebuilt: None,
            found: std::mem::take(&mut self.result),
        };
        self.opens(recovered)
    }

    fn replayed(&self, snapshot: Snapshot, links: &[chain::Link]) -> Core {
        let Snapshot { header, map, logs, claims, hints } = snapshot;
        let (layout, journal) = (&self.context.layout, self.map.journal);
        let mut core = begin(layout, journal, map, hints, header.record_sequence);
        for state in logs.values() {
            if let Some(ring) = core.logs.get_or_create(state.log_index) {
                ring.position = state.position;
                ring.generation = state.generation;
            }
        }
        for claim in claims {
            core.logs.adopt_claim(claim);
        }
        for link in links {
            replay(&mut core, link);
        }
        // Positions came from the snapshot, without a record that would have been measured.
        core.logs.measure_all();
        core
    }

    /// The header that counts, for the place of its slot that does not hold it.
    fn lone_header(&self, header: &SnapshotHeader) -> Option<LoneHeader> {
        let copy_at = self.map.copy(header.slot() as usize);
        let mut places = self.slots.iter().filter_map(|slot| slot.place_without(header, copy_at));
        Some(LoneHeader::new(places.next()?, &header.encode()))
    }

    /// What was read is also what a power cut would leave, once it is flushed.
    pub(super) fn opens(&mut self, recovered: Recovered) -> Next {
        self.flush_or_open(Box::new(recovered))
    }

    /// One device after the other: something was read of each.
    pub(super) fn flush_or_open(&mut self, recovered: Box<Recovered>) -> Next {
        let Some(lane) = self.terms.flushes.pop() else { return Next::Open(recovered) };
        self.step = Step::Flush(recovered);
        Next::Flush { lane }
    }
}

/// Records newer than all that was taken over are left of a write that a power cut tore, and must not become
/// whole later. Those below are damage, and stay for people to look at. What the map points to is what a client
/// wrote, whatever it looks like.
fn torn_records(core: &Core, log_block_bytes: u64, remains: Vec<Remains>) -> Torn {
    let newest = core.sequence_done();
    let newer: Vec<Remains> =
        remains.into_iter().filter(|remains| remains.sequence > newest).collect();
    let newest_sequence = newer.iter().map(|remains| remains.sequence).max().unwrap_or(0);
    let mut offsets: BTreeSet<u64> = newer.iter().map(|remains| remains.offset).collect();
    if offsets.is_empty() {
        return Torn::default();
    }
    for entry in &core.map {
        if let Place::Log { chunk_sector, chunk_len, .. } = entry.place {
            keep_off(&mut offsets, log_block_bytes, chunk_sector, u64::from(chunk_len));
        }
    }
    Torn { offsets, newest_sequence }
}

impl Engine {
    /// Asks for the first read of a recovery; everything else follows from completions.
    pub(crate) fn begin_recovery(&mut self) {
        if let Phase::Recovering(recovery) = &mut self.phase
            && !recovery.has_begun()
        {
            let next = recovery.next(None);
            self.recovery_goes_on(next);
        }
    }

    pub(crate) fn on_recovery(&mut self, result: Result<Payload, DiskError>) {
        if let Phase::Recovering(recovery) = &mut self.phase {
            let next = recovery.next(Some(result));
            self.recovery_goes_on(next);
        }
    }

    fn recovery_goes_on(&mut self, next: Next) {
        match next {
            Next::Read { at: At { lane, offset }, len } => {
                let read = Command::Read { offset, len };
                self.issue_on(lane, Class::Foreground, Purpose::Recovery, read);
            }
            Next::Flush { lane } => {
                self.issue_on(lane, Class::Durable, Purpose::Recovery, Command::Flush);
            }
            Next::Open(recovered) => self.serve(*recovered),
            Next::Refuse(refusal) => self.refuse_to_serve(refusal),
        }
    }

    fn serve(&mut self, recovered: Recovered) {
        let Recovered { core, lone, torn, rebuilt, found, .. } = recovered;
        self.core = core;
        self.commit.note_torn(torn.offsets, torn.newest_sequence);
        self.snapshotter.recovered(
            recovered.snapshot_number,
            recovered.snapshot_sequence,
            recovered.is_clean,
        );
        self.note_lone_header(lone);
        self.recovered = found;
        self.setup.config.read_only |= rebuilt.is_some();
        self.rebuilt = rebuilt;
        self.phase = Phase::Serving;
        self.schedule.note_request(self.now);
        for request in self.requests.take_held() {
            self.handle_request(request, self.now);
        }
    }

    fn refuse_to_serve(&mut self, refusal: Refusal) {
        let Refusal { problem, found } = refusal;
        self.recovered = found;
        self.phase = Phase::Stopped;
        for request in self.requests.take_held() {
            self.fail_request(request.id, ErrorKind::Io, &problem);
        }
        self.failure = Some(problem);
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
