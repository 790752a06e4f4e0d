//! A rebuild against what was really written: made-up histories of records of which some are gone, damaged or told twice.
//! Every sector is to read as the history says, or to be doubtful for the reason that the history has; nothing else
//! may be doubtful.

use super::find::{Findings, Found, Remains, ScanContext};
use super::load::LoadedMap;
use super::rebuild::{Doubt, Rebuilt};
use super::{Next, Recovered, Recovery, Snapshot, Terms};
use crate::config::MapPlace;
use crate::state::map::Map;
use nearhead_basics::SplitMix;
use nearhead_format::record::{Fragment, RecordHeader, SectorRange, WriteItem};
use nearhead_format::snapshot::{BodySummary, CELL_CONTENT_BYTES, FragmentCell};
use nearhead_format::{Entry, Layout, LayoutKind, LayoutOptions, Place, SnapshotHeader};
use std::collections::BTreeMap;

const VOLUME_ID: [u8; 16] = [7; 16];
const BLOCKS: u64 = 12;
const SECTORS: usize = 8 * BLOCKS as usize;
/// Log blocks from one record to the next.
const STRIDE: u32 = 64;

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Whole,
    /// One of its chunks, if it has any.
    Damaged,
    Gone,
    /// Another record with its sequence says something else.
    Contradicted,
    /// It stands twice.
    Twice,
}

/// What one sector is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Home,
    Zero,
    /// Of the record with this sequence.
    Logged(u64),
    Poisoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sector {
    content: Content,
    /// The record whose bytes lie over that.
    over: Option<u64>,
    doubt: Option<Doubt>,
}

const AT_HOME: Sector = Sector { content: Content::Home, over: None, doubt: None };
/// Where in a sector the bytes are that a record brings.
const OVER_AT: u64 = 100;

struct History {
    records: Vec<Found>,
    fates: Vec<Fate>,
    /// The map of a backup includes records up to this one.
    base: u64,
    /// A damaged snapshot says that there was one.
    known: u64,
}

fn range(start: u64, len: u64) -> SectorRange {
    SectorRange { start_sector: start, len_sectors: len as u32 }
}

fn layout() -> Layout {
    Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap()
}

/// Something a record says.
fn ranges(header: &RecordHeader) -> Vec<SectorRange> {
    let writes = header.writes.iter().map(WriteItem::range);
    let writes = writes.chain(header.fragments.iter().map(Fragment::range));
    header.invalidations.iter().copied().chain(writes).collect()
}

fn made_record(random: &mut SplitMix, sequence: u64, log_index: u32) -> Found {
    let mut header = RecordHeader {
        volume_id: VOLUME_ID,
        sequence,
        log_index,
        position: sequence as u32 * STRIDE,
        ..RecordHeader::default()
    };
    for _ in 0..=random.below(3) {
        let from = random.below(SECTORS as u64 - 8);
        match random.below(6) {
            4 | 5 => header.fragments.push(Fragment {
                home_sector: from,
                offset: OVER_AT as u16,
                bytes: [sequence as u8; CELL_CONTENT_BYTES].into(),
            }),
            0 => {
                header.writes.push(WriteItem::Zeros {
                    home_sector: from,
                    run_sectors: 1 + random.below(8) as u32,
                });
            }
            1 => header.invalidations.push(range(from, 1 + random.below(8))),
            _ => {
                let (block, at) = (from / 8, random.below(8));
                header.writes.push(WriteItem::Chunk {
                    home_sector: block * 8 + at,
                    len_sectors: 1 + random.below(8 - at) as u8,
                    crc: sequence as u32,
                });
            }
        }
    }
    let chunks = header.writes.iter().filter(|item| item.payload_sectors() > 0).count();
    Found {
        blocks: 40,
        chunks_sound: vec![true; chunks],
        is_only_unread: false,
        journal: None,
        past_volume: None,
        header,
    }
}

