//! Law 8 for the log: a bad place in the only log that takes records costs that place, and nobody else.
//!
//! The log goes on behind it, whatever part of the record that failed has arrived, and wherever the bad places are: at
//! the start of the log, in its middle, at its end, right behind the last record, several in a row. A cut at any
//! moment of it leaves what a cut always leaves, a gap is told as no damage, and a place that is well again is used
//! again.

use crate::bad_sectors::Asked;
use crate::support::disk::{Arrives, CutPoint, Trouble};
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::raw::bytes_of;
use crate::support::steps::Step;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_engine::{DiskWork, Phase};
use nearhead_format::{AckMode, Layout};
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{ErrorKind, Service};
use nearhead_swarm::oracle::Oracle;
use std::ops::Range;

const ARRIVES: [Arrives; 4] = [Arrives::Nothing, Arrives::Before, Arrives::Around, Arrives::All];
const LOGGING: [&str; 7] = ["singlelog", "mlb", "mlb-256", "slsmr", "mlsmr", "trail", "gecko"];

fn log_errors(asked: &mut Asked) -> u64 {
    asked.harness.volume().status().disk_errors.of_work(DiskWork::LogWrite)
}

/// Bad sectors of every log, by seed.
fn bad_places(layout: &Layout, seed: u64, random: &mut SplitMix) -> Vec<Range<u64>> {
    let mut bad = Vec::new();
    let sectors = layout.log_bytes / 512;
    for start in (0..layout.log_count()).filter_map(|log| layout.log_offset(log)) {
        let mut add = |at: u64, count: u64| bad.push(start + at * 512..start + (at + count) * 512);
        if seed.is_multiple_of(3) {
            add(random.below(8), 1);
        }
        if seed % 4 < 2 {
            add(sectors - 1 - random.below(8), 1);
        }
        for _ in 0..=seed % 3 {
            let count_max = if seed.is_multiple_of(5) { 60 } else { 2 };
            add(random.below(sectors - 60), 1 + random.below(count_max));
        }
    }
    bad
}

#[test]
fn bad_places_in_the_only_log_fail_no_request_and_no_volume() {
    let (mut failed, mut laps) = (0, 0);
    for seed in 0..60 {
        let preset = LOGGING[seed as usize % 6];
        let ack = if seed % 8 < 4 { AckMode::Durable } else { AckMode::Flush };
        let arrives = ARRIVES[(seed / 3) as usize % 4];
        let what = format!("seed {seed}, {preset}, {ack:?}, {arrives:?}");
        println!("repeat with {what}");
        let mut asked = Asked::new(Options::new(preset, ack), seed);
        let layout = asked.harness.volume().superblock().layout;
        let bad = bad_places(&layout, seed, &mut SplitMix::new(seed));
        let trouble = Trouble { bad, arrives, ..Trouble::default() };
        asked.harness.volume().disk_mut().set_trouble(trouble.clone());
        for round in 0..3 {
            asked.work(300);
            asked.assert_serving(&what);
            assert!(asked.harness.failed.is_empty(), "{what}: {:?}", asked.harness.failed);
            laps += asked.harness.volume().status().stats.record_bytes / layout.log_bytes;
            failed += log_errors(&mut asked);
            if round < 2 {
                asked.apply(&Step::Cut { seed: seed + round });
                let damage = asked.harness.volume().status().damage;
                assert!(damage.is_empty(), "{what}: {damage:?}");
                asked.harness.volume().disk_mut().set_trouble(trouble.clone());
            }
        }
        asked.mend_and_check(&what);
    }
    assert!(failed > 150 && laps > 100, "{failed} records failed, {laps} laps");
}

/// Of many logs one can be written, and that one has bad places, too: some rounds of writes, with a cut after each. `check` is
/// asked before each cut.
fn with_one_usable_log(options: Options, arrives: Arrives, what: &str, check: impl Fn(&Asked)) {
    let mut asked = Asked::new(options, 1);
    let layout = asked.harness.volume().superblock().layout;
    let others = (1..layout.log_count()).filter_map(|log| layout.log_offset(log));
    let mut bad: Vec<Range<u64>> = others.map(|start| start..start + layout.log_bytes).collect();
    let start = layout.log_offset(0).unwrap();
    bad.extend((0..5).map(|number| start + (number << 14)..start + (number << 14) + 512));
    let trouble = Trouble { bad, arrives, ..Trouble::default() };
    asked.harness.volume().disk_mut().set_trouble(trouble.clone());
    for round in 0..3 {
        for number in 0..15 {
            asked.apply(&Step::Write { start: number * 8, count: 8, fua: true });
            asked.apply(&Step::Settle);
        }
        asked.assert_serving(what);
        check(&asked);
        asked.apply(&Step::Cut { seed: round });
        asked.harness.volume().disk_mut().set_trouble(trouble.clone());
    }
    asked.mend_and_check(what);
}

