//! Sizes: directories of many entries, more sub-directories than can be counted, files that are too large to be freed at
//! once, volumes of many terabytes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod driver;

use driver::{Disk, Driven, FEATURES, Scratch, has_tools, options, root_at, run};
use nearhead_ext4::{
    BLOCK_BYTES, Caller, Errno, Ext4, FileKind, Ino, NewNode, Options, Outcome, Place, ROOT,
    Removed, Rename, Stop, Timestamp,
};

#[test]
fn a_directory_of_a_hundred_thousand_entries_is_filled_listed_and_emptied() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("entries");
    let disk = Disk::made(&scratch, 512, &["-O", FEATURES, "-N", "131072"]);
    let mut driven = Driven::mounted(disk, options());
    let directory = driven.make(ROOT, "large", FileKind::Directory).unwrap().ino;
    let count = 100_000;
    for nth in 0..count {
        driven.make(directory, &format!("entry-{nth}"), FileKind::Fifo).unwrap();
        if nth % 1000 == 0 {
            driven.commit();
        }
    }
    driven.commit();
    driven.disk.check(&scratch, "filled");
    // From the disk again: the index is built anew, within a small cache.
    let disk = std::mem::take(&mut driven.disk);
    let mut driven = Driven::mounted(disk, options());
    let found = driven.run(|fs| fs.lookup(directory, b"entry-77777")).unwrap();
    assert_eq!(found.kind, FileKind::Fifo);
    let missing = driven.run(|fs| fs.lookup(directory, b"entry-100000")).unwrap_err();
    assert_eq!(missing.errno, Errno::NoEntry);
    // Half of the entries go while the directory is listed: the others are all seen, and once.
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let entries = driven.run(|fs| fs.read_directory(directory, after, 100)).unwrap();
        let Some(last) = entries.last() else { break };
        after = last.cookie;
        for entry in entries {
            let Some(nth) = entry.name.strip_prefix(b"entry-") else { continue };
            let nth: u32 = String::from_utf8_lossy(nth).parse().unwrap();
            seen.push(nth);
            if nth.is_multiple_of(2) {
                let name = format!("entry-{nth}");
                driven.run(|fs| fs.unlink(directory, name.as_bytes(), &root_at(3))).unwrap();
            }
        }
        driven.commit();
    }
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..count));
    driven.disk.check(&scratch, "half empty");
    let size = driven.at("large").size;
    for nth in (0..count).step_by(2) {
        driven.make(directory, &format!("entry-{nth}"), FileKind::Fifo).unwrap();
    }
    driven.commit();
    assert_eq!(driven.at("large").size, size, "room of removed entries is used again");
    driven.disk.check(&scratch, "filled again");
}

#[test]
fn more_sub_directories_than_can_be_counted_count_as_one() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("links");
    let disk = Disk::made(&scratch, 1024, &["-O", FEATURES, "-N", "131072"]);
    let mut driven = Driven::mounted(disk, options());
    let parent = driven.make(ROOT, "parent", FileKind::Directory).unwrap().ino;
    for nth in 0..65_010 {
        driven.make(parent, &format!("d{nth}"), FileKind::Directory).unwrap();
        if nth % 1000 == 0 {
            driven.commit();
        }
    }
    assert_eq!(driven.at("parent").links, 1);
    driven.commit();
    driven.disk.check(&scratch, "full");
    for nth in 0..65_010 {
        let name = format!("d{nth}");
        driven.run(|fs| fs.remove_directory(parent, name.as_bytes(), &root_at(2))).unwrap();
        if nth % 1000 == 0 {
            driven.commit();
        }
        if matches!(nth, 20 | 30_000) {
            driven.commit();
            driven.disk.check(&scratch, &format!("{nth} removed"));
        }
    }
    driven.commit();
    driven.disk.check(&scratch, "empty");
    driven.run(|fs| fs.remove_directory(ROOT, b"parent", &root_at(2))).unwrap();
    driven.commit();
    driven.disk.check(&scratch, "gone");
    // Names of one file are never too many to be counted.
    let file = driven.make(ROOT, "file", FileKind::Regular).unwrap().ino;
    for nth in 1..65_000 {
        driven.run(|fs| fs.link(file, ROOT, format!("l{nth}").as_bytes(), &root_at(3))).unwrap();
    }
    let error = driven.run(|fs| fs.link(file, ROOT, b"one more", &root_at(3))).unwrap_err();
    assert_eq!(error.errno, Errno::TooManyLinks);
    driven.commit();
    driven.disk.check(&scratch, "links");
}

