//! The n-th command to the disk fails, for n = 1, 2, ... until the workload never gets there.
//!
//! Each sort of failure, once and for good. Whatever the command was (a record, a home, a flush, a piece of
//! a snapshot, a read of recovery), the laws hold while it fails and after the restart that mends it.
//!
//! A test run tries one command in three for each sort of failure, and other ones for the next sort, so that each command
//! fails in several ways. `EXHAUSTIVE_STRIDE=1` tries all.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_disk::Nanos;
use nearhead_format::AckMode;
use nearhead_models::faults::{FaultBudget, FaultKind, FaultPlan, NthFault};
use nearhead_swarm::{Arrangement, Place, Scenario, Step, run};
use nearhead_volume::NamedPreset;

/// Commands that no workload here needs; a test that gets there does not end.
const COMMANDS_MAX: u64 = 400;

/// More than the commands in a row that no failure hits: those of a check of the content.
const COMMANDS_OF_A_CHECK_MAX: u64 = 40;

/// One whose lives go on failing during the recovery that is not cut.
const SEED: u64 = 1;

/// Stride among the commands that fail, unless `EXHAUSTIVE_STRIDE` is set.
const STRIDE: u64 = 3;

const KINDS: [FaultKind; 5] = [
    FaultKind::WriteError,
    FaultKind::ShortWrite,
    FaultKind::Hang,
    FaultKind::Full,
    FaultKind::Gone,
];

fn place(window: u64, start: u64, count: u64) -> Place {
    Place { window, start, count }
}

/// A little of everything; the crash at the end comes with recovery, and faults go on into it.
fn workload(end: Step) -> Vec<Step> {
    let turn = Step::Turn { micros: 400 };
    vec![
        Step::Write { place: place(0, 0, 16), fua: false },
        Step::Write { place: place(1, 4, 5), fua: true },
        turn,
        Step::Write { place: place(0, 0, 256), fua: false },
        Step::Atomic { place: place(1, 0, 8), other: place(2, 16, 8) },
        turn,
        Step::Flush,
        Step::Read { place: place(0, 0, 64) },
        Step::Settle,
        Step::Checkpoint { everything: true },
        Step::Write { place: place(2, 16, 4), fua: true },
        turn,
        turn,
        Step::Trim { place: place(1, 0, 8), fua: true },
        Step::Snapshot,
        turn,
        Step::Write { place: place(0, 8, 200), fua: true },
        Step::Zeroes { place: place(0, 12, 8), fua: true, fast_only: false },
        Step::Settle,
        Step::Read { place: place(0, 0, 256) },
        Step::Read { place: place(2, 0, 64) },
        Step::Settle,
        // The newest record has a payload: whether that can be read decides what is served.
        Step::Write { place: place(3, 40, 4), fua: true },
        Step::Settle,
        end,
        Step::Write { place: place(0, 4, 8), fua: true },
        Step::Settle,
    ]
}

/// A volume, and which of its disks fails.
#[derive(Clone, Copy, Debug)]
struct Subject {
    preset: &'static str,
    arrangement: Arrangement,
    has_map_device: bool,
    /// The map device fails, not the disk.
    of_map_device: bool,
}

impl Subject {
    fn of(preset: &'static str) -> Self {
        let arrangement = Arrangement::One;
        Self { preset, arrangement, has_map_device: false, of_map_device: false }
    }
}

fn scenario(subject: Subject, ack: AckMode, end: Step, nth: NthFault) -> Scenario {
    let mut scenario = Scenario::new(SEED, 0);
    scenario.preset = NamedPreset::by_name(subject.preset).unwrap();
    scenario.arrangement = subject.arrangement;
    scenario.map_device_bytes = subject.has_map_device.then_some(4 << 20);
    scenario.nth_is_of_map_device = subject.of_map_device;
    scenario.ack = ack;
    // The last records are in no snapshot and not home yet, so that recovery has something to find.
    scenario.snapshot_after_bytes = 8 << 20;
    scenario.snapshot_period = Nanos::from_secs(600);
    scenario.checkpoint_period = None;
    scenario.idle_after = None;
    scenario.properties.sector_bytes = 512;
    scenario.properties.physical_sector_bytes = 512;
    scenario.properties.volatile_cache = true;
    scenario.properties.trim_reads_zero = false;
    scenario.properties.queue_depth_max = 32;
    scenario.budget = FaultBudget::Survive;
    scenario.faults = FaultPlan { nth: Some(nth), ..FaultPlan::none(nth.nth) };
    scenario.steps = workload(end);
    scenario
}

