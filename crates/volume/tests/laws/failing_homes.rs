//! Law 6 beside law 8: no log has room, and no home takes anything either.
//!
//! What can go nowhere is tried again by itself, ever more rarely, and nobody waits for ever. What fails now may work a
//! moment later: who needs a home that rests, or the room that it would make, is refused only after it was tried for
//! him.

use crate::bad_sectors::Asked;
use crate::support::disk::Trouble;
use crate::support::options::Options;
use crate::support::steps::{SPAN_SECTORS, Step};
use nearhead_disk::Nanos;
use nearhead_engine::DiskWork;
use nearhead_format::AckMode;

const PRESETS: [&str; 4] = ["singlelog", "mlb", "slsmr", "trail"];
const ACKS: [AckMode; 2] = [AckMode::Durable, AckMode::Flush];
/// More than the logs hold, in sectors.
const FIRST_FREE: u64 = 3600;

fn small_write(start: u64, fua: bool) -> Step {
    Step::Write { start, count: 8, fua }
}

fn homes_tried(asked: &mut Asked) -> u64 {
    asked.harness.volume().status().disk_errors.of_work(DiskWork::HomeWrite)
}

/// A volume on a disk whose homes all fail, for want of space if it `is_full`, with logs that have no room left and
/// writes that could go nowhere.
fn with_nowhere_to_go(
    preset: &'static str,
    ack: AckMode,
    is_full: bool,
    is_patient: bool,
) -> Asked {
    let options = Options {
        logs_are_scarce: true,
        idle_checkpoints: true,
        is_patient,
        stage_age_max: Some(Nanos::from_millis(20)),
        ..Options::new(preset, ack)
    };
    let mut asked = Asked::new(options, 1);
    let layout = asked.harness.volume().superblock().layout;
    let home = |start: u64| layout.home(start * 512).unwrap().device_offset;
    let homes = (0..SPAN_SECTORS).map(|sector| home(sector)..home(sector) + 512).collect();
    let trouble = if is_full {
        Trouble { full: homes, ..Trouble::default() }
    } else {
        Trouble { bad: homes, ..Trouble::default() }
    };
    asked.harness.volume().disk_mut().set_trouble(trouble);
    for start in (0..FIRST_FREE).step_by(8) {
        asked.apply(&small_write(start, true));
        asked.apply(&Step::Settle);
        if !asked.harness.failed.is_empty() {
            break;
        }
    }
    assert!(!asked.harness.failed.is_empty(), "{preset}: the logs are not full");
    for start in (FIRST_FREE..FIRST_FREE + 80).step_by(8) {
        asked.apply(&small_write(start, false));
    }
    asked.apply(&Step::Flush);
    asked.apply(&Step::Settle);
    asked
}

#[test]
fn what_can_go_nowhere_is_tried_ever_more_rarely() {
    for (preset, ack) in PRESETS.into_iter().flat_map(|preset| ACKS.map(|ack| (preset, ack))) {
        for is_full in [false, true] {
            let what = format!("{preset}, {ack:?}, no space: {is_full}");
            println!("repeat with {what}");
            let mut asked = with_nowhere_to_go(preset, ack, is_full, false);
            asked.harness.pass(Nanos::from_secs(100));
            let before = homes_tried(&mut asked);
            asked.harness.pass(Nanos::from_secs(300));
            let tried = homes_tried(&mut asked) - before;
            // Bad homes once a minute by then, three attempts each; homes without space once a second.
            let tried_max = if is_full { 30_000 } else { 3_000 };
            assert!((100..tried_max).contains(&tried), "{what}: tried {tried} times in 300 s");
            asked.assert_serving(&what);
            asked.mend_and_check(&what);
        }
    }
}

#[test]
fn who_needs_a_home_that_rests_is_served_if_the_disk_works_again() {
    for (preset, ack) in PRESETS.into_iter().flat_map(|preset| ACKS.map(|ack| (preset, ack))) {
        for (is_atomic, is_patient) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let what = format!("{preset}, {ack:?}, atomic: {is_atomic}, waits: {is_patient}");
            println!("repeat with {what}");
            let mut asked = with_nowhere_to_go(preset, ack, false, is_patient);
            asked.harness.pass(Nanos::from_secs(100));
            asked.harness.volume().disk_mut().mend();
            let before = asked.harness.failed.len();
            for start in (FIRST_FREE..FIRST_FREE + 80).step_by(8) {
                let step = if is_atomic {
                    Step::Atomic { start, other: start - 160, count: 8 }
                } else {
                    small_write(start, true)
                };
                asked.apply(&step);
                asked.apply(&Step::Settle);
            }
            let failed = &asked.harness.failed[before..];
            assert!(failed.is_empty(), "{what}: {failed:?}");
            asked.mend_and_check(&what);
        }
    }
}