#[test]
fn where_every_other_log_is_unusable_the_last_one_goes_on_behind_its_bad_places() {
    for preset in ["mlb", "mlb-256", "mlsmr"] {
        for arrives in ARRIVES {
            let what = format!("{preset}, {arrives:?}");
            println!("repeat with {what}");
            with_one_usable_log(Options::new(preset, AckMode::Durable), arrives, &what, |asked| {
                assert!(asked.harness.failed.is_empty(), "{what}: {:?}", asked.harness.failed);
            });
        }
    }
}

/// The same where small writes go home for nothing: while every log rests that may be written they are refused.
#[test]
fn where_small_writes_wait_for_room_they_are_refused_while_all_logs_rest_and_the_volume_goes_on() {
    for (preset, is_patient) in [("mlb", true), ("trail", false)] {
        for arrives in ARRIVES {
            let what = format!("{preset}, waits: {is_patient}, {arrives:?}");
            println!("repeat with {what}");
            let options = Options { is_patient, ..Options::new(preset, AckMode::Durable) };
            with_one_usable_log(options, arrives, &what, |asked| {
                let mut kinds = asked.harness.failed.iter().map(|(_, kind)| *kind);
                assert!(kinds.all(|kind| kind == ErrorKind::NoSpace), "{what}");
            });
        }
    }
}

/// A swap's record is longer than any other: where it failed and no other log has so much room in one piece, nobody needs it.
#[test]
fn a_log_that_can_go_nowhere_else_fails_no_request_and_no_volume() {
    for preset in ["mlb", "nearhead"] {
        println!("repeat with {preset}");
        let mut asked = Asked::new(Options::new(preset, AckMode::Durable), 1);
        let layout = asked.harness.volume().superblock().layout;
        let others = (1..layout.log_count()).filter_map(|log| layout.log_offset(log));
        let bad = others.map(|start| start..start + layout.log_bytes).collect();
        let trouble = Trouble { bad, ..Trouble::default() };
        asked.harness.volume().disk_mut().set_trouble(trouble.clone());
        for round in 0..2 {
            for number in 0..300 {
                asked.apply(&Step::Write { start: number * 8, count: 8, fua: true });
                asked.apply(&Step::Settle);
            }
            asked.harness.pass(Nanos::from_secs(20));
            asked.assert_serving(preset);
            assert!(asked.harness.failed.is_empty(), "{preset}: {:?}", asked.harness.failed);
            asked.apply(&Step::Cut { seed: round });
            asked.harness.volume().disk_mut().set_trouble(trouble.clone());
        }
        asked.mend_and_check(preset);
    }
}

/// A sector of the only log stays bad for many laps: each try costs a write that fails, and one in a while is enough.
#[test]
fn a_bad_place_in_the_only_log_is_passed_over_until_it_has_rested() {
    let mut asked = Asked::new(Options::new("singlelog", AckMode::Durable), 1);
    let layout = asked.harness.volume().superblock().layout;
    let at = layout.log_offset(0).unwrap() + layout.log_bytes / 2;
    let trouble = Trouble { bad: [at..at + 512].into(), ..Trouble::default() };
    asked.harness.volume().disk_mut().set_trouble(trouble.clone());
    let lap = |asked: &mut Asked| {
        for number in 0..layout.log_bytes / 4096 {
            asked.apply(&Step::Write { start: number % 32 * 8, count: 8, fua: true });
            asked.apply(&Step::Settle);
        }
    };
    for _ in 0..5 {
        lap(&mut asked);
    }
    assert_eq!(log_errors(&mut asked), 1, "it is known after the first time");
    asked.harness.pass(Nanos::from_secs(61));
    for _ in 0..5 {
        lap(&mut asked);
    }
    assert_eq!(log_errors(&mut asked), 2, "it was tried again once");
    asked.harness.pass(Nanos::from_secs(61));
    lap(&mut asked);
    assert_eq!(log_errors(&mut asked), 2, "it rests longer now");
    asked.apply(&Step::Restart);
    asked.harness.volume().disk_mut().set_trouble(trouble);
    for _ in 0..3 {
        lap(&mut asked);
    }
    assert_eq!(log_errors(&mut asked), 1, "after a restart it is found again");
    // Well again, it is used again.
    let holds_a_record = |asked: &mut Asked| {
        let mut bytes = [0; 512];
        asked.harness.volume().disk().image().read(at, &mut bytes).unwrap();
        bytes != [0; 512]
    };
    assert!(!holds_a_record(&mut asked));
    asked.harness.volume().disk_mut().mend();
    asked.harness.pass(Nanos::from_secs(61));
    for _ in 0..2 {
        lap(&mut asked);
    }
    assert!(holds_a_record(&mut asked), "a place that is well again is left out for ever");
    assert!(asked.harness.failed.is_empty());
    asked.mend_and_check("one bad place");
}

