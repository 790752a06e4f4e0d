//! What is written to make members alike: the sectors that differ or cannot be read, and nothing that a cut in the middle could
//! take from bytes that were alike.

use super::alike::repairs;
use super::label_rig::*;
use super::script_rig::*;
use super::*;
use nearhead_disk::{BufferMut, Payload};
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use std::collections::BTreeSet;

const SECTORS: u64 = BLOCKS * BLOCK / 512;

/// Of a mirror of members with such sectors.
fn disk_of(sector_bytes: u32) -> Scripted {
    let properties = Properties {
        transfer_bytes_max: 8 * BLOCK as u32,
        ..plain_properties(BLOCKS * BLOCK + LABEL_BYTES, sector_bytes)
    };
    Scripted::new(properties, Box::new(MemoryStore::new()), Box::new(|_, _| 10))
}

/// Puts other bytes into these sectors of 512 bytes, past what the disk's own sectors are.
fn change_sectors(disk: &mut InstantDisk, sectors: &BTreeSet<u64>) {
    for at in sectors {
        let offset = at * 512 / u64::from(disk.properties().sector_bytes);
        let offset = offset * u64::from(disk.properties().sector_bytes);
        let len = disk.properties().sector_bytes;
        let held = run_one(disk, Command::Read { offset, len }).unwrap();
        let mut bytes = vec![0; len as usize];
        held.copy_to(&mut bytes);
        let start = (at * 512 - offset) as usize;
        bytes[start..start + 512].fill(9);
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&bytes).freeze())];
        run_one(disk, Command::Write { offset, parts, durable: true }).unwrap();
    }
}

/// The sectors of 512 bytes that a disk was told to write, each as often as it was, and how many writes that were.
fn written(disk: &Scripted) -> (Vec<u64>, usize) {
    let mut sectors = Vec::new();
    let mut writes = 0;
    for asked in disk.asked() {
        if let (Command::Write { parts, .. }, Some(offset)) = (&asked.command, asked.changes_at()) {
            let len = nearhead_disk::total_len(parts) as u64;
            sectors.extend(offset / 512..(offset + len) / 512);
            writes += 1;
        }
    }
    sectors.sort_unstable();
    (sectors, writes)
}

fn some_sectors(random: &mut SplitMix) -> BTreeSet<u64> {
    let mut sectors = BTreeSet::new();
    for _ in 0..random.below(6) {
        let (start, count) = (random.below(SECTORS), 1 + random.below(40));
        sectors.extend(start..(start + count).min(SECTORS));
    }
    sectors
}

/// How many runs these are, none of which goes on past a multiple of `step`.
fn runs(sectors: &[u64], step: u64) -> usize {
    let goes_on = |pair: &&[u64]| pair[1] == pair[0] + 1 && !pair[1].is_multiple_of(step);
    sectors.len() - sectors.windows(2).filter(goes_on).count()
}

#[test]
fn nothing_is_written_over_but_sectors_that_differ_each_once_and_those_in_a_row_together() {
    for seed in 0..300 {
        let mut random = SplitMix::new(seed);
        let sizes = [512, if random.coin() { 4096 } else { 512 }];
        let turned = usize::from(random.coin());
        let size_of = |member: usize| sizes[(member + turned) % 2];
        let differ = some_sectors(&mut random);
        let disks = vec![disk_of(size_of(0)), disk_of(size_of(1))];
        let mut run = unsure("mirror:a,b", disks, |member, disk| {
            if member == 1 {
                change_sectors(disk, &differ);
            }
        });
        let reads = random.coin();
        if reads {
            // Before the background comes there.
            run.send(1, Command::Read { offset: 0, len: 8 * BLOCK as u32 });
            run.send(2, Command::Read { offset: 20 * BLOCK, len: 8 * BLOCK as u32 });
        }
        run.until(Nanos::from_secs(1));
        assert_eq!(run.mirror.trouble(), None);
        let own = u64::from(size_of(1)) / 512;
        let expected: BTreeSet<u64> =
            differ.iter().flat_map(|at| at / own * own..(at / own + 1) * own).collect();
        let expected: Vec<u64> = expected.into_iter().collect();
        let (sectors, writes) = written(run.mirror.member(1));
        assert_eq!(sectors, expected, "repeat with seed {seed}");
        // A part that is read may begin and end elsewhere than the pieces, here it does not.
        let most = runs(&expected, 4 * BLOCK / 512);
        assert!(writes <= most, "repeat with seed {seed}: {writes} writes, at most {most}");
        assert_eq!(written(run.mirror.member(0)).1, 0, "repeat with seed {seed}");
        let mut disks = run.disks();
        let held: Vec<_> =
            disks.iter_mut().flatten().map(|member| content(&mut member.disk)).collect();
        assert_eq!(held[0], held[1], "repeat with seed {seed}");
    }
}

/// What a cut now leaves of the writes that are under way: anything, in any of their sectors.
fn cut_garbled(disk: &mut Scripted, now: Nanos, random: &mut SplitMix) -> u64 {
    disk.forget();
    let mut garbled = 0;
    for asked in disk.asked().iter().filter(|asked| asked.at <= now && asked.ends > now) {
        let (Command::Write { parts, .. }, Some(start)) = (&asked.command, asked.changes_at())
        else {
            continue;
        };
        let sectors = nearhead_disk::total_len(parts) as u64 / 512;
        for offset in (0..sectors).map(|at| start + at * 512).filter(|_| random.coin()) {
            let parts = vec![Payload::Bytes(BufferMut::copy_of(&[0xee; 512]).freeze())];
            run_one(&mut disk.disk, Command::Write { offset, parts, durable: true }).unwrap();
            garbled += 1;
        }
    }
    garbled
}

