//! What is on a file system before the clock starts: folders and files with their blocks, made in memory by the same code that serves.
//!
//! Bytes of files are not written: blocks that count as written hold zeros on a new disk. Where things lie is the allocator's choice, as
//! on a file system in use: each folder in the root goes to a group of its own, and what is made in it stays near.

use crate::error::FigureError;
use crate::files::bench::caller_at;
use nearhead_disk::Nanos;
use nearhead_ext4::{
    BLOCK_BYTES, BlockBytes, Ext4, FileKind, Ino, NewNode, Options, Outcome, ROOT, Stop, XattrSet,
    blank,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Inodes of a group of 128 MiB.
const INODES_PER_GROUP: u32 = 1024;
/// Blocks given to a file in one step.
const STEP_BLOCKS: u64 = 16_384;
/// Changed blocks that wait at most.
const CHANGES_MAX: usize = 4096;
/// The attribute of durability-only files (docs/file-system.md).
const DURABILITY: (&[u8], &[u8]) = (b"user.nearhead.durability", b"only");

/// A file system that is being made.
pub(crate) struct Image {
    fs: Ext4,
    blocks: BTreeMap<u64, BlockBytes>,
}

impl Image {
    /// An empty one on so many bytes; what is over after the last whole group stays unused.
    pub(crate) fn blank(size_bytes: u64, seed: u64) -> Result<Self, FigureError> {
        let failed = |error: &dyn ToString| {
            FigureError::setup("an empty file system in memory", &error.to_string())
        };
        let groups = size_bytes / (blank::GROUP_BLOCKS * BLOCK);
        let now = caller_at(Nanos::ZERO).now;
        let groups = u32::try_from(groups).unwrap_or(u32::MAX);
        let blocks = blank::image(groups, INODES_PER_GROUP, *b"nearhead figures", now)
            .map_err(|error| failed(&error))?;
        let first = blocks.get(&0).ok_or_else(|| failed(&"it has no superblock"))?;
        let options = Options { read_only: false, cache_blocks_max: 1 << 16, seed };
        let fs = Ext4::open(&first[..], size_bytes, options).map_err(|error| failed(&error))?;
        let mut image = Self { fs, blocks };
        image.run(|fs| fs.mount(now))?;
        Ok(image)
    }

    /// A folder in the root.
    pub(crate) fn folder(&mut self, name: &str) -> Result<Ino, FigureError> {
        self.make(ROOT, name, FileKind::Directory)
    }

    /// A file of so many bytes, all of them written.
    pub(crate) fn file(&mut self, folder: Ino, name: &str, bytes: u64) -> Result<Ino, FigureError> {
        let ino = self.make(folder, name, FileKind::Regular)?;
        let (caller, blocks) = (caller_at(Nanos::ZERO), bytes.div_ceil(BLOCK));
        let mut first = 0;
        while first < blocks {
            let count = STEP_BLOCKS.min(blocks - first);
            self.run(|fs| fs.allocate(ino, first, count, &caller))?;
            first += count;
            self.run(|fs| fs.grow(ino, bytes.min(first * BLOCK), &caller))?;
        }
        Ok(ino)
    }

    /// What is written to this file is needed after a crash only.
    pub(crate) fn set_durability_only(&mut self, ino: Ino) -> Result<(), FigureError> {
        let (caller, (name, value)) = (caller_at(Nanos::ZERO), DURABILITY);
        self.run(|fs| fs.set_xattr(ino, name, value, XattrSet::Any, &caller))
    }

    /// The blocks that are not all zeros.
    pub(crate) fn into_blocks(mut self) -> BTreeMap<u64, BlockBytes> {
        self.commit();
        self.blocks
    }

    fn make(&mut self, parent: Ino, name: &str, kind: FileKind) -> Result<Ino, FigureError> {
        let mode = if kind == FileKind::Directory { 0o755 } else { 0o644 };
        let new = NewNode { kind, mode, umask: 0, device: 0, target: None };
        let caller = caller_at(Nanos::ZERO);
        Ok(self.run(|fs| fs.make(parent, name.as_bytes(), &new, &caller))?.ino)
    }

    fn run<T>(&mut self, mut step: impl FnMut(&mut Ext4) -> Outcome<T>) -> Result<T, FigureError> {
        if self.fs.changes_len() > CHANGES_MAX {
            self.commit();
        }
        loop {
            match step(&mut self.fs) {
                Ok(done) => return Ok(done),
                Err(Stop::Wants(wanted)) => {
                    for block in wanted {
                        let zeros = || Arc::new([0; BLOCK_BYTES]);
                        let bytes = self.blocks.get(&block).cloned().unwrap_or_else(zeros);
                        self.fs.give(block, bytes);
                    }
                }
                Err(Stop::Fails(error)) => {
                    return Err(FigureError::setup("a file system in memory", &error));
                }
            }
        }
    }

    fn commit(&mut self) {
        let changes = self.fs.take_changes();
        self.blocks.extend(changes.blocks);
        self.fs.settle(changes.id);
    }
}
