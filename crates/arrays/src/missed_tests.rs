//! What a member that comes back is copied: what it missed, if its label proves that that is known, and else everything; and
//! when the labels say what it misses.

use super::label::SLOT_BYTES;
use super::label_rig::*;
use super::missed::Missed;
use super::noted::{MemberLabel, Noted};
use super::script_rig::*;
use super::*;
use nearhead_models::{MemoryStore, plain_properties};
use std::cell::Cell;

const REGION: u64 = 64 << 10;
const REGIONS: u64 = 12;
const MEMBER: u64 = REGIONS * REGION;

/// A member of twelve regions, each one piece.
fn member() -> Scripted {
    with_cache(true)
}

fn with_cache(volatile_cache: bool) -> Scripted {
    let properties = Properties {
        volatile_cache,
        transfer_bytes_max: REGION as u32,
        ..plain_properties(MEMBER + LABEL_BYTES, 512)
    };
    Scripted::new(properties, Box::new(MemoryStore::new()), Box::new(|_, _| 10))
}

/// A mirror of two that was used twice and left in order.
fn used() -> Vec<Option<Scripted>> {
    let mut run = fresh("mirror:a,b", vec![member(), member()]);
    for version in 1..3 {
        run.wait(write(0, version)).unwrap();
        leave(&mut run);
        run = start(reopened("mirror:a,b", &mut run.disks()).unwrap());
    }
    run.disks()
}

/// A change at the beginning of a region.
fn write(region: u64, version: u32) -> Command {
    change(region * REGION / BLOCK, version)
}

fn leave(run: &mut Run<Scripted>) {
    run.mirror.leave();
    run.until(run.now + Nanos::from_secs(9));
    assert!(run.mirror.has_left());
}

/// The program is gone, and with it what was under way.
fn killed(run: Run<Scripted>) -> Vec<Option<Scripted>> {
    let mut disks = run.disks();
    disks.iter_mut().flatten().for_each(Scripted::forget);
    disks
}

/// Opens the mirror and lets it copy to the second member: the regions that it was given. Both are alike then.
fn copied(disks: Vec<Option<Scripted>>) -> Vec<u64> {
    let mut disks = disks;
    let before = disks[1].as_ref().unwrap().asked().len();
    let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
    run.until(Nanos::from_secs(9));
    assert_eq!((run.mirror.trouble(), run.mirror.members_left()), (None, 2));
    let asked = run.mirror.member(1).asked().split_off(before);
    let regions = asked.iter().filter_map(Asked::changes_at).map(|at| at / REGION).collect();
    let held: Vec<_> = run.disks().iter_mut().flatten().map(all_bytes).collect();
    assert!(held[0] == held[1], "both are alike");
    regions
}

fn all_bytes(one: &mut Scripted) -> Vec<u8> {
    let mut all = Vec::new();
    for region in 0..REGIONS {
        let mut bytes = vec![0; REGION as usize];
        let command = Command::Read { offset: region * REGION, len: REGION as u32 };
        run_one(&mut one.disk, command).unwrap().copy_to(&mut bytes);
        all.extend(bytes);
    }
    all
}

fn everything() -> Vec<u64> {
    (0..REGIONS).collect()
}

/// The second member is away while the first is used.
fn alone(disks: &mut [Option<Scripted>], regions: &[u64], in_order: bool) {
    let mut named = [disks[0].take(), None];
    let mut run = start(reopened("mirror:a,missing", &mut named).unwrap());
    for region in regions {
        run.wait(write(*region, 100 + *region as u32)).unwrap();
    }
    if in_order {
        leave(&mut run);
    }
    disks[0] = killed(run).remove(0);
}

#[test]
fn a_member_that_was_away_for_few_writes_is_copied_the_regions_of_these_and_nothing_else() {
    for in_order in [true, false] {
        let mut disks = used();
        alone(&mut disks, &[7, 2, 7], in_order);
        alone(&mut disks, &[], true);
        alone(&mut disks, &[11], in_order);
        assert_eq!(copied(disks), [2, 7, 11]);
    }
}

