//! What is still in memory goes home without a read of a log; what is not is read; and nobody who looks at what is home
//! can tell.

use crate::support::disk::{Fault, FaultKind};
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_engine::Status;
use nearhead_format::AckMode;

const PRESETS: [&str; 2] = ["mlb", "trail"];
/// Blocks that are logged, and the bytes of one.
const BLOCKS: u64 = 40;
const BLOCK_BYTES: u64 = 4096;

/// A volume on which some blocks were logged, twice each, and where nothing happens by itself.
fn logged(preset: &str, memory_bytes: u64) -> Harness {
    let options = Options {
        memory_bytes,
        idle_checkpoints: false,
        swap_above_pct: None,
        watermark_pct: None,
        ..Options::new(preset, AckMode::Durable)
    };
    let mut harness = Harness::new(options);
    for write in 0..2 * BLOCKS {
        harness.apply(&Step::Write { start: 16 * (write % BLOCKS), count: 8, fua: true });
        harness.apply(&Step::Settle);
    }
    harness
}

/// A pass home, with more than the time that it takes.
fn pass(harness: &mut Harness) {
    harness.apply(&Step::Checkpoint { everything: true });
    for _ in 0..1000 {
        harness.apply(&Step::Turn { micros: 1000 });
    }
}

/// Brings all of it home while the disk takes no read, and says how that went.
fn bring_home_unread(harness: &mut Harness) -> Status {
    let fault =
        Fault { kind: FaultKind::Reads, range: None, after: 0, sticky: true, has_effect: false };
    harness.apply(&Step::Fail(fault));
    pass(harness);
    let status = harness.volume().status();
    harness.volume().disk_mut().mend();
    status
}

#[test]
fn what_is_in_memory_goes_home_without_a_read_of_a_log() {
    for preset in PRESETS {
        println!("repeat with {preset}");
        let mut harness = logged(preset, 1 << 20);
        let status = bring_home_unread(&mut harness);
        assert_eq!(harness.volume().disk().faults_hit(), 0, "nothing was read");
        assert_eq!(status.map_entries, 0);
        assert_eq!(status.stats.remembered_bytes, BLOCKS * BLOCK_BYTES);
        assert_eq!(status.stats.checkpointed_bytes, BLOCKS * BLOCK_BYTES);
        harness.apply(&Step::Cut { seed: 1 });
    }
}

#[test]
fn what_has_left_the_memory_is_read_and_what_is_there_is_not() {
    for preset in PRESETS {
        println!("repeat with {preset}");
        let mut harness = logged(preset, 10 * (BLOCK_BYTES + 200));
        pass(&mut harness);
        let stats = harness.volume().status().stats;
        assert_eq!(stats.checkpointed_bytes, BLOCKS * BLOCK_BYTES);
        assert_eq!(stats.remembered_bytes, 10 * BLOCK_BYTES);
        harness.apply(&Step::Cut { seed: 2 });
    }
}

#[test]
fn without_memory_and_after_a_restart_it_is_read() {
    for preset in PRESETS {
        println!("repeat with {preset}");
        let mut without = logged(preset, 0);
        let status = bring_home_unread(&mut without);
        assert_eq!((status.map_entries, status.stats.remembered_bytes), (BLOCKS, 0));
        let mut restarted = logged(preset, 1 << 20);
        restarted.apply(&Step::Kill);
        pass(&mut restarted);
        let status = restarted.volume().status();
        assert_eq!(status.stats.checkpointed_bytes, BLOCKS * BLOCK_BYTES);
        assert_eq!(status.stats.remembered_bytes, 0);
        restarted.apply(&Step::Cut { seed: 3 });
    }
}
