//! An ext4 image, changed anywhere, opened, mounted and used.
//!
//! The laws: no content of an image makes an operation panic or ask for blocks for ever; no block behind the volume's end
//! is wanted or changed; an operation that stops has changed nothing. As long as nothing was changed, nothing is corrupt.

use crate::input::Input;
use nearhead_ext4::{
    AttributeChange, BLOCK_BYTES, BlockBytes, Caller, Errno, Error, Ext4, FileKind, Ino, NewNode,
    Options, Outcome, ROOT, Rename, Stop, Timestamp, XattrSet, sample,
};
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCKS: u32 = 1000;
/// Byte of the superblock with the bit that says that there are checksums, and the bit.
const CHECKSUMS_AT: usize = 1024 + 0x65;
const CHECKSUMS: u8 = 0x04;
const PATCHES_MAX: u8 = 12;
const OPERATIONS_MAX: u32 = 40;
/// Far more than any operation needs on so small an image.
const RESTARTS_MAX: u32 = 4000;
const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };
const CALLER: Caller = Caller { uid: 0, gid: 0, now: NOW };

type Disk = BTreeMap<u64, BlockBytes>;

/// An image with something of every kind, and its inodes.
struct Base {
    disk: Disk,
    inos: Vec<Ino>,
    /// Blocks that are not all zeros, and where each is not.
    metadata: Vec<(u64, Vec<usize>)>,
}

thread_local! {
    static BASE: LazyCell<Base> = LazyCell::new(Base::new);
}

fn options() -> Options {
    Options { read_only: false, cache_blocks_max: 1024, seed: 3 }
}

fn new_node(kind: FileKind) -> NewNode {
    let target = (kind == FileKind::Symlink).then(|| vec![b'x'; 90]);
    NewNode { kind, mode: 0o755, umask: 0, device: 0x501, target }
}

impl Base {
    fn new() -> Self {
        let mut disk = sample::image(BLOCKS, [5; 16], NOW).expect("an image of a size that may be");
        let first = disk[&0].clone();
        let opened = Ext4::open(&*first, u64::from(BLOCKS) * BLOCK_BYTES as u64, options());
        let mut fs = opened.expect("an image as it was made");
        let inos = fill(&mut fs, &disk).expect("an image as it was made has room");
        disk.extend(fs.take_changes().blocks);
        let used = |bytes: &BlockBytes| (0..BLOCK_BYTES).filter(|at| bytes[*at] != 0).collect();
        let metadata = disk.iter().map(|(block, bytes)| (*block, used(bytes))).collect();
        Self { disk, inos, metadata }
    }
}

fn fill(fs: &mut Ext4, disk: &Disk) -> Result<Vec<Ino>, Error> {
    settled(fs, disk, |fs| fs.mount(NOW))?;
    let mut make = |parent: Ino, name: &str, kind| {
        settled(fs, disk, |fs| fs.make(parent, name.as_bytes(), &new_node(kind), &CALLER))
            .map(|made| made.ino)
    };
    let directory = make(ROOT, "directory", FileKind::Directory)?;
    let below = make(directory, "below", FileKind::Directory)?;
    let file = make(ROOT, "file", FileKind::Regular)?;
    let link = make(ROOT, "link", FileKind::Symlink)?;
    for nth in 0..40 {
        make(directory, &format!("{nth:0100}"), FileKind::Fifo)?;
    }
    for nth in 0..30 {
        settled(fs, disk, |fs| fs.allocate(file, 2 * nth, 1, &CALLER))?;
    }
    settled(fs, disk, |fs| fs.reserve(file, 100, 9, true, &CALLER))?;
    settled(fs, disk, |fs| fs.grow(file, 60 * BLOCK_BYTES as u64, &CALLER))?;
    let value = [7; 900];
    settled(fs, disk, |fs| fs.set_xattr(file, b"user.a", &value, XattrSet::Any, &CALLER))?;
    settled(fs, disk, |fs| fs.set_xattr(below, b"user.b", b"1", XattrSet::Any, &CALLER))?;
    Ok(vec![ROOT, directory, below, file, link])
}

