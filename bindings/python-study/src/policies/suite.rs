//! The suite of the laws, with policies written in Python: the same that policies in Rust are tried with, seed by seed.
//!
//! The suite belongs to tests: it panics where a law is broken. It runs on a thread of its own, so that this ends there, and the thread that asked
//! for it goes on hearing signals.

use super::Brought;
use crate::{signals, told};
use nearhead_engine::Policies;
use nearhead_laws::System;
use nearhead_laws::exhaustive::Extent;
use nearhead_swarm::Tally;
use nearhead_volume::{NamedPreset, Presets};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Signals are looked for so often.
const PERIOD: Duration = Duration::from_millis(20);

/// Tries policies on a preset: its short workloads, of which one in `one_in`, with every cut (none without a number), and for each seed long ones
/// with random cuts and a life of the swarm. Gives what was tried, as JSON.
#[pyfunction]
#[pyo3(signature = (preset, placement, admission, cleaner, seeds, one_in))]
#[expect(clippy::needless_pass_by_value, reason = "as the interpreter hands it over")]
pub(crate) fn conformance(
    py: Python<'_>,
    preset: &str,
    placement: Option<Py<PyAny>>,
    admission: Option<Py<PyAny>>,
    cleaner: Option<Py<PyAny>>,
    seeds: Vec<u64>,
    one_in: Option<u64>,
) -> PyResult<String> {
    let preset = NamedPreset::by_name(preset).map_err(told)?;
    let brought = Brought::new(placement, admission, cleaner)
        .ok_or_else(|| told("conformance: expected a policy, found none"))?;
    let policies: Arc<dyn Policies> = Arc::clone(&brought) as Arc<dyn Policies>;
    let system = System::new(Presets::default(), preset.name).with_policies(policies);
    let part = Mutex::new(String::new());
    let trial = Trial { system, brought: &brought, part: &part };
    let ended = py.detach(|| {
        thread::scope(|scope| {
            let trial = scope.spawn(|| trial.run(&seeds, one_in));
            while !trial.is_finished() {
                thread::park_timeout(PERIOD);
                if let Err(raised) = signals::check() {
                    brought.book.fail(raised);
                }
            }
            trial.join()
        })
    });
    if let Some(failure) = brought.take_failure() {
        return Err(failure);
    }
    let part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
    let tried = ended.map_err(|panic| {
        let what = text_of(&*panic);
        told(format!("conformance on {}: a law is broken in {part}: {what}", preset.name))
    })?;
    if let Some(unheard) = brought.unheard() {
        return Err(told(format!(
            "conformance on {}: expected each policy to have a say, as what never ran proves nothing; found that {unheard}",
            preset.name
        )));
    }
    Ok(tried.to_string())
}

struct Trial<'a> {
    system: System,
    brought: &'a Brought,
    /// What is being tried.
    part: &'a Mutex<String>,
}

impl Trial<'_> {
    fn run(&self, seeds: &[u64], one_in: Option<u64>) -> Value {
        let (mut images, mut random_cuts, mut lives) = (0, 0, Tally::default());
        if let Some(one_in) = one_in {
            self.begins(format!(
                "the short workloads with every cut; repeat with seeds=[], every_cut={one_in}"
            ));
            images = self.system.keeps_laws_under_every_cut(&Extent::one_in(one_in)).distinct();
        }
        for seed in seeds {
            let range = *seed..seed.saturating_add(1);
            for is_life in [false, true] {
                if !self.brought.go_on() {
                    break;
                }
                let what = if is_life { "a life" } else { "random cuts" };
                self.begins(format!(
                    "{what} of seed {seed}; repeat with seeds=[{seed}], every_cut=None"
                ));
                if is_life {
                    lives.add(&self.system.keeps_laws_in_lives(range.clone()));
                } else {
                    random_cuts += self.system.keeps_laws_under_random_cuts(range.clone());
                }
            }
        }
        json!({
            "images": images,
            "random_lives": random_cuts,
            "lives": lives.lives,
            "requests": lives.requests,
            "commands": lives.commands,
            "cuts": lives.cuts,
            "cuts_in_recovery": lives.cuts_in_recovery,
            "kills": lives.kills,
            "stops": lives.stops,
            "sectors_checked": lives.sectors_checked,
            "records": lives.records,
            "swaps": lives.swaps,
            "checkpointed_bytes": lives.checkpointed_bytes,
            "spills": lives.spills,
            "snapshots": lives.snapshots,
        })
    }

    fn begins(&self, part: String) {
        *self.part.lock().unwrap_or_else(PoisonError::into_inner) = part;
    }
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "the suite panicked without a word".to_owned())
}
