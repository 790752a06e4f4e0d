//! Rebuilding the map from the records alone, when no snapshot of it is left.
//!
//! Every log is read whole ([`super::find`]); the records are put in the order of their sequences and replayed by the
//! same steps as in any recovery, from an empty map on. Where every record is there the result is the map that was
//! lost. (With a snapshot from elsewhere, a backup, the replay begins with its map.) Records whose space was used again, or that are damaged, leave gaps. Behind each gap stands a record that
//! echoes what the last one in it wrote: those sectors are poisoned, unless something newer is known. Of the others
//! in the gap nothing is known, so each entry that the map had by then may be older than one of them: those are
//! *outrun*, and whoever opened the volume decides about them before anything is written.
//!
//! It must never let an entry pass as certain that a record which is gone may have taken back.

use super::adopt::Torn;
use super::chain::{Link, by_sequence};
use super::find::{BySweep, Findings, Found};
use super::load::LoadedMap;
use super::replay::{begin, replay};
use super::{Next, Recovered, Recovery, Snapshot};
use crate::damage::DamageKind;
use crate::state::Recorded;
use crate::state::fragments::Fragments;
use crate::state::map::Map;
use nearhead_disk::RangeSet;
use nearhead_format::record::{Fragment, RecordHeader, SectorRange, WriteItem};
use nearhead_format::snapshot::BodySummary;
use nearhead_format::{Place, SnapshotHeader};
use std::collections::BTreeMap;
use std::ops::Range;

/// Sequences left out where an unreadable part of a log may hold records that nobody knows of: more than one log
/// block each can be.
const SEQUENCES_LEFT_OUT: u64 = 1 << 20;

/// Why it is not certain what some sectors should read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Their newest copy does not match its checksum.
    Damaged,
    /// The record that is known to have written them last is gone.
    Lost,
    /// A newer record is gone of which nothing says what it wrote.
    Outrun,
}

/// What a rebuild of the map knows, and what it does not.
#[derive(Clone, Debug, Default)]
pub struct Rebuilt {
    /// Sound records found in the logs.
    pub records: u64,
    /// The highest sequence of any record.
    pub newest_sequence: u64,
    /// Records that are not there, as runs of sequences from first to last.
    pub gone: Vec<(u64, u64)>,
    /// Whether nothing says what one of them wrote: then also what no record found speaks of may have had a newer
    /// copy that only the lost snapshot knew.
    pub is_rest_unknown: bool,
    /// Sectors that are poisoned already, with the reason.
    pub poisoned: BTreeMap<Doubt, RangeSet>,
    /// Sectors whose newest copy found may be older than a record that is gone.
    pub outrun: RangeSet,
    /// What records behind the last unknown one said whole, once there is an unknown one: bytes over anything else may lie over what is older.
    pub told_since: Option<RangeSet>,
    /// Device bytes of logs that cannot be read and may hold records.
    pub unreadable: Vec<Range<u64>>,
    /// Device bytes where remains of records begin that a power cut tore.
    pub torn: Vec<u64>,
}

impl Rebuilt {
    fn poison(&mut self, doubt: Doubt, range: Range<u64>) {
        self.poisoned.entry(doubt).or_default().insert(range);
    }

    /// A later record says what these sectors read as.
    fn settle(&mut self, range: Range<u64>) {
        for ranges in self.poisoned.values_mut() {
            ranges.remove(range.clone());
        }
        self.outrun.remove(range.clone());
        if let Some(told) = &mut self.told_since {
            told.insert(range);
        }
    }

    /// What a step of the replay means for what is doubtful.
    fn note(&mut self, link: &Link, map: &Map, fragments: &Fragments) {
        match link {
            Link::Unknown { .. } => {
                for entry in map.iter().filter(|entry| entry.place != Place::Poisoned) {
                    let sectors = entry.home_sector..entry.end_sector();
                    if entry.place == Place::Home {
                        // Without bytes over it it says no more than a map that has nothing.
                        for run in fragments.touched(sectors) {
                            self.outrun.insert(run);
                        }
                    } else {
                        self.outrun.insert(sectors);
                    }
                }
                self.told_since = Some(RangeSet::new());
            }
            Link::Lost { ranges, .. } => {
                for range in ranges {
                    self.settle(range.start_sector..range.end_sector());
                    self.poison(Doubt::Lost, range.start_sector..range.end_sector());
                }
            }
            Link::Record(found) => self.note_record(found),
        }
    }

