//! Arrays with labels over power cuts, members that fail, stay away and come back: whatever was
//! acknowledged is what is read, and in the end every member has it.

use super::label_rig::*;
use super::open::prepare;
use super::plan::{Found, plan};
use super::*;
use std::cell::Cell;

#[test]
fn a_member_that_was_away_is_not_read_before_everything_was_copied_to_it() {
    let mut run = start(made([10, 10]));
    (0..BLOCKS).for_each(|at| run.write(at, 1));
    let mut disks = run.disks();
    // The first member stays away while the other one is used.
    let away = disks[0].take();
    let mut run = start(reopened("mirror:missing,b", &mut disks).unwrap());
    assert!(run.mirror.trouble().unwrap().contains("1 of 2 members left"));
    run.write(3, 2);
    let mut disks = run.disks();
    disks.insert(0, away);
    let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
    let trouble = run.mirror.trouble().unwrap();
    assert!(trouble.contains("1 of 2 members have everything"), "{trouble}");
    assert_eq!((run.mirror.members_left(), run.read(3)), (1, 2));
    run.write(5, 3);
    run.until(Nanos::from_secs(1));
    assert_eq!((run.mirror.members_left(), run.mirror.trouble()), (2, None));
    let mut disks = run.disks();
    let held: Vec<_> = disks.iter_mut().flatten().map(content).collect();
    assert!(held[0] == held[1] && held[0][3..6] == [2, 1, 3], "{held:?}");
    // From now on either one is enough.
    disks[1] = None;
    let mut run = start(reopened("mirror:a,missing", &mut disks).unwrap());
    assert_eq!((run.read(3), run.read(5)), (2, 3));
}

#[test]
fn members_that_were_each_used_alone_are_refused_until_their_owner_decides() {
    let mut disks = start(made([10, 10])).disks();
    for (text, place) in [("mirror:a,missing", 0), ("mirror:missing,b", 1)] {
        let mut one = [None, None];
        one[place] = disks[place].take();
        let mut run = start(reopened(text, &mut one).unwrap());
        run.write(1, 10 + place as u32);
        disks[place] = run.disks().pop().unwrap();
    }
    let told = reopened("mirror:a,b", &mut disks).err().unwrap();
    assert!(told.contains("a and b were each used without the other"), "{told}");
    let mut run = start(reopened("mirror:a,b?take=2", &mut disks).unwrap());
    run.until(Nanos::from_secs(1));
    assert_eq!((run.read(1), run.mirror.members_left()), (11, 2));
    let held: Vec<_> = run.disks().iter_mut().flatten().map(content).collect();
    assert_eq!(held[0], held[1]);
}

#[test]
fn a_crash_between_two_labels_leaves_a_member_that_counts() {
    for fails_at in 0..3 {
        let mut disks = start(made([10, 10])).disks();
        let away = disks.pop().unwrap();
        disks.push(None);
        let mut run = start(reopened("mirror:a,missing", &mut disks).unwrap());
        run.write(2, 5);
        let mut disks = [run.disks().pop().unwrap(), away];
        let spec = ArraySpec::parse("mirror:a,b").unwrap();
        let mut labels = 0;
        let _ = prepare(&spec, &mut disks, Purpose::Use, &mut |disk: &mut Shaky, command| {
            labels += u32::from(matches!(command, Command::Write { .. }));
            let cut = labels > fails_at;
            let gone = DiskError { kind: DiskErrorKind::Gone, detail: "power cut".to_owned() };
            if cut { Err(gone) } else { run_one(disk, command) }
        });
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        assert_eq!((run.read(2), run.mirror.members_left()), (5, 1), "after {fails_at} labels");
    }
}