/// The log has room for one more record, and that one fails.
#[test]
fn a_bad_place_in_a_log_that_is_nearly_full_fails_no_volume() {
    for (seed, arrives) in ARRIVES.into_iter().enumerate() {
        let options =
            Options { watermark_pct: None, ..Options::new("singlelog", AckMode::Durable) };
        let mut asked = Asked::new(options, seed as u64);
        let layout = asked.harness.volume().superblock().layout;
        // No checkpoint is asked for, so that all of it is needed, and the log fills up to its bad last part.
        let start = layout.log_offset(0).unwrap();
        let last = start + layout.log_bytes - (40 << 10)..start + layout.log_bytes - (39 << 10);
        let trouble = Trouble { bad: vec![last], arrives, ..Trouble::default() };
        asked.harness.volume().disk_mut().set_trouble(trouble);
        for number in 0..layout.log_bytes / 4096 {
            asked.apply(&Step::Write { start: number * 8, count: 8, fua: true });
            asked.apply(&Step::Settle);
        }
        let what = format!("{arrives:?}");
        asked.assert_serving(&what);
        assert!(asked.harness.failed.is_empty(), "{what}: {:?}", asked.harness.failed);
        asked.mend_and_check(&what);
    }
}

/// What a cut left of a record is to be made unreadable before another one gets its sequence, and cannot be.
#[test]
fn remains_of_a_torn_record_that_cannot_be_overwritten_fail_nothing_and_never_come_back() {
    for lacking in [0, 3, 8] {
        let options = Options::new("singlelog", AckMode::Durable);
        let mut harness = Harness::new(options.clone());
        let layout = harness.volume().superblock().layout;
        harness.volume().disk_mut().watch_cuts();
        harness.apply(&Step::Write { start: 0, count: 8, fua: true });
        let (before, start) = (harness.oracle.clone(), layout.log_offset(0).unwrap());
        harness.drive();
        let points = harness.volume().disk_mut().take_cut_points();
        let mut on_its_way = points.iter().rev().filter(|point| !point.unflushed.is_empty());
        let image = image_of(on_its_way.next().unwrap(), |_, sector| sector != lacking);
        let disk = options.disk_with(image).with_latency(Nanos::from_micros(100));
        let mut harness = Harness::resume(options, disk, before);
        let bad = vec![start..start + 512];
        let trouble = Trouble { bad, ..Trouble::default() };
        harness.volume().disk_mut().set_trouble(trouble.clone());
        for round in 0..4 {
            harness.apply(&Step::Write { start: 4 * round, count: 8, fua: true });
            harness.apply(&Step::Settle);
            // In place, and durable: the torn record must not come back over it.
            harness.apply(&Step::Write { start: 0, count: 200, fua: true });
            harness.apply(&Step::Settle);
            let status = harness.volume().status();
            assert_eq!(status.phase, Phase::Serving, "{status:#?}");
            assert!(harness.failed.is_empty(), "{:?}", harness.failed);
            harness.apply(&Step::Cut { seed: round });
            harness.volume().disk_mut().set_trouble(trouble.clone());
        }
    }
}

/// One life with bad places ahead of the last record.
struct Ahead {
    options: Options,
    arrives: Arrives,
    /// Log blocks of the records before, and whether all of them are needed.
    blocks_before: u32,
    is_full: bool,
    /// Bad sectors, counted from the end of the last of these.
    bad: Vec<Range<u64>>,
    name: String,
}

