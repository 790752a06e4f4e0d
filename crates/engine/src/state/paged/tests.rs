//! The layers against one plain map: whatever is written, removed, frozen, merged and given up, both say the same, and what is counted of
//! logs is what the layers hold.

use super::*;
use crate::state::Recorded;
use crate::state::map::Segment;
use nearhead_basics::SplitMix;
use nearhead_disk::BufferMut;
use nearhead_format::layout::{LayoutKind, LayoutOptions};
use nearhead_format::snapshot::{BodyItem, BodyWriter, LogState};
use nearhead_format::{Layout, Place};
use std::collections::BTreeMap;

const BLOCKS: u64 = 6_000;
const BODY_OFFSETS: [u64; 2] = [1 << 20, 9 << 20];

/// A volume's state with a paged map, a plain one beside it, and the bytes of both slots.
struct Pair {
    paged: Recorded,
    plain: Map,
    slots: BTreeMap<u64, Vec<u8>>,
    number: u64,
    next_chunk: u64,
    first_sector: u64,
    log_sectors: u64,
    pages_read: u32,
}

impl Pair {
    fn new() -> Self {
        let layout = Layout::plan(256 << 20, &LayoutOptions::new(LayoutKind::Chain)).unwrap();
        let bounds = PagedBounds::new(0, layout.client_bytes() / 4096, true);
        let logs = Logs::new(&layout, true);
        let mut builder = BaseBuilder::new(true);
        builder.bytes(&[0; 4096]);
        let paged = Paged::new(bounds, builder.finish(0, BODY_OFFSETS[0]));
        Self {
            paged: Recorded::with_pages(paged, logs, None),
            plain: Map::new(),
            slots: BTreeMap::new(),
            number: 0,
            next_chunk: 0,
            first_sector: layout.log_offset(0).unwrap() / 512,
            log_sectors: u64::from(layout.log_count()) * layout.log_bytes / 512,
            pages_read: 0,
        }
    }

    fn paged(&self) -> &Paged {
        self.paged.layers().paged().unwrap()
    }

    fn write(&mut self, block: u64, first: u64, len: u8) {
        // Eight sectors each, so that no chunk lies in two logs.
        let chunk_sector = self.first_sector + self.next_chunk * 8 % self.log_sectors;
        self.next_chunk += 1;
        let place = Place::Log { chunk_sector, chunk_len: len, offset: 0 };
        let crc = self.next_chunk as u32;
        let entry = Entry { home_sector: block * 8 + first, len_sectors: len, place, crc };
        self.plain.insert(entry, &mut |_| ());
        self.paged.logs_mut().add_entry(&entry);
        self.paged.insert(entry);
    }

    fn remove(&mut self, start: u64, sectors: u64) {
        self.plain.remove(start, sectors, &mut |_| ());
        self.paged.remove(start, sectors);
    }

    fn read(&self, (offset, len): (u64, u32)) -> Payload {
        let base = self.paged().base();
        let slot = BODY_OFFSETS[(base.number() % 2) as usize];
        let body = &self.slots[&slot];
        let from = (offset - slot) as usize;
        Payload::Bytes(BufferMut::copy_of(&body[from..from + len as usize]).freeze())
    }

    /// A snapshot as far as it goes: up to its end, or until it has failed.
    fn snapshot(&mut self, random: &mut SplitMix, fails: bool) {
        let mut merge = *self.paged.freeze(random.coin()).unwrap();
        let offset = BODY_OFFSETS[(self.number + 1) as usize % 2];
        let (mut writer, mut body) = (BodyWriter::new(), Vec::new());
        let mut rest = vec![BodyItem::Log(LogState { log_index: 3, position: 7 })].into_iter();
        let before: Vec<Entry> = self.plain.iter().collect();
        loop {
            while !self.paged.produce(&mut merge, 1639) {
                let data = self.read(self.paged().wanted(&merge, 100_000));
                self.paged().take_pages(&mut merge, &data).unwrap();
            }
            if fails && random.below(4) == 0 {
                return;
            }
            let mut piece = vec![0; 32 << 10];
            let mut items =
                std::iter::from_fn(|| merge.pop().map(BodyItem::Entry).or_else(|| rest.next()));
            let filled = writer.fill(&mut piece, &mut items).unwrap();
            merge.note_bytes(&piece[..filled]);
            body.extend_from_slice(&piece[..filled]);
            if filled == 0 {
                break;
            }
            // Requests go on meanwhile.
            self.changes(random, 20);
        }
        if fails {
            return;
        }
        self.number += 1;
        self.slots.insert(offset, body);
        self.paged.let_go(&mut merge);
        self.paged.rebase(merge, self.number, offset);
        assert_eq!(self.paged().base().kept().unwrap(), before, "as it was when it began");
    }

