//! A volume that accepts no change any more comes to rest: nothing is promised for later, nothing is woken
//! for, and whoever waits for a checkpoint is told that it is over.

use crate::support::disk::{Fault, FaultKind};
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_disk::Nanos;
use nearhead_engine::Phase;
use nearhead_format::AckMode;
use nearhead_service::Service;

/// Every write from now on fails.
const WRITES_FAIL: Fault =
    Fault { kind: FaultKind::Writes, range: None, after: 0, sticky: true, has_effect: false };

fn volume_with_logged_blocks() -> Harness {
    let mut harness = Harness::new(Options::new("singlelog", AckMode::Durable));
    harness.apply(&Step::Write { start: 0, count: 16, fua: true });
    harness.apply(&Step::Settle);
    harness
}

fn comes_to_rest(harness: &mut Harness) {
    let events = (0..2000).take_while(|_| harness.jump()).count();
    assert!(harness.volume().engine().failure().is_some(), "the volume was to fail");
    assert!(events < 2000, "woken for ever: {:#?}", harness.volume().status());
    assert!(!harness.volume().status().checkpointing, "a checkpoint that will never go on");
    assert_eq!(harness.volume().wake_at(), None);
}

#[test]
fn a_checkpoint_asked_of_a_failed_volume_is_not_waited_for() {
    let mut harness = volume_with_logged_blocks();
    harness.apply(&Step::Fail(WRITES_FAIL));
    harness.apply(&Step::Write { start: 8, count: 8, fua: true });
    harness.apply(&Step::Settle);
    harness.apply(&Step::Checkpoint { everything: true });
    comes_to_rest(&mut harness);
}

#[test]
fn a_checkpoint_under_way_ends_when_its_volume_fails() {
    let mut harness = volume_with_logged_blocks();
    harness.apply(&Step::Checkpoint { everything: true });
    harness.apply(&Step::Turn { micros: 1 });
    assert!(harness.volume().status().checkpointing);
    harness.apply(&Step::Fail(WRITES_FAIL));
    harness.apply(&Step::Write { start: 64, count: 8, fua: true });
    harness.apply(&Step::Settle);
    comes_to_rest(&mut harness);
}

#[test]
fn an_idle_volume_whose_homes_cannot_be_written_rests_between_attempts() {
    let options = Options { idle_checkpoints: true, ..Options::new("singlelog", AckMode::Durable) };
    let mut harness = Harness::new(options);
    harness.apply(&Step::Write { start: 0, count: 16, fua: true });
    harness.apply(&Step::Settle);
    let layout = harness.volume().superblock().layout;
    let home = layout.home(0).unwrap().device_offset;
    harness.apply(&Step::Fail(Fault { range: Some(home..home + 8192), ..WRITES_FAIL }));
    let before = harness.volume().disk().writes();
    let until = harness.now + Nanos::from_secs(5);
    while harness.now < until && harness.jump() {}
    let attempts = harness.volume().disk().writes() - before;
    assert!((2..50).contains(&attempts), "{attempts} writes in five idle seconds");
    assert_eq!(harness.volume().status().phase, Phase::Serving);
}