impl Ahead {
    fn trouble(&self, layout: &Layout, position: u32) -> Trouble {
        let end = layout.log_offset(0).unwrap() + layout.log_bytes;
        let from = layout.log_block_offset(0, position).unwrap();
        // Round the end of the log.
        let at = |sector: u64| {
            let at = from + sector * 512;
            if at < end { at } else { at - layout.log_bytes }
        };
        let sectors =
            self.bad.iter().flat_map(Clone::clone).map(|sector| at(sector)..at(sector) + 512);
        Trouble { bad: sectors.collect(), arrives: self.arrives, ..Trouble::default() }
    }

    /// Works on it with an eye on every state that a cut may find.
    fn points(&self) -> (Vec<(CutPoint, Oracle)>, Trouble) {
        let mut harness = Harness::new(self.options.clone());
        let layout = harness.volume().superblock().layout;
        let position = |harness: &mut Harness| {
            let logs = harness.volume().engine().occupancy().logs;
            logs.first().map_or(0, |log| log.position)
        };
        let (mut at, mut start) = (0, 512);
        while at < self.blocks_before {
            harness.apply(&Step::Write { start, count: 8, fua: true });
            harness.apply(&Step::Settle);
            at = position(&mut harness);
            start += if self.is_full { 8 } else { 0 };
        }
        let trouble = self.trouble(&layout, at);
        harness.volume().disk_mut().set_trouble(trouble.clone());
        harness.volume().disk_mut().watch_cuts();
        let mut points = Vec::new();
        for number in 0..5 {
            let (start, count) = [(0, 8), (8, 4), (4, 8), (0, 40), (16, 8)][number];
            harness.apply(&Step::Write { start, count, fua: number != 2 });
            for _ in 0..300 {
                let before = harness.oracle.clone();
                harness.drive();
                let disk = harness.volume().disk_mut();
                disk.note_cut_point();
                let new = disk.take_cut_points();
                points.extend(new.into_iter().map(|point| (point, before.clone())));
                // The next one comes while this one is on its way.
                let soon = harness.now + Nanos::from_millis(if self.is_full { 2000 } else { 5 });
                let wake = harness.volume().wake_at().filter(|wake| *wake < soon);
                let Some(wake) = wake.filter(|_| number == 4 || !harness.is_settled()) else {
                    break;
                };
                harness.now = wake.max(harness.now);
            }
        }
        harness.apply(&Step::Settle);
        let status = harness.volume().status();
        assert_eq!(status.phase, Phase::Serving, "{}: {status:#?}", self.name);
        assert!(harness.failed.is_empty(), "{}: {:?}", self.name, harness.failed);
        assert!(status.disk_errors.of_work(DiskWork::LogWrite) > 0, "{}: none failed", self.name);
        (points, trouble)
    }

    /// Recovers what a cut left, goes on with the same bad places, and cuts once more.
    fn check(&self, image: MemoryStore, oracle: &Oracle, trouble: &Trouble, seed: u64) {
        let mut disk = self.options.disk_with(image).with_latency(Nanos::from_micros(100));
        disk.set_trouble(trouble.clone());
        let mut harness = Harness::resume(self.options.clone(), disk, oracle.clone());
        if !seed.is_multiple_of(4) {
            return;
        }
        let mut random = SplitMix::new(seed);
        for _ in 0..3 {
            let start = random.below(24);
            harness.apply(&Step::Write { start, count: 1 + random.below(16), fua: true });
            harness.apply(&Step::Turn { micros: random.below(300) });
        }
        harness.apply(&Step::Cut { seed: random.next_u64() });
        let damage = harness.volume().status().damage;
        assert!(damage.is_empty(), "{}: {damage:?}", self.name);
        harness.apply(&Step::Write { start: 0, count: 8, fua: true });
        harness.apply(&Step::Settle);
        harness.apply(&Step::Cut { seed: random.next_u64() });
    }

    /// Every cut, with several outcomes; how many there were.
    fn run(&self) -> u64 {
        let (points, trouble) = self.points();
        let mut images = 0;
        for (point, oracle) in &points {
            let writes = point.unflushed.len();
            for outcome in 0..8 {
                let seed = images * 31 + outcome;
                let mut random = SplitMix::new(seed);
                let survives = |index: usize, sector: usize, random: &mut SplitMix| match outcome {
                    0 => false,
                    1 => true,
                    2 => index + 1 < writes,
                    3 => index + 1 == writes,
                    4 => sector == 0,
                    5 => sector > 0,
                    _ => random.coin(),
                };
                let image = image_of(point, |index, sector| survives(index, sector, &mut random));
                images += 1;
                self.check(image, oracle, &trouble, seed);
                if writes == 0 {
                    break;
                }
            }
        }
        images
    }
}