    fn note_record(&mut self, found: &Found) {
        for range in &found.header.invalidations {
            self.settle(range.start_sector..range.end_sector());
        }
        let mut sound = found.chunks_sound.iter();
        for item in &found.header.writes {
            let range = item.range().start_sector..item.range().end_sector();
            self.settle(range.clone());
            let is_chunk = matches!(item, WriteItem::Chunk { .. });
            if is_chunk && !sound.next().copied().unwrap_or(false) {
                self.poison(Doubt::Damaged, range);
            }
        }
        for range in found.header.fragments.iter().map(Fragment::range) {
            self.note_fragment(range.start_sector..range.end_sector());
        }
    }

    /// Bytes of these sectors are newer than the rest of them; what that is a record may have said that is gone.
    fn note_fragment(&mut self, sectors: Range<u64>) {
        let Some(told) = &self.told_since else { return };
        let is_known = |sector: u64| {
            let is_in = |ranges: &RangeSet| ranges.overlaps(sector..sector + 1);
            is_in(told) || self.poisoned.values().any(is_in)
        };
        let doubtful: Vec<u64> = sectors.filter(|sector| !is_known(*sector)).collect();
        for sector in doubtful {
            self.outrun.insert(sector..sector + 1);
        }
    }
}

/// Puts what was found in order, and says in `rebuilt` what is not there. The map that the replay begins with includes
/// records up to `base`; `known_sequence` is the newest one that a damaged snapshot says there was.
fn order(
    mut found: Vec<Found>,
    base: u64,
    known_sequence: u64,
    rebuilt: &mut Rebuilt,
) -> Vec<Link> {
    found.retain(|record| record.header.sequence > base);
    let contradicted = contradictions(&found);
    let (by_sequence, newest_found) = by_sequence(found);
    let newest = newest_found.max(known_sequence).max(base);
    let (mut links, mut next) = (Vec::new(), base + 1);
    for (sequence, record) in by_sequence.into_iter().take_while(|(at, _)| *at <= newest) {
        if sequence > next {
            // The first record after a start may know nothing of the one before: then its echo is empty.
            let echo = &record.header.echo;
            let unknown_to = if echo.is_empty() { sequence - 1 } else { sequence - 2 };
            if unknown_to >= next {
                links.push(Link::Unknown { last: unknown_to });
            }
            if !echo.is_empty() {
                links.push(Link::Lost { last: sequence - 1, ranges: echo.clone() });
            }
            rebuilt.gone.push((next, sequence - 1));
        }
        rebuilt.records += u64::from(record.is_sound());
        links.push(Link::Record(Box::new(record)));
        if let Some(ranges) = contradicted.get(&sequence) {
            links.push(Link::Lost { last: sequence, ranges: ranges.clone() });
        }
        next = sequence + 1;
    }
    if next <= newest {
        links.push(Link::Unknown { last: newest });
        rebuilt.gone.push((next, newest));
    }
    rebuilt.newest_sequence = newest;
    links
}

/// What sound records of one sequence say where they differ: which of them counted is not known.
fn contradictions(found: &[Found]) -> BTreeMap<u64, Vec<SectorRange>> {
    let mut first: BTreeMap<u64, &Found> = BTreeMap::new();
    let mut differ: BTreeMap<u64, Vec<SectorRange>> = BTreeMap::new();
    let says = |found: &Found| {
        let RecordHeader { writes, invalidations, fragments, .. } = &found.header;
        (writes.clone(), invalidations.clone(), fragments.clone())
    };
    let ranges = |found: &Found| {
        let writes = found.header.writes.iter().map(WriteItem::range);
        let fragments = found.header.fragments.iter().map(Fragment::range);
        let taken_back = found.header.invalidations.iter().copied();
        writes.chain(fragments).chain(taken_back).collect::<Vec<_>>()
    };
    for record in found.iter().filter(|record| record.is_sound()) {
        let sequence = record.header.sequence;
        match first.get(&sequence) {
            None => drop(first.insert(sequence, record)),
            // One that was written again elsewhere after an error says the same.
            Some(twin) if says(twin) == says(record) => {}
            Some(twin) => {
                let told = differ.entry(sequence).or_insert_with(|| ranges(twin));
                told.extend(ranges(record));
            }
        }
    }
    differ
}