/// Repeats an operation until it has what it wants, and holds it to the laws.
fn settled<T>(
    fs: &mut Ext4,
    disk: &Disk,
    mut operation: impl FnMut(&mut Ext4) -> Outcome<T>,
) -> Result<T, Error> {
    let before = (fs.is_changed(), fs.changes_len());
    for _ in 0..RESTARTS_MAX {
        let stop = match operation(fs) {
            Ok(answer) => return Ok(answer),
            Err(stop) => stop,
        };
        assert_eq!(before, (fs.is_changed(), fs.changes_len()), "it stopped and changed something");
        match stop {
            Stop::Fails(error) => return Err(error),
            Stop::Wants(blocks) => {
                assert!(!blocks.is_empty(), "it wants nothing and does not go on");
                for block in blocks {
                    assert!(block < u64::from(BLOCKS), "it wants block {block}");
                    let zeros = || Arc::new([0; BLOCK_BYTES]);
                    fs.give(block, disk.get(&block).cloned().unwrap_or_else(zeros));
                }
            }
        }
    }
    panic!("an operation never has all that it wants");
}

/// A choice, a number of patches, the patches, and what is done with the image.
pub(crate) fn run(bytes: &[u8]) {
    BASE.with(|base| {
        let mut input = Input::new(bytes);
        let mut disk = base.disk.clone();
        let choice = input.byte();
        if choice & 1 == 1 {
            change(&mut disk, 0, |block| block[CHECKSUMS_AT] &= !CHECKSUMS);
        }
        let patches = input.byte() % (PATCHES_MAX + 1);
        for _ in 0..patches {
            let (block, used) = &base.metadata[usize::from(input.byte()) % base.metadata.len()];
            // Where something stands, for most of a block is zeros that nobody reads.
            let at = used[usize::from(input.half()) % used.len()];
            let len = usize::from(input.byte() % 4) + 1;
            let new = input.take(len);
            change(&mut disk, *block, |block| {
                let end = BLOCK_BYTES.min(at + new.len());
                block[at..end].copy_from_slice(&new[..end - at]);
            });
        }
        let first = disk[&0].clone();
        let volume_bytes = u64::from(BLOCKS) * BLOCK_BYTES as u64;
        let Ok(mut fs) = Ext4::open(&*first, volume_bytes, options()) else { return };
        let errors = use_it(&mut fs, &mut disk, &base.inos, &mut input);
        let corrupt = errors.iter().find(|error| error.errno == Errno::Corrupt);
        assert!(patches > 0 || corrupt.is_none(), "{corrupt:?} in an image as it was made");
    });
}

fn change(disk: &mut Disk, block: u64, change: impl FnOnce(&mut [u8; BLOCK_BYTES])) {
    if let Some(bytes) = disk.get_mut(&block) {
        change(Arc::make_mut(bytes));
    }
}

fn use_it(fs: &mut Ext4, disk: &mut Disk, inos: &[Ino], input: &mut Input<'_>) -> Vec<Error> {
    let mut errors: Vec<Error> = settled(fs, disk, |fs| fs.mount(NOW)).err().into_iter().collect();
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        let number = input.byte();
        let pick = input.byte();
        let ino = inos[usize::from(pick) % inos.len()];
        let other = inos[usize::from(pick >> 4) % inos.len()];
        let (first, count) = (u64::from(input.byte()), u64::from(input.byte()));
        if number % 24 == 23 {
            let changes = fs.take_changes();
            assert!(changes.blocks.keys().all(|block| *block < u64::from(BLOCKS)));
            disk.extend(changes.blocks);
            fs.settle(changes.id);
            continue;
        }
        errors.extend(operate(fs, disk, number % 24, (ino, other), (first, count)).err());
    }
    errors
}