#[test]
fn a_member_that_fell_out_is_copied_what_was_not_flushed_by_then_and_what_changed_since() {
    for (has_cache, expected) in [(true, vec![3, 5, 6, 9]), (false, vec![5, 6, 9])] {
        assert_eq!(fallen_out(has_cache), expected, "a cache: {has_cache}");
    }
}

/// The regions that a member is copied which fell out and came back.
fn fallen_out(has_cache: bool) -> Vec<u64> {
    let mut run = fresh("mirror:a,b", vec![with_cache(false), with_cache(has_cache)]);
    let durable = |region: u64| {
        let Command::Write { offset, parts, .. } = write(region, 4) else { panic!("a write") };
        Command::Write { offset, parts, durable: true }
    };
    run.wait(write(1, 1)).unwrap();
    run.wait(Command::Flush).unwrap();
    run.wait(write(3, 1)).unwrap();
    run.wait(durable(4)).unwrap();
    run.mirror.member(1).fail(is_change, false);
    // Each is given to both, and one of them makes it.
    (5..7).for_each(|region| run.send(region, write(region, 2)));
    run.until(run.now + Nanos::from_secs(1));
    run.wait(durable(9)).unwrap();
    assert_eq!(run.mirror.members_left(), 1);
    leave(&mut run);
    let disks = killed(run);
    disks[1].as_ref().unwrap().heal();
    copied(disks)
}

/// Nobody else can say what the one that is away misses.
#[test]
fn a_change_fails_whose_region_no_label_tells_and_the_next_one_tells_of_both() {
    let mut disks = used();
    let away = disks[1].take();
    let mut run = start(reopened("mirror:a,missing", &mut disks).unwrap());
    run.wait(write(1, 5)).unwrap();
    let is_label =
        |command: &Command| matches!(command, Command::Write { offset, .. } if *offset >= MEMBER);
    run.mirror.member(0).fail(is_label, false);
    run.wait(write(4, 5)).unwrap_err();
    run.wait(write(1, 6)).unwrap_err();
    let before = run.mirror.member(0).asked().len();
    run.mirror.member(0).heal();
    run.wait(write(1, 7)).unwrap();
    run.wait(write(8, 5)).unwrap();
    let asked = run.mirror.member(0).asked();
    assert_told(&asked[before..]);
    let mut disks = killed(run);
    disks.push(away);
    assert_eq!(copied(disks), [1, 4, 8]);
}

#[test]
fn nobody_knows_what_a_member_missed_that_counted_when_the_mirror_was_not_left_in_order() {
    let mut run = fresh("mirror:a,b", vec![member(), member()]);
    run.wait(write(1, 1)).unwrap();
    let mut disks = killed(run);
    alone(&mut disks, &[2], true);
    assert_eq!(copied(disks), everything());
}

#[test]
fn a_member_that_goes_again_while_it_is_copied_to_is_copied_what_it_missed_of_both_times() {
    for stops_at_us in (0..400).step_by(10) {
        for in_order in [true, false] {
            let mut disks = used();
            alone(&mut disks, &[2, 5, 8], true);
            let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
            run.until(Nanos::from_micros(stops_at_us));
            run.send(1, write(6, 9));
            run.until(run.now + Nanos::from_micros(stops_at_us));
            if in_order {
                leave(&mut run);
            }
            let is_back = run.mirror.members_left() == 2;
            let mut disks = killed(run);
            alone(&mut disks, &[9], true);
            let regions = copied(disks);
            let missed = [2, 5, 6, 8, 9];
            let is_known = regions.iter().all(|region| missed.contains(region));
            assert!(is_known || is_back && !in_order, "{stops_at_us}, {in_order}: {regions:?}");
            assert!(regions.contains(&9));
        }
    }
}