/// The member that everybody goes by takes no write any more at any moment while another one comes back: neither may
/// say that the other does not count.
#[test]
fn a_member_that_comes_back_stands_in_only_once_the_one_before_it_says_that_it_counts() {
    let (mut stood_in, mut did_not) = (0, 0);
    for fails_at_us in (0..4000).step_by(20) {
        let mut run = start(made([100, 100]));
        run.write(1, 1);
        let mut disks = run.disks();
        let away = disks[1].take();
        let mut run = start(reopened("mirror:a,missing", &mut disks).unwrap());
        run.write(2, 2);
        let mut disks = vec![run.disks().remove(0), away];
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        run.until(Nanos::from_micros(fails_at_us));
        run.mirror.member(0).broken.set(true);
        let is_answered = run.wait(change(3, 3)).is_ok() && run.wait(Command::Flush).is_ok();
        run.until(run.now + Nanos::from_secs(1));
        let mut disks = cut(run, &mut SplitMix::new(fails_at_us));
        disks[0].as_mut().unwrap().broken.set(false);
        let mut run = start(reopened("mirror:a,b", &mut disks).expect("one of them counts"));
        run.until(Nanos::from_secs(1));
        assert_eq!((run.mirror.trouble(), run.read(2)), (None, 2), "failed at {fails_at_us} us");
        if is_answered {
            assert_eq!(run.read(3), 3, "failed at {fails_at_us} us");
        }
        (stood_in, did_not) =
            (stood_in + u32::from(is_answered), did_not + u32::from(!is_answered));
    }
    assert!(stood_in > 10 && did_not > 10, "{stood_in} stood in, {did_not} did not");
}

#[test]
fn disks_that_do_not_belong_together_are_refused_with_what_to_do() {
    let other = |id: u8| {
        let mut disks = [Some(Shaky::new(BLOCKS, 1)), Some(Shaky::new(BLOCKS, 1))];
        drop(opened("mirror:a,b", &mut disks, make(id)).map(|mirror| {
            disks = mirror
                .into_disks()
                .into_iter()
                .map(Some)
                .collect::<Vec<_>>()
                .try_into()
                .ok()
                .unwrap();
        }));
        disks
    };
    let case = |text: &str, mut disks: Vec<Option<Shaky>>, expected: &str| {
        let told = reopened(text, &mut disks).err().unwrap();
        assert!(told.contains(expected), "{text}: {told}");
    };
    let [a, _] = other(1);
    let [c, _] = other(2);
    case(
        "mirror:a,c",
        vec![a, c],
        "expected a member of array 01010101, found one of array 02020202",
    );
    let [a, _] = other(1);
    case("mirror:a,new", vec![a, Some(Shaky::new(BLOCKS, 1))], "new: expected the label");
    let [a, b] = other(1);
    case("mirror:a,b,missing", vec![a, b, None], "an array of 3, found one of 2");
    let ([a, _], [twin, _]) = (other(1), other(1));
    case("mirror:a,twin", vec![a, twin], "found both to be member 1");
    let [a, b] = other(1);
    case("raid0:a,b", vec![a, b], "expected mirror:");
    case("mirror:x,y", vec![Some(Shaky::new(9, 1)), Some(Shaky::new(9, 1))], "no labels");
}

#[test]
fn a_stripe_knows_the_order_and_the_chunk_of_its_members() {
    let mut disks: Vec<_> = (0..3).map(|_| Some(Shaky::new(BLOCKS, 1))).collect();
    let mut open = |text: &str, order: [usize; 3], purpose| {
        let spec = ArraySpec::parse(text).unwrap();
        let mut named: Vec<_> = order.iter().map(|place| disks[*place].take()).collect();
        let plan = prepare(&spec, &mut named, purpose, &mut run_one);
        for (place, disk) in order.into_iter().zip(named) {
            disks[place] = disk;
        }
        plan.map(drop).map_err(|error| error.detail)
    };
    let text = "raid0:a,b,c?chunk=16k";
    open(text, [0, 1, 2], make(9)).unwrap();
    open(text, [0, 1, 2], Purpose::Use).unwrap();
    let told = open(text, [0, 2, 1], Purpose::Use).unwrap_err();
    assert!(told.contains("b is named as member 2, and is member 3 of 3"), "{told}");
    let told = open("raid0:a,b,c?chunk=32k", [0, 1, 2], Purpose::Use).unwrap_err();
    assert!(told.contains("expected raid0: with ?chunk=16k, found chunks of 32 KiB"), "{told}");
}

