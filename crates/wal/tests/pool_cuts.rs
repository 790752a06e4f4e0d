//! Cuts between every two operations of the segment pool, in two lives in a row, over every number
//! of free files and with or without a file that the control block does not count yet.
//!
//! Killed, not powered off: everything that was done stays. A third life fills every segment that
//! the pool hands out, and a fourth must find each acknowledged record.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

mod support;

use nearhead_wal::storage::Memory;
use nearhead_wal::{LogOptions, Tail, WalErrorKind};
use support::{Oracle, Step, created, live, open, open_checked, small};

use Step::{Append, Commit, KeepLast};

/// Segments of the first life before its truncation: leaves none to four free files.
const SEGMENTS_MAX: usize = 5;

/// Records that fill `segments` segments, two in each.
fn filled(segments: usize) -> Vec<Step> {
    (0..2 * segments).flat_map(|_| [Append(5000), Commit]).collect()
}

/// Steps of the first life: some segments, most of them given up, then two more.
fn first_life(segments: usize) -> Vec<Step> {
    let mut steps = filled(segments);
    steps.push(KeepLast(1));
    steps.extend(filled(2));
    steps
}

fn roomy() -> LogOptions {
    LogOptions { segments_max: 40, ..small(Tail::Rewritten) }
}

/// Opens `storage`, whose next `operations` succeed, and carries out `steps`. Returns whether they all did.
fn live_for(storage: &Memory, operations: u64, steps: &[Step], oracle: &mut Oracle) -> bool {
    storage.lose_power_at(storage.operations() + operations);
    let Ok((log, found, records)) = open(storage, &roomy()) else {
        assert!(storage.is_dead(), "it does not open");
        return false;
    };
    oracle.check(&found, &records).unwrap();
    live(storage, &roomy(), log, steps, oracle).is_ok() && !storage.is_dead()
}

/// Fills what the pool hands out, and looks for everything in another life.
fn go_on(storage: &Memory, oracle: &mut Oracle, context: &str) {
    for steps in [filled(4), filled(1)] {
        let log = open_checked(storage, &roomy(), oracle, context);
        live(storage, &roomy(), log, &steps, oracle).unwrap();
    }
    drop(open_checked(storage, &roomy(), oracle, context));
}

#[test]
fn two_cuts_anywhere_in_the_pool_lose_nothing_acknowledged() {
    let (mut images, mut firsts) = (0, 0);
    for segments in 1..=SEGMENTS_MAX {
        for first_cut in 0.. {
            let storage = created(&roomy());
            let mut oracle = Oracle::new();
            let ended = live_for(&storage, first_cut, &first_life(segments), &mut oracle);
            for second_cut in 0.. {
                let storage = storage.killed();
                let mut oracle = oracle.clone();
                let steps = [filled(2), vec![KeepLast(2)], filled(2)].concat();
                let all = live_for(&storage, second_cut, &steps, &mut oracle);
                let context = format!("{segments} segments, cuts {first_cut} and {second_cut}");
                go_on(&storage.killed(), &mut oracle, &context);
                images += 1;
                if all {
                    break;
                }
            }
            firsts += 1;
            if ended {
                break;
            }
        }
    }
    println!("{images} images after two cuts, {firsts} after one");
    assert!(images > 3_000, "{images}");
}

#[test]
fn an_attempt_at_a_segment_that_failed_is_completed_later() {
    let mut failures = 0;
    for segments in 1..=SEGMENTS_MAX {
        for failing in 0.. {
            let storage = created(&roomy());
            let mut oracle = Oracle::new();
            let log = open_checked(&storage, &roomy(), &mut oracle, "new");
            let steps = [filled(segments + 3), vec![KeepLast(6)]].concat();
            let log = live(&storage, &roomy(), log, &steps, &mut oracle).unwrap();
            let at = storage.operations() + failing;
            storage.fail_at(at, WalErrorKind::Io);
            // Whatever failed, the rest of the life goes on with it.
            let _ = log.prepare();
            if storage.operations() <= at {
                break;
            }
            failures += 1;
            let steps = [vec![KeepLast(0)], filled(3), vec![KeepLast(1)], filled(1)].concat();
            live(&storage, &roomy(), log, &steps, &mut oracle).unwrap();
            let context = format!("{segments} segments, operation {failing} failed");
            go_on(&storage.killed(), &mut oracle, &context);
        }
    }
    assert!(failures >= 20, "{failures}");
}
