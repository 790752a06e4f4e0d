//! One operation: what it reads is what was before, with its own changes over it; at its end all of them count, or none.
//!
//! Blocks, freed and reserved ranges, inodes that live in memory, and what the name indexes must learn are all kept here
//! until [`Transaction::merge`]. An operation that stops drops the transaction, and nothing has happened. What may stay of a
//! stopped operation is knowledge alone: that a block was understood, how far an index was built.

use crate::Ext4;
use crate::cache::Kind;
use crate::checksum::Sums;
use crate::error::{Errno, Outcome, Stop, corrupt, fail};
use crate::group::{self, Descriptor};
use crate::index::IndexChange;
use crate::orphan::Orphan;
use crate::ranges::Ranges;
use crate::types::{BLOCK_BYTES, BlockBytes, Caller, Ino};
use crate::verify::verify;
use nearhead_basics::NumberHash;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// A block that the operation changed, or that is no metadata any more.
enum Over {
    Bytes(Kind, BlockBytes),
    Forgotten,
}

pub(crate) struct Transaction<'a> {
    pub(crate) fs: &'a mut Ext4,
    blocks: HashMap<u64, Over, NumberHash>,
    /// Those that are new: what they were on the disk is unknown.
    fresh: BTreeSet<u64>,
    pub(crate) freed: Ranges,
    /// Blocks that became unwritten where they are.
    pub(crate) unwritten: Ranges,
    pub(crate) reserved_more: Ranges,
    pub(crate) reserved_less: Ranges,
    pub(crate) orphans: BTreeMap<Ino, Orphan>,
    /// Changes of the parked files: directory of the name of ours, or none any more.
    pub(crate) parked: BTreeMap<Ino, Option<Ino>>,
    pub(crate) index_changes: Vec<IndexChange>,
    /// How many inodes it made: their generations follow from it.
    pub(crate) inodes_made: u64,
    /// Where the search for blocks goes on in a group.
    pub(crate) cursors: Vec<(u32, u64)>,
    /// It may have the blocks that are kept for root.
    pub(crate) is_privileged: bool,
}

