//! The end of a recovery: snapshot and records become the volume as it was, or the reason is told why it is not served.

use super::chain::Ordered;
use super::find::{BySweep, Findings, Hidden, Remains, ScanContext};
use super::load::LoadedMap;
use super::replay::{begin, replay};
use super::{Next, Rebuilt, Recovery, Snapshot, Step, chain};
use crate::commit::Commit;
use crate::core::Core;
use crate::damage::DamageKind;
use crate::placement::Need;
use crate::snapshot::{LoneHeader, Snapshotter};
use crate::state::Recorded;
use crate::state::findings::RecoveredState;
use crate::state::logs::REACH_BYTES;
use nearhead_disk::SECTOR_BYTES;
use nearhead_format::Place;
use nearhead_format::record::Claim;
use nearhead_format::snapshot::{FLAG_CLEAN_SHUTDOWN, SnapshotHeader};
use std::collections::{BTreeSet, VecDeque};

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
        let mut findings = self.with_swept(findings);
        if let Some(problem) = findings.outside {
            return self.refuse(problem);
        }
        let Some(snapshot) = self.snapshot.take() else {
            return self.refuse("no snapshot was read (internal error)".to_owned());
        };
        let accept_loss = self.terms.accept_loss;
        let base = snapshot.header.record_sequence;
        let known = base..self.known_sequence.max(base);
        let again = self.sweeps_next().then(|| findings.records.clone());
        let mut result = self.result.clone();
        result.note_logs(findings.logs);
        for problem in std::mem::take(&mut findings.problems) {
            result.note(problem);
        }
        let ordered =
            chain::order(std::mem::take(&mut findings.records), known, accept_loss, &mut result);
        let is_loss = ordered.as_ref().is_ok_and(|ordered| {
            let places = places(&findings, ordered);
            let hides = !may_be_newest(&findings.hidden, places, ordered).is_empty();
            self.unreadable.is_some() || hides || ordered.is_any_unknown
        });
        // A record that is gone may have been the only one to claim a log.
        let is_any_gone = ordered.as_ref().map_or(true, |ordered| !ordered.missing.is_empty());
        let peeks = is_any_gone || is_loss || !findings.hidden.is_empty();
        if peeks && !self.is_device_gone && !std::mem::replace(&mut self.has_peeked, true) {
            let finder = self.finder(&snapshot, self.every_log(&snapshot));
            self.snapshot = Some(snapshot);
            return self.find(finder);
        }
        if let Some(records) = again.filter(|_| is_loss) {
            self.snapshot = Some(snapshot);
            self.before_sweep = Some(Findings { records, ..findings });
            self.has_swept = true;
            return self.find(Box::<BySweep>::default());
        }
        self.result = result;
        let ordered = match ordered {
            Ok(ordered) => ordered,
            Err(problem) => {
                // Where something cannot be read that is why.
                let unread = findings.hidden.first().map(|hidden| &hidden.problem);
                let why = unread.map(|unread| format!("{unread}; {MAY_BE_NEWER}, and "));
                return self.refuse(format!("{}{problem}", why.unwrap_or_default()));
            }
        };
        let header = snapshot.header;
        findings.hidden.retain(|hidden| !is_needed(&snapshot, hidden, &self.context));
        let mut recorded = self.replayed(snapshot, &ordered.links);
        // A missing record may be in any of these, also in one where the next record cannot begin.
        let places = places(&findings, &ordered);
        findings.hidden.retain(|hidden| may_begin(&recorded, hidden, &self.context));
        let unread = may_be_newest(&findings.hidden, places, &ordered);
        let problem = self.unreadable.take().or(unread.first().map(|first| first.problem.clone()));
        if let Some(problem) = &problem {
            let newer = newer_than(ordered.newest.max(header.record_sequence));
            if !accept_loss {
                return self.refuse(format!(
                    "{problem}; {newer}: mend the device, or see what would be lost with `nearhead repair \
                     --dry-run` and accept the loss with `nearhead repair --accept-loss`"
                ));
            }
            let finding = format!("{problem}; {newer}; it is given up");
            self.result.note(DamageKind::Record.told(finding));
        }
        self.result.note_records(ordered.links.len());
        let mut torn = torn_records(
            &recorded,
            u64::from(self.context.layout.log_block_bytes),
            findings.remains,
        );
        if problem.is_some() {
            recorded.pass_over(recorded.sequence_done().saturating_add(UNREAD_RECORDS_MAX));
            overwrite_first(&recorded, &mut torn, &unread);
        }
        for (log, position) in findings.hidden.iter().filter_map(|hidden| hidden.block) {
            recorded.logs_mut().leave_behind(log, position);
        }
        let recovered = Recovered {
            torn,
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

    /// Every log, from where on a claim would say that it holds newer records.
    fn every_log(&self, snapshot: &Snapshot) -> VecDeque<Claim> {
        let layout = &self.context.layout;
        let claims = (0..layout.log_count()).flat_map(|log_index| {
            let position = snapshot.logs.get(&log_index).map_or(0, |state| state.position);
            // In a chain a log that was free begins anew.
            let anew = (layout.is_chain() && position > 0).then_some(0);
            anew.into_iter().chain([position]).map(move |position| Claim { log_index, position })
        });
        claims.collect()
    }

    /// Whether all logs are read whole, should it turn out that a loss must be accepted: once.
    fn sweeps_next(&self) -> bool {
        self.terms.accept_loss && !self.has_swept
    }

    /// What the claimed logs hold, together with what all logs hold if those were read as well.
    fn with_swept(&mut self, findings: Findings) -> Findings {
        let Some(mut first) = self.before_sweep.take() else { return findings };
        let known: BTreeSet<u64> =
            first.records.iter().map(|found| found.header.sequence).collect();
        let is_new =
            |sequence: u64| sequence > self.context.floor_sequence && !known.contains(&sequence);
        let Findings { records, remains, outside, .. } = findings;
        first.records.extend(records.into_iter().filter(|found| is_new(found.header.sequence)));
        first.remains.extend(remains.into_iter().filter(|remains| is_new(remains.sequence)));
        first.outside = first.outside.or(outside);
        first
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

/// Said of what cannot be read.
const MAY_BE_NEWER: &str = "it may hold writes newer than everything else";

/// What a record would be that hides where nothing can be read.
fn newer_than(newest: u64) -> String {
    format!(
        "{MAY_BE_NEWER}: a record newer than {newest}, the newest that can be read, may be there, and nothing says what it wrote"
    )
}

/// Whether the snapshot needs what is in a log block, so that no record newer than it begins there.
fn is_needed(snapshot: &Snapshot, hidden: &Hidden, context: &ScanContext) -> bool {
    let LoadedMap::Whole(map) = &snapshot.map else { return false };
    if hidden.block.is_none() {
        return false;
    }
    let block = hidden.offset..hidden.offset + context.block() as u64;
    map.iter().any(|entry| match entry.place {
        Place::Log { chunk_sector, chunk_len, .. } => {
            let start = chunk_sector * SECTOR_BYTES;
            start < block.end && block.start < start + u64::from(chunk_len) * SECTOR_BYTES
        }
        _ => false,
    })
}

/// Whether the next record may begin in that place, as far as the placement leaves out nothing: where the first one goes that
/// fits, be it short or long. Places that failed, or that were held only then, are not known any more.
fn may_begin(recorded: &Recorded, hidden: &Hidden, context: &ScanContext) -> bool {
    let Some((log, block)) = hidden.block else { return true };
    if hidden.sequence.is_some() || context.gap_bytes_max > 0 {
        return true;
    }
    let logs = recorded.logs();
    let place = |blocks| logs.next_place(log, Need { blocks, reserve: 0 });
    let longest = (REACH_BYTES / context.block() as u64) as u32 + 1;
    let mut blocks = 1;
    while let Some(at) = place(blocks).filter(|_| blocks <= longest) {
        if at == block {
            return true;
        }
        // The longest record that goes there.
        let (mut fits, mut too_long) = (blocks, longest + 1);
        while fits + 1 < too_long {
            let middle = fits.midpoint(too_long);
            if place(middle) == Some(at) { fits = middle } else { too_long = middle }
        }
        blocks = too_long;
    }
    false
}

/// Number of places that may each hold a record that was not found: those that could not be read, and those before newer records.
fn places(findings: &Findings, ordered: &Ordered) -> usize {
    let unread = findings.hidden.iter().filter(|hidden| hidden.may_be_newer_than(ordered.newest));
    unread.count() + findings.passed
}

/// Those of the `hidden` places where a record may hide that is newer than all that were found. One that names its sequence is no
/// newer, or is known to be missing. Only where no more `places` could not be read than records are missing does each hold
/// one of them: a missing record that stood before a newer one leaves none of the others for it.
fn may_be_newest(hidden: &[Hidden], places: usize, ordered: &Ordered) -> Vec<Hidden> {
    let open = hidden.iter().filter(|hidden| hidden.may_be_newer_than(ordered.newest));
    let open: Vec<Hidden> = open.cloned().collect();
    let named: BTreeSet<u64> = hidden.iter().filter_map(|hidden| hidden.sequence).collect();
    let missing = ordered.missing.difference(&named).count();
    if places <= missing && open.iter().all(|hidden| hidden.sequence.is_none()) {
        return Vec::new();
    }
    open
}

/// Lets no record show up later in the places that were given up: their first sectors are overwritten before the next record.
fn overwrite_first(recorded: &Recorded, torn: &mut Torn, unread: &[Hidden]) {
    let block_bytes = recorded.logs().block_bytes() as u64;
    let mut offsets: BTreeSet<u64> =
        unread.iter().filter(|hidden| hidden.block.is_some()).map(|hidden| hidden.offset).collect();
    keep_off_map(&mut offsets, recorded, block_bytes);
    if !offsets.is_empty() {
        torn.newest_sequence = torn.newest_sequence.max(recorded.sequence_done() + 1);
        torn.offsets.extend(offsets);
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
    keep_off_map(&mut offsets, recorded, log_block_bytes);
    Torn { offsets, newest_sequence }
}

/// Takes out of `offsets`, device bytes, those of log blocks to which the map points.
fn keep_off_map(offsets: &mut BTreeSet<u64>, recorded: &Recorded, block_bytes: u64) {
    // Of a chain, which alone has a paged map, records begun since the snapshot stand behind all that its base has: what lies over is enough.
    for entry in recorded.map() {
        if let Place::Log { chunk_sector, chunk_len, .. } = entry.place {
            keep_off(offsets, block_bytes, chunk_sector, u64::from(chunk_len));
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
