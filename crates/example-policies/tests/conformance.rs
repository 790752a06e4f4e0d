//! The one call by which a system from outside shows that it breaks no law.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_engine::Config;
use nearhead_example_policies::{Few, FullestFirst, InTurn};
use nearhead_format::{LayoutKind, PresetNumber};
use nearhead_laws::{Effort, System};
use nearhead_volume::{Facts, NamedPreset, Presets};

/// The whole of a new system, but for its policies.
static MINE: [NamedPreset; 1] = [NamedPreset {
    name: "in-turn",
    number: PresetNumber(900),
    layout: LayoutKind::ManyLogs,
    logged_write_bytes_max: 32 << 10,
    fragments: false,
    summary: "one log after the other takes a record",
    configure: in_turn,
}];

fn in_turn(facts: &Facts<'_>) -> Config {
    Config {
        packing: Box::new(Few),
        cleaner: Box::new(FullestFirst),
        ..facts.config(Box::new(InTurn::default()))
    }
}

#[test]
fn a_placement_a_packing_and_a_cleaner_from_outside_break_no_law() {
    let report = System::new(Presets::with(&MINE), "in-turn").conforms(Effort::TEST);
    let swarm = &report.swarm;
    // What never ran proves nothing.
    assert!(swarm.records > 500 && swarm.swaps > 5 && swarm.cuts > 50, "{report}");
    assert!(swarm.kills > 20 && swarm.cuts_in_recovery > 20, "{report}");
    assert!(swarm.checkpointed_bytes > 1 << 20, "{report}");
    assert!(report.exhaustive.distinct() > 1000 && report.random_cuts == 18, "{report}");
}