impl Ext4 {
    /// Runs an operation; it counts if it gives a result.
    pub(crate) fn run<T>(
        &mut self,
        operation: impl FnOnce(&mut Transaction<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        if !self.is_mounted {
            return Err(fail(Errno::Invalid, "the file system is not mounted"));
        }
        self.run_unmounted(operation)
    }

    /// The same, before and while it is mounted.
    pub(crate) fn run_unmounted<T>(
        &mut self,
        operation: impl FnOnce(&mut Transaction<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut transaction = Transaction::new(self);
        let answer =
            operation(&mut transaction).and_then(|value| transaction.check_limit().map(|()| value));
        if answer.is_ok() {
            transaction.merge();
        }
        if !matches!(answer, Err(Stop::Wants(_))) {
            self.cache.wanted_are_used();
        }
        answer
    }

    /// The same for what changes something on behalf of somebody at some time.
    pub(crate) fn run_change<T>(
        &mut self,
        caller: &Caller,
        operation: impl FnOnce(&mut Transaction<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        if self.options.read_only {
            return Err(fail(Errno::ReadOnly, "the file system is mounted read-only"));
        }
        self.last_change = self.last_change.max(caller.now);
        let is_privileged = caller.uid == 0;
        self.run(|transaction| {
            transaction.is_privileged = is_privileged;
            operation(transaction)
        })
    }
}

impl<'a> Transaction<'a> {
    fn new(fs: &'a mut Ext4) -> Self {
        Self {
            fs,
            blocks: HashMap::default(),
            fresh: BTreeSet::new(),
            freed: Ranges::default(),
            unwritten: Ranges::default(),
            reserved_more: Ranges::default(),
            reserved_less: Ranges::default(),
            orphans: BTreeMap::new(),
            parked: BTreeMap::new(),
            index_changes: Vec::new(),
            inodes_made: 0,
            cursors: Vec::new(),
            is_privileged: true,
        }
    }

    /// A block as what it is supposed to be.
    pub(crate) fn read(&mut self, block: u64, kind: Kind) -> Outcome<BlockBytes> {
        if let Some(Over::Bytes(known, bytes)) = self.blocks.get(&block) {
            return if *known == kind { Ok(bytes.clone()) } else { Err(two_uses(block)) };
        }
        if block >= self.fs.geometry.blocks {
            return Err(corrupt(format!(
                "block {block}: {kind:?}: expected a block below {}",
                self.fs.geometry.blocks
            )));
        }
        let descriptor = match kind {
            Kind::BlockBitmap(group) | Kind::InodeBitmap(group) => Some(group),
            _ => None,
        };
        let Some(slot) = self.fs.cache.get(block) else {
            return Err(Stop::Wants(vec![block]));
        };
        if slot.kind == Some(kind) {
            return Ok(slot.bytes.clone());
        }
        // What is changed or in flight is known to be something else.
        if slot.is_changed {
            return Err(two_uses(block));
        }
        let bytes = slot.bytes.clone();
        let descriptor = descriptor.map(|group| self.descriptor(group)).transpose()?;
        verify(&self.fs.geometry, block, kind, &bytes, descriptor.as_ref())?;
        if let Some(slot) = self.fs.cache.get(block) {
            slot.kind = Some(kind);
        }
        Ok(bytes)
    }

    /// Whether it can be read without being given first.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.blocks.contains_key(&block) || self.fs.cache.contains(block)
    }

    /// The same to be changed.
    pub(crate) fn change(&mut self, block: u64, kind: Kind) -> Outcome<&mut [u8; BLOCK_BYTES]> {
        if self.fs.options.read_only {
            return Err(fail(Errno::ReadOnly, "the file system is mounted read-only"));
        }
        if !matches!(self.blocks.get(&block), Some(Over::Bytes(known, _)) if *known == kind) {
            let bytes = self.read(block, kind)?;
            self.blocks.insert(block, Over::Bytes(kind, bytes));
        }
        match self.blocks.get_mut(&block) {
            Some(Over::Bytes(_, bytes)) => Ok(Arc::make_mut(bytes)),
            _ => Err(two_uses(block)),
        }
    }

    /// A block that becomes this, all zeros, whatever it was.
    pub(crate) fn fresh(&mut self, block: u64, kind: Kind) -> Outcome<&mut [u8; BLOCK_BYTES]> {
        if self.fs.options.read_only {
            return Err(fail(Errno::ReadOnly, "the file system is mounted read-only"));
        }
        self.blocks.insert(block, Over::Bytes(kind, Arc::new([0; BLOCK_BYTES])));
        self.fresh.insert(block);
        self.change(block, kind)
    }

    /// The block is no metadata any more.
    pub(crate) fn forget(&mut self, block: u64) {
        self.blocks.insert(block, Over::Forgotten);
    }

    /// Where a group's descriptor is: block and offset.
    fn place_of(&self, group: u32) -> (u64, usize, Kind) {
        let size = self.fs.geometry.descriptor_bytes;
        let per_block = (BLOCK_BYTES / size) as u32;
        let nth = group / per_block;
        (1 + u64::from(nth), (group % per_block) as usize * size, Kind::Descriptors(nth))
    }

    /// Of a group. Without checksums of descriptors their flags and unused inodes mean nothing.
    pub(crate) fn descriptor(&mut self, group: u32) -> Outcome<Descriptor> {
        let mut descriptor = self.stored_descriptor(group)?;
        if self.fs.geometry.sums == Sums::None {
            (descriptor.flags, descriptor.unused_inodes) = (0, 0);
        }
        Ok(descriptor)
    }

    fn stored_descriptor(&mut self, group: u32) -> Outcome<Descriptor> {
        let (block, at, kind) = self.place_of(group);
        let size = self.fs.geometry.descriptor_bytes;
        if let Some(Over::Bytes(_, bytes)) = self.blocks.get(&block) {
            return Ok(Descriptor::decode(&bytes[at..at + size]));
        }
        match self.fs.cache.peek(block) {
            Some(slot) if slot.kind == Some(kind) => {
                Ok(Descriptor::decode(&slot.bytes[at..at + size]))
            }
            _ => Ok(Descriptor::decode(&self.read(block, kind)?[at..at + size])),
        }
    }

    /// Counts and flags; its checksum is computed when the changes are taken.
    pub(crate) fn put_descriptor(&mut self, group: u32, descriptor: &Descriptor) -> Outcome<()> {
        let (block, at, kind) = self.place_of(group);
        let size = self.fs.geometry.descriptor_bytes;
        let bytes = self.change(block, kind)?;
        descriptor.encode_into(&mut bytes[at..at + size]);
        Ok(())
    }

    /// Blocks that are free on disk and must not be allocated: the first part of `range` that is.
    pub(crate) fn busy_in(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let trimming = self.fs.trimming.iter().map(|other| {
            let part = range.start.max(other.start)..range.end.min(other.end);
            (part.start < part.end).then_some(part)
        });
        [&self.fs.busy, &self.freed, &self.reserved_more]
            .into_iter()
            .map(|ranges| ranges.first_overlap(range))
            .chain(trimming)
            .flatten()
            .min_by_key(|part| part.start)
    }

    /// How many blocks are like that.
    pub(crate) fn busy_blocks(&self) -> u64 {
        self.fs.busy.blocks() + self.freed.blocks() + self.reserved_more.blocks()
    }

    /// With it no more is changed than goes into one write.
    fn check_limit(&self) -> Outcome<()> {
        let (before, limit) = (self.fs.cache.changed_len(), self.fs.changes_max);
        // The superblock says when something changed last.
        if self.blocks.is_empty() || before + self.blocks.len() < limit {
            return Ok(());
        }
        let is_changed = |block| self.fs.cache.peek(block).is_some_and(|slot| slot.is_changed);
        let (mut more, mut fewer) = (0, 0);
        for (block, over) in &self.blocks {
            match over {
                Over::Bytes(..) => more += usize::from(!is_changed(*block)),
                Over::Forgotten => fewer += usize::from(is_changed(*block)),
            }
        }
        more += usize::from(!is_changed(0) && !self.blocks.contains_key(&0));
        let found = before + more - fewer;
        if more == 0 || found <= limit {
            return Ok(());
        }
        let detail = format!("changed blocks: expected at most {limit}, found {found}");
        Err(fail(Errno::NoRoomInChanges, detail))
    }

    /// Everything counts from now on.
    fn merge(self) {
        let fs = self.fs;
        for (block, over) in self.blocks {
            match over {
                Over::Bytes(kind, bytes) => {
                    fs.cache.change(block, kind, bytes, self.fresh.contains(&block));
                }
                Over::Forgotten => fs.cache.forget(block),
            }
        }
        for range in self.reserved_less.iter() {
            fs.reserved.remove(&range);
        }
        for range in self.reserved_more.iter() {
            fs.reserved.insert(range.clone());
            fs.busy.insert(range);
        }
        for range in self.freed.iter() {
            fs.freed.insert(range.clone());
            fs.busy.insert(range);
        }
        for range in self.unwritten.iter() {
            fs.unwritten.insert(range.clone());
            fs.unwritten_unsettled.insert(range);
        }
        if let Some(noted) = &mut fs.noted_orphans {
            noted.extend(self.orphans.keys());
        }
        fs.orphans.extend(self.orphans);
        for (ino, directory) in self.parked {
            match directory {
                Some(directory) => fs.parked.insert(ino, directory),
                None => fs.parked.remove(&ino),
            };
        }
        fs.indexes.apply(self.index_changes);
        fs.inodes_made += self.inodes_made;
        fs.cursors.extend(self.cursors);
    }
}

fn two_uses(block: u64) -> Stop {
    corrupt(format!("block {block} has two uses"))
}

/// Stores each descriptor's checksum in a block of them.
pub(crate) fn seal_descriptors(geometry: &crate::Geometry, nth: u32, bytes: &mut [u8]) {
    let size = geometry.descriptor_bytes;
    let first = nth * (BLOCK_BYTES / size) as u32;
    for (index, bytes) in bytes.chunks_exact_mut(size).enumerate() {
        let number = first + index as u32;
        if number < geometry.groups {
            let sum = group::checksum(geometry, number, bytes);
            group::store_checksum(bytes, sum);
        }
    }
}
