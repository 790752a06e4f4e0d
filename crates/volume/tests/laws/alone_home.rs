//! Where no head moves a small write that waits alone goes home instead of into a log, and all laws hold.
//!
//! The random workloads (`crash_random.rs`), the short ones (`exhaustive_crash`) and the swarm do it in a part of their
//! lives; here stands what it must do and must leave alone, one by one.

use crate::support::disk::Trouble;
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::{SPAN_SECTORS, Step};
use nearhead_basics::SplitMix;
use nearhead_engine::Stats;
use nearhead_format::AckMode;

const LOGGING: [&str; 3] = ["singlelog", "mlb", "mlb-256"];

fn harness(preset: &'static str, ack: AckMode) -> Harness {
    harness_of(Options { lone_writes_go_home: true, ..Options::new(preset, ack) })
}

fn harness_of(options: Options) -> Harness {
    let mut harness = Harness::new(options);
    // What goes to a region that is blank is logged, so that it stays so.
    write(&mut harness, 8, 8);
    assert_eq!(stats(&mut harness).alone_home, 0);
    harness.apply(&Step::Write { start: 0, count: SPAN_SECTORS, fua: true });
    harness.apply(&Step::Settle);
    harness
}

fn write(harness: &mut Harness, start: u64, count: u64) {
    harness.apply(&Step::Write { start, count, fua: true });
    harness.apply(&Step::Settle);
}

fn stats(harness: &mut Harness) -> Stats {
    harness.volume().status().stats
}

#[test]
fn what_waits_alone_goes_home_and_what_waits_together_goes_into_a_log() {
    for preset in LOGGING {
        for ack in [AckMode::Durable, AckMode::Flush] {
            let mut harness = harness(preset, ack);
            let before = stats(&mut harness);
            for number in 0..20 {
                write(&mut harness, 16 * number, 1 + number % 8);
            }
            let alone = stats(&mut harness);
            assert_eq!((alone.records, alone.alone_home), (before.records, 20), "{preset}");
            assert_eq!(alone.logged_bytes, before.logged_bytes, "they count as written in place");
            for number in 0..20 {
                harness.apply(&Step::Write { start: 1000 + 64 * number, count: 8, fua: true });
            }
            harness.apply(&Step::Settle);
            let together = stats(&mut harness);
            // The first of them came when nobody else was there yet, in the order in which the test asks.
            assert!(together.alone_home <= 21 && together.records > before.records, "{preset}");
            harness.apply(&Step::Cut { seed: 1 });
        }
    }
}

/// Home would be newer than the copy in the log, and a recovery would take the log's.
#[test]
fn what_a_log_holds_is_logged_again() {
    for preset in LOGGING {
        let mut harness = harness(preset, AckMode::Durable);
        for start in [8, 96, 200] {
            harness.apply(&Step::Write { start, count: 8, fua: true });
        }
        harness.apply(&Step::Settle);
        let held = harness.volume().engine().map().len();
        assert!(held >= 2, "{preset}: two of them waited together");
        let before = stats(&mut harness);
        write(&mut harness, 96, 8);
        write(&mut harness, 202, 2);
        let after = stats(&mut harness);
        assert_eq!((after.records, after.alone_home), (before.records + 2, before.alone_home));
        harness.apply(&Step::Cut { seed: 3 });
    }
}

#[test]
fn a_home_that_fails_costs_nobody_anything_while_a_log_has_room() {
    for preset in LOGGING {
        for (ack, writes) in [(AckMode::Durable, 1), (AckMode::Flush, 1), (AckMode::Flush, 3)] {
            let mut harness = harness(preset, ack);
            let layout = harness.volume().superblock().layout;
            let home = layout.home(64 * 4096).unwrap().device_offset;
            let bad = std::iter::once(home..home + 512).collect();
            harness.volume().disk_mut().set_trouble(Trouble { bad, ..Trouble::default() });
            let before = stats(&mut harness);
            // More may come while home is being tried.
            for count in [8, 3, 8].into_iter().take(writes) {
                harness.apply(&Step::Write { start: 64 * 8, count, fua: true });
                harness.apply(&Step::Turn { micros: 30 });
            }
            harness.apply(&Step::Settle);
            assert_eq!(harness.failed, [], "{preset}, {ack:?}");
            let after = stats(&mut harness);
            assert!(after.records > before.records, "{preset}: a log took it");
            // What was acknowledged is durable, wherever it is.
            harness.apply(&Step::Cut { seed: 5 });
            write(&mut harness, 64 * 8, 8);
            harness.apply(&Step::Cut { seed: 6 });
        }
    }
}

/// A home keeps each sector old or new by itself, a record all of them.
#[test]
fn an_atomic_write_within_one_block_is_never_torn() {
    for seed in 0..200 {
        let preset = LOGGING[(seed % 3) as usize];
        println!(
            "repeat with seed {seed}, {preset}: cargo test -p nearhead-volume --test laws alone_home"
        );
        let options = Options {
            lone_writes_go_home: seed % 2 == 0,
            // Full logs send home what they have no room for: not that.
            logs_are_scarce: seed % 4 > 1,
            ..Options::new(preset, AckMode::Flush)
        };
        let mut harness = harness_of(options);
        let mut random = SplitMix::new(seed);
        for _ in 0..random.below(3) * 60 {
            let start = random.below(500) * 8;
            harness.apply(&Step::Write { start, count: 8 * (1 + random.below(6)), fua: true });
        }
        if random.coin() {
            harness.apply(&Step::Settle);
        }
        let start = random.below(500) * 8;
        harness.apply(&Step::Atomic { start, other: start, count: 8 });
        harness.apply(&Step::Turn { micros: random.below(150) });
        harness.apply(&Step::Cut { seed });
    }
}
