//! Reads and changes while members of a mirror may differ: what was shown stays, and nothing older lands
//! over anything newer.

use super::label_rig::*;
use super::*;

/// Two crashes, of which the second takes the member away that was read after the first.
#[test]
fn what_was_shown_after_a_crash_stays_when_the_member_it_was_read_from_is_gone() {
    let mut differed = 0;
    for seed in 0..300 {
        let mut random = SplitMix::new(seed);
        let mut run = start(made([10 + random.below(500), 10 + random.below(500)]));
        for at in 0..BLOCKS {
            run.send(at, change(at, 7));
        }
        run.until(Nanos::from_micros(300 + random.below(1500)));
        let mut disks = cut(run, &mut random);
        let before = held(&mut disks);
        differed += usize::from(before[0] != before[1]);
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        assert_eq!(run.mirror.members_left(), 2, "seed {seed}: a cut takes no member away");
        let count = random.below(20);
        let read: Vec<(u64, u32)> = (0..count)
            .map(|_| {
                let at = random.below(BLOCKS);
                (at, run.read(at))
            })
            .collect();
        let mut disks = cut(run, &mut random);
        disks[0] = None;
        let mut run = start(reopened("mirror:missing,b", &mut disks).unwrap());
        for (at, shown) in read {
            assert_eq!(run.read(at), shown, "repeat with seed {seed}: block {at}");
        }
    }
    assert!(differed > 50, "of 300 cuts only {differed} left different members");
}

/// A member that cannot read now may be read after the next crash: what was shown of another counts then.
/// And a cut in the middle of a write garbles it, so what is written over it must not be the one to go by.
#[test]
fn what_was_shown_for_want_of_the_one_to_go_by_stays_and_lands_there_only_when_nobody_goes_by_it() {
    let (mut shown, mut written) = (0, 0);
    for seed in 0..600 {
        let mut random = SplitMix::new(seed);
        let mut run = start(made([10 + random.below(300), 10 + random.below(300)]));
        (0..BLOCKS).for_each(|at| run.write(at, 1));
        let mut disks = run.disks();
        for at in 0..BLOCKS {
            let parts = vec![block(2)];
            let newer = Command::Write { offset: at * BLOCK, parts, durable: true };
            run_one(disks[1].as_mut().unwrap(), newer).unwrap();
        }
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        run.mirror.member(0).unreadable.set(true);
        let at = random.below(BLOCKS);
        run.send(1, Command::Read { offset: at * BLOCK, len: BLOCK as u32 });
        let until = run.now + Nanos::from_micros(random.below(4000));
        let is_shown = !run.until(until).is_empty();
        run.mirror.member(0).unreadable.set(false);
        let is_back = is_shown && run.mirror.members_left() == 2;
        let mut disks = cut(run, &mut random);
        let is_written = held(&mut disks)[0].contains(&2);
        let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
        let goes_by_it = run.mirror.arrangement.standings[0].counts();
        assert!(!is_written || !goes_by_it || is_back, "repeat with seed {seed}");
        let found = run.read(at);
        assert!(found == 2 || !is_shown, "repeat with seed {seed}: {found}");
        run.until(run.now + Nanos::from_secs(1));
        assert_eq!(run.mirror.members_left(), 2, "repeat with seed {seed}");
        let after = held(&mut run.disks());
        assert!(
            after[0] == after[1] && after[0][at as usize] == found,
            "repeat with seed {seed}: {after:?}"
        );
        (shown, written) = (shown + u32::from(is_shown), written + u32::from(is_written));
    }
    assert!(shown > 100 && shown < 600 && written > 100, "{shown} shown, {written} written");
}

/// Of each block one change at a time, as a volume has it, and reads at any time.
#[test]
fn whatever_is_read_and_changed_while_members_are_made_alike_the_newest_lands_last() {
    for [read_us, write_us, other_us] in [[300, 300, 500], [10, 900, 10], [700, 20, 300]] {
        for seed in 0..100 {
            let mut random = SplitMix::new(seed);
            let mut disks =
                [Some(Late::new(read_us, write_us)), Some(Late::new(other_us, other_us))];
            let mut run = start(opened("mirror:a,b", &mut disks, make(3)).unwrap());
            (0..BLOCKS).for_each(|at| run.write(at, 1));
            let mut disks = run.disks();
            // As if a write had been under way: the second member is older everywhere.
            let older = |at: u64| (at * BLOCK, vec![block(0)]);
            for (offset, parts) in (0..BLOCKS).map(older) {
                let disk = &mut disks[1].as_mut().unwrap().disk;
                run_one(disk, Command::Write { offset, parts, durable: true }).unwrap();
            }
            let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
            let mut newest = [1; BLOCKS as usize];
            let mut busy: Vec<(u64, u64, u32)> = Vec::new();
            for id in 1..60 {
                // Where the copying comes late.
                let at = 8 + random.below(30);
                let offset = at * BLOCK;
                if random.coin() {
                    run.send(1000 + id, Command::Read { offset, len: 2 * BLOCK as u32 });
                } else if !busy.iter().any(|(_, other, _)| *other == at) {
                    let version = id as u32 + 1;
                    busy.push((id, at, version));
                    let parts = vec![block(version)];
                    run.send(id, Command::Write { offset, parts, durable: random.coin() });
                }
                let until = run.now + Nanos::from_micros(random.below(400));
                settle(&mut run, until, &mut busy, &mut newest);
            }
            let times = (read_us, write_us, other_us, seed);
            let (ends, is_over) = if random.coin() {
                (Nanos::from_millis(5), false)
            } else {
                (Nanos::from_secs(2), true)
            };
            let until = run.now + ends;
            settle(&mut run, until, &mut busy, &mut newest);
            let is_alike = run.mirror.trouble().is_none();
            assert!(busy.is_empty() && (is_alike || !is_over), "{times:?}");
            let held: Vec<_> = run.disks().iter_mut().flatten().map(content).collect();
            let has_newest = |held: &Vec<u32>| {
                held.iter()
                    .zip(&newest)
                    .all(|(held, newest)| held == newest || *newest == 1 && !is_alike)
            };
            assert!(held.iter().all(has_newest), "repeat with {times:?}: {held:?}, not {newest:?}");
        }
    }
}

fn settle(run: &mut Run<Late>, until: Nanos, busy: &mut Vec<(u64, u64, u32)>, newest: &mut [u32]) {
    for done in run.until(until) {
        assert!(done.result.is_ok());
        if let Some(index) = busy.iter().position(|(id, ..)| *id == done.id.0) {
            let (_, at, version) = busy.swap_remove(index);
            newest[at as usize] = version;
        }
    }
}
