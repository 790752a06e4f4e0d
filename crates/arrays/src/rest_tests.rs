//! Laws of members that rest: they are asked nothing, nothing is lost by it, and they are awake before anybody writes.

use super::label_rig::*;
use super::script_rig::*;
use super::*;
use nearhead_disk::{CommandId, WokenBy};

const AFTER: Nanos = Nanos::from_secs(10);

fn filled(text: &str, members: usize) -> Run<Scripted> {
    let disks = (0..members).map(|_| Scripted::small(|_, _| 10)).collect();
    let mut run = fresh(text, disks);
    (0..BLOCKS).for_each(|block| run.write(block, block as u32 + 1));
    run
}

fn read_as(run: &mut Run<Scripted>, class: Class, at: u64) {
    let command = Command::Read { offset: at * BLOCK, len: BLOCK as u32 };
    run.mirror.submit(Submission { ticket: Ticket::new(CommandId(at)), class, command }, run.now);
    assert_eq!(run.until(run.now + Nanos::from_millis(1)).len(), 1);
}

/// How many commands each member was asked from here on.
fn asked_since(run: &Run<Scripted>, before: &[usize]) -> Vec<usize> {
    let count =
        |(member, before): (usize, &usize)| run.mirror.member(member).asked().len() - before;
    before.iter().enumerate().map(count).collect()
}

fn asked(run: &Run<Scripted>, members: usize) -> Vec<usize> {
    (0..members).map(|member| run.mirror.member(member).asked().len()).collect()
}

fn woken(run: &Run<Scripted>) -> Vec<u64> {
    run.mirror.sides(run.now).iter().map(|side| side.woken.total()).collect()
}

fn resting(run: &Run<Scripted>) -> Vec<bool> {
    run.mirror.sides(run.now).iter().map(|side| side.resting_for.is_some()).collect()
}

const CLASSES: [Class; 4] = [Class::Durable, Class::Foreground, Class::Bulk, Class::Background];

#[test]
fn once_nothing_was_written_for_long_one_member_serves_all_reads_and_no_other_is_asked_anything() {
    for (text, members) in [("mirror:a,b", 2), ("mirror:a,b,c", 3)] {
        let mut run = filled(text, members);
        run.mirror.let_rest(Some(AFTER));
        let before = asked(&run, members);
        run.until(run.now + AFTER);
        for step in 0..BLOCKS {
            read_as(&mut run, CLASSES[step as usize % 4], step);
        }
        let mut expected = vec![0; members];
        expected[0] = BLOCKS as usize;
        assert_eq!(asked_since(&run, &before), expected);
        assert_eq!(resting(&run), [&[false], &vec![true; members - 1][..]].concat());
        let idle = run.mirror.sides(run.now)[1].idle;
        assert!(idle >= AFTER, "{idle:?}");
    }
}

#[test]
fn without_leave_nothing_rests_and_nothing_is_told() {
    let mut run = filled("mirror:a,b", 2);
    run.until(run.now + Nanos::from_secs(1000));
    let before = asked(&run, 2);
    (0..8).for_each(|step| read_as(&mut run, Class::Background, step));
    assert_eq!((asked_since(&run, &before), run.mirror.sides(run.now)), (vec![0, 8], Vec::new()));
    run.mirror.expect_writes(run.now);
    run.until(run.now + Nanos::from_secs(1));
    assert_eq!(asked_since(&run, &before), [0, 8], "nobody is woken");
}

#[test]
fn a_write_wakes_all_members_once_and_reads_are_spread_again_until_they_rest() {
    let mut run = filled("mirror:a,b", 2);
    run.mirror.let_rest(Some(AFTER));
    run.until(run.now + AFTER);
    assert_eq!((resting(&run), woken(&run)), (vec![true; 2], vec![0, 0]));
    (0..3).for_each(|at| run.write(at, at as u32 + 1));
    assert_eq!((resting(&run), woken(&run)), (vec![false; 2], vec![1, 1]));
    let before = asked(&run, 2);
    (0..8).for_each(|step| read_as(&mut run, Class::Background, step));
    assert_eq!(asked_since(&run, &before), [0, 8], "cleaning has its side again");
    run.until(run.now + AFTER);
    read_as(&mut run, Class::Background, 3);
    assert_eq!((asked_since(&run, &before), woken(&run)), (vec![1, 8], vec![2, 1]));
}

