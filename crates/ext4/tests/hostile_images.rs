//! Images that are not ours to serve, and images with wrong bits: errors that say what and where, never a panic.

#![allow(clippy::unwrap_used, reason = "tests")]

mod driver;

use driver::{Disk, Driven, FEATURES, Scratch, has_tools, options, root_at};
use nearhead_basics::SplitMix;
use nearhead_ext4::{
    BLOCK_BYTES, Errno, Error, Ext4, FileKind, Ino, OpenError, Outcome, ROOT, Rename, Stop,
    XattrSet,
};
use std::sync::Arc;

fn opened(disk: &Disk) -> Result<Ext4, OpenError> {
    Ext4::open(&*disk.block(0), disk.len * BLOCK_BYTES as u64, options())
}

#[test]
fn what_is_not_supported_is_refused_by_name_with_what_to_do() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("refused");
    for (arguments, words) in [
        (&["-O", "^dir_index,^resize_inode"][..], &["has_journal", "tune2fs"][..]),
        (&["-O", "^has_journal,^resize_inode"], &["dir_index", "e2fsck -fD"]),
        (&["-O", "^has_journal,^dir_index"], &["resize_inode", "tune2fs"]),
        (&["-O", "^has_journal,^dir_index,^resize_inode,inline_data"], &["inline_data", "mkfs"]),
        (&["-O", "^has_journal,^dir_index,^resize_inode,encrypt"], &["encrypt", "mkfs"]),
        (&["-O", "^has_journal,^dir_index,^resize_inode,bigalloc"], &["bigalloc", "mkfs"]),
        (&["-O", "^has_journal,^dir_index,^resize_inode,quota"], &["quota", "tune2fs"]),
        (&["-O", "^has_journal,^dir_index,^resize_inode,meta_bg"], &["meta_bg", "mkfs"]),
        (&["-O", "^has_journal,^dir_index,^resize_inode,ea_inode"], &["ea_inode", "mkfs"]),
        (&["-O", "^has_journal,^dir_index,^resize_inode,^extents,^64bit"], &["lacks", "extents"]),
        (&["-O", FEATURES, "-I", "128"], &["256 bytes", "128"]),
        (&["-O", FEATURES, "-b", "1024"], &["4096 bytes", "1024"]),
    ] {
        let disk = Disk::made(&scratch, 64, arguments);
        let Err(OpenError::Refused(said)) = opened(&disk) else { panic!("{arguments:?}") };
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }
}

#[test]
fn an_image_that_is_not_clean_not_whole_or_not_there_is_refused() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("not-clean");
    let plain = ["-O", "^has_journal,^dir_index,^resize_inode,^metadata_csum"];
    let made = Disk::made(&scratch, 16, &plain);
    let with = |at: usize, byte: u8| {
        let mut disk = made.clone();
        let mut block = *disk.block(0);
        block[1024 + at] = byte;
        disk.write(0, Arc::new(block));
        opened(&disk)
    };
    assert!(opened(&made).is_ok());
    for state in [0, 2, 3] {
        let Err(OpenError::NotClean(said)) = with(0x3A, state) else { panic!("{state}") };
        assert!(said.contains("e2fsck"), "{said}");
    }
    assert!(matches!(with(0xE8, 12), Err(OpenError::NotClean(_))));
    assert!(matches!(with(0x38, 0), Err(OpenError::NotExt4(_))));
    assert!(matches!(with(0x60, 0xC2 | 0x20), Err(OpenError::Refused(_))));
    let mut short = made;
    short.len /= 2;
    let Err(OpenError::Corrupt(said)) = opened(&short) else { panic!() };
    assert!(said.contains("4096 blocks, the volume has 2048"), "{said}");
}

