//! Making a failing life short: fewer steps, fewer kinds of fault, as long as it still fails.
//!
//! Steps go in halves, quarters and so on (delta debugging: Zeller and Hildebrandt, IEEE TSE 28(2), 2002),
//! kinds of fault one by one. The number of lives spent is bounded.

use crate::life::{Failure, run};
use crate::scenario::Scenario;
use crate::steps::Steps;
use nearhead_models::faults::FaultKind;

/// A short life that fails.
#[derive(Clone, Debug)]
pub struct Minimised {
    /// What is left.
    pub steps: Steps,
    /// Kinds of fault that are not needed.
    pub without: Vec<FaultKind>,
    /// How it fails now.
    pub failure: Failure,
    /// The life itself.
    pub scenario: Scenario,
}

impl Minimised {
    /// The arguments that live this life again.
    pub fn arguments(&self, ops: usize) -> String {
        let names: Vec<&str> = self.without.iter().map(|kind| kind.name()).collect();
        let without = if names.is_empty() {
            String::new()
        } else {
            format!(" --without {}", names.join(","))
        };
        let ops = if ops == crate::OPERATIONS { String::new() } else { format!(" --ops {ops}") };
        let bends = crate::steer::words(&self.scenario.bends);
        format!("--seed {}{bends}{ops} --steps {}{without}", self.scenario.seed, self.steps)
    }
}

struct Search<'a> {
    whole: &'a Scenario,
    best: Minimised,
    lives_left: u32,
}

/// Shortens `whole`, which fails with `failure`, in at most `lives_max` lives.
pub fn minimise(whole: &Scenario, failure: Failure, lives_max: u32) -> Minimised {
    let steps = Steps((0..whole.steps.len().min(failure.step + 1)).collect());
    let scenario = whole.clone();
    let best = Minimised { steps, without: Vec::new(), failure, scenario };
    let mut search = Search { whole, best, lives_left: lives_max };
    let (steps, without) = (search.best.steps.clone(), Vec::new());
    search.try_life(&steps, without);
    search.drop_kinds();
    search.drop_steps();
    search.drop_kinds();
    search.best
}

impl Search<'_> {
    /// Keeps this life if it fails too.
    fn try_life(&mut self, steps: &Steps, without: Vec<FaultKind>) -> bool {
        if self.lives_left == 0 {
            return false;
        }
        self.lives_left -= 1;
        let mut scenario = self.whole.clone().with_steps(steps);
        for kind in &without {
            scenario.faults = scenario.faults.without(*kind);
        }
        let Err(failure) = run(&scenario) else { return false };
        // What comes after the step that failed is not needed.
        let kept = steps.0.len().min(failure.step + 1);
        let steps = Steps(steps.0[..kept].to_vec());
        self.best = Minimised { steps, without, failure, scenario };
        true
    }

    fn drop_kinds(&mut self) {
        for kind in self.whole.faults.kinds() {
            if !self.best.without.contains(&kind) {
                let mut without = self.best.without.clone();
                without.push(kind);
                self.try_life(&self.best.steps.clone(), without);
            }
        }
    }

    fn drop_steps(&mut self) {
        let mut chunk = self.best.steps.0.len() / 2;
        while chunk > 0 && self.lives_left > 0 {
            let mut at = 0;
            while at < self.best.steps.0.len() && self.lives_left > 0 {
                let mut steps = self.best.steps.0.clone();
                let end = (at + chunk).min(steps.len());
                steps.drain(at..end);
                if !self.try_life(&Steps(steps), self.best.without.clone()) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }
}
