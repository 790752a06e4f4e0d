//! Tests of the three bits of a region, by themselves: the engine's are laws (`crates/volume/tests`).

use super::regions::Regions;
use crate::disk::flusher::FlushTicket;
use nearhead_basics::SplitMix;
use nearhead_format::blank_map::{
    BLANK_UNIT_BYTES, BLANK_UNIT_WORDS, BLANK_UNITS_OFFSET, decode_unit,
};

const VOLUME: [u8; 16] = [7; 16];
/// Sectors of a region of 4 KiB.
const EACH: u64 = 8;
/// Two blocks of the map, and a bit.
const COUNT: u64 = 40_000;
/// Where things happen: at the beginning, and where one block of the map ends.
const PLACES: [u64; 2] = [0, 30_700];

/// The blank map as it is on a disk, and homes of which only is known whether they hold something.
struct Model {
    regions: Regions,
    disk: Vec<u64>,
    on_its_way: Option<(u64, Vec<u8>)>,
    home: Vec<bool>,
    /// Homes whose zeros a power cut may take back.
    volatile: Vec<bool>,
    flushes: u64,
}

impl Model {
    fn new(words: Vec<u64>) -> Self {
        let regions =
            Regions::new(VOLUME, EACH * 512, COUNT * EACH * 512, words.clone(), words.clone());
        let home = (0..COUNT as usize).map(|at| words[at / 64] >> (at % 64) & 1 == 0).collect();
        Self {
            regions,
            disk: words,
            on_its_way: None,
            home,
            volatile: vec![false; COUNT as usize],
            flushes: 0,
        }
    }

    fn put(disk: &mut [u64], (offset, bytes): &(u64, Vec<u8>)) {
        let first = ((offset - BLANK_UNITS_OFFSET) as usize / BLANK_UNIT_BYTES) as u32;
        for (index, unit) in (first..).zip(bytes.chunks(BLANK_UNIT_BYTES)) {
            let bits = decode_unit(unit, &VOLUME, index).unwrap();
            let from = index as usize * BLANK_UNIT_WORDS;
            disk[from..from + BLANK_UNIT_WORDS].copy_from_slice(&bits);
        }
    }

    /// No bit that the disk has, or may have after a cut, is set where the home may hold something after it.
    fn check(&self, seed: u64) {
        let mut after = self.disk.clone();
        if let Some(write) = &self.on_its_way {
            Self::put(&mut after, write);
        }
        for at in PLACES.into_iter().flat_map(|place| place..place + 50).map(|at| at as usize) {
            let told = (self.disk[at / 64] | after[at / 64]) >> (at % 64) & 1 != 0;
            let may_hold = self.home[at] || self.volatile[at];
            assert!(
                !(told && may_hold),
                "seed {seed}: region {at} is promised and may hold something"
            );
            let (zero, _) = self.regions.run_at(at as u64 * EACH, u64::MAX);
            assert!(!(zero && self.home[at]), "seed {seed}: region {at} counts as zero");
        }
    }

    fn step(&mut self, random: &mut SplitMix) {
        let start = PLACES[random.below(2) as usize] + random.below(40);
        let range = start..(start + 1 + random.below(6)).min(COUNT);
        match random.below(8) {
            0..=2 => {
                let from = range.start * EACH + random.below(EACH);
                let may = self.regions.prepare(from..range.end * EACH);
                for at in range.filter(|_| may) {
                    self.home[at as usize] = true;
                    self.volatile[at as usize] = false;
                }
            }
            3 | 4 => {
                for at in range.clone() {
                    self.volatile[at as usize] |= self.home[at as usize];
                    self.home[at as usize] = false;
                }
                self.regions.note_zeroed(range.start * EACH..range.end * EACH);
            }
            5 => {
                self.flushes += 1;
                self.volatile.fill(false);
            }
            6 => {
                if let Some(write) = self.on_its_way.take() {
                    if random.below(5) == 0 {
                        self.regions.failed();
                        if random.coin() {
                            Self::put(&mut self.disk, &write);
                        }
                    } else {
                        Self::put(&mut self.disk, &write);
                        self.regions.written();
                    }
                }
            }
            _ if random.below(4) == 0 => self.regions.end_streams(),
            _ => {}
        }
        let done = FlushTicket::at(self.flushes);
        self.regions.settle(FlushTicket::at(self.flushes + 1), |ticket| ticket <= done);
        if self.on_its_way.is_none() {
            self.on_its_way = self.regions.next_write(random.coin());
        }
    }
}

#[test]
fn no_order_of_writes_zeroings_flushes_and_cuts_leaves_a_promise_that_is_not_kept() {
    for seed in 0..20 {
        let mut random = SplitMix::new(seed);
        let words = (0..960).map(|_| random.next_u64() | random.next_u64()).collect();
        let mut model = Model::new(words);
        for step in 0..600 {
            model.step(&mut random);
            if step % 20 == 0 {
                model.check(seed);
            }
        }
        model.check(seed);
    }
}

#[test]
fn in_the_end_all_that_is_zero_is_promised_and_all_that_waits_may_write() {
    let mut model = Model::new(vec![u64::MAX; 960]);
    let mut random = SplitMix::new(1);
    for _ in 0..300 {
        model.step(&mut random);
    }
    let finish = |model: &mut Model| {
        model.flushes += 2;
        model.volatile.fill(false);
        model.regions.end_streams();
        let done = FlushTicket::at(model.flushes);
        model.regions.settle(done, |ticket| ticket <= done);
        let mut next = model.on_its_way.take().or_else(|| model.regions.next_write(true));
        while let Some(write) = next {
            Model::put(&mut model.disk, &write);
            model.regions.written();
            next = model.regions.next_write(true);
        }
    };
    finish(&mut model);
    finish(&mut model);
    assert!(!model.regions.is_busy() && !model.regions.is_unsettled());
    for at in 0..COUNT {
        let promised = model.disk[at as usize / 64] >> (at % 64) & 1 != 0;
        let (zero, _) = model.regions.run_at(at * EACH, u64::MAX);
        assert_eq!(promised, zero, "region {at}");
    }
    assert!(!model.regions.prepare(20 * EACH..30_721 * EACH), "two blocks wait");
    finish(&mut model);
    assert!(model.regions.prepare(20 * EACH..30_721 * EACH));
    assert_eq!(model.regions.run_at(20 * EACH, 900 * EACH), (false, 900 * EACH));
}

#[test]
fn the_last_region_may_be_shorter_than_the_others() {
    let mut regions = Regions::new(VOLUME, 1 << 20, (3 << 20) + 4096, Vec::new(), Vec::new());
    let sectors = ((3 << 20) + 4096) / 512;
    regions.note_zeroed(1..sectors - 1);
    assert_eq!(regions.run_at(0, sectors), (false, 2048));
    assert_eq!(regions.run_at(2048, sectors), (true, 3 * 2048), "the rest of it is not known");
    regions.note_zeroed(3 * 2048..sectors);
    assert_eq!(regions.run_at(2048, sectors), (true, sectors));
    assert_eq!(regions.zero_count(), 3);
}
