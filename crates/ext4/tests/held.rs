//! What lives without a name, what may not be used yet, and what is counted: holds, freed blocks, free space.

#![allow(clippy::unwrap_used, reason = "tests")]

mod driver;

use driver::{Disk, Driven, FEATURES, Scratch, has_tools, options, root_at};
use nearhead_ext4::{
    BLOCK_BYTES, Caller, Errno, FileKind, Options, Place, ROOT, Removed, Rename, XattrSet,
};

fn small(scratch: &Scratch) -> Driven {
    let disk = Disk::made(scratch, 16, &["-O", FEATURES, "-N", "64", "-m", "0"]);
    let mut driven = Driven::mounted(disk, options());
    driven.commit();
    driven
}

#[test]
fn a_held_file_without_a_name_is_gone_on_disk_and_whole_in_memory() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("held");
    let mut driven = small(&scratch);
    let before = driven.fs.statistics();
    let file = driven.make(ROOT, "file", FileKind::Regular).unwrap().ino;
    driven.write(file, 0, 20, 1).unwrap();
    driven.run(|fs| fs.set_xattr(file, b"user.a", &[5; 1000], XattrSet::Any, &root_at(1))).unwrap();
    driven.commit();
    let places = driven.run(|fs| fs.map(file, 0, 40)).unwrap();
    driven.fs.hold(file);
    driven.fs.hold(file);
    let removed = driven.run(|fs| fs.unlink(ROOT, b"file", &root_at(2))).unwrap();
    assert_eq!(removed, Removed { ino: file, is_gone: true });
    let changes = driven.commit();
    let freed: u64 = changes.freed.iter().map(|range| range.end - range.start).sum();
    assert_eq!(freed, 1, "the block of attributes alone: the others are still read");
    driven.disk.check(&scratch, "gone on disk");
    // It is all there, and can be written to.
    assert_eq!(driven.run(|fs| fs.map(file, 0, 40)).unwrap(), places);
    assert_eq!(driven.run(|fs| fs.get_xattr(file, b"user.a")).unwrap(), [5; 1000]);
    driven.write(file, 30, 10, 2).unwrap();
    driven.run(|fs| fs.truncate(file, 4096 * 35, &root_at(3))).unwrap();
    driven.run(|fs| fs.punch(file, 3, 4, &root_at(3))).unwrap();
    let attributes = driven.run(|fs| fs.attributes(file)).unwrap();
    assert_eq!((attributes.links, attributes.blocks_512), (0, (20 - 4 + 5) * 8));
    // Nothing else gets its blocks or its number.
    let other = driven.make(ROOT, "other", FileKind::Regular).unwrap().ino;
    assert_ne!(other, file);
    driven.write(other, 0, 100, 3).unwrap();
    driven.commit();
    let mine = blocks(&mut driven, file, 40);
    assert!(blocks(&mut driven, other, 100).iter().all(|block| !mine.contains(block)));
    assert!(mine.iter().all(|block| matches!(driven.disk.block(*block)[9], 1 | 2)));
    driven.disk.check(&scratch, "beside another");
    let held = driven.fs.statistics();
    driven.fs.release(file);
    assert!(driven.run(|fs| fs.attributes(file)).is_ok());
    driven.fs.release(file);
    assert_eq!(driven.run(|fs| fs.attributes(file)).unwrap_err().errno, Errno::NoEntry);
    let changes = driven.commit();
    let freed: Vec<u64> = changes.freed.into_iter().flatten().collect();
    assert!(mine.iter().all(|block| freed.contains(block)));
    assert_eq!(driven.fs.statistics().free, held.free + mine.len() as u64);
    driven.run(|fs| fs.unlink(ROOT, b"other", &root_at(4))).unwrap();
    driven.commit();
    assert_eq!(driven.fs.statistics(), before);
}

fn blocks(driven: &mut Driven, ino: nearhead_ext4::Ino, count: u64) -> Vec<u64> {
    let runs = driven.run(|fs| fs.map(ino, 0, count)).unwrap();
    let blocks = runs.iter().filter_map(|run| match run.place {
        Place::Written(start) | Place::Unwritten(start) => Some(start..start + run.len),
        Place::Hole => None,
    });
    blocks.flatten().collect()
}

