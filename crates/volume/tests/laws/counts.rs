//! What is in use is told alike before and after a start: an operator, a watermark and the choice of the next log
//! all go by it. The harness compares it over every orderly stop, and counts anew after every step; here are the
//! cases in which it was wrong, or in which chance would come to it too seldom.

use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_basics::SplitMix;
use nearhead_format::AckMode;

/// Nothing goes home by itself.
fn calm(preset: &'static str) -> Options {
    Options {
        swap_above_pct: None,
        snapshot_after_bytes: 64 << 20,
        ..Options::new(preset, AckMode::Durable)
    }
}

/// Durable writes of single blocks all over the volume.
fn fill(harness: &mut Harness, random: &mut SplitMix, writes: u64) {
    for _ in 0..writes {
        harness.apply(&Step::Write { start: random.below(511) * 8, count: 8, fua: true });
        harness.apply(&Step::Settle);
    }
}

#[test]
fn an_orderly_stop_empties_no_log() {
    for preset in ["singlelog", "mlb", "mlb-256", "slsmr", "mlsmr", "trail", "gecko"] {
        let (mut harness, mut random) = (Harness::new(calm(preset)), SplitMix::new(1));
        fill(&mut harness, &mut random, 60);
        let status = harness.volume().status();
        assert!(status.map_entries > 0, "{preset}: {status:?}");
        harness.apply(&Step::Restart);
        let occupancy = harness.volume().engine().occupancy();
        let used: u32 = occupancy.logs.iter().map(|log| log.used_blocks).sum();
        let needed = occupancy.map_entries as u32;
        assert!(used >= needed, "{preset}: {used} blocks for {needed} entries: {occupancy:?}");
    }
}

#[test]
fn a_volume_that_stopped_above_its_watermark_is_cleaned_when_it_is_served_again() {
    let mut options = calm("singlelog");
    options.logs_are_scarce = true;
    let (mut harness, mut random) = (Harness::new(options.clone()), SplitMix::new(2));
    harness.options.watermark_pct = None;
    harness.apply(&Step::Restart);
    fill(&mut harness, &mut random, 110);
    assert!(harness.volume().status().log_fill_pct >= 70, "{:#?}", harness.volume().status());
    harness.apply(&Step::Restart);
    assert!(harness.volume().status().log_fill_pct >= 70, "{:#?}", harness.volume().status());
    harness.options.watermark_pct = Some(70);
    harness.apply(&Step::Restart);
    let events = (0..5000).take_while(|_| harness.jump()).count();
    let status = harness.volume().status();
    assert!(
        status.stats.checkpointed_bytes > 0,
        "nothing went home in {events} events: {status:#?}"
    );
}

#[test]
fn what_crashes_and_stops_leave_is_counted_right() {
    for seed in 0..40 {
        println!("repeat with seed {seed}");
        let mut random = SplitMix::new(seed);
        let presets = ["nolog", "singlelog", "mlb", "mlb-256", "slsmr", "mlsmr", "trail", "gecko"];
        let preset = presets[random.below(presets.len() as u64) as usize];
        let ack = if random.coin() { AckMode::Durable } else { AckMode::Flush };
        let mut harness = Harness::new(Options::random(preset, ack, &mut random));
        for _ in 0..150 {
            let (start, fua) = (random.below(3000), random.coin());
            let step = match random.below(16) {
                0 => Step::Restart,
                1 => Step::Kill,
                2 => Step::Cut { seed: random.next_u64() },
                3 => Step::Checkpoint { everything: random.coin() },
                4 => Step::Trim { start, count: 1 + random.below(200), fua },
                5 | 6 => Step::Write { start, count: 70 + random.below(200), fua },
                7..=9 => Step::Turn { micros: random.below(500) },
                _ => Step::Write { start, count: 1 + random.below(24), fua },
            };
            harness.apply(&step);
        }
    }
}
