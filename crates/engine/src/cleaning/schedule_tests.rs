//! When passes begin and end, by a policy that says what it is told to.

use super::*;
use crate::cleaner::AsNeeded;
use crate::core::tests::{core, core_with};
use nearhead_format::Place;

/// Wants a pass for one reason, always.
#[derive(Clone, Copy, Debug)]
struct Always(Why);

impl Cleaner for Always {
    fn home(&mut self, _: &CleaningView<'_>) -> Option<Why> {
        Some(self.0)
    }

    fn home_wake(&self, view: &CleaningView<'_>) -> Option<Nanos> {
        Some(view.now)
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(*self)
    }
}

struct Bench {
    schedule: Schedule,
    core: Core,
    checkpoint: Checkpoint,
    failed: FailedHomes,
}

impl Bench {
    fn new(why: Why, coordinated: bool) -> Self {
        let mut core = core_with(|config| config.cleaning.coordinated = coordinated);
        core.recorded_mut().fill(0, 8, Place::Zero);
        let schedule = Schedule::new(Box::new(Always(why)));
        Self { schedule, core, checkpoint: Checkpoint::default(), failed: FailedHomes::default() }
    }

    /// Whether a pass runs after the schedule was asked.
    fn runs(&mut self, is_quiet: bool) -> bool {
        let context = CleaningContext::new(is_quiet, &self.checkpoint, 0);
        self.schedule.advance(&self.core, context, &mut self.checkpoint, &self.failed);
        self.checkpoint.is_busy()
    }
}

#[test]
fn a_pass_that_can_wait_waits_for_a_permit_and_one_that_is_needed_never_does() {
    for (why, waits) in
        [(Why::Idle, true), (Why::Time, true), (Why::Room, false), (Why::Need, false)]
    {
        let mut bench = Bench::new(why, true);
        assert_eq!((bench.runs(true), bench.schedule.wants_permit()), (!waits, waits), "{why:?}");
        bench.schedule.set_permit(true);
        assert!(bench.runs(true), "{why:?}");
        let mut alone = Bench::new(why, false);
        assert!(alone.runs(true) && !alone.schedule.wants_permit(), "{why:?}: nobody coordinates");
    }
}

#[test]
fn what_is_commanded_begins_whatever_the_policy_says_and_without_a_permit() {
    let mut bench = Bench::new(Why::Time, true);
    bench.schedule = Schedule::new(Box::new(AsNeeded));
    assert!(!bench.runs(true), "nobody asked");
    bench.schedule.command_checkpoint(false);
    assert!(bench.runs(true) && !bench.schedule.is_demanded());
}

#[test]
fn a_stop_begins_nothing_by_itself_and_still_does_what_is_commanded() {
    let mut bench = Bench::new(Why::Need, false);
    bench.core.drain();
    assert!(!bench.runs(true));
    bench.schedule.demand_checkpoint(false);
    assert!(bench.runs(true));
}

#[test]
fn the_pace_follows_who_is_there_and_what_is_at_stake() {
    let (schedule, mut core) = (Schedule::new(Box::new(AsNeeded)), core());
    core.set_now(Nanos::from_secs(1));
    let pace = |schedule: &Schedule, core: &Core, is_quiet, spills| {
        schedule.pace(core, is_quiet, spills, false)
    };
    assert_eq!(pace(&schedule, &core, true, true), Pace::Urgent, "staged blocks go home");
    assert_eq!(pace(&schedule, &core, true, false), Pace::Alone, "nobody has asked for a second");
    assert_eq!(pace(&schedule, &core, false, false), Pace::Steady, "somebody is there");
    let mut bench = Bench::new(Why::Room, false);
    bench.core.set_now(Nanos::from_secs(1));
    bench.schedule.note_request(Nanos::from_secs(1));
    assert!(bench.runs(true));
    assert_eq!(pace(&bench.schedule, &bench.core, true, false), Pace::Polite);
    assert_eq!(bench.schedule.pace(&bench.core, true, false, true), Pace::Steady, "a log is moved");
}

#[test]
fn a_cancelled_command_begins_nothing_and_what_is_needed_still_does() {
    let mut bench = Bench::new(Why::Time, true);
    bench.schedule = Schedule::new(Box::new(AsNeeded));
    bench.schedule.command_checkpoint(true);
    bench.schedule.cancel_command(&bench.core, &mut bench.checkpoint);
    assert!(!bench.runs(true), "it did not begin yet");
    bench.schedule.demand_checkpoint(false);
    bench.schedule.command_checkpoint(true);
    bench.schedule.cancel_command(&bench.core, &mut bench.checkpoint);
    assert!(bench.schedule.is_demanded() && bench.runs(true), "a client waits for room");
}