impl Recovery {
    /// No snapshot is left: the map begins empty, or as `base` from elsewhere has it, and every log is read.
    pub(super) fn begin_rebuild(&mut self, base: Option<Snapshot>) -> Next {
        // Nothing is written before the owner has decided.
        self.terms.flushes.clear();
        // What could not be read is told by its slot; nothing of it is relied on.
        self.unreadable = None;
        let volume_id = self.context.volume_id;
        self.snapshot = Some(base.unwrap_or_else(|| Snapshot {
            header: SnapshotHeader {
                volume_id,
                snapshot_number: 0,
                record_sequence: 0,
                flags: SnapshotHeader::flags_of(&self.context.layout),
                body: BodySummary::default(),
            },
            map: LoadedMap::Whole(Map::new()),
            logs: BTreeMap::new(),
            claims: Vec::new(),
            hints: Vec::new(),
            fragments: Vec::new(),
        }));
        for problem in std::mem::take(&mut self.slot_problems) {
            self.result.note(DamageKind::Snapshot.told(problem));
        }
        self.rebuilds = true;
        self.find(Box::<BySweep>::default())
    }

    /// Every log was read: what they say together.
    pub(super) fn rebuild(&mut self, findings: Findings) -> Next {
        let Findings { records, remains, outside, unknown, .. } = findings;
        if let Some(problem) = outside {
            return self.refuse(problem);
        }
        let Some(snapshot) = self.snapshot.take() else {
            return self.refuse("no map to begin with (internal error)".to_owned());
        };
        let mut rebuilt = Box::new(Rebuilt { unreadable: unknown, ..Rebuilt::default() });
        let base = snapshot.header.record_sequence;
        let mut links = order(records, base, self.known_sequence, &mut rebuilt);
        if !rebuilt.unreadable.is_empty() {
            // Nor may the sequence of one that is hidden there be used again.
            let last = rebuilt.newest_sequence + SEQUENCES_LEFT_OUT;
            links.push(Link::Unknown { last });
        }
        rebuilt.is_rest_unknown = links.iter().any(|link| matches!(link, Link::Unknown { .. }));
        self.result.note_records(links.len());
        let number = self.known_snapshot.max(snapshot.header.snapshot_number);
        let recorded = self.replay_noting(snapshot, &links, &mut rebuilt);
        let newest = rebuilt.newest_sequence;
        let torn = remains.into_iter().filter(|remains| remains.sequence > newest);
        rebuilt.torn = torn.map(|remains| remains.offset).collect();
        let recovered = Recovered {
            recorded,
            snapshot_number: number,
            snapshot_sequence: 0,
            is_clean: false,
            lone: None,
            torn: Torn::default(),
            rebuilt: Some(rebuilt),
            found: std::mem::take(&mut self.result),
        };
        self.opens(recovered)
    }

    /// Replays the links, and notes what each means for what is doubtful; only what stands in the map at the last
    /// unknown one can be outrun.
    fn replay_noting(&self, snapshot: Snapshot, links: &[Link], rebuilt: &mut Rebuilt) -> Recorded {
        let Snapshot { header, map, hints, fragments, .. } = snapshot;
        let (layout, journal) = (&self.context.layout, self.map.journal);
        let mut recorded = begin(layout, journal, map, (hints, fragments), header.record_sequence);
        let unknown = links.iter().rposition(|link| matches!(link, Link::Unknown { .. }));
        for (index, link) in links.iter().enumerate() {
            let is_unknown = matches!(link, Link::Unknown { .. });
            if !is_unknown || Some(index) == unknown {
                rebuilt.note(link, recorded.map(), recorded.fragments());
            }
            replay(&mut recorded, link);
        }
        recorded.logs_mut().measure_all();
        recorded
    }
}
