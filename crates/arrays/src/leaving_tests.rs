//! A mirror that was not left in order: its members are made alike again, and until then nothing that was
//! acknowledged depends on that.

use super::label_rig::*;
use super::plan::{Found, plan};
use super::*;

/// Whether the mirror takes its members for different.
fn is_unsure<D: Disk>(run: &Run<D>) -> bool {
    run.mirror.trouble().is_some_and(|trouble| trouble.contains("was not left in order"))
}

fn leave<D: Disk>(run: &mut Run<D>) {
    run.mirror.leave();
    run.until(run.now + Nanos::from_secs(1));
    assert!(run.mirror.has_left());
}

#[test]
fn members_that_differ_after_a_power_cut_are_alike_again_as_the_first_one_was_read() {
    let mut differed = 0;
    for seed in 0..200 {
        let mut random = SplitMix::new(seed);
        let mut run = start(made([10 + random.below(500), 10 + random.below(500)]));
        for at in 0..BLOCKS {
            run.send(at, change(at, seed as u32 + 1));
        }
        run.until(Nanos::from_micros(random.below(1500)));
        let mut disks = cut(run, &mut random);
        let before = held(&mut disks);
        differed += usize::from(before[0] != before[1]);
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        assert!(is_unsure(&run) || before[0] == before[1], "seed {seed}: {before:?}");
        let read: Vec<u32> = (0..BLOCKS).map(|at| run.read(at)).collect();
        run.until(run.now + Nanos::from_secs(1));
        assert_eq!(run.mirror.trouble(), None, "seed {seed}");
        let after = held(&mut run.disks());
        assert!(after == [read.clone(), read], "seed {seed}: {after:?}");
    }
    assert!(differed > 20, "of 200 cuts only {differed} left different members");
}

#[test]
fn a_mirror_that_was_left_in_order_is_taken_as_it_is() {
    let mut run = start(made([10, 300]));
    (0..BLOCKS).for_each(|at| run.send(at, change(at, 7)));
    leave(&mut run);
    let mut disks = cut(run, &mut SplitMix::new(1));
    assert_eq!(held(&mut disks), [[7; BLOCKS as usize]; 2], "all of it is durable");
    let run = start(reopened("mirror:a,b", &mut disks).unwrap());
    assert_eq!(run.mirror.trouble(), None);
    // In use again with the first change, not before.
    let mut run = start(reopened("mirror:a,b", &mut run.disks()).unwrap());
    assert_eq!(run.mirror.trouble(), None);
    run.write(1, 8);
    let mut run = start(reopened("mirror:a,b", &mut run.disks()).unwrap());
    assert!(is_unsure(&run));
    // Nor is one left in order whose members are not alike yet.
    run.mirror.leave();
    assert!(run.mirror.has_left());
    assert!(is_unsure(&start(reopened("mirror:a,b", &mut run.disks()).unwrap())));
}

#[test]
fn a_stripe_of_mirrors_is_left_when_each_of_them_has_put_down_that_its_members_are_alike() {
    let mut stripe = Stripe::new(vec![made([10, 300]), made([200, 10])], 4096).unwrap();
    for at in 0..8 {
        run_one(&mut stripe, change(at, 7)).unwrap();
    }
    stripe.leave();
    assert!(!stripe.has_left());
    while let Some(at) = stripe.wake_at().filter(|_| !stripe.has_left()) {
        assert!(stripe.poll(at).is_none());
    }
    assert!(stripe.has_left());
    for mirror in stripe.into_disks() {
        let mut disks: Vec<_> = mirror.into_disks().into_iter().map(Some).collect();
        assert!(!is_unsure(&start(reopened("mirror:a,b", &mut disks).unwrap())));
    }
}

/// The power goes at any time while the mirror is being left, and while a change comes after that.
#[test]
fn whenever_the_power_goes_members_that_differ_are_known_to() {
    let (mut differed, mut sure) = (0, 0);
    for seed in 0..1200 {
        let mut random = SplitMix::new(seed);
        let latencies = [10 + random.below(300), 10 + random.below(300)];
        let mut run = start(made(latencies));
        run.send(1, change(1, 1));
        run.until(Nanos::from_micros(random.below(200)));
        run.mirror.leave();
        run.until(run.now + Nanos::from_micros(random.below(2000)));
        if random.coin() {
            run.send(2, change(2, 2));
            run.until(run.now + Nanos::from_micros(random.below(2000)));
        }
        let mut disks = cut(run, &mut random);
        let before = held(&mut disks);
        let run = start(reopened("mirror:a,b", &mut disks).unwrap());
        let alike = before[0] == before[1];
        let known = run.mirror.trouble().is_some();
        assert!(alike || known, "seed {seed}: {before:?}");
        (differed, sure) = (differed + u32::from(!alike), sure + u32::from(!known));
    }
    assert!(differed > 50 && sure > 50, "{differed} differed, {sure} were sure");
}

#[test]
fn an_unsure_member_stands_in_for_the_one_that_is_copied_to_it() {
    for fails_at_us in (0..3000).step_by(100) {
        let mut run = start(made([100, 100]));
        (0..BLOCKS).for_each(|at| run.write(at, 1));
        let mut run = start(reopened("mirror:a,b", &mut run.disks()).unwrap());
        run.until(Nanos::from_micros(fails_at_us));
        run.mirror.member(0).broken.set(true);
        run.write(2, 2);
        assert_eq!((run.mirror.members_left(), run.read(1), run.read(2)), (1, 1, 2));
        run.until(run.now + Nanos::from_secs(1));
        let mut disks = run.disks();
        disks[0].as_mut().unwrap().broken.set(false);
        // The one that failed is older now, whatever it held before.
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        run.until(Nanos::from_secs(1));
        assert_eq!((run.mirror.trouble(), run.read(2)), (None, 2), "failed at {fails_at_us} us");
        let after = held(&mut run.disks());
        assert!(after[0] == after[1] && after[0][2] == 2, "{after:?}");
    }
}