impl History {
    fn made_up(seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let count = 2 + random.below(24);
        let losses = 2 + random.below(8);
        let (mut records, mut fates): (Vec<Found>, Vec<Fate>) = (Vec::new(), Vec::new());
        for sequence in 1..=count {
            let mut record = made_record(&mut random, sequence, 0);
            // The first one after a start knows nothing of the one before.
            if let Some(before) = records.last().filter(|_| random.below(6) > 0) {
                record.header.echo = ranges(&before.header);
            }
            let fate = match random.below(losses + 4) {
                0 => Fate::Damaged,
                1 => Fate::Contradicted,
                2 => Fate::Twice,
                at if at < 5 => Fate::Gone,
                _ => Fate::Whole,
            };
            if fate == Fate::Damaged
                && let Some(first) = record.chunks_sound.first_mut()
            {
                *first = false;
            }
            records.push(record);
            fates.push(fate);
        }
        let base = if random.below(3) == 0 { random.below(count) } else { 0 };
        let known = random.below(count + 3);
        Self { records, fates, base, known }
    }

    /// The same up to this record, all of it whole.
    fn cut(&self, last: u64) -> Self {
        let records = self.records[..last as usize].to_vec();
        Self { fates: vec![Fate::Whole; records.len()], records, base: last, known: 0 }
    }

    /// Everything that stands in the logs, and what of it contradicts another.
    fn found(&self, random: &mut SplitMix) -> (Vec<Found>, BTreeMap<u64, Found>) {
        let (mut found, mut others) = (Vec::new(), BTreeMap::new());
        for (record, fate) in self.records.iter().zip(&self.fates) {
            if *fate == Fate::Gone {
                continue;
            }
            found.push(record.clone());
            let sequence = record.header.sequence;
            if *fate == Fate::Twice {
                let mut twin = record.clone();
                twin.header.log_index = 1;
                found.push(twin);
            }
            if *fate == Fate::Contradicted {
                let mut other = made_record(random, sequence, 1);
                other.header.echo.clone_from(&record.header.echo);
                others.insert(sequence, other.clone());
                found.push(other);
            }
        }
        (found, others)
    }

    /// What the history says of each sector, record by record.
    fn expected(&self, others: &BTreeMap<u64, Found>) -> (Vec<Sector>, u64) {
        let is_there = |at: usize| self.fates.get(at).is_some_and(|fate| *fate != Fate::Gone);
        let sound = (0..self.records.len())
            .filter(|at| is_there(*at) && self.records[*at].header.sequence > self.base)
            .filter(|at| self.records[*at].is_sound());
        let newest = sound.map(|at| at as u64 + 1).max().unwrap_or(0);
        let newest = newest.max(self.known).max(self.base);
        let echo_of_next = |sequence: u64| {
            let next = self.records.get(sequence as usize)?;
            let is_told = is_there(sequence as usize) && sequence < newest;
            (is_told && !next.header.echo.is_empty()).then(|| next.header.echo.clone())
        };
        let last_unknown = (self.base + 1..=newest)
            .filter(|sequence| !is_there(*sequence as usize - 1))
            .rfind(|sequence| echo_of_next(*sequence).is_none());
        let mut sectors = vec![AT_HOME; SECTORS];
        // Sectors of which something was said whole since the last one that is not known.
        let mut told = [true; SECTORS];
        for sequence in 1..=newest {
            let at = sequence as usize - 1;
            let record = self.records.get(at).filter(|_| is_there(at) || sequence <= self.base);
            match record {
                Some(record) => {
                    // The backup was made while all of it was there.
                    let is_in_base = sequence <= self.base;
                    apply(&mut sectors, record, is_in_base);
                    note_told(&mut told, &record.header);
                    lay_over(&mut sectors, &record.header, &told);
                    let other = others.get(&sequence).filter(|_| !is_in_base);
                    if let Some(other) = other
                        && differs(record, other)
                        && record.is_sound()
                    {
                        for lost in [record, other].map(|record| ranges(&record.header)) {
                            lose(&mut sectors, &lost);
                            tell(&mut told, &lost);
                        }
                    }
                }
                None => match echo_of_next(sequence) {
                    Some(echo) => {
                        lose(&mut sectors, &echo);
                        tell(&mut told, &echo);
                    }
                    None if last_unknown == Some(sequence) => {
                        outrun(&mut sectors);
                        told = [false; SECTORS];
                    }
                    None => {}
                },
            }
        }
        (sectors, newest)
    }
}

