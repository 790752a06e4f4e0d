//! How many findings of a recovery are kept for people.

use super::{DAMAGE_NOTES_MAX, RecoveredState};

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