#[test]
fn a_change_of_bytes_that_are_being_copied_lands_after_them() {
    for [read_us, write_us, copy_us] in [[300, 300, 500], [10, 900, 10], [700, 20, 300]] {
        for delay_us in (0..2000).step_by(40) {
            let mut disks = [Some(Late::new(read_us, write_us)), Some(Late::new(10, copy_us))];
            let mut run = start(opened("mirror:a,b", &mut disks, make(3)).unwrap());
            run.write(0, 1);
            let mut disks = run.disks();
            let away = disks.pop().unwrap();
            let mut one = [disks.pop().unwrap(), None];
            let mut run = start(reopened("mirror:a,missing", &mut one).unwrap());
            run.write(0, 2);
            let mut disks = [run.disks().pop().unwrap(), away];
            let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
            // One that is under way when the copying begins, and one at any later time.
            for (id, at, version) in [(1, 1, 3), (2, 0, 4)] {
                let parts = vec![block(version)];
                run.send(id, Command::Write { offset: at * BLOCK, parts, durable: true });
                run.until(Nanos::from_micros(delay_us));
            }
            run.until(Nanos::from_secs(2));
            assert_eq!((run.read(0), run.read(1), run.mirror.members_left()), (4, 3, 2));
            let copied = content(run.disks()[1].as_mut().unwrap());
            let times = (read_us, write_us, copy_us, delay_us);
            assert_eq!(copied[..2], [4, 3], "repeat with {times:?} us");
        }
    }
}

/// What may be read of each block: from the version that was durable up to the newest sent.
struct Ledger {
    durable: [u32; BLOCKS as usize],
    newest: u32,
}

#[test]
fn nothing_acknowledged_is_lost_whichever_member_fails_stays_away_or_loses_its_power() {
    for seed in 0..300 {
        println!("repeat with seed {seed}");
        let mut random = SplitMix::new(seed);
        let latencies = [10 + random.below(900), 10 + random.below(900)];
        let mut run = start(made(latencies));
        let mut ledger = Ledger { durable: [0; BLOCKS as usize], newest: 0 };
        // A member that was used alone must be there the next time.
        let mut needed: Option<usize> = None;
        for _ in 0..6 {
            use_for_a_while(&mut run, &mut ledger, &mut random);
            let mut disks = run.disks();
            for disk in disks.iter_mut().flatten() {
                disk.disk.power_cut(&mut random);
                disk.broken.set(false);
            }
            if disks.len() < 2 {
                // The one that was away comes back.
                disks.insert(1 - needed.unwrap(), AWAY.take());
            }
            let away = (random.below(3) == 0)
                .then(|| needed.map_or(random.below(2) as usize, |used| 1 - used));
            let mut text = "mirror:a,b";
            let complete = disks
                .iter_mut()
                .flatten()
                .filter_map(|disk| label_of(disk, &mut run_one).unwrap())
                .collect::<Vec<_>>();
            if let Some(away) = away {
                // Only a member that has everything may be used alone.
                let other = complete[1 - away];
                let newest = complete.iter().map(|label| label.generation).max().unwrap();
                if other.generation == newest && other.counts(other.index) {
                    AWAY.set(disks[away].take());
                    text = if away == 0 { "mirror:missing,b" } else { "mirror:a,missing" };
                    needed = Some(1 - away);
                }
            }
            if text == "mirror:a,b" {
                needed = None;
            }
            run = Run { mirror: reopened(text, &mut disks).unwrap(), now: Nanos::ZERO };
            check(&mut run, &ledger, seed);
            if random.coin() {
                // Long enough for a member to be brought up to date.
                run.until(run.now + Nanos::from_secs(2));
            }
        }
        // Left alone, whoever is there has everything in the end.
        run.until(Nanos::from_secs(5));
        assert_eq!(run.mirror.members_left(), run.mirror.core.members.len(), "seed {seed}");
        check(&mut run, &ledger, seed);
        let held: Vec<_> = run.disks().iter_mut().flatten().map(content).collect();
        assert!(held.iter().all(|versions| *versions == held[0]), "seed {seed}: {held:?}");
        AWAY.set(None);
    }
}