#[test]
fn a_held_directory_and_a_held_link_live_on_without_names() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("held-others");
    let mut driven = small(&scratch);
    let directory = driven.make(ROOT, "directory", FileKind::Directory).unwrap().ino;
    let target = vec![b'x'; 300];
    let new = nearhead_ext4::NewNode {
        kind: FileKind::Symlink,
        mode: 0,
        umask: 0,
        device: 0,
        target: Some(target.clone()),
    };
    let link = driven.run(|fs| fs.make(ROOT, b"link", &new, &root_at(1))).unwrap().ino;
    driven.commit();
    driven.fs.hold(directory);
    driven.fs.hold(link);
    driven.run(|fs| fs.remove_directory(ROOT, b"directory", &root_at(2))).unwrap();
    driven.run(|fs| fs.unlink(ROOT, b"link", &root_at(2))).unwrap();
    driven.commit();
    driven.disk.check(&scratch, "gone");
    assert_eq!(driven.run(|fs| fs.read_link(link)).unwrap(), target);
    assert!(driven.run(|fs| fs.read_directory(directory, 0, 10)).unwrap().is_empty());
    let gone = [
        driven.run(|fs| fs.lookup(directory, b"a")).unwrap_err(),
        driven.make(directory, "a", FileKind::Regular).unwrap_err(),
        driven.run(|fs| fs.link(link, ROOT, b"back", &root_at(3))).unwrap_err(),
        driven
            .run(|fs| fs.rename(ROOT, b"lost+found", directory, b"a", Rename::Replace, &root_at(3)))
            .unwrap_err(),
    ];
    assert!(gone.iter().all(|error| error.errno == Errno::NoEntry), "{gone:?}");
    driven.fs.release(directory);
    driven.fs.release(link);
    driven.commit();
    driven.disk.check(&scratch, "released");
}

#[test]
fn freed_blocks_are_not_used_before_what_freed_them_is_settled() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("settled");
    let mut driven = small(&scratch);
    let first = driven.make(ROOT, "first", FileKind::Regular).unwrap().ino;
    let second = driven.make(ROOT, "second", FileKind::Regular).unwrap().ino;
    let free = driven.fs.statistics().free;
    driven.write(first, 0, free - 10, 1).unwrap();
    driven.commit();
    driven.run(|fs| fs.truncate(first, 0, &root_at(2))).unwrap();
    let too_early = driven.run(|fs| fs.allocate(second, 0, 100, &root_at(3))).unwrap_err();
    assert_eq!(too_early.errno, Errno::NoSpaceYet);
    let taken = driven.fs.take_changes();
    let too_early = driven.run(|fs| fs.allocate(second, 0, 100, &root_at(3))).unwrap_err();
    assert_eq!(too_early.errno, Errno::NoSpaceYet);
    for (block, bytes) in &taken.blocks {
        driven.disk.write(*block, bytes.clone());
    }
    driven.fs.settle(taken.id);
    driven.write(second, 0, 100, 2).unwrap();
    driven.commit();
    let none = driven.run(|fs| fs.allocate(second, 100, free, &root_at(4))).unwrap_err();
    assert_eq!(none.errno, Errno::NoSpace, "waiting would not help");
    driven.disk.check(&scratch, "reused");
}

#[test]
fn the_last_blocks_are_kept_for_root_and_the_last_inode_is_the_last() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("kept");
    let disk = Disk::made(&scratch, 16, &["-O", FEATURES, "-N", "64", "-m", "10"]);
    let mut driven = Driven::mounted(disk, options());
    let file = driven.make(ROOT, "file", FileKind::Regular).unwrap().ino;
    let statistics = driven.fs.statistics();
    assert!(statistics.available + 400 < statistics.free);
    let user = Caller { uid: 1000, ..root_at(2) };
    let all = statistics.free - 2;
    let error = driven.run(|fs| fs.allocate(file, 0, all, &user)).unwrap_err();
    assert_eq!(error.errno, Errno::NoSpace);
    driven.run(|fs| fs.allocate(file, 0, statistics.available, &user)).unwrap();
    driven.run(|fs| fs.allocate(file, statistics.available, 100, &user)).unwrap_err();
    driven.run(|fs| fs.allocate(file, 0, all, &root_at(2))).unwrap();
    driven.run(|fs| fs.grow(file, all * BLOCK_BYTES as u64, &root_at(2))).unwrap();
    let mut made = 0;
    let error = loop {
        match driven.make(ROOT, &format!("pipe-{made}"), FileKind::Fifo) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.errno, made), (Errno::NoSpace, statistics.free_inodes));
    assert_eq!(driven.fs.statistics().free_inodes, 0);
    driven.commit();
    driven.disk.check(&scratch, "full");
}

