//! A member of a mirror that is replaced while the mirror is used: the old one counts until the new one does, nothing acknowledged is lost
//! whichever disk fails and whenever the power goes, and the labels say afterwards which of the two is current.

use super::keeper::Standing;
use super::label_rig::*;
use super::*;
use nearhead_disk::Replacing;

const DURING: &str = "mirror:a,b,n?replace=2";

/// The mirror of `disks` with a new disk behind its members, which is to replace the second of them.
fn with_new(mut disks: Vec<Option<Shaky>>, blocks: u64) -> Result<Vec<Option<Shaky>>, String> {
    disks.push(Some(Shaky::new(blocks, 10)));
    let spec = ArraySpec::parse(DURING).unwrap();
    label_successor(&spec, &mut disks, &mut run_one).map_err(|error| error.detail)?;
    Ok(disks)
}

fn progress<D: Disk>(run: &Run<D>) -> Replacing {
    run.mirror.resilvers()[0].replacing.clone().unwrap()
}

/// A mirror with other bytes on its members than a new disk has.
fn written() -> Vec<Option<Shaky>> {
    let mut run = start(made([10, 10]));
    (0..BLOCKS).for_each(|at| run.write(at, 1));
    run.disks()
}

#[test]
fn a_replaced_member_counts_until_its_successor_does() {
    let mut disks = with_new(written(), BLOCKS + 3).unwrap();
    let mut run = start(reopened(DURING, &mut disks).unwrap());
    let message = run.mirror.trouble().unwrap();
    assert!(message.contains("is being replaced by"), "{message}");
    let begun = progress(&run);
    assert!(begun.old_counts && !begun.is_done && begun.left_bytes == BLOCKS * BLOCK, "{begun:?}");
    assert_eq!(run.mirror.members_left(), 2);
    run.write(3, 2);
    run.until(Nanos::from_secs(1));
    let ended = progress(&run);
    assert!(ended.is_done && !ended.old_counts && ended.left_bytes == 0, "{ended:?}");
    assert_eq!(run.mirror.trouble(), None);
    assert_eq!(
        run.mirror.arrangement.standings,
        [Standing::InSync, Standing::Out, Standing::InSync]
    );
    run.write(5, 3);
    let mut disks = run.disks();
    // It is not served alone either.
    let alone = &mut [None, disks[1].take()];
    let message = reopened("mirror:missing,b", alone).err().unwrap();
    assert!(message.contains("expected a member that has everything"), "{message}");
    disks[1] = alone[1].take();
    let held = held(&mut disks);
    assert!(held[0] == held[2] && held[2][3..6] == [2, 1, 3] && held[1][5] == 1, "{held:?}");
    let old = disks.remove(1);
    let mut run = start(reopened("mirror:a,n", &mut disks).unwrap());
    run.until(Nanos::from_secs(1));
    assert_eq!((run.mirror.members_left(), run.mirror.trouble()), (2, None));
    // The old one is not served, and is copied to as any member that was away.
    let mut disks = run.disks();
    let new = std::mem::replace(&mut disks[1], old);
    let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
    assert_eq!((run.mirror.members_left(), run.read(5)), (1, 3));
    run.until(Nanos::from_secs(1));
    assert_eq!((run.mirror.members_left(), run.mirror.trouble()), (2, None));
    assert!(content(run.disks()[1].as_mut().unwrap()) == content(&mut new.unwrap()));
}

/// Stops a replacement without order once at most `left` bytes are to be copied.
fn crashed_at(mut run: Run<Shaky>, left: u64) -> Vec<Option<Shaky>> {
    while progress(&run).left_bytes > left {
        run.until(run.now + Nanos::from_micros(5));
    }
    // The labels say so.
    run.until(run.now + Nanos::from_micros(40));
    assert!(!progress(&run).is_done);
    let mut disks = run.disks();
    disks.iter_mut().flatten().for_each(|disk| disk.disk.power_cut(&mut SplitMix::new(1)));
    disks
}

#[test]
fn a_replacement_goes_on_where_it_was_after_a_crash() {
    const REGION: u64 = 64 << 10;
    let all = BLOCKS * BLOCK;
    let mut disks = with_new(written(), BLOCKS).unwrap();
    let mut run = start(reopened(DURING, &mut disks).unwrap());
    // Before that, the labels say that the mirror is in use.
    run.write(39, 2);
    let mut disks = crashed_at(run, all - 2 * REGION);
    let mut run = start(reopened(DURING, &mut disks).unwrap());
    assert_eq!(progress(&run).left_bytes, all - 2 * REGION, "two of three regions are there");
    // Changes where it was copied are copied again after the next crash, unless every member had them durably.
    run.wait(change(17, 3)).unwrap();
    run.write(1, 4);
    let mut disks = crashed_at(run, 4 * BLOCK);
    let mut run = start(reopened(DURING, &mut disks).unwrap());
    assert_eq!(progress(&run).left_bytes, all - REGION, "a change, and a part");
    run.until(Nanos::from_secs(1));
    assert!(progress(&run).is_done);
    let held = held(&mut run.disks());
    assert!(held[0] == held[2] && held[2][1] == 4 && held[2][39] == 2, "{held:?}");
}

