//! The n-th command to the disk fails, for n = 1, 2, ... until the workload never gets there.
//!
//! Each sort of failure, once and for good. Whatever the command was (a record, a home, a flush, a piece of
//! a snapshot, a read of recovery), the laws hold while it fails and after the restart that mends it.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_format::AckMode;
use nearhead_models::faults::{FaultBudget, FaultKind, FaultPlan, NthFault};
use nearhead_swarm::{Place, Scenario, Step, run};

/// Commands that no workload here needs; a test that gets there does not end.
const COMMANDS_MAX: u64 = 400;

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
        end,
        Step::Write { place: place(0, 4, 8), fua: true },
        Step::Settle,
    ]
}

fn scenario(preset: &'static str, ack: AckMode, end: Step, nth: NthFault) -> Scenario {
    let mut scenario = Scenario::new(0, 0);
    scenario.preset = preset;
    scenario.ack = ack;
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

/// Tries every n; says how many there were.
fn try_every_command(preset: &'static str, ack: AckMode, end: Step) -> u64 {
    let mut tried = 0;
    for kind in KINDS {
        for sticky in [false, true] {
            let mut reached = true;
            let mut nth = 0;
            while reached {
                nth += 1;
                assert!(nth < COMMANDS_MAX, "{preset}, {ack:?}: the workload never ends");
                let fault = NthFault { nth, sticky, kind };
                let scenario = scenario(preset, ack, end, fault);
                match run(&scenario) {
                    Ok(tally) => reached = tally.faults.of_commands() > 0,
                    Err(failure) => panic!("{preset}, {ack:?}, {end:?}, {fault:?}: {failure:?}"),
                }
                // A full disk fails writes alone: other commands are passed over.
                reached |= kind == FaultKind::Full && nth < 120;
            }
            tried += nth;
        }
    }
    println!("{preset}, {ack:?}, {end:?}: {tried} lives");
    tried
}

/// Both ways to acknowledge; the restart is a cut with one, a clean stop with the other.
fn try_preset(preset: &'static str, cut_if: AckMode) {
    for ack in [AckMode::Durable, AckMode::Flush] {
        let end = if ack == cut_if { Step::Cut { again: 1 } } else { Step::Restart };
        let tried = try_every_command(preset, ack, end);
        assert!(tried > 10 * 20, "{preset}, {ack:?}: only {tried} lives");
    }
}

#[test]
fn whichever_command_fails_the_laws_hold_without_logs() {
    try_preset("nolog", AckMode::Durable);
}

#[test]
fn whichever_command_fails_the_laws_hold_with_one_log() {
    try_preset("singlelog", AckMode::Flush);
}

#[test]
fn whichever_command_fails_the_laws_hold_with_many_logs() {
    try_preset("mlb", AckMode::Durable);
}
