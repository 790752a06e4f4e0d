//! The model can fail: without any one of the engine's conditions it finds a way to break a law, and
//! with all of them it finds none in the same bounds.

use nearhead_protocol_model::{Bounds, Mistake, Protocol, explore, shortest_counterexample};

/// States generated before a search counts as vain; the longest needs about 200,000.
const STATES_MAX: usize = 4_000_000;
const OLDER: &str = "nothing older comes back";
const REFUSED: &str = "a crash alone is no reason to refuse";
const RISEN: &str = "what a recovery did not find stays gone";
const OVERWRITTEN: &str = "no live slot is overwritten";
const MIXED: &str = "no bytes come over what is newer";

fn law_broken_by(mistake: Mistake) -> &'static str {
    match mistake {
        Mistake::ReuseLiveSlot => OVERWRITTEN,
        Mistake::KeepBehindGap => RISEN,
        Mistake::InPlaceUnderFragment
        | Mistake::InPlaceUnderFragmentOfLog
        | Mistake::SpillUnderFragment
        | Mistake::EndBeforeSettled => MIXED,
        Mistake::ReuseProtectedSlot
        | Mistake::FreeBeforeSnapshotIsDurable
        | Mistake::UseBeforeClaim
        | Mistake::ForgetClaimedPosition => REFUSED,
        _ => OLDER,
    }
}

#[test]
fn a_small_model_without_a_mistake_keeps_every_law() {
    let bounds = Bounds { records: 3, snapshots: 1, crashes: 1, ..Bounds::DEEP };
    let explored = explore(Protocol { bounds, mistake: None }, 200_000);
    println!("{} states, {} events deep", explored.states_unique, explored.depth);
    assert_eq!(explored.counterexample, None, "repeat with: cargo xtask protocol");
    assert!(explored.states_unique > 30_000, "found only {}", explored.states_unique);
}

#[test]
fn bytes_beside_whole_blocks_keep_every_law_whatever_goes_in_place_or_home() {
    let bounds = Bounds { records: 2, snapshots: 0, ..Bounds::FRAGMENTS };
    let explored = explore(Protocol { bounds, mistake: None }, 1_000_000);
    println!("{} states, {} events deep", explored.states_unique, explored.depth);
    assert_eq!(explored.counterexample, None, "repeat with: cargo xtask protocol");
    assert!(explored.complete && explored.states_unique > 80_000, "{}", explored.states_unique);
}

#[test]
fn two_records_of_writes_in_flight_keep_every_law_if_what_is_behind_a_gap_never_counts() {
    let explored = explore(Protocol { bounds: Bounds::SIDE_BY_SIDE, mistake: None }, 4_000_000);
    println!("{} states, {} events deep", explored.states_unique, explored.depth);
    assert_eq!(explored.counterexample, None, "repeat with: cargo xtask protocol");
    assert!(explored.complete && explored.states_unique > 40_000, "{}", explored.states_unique);
}

#[test]
fn each_condition_is_needed() {
    for mistake in Mistake::ALL {
        let found = shortest_counterexample(mistake.bounds(), mistake, STATES_MAX);
        let Some((law, trace)) = found else {
            panic!("{mistake:?} breaks nothing; repeat with: cargo xtask protocol mistakes");
        };
        println!("{mistake:?} breaks \"{law}\" in {} events:", trace.len());
        for (number, action) in trace.iter().enumerate() {
            println!("  {:>2}. {action:?}", number + 1);
        }
        assert_eq!(law, law_broken_by(mistake), "{mistake:?}");
    }
}
