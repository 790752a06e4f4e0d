//! What changed, on its way to the disk: checksums, the blocks in flight, and when freed blocks may be used again.
//!
//! Checksums are computed once for each block and transaction, in the order in which one contains another: blocks with
//! their own, bitmaps into descriptors, descriptors, the superblock. A block that was freed is not allocated before the
//! transaction that freed it is settled, or a crash could leave the older state with newer bytes in it.

use crate::cache::Kind;
use crate::checksum::Sums;
use crate::geometry::{at, superblock_checksum};
use crate::ranges::Ranges;
use crate::transaction::seal_descriptors;
use crate::types::{BLOCK_BYTES, BlockBytes, Changes, ChangesId, FsStatistics, NAME_BYTES_MAX};
use crate::verify::{block_bitmap_sum, directory_sum, extents_sum, inode_bitmap_sum, xattrs_sum};
use crate::{Ext4, dirent, extent_node, group, xattr_block};
use nearhead_basics::little_endian::{put, u32_at, u64_at};
use std::sync::Arc;

/// Changes that were taken and are not settled.
#[derive(Debug)]
pub(crate) struct InFlight {
    id: ChangesId,
    blocks: Vec<u64>,
    freed: Ranges,
    unwritten: Ranges,
}

impl Ext4 {
    /// Delivers a block that was wanted, as it is on disk. One that is known already is newer and stays. The bytes are
    /// those of a read that began after the block was last among changes: whoever reads ahead, or reads a block for two
    /// operations at once, must not give what is older than that.
    pub fn give(&mut self, block: u64, bytes: BlockBytes) {
        self.cache.give(block, bytes);
    }

    /// Whether there is anything for [`Ext4::take_changes`].
    pub fn is_changed(&self) -> bool {
        self.cache.changed_len() > 0 || !self.freed.is_empty()
    }

    /// Metadata blocks of the running transaction.
    pub fn changes_len(&self) -> usize {
        self.cache.changed_len()
    }

    /// From now on no operation goes through after which more blocks would have to be taken as one. One that would gives
    /// [`NoRoomInChanges`](crate::Errno::NoRoomInChanges) and has changed nothing.
    pub fn limit_changes(&mut self, blocks_max: usize) {
        self.changes_max = blocks_max;
    }

    /// Everything that changed since the last call, to be written as one atomic write; then [`Ext4::settle`]. Several
    /// may be under way; they become durable in their order.
    pub fn take_changes(&mut self) -> Changes {
        if self.cache.changed_len() > 0 {
            self.stamp();
            self.seal();
        }
        let numbers = self.cache.changed();
        let blocks = numbers.iter().filter_map(|block| {
            let slot = self.cache.peek(*block)?;
            Some((*block, slot.bytes.clone()))
        });
        let blocks = blocks.collect();
        let before = numbers.iter().filter_map(|block| {
            let before = self.cache.peek(*block)?.before.clone()?;
            Some((*block, before))
        });
        let before = before.collect();
        self.cache.launch(&numbers);
        let id = ChangesId(self.next_id);
        self.next_id += 1;
        let freed = std::mem::take(&mut self.freed);
        let ranges = freed.iter().collect();
        let unwritten = std::mem::take(&mut self.unwritten);
        self.in_flight.push_back(InFlight { id, blocks: numbers, freed, unwritten });
        Changes { id, blocks, before, freed: ranges }
    }

    /// These changes, and all before them, are durable.
    pub fn settle(&mut self, id: ChangesId) {
        while self.in_flight.front().is_some_and(|first| first.id <= id) {
            let Some(landed) = self.in_flight.pop_front() else { break };
            for range in landed.freed.iter() {
                self.busy.remove(&range);
            }
            for range in landed.unwritten.iter() {
                self.unwritten_unsettled.remove(&range);
            }
            self.cache.land(&landed.blocks);
        }
    }