/// A copy that was left to itself while the mirror was used without it has no position.
#[test]
fn a_replacement_starts_again_if_the_mirror_was_used_without_it() {
    let all = BLOCKS * BLOCK;
    let mut disks = with_new(written(), BLOCKS).unwrap();
    let mut run = start(reopened(DURING, &mut disks).unwrap());
    run.write(0, 2);
    let mut disks = crashed_at(run, BLOCK);
    let new = disks.pop().unwrap();
    let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
    run.write(1, 3);
    let mut disks = cut(run, &mut SplitMix::new(2));
    disks.push(new);
    let mut run = start(reopened(DURING, &mut disks).unwrap());
    assert_eq!(progress(&run).left_bytes, all);
    run.until(Nanos::from_secs(1));
    let held = held(&mut run.disks());
    assert!(held[0] == held[2] && held[2][..3] == [2, 3, 1], "{held:?}");
}

/// Power cuts again and again during one replacement: it ends as a member that has everything, and each life goes on with the one before.
#[test]
fn acknowledged_writes_survive_repeated_cuts_while_replacing() {
    let (mut resumed, mut ended, mut lives) = (0, 0, 0);
    for seed in 0..1500_u64 {
        let mut random = SplitMix::new(seed);
        let mut disks = with_new(written(), BLOCKS).unwrap();
        let (mut flushed, mut version) = (vec![1; BLOCKS as usize], 1);
        let mut is_done = false;
        while !is_done {
            // Alone or as a pair, as the member that is replaced is there or not.
            let is_alone = seed % 3 == 0;
            let text = if is_alone { "mirror:a,missing,n?replace=2" } else { DURING };
            let old = if is_alone { disks[1].take() } else { None };
            let mut run = start(reopened(text, &mut disks).unwrap());
            // It is left out once its successor has everything.
            let old = old.or_else(|| disks[1].take());
            lives += 1;
            let left = progress(&run).left_bytes;
            resumed += u32::from(left < BLOCKS * BLOCK && left > 0);
            let mut written = flushed.clone();
            let cut_at = Nanos::from_micros(random.next_u64() % 2400);
            let gap_us = if random.coin() { 200 } else { 900 };
            while run.now < cut_at {
                version += 1;
                // Most are in one place, as those of a log are.
                let is_anywhere = random.next_u64().is_multiple_of(8);
                let at = random.next_u64() % if is_anywhere { BLOCKS } else { 4 };
                run.wait(change(at, version)).unwrap();
                written[at as usize] = version;
                if random.coin() {
                    run.wait(Command::Flush).unwrap();
                    flushed.clone_from(&written);
                }
                run.until(run.now + Nanos::from_micros(random.next_u64() % gap_us));
            }
            run.send(9, change(random.next_u64() % BLOCKS, version + 1));
            version += 1;
            is_done = progress(&run).is_done;
            if is_done {
                // In order: after a crash its members would be made alike.
                run.until(run.now + Nanos::from_secs(1));
                run.mirror.leave();
                run.until(run.now + Nanos::from_secs(1));
                ended += u32::from(run.mirror.has_left());
                disks = run.disks();
                continue;
            }
            disks = cut(run, &mut random);
            if disks.len() == 2 {
                disks.insert(1, old);
            }
        }
        let held = held(&mut [disks.remove(0), disks.pop().unwrap()]);
        assert_eq!(held[0], held[1], "seed {seed}");
        for (at, version) in flushed.iter().enumerate() {
            assert!(held[1][at] >= *version, "seed {seed}: block {at}: {held:?}");
        }
    }
    assert!(resumed > 150 && ended == 1500, "{resumed} of {lives} lives went on, {ended} ended");
}

#[test]
fn a_member_that_is_away_is_replaced_as_well() {
    for text in ["mirror:a,missing,n?replace=2", DURING] {
        let mut disks = written();
        disks[1] = None;
        let mut run = start(reopened("mirror:a,missing", &mut disks).unwrap());
        run.write(7, 4);
        let disks = vec![run.disks().remove(0), None];
        let mut disks = with_new(disks, BLOCKS).unwrap();
        let mut run = start(reopened(text, &mut disks).unwrap());
        assert!(!progress(&run).old_counts);
        run.until(Nanos::from_secs(1));
        assert!(progress(&run).is_done && run.mirror.trouble().is_none(), "{text}");
        let mut disks = run.disks();
        disks[0] = None;
        let mut run = start(reopened("mirror:missing,n", &mut disks).unwrap());
        assert_eq!((run.read(7), run.read(8)), (4, 1));
    }
}