fn image_of(point: &CutPoint, mut survives: impl FnMut(usize, usize) -> bool) -> MemoryStore {
    let mut image = point.safe.clone();
    for (index, write) in point.unflushed.iter().enumerate() {
        let bytes = bytes_of(&write.parts);
        for (sector, bytes) in bytes.chunks(512).enumerate() {
            if !write.is_superseded(sector) && survives(index, sector) {
                image.write(write.offset + sector as u64 * 512, bytes).unwrap();
            }
        }
    }
    image
}

#[test]
fn a_cut_at_any_moment_of_passing_over_bad_places_keeps_the_laws() {
    // Right behind the last record: its first sector, one of its payload, several in a row, all of three records; then
    // bad places with sound ones between; at the start of the log, and around its
    // end. The last of them in a log in which nothing else is free.
    let places: [(u32, bool, &[Range<u64>]); 11] = [
        (8, false, &[0..1]),
        (8, false, &[8..9]),
        (8, false, &[0..1, 9..10, 18..19]),
        (8, false, &[0..100]),
        (8, false, &[5..6, 40..41]),
        (0, false, &[0..1]),
        (0, false, &[4..30]),
        (1000, false, &[0..1]),
        (1000, false, &[5..6, 20..21, 24..27, 30..31]),
        (980, true, &[5..6, 15..16]),
        (980, true, &[0..100]),
    ];
    let mut images = 0;
    for (number, (blocks_before, is_full, bad)) in places.into_iter().enumerate() {
        for (arrival, arrives) in ARRIVES.into_iter().enumerate() {
            let ack = [AckMode::Durable, AckMode::Flush][(number + arrival) % 2];
            // Without a snapshot nothing in front of the end would be free.
            let often = blocks_before > 900 || (number + arrival / 2) % 2 == 0;
            let snapshot_after_bytes = if often { 2 << 10 } else { 1 << 20 };
            let options = Options {
                snapshot_after_bytes,
                swap_above_pct: None,
                watermark_pct: None,
                ..Options::new("singlelog", ack)
            };
            let name = format!(
                "{blocks_before} blocks (full: {is_full}) before {bad:?}, {arrives:?}, {options:?}"
            );
            println!("repeat with {name}");
            let bad = bad.to_vec();
            images += Ahead { options, arrives, blocks_before, is_full, bad, name }.run();
        }
    }
    assert!(images > 4000, "only {images} images");
}

/// A record that no place took is let go, and may stand whole at one of them all the same. Nothing that a client is told of
/// follows before no recovery can take it for the newest, be it from the older snapshot because the newer one rots.
#[test]
fn a_record_that_was_let_go_takes_back_nothing_that_is_written_after_it() {
    for rots in [false, true] {
        let options = Options {
            swap_above_pct: None,
            watermark_pct: None,
            is_damaged: rots,
            ..Options::new("singlelog", AckMode::Durable)
        };
        let mut harness = Harness::new(options.clone());
        harness.apply(&Step::Write { start: 0, count: 1024, fua: true });
        harness.apply(&Step::Settle);
        let layout = harness.volume().superblock().layout;
        let log = layout.log_offset(0).unwrap();
        let bad = vec![log..log + layout.log_bytes];
        let trouble = Trouble { bad, arrives: Arrives::All, ..Trouble::default() };
        harness.volume().disk_mut().set_trouble(trouble);
        // The second one is large enough to be written in place, as soon as the first one is home.
        harness.apply(&Step::Write { start: 16, count: 8, fua: true });
        harness.apply(&Step::Write { start: 0, count: 72, fua: true });
        while !harness.is_settled() {
            assert!(harness.jump(), "it is answered: {:?}", harness.volume().status());
        }
        let status = harness.volume().status();
        assert_eq!(status.failure, None);
        assert!(status.record_sequence > 0, "a sequence was passed over: {status:?}");
        let mut image = harness.volume().disk().safe_image();
        if rots {
            let slot = (status.snapshot_number % 2) as usize;
            for offset in [layout.slot_offsets[slot], layout.snapshot_copy_offset(slot)] {
                image.write(offset, &[0xee; 4096]).unwrap();
            }
        }
        let disk = options.disk_with(image);
        Harness::resume(options, disk, harness.oracle);
    }
}
