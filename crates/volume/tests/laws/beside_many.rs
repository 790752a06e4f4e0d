//! A drive that chooses among many commands has many: what is larger than a little goes home beside them, and all laws hold.

use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_engine::Stats;
use nearhead_format::AckMode;

/// 64 KiB, of which 32 KiB are logged beside many commands.
const LARGE: u64 = 128;
const SMALL: u64 = 8;

fn write(harness: &mut Harness, start: u64, count: u64) -> Stats {
    harness.apply(&Step::Write { start, count, fua: true });
    harness.volume().status().stats
}

/// Commands that the disk has and does not answer until time passes.
fn reads(harness: &mut Harness, count: u64) {
    for number in 0..count {
        harness.apply(&Step::Read { start: 2048 + 64 * number, count: 8 });
    }
}

#[test]
fn large_writes_go_home_beside_many_commands_and_into_a_log_beside_few() {
    for (queue_depth_max, beside, goes_home) in
        [(32, 12, true), (32, 3, false), (16, 12, false), (32, 40, false)]
    {
        let options = Options { queue_depth_max, ..Options::new("nearhead", AckMode::Durable) };
        let mut harness = Harness::new(options);
        harness.apply(&Step::Write { start: 0, count: 8192, fua: true });
        harness.apply(&Step::Settle);
        reads(&mut harness, beside);
        let before = harness.volume().status().stats;
        let small = write(&mut harness, 0, SMALL);
        let large = write(&mut harness, 512, LARGE);
        harness.apply(&Step::Settle);
        let case = format!("{beside} reads on a disk that takes {queue_depth_max}");
        assert_eq!(small.in_place_bytes, before.in_place_bytes, "{case}: little is logged");
        let home = harness.volume().status().stats.in_place_bytes - before.in_place_bytes;
        assert_eq!(home, if goes_home { LARGE * 512 } else { 0 }, "{case}: {large:?}");
        harness.apply(&Step::Cut { seed: 1 });
    }
}

#[test]
fn what_goes_home_over_what_a_log_holds_is_what_is_read_after_a_cut() {
    for seed in 0..20 {
        let options = Options { queue_depth_max: 32, ..Options::new("nearhead", AckMode::Durable) };
        let mut harness = Harness::new(options);
        for round in 0..4 {
            write(&mut harness, 512 + 8 * round, LARGE);
            reads(&mut harness, 12);
            write(&mut harness, 480, LARGE);
            harness.apply(&Step::Turn { micros: 200 * seed });
        }
        harness.apply(&Step::Cut { seed });
    }
}