fn differs(record: &Found, other: &Found) -> bool {
    let says = |found: &Found| {
        let RecordHeader { writes, invalidations, fragments, .. } = &found.header;
        (writes.clone(), invalidations.clone(), fragments.clone())
    };
    says(record) != says(other)
}

fn tell(told: &mut [bool; SECTORS], ranges: &[SectorRange]) {
    for range in ranges {
        let end = (range.end_sector() as usize).min(SECTORS);
        told[range.start_sector as usize..end].fill(true);
    }
}

/// A record says all of what it writes and of what it takes back, and of what it brings bytes for those alone.
fn note_told(told: &mut [bool; SECTORS], header: &RecordHeader) {
    let writes = header.writes.iter().map(WriteItem::range);
    let whole: Vec<SectorRange> = header.invalidations.iter().copied().chain(writes).collect();
    tell(told, &whole);
}

/// Over what is lost nothing can lie; and over what a record may have said that is gone, nothing certain.
fn lay_over(sectors: &mut [Sector], header: &RecordHeader, told: &[bool; SECTORS]) {
    for fragment in &header.fragments {
        let at = fragment.home_sector as usize;
        let sector = &mut sectors[at];
        if sector.content != Content::Poisoned {
            let doubt = sector.doubt.or((!told[at]).then_some(Doubt::Outrun));
            *sector = Sector { over: Some(header.sequence), doubt, ..*sector };
        }
    }
}

fn set(sectors: &mut [Sector], range: SectorRange, sector: Sector) {
    let end = (range.end_sector() as usize).min(SECTORS);
    sectors[range.start_sector as usize..end].fill(sector);
}

fn apply(sectors: &mut [Sector], record: &Found, is_whole: bool) {
    let certain = |content| Sector { content, ..AT_HOME };
    for range in &record.header.invalidations {
        set(sectors, *range, certain(Content::Home));
    }
    let mut sound = record.chunks_sound.iter();
    for item in &record.header.writes {
        let sector = match item {
            WriteItem::Zeros { .. } => certain(Content::Zero),
            WriteItem::Chunk { .. } if *sound.next().unwrap() || is_whole => {
                certain(Content::Logged(record.header.sequence))
            }
            WriteItem::Chunk { .. } => {
                Sector { content: Content::Poisoned, doubt: Some(Doubt::Damaged), ..AT_HOME }
            }
        };
        set(sectors, item.range(), sector);
    }
}

fn lose(sectors: &mut [Sector], ranges: &[SectorRange]) {
    for range in ranges {
        let lost = Sector { content: Content::Poisoned, doubt: Some(Doubt::Lost), ..AT_HOME };
        set(sectors, *range, lost);
    }
}

fn outrun(sectors: &mut [Sector]) {
    for sector in sectors {
        if matches!(sector.content, Content::Zero | Content::Logged(_)) || sector.over.is_some() {
            sector.doubt = Some(Doubt::Outrun);
        }
    }
}

