//! How members of a mirror are brought up to date: how fast, noted how often, and in which order with labels and
//! with what the host changes.

use super::keeper::Standing;
use super::label_rig::*;
use super::script_rig::*;
use super::*;
use nearhead_disk::{BufferMut, Payload};
use nearhead_models::{MemoryStore, Store, plain_properties};

fn at_once() -> Scripted {
    Scripted::small(|_, _| 10)
}

/// When each piece was read, of a member that pieces are read from.
fn pieces_at(asked: &[Asked]) -> Vec<Nanos> {
    let is_piece = |asked: &&Asked| asked.class == Class::Background && asked.reads_at().is_some();
    asked.iter().filter(is_piece).map(|asked| asked.at).collect()
}

#[test]
fn pieces_follow_each_other_and_begin_a_tenth_of_a_second_apart_while_a_host_waits() {
    let two_seconds = |class, command: &Command| {
        if class == Class::Foreground && is_read(command) { 2_000_000 } else { 10 }
    };
    for (host_waits, least_us, most_us) in [(false, 0, 100), (true, 100_000, 100_100)] {
        let mut run = stale([two_seconds, two_seconds].map(Scripted::small));
        let before = run.mirror.member(1).asked().len();
        if host_waits {
            run.send(1, Command::Read { offset: 0, len: BLOCK as u32 });
        }
        run.until(Nanos::from_millis(1500));
        let times = pieces_at(&run.mirror.member(1).asked()[before..]);
        assert_eq!((times.len(), run.mirror.trouble()), (BLOCKS as usize / 4, None));
        for pair in times.windows(2) {
            let gap = pair[1].since(pair[0]);
            let allowed = Nanos::from_micros(least_us)..Nanos::from_micros(most_us);
            assert!(allowed.contains(&gap), "{host_waits}: {gap:?} between two pieces");
        }
        run.until(Nanos::from_secs(3));
    }
}

/// Keeps labels; of the rest it only knows how long it is.
struct Vast {
    labels: MemoryStore,
    member_bytes: u64,
}

impl Store for Vast {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
        self.labels.read(offset, target)
    }
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        if offset < self.member_bytes { Ok(()) } else { self.labels.write(offset, bytes) }
    }
    fn zero(&mut self, _: u64, _: u64) -> Result<(), DiskError> {
        Ok(())
    }
    fn read_payload(&self, offset: u64, len: usize) -> Result<Payload, DiskError> {
        if offset < self.member_bytes {
            return Ok(Payload::Phantom(len));
        }
        let mut bytes = BufferMut::zeroed(len);
        self.labels.read(offset, &mut bytes)?;
        Ok(Payload::Bytes(bytes.freeze()))
    }
}

fn vast(member_bytes: u64) -> Scripted {
    let properties = Properties {
        transfer_bytes_max: 1 << 20,
        ..plain_properties(member_bytes + LABEL_BYTES, 512)
    };
    let store = Vast { labels: MemoryStore::new(), member_bytes };
    Scripted::new(properties, Box::new(store), Box::new(|_, _| 10))
}

const GIB: u64 = 1 << 30;

#[test]
fn progress_is_noted_after_every_gibibyte_was_flushed_and_goes_on_there() {
    let size = 33 * GIB / 2;
    let mut run = stale([vast(size), vast(size)]);
    let before = run.mirror.member(0).asked().len();
    let noted = |run: &Run<Scripted>| {
        let asked = run.mirror.member(0).asked().split_off(before);
        let notes = labels(&asked);
        for (note, ..) in &notes {
            let behind =
                asked.iter().take_while(|asked| asked.at < note.at || asked.label.is_none());
            let last = behind.last().unwrap();
            let is_flushed = matches!(last.command, Command::Flush) && last.ends <= note.at;
            assert!(is_flushed || note.class != Class::Durable, "{last:?} before {note:?}");
        }
        notes
            .iter()
            .map(|(_, offset, label)| (label.synced_bytes, *offset, label.sequence))
            .collect()
    };
    let step = |run: &mut Run<Scripted>| run.until(run.now + Nanos::from_millis(1));
    let mut labelled: Vec<(u64, u64, u64)> = Vec::new();
    while labelled.is_empty() {
        step(&mut run);
        labelled = noted(&run);
    }
    assert_eq!(labelled[0].0, GIB);
    run.until(run.now + Nanos::from_millis(2));
    // Stopped there, it goes on behind what was noted.
    let mut disks = run.disks();
    disks.iter_mut().flatten().for_each(Scripted::forget);
    let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
    assert_eq!(run.mirror.arrangement.standings, [Standing::Behind(GIB), Standing::InSync]);
    let reopened_after = run.mirror.member(0).asked().len();
    run.until(Nanos::from_secs(2));
    assert_eq!(run.mirror.trouble(), None);
    let asked = run.mirror.member(0).asked();
    let copied: Vec<u64> = asked[reopened_after..].iter().filter_map(Asked::changes_at).collect();
    assert_eq!(copied, (GIB..size).step_by(1 << 20).collect::<Vec<_>>());
    let labelled: Vec<_> =
        labels(&asked[reopened_after..]).iter().map(|(.., label)| label.synced_bytes).collect();
    let noted = (2..=16).map(|gib| gib * GIB).chain([size]);
    assert_eq!(labelled, noted.collect::<Vec<_>>());
    // A newer label lies where its sequence says, and never has the sequence of the one before it.
    for index in 0..2 {
        let asked = run.mirror.member(index).asked();
        let told = labels(&asked);
        for (_, offset, label) in &told {
            assert_eq!(*offset, size + label.sequence % 2 * (LABEL_BYTES / 2));
        }
        assert!(told.windows(2).all(|pair| pair[0].2.sequence < pair[1].2.sequence), "{told:?}");
    }
}

