//! Policies that no preset has are tried with everything that those of presets are, and the suite can fail.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_disk::{Class, Nanos};
use nearhead_engine::admission::{Admission, Outstanding};
use nearhead_engine::placement::{Need, Placement, Spot, View};
use nearhead_engine::{Config, Policies};
use nearhead_laws::exhaustive::Extent;
use nearhead_laws::{Effort, System};
use nearhead_swarm::Wanderer;
use nearhead_volume::Presets;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const EFFORT: Effort = Effort { exhaustive_stride: 4001, random_seeds: 1, lives: 2 };

/// A placement in front of which questions are counted, by everybody together.
#[derive(Debug)]
struct Counted {
    asked: Arc<AtomicU64>,
    /// A law that it is to break: what it answers depends on what was answered before its engine began.
    remembers: bool,
    below: Box<dyn Placement>,
}

impl Placement for Counted {
    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let spot = self.below.choose(need, view)?;
        let wanted_index = (asked % u64::from(view.logs.count())) as u32;
        Some(if self.remembers { Spot { wanted_index, ..spot } } else { spot })
    }

    fn claims_ahead(&self) -> u32 {
        3
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(Self { asked: Arc::clone(&self.asked), below: self.below.boxed(), ..*self })
    }
}

#[derive(Debug, Default)]
struct Counting {
    asked: Arc<AtomicU64>,
    remembers: bool,
    asked_max: Option<u64>,
}

impl Policies for Counting {
    fn configure(&self, config: &mut Config) {
        let below = Box::new(Wanderer::new(5, true));
        let asked = Arc::clone(&self.asked);
        config.placement = Box::new(Counted { asked, remembers: self.remembers, below });
    }

    fn go_on(&self) -> bool {
        self.asked_max.is_none_or(|most| self.asked.load(Ordering::Relaxed) < most)
    }
}

fn mlb(policies: Arc<dyn Policies>) -> System {
    System::new(Presets::default(), "mlb").with_policies(policies)
}

#[test]
fn policies_that_no_preset_has_are_asked_in_every_part() {
    let counting = Arc::new(Counting::default());
    let system = mlb(Arc::clone(&counting) as Arc<dyn Policies>);
    let asked = || counting.asked.swap(0, Ordering::Relaxed);
    system.keeps_laws_under_every_cut(&Extent::one_in(EFFORT.exhaustive_stride));
    let in_short_ones = asked();
    system.keeps_laws_under_random_cuts(0..1);
    let in_long_ones = asked();
    system.keeps_laws_in_lives(0..2);
    let in_lives = asked();
    assert!(in_short_ones > 100 && in_long_ones > 100 && in_lives > 100);
}

#[test]
fn a_trial_whose_policies_have_nothing_more_to_say_ends_early() {
    let extent = Extent { threads: Some(1), ..Extent::one_in(EFFORT.exhaustive_stride) };
    let silent = Counting { asked_max: Some(1), ..Counting::default() };
    let part = mlb(Arc::new(silent)).keeps_laws_under_every_cut(&extent);
    // Those that were begun together; there are thousands.
    assert!(0 < part.workloads() && part.workloads() < 100);
}

#[test]
#[should_panic(expected = "two runs of the same seed differ")]
fn a_placement_that_knows_what_was_before_its_engine_is_found() {
    let remembering = Counting { remembers: true, ..Counting::default() };
    mlb(Arc::new(remembering)).keeps_laws_under_random_cuts(0..1);
}

/// Lets nobody pass.
#[derive(Clone, Copy, Debug)]
struct Shut;

impl Admission for Shut {
    fn admits(&self, _: Class, _: u64, _: Nanos, _: &Outstanding) -> bool {
        false
    }

    fn piece_bytes(&self) -> u32 {
        128 << 10
    }

    fn boxed(&self) -> Box<dyn Admission> {
        Box::new(*self)
    }
}

impl Policies for Shut {
    fn configure(&self, config: &mut Config) {
        config.admission = self.boxed();
    }
}

#[test]
#[should_panic(expected = "life 0 broke a law")]
fn an_admission_that_lets_nobody_pass_is_found_by_a_life() {
    mlb(Arc::new(Shut)).keeps_laws_in_lives(0..1);
}

#[test]
#[should_panic(expected = "neither completed nor will")]
fn an_admission_that_lets_nobody_pass_is_found_by_the_whole_suite() {
    mlb(Arc::new(Shut)).conforms(EFFORT);
}
