//! From the first block of a volume to a file system that serves: probe, open, mount.
//!
//! Mounting reads all group descriptors, which stay in memory, and looks for what was too large to be removed before the
//! last stop. The word that the image is clean stays on it all the time, because every commit leaves it so; a mount for
//! writing shows in the superblock's count and time.

use crate::Ext4;
use crate::cache::{Cache, Kind};
use crate::error::{OpenError, Outcome, Stop, corrupt};
use crate::geometry::{Geometry, at};
use crate::index::Indexes;
use crate::ranges::Ranges;
use crate::transaction::Transaction;
use crate::types::{BLOCK_BYTES, Options, Timestamp};
use nearhead_basics::little_endian::{put, u16_at, u32_at};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

const STATE_VALID: u16 = 1;
const STATE_ERRORS: u16 = 2;
/// How many descriptor blocks are wanted at once.
const DESCRIPTORS_AT_ONCE: usize = 512;

impl Ext4 {
    /// Refuses changes from now on, or accepts them again. Nothing may be changed and not taken when it becomes read-only.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.options.read_only = read_only;
    }

    /// What the first 4096 bytes of a volume say.
    pub fn probe(first_block: &[u8]) -> Result<Geometry, OpenError> {
        Geometry::parse(first_block)
    }

    /// Opens what `first_block`, the first 4096 bytes of a volume, describes; then [`Ext4::mount`].
    pub fn open(
        first_block: &[u8],
        volume_bytes: u64,
        options: Options,
    ) -> Result<Self, OpenError> {
        let geometry = Geometry::parse(first_block)?;
        let blocks = volume_bytes / BLOCK_BYTES as u64;
        if geometry.blocks > blocks {
            return Err(OpenError::Corrupt(format!(
                "superblock: the file system has {} blocks, the volume has {blocks}; make the \
                 volume larger or the file system smaller with resize2fs",
                geometry.blocks
            )));
        }
        check_state(first_block)?;
        let mut cache = Cache::new(options.cache_blocks_max);
        let mut block = [0; BLOCK_BYTES];
        block.copy_from_slice(&first_block[..BLOCK_BYTES]);
        cache.give(0, Arc::new(block));
        if let Some(slot) = cache.get(0) {
            slot.kind = Some(Kind::Superblock);
        }
        Ok(Self {
            options,
            cache,
            busy: Ranges::default(),
            freed: Ranges::default(),
            reserved: Ranges::default(),
            unwritten: Ranges::default(),
            unwritten_unsettled: Ranges::default(),
            trimming: Vec::new(),
            in_flight: VecDeque::new(),
            next_id: 1,
            holds: HashMap::default(),
            orphans: BTreeMap::new(),
            noted_orphans: None,
            parked: BTreeMap::new(),
            nameless: BTreeSet::new(),
            indexes: Indexes::new(options.seed),
            inodes_made: 0,
            cursors: HashMap::default(),
            system: Ranges::default(),
            last_change: Timestamp::default(),
            changes_max: usize::MAX,
            overhead_blocks: 0,
            is_mounted: false,
            geometry,
        })
    }

    /// What it is.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Reads the group descriptors; unless read-only, marks the superblock as mounted once more.
    pub fn mount(&mut self, now: Timestamp) -> Outcome<()> {
        if self.is_mounted {
            return Ok(());
        }
        self.last_change = self.last_change.max(now);
        let is_for_writing = !self.options.read_only;
        let overhead = self.run_unmounted(|transaction| {
            let (overhead, system) = transaction.read_descriptors()?;
            transaction.fs.system = system;
            if is_for_writing {
                transaction.mark_mounted(now)?;
                transaction.find_parked()?;
            }
            Ok(overhead)
        })?;
        self.overhead_blocks = overhead;
        self.is_mounted = true;
        Ok(())
    }
}

fn check_state(block: &[u8]) -> Result<(), OpenError> {
    let state = u16_at(block, at::STATE);
    let not_clean = |what: &str| {
        Err(OpenError::NotClean(format!(
            "superblock: {what}; run `e2fsck -f` on the image, then try again"
        )))
    };
    if state & STATE_ERRORS != 0 {
        return not_clean("it says that errors were found");
    }
    if state & STATE_VALID == 0 {
        return not_clean("it was not unmounted, or is mounted by somebody else");
    }
    if u32_at(block, at::LAST_ORPHAN) != 0 {
        return not_clean("it lists inodes that are half deleted");
    }
    Ok(())
}

