//! What labels mean together, case by case: who counts, who is copied to from where, what the next labels say, and
//! which words refuse the rest.

use super::label_rig::WHOLE;
use super::plan::{Found, Plan, plan};
use super::*;

fn planned(text: &str, labels: &[Option<Label>]) -> Result<Plan, String> {
    let spec = ArraySpec::parse(text).unwrap();
    let found: Vec<_> =
        labels.iter().map(|label| label.map_or(Found::Missing, Found::Labelled)).collect();
    plan(&spec, &found).map(Option::unwrap)
}

#[test]
fn labels_that_are_written_are_newer_than_all_that_there_were() {
    let second = Label { index: 1, sequence: 9, ..WHOLE };
    let third = Label { index: 2, sequence: 2, ..WHOLE };
    let plan = planned("mirror:c,a,b", &[Some(third), Some(WHOLE), Some(second)]).unwrap();
    let expected = |(place, index): (usize, u16)| {
        (place, Label { index, sequence: 10, generation: 4, ..WHOLE })
    };
    assert_eq!(plan.members, [(1, 0), (2, 1), (0, 2)].map(expected), "in the order of labels");
    assert!(!plan.unsure && plan.notes.is_empty());
}

#[test]
fn only_who_was_there_to_the_end_goes_on_where_its_copy_was() {
    let one = Label { in_sync: 0b001, ..WHOLE };
    for (generation, in_use, resumes_at) in
        [(3, false, 8192), (2, false, 0), (3, true, 0), (2, true, 0)]
    {
        let behind = Label { index: 1, generation, synced_bytes: 8192, ..one };
        let whole = Label { in_use, ..one };
        let plan = planned("mirror:a,b,missing", &[Some(whole), Some(behind), None]).unwrap();
        let (_, planned) = plan.members[1];
        assert_eq!(planned.synced_bytes, resumes_at, "generation {generation}, in use: {in_use}");
        assert_eq!((planned.generation, planned.in_sync), (4, 0b001));
        assert!(plan.notes[0].starts_with("b was away"), "{:?}", plan.notes);
    }
}

#[test]
fn a_copy_of_a_member_that_is_not_here_is_begun_anew() {
    let whole = Label { in_sync: 0b001, ..WHOLE };
    let copy = Label { index: 1, in_sync: 0b100, synced_bytes: 8192, ..WHOLE };
    let plan = planned("mirror:a,b,missing", &[Some(whole), Some(copy), None]).unwrap();
    assert_eq!(plan.members[1].1.synced_bytes, 0);
}

/// Or changes would be made without a mark: the labels of those that count do not have it.
#[test]
fn a_mirror_is_in_use_only_if_one_that_has_everything_says_so() {
    for (whole_is, away_was) in [(false, true), (true, false)] {
        let whole = Label { in_use: whole_is, in_sync: 0b001, ..WHOLE };
        let away = Label { index: 1, generation: 2, in_use: away_was, ..WHOLE };
        let plan = planned("mirror:a,b,missing", &[Some(whole), Some(away), None]).unwrap();
        assert!(plan.members.iter().all(|(_, label)| label.in_use == whole_is));
    }
}

#[test]
fn who_is_taken_counts_alone_and_all_others_become_copies_of_it() {
    let stranger = Label { array_id: [9; 16], index: 2, sequence: 40, generation: 30, ..WHOLE };
    let chosen = Label { index: 2, in_use: true, synced_bytes: 0, in_sync: 0b011, ..WHOLE };
    let found = [Some(stranger), Some(chosen), None];
    let plan = planned("mirror:a,b,missing?take=2", &found).unwrap();
    let new = Label { generation: 31, sequence: 41, in_sync: 0b100, taken: 2, ..chosen };
    let copy = Label { index: 0, synced_bytes: 0, ..new };
    let taken = Label { index: 2, synced_bytes: 1 << 20, ..new };
    assert_eq!(plan.members, [(0, copy), (1, taken)]);
    assert_eq!((plan.unsure, plan.notes), (false, vec!["a becomes a copy of b".to_owned()]));
}

