//! The laws of a volume that outlives writes which its disk lost (`crates/volume/src/reopening.rs`).
//!
//! Nothing that was acknowledged as durable before the failure is lost. What was acknowledged and not flushed is old or
//! new, and stays what it is. Every request is answered once. A bad sector then costs what touches it. A power cut may come
//! at every step of it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod disk;
mod rig;
mod told;

use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_format::AckMode;
use nearhead_service::{ErrorKind, Service};
use nearhead_volume::LossEvent;
use rig::{Kind, Rig, SPAN_SECTORS};

const PRESETS: [&str; 4] = ["nolog", "singlelog", "mlb", "mlb-256"];

fn kinds() -> impl Iterator<Item = Kind> {
    PRESETS.into_iter().flat_map(|preset| {
        [(AckMode::Durable, true), (AckMode::Durable, false), (AckMode::Flush, true)]
            .map(|(ack, lone_writes_go_home)| Kind { preset, ack, lone_writes_go_home })
    })
}

const ONE: Kind = Kind { preset: "mlb", ack: AckMode::Flush, lone_writes_go_home: true };

/// What is written now can be read, and nothing fails.
fn assert_serves(rig: &mut Rig) {
    rig.failed.clear();
    rig.write(512, 8, true);
    rig.settle();
    rig.read(512, 8);
    rig.settle();
    assert_eq!((rig.phase(), &*rig.failed), ("serving", &[][..]));
}

#[test]
fn a_failed_sync_loses_nothing_durable_and_the_volume_goes_on() {
    let mut reopened = 0;
    for seed in 0..30 {
        for kind in kinds() {
            println!("repeat with seed {seed}, {kind:?}");
            let mut random = SplitMix::new(seed);
            let mut rig = Rig::new(kind, seed);
            rig.disk().syncs_left = Some(random.below(60));
            for _ in 0..300 {
                rig.step(&mut random);
            }
            rig.settle();
            reopened += rig.disk().starts_over;
            assert_eq!(rig.phase(), "serving", "{:?}", rig.told);
            rig.adopt("after it was opened again");
            rig.failed.clear();
            for _ in 0..200 {
                rig.step(&mut random);
            }
            rig.settle();
            assert_eq!(rig.failed, [], "nothing fails any more");
            rig.cut(seed);
        }
    }
    assert!(reopened > 300, "{reopened} failures");
}

#[test]
fn the_power_may_go_at_every_step_of_it() {
    for (seed, kind) in (0..).zip(kinds()) {
        let mut cuts = 0;
        for steps_after in 0.. {
            println!("repeat with {kind:?}, {steps_after} events after the failure");
            let mut random = SplitMix::new(seed);
            let mut rig = Rig::new(kind, seed);
            rig.disk().syncs_left = Some(20);
            while Service::losses(rig.volume()) == 0 {
                rig.step(&mut random);
            }
            for left in (0..steps_after).rev() {
                // Clients go on asking meanwhile.
                rig.write(8 * (left % 64), 8, left % 2 == 0);
                rig.jump();
            }
            let is_over = !rig.volume().is_reopening() && steps_after > 12;
            rig.cut(steps_after);
            for _ in 0..60 {
                rig.step(&mut random);
            }
            rig.settle();
            rig.cut(!steps_after);
            cuts += 1;
            if is_over {
                break;
            }
        }
        assert!(cuts > 10, "{kind:?}: {cuts} cuts");
    }
}

#[test]
fn a_sector_that_stays_bad_costs_what_touches_it_and_never_the_volume() {
    let (mut reopened, mut asked, mut refused) = (0, 0, 0);
    for seed in 0..10 {
        for kind in kinds() {
            println!("repeat with seed {seed}, {kind:?}");
            let mut random = SplitMix::new(seed);
            let mut rig = Rig::new(kind, seed);
            let block = random.below(SPAN_SECTORS / 8);
            let layout = rig.volume().volume().superblock().layout;
            let home = layout.home(block * 4096).unwrap().device_offset;
            rig.disk().bad.push(home..home + 512);
            for _ in 0..300 {
                rig.step(&mut random);
            }
            rig.write(block * 8, 8, true);
            rig.settle();
            rig.pass(Nanos::from_secs(2));
            rig.flush();
            rig.settle();
            reopened += rig.disk().starts_over;
            assert_eq!(rig.phase(), "serving", "{:?}", rig.told);
            rig.failed.clear();
            let mut touching = Vec::new();
            for _ in 0..100 {
                let start = random.below(SPAN_SECTORS - 8);
                let id = rig.write(start, 8, true);
                if start < (block + 1) * 8 && block * 8 < start + 8 {
                    touching.push(id);
                }
                rig.settle();
            }
            for (id, error) in &rig.failed {
                assert!(touching.contains(id), "{id} failed: {error:?}");
            }
            if kind.preset != "nolog" {
                asked += touching.len();
                refused += rig.failed.len();
            }
            assert_eq!((rig.phase(), rig.disk().starts_over <= 1), ("serving", true));
            rig.disk().mend();
            rig.pass(Nanos::from_secs(70));
            rig.cut(seed);
        }
    }
    assert!(reopened > 100, "{reopened} failures");
    // Only where the logs are full, too.
    assert!(asked > 40 && refused * 2 < asked, "of {asked} writes of it {refused} failed");
}