/// A file that has a block in each of 200 small groups and more extents than a root has room for.
fn scattered(driven: &mut Driven) -> Ino {
    let file = driven.make(ROOT, "scattered", FileKind::Regular).unwrap().ino;
    for nth in 0..200 {
        driven.write(file, nth * 250, 240, 3).unwrap();
        driven.commit();
    }
    let runs = driven.run(|fs| fs.map(file, 0, 60_000)).unwrap();
    assert!(runs.iter().filter(|run| matches!(run.place, Place::Written(_))).count() >= 200);
    file
}

#[test]
fn a_file_that_is_too_large_to_be_freed_at_once_goes_step_by_step_and_survives_stops() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("parked");
    let disk = Disk::made(&scratch, 256, &["-O", FEATURES, "-g", "256"]);
    let mut driven = Driven::mounted(disk, options());
    driven.commit();
    let free = driven.fs.statistics().free;
    let times = |of: &nearhead_ext4::Attributes| (of.modified, of.changed);
    let before = times(&driven.at("lost+found"));
    let file = scattered(&mut driven);
    driven.fs.hold(file);
    let removed = driven.run(|fs| fs.unlink(ROOT, b"scattered", &root_at(5))).unwrap();
    assert_eq!(removed, Removed { ino: file, is_gone: true });
    driven.commit();
    driven.disk.check(&scratch, "parked");
    // Held: it has no name, all its bytes, and nothing is freed.
    assert_eq!(driven.run(|fs| fs.attributes(file)).unwrap().links, 0);
    assert!(!driven.run(|fs| fs.work_off(&root_at(6))).unwrap());
    driven.write(file, 55_000, 2, 9).unwrap();
    assert_eq!(times(&driven.at("lost+found")), before, "no client changed it");
    driven.fs.release(file);
    let mut steps = 0;
    loop {
        let has_more = driven.run(|fs| fs.work_off(&root_at(6))).unwrap();
        steps += 1;
        assert!(driven.fs.changes_len() < 200, "{} blocks in one step", driven.fs.changes_len());
        driven.commit();
        driven.disk.check(&scratch, &format!("step {steps}"));
        if steps == 2 {
            // The machine stops: the next mount finds it and goes on.
            let disk = std::mem::take(&mut driven.disk);
            driven = Driven::mounted(disk, options());
        }
        if !has_more {
            break;
        }
    }
    assert!(steps > 3, "{steps}");
    assert_eq!(times(&driven.at("lost+found")), before, "no client changed it");
    assert_eq!(driven.run(|fs| fs.attributes(file)).unwrap_err().errno, Errno::NoEntry);
    assert_eq!(driven.fs.statistics().free, free);
}

/// Names that a client finds in a directory, one entry a listing.
fn listed(driven: &mut Driven, ino: Ino) -> Vec<Vec<u8>> {
    let (mut names, mut after) = (Vec::new(), 0);
    loop {
        let entries = driven.run(|fs| fs.read_directory(ino, after, 1)).unwrap();
        let Some(entry) = entries.into_iter().next() else { return names };
        after = entry.cookie;
        names.push(entry.name);
    }
}

