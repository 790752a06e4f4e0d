//! The end of a recovery: snapshot and records become the volume as it was, or the reason is told why it is not served.

use super::find::{Findings, Remains};
use super::replay::{begin, replay};
use super::{Next, Rebuilt, Recovery, Snapshot, Step, chain};
use crate::commit::Commit;
use crate::core::Core;
use crate::snapshot::{LoneHeader, Snapshotter};
use crate::state::Recorded;
use crate::state::findings::RecoveredState;
use nearhead_disk::SECTOR_BYTES;
use nearhead_format::Place;
use nearhead_format::snapshot::{FLAG_CLEAN_SHUTDOWN, SnapshotHeader};
use std::collections::BTreeSet;

/// Records that a log may hold that could not be read, at most: the next one has a sequence above all of them. Else one of them could be
/// taken for newer than it, should what they lie on come back. No volume writes so many between two snapshots.
const UNREAD_RECORDS_MAX: u64 = 1 << 32;

/// A volume as its disk has it.
pub(crate) struct Recovered {
    /// What snapshot and records say.
    pub(super) recorded: Recorded,
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
    pub(super) rebuilt: Option<Box<Rebuilt>>,
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

impl Recovered {
    /// Everybody gets what is his; says what a rebuild found, if it was one.
    pub(crate) fn share(
        self,
        core: &mut Core,
        commit: &mut Commit,
        snapshotter: &mut Snapshotter,
    ) -> Option<Box<Rebuilt>> {
        core.adopt(self.recorded);
        commit.note_torn(self.torn.offsets, self.torn.newest_sequence);
        snapshotter.recovered(self.snapshot_number, self.snapshot_sequence, self.is_clean);
        snapshotter.note_lone_header(self.lone);
        core.set_findings(self.found);
        self.rebuilt
    }
}

impl Recovery {
    /// Every record was found: puts them in order and replays them.
    pub(super) fn replay(&mut self, findings: Findings) -> Next {
        let Findings { records, remains, problems, unreadable, outside, logs, .. } = findings;
        self.result.note_logs(logs);
        for problem in problems {
            self.result.note(problem);
        }
        if let Some(problem) = outside {
            return self.refuse(problem);
        }
        let accept_loss = self.terms.accept_loss;
        let unread = self.unreadable.take().or(unreadable);
        let has_unread = unread.is_some();
        if let Some(problem) = unread.filter(|_| !accept_loss) {
            return self.refuse(format!(
                "{problem}; it may hold writes newer than everything else, so nothing is served: mend the \
                 device, or accept the loss with `nearhead repair --accept-loss`"
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
        self.result.note_records(links.len());
        let header = snapshot.header;
        let mut recorded = self.replayed(snapshot, &links);
        if has_unread {
            recorded.pass_over(recorded.sequence_done().saturating_add(UNREAD_RECORDS_MAX));
        }
        let recovered = Recovered {
            torn: torn_records(&recorded, u64::from(self.context.layout.log_block_bytes), remains),
            recorded,
            snapshot_number: header.snapshot_number,
            snapshot_sequence: header.record_sequence,
            is_clean: header.flags & FLAG_CLEAN_SHUTDOWN != 0,
            lone: self.lone_header(&header),
            rebuilt: None,
            found: std::mem::take(&mut self.result),
        };
        self.opens(recovered)
    }

    fn replayed(&self, snapshot: Snapshot, links: &[chain::Link]) -> Recorded {
        let Snapshot { header, map, logs, claims, hints, fragments } = snapshot;
        let (layout, journal) = (&self.context.layout, self.map.journal);
        let over = (hints, fragments);
        let mut recorded = begin(layout, journal, map, over, header.record_sequence);
        for state in logs.values() {
            if let Some(ring) = recorded.logs_mut().get_or_create(state.log_index) {
                ring.begin_at(state.position);
            }
        }
        for claim in claims {
            recorded.logs_mut().adopt_claim(claim);
        }
        for link in links {
            replay(&mut recorded, link);
        }
        // Positions came from the snapshot, without a record that would have been measured.
        recorded.logs_mut().measure_all();
        recorded
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
fn torn_records(recorded: &Recorded, log_block_bytes: u64, remains: Vec<Remains>) -> Torn {
    let newest = recorded.sequence_done();
    let newer: Vec<Remains> =
        remains.into_iter().filter(|remains| remains.sequence > newest).collect();
    let newest_sequence = newer.iter().map(|remains| remains.sequence).max().unwrap_or(0);
    let mut offsets: BTreeSet<u64> = newer.iter().map(|remains| remains.offset).collect();
    if offsets.is_empty() {
        return Torn::default();
    }
    // Of a chain, which alone has a paged map, records begun since the snapshot stand behind all that its base has: what lies over is enough.
    for entry in recorded.map() {
        if let Place::Log { chunk_sector, chunk_len, .. } = entry.place {
            keep_off(&mut offsets, log_block_bytes, chunk_sector, u64::from(chunk_len));
        }
    }
    Torn { offsets, newest_sequence }
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