#[test]
fn a_member_that_was_away_is_copied_anew_if_writes_were_under_way_when_that_ended() {
    let spec = ArraySpec::parse("mirror:a,b").unwrap();
    for (in_use, resumes_at) in [(false, 8192), (true, 0)] {
        let whole = Label { count: 2, in_sync: 1, in_use, ..WHOLE };
        let behind = Label { index: 1, synced_bytes: 8192, ..whole };
        let plan = plan(&spec, &[whole, behind].map(Found::Labelled)).unwrap().unwrap();
        assert_eq!((plan.members[1].1.synced_bytes, plan.unsure), (resumes_at, false));
    }
}

#[test]
fn a_change_that_could_not_be_marked_fails_and_the_next_one_is_marked_first() {
    let mut run = start(made([10, 10]));
    run.write(1, 1);
    let mut disks = run.disks();
    disks[0] = None;
    let mut run = start(reopened("mirror:missing,b", &mut disks).unwrap());
    leave(&mut run);
    let is_marked =
        |run: &mut Run<Shaky>| Label::decode(&label_bytes(run)).unwrap().unwrap().in_use;
    assert!(!is_marked(&mut run));
    run.mirror.member(0).broken.set(true);
    let told = run.wait(change(2, 2)).unwrap_err();
    assert!(told.detail.contains("nothing is acknowledged"), "{told}");
    run.mirror.member(0).broken.set(false);
    assert!(!is_marked(&mut run) && run.read(2) == 0);
    run.wait(change(2, 2)).unwrap();
    assert!(is_marked(&mut run) && run.read(2) == 2);
    leave(&mut run);
    assert!(!is_marked(&mut run));
}

/// The one that all are copied from fails in the middle: what was copied to a member that was away is of
/// one that nobody goes by any more.
#[test]
fn a_member_that_was_away_is_copied_anew_from_whoever_stands_in() {
    for seed in 0..100 {
        let mut random = SplitMix::new(seed);
        let mut disks: Vec<_> = (0..3).map(|_| Some(Shaky::new(BLOCKS, 100))).collect();
        let away = start(opened("mirror:a,b,c", &mut disks, make(7)).unwrap());
        let mut disks = away.disks();
        let away = disks[0].take();
        let mut run = start(reopened("mirror:missing,b,c", &mut disks).unwrap());
        (0..BLOCKS).for_each(|at| run.send(at, change(at, 1)));
        run.until(Nanos::from_micros(500));
        let mut disks = cut(run, &mut random);
        disks.insert(0, away);
        let mut run = start(reopened("mirror:a,b,c", &mut disks).unwrap());
        run.until(Nanos::from_micros(random.below(3000)));
        run.mirror.member(1).broken.set(true);
        run.write(2, 2);
        run.until(run.now + Nanos::from_secs(1));
        assert_eq!(run.mirror.members_left(), 2);
        let after = held(&mut run.disks());
        assert!(after[0] == after[2] && after[0][2] == 2, "seed {seed}: {after:?}");
    }
}

#[test]
fn what_the_member_gone_by_cannot_read_is_taken_from_the_unsure_one() {
    let mut run = start(made([10, 10]));
    (0..BLOCKS).for_each(|at| run.write(at, 1));
    let mut run = start(reopened("mirror:a,b", &mut run.disks()).unwrap());
    run.mirror.member(0).unreadable.set(true);
    run.write(2, 2);
    assert_eq!((run.read(1), run.read(2)), (1, 2));
    run.until(run.now + Nanos::from_secs(1));
    assert!(run.mirror.trouble().unwrap().contains("another member had to help out"));
    leave(&mut run);
    run.mirror.member(0).unreadable.set(false);
    assert!(!is_unsure(&start(reopened("mirror:a,b", &mut run.disks()).unwrap())));
}

/// Who only looks changes nothing on any disk, also not what differs.
#[test]
fn a_mirror_that_is_only_looked_at_shows_the_one_to_go_by_and_writes_nothing() {
    let mut run = start(made([10, 10]));
    (0..BLOCKS).for_each(|at| run.write(at, 1));
    let mut disks = run.disks();
    let other = Command::Write { offset: BLOCK, parts: vec![block(2)], durable: true };
    run_one(disks[1].as_mut().unwrap(), other).unwrap();
    let mut run = start(opened("mirror:a,b", &mut disks, Purpose::Look).unwrap().only_looked_at());
    assert!(is_unsure(&run));
    (0..BLOCKS).for_each(|at| assert_eq!(run.read(at), 1));
    run.until(run.now + Nanos::from_secs(1));
    assert!(is_unsure(&run));
    let before = label_bytes(&mut run);
    run.mirror.member(0).unreadable.set(true);
    run.mirror.member(0).gone.set(true);
    assert_eq!(run.read(1), 2);
    run.until(run.now + Nanos::from_secs(1));
    assert_eq!((run.mirror.members_left(), label_bytes(&mut run) == before), (1, true));
    run.mirror.member(0).unreadable.set(false);
    assert_eq!(held(&mut run.disks())[1][..3], [1, 2, 1]);
}

/// The label of the last member, as it lies there.
fn label_bytes(run: &mut Run<Shaky>) -> Vec<u8> {
    let slots = Command::Read { offset: BLOCKS * BLOCK, len: LABEL_BYTES as u32 };
    let mut bytes = vec![0; LABEL_BYTES as usize];
    let member = run.mirror.core.members.disks_mut().last().unwrap();
    run_one(member, slots).unwrap().copy_to(&mut bytes);
    bytes
}