    /// One during which nothing changes.
    fn quiet_snapshot(&mut self, random: &mut SplitMix, is_told: bool) {
        let mut merge = *self.paged.freeze(is_told).unwrap();
        let (mut writer, mut body) = (BodyWriter::new(), Vec::new());
        loop {
            while !self.paged.produce(&mut merge, 6_600) {
                let data = self.read(self.paged().wanted(&merge, 1 << 20));
                self.paged().take_pages(&mut merge, &data).unwrap();
            }
            let mut piece = vec![0; 128 << 10];
            let mut items = std::iter::from_fn(|| merge.pop().map(BodyItem::Entry));
            let filled = writer.fill(&mut piece, &mut items).unwrap();
            if filled == 0 {
                break;
            }
            merge.note_bytes(&piece[..filled]);
            body.extend_from_slice(&piece[..filled]);
        }
        self.number += 1;
        let offset = BODY_OFFSETS[self.number as usize % 2];
        self.slots.insert(offset, body);
        self.paged.let_go(&mut merge);
        self.paged.rebase(merge, self.number, offset);
        self.check(random);
    }

    fn changes(&mut self, random: &mut SplitMix, count: u64) {
        for _ in 0..count {
            let block = random.below(BLOCKS);
            match random.below(8) {
                0 => self.remove(block * 8, 1 + random.below(64)),
                1 => self.remove(block * 8 + random.below(8), 1 + random.below(200)),
                2 => self.write(block, 3, 2),
                3 => self.write(block, 0, 1 + random.below(8) as u8),
                4 => (block..(block + 40).min(BLOCKS)).for_each(|block| self.write(block, 0, 8)),
                _ => self.write(block, 0, 8),
            }
        }
    }

    /// What the layers say of a range, with the pages that it takes.
    fn lookup(&mut self, start: u64, sectors: u64) -> Vec<Segment> {
        let mut held = Vec::new();
        loop {
            let mut found = Vec::new();
            let layers = self.paged.layers();
            let missing = layers.lookup(start, sectors, &held, &mut |segment| found.push(segment));
            if missing.is_empty() {
                return joined(found);
            }
            for number in missing {
                let data = self.read(self.paged().base().extent(number, 1));
                let page = Page::of(self.paged().base(), number, data).unwrap();
                held.push(page.clone());
                self.paged.keep_page(page);
                self.pages_read += 1;
            }
        }
    }

    fn check(&mut self, random: &mut SplitMix) {
        for _ in 0..30 {
            let (start, sectors) = (random.below(BLOCKS * 8), 1 + random.below(3_000));
            let mut expected = Vec::new();
            self.plain.lookup(start, sectors, &mut |segment| expected.push(segment));
            assert_eq!(self.lookup(start, sectors), expected, "{sectors} sectors from {start}");
        }
        let layers = self.paged.layers();
        assert!(layers.len_max() >= self.plain.len(), "{} entries at most", layers.len_max());
        self.paged.logs().check_needed(layers.all_entries().unwrap()).unwrap();
    }
}