fn stride() -> u64 {
    let chosen = std::env::var("EXHAUSTIVE_STRIDE").ok().and_then(|text| text.parse().ok());
    chosen.unwrap_or(STRIDE).max(1)
}

/// Tries every n, or one in [`stride`]; says how many there were.
fn try_every_command(subject: Subject, ack: AckMode, end: Step) -> u64 {
    let stride = stride();
    let (mut tried, mut openings_failed) = (0, 0);
    for (number, kind) in (0..).zip(KINDS) {
        for sticky in [false, true] {
            // While the content is checked nothing fails; what comes after that is reached again.
            let mut last_reached = 0;
            let first = 1 + (number + u64::from(sticky)) % stride;
            for nth in (first..).step_by(stride as usize) {
                if nth > last_reached + COMMANDS_OF_A_CHECK_MAX {
                    break;
                }
                tried += 1;
                assert!(nth < COMMANDS_MAX, "{subject:?}, {ack:?}: the workload never ends");
                let fault = NthFault { nth, sticky, kind };
                let scenario = scenario(subject, ack, end, fault);
                match run(&scenario) {
                    Ok(tally) => {
                        if tally.faults.of_commands() > 0 {
                            last_reached = nth;
                        }
                        openings_failed += tally.openings_failed;
                    }
                    Err(failure) => panic!("{subject:?}, {ack:?}, {end:?}, {fault:?}: {failure:?}"),
                }
            }
        }
    }
    println!("{subject:?}, {ack:?}, {end:?}: {tried} lives, {openings_failed} openings failed");
    assert!(openings_failed > 0, "{subject:?}, {ack:?}: no recovery met a failure");
    tried
}

/// Both ways to acknowledge; the restart is a clean stop with one, a cut with the other: one before a
/// recovery that fails, and one that is followed by another in the middle of it.
fn try_subject(subject: Subject, cut_if: AckMode) {
    for ack in [AckMode::Durable, AckMode::Flush] {
        let cuts = [Step::Cut { again: 0 }, Step::Cut { again: 1 }];
        for end in if ack == cut_if { &cuts[..] } else { &[Step::Restart] } {
            let tried = try_every_command(subject, ack, *end);
            assert!(tried > 10 * 20 / stride(), "{subject:?}, {ack:?}: only {tried} lives");
        }
    }
}

#[test]
fn whichever_command_fails_the_laws_hold_without_logs() {
    try_subject(Subject::of("nolog"), AckMode::Durable);
}

#[test]
fn whichever_command_fails_the_laws_hold_with_one_log() {
    try_subject(Subject::of("singlelog"), AckMode::Flush);
}

#[test]
fn whichever_command_fails_the_laws_hold_with_many_logs() {
    try_subject(Subject::of("mlb"), AckMode::Durable);
}

#[test]
fn whichever_command_fails_the_laws_hold_beside_a_map_device() {
    for (of_map_device, cut_if) in [(false, AckMode::Durable), (true, AckMode::Flush)] {
        let subject = Subject { has_map_device: true, of_map_device, ..Subject::of("mlb") };
        try_subject(subject, cut_if);
    }
}

#[test]
fn whichever_command_to_one_disk_fails_the_laws_hold_for_a_stripe() {
    let arrangement = Arrangement::Stripe { members: 3, chunk_bytes: 4 << 10 };
    try_subject(Subject { arrangement, ..Subject::of("mlb") }, AckMode::Durable);
}