/// A snapshot whose map says what the sectors do.
fn backup(sectors: &[Sector], record_sequence: u64) -> Snapshot {
    let mut map = Map::new();
    for (home_sector, sector) in (0..).zip(sectors) {
        let place = match sector.content {
            Content::Home => continue,
            Content::Zero => Place::Zero,
            Content::Poisoned => Place::Poisoned,
            Content::Logged(sequence) => {
                let start = layout().log_block_offset(0, sequence as u32 * STRIDE).unwrap();
                let chunk_sector = start / 512 + home_sector % 8;
                Place::Log { chunk_sector, chunk_len: 1, offset: 0 }
            }
        };
        let crc = if let Content::Logged(sequence) = sector.content { sequence as u32 } else { 0 };
        map.insert(Entry { home_sector, len_sectors: 1, place, crc }, &mut |_| {});
    }
    let header = SnapshotHeader {
        volume_id: VOLUME_ID,
        snapshot_number: 3,
        record_sequence,
        flags: 0,
        body: BodySummary::default(),
    };
    let (logs, claims, hints) = (BTreeMap::new(), Vec::new(), Vec::new());
    let map = LoadedMap::Whole(map);
    let cell = |(sector, content): (u64, &Sector)| {
        let sequence = content.over?;
        Some(FragmentCell {
            home_byte: sector * 512 + OVER_AT,
            record_sector: layout().log_block_offset(0, sequence as u32 * STRIDE)? / 512,
            len: CELL_CONTENT_BYTES as u8,
            bytes: [sequence as u8; CELL_CONTENT_BYTES],
        })
    };
    let fragments = (0..).zip(sectors).filter_map(cell).collect();
    Snapshot { header, map, logs, claims, hints, fragments }
}

/// What a rebuild makes of it.
fn rebuilt(findings: Findings, base: Snapshot, known: u64) -> Box<Recovered> {
    let context =
        ScanContext { layout: layout(), volume_id: VOLUME_ID, floor_sequence: 0, gap_bytes_max: 0 };
    let mut recovery = Recovery::new(context, MapPlace::of_layout(&layout()), Terms::default());
    recovery.snapshot = Some(base);
    recovery.known_sequence = known;
    match recovery.rebuild(findings) {
        Next::Open(recovered) => recovered,
        _ => panic!("a rebuild opens"),
    }
}

/// Every sector, as the map has it and as what is doubtful says.
fn sectors_of(recovered: &Recovered) -> Vec<Sector> {
    let mut sectors = vec![AT_HOME; SECTORS];
    for entry in recovered.recorded.map() {
        let content = match entry.place {
            Place::Home => Content::Home,
            Place::Zero => Content::Zero,
            Place::Poisoned => Content::Poisoned,
            Place::Log { .. } => Content::Logged(u64::from(entry.crc)),
        };
        let range = range(entry.home_sector, entry.end_sector() - entry.home_sector);
        set(&mut sectors, range, Sector { content, ..AT_HOME });
    }
    for cell in recovered.recorded.fragments().cells() {
        assert_eq!((cell.home_byte % 512, cell.content().len()), (OVER_AT, CELL_CONTENT_BYTES));
        sectors[(cell.home_byte / 512) as usize].over = Some(u64::from(cell.bytes[0]));
    }
    let rebuilt: &Rebuilt = recovered.rebuilt.as_ref().unwrap();
    let outrun = [(Doubt::Outrun, &rebuilt.outrun)];
    let poisoned = rebuilt.poisoned.iter().map(|(doubt, ranges)| (*doubt, ranges));
    for (doubt, ranges) in poisoned.chain(outrun) {
        for sector in ranges.iter().flatten() {
            let before = sectors[sector as usize].doubt.replace(doubt);
            assert_eq!(before, None, "sector {sector} is doubtful for one reason");
        }
    }
    sectors
}