#[test]
fn a_crash_while_a_member_is_copied_to_costs_no_copy_of_what_it_has() {
    for stops_at_us in (0..200).step_by(10) {
        let mut disks = used();
        alone(&mut disks, &[2, 5, 8], true);
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        run.send(1, write(3, 9));
        run.until(Nanos::from_micros(stops_at_us));
        let is_back = run.mirror.members_left() == 2;
        let regions = copied(killed(run));
        let is_known = regions.iter().all(|region| [2, 3, 5, 8].contains(region));
        assert!(is_known || is_back, "stopped at {stops_at_us} us: {regions:?}");
    }
}

/// One slot of a label, and where it lies.
fn slots(one: &mut Scripted) -> Vec<(u64, Vec<u8>)> {
    let slot = |number: u64| {
        let (offset, len) = (MEMBER + number * SLOT_BYTES, SLOT_BYTES as u32);
        let mut bytes = vec![0; len as usize];
        run_one(&mut one.disk, Command::Read { offset, len }).unwrap().copy_to(&mut bytes);
        (offset, bytes)
    };
    let mut slots: Vec<_> = (0..2).map(slot).collect();
    slots.sort_by_key(|(_, bytes)| Label::decode(bytes).unwrap().map(|label| label.sequence));
    slots
}

fn overwrite(one: &mut Scripted, offset: u64, bytes: &[u8]) {
    let parts =
        vec![nearhead_disk::Payload::Bytes(nearhead_disk::BufferMut::copy_of(bytes).freeze())];
    run_one(&mut one.disk, Command::Write { offset, parts, durable: true }).unwrap();
}

#[test]
fn all_is_copied_where_a_label_does_not_prove_what_was_missed() {
    type Tamper = fn(&mut Scripted);
    let nothing: Tamper = |_| ();
    let rotten_notes: Tamper = |one| {
        let (offset, mut newest) = slots(one).pop().unwrap();
        newest[900] ^= 1;
        overwrite(one, offset, &newest);
    };
    let rotten_beside: Tamper = |one| {
        let (offset, _) = slots(one).remove(0);
        overwrite(one, offset, &[0; SLOT_BYTES as usize]);
    };
    // A program that knows of no notes writes its labels with zeros in their place.
    let older_program: Tamper = |one| {
        let (offset, newest) = slots(one).pop().unwrap();
        let label = Label::decode(&newest).unwrap().unwrap();
        overwrite(one, offset, &label.encode());
    };
    // As it was before its last use with the other: a copy that somebody made then.
    let older_copy: Tamper = |one| {
        let (offset, newest) = slots(one).pop().unwrap();
        let label = Label::decode(&newest).unwrap().unwrap();
        let older = Label { generation: label.generation - 1, ..label };
        overwrite(one, offset, &older.encode());
        let (beside, _) = slots(one).remove(0);
        overwrite(one, beside, &Label { sequence: older.sequence - 1, ..older }.encode());
    };
    for (name, of, tamper, is_known) in [
        ("as it is", 0, nothing, true),
        ("rotten notes", 0, rotten_notes, false),
        ("a rotten slot", 0, rotten_beside, false),
        ("an older program", 0, older_program, false),
        ("a slot of the one that was away", 1, rotten_beside, true),
        ("an older copy", 1, older_copy, false),
    ] {
        let mut disks = used();
        alone(&mut disks, &[4], true);
        tamper(disks[of].as_mut().unwrap());
        let expected = if is_known { vec![4] } else { everything() };
        assert_eq!(copied(disks), expected, "{name}");
    }
}

