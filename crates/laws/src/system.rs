//! Whether a system keeps the laws: one call, for whoever brings policies of his own.

use crate::exhaustive::{self, Extent, configurations};
use crate::options::Options;
use crate::random_cuts::{Kind, live};
use nearhead_engine::Policies;
use nearhead_format::AckMode;
use nearhead_swarm::{OPERATIONS, Scenario, Tally, run};
use nearhead_volume::{NamedPreset, Presets};
use std::fmt;
use std::sync::Arc;

/// What is tried: a preset, and the table that volumes with it are opened with; perhaps with other policies than the preset has.
#[derive(Clone, Debug)]
pub struct System {
    presets: Presets,
    preset: NamedPreset,
    policies: Option<Arc<dyn Policies>>,
    log_devices: usize,
}

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Of the short workloads, cut everywhere, one in so many.
    pub exhaustive_stride: u64,
    /// Seeds of random cuts: each is a life on a sound disk, one on a failing one and one with scarce logs.
    pub random_seeds: u64,
    /// Lives of the swarm.
    pub lives: u64,
}

impl Effort {
    /// For a test.
    pub const TEST: Self = Self { exhaustive_stride: 211, random_seeds: 6, lives: 40 };
}

/// What was tried; no law was broken.
pub struct Report {
    /// Of the short workloads.
    pub exhaustive: exhaustive::Tally,
    /// Lives with random cuts.
    pub random_cuts: u64,
    /// Of the swarm.
    pub swarm: Tally,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.exhaustive)?;
        writeln!(formatter, "{} lives with random cuts", self.random_cuts)?;
        write!(formatter, "{}", self.swarm)
    }
}

impl System {
    /// The preset of that name in the table.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(presets: Presets, name: &str) -> Self {
        let preset = presets.by_name(name).unwrap_or_else(|error| panic!("{error}"));
        Self { presets, preset, policies: None, log_devices: 0 }
    }

    /// The same with these policies instead of the preset's own. Where they have nothing more to say the trial ends early.
    #[must_use]
    pub fn with_policies(self, policies: Arc<dyn Policies>) -> Self {
        Self { policies: Some(policies), ..self }
    }

    /// The same on so many further log devices, one or two.
    #[must_use]
    pub fn with_log_devices(self, log_devices: usize) -> Self {
        Self { log_devices, ..self }
    }

    /// Tries every law.
    ///
    /// # Panics
    /// If one is broken, after it printed what repeats that.
    pub fn conforms(&self, effort: Effort) -> Report {
        Report {
            exhaustive: self.keeps_laws_under_every_cut(&Extent::one_in(effort.exhaustive_stride)),
            random_cuts: self.keeps_laws_under_random_cuts(0..effort.random_seeds),
            swarm: self.keeps_laws_in_lives(0..effort.lives),
        }
    }

    /// Every outcome of a cut at every moment of short workloads, as many of them as `extent` says.
    pub fn keeps_laws_under_every_cut(&self, extent: &Extent) -> exhaustive::Tally {
        let mut all = configurations(self.presets, self.preset, false);
        for options in &mut all {
            options.log_devices = self.log_devices;
            options.policies.clone_from(&self.policies);
        }
        let (name, stride) = (self.preset.name, extent.stride);
        let repeat = move |number| {
            format!(
                "{name}: repeat with keeps_laws_under_every_cut(&Extent {{ only: Some({number}), ..Extent::one_in({stride}) }})"
            )
        };
        exhaustive::run(&all, extent, &repeat).tally
    }

    /// Long workloads with cuts, kills and stops, on sound and failing disks; those of seed 0 twice, with the same result.
    pub fn keeps_laws_under_random_cuts(&self, seeds: std::ops::Range<u64>) -> u64 {
        let (system, name) = ((self.presets, self.preset), self.preset.name);
        let log_devices = self.log_devices;
        let change = |options| Options { log_devices, policies: self.policies.clone(), ..options };
        let mut lives = 0;
        for seed in seeds {
            for (number, kind) in [Kind::SOUND, Kind::FAILING, Kind::SCARCE].into_iter().enumerate()
            {
                let ack = [AckMode::Durable, AckMode::Flush][(seed as usize + number) % 2];
                let _life = ToldIfBroken(format!(
                    "{name}: random cuts, seed {seed}, {kind:?}, {ack:?}; repeat with \
                     keeps_laws_under_random_cuts({seed}..{})",
                    seed + 1
                ));
                let once = live(seed, system, ack, kind, change);
                // The first is as good as all of them.
                if seed == 0 {
                    let again = live(seed, system, ack, kind, change);
                    assert_eq!(once, again, "{name}: two runs of the same seed differ");
                }
                lives += 1;
            }
        }
        lives
    }

    /// Lives of the swarm.
    pub fn keeps_laws_in_lives(&self, seeds: std::ops::Range<u64>) -> Tally {
        let mut all = Tally::default();
        for seed in seeds {
            let scenario = Scenario::of_preset(seed, OPERATIONS, self.presets, self.preset);
            let scenario = scenario.with_log_devices(self.log_devices);
            let scenario = scenario.with_policies(self.policies.clone());
            match run(&scenario) {
                Ok(tally) => all.add(&tally),
                Err(failure) => panic!(
                    "{}: life {seed} broke a law at step {}: {}; repeat with keeps_laws_in_lives({seed}..{})",
                    self.preset.name,
                    failure.step,
                    failure.what,
                    seed + 1
                ),
            }
        }
        all
    }
}

/// What repeats a trial, said when a law is broken in it.
struct ToldIfBroken(String);

impl Drop for ToldIfBroken {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.0);
        }
    }
}