#[test]
fn a_successor_that_cannot_be_one_is_refused_unchanged() {
    let message = with_new(written(), BLOCKS - 1).err().unwrap();
    assert!(message.contains("choose a larger one"), "{message}");
    let blank = vec![Some(Shaky::new(BLOCKS, 1)), Some(Shaky::new(BLOCKS, 1))];
    let message = with_new(blank, BLOCKS).err().unwrap();
    assert!(message.contains("a mirror without labels cannot replace a member"), "{message}");
    // A disk that no `label_successor` was asked for.
    let mut disks = written();
    disks.push(Some(Shaky::new(BLOCKS, 1)));
    let message = reopened(DURING, &mut disks).err().unwrap();
    assert!(message.contains("found a disk without a label"), "{message}");
    assert_eq!(held(&mut disks)[2], vec![0; BLOCKS as usize]);
}

/// Power cuts at every moment of a replacement under durable writes, with a disk that takes nothing more from some moment on: whatever the
/// members are named by afterwards, what was acknowledged is read, or the set is refused.
#[test]
fn acknowledged_writes_survive_cuts_while_replacing() {
    let (mut opened, mut refused, mut ended) = (0, 0, 0);
    for seed in 0..1600_u64 {
        let mut random = SplitMix::new(seed);
        let mut disks = with_new(written(), BLOCKS).unwrap();
        let mut run = start(reopened(DURING, &mut disks).unwrap());
        let mut acknowledged = vec![1; BLOCKS as usize];
        let fails = (seed % 4 < 3).then_some(seed as usize % 4);
        let fails_at = random.next_u64() % 1500;
        let cut_at = random.next_u64() % 3000;
        // Idle for long enough between writes, a whole copy takes less than 2 ms.
        let gap_us = if seed % 8 < 4 { 60 } else { 900 };
        let mut version = 1;
        while run.now < Nanos::from_micros(cut_at) {
            if let Some(member) = fails.filter(|_| run.now >= Nanos::from_micros(fails_at)) {
                run.mirror.member(member).broken.set(true);
            }
            version += 1;
            let at = random.next_u64() % BLOCKS;
            let change =
                Command::Write { offset: at * BLOCK, parts: vec![block(version)], durable: true };
            assert!(run.wait(change).is_ok(), "seed {seed}: two members are left");
            acknowledged[at as usize] = version;
            run.until(run.now + Nanos::from_micros(random.next_u64() % gap_us));
        }
        // One more is under way.
        run.send(9, change(random.next_u64() % BLOCKS, version + 1));
        let Replacing { is_done, old_counts, .. } = progress(&run);
        ended += u32::from(is_done);
        let mut disks = cut(run, &mut random);
        disks.iter_mut().flatten().for_each(|disk| disk.broken.set(false));
        let (text, away): (&str, &[usize]) = match random.next_u64() % 6 {
            5 => ("mirror:missing,b", &[0, 2]),
            0 => (DURING, &[]),
            1 => ("mirror:a,n", &[1]),
            2 => ("mirror:a,b", &[2]),
            3 => ("mirror:missing,b,n?replace=2", &[0]),
            _ => ("mirror:a,missing,n?replace=2", &[1]),
        };
        let is_pair = ArraySpec::parse(text).unwrap().replaced().is_none();
        for place in away.iter().rev() {
            let is_named = !is_pair || *place == 0;
            if is_named { disks[*place] = None } else { drop(disks.remove(*place)) }
        }
        // Writes acknowledged while one failed may be on the other alone, which is away now.
        let is_too_much = match (fails, away) {
            (Some(0), [1 | 2]) | (Some(1), [0] | [0, 2]) => true,
            (Some(2), [0]) => !old_counts,
            _ => false,
        };
        // Alone, the old member is refused as soon as a change may pass it by.
        let may_be_refused = is_too_much || away == [0, 2];
        let mut run = match reopened(text, &mut disks) {
            Ok(mirror) => start(mirror),
            Err(message) => {
                assert!(may_be_refused, "seed {seed}, {text}: {message}");
                refused += 1;
                continue;
            }
        };
        opened += 1;
        if is_too_much {
            continue;
        }
        for pass in 0..2 {
            for (at, version) in acknowledged.iter().enumerate() {
                let read = run.read(at as u64);
                assert!(read >= *version, "seed {seed}, {text}, {pass}: block {at}: {read}");
            }
            run.until(run.now + Nanos::from_secs(1));
        }
        let counts = run.mirror.members_left();
        assert_eq!(counts, if away.contains(&0) { 1 } else { 2 }, "seed {seed}, {text}");
    }
    assert!(opened > 1000 && refused < 500 && ended > 200, "{opened}, {refused}, {ended}");
}
