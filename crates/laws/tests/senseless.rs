//! Policies without any sense break no law: records go anywhere they may, and jobs are asked for at random.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_engine::Config;
use nearhead_format::{LayoutKind, PresetNumber};
use nearhead_laws::exhaustive::Extent;
use nearhead_laws::{Effort, System};
use nearhead_swarm::{Restless, Wanderer};
use nearhead_volume::{Facts, NamedPreset, Presets};

static SENSELESS: [NamedPreset; 3] = [
    NamedPreset {
        name: "senseless",
        number: PresetNumber(901),
        layout: LayoutKind::ManyLogs,
        logged_write_bytes_max: 32 << 10,
        fragments: false,
        summary: "anywhere, any time",
        configure: in_any_log,
    },
    NamedPreset {
        name: "senseless-anywhere",
        number: PresetNumber(903),
        layout: LayoutKind::ManyLogsAnywhere,
        logged_write_bytes_max: 32 << 10,
        fragments: false,
        summary: "anywhere in any log, any time",
        configure: in_any_log,
    },
    NamedPreset {
        name: "senseless-in-one",
        number: PresetNumber(902),
        layout: LayoutKind::OneLog,
        logged_write_bytes_max: 32 << 10,
        fragments: false,
        summary: "anywhere in one log, any time",
        configure: in_one_log,
    },
];

fn in_any_log(facts: &Facts<'_>) -> Config {
    Config { cleaner: Box::new(Restless::new(2)), ..facts.config(Box::new(Wanderer::new(1, true))) }
}

fn in_one_log(facts: &Facts<'_>) -> Config {
    Config {
        cleaner: Box::new(Restless::new(2)),
        ..facts.config(Box::new(Wanderer::new(1, false)))
    }
}

#[test]
fn policies_without_sense_break_no_law() {
    let effort = Effort { exhaustive_stride: 401, random_seeds: 3, lives: 20 };
    for name in ["senseless", "senseless-anywhere", "senseless-in-one"] {
        let report = System::new(Presets::with(&SENSELESS), name).conforms(effort);
        let swarm = &report.swarm;
        // What never ran proves nothing.
        assert!(swarm.records > 300 && swarm.cuts > 20 && swarm.checkpointed_bytes > 0, "{report}");
        assert!(name == "senseless-in-one" || swarm.swaps > 5, "{report}");
        assert!(report.exhaustive.distinct() > 500 && report.random_cuts == 9, "{report}");
    }
}

/// The one of the program's own presets whose records stand anywhere; its lives are told of tracks that have nothing to do with their disks.
#[test]
fn records_that_go_where_a_head_is_thought_to_be_break_no_law() {
    let effort = Effort { exhaustive_stride: 401, random_seeds: 3, lives: 40 };
    let report = System::new(Presets::default(), "nearhead").conforms(effort);
    assert!(report.swarm.records > 300 && report.swarm.cuts > 20, "{report}");
    assert!(report.exhaustive.distinct() > 500 && report.random_cuts == 9, "{report}");
}

/// The one that has nothing but logs, on all of its devices.
#[test]
fn a_chain_of_devices_without_homes_breaks_no_law() {
    let effort = Effort { exhaustive_stride: 401, random_seeds: 3, lives: 60 };
    let report = System::new(Presets::default(), "gecko").conforms(effort);
    assert!(report.swarm.records > 300 && report.swarm.cuts > 20, "{report}");
    assert!(report.swarm.compactions > 5, "{report}");
    assert!(report.exhaustive.distinct() > 500 && report.random_cuts == 9, "{report}");
}

/// The one whose logs are on a device of their own. Its disks share one medium: a cut hits all of them, a flush reaches one.
#[test]
fn a_log_device_in_front_of_data_devices_breaks_no_law() {
    let effort = Effort { exhaustive_stride: 401, random_seeds: 3, lives: 40 };
    let report = System::new(Presets::default(), "trail").conforms(effort);
    assert!(report.swarm.records > 300 && report.swarm.cuts > 20, "{report}");
    assert!(report.swarm.checkpointed_bytes > 1 << 20, "{report}");
    assert!(report.exhaustive.distinct() > 500 && report.random_cuts == 9, "{report}");
}

/// The same with two log devices, and with three: a record in flight on any of them, the others on their way.
#[test]
fn several_log_devices_in_front_of_data_devices_break_no_law() {
    // Each further device multiplies the outcomes of a cut.
    for (further, stride, lives) in [(1, 401, 0..40), (2, 4001, 40..80)] {
        let system = System::new(Presets::default(), "trail").with_log_devices(further);
        let extent = Extent::one_in(stride);
        let exhaustive = system.keeps_laws_under_every_cut(&extent);
        assert!(exhaustive.distinct() > 500, "{exhaustive}");
        let random = further as u64..further as u64 + 2;
        assert_eq!(system.keeps_laws_under_random_cuts(random), 6);
        let swarm = system.keeps_laws_in_lives(lives);
        assert!(swarm.records > 300 && swarm.cuts > 20, "{swarm}");
        assert!(swarm.checkpointed_bytes > 1 << 20, "{swarm}");
    }
}