    /// For `statfs`.
    pub fn statistics(&self) -> FsStatistics {
        let geometry = &self.geometry;
        let bytes = &*self.superblock();
        let wide = |low, high| {
            let high = if geometry.on.is_64bit { u64::from(u32_at(bytes, high)) } else { 0 };
            u64::from(u32_at(bytes, low)) | high << 32
        };
        let free = wide(at::FREE_BLOCKS_LOW, at::FREE_BLOCKS_HIGH);
        let free = free.saturating_sub(self.reserved.blocks());
        let reserved = wide(at::RESERVED_LOW, at::RESERVED_HIGH);
        let held = self.orphans.len() as u64;
        FsStatistics {
            blocks: geometry.blocks.saturating_sub(self.overhead_blocks),
            free,
            available: free.saturating_sub(reserved),
            inodes: u64::from(geometry.inodes),
            free_inodes: u64::from(u32_at(bytes, at::FREE_INODES)).saturating_sub(held),
            name_bytes_max: NAME_BYTES_MAX as u32,
            fsid: u64_at(&geometry.uuid, 0) ^ u64_at(&geometry.uuid, 8),
        }
    }

    /// Block 0 as it is now.
    pub(crate) fn superblock(&self) -> BlockBytes {
        let slot = self.cache.peek(0);
        slot.map_or_else(|| Arc::new([0; BLOCK_BYTES]), |slot| slot.bytes.clone())
    }

    /// The time of the last change goes into the superblock, without which it need not be written.
    fn stamp(&mut self) {
        let seconds = self.last_change.seconds.max(0);
        let mut bytes = self.superblock();
        let block = Arc::make_mut(&mut bytes);
        put(block, at::WRITTEN, &(seconds as u32).to_le_bytes());
        block[at::WRITTEN_HIGH] = (seconds >> 32) as u8;
        self.cache.change(0, Kind::Superblock, bytes, false);
    }

    fn seal(&mut self) {
        if self.geometry.sums == Sums::None {
            return;
        }
        let mut descriptor_blocks = Vec::new();
        for block in self.cache.changed() {
            let Some(kind) = self.cache.peek(block).and_then(|slot| slot.kind) else { continue };
            match kind {
                Kind::Descriptors(nth) => descriptor_blocks.push((block, nth)),
                _ if self.geometry.sums == Sums::All => self.seal_block(block, kind),
                _ => {}
            }
        }
        for (block, nth) in descriptor_blocks {
            let Some(slot) = self.cache.get(block) else { continue };
            seal_descriptors(&self.geometry, nth, Arc::make_mut(&mut slot.bytes).as_mut_slice());
        }
        if self.geometry.sums == Sums::All
            && let Some(slot) = self.cache.get(0)
        {
            let block = Arc::make_mut(&mut slot.bytes);
            let sum = superblock_checksum(block);
            put(block, at::CHECKSUM, &sum.to_le_bytes());
        }
    }

    /// A block's checksum into the block; a bitmap's into its descriptor, which has changed with it.
    fn seal_block(&mut self, block: u64, kind: Kind) {
        let geometry = &self.geometry;
        let Some(slot) = self.cache.get(block) else { return };
        let (sum, at) = match kind {
            Kind::Directory(ino, generation) => {
                (directory_sum(geometry, ino, generation, &*slot.bytes), dirent::CHECKSUM_AT)
            }
            Kind::Extents(ino, generation) => {
                (extents_sum(geometry, ino, generation, &*slot.bytes), extent_node::CHECKSUM_AT)
            }
            Kind::Xattrs => (xattrs_sum(geometry, block, &*slot.bytes), xattr_block::CHECKSUM_AT),
            Kind::BlockBitmap(number) => {
                let sum = block_bitmap_sum(geometry, &*slot.bytes);
                return self.store_bitmap_sum(number, sum, true);
            }
            Kind::InodeBitmap(number) => {
                let sum = inode_bitmap_sum(geometry, &*slot.bytes);
                return self.store_bitmap_sum(number, sum, false);
            }
            _ => return,
        };
        put(Arc::make_mut(&mut slot.bytes).as_mut_slice(), at, &sum.to_le_bytes());
    }

    fn store_bitmap_sum(&mut self, number: u32, sum: u32, is_of_blocks: bool) {
        let size = self.geometry.descriptor_bytes;
        let per_block = (BLOCK_BYTES / size) as u32;
        let Some(slot) = self.cache.get(1 + u64::from(number / per_block)) else { return };
        let at = (number % per_block) as usize * size;
        let bytes = &mut Arc::make_mut(&mut slot.bytes)[at..at + size];
        let mut descriptor = group::Descriptor::decode(bytes);
        if is_of_blocks {
            descriptor.block_bitmap_sum = sum;
        } else {
            descriptor.inode_bitmap_sum = sum;
        }
        descriptor.encode_into(bytes);
    }
}