/// Neighbouring stretches without anything as one.
fn joined(segments: Vec<Segment>) -> Vec<Segment> {
    let mut all: Vec<Segment> = Vec::new();
    for segment in segments {
        if let (
            Some(Segment::Home { len_sectors: len, .. }),
            Segment::Home { len_sectors: more, .. },
        ) = (all.last_mut(), segment)
        {
            *len += more;
        } else {
            all.push(segment);
        }
    }
    all
}

#[test]
fn layers_say_what_one_map_says_through_snapshots_that_end_and_snapshots_that_fail() {
    for seed in 0..12 {
        let (mut pair, mut random) = (Pair::new(), SplitMix::new(seed));
        for round in 0..12 {
            let changes = random.below(600);
            pair.changes(&mut random, changes);
            pair.check(&mut random);
            let fails = random.below(3) == 0;
            pair.snapshot(&mut random, fails);
            pair.check(&mut random);
            if round == 11 {
                // Nothing is hidden after one more without a change.
                pair.paged.freeze(true).unwrap();
                pair.snapshot(&mut random, false);
            }
        }
        assert!(pair.number > 3 && pair.pages_read > 10, "{} pages", pair.pages_read);
        let left = pair.paged().len_max(pair.paged.map().len());
        assert!(left >= pair.plain.len());
    }
}

#[test]
fn counts_are_exact_once_a_snapshot_without_changes_is_durable() {
    let (mut pair, mut random) = (Pair::new(), SplitMix::new(7));
    for block in 0..BLOCKS {
        pair.write(block, 0, 8);
    }
    let sectors = |pair: &Pair| -> u64 {
        let logs = pair.paged.logs();
        (0..logs.count()).map(|log| u64::from(logs.live_sectors_of(log))).sum()
    };
    pair.quiet_snapshot(&mut random, true);
    assert_eq!(sectors(&pair), BLOCKS * 8);
    for block in 0..BLOCKS / 2 {
        pair.write(block, 0, 8);
    }
    assert_eq!(sectors(&pair), BLOCKS * 12, "what is hidden counts until a merge has found it");
    // One that fails lets nothing go.
    let mut merge = pair.paged.freeze(true).unwrap();
    while !pair.paged.produce(&mut merge, 1 << 20) {
        let data = pair.read(pair.paged().wanted(&merge, 1 << 20));
        pair.paged().take_pages(&mut merge, &data).unwrap();
    }
    drop(merge);
    assert_eq!(sectors(&pair), BLOCKS * 12);
    pair.quiet_snapshot(&mut random, true);
    assert_eq!(sectors(&pair), BLOCKS * 8);
    assert_eq!(pair.paged.layers().len_max(), BLOCKS as usize);
}

#[test]
fn what_was_removed_while_a_snapshot_failed_counts_until_a_record_says_so_or_both_slots_are_without_it()
 {
    for is_told in [true, false] {
        let (mut pair, mut random) = (Pair::new(), SplitMix::new(5));
        let needed = |pair: &Pair| pair.paged.logs().live_sectors_of(0);
        pair.write(0, 0, 8);
        pair.write(9, 0, 8);
        // One that fails.
        pair.paged.freeze(true).unwrap();
        let (displaced, hides_more) = pair.paged.displace(0, 8);
        assert!(displaced.is_empty() && hides_more, "it lies in the frozen layer");
        pair.plain.remove(0, 8, &mut |_| ());
        for _ in 0..2 {
            pair.paged.freeze(is_told).unwrap();
            assert_eq!(needed(&pair), if is_told { 8 } else { 16 }, "a recovery may come upon it");
            pair.check(&mut random);
        }
        pair.quiet_snapshot(&mut random, is_told);
        let in_older = if is_told { 8 } else { 16 };
        assert_eq!(needed(&pair), in_older, "what the older slot and the logs say still has it");
        pair.quiet_snapshot(&mut random, is_told);
        assert_eq!(needed(&pair), 8);
    }
}