fn operate(
    fs: &mut Ext4,
    disk: &Disk,
    number: u8,
    (ino, other): (Ino, Ino),
    (first, count): (u64, u64),
) -> Result<(), Error> {
    let name = format!("{:0100}", first % 50).into_bytes();
    let name = match first % 7 {
        0 => b"file".to_vec(),
        1 => b"directory".to_vec(),
        2 => b"below".to_vec(),
        3 => b"link".to_vec(),
        _ => name,
    };
    let how = [Rename::Replace, Rename::NoReplace, Rename::Exchange][(count % 3) as usize];
    let kind = [FileKind::Regular, FileKind::Directory, FileKind::Symlink][(count % 3) as usize];
    let change = AttributeChange { mode: Some(count as u16), ..AttributeChange::default() };
    let value = vec![1; (first * 9) as usize];
    match number {
        0 => settled(fs, disk, |fs| fs.lookup(ino, &name)).map(drop),
        1 => settled(fs, disk, |fs| fs.attributes(ino)).map(drop),
        2 => settled(fs, disk, |fs| fs.read_directory(ino, first * 50, 60)).map(drop),
        3 => settled(fs, disk, |fs| fs.read_link(ino)).map(drop),
        4 => settled(fs, disk, |fs| fs.make(ino, &name, &new_node(kind), &CALLER)).map(drop),
        5 => settled(fs, disk, |fs| fs.link(ino, other, &name, &CALLER)).map(drop),
        6 => settled(fs, disk, |fs| fs.unlink(ino, &name, &CALLER)).map(drop),
        7 => settled(fs, disk, |fs| fs.remove_directory(ino, &name, &CALLER)).map(drop),
        8 => settled(fs, disk, |fs| fs.rename(ino, &name, other, b"file", how, &CALLER)).map(drop),
        9 => settled(fs, disk, |fs| fs.rename(ino, b"below", other, &name, how, &CALLER)).map(drop),
        10 => settled(fs, disk, |fs| fs.map(ino, first, count << (first % 40))).map(drop),
        11 => settled(fs, disk, |fs| fs.allocate(ino, first, count, &CALLER)).map(drop),
        12 => settled(fs, disk, |fs| fs.truncate(ino, first << (count % 30), &CALLER)).map(drop),
        13 => settled(fs, disk, |fs| fs.reserve(ino, first, count, false, &CALLER)),
        14 => settled(fs, disk, |fs| fs.punch(ino, first, count, &CALLER)),
        15 => settled(fs, disk, |fs| fs.make_unwritten(ino, first, count, &CALLER)),
        16 => settled(fs, disk, |fs| fs.list_xattrs(ino)).map(drop),
        17 => settled(fs, disk, |fs| fs.get_xattr(ino, b"user.a")).map(drop),
        18 => settled(fs, disk, |fs| fs.set_xattr(ino, b"user.a", &value, XattrSet::Any, &CALLER)),
        19 => settled(fs, disk, |fs| fs.remove_xattr(ino, b"user.a", &CALLER)),
        20 => settled(fs, disk, |fs| fs.set_attributes(ino, &change, &CALLER)).map(drop),
        21 => {
            fs.hold(ino);
            Ok(())
        }
        _ => {
            fs.release(ino);
            settled(fs, disk, |fs| fs.work_off(&CALLER)).map(drop)
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let all = |choice: u8, patches: &[u8]| {
        let mut bytes = vec![choice];
        bytes.extend(patches);
        for number in 0..24_u8 {
            bytes.extend([number, number.wrapping_mul(37), number * 3, 20]);
        }
        bytes
    };
    vec![
        // As it was made, with and without checksums.
        all(0, &[0]),
        all(1, &[0]),
        // A byte of a block each, in the blocks' order: descriptors, inodes, entries, extents, attributes.
        all(0, &[1, 1, 3, 0, 0, 9]),
        all(1, &[1, 4, 0x28, 0, 1, 3, 0xF3]),
        all(1, &[2, 8, 4, 0, 0, 9, 9, 4, 0, 0, 0xFF]),
        all(1, &[3, 10, 4, 0, 0, 9, 11, 8, 0, 0, 0xFF, 12, 6, 0, 3, 0xFF, 0xFF, 0xFF, 0xFF]),
    ]
}