#[test]
fn clients_see_no_name_of_a_parked_file() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("hidden");
    let disk = Disk::made(&scratch, 256, &["-O", FEATURES, "-g", "256"]);
    let mut driven = Driven::mounted(disk, options());
    let file = scattered(&mut driven);
    driven.fs.hold(file);
    driven.run(|fs| fs.unlink(ROOT, b"scattered", &root_at(5))).unwrap();
    let lost = driven.at("lost+found").ino;
    let own: [&[u8]; 2] = [b".", b".."];
    assert_eq!(listed(&mut driven, lost), own);
    let name = format!(".nearhead-removed-{}", file.0);
    let name = name.as_bytes();
    let errno = |error: nearhead_ext4::Error| error.errno;
    assert_eq!(driven.run(|fs| fs.lookup(lost, name)).map_err(errno), Err(Errno::NoEntry));
    assert_eq!(
        driven.run(|fs| fs.unlink(lost, name, &root_at(6))).map_err(errno),
        Err(Errno::NoEntry)
    );
    driven.make(ROOT, "other", FileKind::Regular).unwrap();
    let how = Rename::Replace;
    let over = driven.run(|fs| fs.rename(ROOT, b"other", lost, name, how, &root_at(6)));
    assert_eq!(over.map_err(errno), Err(Errno::Exists));
    // Its directory counts as empty; the file stays, and goes with its last reference.
    let free = driven.fs.statistics().free;
    driven.run(|fs| fs.remove_directory(ROOT, b"lost+found", &root_at(7))).unwrap();
    assert_eq!(listed(&mut driven, ROOT), [&own[..], &[b"other"]].concat());
    driven.commit();
    driven.disk.check(&scratch, "without lost+found");
    assert_eq!(driven.run(|fs| fs.attributes(file)).unwrap().links, 0);
    let disk = std::mem::take(&mut driven.disk);
    driven = Driven::mounted(disk, options());
    assert_eq!(listed(&mut driven, ROOT), [&own[..], &[b"other"]].concat());
    while driven.run(|fs| fs.work_off(&root_at(8))).unwrap() {
        driven.commit();
    }
    assert!(driven.fs.statistics().free > free, "a stop lets the file go");
    driven.commit();
    driven.disk.check(&scratch, "at the end");
}

#[test]
fn a_truncation_of_a_large_file_goes_step_by_step() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("truncated");
    let disk = Disk::made(&scratch, 256, &["-O", FEATURES, "-g", "256"]);
    let mut driven = Driven::mounted(disk, options());
    driven.commit();
    let file = scattered(&mut driven);
    let mut size = driven.at("scattered").size;
    let mut steps = 0;
    loop {
        let done = driven.run(|fs| fs.truncate(file, 5000, &root_at(7))).unwrap();
        assert!(driven.fs.changes_len() < 140, "{} blocks in one step", driven.fs.changes_len());
        driven.commit();
        driven.disk.check(&scratch, "a step");
        let now = driven.at("scattered").size;
        assert!(now < size);
        size = now;
        steps += 1;
        if done.is_complete {
            break;
        }
    }
    assert!(steps > 2 && size == 5000);
    let runs = driven.run(|fs| fs.map(file, 0, 2)).unwrap();
    assert!(matches!(runs[0].place, Place::Written(_)) && runs[0].len == 2);
}

#[test]
fn an_extent_tree_of_three_levels_takes_holes_anywhere() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("tree");
    let disk = Disk::made(&scratch, 256, &["-O", FEATURES]);
    let mut driven = Driven::mounted(disk, options());
    driven.commit();
    let free = driven.fs.statistics().free;
    let file = driven.make(ROOT, "holes", FileKind::Regular).unwrap().ino;
    // Every second block, from both ends.
    for nth in 0..2500_u64 {
        driven.write(file, 10_000 - 4 * nth, 1, 1).unwrap();
        driven.write(file, 10_002 + 4 * nth, 1, 2).unwrap();
    }
    driven.commit();
    driven.disk.check(&scratch, "holes");
    driven.write(file, 0, 20_001, 5).unwrap();
    driven.commit();
    driven.disk.check(&scratch, "filled");
    for nth in 0..1000_u64 {
        driven.run(|fs| fs.punch(file, 18 * nth, 7, &root_at(2))).unwrap();
    }
    driven.commit();
    driven.disk.check(&scratch, "punched");
    driven.run(|fs| fs.make_unwritten(file, 0, 20_001, &root_at(2))).unwrap();
    driven.commit();
    driven.disk.check(&scratch, "unwritten");
    driven.run(|fs| fs.punch(file, 10, 20_000, &root_at(2))).unwrap();
    driven.commit();
    driven.disk.check(&scratch, "cut");
    driven.run(|fs| fs.unlink(ROOT, b"holes", &root_at(2))).unwrap();
    driven.commit();
    assert_eq!(driven.fs.statistics().free, free);
    driven.disk.check(&scratch, "gone");
}