#[test]
fn what_rests_is_woken_before_the_writes_that_are_expected_and_kept_awake_until_they_come() {
    let mut run = filled("mirror:a,b", 2);
    run.mirror.let_rest(Some(AFTER));
    run.until(run.now + AFTER);
    read_as(&mut run, Class::Foreground, 0);
    let before = asked(&run, 2);
    for _ in 0..300 {
        run.mirror.expect_writes(run.now);
        assert!(run.until(run.now + Nanos::from_millis(100)).is_empty(), "nobody asked");
    }
    let reads = |member: usize| run.mirror.member(member).asked().split_off(before[member]);
    for asked in [reads(0), reads(1)] {
        assert!((20..=30).contains(&asked.len()), "about one a second: {}", asked.len());
        assert!(asked.windows(2).all(|pair| pair[1].at.since(pair[0].ends) < Nanos::from_secs(2)));
        assert!(asked.iter().all(|asked| asked.reads_at().is_some()));
    }
    assert_eq!(reads(1)[0].at, run.now - Nanos::from_secs(30), "the one that rested, at once");
    assert_eq!(woken(&run), [1, 1]);
    run.write(1, 2);
    assert_eq!(woken(&run), [1, 1], "the write found it awake");
}

#[test]
fn a_member_that_rests_stands_in_for_one_that_fails() {
    for is_gone in [false, true] {
        let mut run = filled("mirror:a,b", 2);
        run.mirror.let_rest(Some(AFTER));
        run.until(run.now + AFTER);
        run.mirror.member(0).fail(is_read, is_gone);
        for at in 0..BLOCKS {
            assert_eq!(run.read(at), at as u32 + 1);
        }
        assert_eq!(run.mirror.members_left(), if is_gone { 1 } else { 2 });
        assert_eq!(woken(&run).last(), Some(&1));
    }
}

#[test]
fn members_of_mirrors_in_a_stripe_rest_too() {
    let pair = || {
        let disks = vec![Scripted::small(|_, _| 10), Scripted::small(|_, _| 10)];
        Mirror::new(disks, ReadPolicy::First).unwrap()
    };
    let mut stripe = Stripe::new(vec![pair(), pair()], 4096).unwrap();
    stripe.let_rest(Some(AFTER));
    assert_eq!(stripe.sides(Nanos::ZERO).len(), 4);
    assert!(stripe.sides(AFTER).iter().all(|side| side.resting_for.is_some()));
    stripe.expect_writes(AFTER);
    assert!(
        stripe
            .sides(AFTER)
            .iter()
            .all(|side| side.woken.by(WokenBy::Ahead) == 1 && side.resting_for.is_none())
    );
}

#[test]
fn how_long_a_member_rested_and_what_woke_it_is_told() {
    let mut run = filled("mirror:a,b", 2);
    run.mirror.let_rest(Some(AFTER));
    let rested = |run: &Run<Scripted>| run.mirror.sides(run.now).remove(1);
    run.until(run.now + AFTER + Nanos::from_secs(5));
    let side = rested(&run);
    assert_eq!((side.rested, side.resting_for), (Nanos::from_secs(5), Some(side.rested)));
    // The first one serves reads, and the other is woken by what changes.
    read_as(&mut run, Class::Background, 0);
    run.write(1, 2);
    run.until(run.now + AFTER + Nanos::from_secs(3));
    assert!(rested(&run).rested >= Nanos::from_secs(8), "{:?}", rested(&run));
    run.mirror.expect_writes(run.now);
    run.until(run.now + Nanos::from_secs(1));
    let woken = |side: usize| WokenBy::ALL.map(|by| run.mirror.sides(run.now)[side].woken.by(by));
    assert_eq!((woken(0), woken(1)), ([0, 0, 1, 0, 1], [0, 1, 0, 0, 1]));
    assert_eq!(rested(&run).resting_for, None);
}