/// An image with something of every kind.
fn populated(scratch: &Scratch) -> (Disk, Vec<Ino>) {
    let disk = Disk::made(scratch, 16, &["-O", FEATURES, "-g", "1024"]);
    let mut driven = Driven::mounted(disk, options());
    let directory = driven.make(ROOT, "directory", FileKind::Directory).unwrap().ino;
    let mut inos = vec![ROOT, directory];
    for nth in 0..300 {
        let name = format!("a name that is long enough to fill blocks {nth}");
        driven.make(directory, &name, FileKind::Fifo).unwrap();
    }
    let file = driven.make(ROOT, "file", FileKind::Regular).unwrap().ino;
    for nth in 0..400 {
        driven.write(file, nth * 2, 1, 1).unwrap();
    }
    driven.run(|fs| fs.set_xattr(file, b"user.x", &[1; 2000], XattrSet::Any, &root_at(1))).unwrap();
    let target = Some(vec![b'x'; 200]);
    let new =
        nearhead_ext4::NewNode { kind: FileKind::Symlink, mode: 0, umask: 0, device: 0, target };
    let link = driven.run(|fs| fs.make(ROOT, b"link", &new, &root_at(1))).unwrap().ino;
    inos.extend([file, link]);
    driven.commit();
    driven.disk.check(scratch, "populated");
    (driven.disk, inos)
}

/// Runs an operation a bounded number of times; blocks behind the end are an error of the image.
fn tried<T>(
    fs: &mut Ext4,
    disk: &Disk,
    mut operation: impl FnMut(&mut Ext4) -> Outcome<T>,
) -> Result<T, Error> {
    for _ in 0..10_000 {
        match operation(fs) {
            Ok(answer) => return Ok(answer),
            Err(Stop::Fails(error)) => return Err(error),
            Err(Stop::Wants(blocks)) => {
                assert!(!blocks.is_empty());
                for block in blocks {
                    assert!(block < disk.len, "wants block {block}");
                    disk.wanted.borrow_mut().insert(block);
                    fs.give(block, disk.block(block));
                }
            }
        }
    }
    panic!("an operation never has all that it wants");
}

/// Uses everything in an image; gives the errors.
fn use_all(fs: &mut Ext4, disk: &Disk, inos: &[Ino]) -> Vec<Error> {
    let mut errors: Vec<Error> = Vec::new();
    let now = root_at(5);
    let mut note = |error: Option<Error>| errors.extend(error);
    note(tried(fs, disk, |fs| fs.mount(driver::at(1))).err());
    for ino in inos {
        note(tried(fs, disk, |fs| fs.attributes(*ino)).err());
        note(tried(fs, disk, |fs| fs.lookup(*ino, b"absent")).err());
        let mut after = 0;
        for _ in 0..100 {
            match tried(fs, disk, |fs| fs.read_directory(*ino, after, 100)) {
                Ok(entries) => {
                    for entry in &entries {
                        note(tried(fs, disk, |fs| fs.attributes(entry.ino)).err());
                    }
                    match entries.last() {
                        Some(last) if last.cookie > after => after = last.cookie,
                        _ => break,
                    }
                }
                Err(error) => {
                    note(Some(error));
                    break;
                }
            }
        }
        note(tried(fs, disk, |fs| fs.read_link(*ino)).err());
        note(tried(fs, disk, |fs| fs.list_xattrs(*ino)).err());
        note(tried(fs, disk, |fs| fs.map(*ino, 0, 2000)).err());
        note(
            tried(fs, disk, |fs| fs.set_xattr(*ino, b"user.n", &[2; 90], XattrSet::Any, &now))
                .err(),
        );
        note(tried(fs, disk, |fs| fs.allocate(*ino, 3, 500, &now)).err());
        note(tried(fs, disk, |fs| fs.punch(*ino, 5, 20, &now)).err());
        let new = nearhead_ext4::NewNode {
            kind: FileKind::Directory,
            mode: 0o755,
            umask: 0,
            device: 0,
            target: None,
        };
        note(tried(fs, disk, |fs| fs.make(*ino, b"new", &new, &now)).err());
        note(tried(fs, disk, |fs| fs.truncate(*ino, 100, &now)).err());
    }
    let (root, directory) = (inos[0], inos[1]);
    note(
        tried(fs, disk, |fs| {
            fs.rename(root, b"directory", directory, b"loop", Rename::Replace, &now)
        })
        .err(),
    );
    note(tried(fs, disk, |fs| fs.unlink(root, b"link", &now)).err());
    note(tried(fs, disk, |fs| fs.unlink(root, b"file", &now)).err());
    note(tried(fs, disk, |fs| fs.remove_directory(root, b"new", &now)).err());
    note(tried(fs, disk, |fs| fs.work_off(&now)).err());
    drop(fs.take_changes());
    errors
}