#[test]
fn a_member_that_takes_the_place_of_another_is_copied_all_of_it() {
    let mut disks = used();
    alone(&mut disks, &[4], true);
    disks[1] = Some(member());
    let told = reopened("mirror:a,b", &mut disks).err().unwrap();
    assert!(told.contains("b: expected the label of an array member"), "{told}");
    let mut run = start(reopened("mirror:a,b?take=1", &mut disks).unwrap());
    run.until(Nanos::from_secs(9));
    assert_eq!(run.mirror.trouble(), None);
    let asked = run.mirror.member(1).asked();
    let regions: Vec<u64> = asked.iter().filter_map(Asked::changes_at).collect();
    assert_eq!(regions.len(), REGIONS as usize);
}

#[test]
fn a_mirror_tells_how_much_is_dirty_and_how_much_is_left() {
    let told = |run: &Run<Scripted>| {
        let all = run.mirror.resilvers();
        (all.len(), all[0].dirty_bytes, all[0].left_bytes)
    };
    let mut disks = used();
    let away = disks[1].take();
    let mut run = start(reopened("mirror:a,missing", &mut disks).unwrap());
    assert_eq!(told(&run), (1, 0, 0));
    for region in [3, 4, 8] {
        run.wait(write(region, 1)).unwrap();
    }
    assert_eq!(told(&run), (1, 3 * REGION, 0));
    let mut disks = killed(run);
    disks.push(away);
    let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
    assert_eq!(told(&run), (1, 0, 3 * REGION));
    let mut before = 3 * REGION;
    while before > 0 {
        run.until(run.now + Nanos::from_micros(1));
        let (_, dirty_bytes, left_bytes) = told(&run);
        assert!(dirty_bytes == 0 && left_bytes <= before && left_bytes % REGION == 0);
        before = left_bytes;
    }
    // Of one that fell out, and of one of which nothing is known.
    run.until(run.now + Nanos::from_secs(1));
    run.mirror.member(1).fail(is_change, false);
    run.wait(write(6, 5)).unwrap();
    assert_eq!(told(&run), (1, REGION, 0));
    let mut disks = fresh("mirror:a,b", vec![member(), member()]).disks();
    disks[1] = None;
    let run = start(reopened("mirror:a,missing", &mut disks).unwrap());
    assert_eq!(
        told(&run),
        (1, MEMBER, 0),
        "its label was written once: the other slot says nothing"
    );
}

/// The regions that a label says are set; none if the command is no label, or one without notes.
fn told_in(asked: &Asked) -> Option<Noted> {
    let Command::Write { parts, .. } = &asked.command else { return None };
    asked.label?;
    let mut slots = vec![0; LABEL_BYTES as usize];
    parts[0].copy_to(&mut slots[..SLOT_BYTES as usize]);
    MemberLabel::decode(&slots).ok()??.noted
}

/// Every change was sent when a label that says so was durable.
fn assert_told(asked: &[Asked]) {
    for change in asked.iter().filter(|asked| asked.class == Class::Foreground) {
        let Some(at) = change.changes_at() else { continue };
        let before = asked.iter().filter(|label| label.ends <= change.at);
        let last = before.filter_map(told_in).next_back().expect("it has a label");
        assert!(last.regions.has_all(&(at..at + BLOCK)), "{change:?}");
    }
}

#[test]
fn while_a_member_is_away_one_label_tells_of_all_changes_that_wait_and_comes_before_them() {
    let mut disks = used();
    let away = disks[1].take();
    let before = disks[0].as_ref().unwrap().asked().len();
    let mut run = start(reopened("mirror:a,missing", &mut disks).unwrap());
    let labels_of = |run: &Run<Scripted>| labels(&run.mirror.member(0).asked()[before..]).len();
    assert_eq!(labels_of(&run), 1, "of the opening");
    // The first one also says that the mirror is in use.
    let steps: [(&[u64], usize); 4] =
        [(&[1, 2], 1), (&[3, 4, 5, 6, 7], 2), (&[3, 4], 0), (&[8], 1)];
    let mut labels = 1;
    for (regions, at_most) in steps {
        for region in regions {
            run.send(*region, write(*region, 3));
        }
        assert_eq!(run.until(run.now + Nanos::from_secs(1)).len(), regions.len());
        let found = labels_of(&run);
        assert!((labels..=labels + at_most).contains(&found), "{regions:?}: {found} labels");
        labels = found;
    }
    assert_told(&run.mirror.member(0).asked()[before..]);
    leave(&mut run);
    let mut disks = killed(run);
    disks.push(away);
    assert_eq!(copied(disks), (1..9).collect::<Vec<_>>());
}