#[test]
fn unsure_members_that_hold_the_same_are_compared_to_the_end_and_written_nothing() {
    let mut run = unsure("mirror:a,b", vec![vast(3 * GIB / 2), vast(3 * GIB / 2)], |_, _| ());
    run.until(Nanos::from_secs(1));
    assert_eq!(run.mirror.trouble(), None);
    for index in 0..2 {
        let asked: Vec<_> = run.mirror.member(index).asked();
        let asked: Vec<_> = asked.iter().filter(|asked| asked.class == Class::Background).collect();
        let read: Vec<u64> = asked.iter().filter_map(|asked| asked.reads_at()).collect();
        assert_eq!(read, (0..3 * GIB / 2).step_by(1 << 20).collect::<Vec<_>>());
        assert_eq!(asked.iter().filter(|asked| is_change(&asked.command)).count(), 1, "one flush");
    }
    let mut run = unsure("mirror:a,b", vec![at_once(), at_once()], |_, _| ());
    assert_eq!(run.read(9), 0);
    run.until(Nanos::from_secs(1));
    for index in 0..2 {
        let asked = run.mirror.member(index).asked();
        assert_eq!(asked.iter().filter_map(Asked::changes_at).count(), 0, "{asked:?}");
    }
}

/// What a member holds otherwise than the others: every block of another version.
fn other_versions(index: usize, disk: &mut nearhead_models::InstantDisk) {
    for at in 0..BLOCKS {
        run_one(disk, change(at, index as u32 + 1)).unwrap();
    }
}

#[test]
fn what_was_made_alike_is_read_from_one_member_and_what_was_not_from_all() {
    let two_seconds = |class, command: &Command| {
        if class == Class::Foreground && is_read(command) { 2_000_000 } else { 10 }
    };
    let disks = vec![Scripted::small(two_seconds), Scripted::small(two_seconds)];
    let mut run = unsure("mirror:a,b", disks, other_versions);
    let read = |at: u64| Command::Read { offset: at * BLOCK, len: BLOCK as u32 };
    run.send(1, read(39));
    run.until(Nanos::from_millis(50));
    // The first piece is alike now: four blocks.
    run.send(2, read(3));
    run.send(3, read(4));
    let asked_at = |at: u64| {
        let of_member = |index| run.mirror.member(index).asked();
        let all = [0, 1].map(of_member).concat();
        let is_it = |asked: &&Asked| {
            asked.class == Class::Foreground && asked.reads_at() == Some(at * BLOCK)
        };
        all.iter().filter(is_it).count()
    };
    assert_eq!([39, 3, 4].map(asked_at), [2, 1, 2]);
    run.until(Nanos::from_secs(9));
}

#[test]
fn members_are_unsure_until_each_of_them_has_flushed() {
    let slow = |_, command: &Command| if matches!(command, Command::Flush) { 50_000 } else { 10 };
    for slow_one in 0..3 {
        let disks =
            (0..3).map(|index| if index == slow_one { Scripted::small(slow) } else { at_once() });
        let mut run = unsure("mirror:a,b,c", disks.collect(), other_versions);
        while run.mirror.trouble().is_some() {
            run.until(run.now + Nanos::from_micros(100));
        }
        for index in 0..3 {
            let asked = run.mirror.member(index).asked();
            let flush = asked.iter().find(|asked| {
                asked.class == Class::Background && matches!(asked.command, Command::Flush)
            });
            assert!(
                flush.expect("each is flushed").ends <= run.now,
                "member {index} of {slow_one}"
            );
        }
    }
}

#[test]
fn pieces_are_whole_sectors_however_much_a_member_takes_at_once() {
    let disk = || {
        let properties = Properties {
            transfer_bytes_max: (64 << 10) + 512,
            ..plain_properties(BLOCKS * BLOCK + LABEL_BYTES, 4096)
        };
        Scripted::new(properties, Box::new(MemoryStore::new()), Box::new(|_, _| 10))
    };
    let mut run = stale([disk(), disk()]);
    run.until(Nanos::from_secs(1));
    assert_eq!((run.mirror.trouble(), run.mirror.members_left()), (None, 2));
}