#[test]
fn a_page_with_a_flipped_bit_is_not_believed() {
    let (mut pair, mut random) = (Pair::new(), SplitMix::new(1));
    (0..BLOCKS).for_each(|block| pair.write(block, 0, 8));
    pair.snapshot(&mut random, false);
    let base = pair.paged().base();
    for number in [0, base.pages() - 1] {
        let Payload::Bytes(good) = pair.read(base.extent(number, 1)) else { panic!() };
        assert!(Page::of(base, number, Payload::Bytes(good.clone())).is_ok());
        for at in [0, 7, good.len() / 2, good.len() - 1] {
            let mut bytes = good.to_vec();
            bytes[at] ^= 0x10;
            let data = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
            let problem = Page::of(base, number, data).unwrap_err();
            assert!(problem.contains("expected checksum"), "{problem}");
        }
        let short = Payload::Bytes(good.slice(0..good.len() - 512));
        assert!(Page::of(base, number, short).unwrap_err().contains("bytes, found"));
        let other = Page::of(base, (number + 1) % base.pages(), Payload::Bytes(good));
        assert!(other.is_err(), "the page of another place");
    }
}

#[test]
fn what_is_offered_to_be_cleaned_is_all_that_a_log_holds_and_nothing_that_is_newer_elsewhere() {
    let (mut pair, mut random) = (Pair::new(), SplitMix::new(3));
    (0..BLOCKS).for_each(|block| pair.write(block, 0, 8));
    pair.snapshot(&mut random, false);
    pair.snapshot(&mut random, false);
    let logs = pair.paged.logs();
    let offered: Vec<u32> = logs.known_in(0..logs.count()).collect();
    assert!(!offered.is_empty());
    for log in offered {
        pair.changes(&mut random, 50);
        let sectors = pair.paged.logs().sectors_of(log).unwrap();
        let is_there = |entry: &Entry| match entry.place {
            Place::Log { chunk_sector, .. } => sectors.contains(&chunk_sector),
            Place::Zero | Place::Poisoned | Place::Home => false,
        };
        let expected: Vec<Entry> = pair.plain.iter().filter(is_there).collect();
        let taken = pair.paged.take_offer(log).unwrap();
        for entry in &expected {
            let part = |whole: &Entry| {
                whole.home_sector <= entry.home_sector && entry.end_sector() <= whole.end_sector()
            };
            // What was cut since is left where it is.
            let whole = taken.iter().find(|whole| part(whole));
            assert!(whole.is_none_or(|whole| whole == entry), "{whole:?} {entry:?}");
        }
        assert!(taken.iter().all(|entry| expected.contains(entry)), "log {log}");
        assert!(pair.paged.logs().known_in(log..log + 1).next().is_none(), "it is taken");
        assert_eq!(pair.paged.take_offer(log).unwrap(), [], "once");
    }
}

#[test]
fn writers_get_as_much_memory_as_the_merge_has_come_far_and_all_of_it_at_its_end() {
    let mut pair = Pair::new();
    (0..BLOCKS).for_each(|block| pair.write(block, 0, 8));
    pair.quiet_snapshot(&mut SplitMix::new(1), true);
    (0..BLOCKS).step_by(3).for_each(|block| pair.write(block, 0, 8));
    let mut merge = pair.paged.freeze(true).unwrap();
    let most = pair.paged().bounds.layer_bytes_max() as usize;
    let allowed = |pair: &Pair, merge: &Merge| {
        (0..2 * most).find(|bytes| pair.paged().is_ahead_of(merge, *bytes + 1)).unwrap()
    };
    assert_eq!(allowed(&pair, &merge), most / 4, "a burst waits for nothing");
    let mut before = most / 4;
    loop {
        while !pair.paged.produce(&mut merge, 700) {
            let data = pair.read(pair.paged().wanted(&merge, 1 << 20));
            pair.paged().take_pages(&mut merge, &data).unwrap();
        }
        let bytes = allowed(&pair, &merge);
        assert!(bytes >= before, "{bytes} after {before}, {} passed", merge.passed());
        before = bytes;
        if std::iter::from_fn(|| merge.pop()).count() < 700 {
            break;
        }
    }
    assert_eq!(before, most, "the merge is at its end: {} passed", merge.passed());
}