/// Also while the mirror learns that it fell out, and while it is copied to.
#[test]
fn changes_wait_for_the_label_of_their_region_from_the_moment_in_which_a_member_is_out() {
    for fails_at_us in (0..200).step_by(5) {
        let mut run = fresh("mirror:a,b", vec![member(), member()]);
        run.wait(write(0, 1)).unwrap();
        let out_at = Cell::new(None);
        for region in 1..REGIONS {
            if run.now >= Nanos::from_micros(fails_at_us) {
                run.mirror.member(1).fail(is_change, false);
            }
            run.send(region, write(region, 2));
            run.until(run.now + Nanos::from_micros(15));
            if run.mirror.members_left() == 1 && out_at.get().is_none() {
                out_at.set(Some(run.now));
            }
        }
        run.until(run.now + Nanos::from_secs(1));
        let Some(out_at) = out_at.get() else { continue };
        let mut asked = run.mirror.member(0).asked();
        // What was sent before is covered by the label that says that it fell out.
        asked.retain(|asked| asked.label.is_some() || asked.at > out_at);
        assert_told(&asked);
    }
}

/// How far it was copied to is said only of what it cannot lose.
#[test]
fn a_member_that_is_copied_to_is_flushed_before_an_orderly_stop_says_how_far() {
    for (stops_at_us, region) in (0..300).step_by(10).zip((0..REGIONS).cycle()) {
        let mut disks = used();
        alone(&mut disks, &[1, 2, 3, 4, 5, 6, 7, 8], true);
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        run.until(Nanos::from_micros(stops_at_us));
        run.wait(write(region, 7)).unwrap();
        leave(&mut run);
        let asked = run.mirror.member(1).asked();
        let (last, ..) = labels(&asked).pop().unwrap();
        let is_it = |asked: &&Asked| asked.changes_at() == Some(region * REGION);
        let changed = asked.iter().rfind(is_it).unwrap();
        let is_flush = |asked: &&Asked| matches!(asked.command, Command::Flush);
        let is_between = |asked: &Asked| asked.at >= changed.ends && asked.ends <= last.at;
        assert!(asked.iter().filter(is_flush).any(is_between), "stopped at {stops_at_us} us");
    }
}

/// A member that was copied to from one that is not here may hold what those that are here never had.
#[test]
fn what_a_member_missed_is_not_known_if_it_was_copied_to_by_others_meanwhile() {
    let mut since = [0; MEMBERS_MAX];
    since[1] = 2;
    let regions = Missed::nothing(WHOLE.member_bytes).regions().clone();
    let whole = Label { in_sync: 0b001, ..WHOLE };
    let whole = MemberLabel {
        label: whole,
        is_newest: true,
        noted: Some(Noted { own_since: 0, copy: 0, since, regions: regions.clone() }),
    };
    for (in_sync, own_since, is_known) in [
        (0b001, 2, true),
        (0b101, 2, true),
        (0b100, 2, false),
        (0b001, 1, false),
        (0b001, 0, false),
    ] {
        let label = Label { index: 1, in_sync, synced_bytes: 0, ..WHOLE };
        let (since, regions) = ([0; MEMBERS_MAX], regions.clone());
        let noted = Noted { own_since, copy: 0, since, regions };
        let copy = MemberLabel { label, is_newest: true, noted: Some(noted) };
        let missed = Missed::at_opening(WHOLE.member_bytes, &[whole.clone(), copy], None);
        assert_eq!(missed.covers(1), is_known, "{in_sync:b}, {own_since}");
    }
}
