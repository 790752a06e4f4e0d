//! Blocks that left the stage for a record or for their homes, until they are there.

use super::block::StagedBlock;
use nearhead_basics::NumberHash;
use std::collections::HashMap;

/// Blocks taken out of the stage and on their way into a record: still readable, no longer changed.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    blocks: Vec<StagedBlock>,
    index: HashMap<u64, u32, NumberHash>,
}

impl Taken {
    pub(super) fn new(blocks: Vec<StagedBlock>) -> Self {
        let mut index = HashMap::with_capacity_and_hasher(blocks.len(), NumberHash::default());
        for (place, staged) in blocks.iter().enumerate() {
            index.insert(staged.block, place as u32);
        }
        Self { blocks, index }
    }

    /// In the order of their positions.
    pub(crate) fn blocks(&self) -> &[StagedBlock] {
        &self.blocks
    }

    /// Whether any of it is part of an atomic write.
    pub(crate) fn has_atomic(&self) -> bool {
        self.blocks.iter().any(|staged| staged.atomic)
    }

    pub(super) fn into_blocks(self) -> Vec<StagedBlock> {
        self.blocks
    }

    pub(crate) fn get(&self, block: u64) -> Option<&StagedBlock> {
        self.blocks.get(*self.index.get(&block)? as usize)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn overlaps(&self, first_block: u64, end_block: u64) -> bool {
        if end_block - first_block <= self.blocks.len() as u64 {
            (first_block..end_block).any(|block| self.index.contains_key(&block))
        } else {
            self.blocks.iter().any(|staged| (first_block..end_block).contains(&staged.block))
        }
    }
}