/// Blocks of an image that somebody who uses everything wants, but for those that are all zeros.
fn metadata(disk: &Disk, inos: &[Ino]) -> Vec<u64> {
    let mut fs = opened(disk).unwrap();
    let errors = use_all(&mut fs, disk, inos);
    assert!(errors.iter().all(|error| error.errno != Errno::Corrupt), "{errors:?}");
    let mut wanted = disk.wanted.borrow().clone();
    wanted.insert(0);
    wanted.into_iter().filter(|block| disk.blocks.contains_key(block)).collect()
}

#[test]
fn a_bit_that_flips_anywhere_in_metadata_is_never_more_than_an_error_that_says_where() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("flipped");
    let (disk, inos) = populated(&scratch);
    let blocks = metadata(&disk, &inos);
    let mut random = SplitMix::new(11);
    let (mut tries, mut detected) = (0, 0);
    for nth in 0..2000 {
        let block = blocks[nth % blocks.len()];
        let mut bytes = *disk.block(block);
        let used: Vec<usize> = (0..BLOCK_BYTES).filter(|at| bytes[*at] != 0).collect();
        let at = used[random.below(used.len() as u64) as usize];
        bytes[at] ^= 1 << random.below(8);
        let mut wrong = disk.clone();
        wrong.write(block, Arc::new(bytes));
        tries += 1;
        let Ok(mut fs) = opened(&wrong) else {
            detected += 1;
            continue;
        };
        let errors = use_all(&mut fs, &wrong, &inos);
        let corrupt: Vec<&Error> =
            errors.iter().filter(|error| error.errno == Errno::Corrupt).collect();
        detected += usize::from(!corrupt.is_empty());
        assert!(corrupt.iter().all(|error| error.detail.contains("e2fsck")), "{corrupt:?}");
    }
    // No checksum covers the rest of a bitmap behind its group's bits, the target of a link, or an inode that a wrong
    // bit lets look unused.
    assert!(detected * 100 > tries * 80, "{detected} of {tries}");
}

/// Names itself when a panic goes through it.
struct Round(usize);

impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("in round {} of SEED={}", self.0, seed());
        }
    }
}

/// More of them on demand: `ROUNDS=100000 SEED=7`.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

fn seed() -> u64 {
    std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// Without checksums nothing but the checks of what the bytes say stands between them and us.
#[test]
fn wrong_bytes_without_checksums_are_never_more_than_an_error() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("garbage");
    let (disk, inos) = populated(&scratch);
    let blocks = metadata(&disk, &inos);
    let mut random = SplitMix::new(seed());
    for nth in 0..rounds() {
        let mut wrong = disk.clone();
        // No checksums from now on: the feature goes. Tails of directories look like entries that are room.
        let mut first = *wrong.block(0);
        first[1024 + 0x65] &= !0x04;
        wrong.write(0, Arc::new(first));
        for _ in 0..=random.below(3) {
            let block = blocks[(nth + random.below(3) as usize) % blocks.len()];
            let mut bytes = *wrong.block(block);
            for _ in 0..=random.below(4) {
                let used: Vec<usize> = (0..BLOCK_BYTES).filter(|at| bytes[*at] != 0).collect();
                let at = match used.len() as u64 {
                    0 => random.below(BLOCK_BYTES as u64) as usize,
                    len => used[random.below(len) as usize],
                };
                let interesting = [0, 1, 0x7F, 0x80, 0xFF, random.next_u64() as u8];
                bytes[at] = interesting[random.below(6) as usize];
            }
            wrong.write(block, Arc::new(bytes));
        }
        if let Ok(mut fs) = opened(&wrong) {
            // Whatever panics says which round of which seed it was.
            let _round = Round(nth);
            use_all(&mut fs, &wrong, &inos);
        }
    }
}
