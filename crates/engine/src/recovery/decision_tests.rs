//! Small decisions of a recovery: which claim says where a log begins, and how many findings are kept.

use super::scan::ScanContext;
use super::{DAMAGE_NOTES_MAX, RecoveredState, Recovery, Terms};
use nearhead_format::record::Claim;
use nearhead_format::{Layout, LayoutOptions, Preset};

fn recovery() -> Recovery {
    let layout = Layout::plan(1 << 30, &LayoutOptions::new(Preset::Mlb)).unwrap();
    Recovery::new(ScanContext { layout, volume_id: [7; 16], floor_sequence: 0 }, Terms::default())
}

#[test]
fn the_claim_of_the_earliest_record_says_where_a_log_begins() {
    let claim = |position| Claim { log_index: 3, position, generation: 1 };
    let mut recovery = recovery();
    let mut follow = |position, sequence| {
        recovery.follow(claim(position), sequence);
        recovery.to_scan.drain(..).map(|claim| claim.position).collect::<Vec<_>>()
    };
    assert_eq!(follow(40, 20), [40], "met for the first time");
    assert_eq!(follow(50, 30), [], "a later record knows less");
    assert_eq!(follow(60, 20), [], "so does another one that is not earlier");
    assert_eq!(follow(10, 9), [10], "an earlier one knows where it really began");
    assert_eq!(follow(10, 8), [], "the same place is not scanned twice");
    assert_eq!(follow(5, 8), [], "the record of that sequence is known");
    assert_eq!(follow(4, 7), [4]);
}

#[test]
fn findings_past_a_bound_are_left_out_and_that_is_said_once() {
    let mut state = RecoveredState::default();
    for number in 0..DAMAGE_NOTES_MAX + 10 {
        state.note(number.to_string());
    }
    let (last, kept) = state.damage.split_last().unwrap();
    assert!(
        kept.iter().map(String::as_str).eq((0..DAMAGE_NOTES_MAX)
            .map(|number| number.to_string())
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str))
    );
    assert_eq!(last, "more findings were left out");
}

/// A chunk that cannot be read is found by each checkpoint, and must not crowd out what else is wrong.
#[test]
fn what_is_found_again_and_again_is_told_once() {
    let mut state = RecoveredState::default();
    for _ in 0..2 * DAMAGE_NOTES_MAX {
        state.note("a chunk".to_owned());
    }
    state.note("another".to_owned());
    assert_eq!(state.damage, ["a chunk", "another"]);
}