/// A volume of 20 TB, of which only what mkfs wrote is kept: as a sparse file where such files may be that large.
#[test]
fn a_volume_of_twenty_terabytes_opens_and_takes_files() {
    if !has_tools() {
        return;
    }
    let directory = std::path::Path::new("/dev/shm");
    let path = directory.join(format!("nearhead-ext4-{}-terabytes", std::process::id()));
    let is_large = std::fs::File::create(&path).is_ok_and(|file| file.set_len(20 << 40).is_ok());
    if !is_large {
        drop(std::fs::remove_file(&path));
        println!("skipped: /dev/shm takes no sparse file of 20 TiB");
        return;
    }
    let features = format!("{FEATURES},uninit_bg");
    let text = path.to_str().unwrap();
    let arguments =
        ["-q", "-F", "-O", &features, "-E", "lazy_itable_init=1,nodiscard", "-i", "1048576", text];
    let (code, said) = run("mkfs.ext4", &arguments);
    assert_eq!(code, Some(0), "{said}");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut large = LargeFile { file, reads: 0 };
    let first = large.block(0);
    let mut fs =
        Ext4::open(&first, 20 << 40, Options { cache_blocks_max: 4096, ..options() }).unwrap();
    large.run(&mut fs, |fs| fs.mount(driver::at(0)));
    assert!(large.reads < 3000, "{}", large.reads);
    for nth in 0..300 {
        let name = format!("directory-{nth}");
        let new =
            |kind| nearhead_ext4::NewNode { kind, mode: 0o755, umask: 0, device: 0, target: None };
        let made = large.run(&mut fs, |fs| {
            fs.make(ROOT, name.as_bytes(), &new(FileKind::Directory), &root_at(1))
        });
        let file = large
            .run(&mut fs, |fs| fs.make(made.ino, b"file", &new(FileKind::Regular), &root_at(1)));
        let runs = large.run(&mut fs, |fs| fs.allocate(file.ino, 0, 100_000, &root_at(1)));
        assert!(runs.len() < 12, "{}", runs.len());
        large.run(&mut fs, |fs| fs.grow(file.ino, 100_000 * BLOCK_BYTES as u64, &root_at(1)));
        large.commit(&mut fs);
    }
    large.run(&mut fs, |fs| {
        fs.rename(ROOT, b"directory-7", ROOT, b"moved", Rename::NoReplace, &root_at(2))
    });
    large.commit(&mut fs);
    drop(large);
    let (code, said) = run("e2fsck", &["-fn", text]);
    drop(std::fs::remove_file(&path));
    assert_eq!(code, Some(0), "{said}");
}

struct LargeFile {
    file: std::fs::File,
    reads: u64,
}

impl LargeFile {
    fn block(&mut self, block: u64) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        self.reads += 1;
        std::os::unix::fs::FileExt::read_exact_at(
            &self.file,
            &mut bytes,
            block * BLOCK_BYTES as u64,
        )
        .unwrap();
        bytes
    }

    fn run<T>(&mut self, fs: &mut Ext4, mut operation: impl FnMut(&mut Ext4) -> Outcome<T>) -> T {
        loop {
            match operation(fs) {
                Ok(answer) => return answer,
                Err(Stop::Wants(blocks)) => {
                    for block in blocks {
                        let bytes = self.block(block);
                        fs.give(block, std::sync::Arc::new(bytes));
                    }
                }
                Err(Stop::Fails(error)) => panic!("{error}"),
            }
        }
    }

    fn commit(&mut self, fs: &mut Ext4) {
        let changes = fs.take_changes();
        for (block, bytes) in &changes.blocks {
            let at = block * BLOCK_BYTES as u64;
            std::os::unix::fs::FileExt::write_all_at(&self.file, &**bytes, at).unwrap();
        }
        fs.settle(changes.id);
    }
}

#[test]
fn an_inode_freed_before_any_client_told_the_time_is_clean() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("no-time");
    let disk = Disk::made(&scratch, 16, &["-O", FEATURES, "-N", "64"]);
    let mut driven = Driven::mounted(disk, options());
    let new = NewNode { kind: FileKind::Regular, mode: 0o600, umask: 0, device: 0, target: None };
    driven.run(|fs| fs.make_nameless(ROOT, &new, &root_at(1))).unwrap();
    driven.commit();
    let disk = std::mem::take(&mut driven.disk);
    driven = Driven::mounted(disk, options());
    let caller = Caller { uid: 0, gid: 0, now: Timestamp::default() };
    while driven.run(|fs| fs.work_off(&caller)).unwrap() {}
    driven.commit();
    driven.disk.check(&scratch, "after the mount");
}