thread_local! {
    /// The member that is away.
    static AWAY: Cell<Option<Shaky>> = const { Cell::new(None) };
}

/// Writes, flushes, and lets a member break; stops anywhere.
fn use_for_a_while(run: &mut Run<Shaky>, ledger: &mut Ledger, random: &mut SplitMix) {
    let mut sent: Vec<(u64, u64, u32, bool)> = Vec::new();
    let break_at = random.below(40);
    for id in 1..=random.below(30) {
        if id == break_at {
            let members = run.mirror.core.members.len();
            if members == 2 {
                run.mirror.member(random.below(2) as usize).broken.set(true);
            }
        }
        let at = random.below(BLOCKS);
        // One write of a block at a time.
        if sent.iter().any(|(_, block, ..)| *block == at) {
            continue;
        }
        ledger.newest += 1;
        let durable = random.coin();
        sent.push((id, at, ledger.newest, durable));
        let parts = vec![block(ledger.newest)];
        run.send(id, Command::Write { offset: at * BLOCK, parts, durable });
        let until = run.now + Nanos::from_micros(random.below(1500));
        for done in run.until(until) {
            let Some(index) = sent.iter().position(|(id, ..)| *id == done.id.0) else { continue };
            let (_, at, version, durable) = sent.swap_remove(index);
            if done.result.is_ok() && durable {
                ledger.durable[at as usize] = version;
            }
        }
    }
}

fn check(run: &mut Run<Shaky>, ledger: &Ledger, seed: u64) {
    for at in 0..BLOCKS {
        let found = run.read(at);
        let durable = ledger.durable[at as usize];
        assert!(found >= durable, "seed {seed}: block {at} is {found}, {durable} was acknowledged");
    }
}

/// The label that says that a raise begins is on the first member before any other, and the one that ends it comes last.
#[test]
fn an_older_copy_of_a_stripe_member_is_refused_after_any_cut() {
    let text = "raid0:a,b,c";
    let spec = ArraySpec::parse(text).unwrap();
    let cut_after = |labels: u32| {
        let mut disks: Vec<_> = (0..3).map(|_| Some(Shaky::new(BLOCKS, 10))).collect();
        let make = Purpose::Make { array_id: [7; 16], anew: true, whole_runs: None };
        let older = prepare(&spec, &mut disks, make, &mut run_one).unwrap().unwrap().members;
        prepare(&spec, &mut disks, Purpose::Use, &mut run_one).unwrap();
        let mut written = 0;
        let _ = prepare(&spec, &mut disks, Purpose::Use, &mut |disk: &mut Shaky, command| {
            written += u32::from(matches!(command, Command::Write { .. }));
            let is_cut = written > labels;
            let gone = DiskError { kind: DiskErrorKind::Gone, detail: "power cut".to_owned() };
            if is_cut { Err(gone) } else { run_one(disk, command) }
        });
        (disks, older, written <= labels)
    };
    for labels in 0.. {
        let (mut disks, _, is_whole) = cut_after(labels);
        for _ in 0..2 {
            prepare(&spec, &mut disks, Purpose::Look, &mut run_one).unwrap();
            prepare(&spec, &mut disks, Purpose::Use, &mut run_one).unwrap();
        }
        for (place, label) in cut_after(labels).1 {
            let (mut disks, ..) = cut_after(labels);
            let mut found: Vec<_> = disks
                .iter_mut()
                .map(|disk| {
                    Found::Labelled(
                        label_of(disk.as_mut().unwrap(), &mut run_one).unwrap().unwrap(),
                    )
                })
                .collect();
            found[place] = Found::Labelled(label);
            let told = plan(&spec, &found).unwrap_err();
            assert!(told.contains("expected generation"), "after {labels}, member {place}: {told}");
        }
        if is_whole {
            assert_eq!(labels, 4);
            return;
        }
    }
}
