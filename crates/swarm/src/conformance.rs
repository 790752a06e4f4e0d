//! Whether a system keeps the laws: one call, for whoever brings policies of his own.
//!
//! A system is a layout and the policies that run on it. It lives lives of the swarm: random work by several clients, with
//! power cuts, kills and orderly stops at any moment, cuts during recovery, cuts beside a life that goes on, disks that fail
//! for a while or for good, torn and lost and rotten sectors, restarts, growth, arrays and map devices. After each of them
//! everything that was acknowledged must be there, and nothing else.
//!
//! Not among them are the exhaustive cuts of `crates/volume/tests/laws`, which run over presets and over [`crate::Wanderer`].

use crate::OPERATIONS;
use crate::life::run;
use crate::scenario::Scenario;
use crate::tally::Tally;
use nearhead_engine::cleaner::Cleaner;
use nearhead_engine::placement::Placement;
use std::ops::Range;

/// Policies in place of those of a preset.
#[derive(Clone, Debug)]
pub struct Policies {
    /// Where does it go?
    pub placement: Box<dyn Placement>,
    /// How is it emptied?
    pub cleaner: Box<dyn Cleaner>,
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct System {
    /// What it is called in messages.
    pub name: &'static str,
    /// The preset whose layout it has.
    pub layout: &'static str,
    /// What it does with it.
    pub policies: Policies,
}

impl System {
    /// The life that `seed` names, as this system lives it.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let scenario = Scenario::with_preset(seed, OPERATIONS, self.layout);
        Scenario { policies: Some(self.policies.clone()), ..scenario }
    }

    /// Lives those lives. Says what was tried, or the first law that was broken.
    pub fn conforms(&self, seeds: Range<u64>) -> Result<Tally, String> {
        let mut all = Tally::default();
        for seed in seeds {
            match run(&self.scenario(seed)) {
                Ok(tally) => all.add(&tally),
                Err(failure) => {
                    let (name, step) = (self.name, failure.step);
                    return Err(format!(
                        "{name}: life {seed} broke a law at step {step}: {}; repeat with conforms({seed}..{})",
                        failure.what,
                        seed + 1
                    ));
                }
            }
        }
        Ok(all)
    }
}
