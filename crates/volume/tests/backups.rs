//! Metadata backups as files: only parts of one volume and one snapshot are one, and only its own device takes it.

#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "shared with tests that need more of it")]
mod support;

use nearhead_disk::Nanos;
use nearhead_models::{CrashDisk, MemoryStore, Store, plain_properties};
use nearhead_service::Service;
use nearhead_volume::backup::{Backup, look, restore_superblock};
use nearhead_volume::{Presets, SyncIo, create, find_superblock};
use support::{Run, options};

const DEVICE_BYTES: u64 = 64 << 20;
const BLOCK: usize = 4096;

fn disk(image: &MemoryStore, bytes: u64) -> CrashDisk {
    CrashDisk::with_image(plain_properties(bytes, 512), image.clone())
}

fn io(disk: &mut CrashDisk) -> SyncIo<'_> {
    SyncIo::in_virtual_time(disk, Nanos::from_secs(1))
}

/// What a disk holds.
fn image_of(disk: &CrashDisk) -> MemoryStore {
    disk.image_after(&|_, _| true)
}

/// A volume on which each stop wrote a snapshot, and the backup after each.
fn with_backups(volume_id: u8, stops: u64) -> (MemoryStore, Vec<Backup>) {
    let mut made = disk(&MemoryStore::new(), DEVICE_BYTES);
    create(&mut io(&mut made), &options("mlb", volume_id, 4 << 20)).unwrap();
    let (mut image, mut backups) = (image_of(&made), Vec::new());
    for stop in 0..stops {
        let mut run = Run::open(disk(&image, DEVICE_BYTES), Nanos::from_secs(2), |_| ());
        let id = run.write(5..6, stop + 1);
        run.wait(id);
        run.volume.begin_shutdown(run.now);
        while !run.volume.is_shut_down() {
            run.volume.drive(run.now);
            run.now = run.volume.wake_at().unwrap_or(run.now).max(run.now);
        }
        let disk = run.volume.disk_mut();
        backups.push(Backup::take(&mut io(disk), 77).unwrap());
        image = image_of(disk);
    }
    (image, backups)
}

#[test]
fn a_backup_is_read_back_as_it_was_written_and_nothing_else_is_one() {
    let (_, backups) = with_backups(1, 3);
    let (_, others) = with_backups(2, 1);
    let (file, later) = (backups[0].encode(), backups[2].encode());
    let of_other = others[0].encode();
    assert_eq!(Backup::decode(&file, Presets::default()).unwrap(), backups[0]);
    assert_eq!(backups[0].base()[..], file[2 * BLOCK..], "an engine gets header and body");
    let (first, last) = (backups[0].head.snapshot_number, backups[2].head.snapshot_number);
    assert!(first % 2 == last % 2 && first < last, "the same slot: {first} and {last}");
    assert_eq!(file.len(), later.len());
    let mixed = |head: &[u8], superblock: &[u8], snapshot: &[u8]| {
        let parts = [&head[..BLOCK], &superblock[BLOCK..2 * BLOCK], &snapshot[2 * BLOCK..]];
        Backup::decode(&parts.concat(), Presets::default()).map_err(|error| error.to_string())
    };
    assert_eq!(mixed(&file, &file, &file).unwrap(), backups[0]);
    let problem = mixed(&file, &of_other, &file).unwrap_err();
    assert!(problem.contains("one volume"), "{problem}");
    let problem = mixed(&later, &file, &file).unwrap_err();
    assert!(problem.contains("one snapshot"), "{problem}");
    mixed(&file, &file, &of_other).unwrap_err();
    mixed(&of_other, &file, &file).unwrap_err();
    for len in [0, 1, BLOCK, file.len() - 1] {
        Backup::decode(&file[..len], Presets::default()).unwrap_err();
    }
    for at in (0..file.len()).step_by(97) {
        let mut changed = file.clone();
        changed[at] ^= 0x20;
        // The rest of a block behind its checksum is nobody's.
        if let Ok(backup) = Backup::decode(&changed, Presets::default()) {
            assert_eq!(backup.head, backups[0].head, "byte {at}");
        }
    }
}

#[test]
fn a_backup_goes_to_its_own_device_alone() {
    let (image, backups) = with_backups(1, 2);
    let (other, _) = with_backups(2, 1);
    let newest = backups.last().unwrap();
    let ask = |store: &MemoryStore, bytes: u64| {
        look(&mut io(&mut disk(store, bytes)), newest).map_err(|error| error.to_string())
    };
    let present = ask(&image, DEVICE_BYTES).unwrap();
    assert_eq!(present.superblock.unwrap().volume_id, newest.head.volume_id);
    assert_eq!(present.snapshot_number, Some(newest.head.snapshot_number));
    assert!(ask(&other, DEVICE_BYTES).unwrap_err().contains("not its backup"));
    // Without any superblock: snapshots and records still say whose the device is.
    let without = |image: &MemoryStore| {
        let mut image = image.clone();
        for at in newest.superblock.layout.superblock_offsets() {
            image.write(at, &[0; BLOCK]).unwrap();
        }
        image
    };
    let present = ask(&without(&image), DEVICE_BYTES).unwrap();
    assert!(present.superblock.is_none());
    assert_eq!(present.snapshot_number, Some(newest.head.snapshot_number));
    assert!(ask(&without(&other), DEVICE_BYTES).unwrap_err().contains("not its backup"));
    let nothing = MemoryStore::new();
    assert_eq!(ask(&nothing, DEVICE_BYTES).unwrap().snapshot_number, None);
    assert!(ask(&nothing, 2 * DEVICE_BYTES).is_ok(), "a larger one will do");
    let problem = ask(&nothing, DEVICE_BYTES - 512).unwrap_err();
    assert!(problem.contains(&format!("at least {DEVICE_BYTES} bytes")), "{problem}");
}

#[test]
fn a_superblock_that_is_brought_back_is_newer_than_the_one_that_was_saved() {
    let (_, backups) = with_backups(1, 1);
    let mut blank = disk(&MemoryStore::new(), DEVICE_BYTES);
    restore_superblock(&mut io(&mut blank), &backups[0]).unwrap();
    let found = find_superblock(&mut io(&mut blank)).unwrap().superblock;
    assert_eq!(found.generation, backups[0].superblock.generation + 1);
    assert_eq!(found.layout, backups[0].superblock.layout);
}