#[test]
fn a_file_system_that_is_mounted_read_only_is_read_and_never_changed() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("read-only");
    let mut driven = small(&scratch);
    let file = driven.make(ROOT, "file", FileKind::Regular).unwrap().ino;
    driven.commit();
    let disk = std::mem::take(&mut driven.disk);
    let mut driven = Driven::mounted(disk, Options { read_only: true, ..options() });
    assert!(!driven.fs.is_changed());
    assert_eq!(driven.at("file").ino, file);
    let error = driven.make(ROOT, "other", FileKind::Regular).unwrap_err();
    assert_eq!(error.errno, Errno::ReadOnly);
    driven.run(|fs| fs.truncate(file, 1, &root_at(1))).unwrap_err();
    assert!(!driven.run(|fs| fs.work_off(&root_at(1))).unwrap());
    assert!(!driven.fs.is_changed());
}

#[test]
fn what_became_unwritten_keeps_its_bytes_until_that_is_settled() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("unwritten");
    let mut driven = small(&scratch);
    let file = driven.make(ROOT, "file", FileKind::Regular).unwrap().ino;
    driven.write(file, 0, 10, 1).unwrap();
    driven.commit();
    let old = blocks(&mut driven, file, 10);
    driven.run(|fs| fs.make_unwritten(file, 2, 3, &root_at(2))).unwrap();
    // Written anew before that is durable: elsewhere, because after a stop the old bytes count.
    driven.write(file, 1, 5, 2).unwrap();
    let new = blocks(&mut driven, file, 10);
    let moved: Vec<usize> = (0..10).filter(|nth| old[*nth] != new[*nth]).collect();
    assert_eq!(moved, [2, 3, 4]);
    driven.commit();
    driven.disk.check(&scratch, "moved");
    driven.run(|fs| fs.make_unwritten(file, 2, 3, &root_at(2))).unwrap();
    driven.commit();
    driven.write(file, 2, 3, 3).unwrap();
    assert_eq!(blocks(&mut driven, file, 10), new, "settled: the place is good");
}

#[test]
fn an_operation_that_would_outgrow_the_limit_of_changes_changes_nothing_and_goes_through_after_them()
 {
    const LIMIT: usize = 12;
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("limit");
    let disk = Disk::made(&scratch, 16, &["-O", FEATURES, "-g", "256", "-m", "0"]);
    let mut driven = Driven::mounted(disk, options());
    driven.commit();
    driven.fs.limit_changes(LIMIT);
    let mut waited = 0;
    for nth in 0..100 {
        let made = driven.make(ROOT, &format!("folder{nth}"), FileKind::Directory);
        // That nothing is changed by one that fails is looked at by the driver.
        let ino = made.unwrap_or_else(|error| {
            assert_eq!(error.errno, Errno::NoRoomInChanges, "{error}");
            assert!(driven.fs.changes_len() > LIMIT / 3, "there was room: {error}");
            waited += 1;
            driven.commit();
            driven.make(ROOT, &format!("folder{nth}"), FileKind::Directory).unwrap()
        });
        assert!(ino.ino.0 > 0);
        assert!(driven.fs.changes_len() <= LIMIT);
    }
    assert!(waited > 5, "{waited}");
    let free = driven.fs.statistics().free;
    let file = driven.make(ROOT, "file", FileKind::Regular).map(|node| node.ino);
    let file = file.unwrap_or_else(|_| {
        driven.commit();
        driven.make(ROOT, "file", FileKind::Regular).unwrap().ino
    });
    let too_much = driven.run(|fs| fs.reserve(file, 0, free - 8, true, &root_at(2))).unwrap_err();
    assert_eq!(too_much.errno, Errno::NoRoomInChanges);
    driven.fs.limit_changes(usize::MAX);
    driven.run(|fs| fs.reserve(file, 0, free - 8, true, &root_at(2))).unwrap();
    driven.commit();
    driven.disk.check(&scratch, "limit");
}
