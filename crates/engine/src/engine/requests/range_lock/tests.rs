//! The locks against a plain list of owners in the order of arrival.

use super::RangeLocks;
use proptest::prelude::*;
use std::ops::Range;

/// An owner in the list. It may go on once nobody before it in the list overlaps it.
struct Listed {
    name: u64,
    ranges: Vec<Range<u64>>,
    granted: bool,
    cancelled: bool,
}

fn overlap(left: &[Range<u64>], right: &[Range<u64>]) -> bool {
    left.iter().any(|a| right.iter().any(|b| a.start.max(b.start) < a.end.min(b.end)))
}

/// Lets everybody in the list go on who may; returns the names that were granted, in order.
fn settle(list: &mut Vec<Listed>) -> Vec<u64> {
    let mut names = Vec::new();
    let mut at = 0;
    while at < list.len() {
        let (before, rest) = list.split_at_mut(at);
        let owner = &mut rest[0];
        if before.iter().any(|earlier| overlap(&earlier.ranges, &owner.ranges)) {
            at += 1;
        } else if owner.cancelled {
            list.remove(at);
        } else {
            if !owner.granted {
                owner.granted = true;
                names.push(owner.name);
            }
            at += 1;
        }
    }
    names
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(Vec<Range<u64>>),
    /// Release one of those that are there; mostly holders.
    Release {
        which: usize,
        also_waiting: bool,
    },
}

fn range() -> impl Strategy<Value = Range<u64>> {
    let len =
        prop_oneof![8 => 0..20_u64, 2 => 0..700_u64, 1 => 0..20_000_u64, 1 => Just(u64::MAX / 2)];
    let start = prop_oneof![6 => 0..300_u64, 2 => 0..20_000_u64];
    (start, len).prop_map(|(start, len)| start..start + len)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => prop::collection::vec(range(), 1..2).prop_map(Step::Acquire),
        1 => prop::collection::vec(range(), 0..5).prop_map(Step::Acquire),
        5 => (any::<prop::sample::Index>(), prop::bool::weighted(0.1)).prop_map(
            |(which, also_waiting)| Step::Release { which: which.index(1 << 20), also_waiting }
        ),
    ]
}

fn run(steps: Vec<Step>) {
    let (mut locks, mut list) = (RangeLocks::new(), Vec::<Listed>::new());
    let mut granted = Vec::new();
    for (name, step) in (0..).zip(steps) {
        match step {
            Step::Acquire(ranges) => {
                let now = locks.acquire(name, &ranges);
                list.push(Listed { name, ranges, granted: false, cancelled: false });
                let names = settle(&mut list);
                assert_eq!(now, names == [name], "owner {name} granted on arrival");
            }
            Step::Release { which, also_waiting } => release(
                &mut locks,
                &mut list,
                |owner| owner.granted || also_waiting,
                which,
                &mut granted,
            ),
        }
        let live = list.iter().filter(|owner| !owner.cancelled);
        assert_eq!(locks.len(), live.clone().count());
        assert_eq!(locks.waiting(), live.filter(|owner| !owner.granted).count());
    }
    // Everybody gets a turn.
    while list.iter().any(|owner| !owner.cancelled) {
        release(&mut locks, &mut list, |owner| owner.granted, 0, &mut granted);
    }
    assert!(list.is_empty() && locks.is_empty() && locks.waiting() == 0);
    assert!(locks.large.is_empty() && locks.cells.is_empty(), "nothing is left behind");
    assert_eq!(locks.free.len(), locks.slots.len());
}

fn release(
    locks: &mut RangeLocks,
    list: &mut Vec<Listed>,
    eligible: impl Fn(&Listed) -> bool,
    which: usize,
    granted: &mut Vec<u64>,
) {
    let names: Vec<_> = list
        .iter()
        .filter(|owner| !owner.cancelled && eligible(owner))
        .map(|owner| owner.name)
        .collect();
    let Some(name) = names.get(which % names.len().max(1)) else { return };
    let at = list.iter().position(|owner| owner.name == *name).unwrap();
    list[at].cancelled = true;
    if list[at].granted {
        list.remove(at);
    }
    granted.clear();
    locks.release(*name, granted);
    assert_eq!(*granted, settle(list), "granted by the release of {name}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_locks_agree_with_a_list_in_order_of_arrival(steps in prop::collection::vec(step(), 1..120)) {
        run(steps);
    }
}

#[test]
fn a_hundred_thousand_waiters_for_one_block_are_served_in_order() {
    let mut locks = RangeLocks::new();
    let count = 100_000;
    for name in 0..count {
        assert_eq!(locks.acquire(name, &[Range { start: 8, end: 16 }]), name == 0);
    }
    let mut granted = Vec::new();
    for name in 0..count {
        locks.release(name, &mut granted);
        assert_eq!(granted.pop(), (name + 1 < count).then_some(name + 1));
    }
}

#[test]
fn a_wide_owner_waits_for_all_inside_it_and_holds_all_back() {
    let mut locks = RangeLocks::new();
    for name in 0..1000 {
        let start = name * 16;
        assert!(locks.acquire(name, &[Range { start, end: start + 8 }]));
    }
    assert!(!locks.acquire(5000, &[Range { start: 0, end: 1 << 40 }]));
    assert!(!locks.acquire(5001, &[Range { start: 24, end: 32 }]), "behind the wide one");
    assert!(locks.acquire(5002, &[Range { start: 1 << 40, end: (1 << 40) + 8 }]));
    let mut granted = Vec::new();
    for name in 0..1000 {
        assert!(granted.is_empty());
        locks.release(name, &mut granted);
    }
    assert_eq!(granted, [5000]);
    locks.release(5000, &mut granted);
    assert_eq!(granted, [5000, 5001]);
}

#[test]
#[should_panic(expected = "owner 3 holds or waits for ranges already")]
fn asking_twice_is_loud() {
    let mut locks = RangeLocks::new();
    locks.acquire(3, &[]);
    locks.acquire(3, &[]);
}
