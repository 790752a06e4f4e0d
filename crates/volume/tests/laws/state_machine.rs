//! Sequences that proptest invents and shrinks: every operation, restart and kind of volume, held
//! against the reference in memory.

use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::{SPAN_SECTORS, Step};
use nearhead_format::AckMode;
use proptest::prelude::*;

fn range() -> impl Strategy<Value = (u64, u64)> {
    // Few starting points, so that ranges meet; small, around the threshold, and large.
    let start = prop_oneof![0..64_u64, Just(2048), 0..SPAN_SECTORS];
    let count = prop_oneof![4 => 1..24_u64, 2 => 56..72_u64, 1 => 200..600_u64];
    (start, count).prop_map(|(start, count)| (start, count.min(SPAN_SECTORS - start)))
}

fn step() -> impl Strategy<Value = Step> {
    let write = || (range(), any::<bool>());
    prop_oneof![
        12 => write()
            .prop_map(|((start, count), fua)| Step::Write { start, count, fua }),
        2 => write().prop_map(|((start, count), fua)| Step::Zeroes { start, count, fua }),
        2 => write().prop_map(|((start, count), fua)| Step::Trim { start, count, fua }),
        2 => (range(), 0..SPAN_SECTORS).prop_map(|((start, count), other)| {
            Step::Atomic { start, other, count: count.min(16) }
        }),
        3 => range().prop_map(|(start, count)| Step::Read { start, count }),
        2 => Just(Step::Flush),
        1 => (range(), any::<bool>())
            .prop_map(|((start, count), on)| Step::Hint { start, count, on }),
        1 => any::<bool>().prop_map(|everything| Step::Checkpoint { everything }),
        12 => (0..500_u64).prop_map(|micros| Step::Turn { micros }),
        1 => Just(Step::Settle),
        1 => any::<u64>().prop_map(|seed| Step::Cut { seed }),
        1 => Just(Step::Kill),
        1 => Just(Step::Restart),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let presets = prop::sample::select(vec![
        "nolog",
        "singlelog",
        "mlb",
        "mlb-256",
        "slsmr",
        "mlsmr",
        "trail",
        "gecko",
    ]);
    let ack = prop::sample::select(vec![AckMode::Durable, AckMode::Flush]);
    let sector = prop::sample::select(vec![512, 4096]);
    let swap = prop::sample::select(vec![None, Some(10), Some(30)]);
    let snapshots = prop::sample::select(vec![20 << 10, 300 << 10]);
    let stage = prop::sample::select(vec![64 << 10, 1 << 20]);
    (presets, ack, sector, any::<bool>(), any::<bool>(), swap, snapshots, stage).prop_map(
        |(preset, ack, sector_bytes, volatile_cache, idle, swap, snapshots, stage)| Options {
            sector_bytes: if preset == "gecko" { 4096 } else { sector_bytes },
            volatile_cache,
            idle_checkpoints: idle,
            swap_above_pct: swap,
            snapshot_after_bytes: snapshots,
            stage_bytes_max: stage,
            ..Options::new(preset, ack)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_does_what_the_reference_does(
        options in options(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut harness = Harness::new(options);
        for step in &steps {
            harness.apply(step);
        }
        harness.apply(&Step::Settle);
        harness.apply(&Step::Cut { seed: 1 });
    }
}

/// A trim changes a map at once, before any record says so: what layers below the newest one have is hidden with it.
#[test]
fn a_read_beside_a_trim_sees_nothing_older_of_a_map_in_layers() {
    let write = |start, count| Step::Write { start, count, fua: false };
    let turn = || Step::Turn { micros: 100 };
    let steps = [
        write(0, 56),
        turn(),
        write(2048, 1),
        turn(),
        turn(),
        turn(),
        write(2048, 1),
        turn(),
        Step::Trim { start: 2048, count: 1, fua: false },
        Step::Read { start: 2048, count: 1 },
        write(0, 1),
    ];
    let options = Options {
        volatile_cache: false,
        snapshot_after_bytes: 20 << 10,
        ..Options::new("gecko", AckMode::Durable)
    };
    let mut harness = Harness::new(options);
    for step in &steps {
        harness.apply(step);
    }
    harness.apply(&Step::Settle);
    harness.apply(&Step::Cut { seed: 1 });
}