impl Transaction<'_> {
    /// Brings all descriptors into memory and adds them up; gives how many blocks no file can have, and which.
    fn read_descriptors(&mut self) -> Outcome<(u64, Ranges)> {
        let count = self.fs.geometry.descriptor_blocks();
        let missing = (1..=count).filter(|block| !self.has(*block));
        let missing: Vec<u64> = missing.take(DESCRIPTORS_AT_ONCE).collect();
        if !missing.is_empty() {
            // Those that are here are understood now, and so stay.
            for nth in 0..count {
                if self.has(nth + 1) {
                    self.read(nth + 1, Kind::Descriptors(nth as u32))?;
                }
            }
            return Err(Stop::Wants(missing));
        }
        for nth in 0..count {
            self.read(nth + 1, Kind::Descriptors(nth as u32))?;
        }
        let geometry = self.fs.geometry.clone();
        let table_blocks = geometry.inodes_per_group / crate::geometry::INODES_PER_BLOCK;
        let (mut blocks, mut inodes, mut overhead) = (0_u64, 0_u64, 0_u64);
        let mut system = Ranges::default();
        for group in 0..geometry.groups {
            let descriptor = self.descriptor(group)?;
            let (base, first) = (geometry.base_blocks(group), geometry.first_of(group));
            system.insert(first..first + u64::from(base));
            system.insert(descriptor.block_bitmap..descriptor.block_bitmap + 1);
            system.insert(descriptor.inode_bitmap..descriptor.inode_bitmap + 1);
            let table = descriptor.inode_table;
            system.insert(table..table + u64::from(table_blocks));
            blocks += u64::from(descriptor.free_blocks);
            inodes += u64::from(descriptor.free_inodes);
            overhead += u64::from(geometry.base_blocks(group)) + u64::from(table_blocks) + 2;
        }
        let bytes = self.fs.superblock();
        let high = if geometry.on.is_64bit { u32_at(&*bytes, at::FREE_BLOCKS_HIGH) } else { 0 };
        let said = u64::from(u32_at(&*bytes, at::FREE_BLOCKS_LOW)) | u64::from(high) << 32;
        let inodes_said = u64::from(u32_at(&*bytes, at::FREE_INODES));
        if (said, inodes_said) != (blocks, inodes) {
            return Err(corrupt(format!(
                "superblock: expected {blocks} free blocks and {inodes} free inodes as the groups \
                 say, found {said} and {inodes_said}"
            )));
        }
        Ok((overhead, system))
    }

    fn mark_mounted(&mut self, now: Timestamp) -> Outcome<()> {
        let seconds = now.seconds.max(0);
        let block = self.change(0, Kind::Superblock)?;
        let mounts = u16_at(block, at::MOUNTS).saturating_add(1);
        put(block, at::MOUNTS, &mounts.to_le_bytes());
        put(block, at::MOUNTED, &(seconds as u32).to_le_bytes());
        block[at::MOUNTED_HIGH] = (seconds >> 32) as u8;
        Ok(())
    }

    /// More or fewer free blocks and inodes in all.
    pub(crate) fn add_free(&mut self, blocks: i64, inodes: i64) -> Outcome<()> {
        let is_64bit = self.fs.geometry.on.is_64bit;
        let block = self.change(0, Kind::Superblock)?;
        let high = if is_64bit { u32_at(block, at::FREE_BLOCKS_HIGH) } else { 0 };
        let free = u64::from(u32_at(block, at::FREE_BLOCKS_LOW)) | u64::from(high) << 32;
        let free = free.saturating_add_signed(blocks);
        put(block, at::FREE_BLOCKS_LOW, &(free as u32).to_le_bytes());
        if is_64bit {
            put(block, at::FREE_BLOCKS_HIGH, &((free >> 32) as u32).to_le_bytes());
        }
        let free = i64::from(u32_at(block, at::FREE_INODES)).saturating_add(inodes).max(0);
        put(block, at::FREE_INODES, &(free as u32).to_le_bytes());
        Ok(())
    }
}