#[test]
fn nobody_falls_behind_for_bytes_that_no_member_can_read_and_the_last_one_is_never_given_up() {
    for (is_gone, left) in [(false, 2), (true, 1)] {
        let mut run = unsure("mirror:a,b", vec![at_once(), at_once()], other_versions);
        (0..2).for_each(|index| run.mirror.member(index).fail(is_read, is_gone));
        run.wait(Command::Read { offset: BLOCK, len: BLOCK as u32 }).unwrap_err();
        run.until(Nanos::from_secs(1));
        assert_eq!(run.mirror.members_left(), left);
        (0..2).for_each(|index| run.mirror.member(index).heal());
        assert!([1, 2].contains(&run.read(1)));
    }
}

#[test]
fn a_member_that_is_out_is_asked_nothing_more() {
    for fails_at_us in (0..600).step_by(10) {
        let mut run = stale([at_once(), at_once()]);
        run.until(Nanos::from_micros(fails_at_us));
        let out = usize::from(run.mirror.members_left() == 2);
        run.mirror.member(out).fail(is_change, false);
        run.send(1, change(7, 7));
        run.until(run.now + Nanos::from_secs(1));
        assert_eq!(run.mirror.arrangement.standings[out], Standing::Out);
        let asked = run.mirror.member(out).asked().len();
        run.wait(change(8, 8)).unwrap();
        run.wait(Command::Flush).unwrap();
        run.mirror.leave();
        run.until(run.now + Nanos::from_secs(1));
        assert!(run.mirror.has_left());
        assert_eq!(run.mirror.member(out).asked().len(), asked, "failed at {fails_at_us} us");
    }
}

/// Of three members that differ any one fails at any time, while any bytes are read and changed.
#[test]
fn while_a_member_is_made_like_another_no_label_is_written_and_the_newest_lands_last_everywhere() {
    let (mut repaired, mut labelled) = (0, 0);
    for seed in 0..200 {
        let mut random = SplitMix::new(seed);
        let mut disk = || {
            let [read, change, repair] = [60, 300, 3000].map(|most| 10 + random.below(most));
            Scripted::small(move |_, command| match command {
                Command::Read { .. } => read,
                // What makes members alike is durable, as labels are.
                Command::Write { offset, durable: true, .. } if *offset < BLOCKS * BLOCK => repair,
                Command::Flush => 20,
                _ => change,
            })
        };
        let disks = vec![disk(), disk(), disk()];
        let mut run = unsure("mirror:a,b,c", disks, other_versions);
        // Where the host reads nothing only pieces make members alike, and the first one is over soon.
        let reads = random.coin();
        let fails_at = random.below(if reads { 60 } else { 10 });
        let failing = random.below(3) as usize;
        let mut busy: Vec<(u64, u64)> = Vec::new();
        let mut newest = [0; BLOCKS as usize];
        for id in 10..70 {
            if id == 10 + fails_at {
                run.mirror.member(failing).fail(is_change, false);
            }
            let at = random.below(BLOCKS);
            if reads && random.coin() {
                run.send(1000 + id, Command::Read { offset: at * BLOCK, len: BLOCK as u32 });
            } else if !busy.iter().any(|(_, other)| *other == at) {
                busy.push((id, at));
                run.send(id, change(at, id as u32));
            }
            let until = run.now + Nanos::from_micros(random.below(400));
            settle(&mut run, until, &mut busy, &mut newest);
        }
        let until = run.now + Nanos::from_secs(30);
        settle(&mut run, until, &mut busy, &mut newest);
        assert!(busy.is_empty(), "repeat with seed {seed}");
        let counting: Vec<usize> = run.mirror.arrangement.counting().collect();
        let all: Vec<_> = (0..3).map(|index| run.mirror.member(index).asked()).collect();
        let is_repair = |asked: &&Asked| {
            asked.changes_at().is_some()
                && matches!(asked.command, Command::Write { durable: true, .. })
        };
        let repairs: Vec<_> = all.iter().flatten().filter(is_repair).collect();
        for (label, ..) in all.iter().flat_map(|asked| labels(asked)) {
            let torn = repairs.iter().find(|one| one.at < label.at && label.at < one.ends);
            assert!(torn.is_none(), "repeat with seed {seed}: {label:?} while {torn:?}");
            labelled += 1;
        }
        repaired += repairs.len();
        let held: Vec<_> =
            run.disks().iter_mut().flatten().map(|one| content(&mut one.disk)).collect();
        for index in &counting {
            assert_eq!(held[*index], held[counting[0]], "repeat with seed {seed}");
            for (held, newest) in held[*index].iter().zip(newest) {
                assert!(newest == 0 || *held == newest, "repeat with seed {seed}");
            }
        }
    }
    assert!(repaired > 1000 && labelled > 100, "{repaired} repairs, {labelled} labels");
}

fn settle(
    run: &mut Run<Scripted>,
    until: Nanos,
    busy: &mut Vec<(u64, u64)>,
    newest: &mut [u32; BLOCKS as usize],
) {
    for done in run.until(until) {
        if let Some(index) = busy.iter().position(|(id, _)| *id == done.id.0) {
            done.result.unwrap();
            let (id, at) = busy.swap_remove(index);
            newest[at as usize] = id as u32;
        }
    }
}