#[test]
fn a_disk_that_keeps_losing_writes_ends_it_after_a_few_times() {
    let mut rig = Rig::new(ONE, 1);
    rig.disk().stays_in_cache = true;
    for _ in 0..4 {
        rig.write(0, 8, true);
        rig.settle();
        rig.disk().syncs_left = Some(0);
        rig.write(0, 8, true);
        rig.settle();
        assert_eq!(rig.phase(), "serving");
    }
    rig.disk().syncs_left = Some(0);
    rig.write(0, 8, true);
    rig.settle();
    rig.flush();
    rig.settle();
    assert_eq!((rig.phase(), rig.disk().starts_over), ("failed", 4));
    assert!(matches!(rig.told.last(), Some(LossEvent::NotOpened { .. })), "{:?}", rig.told);
    rig.read(0, 8);
    rig.settle();
    assert_eq!(rig.failed.last().map(|failed| failed.1), Some(ErrorKind::Io));
    rig.cut(1);
}

#[test]
fn after_an_hour_it_may_happen_again() {
    let mut rig = Rig::new(ONE, 1);
    rig.disk().stays_in_cache = true;
    for _ in 0..10 {
        rig.disk().syncs_left = Some(0);
        rig.write(0, 8, true);
        rig.settle();
        assert_eq!(rig.phase(), "serving");
        rig.pass(Nanos::from_secs(1000));
    }
}

#[test]
fn a_volume_that_cannot_be_read_again_answers_everybody() {
    for settles in [false, true] {
        let mut rig = Rig::new(ONE, 3);
        for start in 0..40 {
            rig.write(start * 8, 8, false);
        }
        rig.settle();
        rig.disk().syncs_left = Some(0);
        if settles {
            rig.disk().reads_fail = true;
        }
        rig.flush();
        while !rig.volume().is_reopening() {
            rig.jump();
        }
        rig.disk().reads_fail = true;
        let late: Vec<u64> = (0..10).map(|start| rig.write(start * 8, 8, true)).collect();
        rig.settle();
        let told: Vec<u64> = rig.failed.iter().map(|(id, _)| *id).collect();
        assert!(late.iter().all(|id| told.contains(id)), "{:?}", rig.failed);
        assert!(rig.failed.iter().all(|(_, kind)| *kind == ErrorKind::Io), "{:?}", rig.failed);
        assert!(matches!(rig.told.last(), Some(LossEvent::NotOpened { .. })), "{:?}", rig.told);
        rig.write(0, 8, true);
        rig.settle();
        rig.cut(3);
    }
}

#[test]
fn a_stop_that_comes_meanwhile_waits_until_the_volume_is_open_and_ends() {
    let mut rig = Rig::new(ONE, 4);
    rig.write(0, 8, true);
    rig.settle();
    rig.disk().syncs_left = Some(0);
    rig.write(64, 8, true);
    while !rig.volume().is_reopening() {
        rig.jump();
    }
    let held = rig.write(128, 8, true);
    let now = rig.now;
    rig.volume().begin_shutdown(now);
    assert!(!rig.volume().is_shut_down());
    while !rig.volume().is_shut_down() {
        assert!(rig.jump(), "the stop never ends");
    }
    assert!(rig.unanswered.is_empty());
    assert!(rig.failed.iter().all(|(id, _)| *id != held), "{:?}", rig.failed);
    assert_eq!(rig.volume().volume().engine().failure(), None);
    rig.cut(4);
}

#[test]
fn a_loss_in_a_stop_fails_the_stop_and_answers_everybody() {
    let mut rig = Rig::new(ONE, 5);
    for start in 0..40 {
        rig.write(start * 8, 8, false);
    }
    let now = rig.now;
    rig.disk().syncs_left = Some(0);
    rig.volume().begin_shutdown(now);
    while !rig.volume().is_shut_down() {
        assert!(rig.jump(), "the stop never ends");
    }
    assert!(rig.unanswered.is_empty());
    assert!(rig.volume().volume().engine().failure().is_some(), "nobody was told");
    assert_eq!(rig.disk().starts_over, 0);
    rig.cut(5);
}

#[test]
fn while_the_disk_does_not_answer_what_it_has_nothing_is_opened() {
    let mut rig = Rig::new(ONE, 6);
    rig.write(0, 8, true);
    rig.settle();
    rig.disk().syncs_left = Some(0);
    rig.read(4096 / 8, 8);
    rig.write(64, 8, true);
    while !rig.volume().is_reopening() {
        rig.jump();
    }
    let waits = rig.write(0, 8, true);
    rig.disk().is_silent = true;
    rig.pass(Nanos::from_secs(5));
    assert!(rig.volume().is_reopening() && rig.unanswered.contains(&waits));
    rig.disk().is_silent = false;
    rig.settle();
    assert!(rig.failed.iter().all(|(id, _)| *id != waits), "{:?}", rig.failed);
    assert_eq!(rig.phase(), "serving");
}