#[test]
fn each_sector_is_what_the_history_says_or_doubtful_for_the_reason_that_it_has() {
    let mut met = BTreeMap::new();
    for seed in 0..4000 {
        let history = History::made_up(seed);
        let (mut found, others) = history.found(&mut SplitMix::new(seed ^ 0xff));
        // Nobody finds records in their order.
        let turned = seed as usize % found.len().max(1);
        found.rotate_left(turned);
        // Of two that contradict each other the one of the history comes first.
        found.sort_by_key(|record| record.header.log_index);
        let (expected, newest) = history.expected(&others);
        let in_base = history.cut(history.base);
        let (base, _) = in_base.expected(&BTreeMap::new());
        let findings = Findings { records: found, ..Findings::default() };
        let recovered = rebuilt(findings, backup(&base, history.base), history.known);
        assert_eq!(sectors_of(&recovered), expected, "seed {seed}");
        let told = recovered.rebuilt.as_ref().unwrap();
        assert_eq!(told.newest_sequence, newest, "seed {seed}");
        assert_eq!(recovered.recorded.sequence_done(), newest, "seed {seed}");
        let gone: Vec<u64> = told.gone.iter().flat_map(|(first, last)| *first..=*last).collect();
        let is_gone = |sequence: &u64| {
            history.fates.get(*sequence as usize - 1).is_none_or(|fate| *fate == Fate::Gone)
        };
        let expected_gone: Vec<u64> = (history.base + 1..=newest).filter(is_gone).collect();
        assert_eq!(gone, expected_gone, "seed {seed}");
        let sound = (history.base..newest).filter(|at| !is_gone(&(at + 1)));
        let sound = sound.filter(|at| history.records[*at as usize].is_sound());
        assert_eq!(told.records, sound.count() as u64, "seed {seed}");
        for sector in expected {
            *met.entry((sector.doubt, told.is_rest_unknown)).or_insert(0_u32) += 1;
        }
    }
    let doubts = [None, Some(Doubt::Damaged), Some(Doubt::Lost), Some(Doubt::Outrun)];
    assert!(doubts.iter().all(|doubt| met.contains_key(&(*doubt, true))), "{met:?}");
    assert!(!met.contains_key(&(Some(Doubt::Outrun), false)), "{met:?}");
}

#[test]
fn what_cannot_be_read_may_hide_records_whose_sequences_are_used_by_nobody_again() {
    let record = made_record(&mut SplitMix::new(1), 1, 0);
    let remains = |sequence| Remains { sequence, offset: sequence * 1000 };
    let findings = |unknown| Findings {
        records: vec![record.clone()],
        remains: vec![remains(1), remains(2), remains(3)],
        unknown,
        ..Findings::default()
    };
    let nothing = || backup(&[], 0);
    let all_read = rebuilt(findings(Vec::new()), nothing(), 0);
    let told = all_read.rebuilt.as_ref().unwrap();
    assert!(!told.is_rest_unknown && told.outrun.is_empty());
    assert_eq!(told.torn, [2000, 3000], "the first is an older part of a record that is there");
    assert_eq!((all_read.recorded.sequence_done(), all_read.snapshot_number), (1, 3));
    let hidden = rebuilt(findings(vec![4096..8192, 9000..9001]), nothing(), 0);
    let told = hidden.rebuilt.as_ref().unwrap();
    assert_eq!(told.unreadable, [4096..8192, 9000..9001]);
    assert!(told.is_rest_unknown);
    assert_eq!(told.gone, [], "of what is hidden nobody knows that it was there");
    assert_eq!(hidden.recorded.sequence_done(), 1 + (1 << 20));
    let sectors = sectors_of(&hidden);
    let says = |sector: &&Sector| sector.content != Content::Home || sector.over.is_some();
    let said = sectors.iter().filter(says).count();
    assert_eq!(told.outrun.total(), said as u64, "all of it may be older");
}

#[test]
fn a_record_that_names_what_the_volume_has_not_is_refused_with_what_it_names() {
    let context =
        ScanContext { layout: layout(), volume_id: VOLUME_ID, floor_sequence: 0, gap_bytes_max: 0 };
    let mut recovery = Recovery::new(context, MapPlace::of_layout(&layout()), Terms::default());
    let outside = Some("too far".to_owned());
    match recovery.rebuild(Findings { outside, ..Findings::default() }) {
        Next::Refuse(refusal) => assert_eq!(refusal.problem, "too far"),
        _ => panic!("expected a refusal"),
    }
}