#[test]
fn labels_that_make_no_array_are_refused_with_what_to_do() {
    let stripe = |index: u16| Label { chunk_bytes: 64 << 10, index, ..WHOLE };
    let other = Label { array_id: [2; 16], index: 1, ..WHOLE };
    let third = Label { index: 2, ..WHOLE };
    let behind = |index: u16| Label { index, in_sync: 0b100, ..WHOLE };
    let take = "; name the member that belongs here, or add `?take=N`";
    for (text, found, expected) in [
        ("mirror:a,b,c", [Some(WHOLE), Some(other), Some(third)], take),
        ("mirror:a,b,c", [Some(WHOLE), None, None], ""),
        ("raid0:a,b,c", [Some(stripe(0)), None, Some(stripe(2))], "a stripe needs all"),
        ("raid0:a,b,c", [Some(stripe(0)), Some(stripe(1)), Some(stripe(2))], ""),
        (
            "mirror:a,b,c?take=1",
            [Some(stripe(0)), None, None],
            "expected a member of a mirror of 3",
        ),
        ("mirror:a,b?take=1", [Some(WHOLE), Some(third), None], "mirror of 2, found one of 3"),
        ("mirror:a,b,c?take=3", [Some(behind(0)), None, None], "?take=3: expected the number"),
        (
            "mirror:a,b,c",
            [Some(behind(0)), Some(behind(1)), None],
            "name the others too, or add `?take=N`",
        ),
    ] {
        let count = text.split(',').count();
        let told = planned(text, &found[..count]).err().unwrap_or_default();
        let fits = if expected.is_empty() { told.is_empty() } else { told.contains(expected) };
        assert!(fits, "{text}: {told}");
    }
    let two = [Some(Label { array_id: [2; 16], ..stripe(0) }), Some(stripe(1)), Some(stripe(2))];
    let told = planned("raid0:a,b,c", &two).unwrap_err();
    assert!(told.ends_with("name the member that belongs here"), "{told}");
}

/// A service is started again with the text that it was started with, long after the members went on.
#[test]
fn a_take_that_was_carried_out_never_acts_again() {
    let text = "mirror:a,b,c?take=1";
    let third = Label { index: 2, ..WHOLE };
    let second = Label { index: 1, ..WHOLE };
    let done = planned(text, &[Some(WHOLE), Some(second), Some(third)]).unwrap();
    assert!(!done.is_taken && done.notes[0].contains("has nothing to do"), "{:?}", done.notes);
    assert!(done.members.iter().all(|(_, label)| label.taken == 1 && label.generation == 4));
    // Then the first one fails, and the others go on without it.
    let first = done.members[0].1;
    let newer = |index| Label { index, generation: 5, in_sync: 0b110, ..first };
    let later = planned(text, &[Some(first), Some(newer(1)), Some(newer(2))]).unwrap();
    let (_, copied) = later.members[0];
    assert_eq!((copied.index, copied.synced_bytes, copied.in_sync), (0, 0, 0b110));
    // And a new disk in the place of another, or members each used alone, are another decision.
    let alone = Label { generation: 5, in_sync: 0b001, ..first };
    let apart = [Some(alone), Some(newer(1)), Some(newer(2))];
    let told = planned(text, &apart).unwrap_err();
    assert!(told.contains("write `?take=1@5`"), "{told}");
    assert!(planned("mirror:a,b,c?take=1@5", &apart).unwrap().is_taken);
    assert!(planned("mirror:a,b,c?take=1@4", &apart).is_err());
    assert!(planned("mirror:a,b,c?take=2", &apart).unwrap().is_taken);
}

#[test]
fn a_newcomer_never_lets_an_older_member_be_taken() {
    let spec = ArraySpec::parse("mirror:a,b,c?take=1").unwrap();
    let newer = Label { index: 1, generation: 5, in_sync: 0b010, ..WHOLE };
    let found = [Found::Labelled(WHOLE), Found::Labelled(newer), Found::Unlabelled];
    let told = plan(&spec, &found).unwrap_err();
    assert!(told.contains("b is newer than the member it names"), "{told}");
    let spec = ArraySpec { kind: ArraySpec::parse("mirror:a,b?take=2").unwrap().kind, ..spec };
    assert!(plan(&spec, &found).unwrap().unwrap().is_taken);
}