#[test]
fn a_cut_while_members_are_made_alike_takes_nothing_that_was_alike_though_the_other_is_missing_then()
 {
    let mut garbled = 0;
    for seed in 0..200 {
        let mut random = SplitMix::new(seed);
        let differ = some_sectors(&mut random);
        let disks = vec![disk_of(512), disk_of(512)];
        let mut run = unsure("mirror:a,b", disks, |member, disk| {
            if member == 1 {
                change_sectors(disk, &differ);
            }
        });
        let read = Command::Read { offset: random.below(32) * BLOCK, len: 8 * BLOCK as u32 };
        if random.coin() {
            run.send(1, read);
        }
        run.until(run.now + Nanos::from_micros(random.below(150)));
        let (now, mut disks) = (run.now, run.disks());
        garbled += cut_garbled(disks[1].as_mut().unwrap(), now, &mut random);
        disks[0] = None;
        let mut run = start(reopened("mirror:missing,b", &mut disks).unwrap());
        for at in (0..SECTORS).filter(|at| !differ.contains(at)) {
            let shown = run.wait(Command::Read { offset: at * 512, len: 512 }).unwrap();
            let mut bytes = vec![0; 512];
            shown.copy_to(&mut bytes);
            let expected = if at < BLOCK / 512 { block(1) } else { Payload::Zeros(BLOCK as usize) };
            let mut acknowledged = vec![0; 512];
            expected.slice(0..512).copy_to(&mut acknowledged);
            assert_eq!(bytes, acknowledged, "repeat with seed {seed}: sector {at}");
        }
    }
    assert!(garbled > 100, "only {garbled} sectors were being written when the power went");
}

#[test]
fn where_all_differs_a_piece_is_one_write() {
    let all: BTreeSet<u64> = (0..SECTORS).collect();
    let mut run = unsure("mirror:a,b", vec![disk_of(512), disk_of(512)], |member, disk| {
        if member == 1 {
            change_sectors(disk, &all);
        }
    });
    run.until(Nanos::from_secs(1));
    assert_eq!(written(run.mirror.member(1)), ((0..SECTORS).collect(), (BLOCKS / 8) as usize));
}

/// The sector of 512 bytes that cannot be read.
const BAD: u64 = 77;

fn reads_bad(command: &Command) -> bool {
    let Command::Read { offset, len } = command else { return false };
    (*offset..*offset + u64::from(*len)).contains(&(BAD * 512))
}

#[test]
fn of_a_member_that_cannot_read_one_sector_that_one_is_written_and_no_other() {
    for reads in [false, true] {
        let mut run = unsure("mirror:a,b", vec![disk_of(512), disk_of(512)], |member, disk| {
            if member == 1 {
                change_sectors(disk, &BTreeSet::from([3, 75]));
            }
        });
        run.mirror.member(1).fail(reads_bad, false);
        if reads {
            run.send(1, Command::Read { offset: 8 * BLOCK, len: 8 * BLOCK as u32 });
        }
        let done = run.until(Nanos::from_secs(1));
        assert_eq!(done.len(), usize::from(reads));
        for done in done {
            let shown = done.result.unwrap();
            let mut bytes = vec![1; shown.len()];
            shown.copy_to(&mut bytes);
            assert_eq!(bytes, vec![0; 8 * BLOCK as usize], "as the one to go by holds it");
        }
        let (mut sectors, _) = written(run.mirror.member(1));
        // It cannot be read afterwards either: whoever comes by writes it.
        sectors.dedup();
        assert_eq!((sectors, run.mirror.members_left()), (vec![3, 75, BAD], 2));
        assert_eq!(written(run.mirror.member(0)).1, 0);
    }
}

#[test]
fn two_members_that_cannot_read_different_sectors_of_a_range_can_be_read_and_are_made_alike() {
    let other_bad = |command: &Command| {
        let Command::Read { offset, len } = command else { return false };
        (*offset..*offset + u64::from(*len)).contains(&(512 * (BAD + 20)))
    };
    let mut run = unsure("mirror:a,b", vec![disk_of(512), disk_of(512)], |member, disk| {
        if member == 1 {
            change_sectors(disk, &BTreeSet::from([BAD - 1]));
        }
    });
    run.mirror.member(1).fail(reads_bad, false);
    run.mirror.member(0).fail(other_bad, false);
    let shown = run.wait(Command::Read { offset: 8 * BLOCK, len: 8 * BLOCK as u32 }).unwrap();
    assert_eq!(shown.len(), 8 * BLOCK as usize);
    // The one to go by could not say what it holds: the other one is, and the first is made a copy of it.
    run.until(Nanos::from_secs(1));
    assert_eq!(
        run.mirror.members_left(),
        1,
        "it is copied to, and cannot be: {:?}",
        run.mirror.trouble()
    );
}

#[test]
fn a_repair_names_the_bytes_that_differ_and_all_of_them_where_nothing_is_known() {
    let zeros = Payload::Zeros(2048);
    let mut bytes = vec![0; 2048];
    bytes[600] = 1;
    bytes[1024] = 1;
    let other = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
    let places = |held: Option<&Payload>, sector_bytes| {
        let place = |command: Command| match command {
            Command::Write { offset, parts, durable: true } => {
                (offset, nearhead_disk::total_len(&parts))
            }
            other => panic!("{other:?}"),
        };
        repairs(8192, &zeros, held, sector_bytes).into_iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(places(Some(&other), 512), [(8704, 1024)]);
    assert_eq!(places(Some(&other), 1024), [(8192, 2048)]);
    assert_eq!(places(Some(&zeros), 512), []);
    assert_eq!(places(None, 512), [(8192, 2048)]);
}
