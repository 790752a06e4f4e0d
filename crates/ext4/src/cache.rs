//! Metadata blocks in memory: clean ones within a bound, changed ones and those in flight for as long as it takes.
//!
//! A block that was given is not believed: whoever uses it says what it is supposed to be, and [`crate::verify`] looks
//! at it the first time. Blocks that were given since an operation last went through stay, so that a small bound cannot
//! keep an operation from ever having all that it wants at once.

use crate::types::BlockBytes;
use nearhead_basics::NumberHash;
use std::collections::HashMap;

/// Fewest clean blocks that are kept.
const BLOCKS_MIN: usize = 1024;

/// What a block is, and what its checksum depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Superblock,
    /// The nth block of the descriptor table.
    Descriptors(u32),
    BlockBitmap(u32),
    InodeBitmap(u32),
    InodeTable,
    /// Of an inode and its generation.
    Directory(u32, u32),
    /// Of an inode and its generation.
    Extents(u32, u32),
    Xattrs,
    /// The target of a symbolic link.
    Link,
}

impl Kind {
    /// Whether it is needed all the time.
    fn is_pinned(self) -> bool {
        matches!(self, Self::Superblock | Self::Descriptors(_))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) bytes: BlockBytes,
    /// As what it was understood.
    pub(crate) kind: Option<Kind>,
    pub(crate) is_changed: bool,
    /// Of a block that is changed: what it was when it was given, or among changes, last; none if that is not known.
    pub(crate) before: Option<BlockBytes>,
    /// In how many changes that are not settled.
    in_flight: u32,
    used: u64,
    /// Given since an operation last went through.
    is_wanted: bool,
}

#[derive(Debug)]
pub(crate) struct Cache {
    slots: HashMap<u64, Slot, NumberHash>,
    blocks_max: usize,
    tick: u64,
    /// Blocks that may be forgotten when this many are there.
    sweep_at: usize,
    wanted: Vec<u64>,
    changed: Vec<u64>,
    changed_len: usize,
    /// Blocks that changed since the last poll; none while changes are not noted.
    pub(crate) noted: Option<Vec<u64>>,
}

impl Cache {
    pub(crate) fn new(blocks_max: usize) -> Self {
        let blocks_max = blocks_max.max(BLOCKS_MIN);
        Self {
            slots: HashMap::default(),
            blocks_max,
            tick: 0,
            sweep_at: blocks_max + blocks_max / 8,
            wanted: Vec::new(),
            changed: Vec::new(),
            changed_len: 0,
            noted: None,
        }
    }

    pub(crate) fn contains(&self, block: u64) -> bool {
        self.slots.contains_key(&block)
    }

    pub(crate) fn peek(&self, block: u64) -> Option<&Slot> {
        self.slots.get(&block)
    }

    pub(crate) fn get(&mut self, block: u64) -> Option<&mut Slot> {
        self.tick += 1;
        let slot = self.slots.get_mut(&block)?;
        slot.used = self.tick;
        Some(slot)
    }

    /// A block as it is on disk; one that is already here is newer.
    pub(crate) fn give(&mut self, block: u64, bytes: BlockBytes) {
        self.tick += 1;
        let used = self.tick;
        self.slots.entry(block).or_insert_with(|| {
            self.wanted.push(block);
            Slot {
                bytes,
                kind: None,
                is_changed: false,
                before: None,
                in_flight: 0,
                used,
                is_wanted: true,
            }
        });
        self.sweep();
    }

    /// An operation went through: nothing waits for what was given before.
    pub(crate) fn wanted_are_used(&mut self) {
        for block in self.wanted.drain(..) {
            if let Some(slot) = self.slots.get_mut(&block) {
                slot.is_wanted = false;
            }
        }
    }

    /// The operation under way has seen all of the block that it needs: so it may walk over more than fits.
    pub(crate) fn is_seen(&mut self, block: u64) {
        if let Some(slot) = self.slots.get_mut(&block) {
            slot.is_wanted = false;
        }
    }

    /// `is_fresh`: what the block was before is nothing that was read.
    pub(crate) fn change(&mut self, block: u64, kind: Kind, bytes: BlockBytes, is_fresh: bool) {
        self.tick += 1;
        let used = self.tick;
        let is_new = !self.slots.contains_key(&block);
        let slot = self.slots.entry(block).or_insert_with(|| Slot {
            bytes: bytes.clone(),
            kind: None,
            is_changed: false,
            before: None,
            in_flight: 0,
            used,
            is_wanted: false,
        });
        let older = std::mem::replace(&mut slot.bytes, bytes);
        if is_fresh {
            slot.before = None;
        } else if !slot.is_changed && !is_new {
            slot.before = Some(older);
        }
        slot.kind = Some(kind);
        slot.used = used;
        if let Some(noted) = &mut self.noted {
            noted.push(block);
        }
        if !slot.is_changed {
            slot.is_changed = true;
            self.changed.push(block);
            self.changed_len += 1;
        }
    }

    /// The block is no metadata any more; what was changed in it is of no use.
    pub(crate) fn forget(&mut self, block: u64) {
        if self.slots.remove(&block).is_some_and(|slot| slot.is_changed) {
            self.changed_len -= 1;
        }
    }

    pub(crate) fn changed_len(&self) -> usize {
        self.changed_len
    }

    /// The changed blocks, in order.
    pub(crate) fn changed(&self) -> Vec<u64> {
        let is_changed = |block: &u64| self.slots.get(block).is_some_and(|slot| slot.is_changed);
        let mut changed: Vec<u64> = self.changed.iter().copied().filter(is_changed).collect();
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// They leave as one: in flight from now on.
    pub(crate) fn launch(&mut self, blocks: &[u64]) {
        for block in blocks {
            if let Some(slot) = self.slots.get_mut(block) {
                slot.is_changed = false;
                slot.before = None;
                slot.in_flight += 1;
            }
        }
        self.changed.clear();
        self.changed_len = 0;
    }

    pub(crate) fn land(&mut self, blocks: &[u64]) {
        for block in blocks {
            if let Some(slot) = self.slots.get_mut(block) {
                slot.in_flight = slot.in_flight.saturating_sub(1);
            }
        }
        self.sweep();
    }

    /// Forgets the clean blocks that were not used for longest, an eighth at a time so that it is rarely done.
    fn sweep(&mut self) {
        if self.slots.len() < self.sweep_at {
            return;
        }
        let is_free = |slot: &Slot| {
            let is_pinned = slot.kind.is_some_and(Kind::is_pinned);
            !(slot.is_changed || slot.in_flight > 0 || slot.is_wanted || is_pinned)
        };
        let mut ages: Vec<u64> =
            self.slots.values().filter(|slot| is_free(slot)).map(|slot| slot.used).collect();
        let too_many = ages.len().saturating_sub(self.blocks_max);
        if too_many > 0 {
            let (_, newest_gone, _) = ages.select_nth_unstable(too_many - 1);
            let limit = *newest_gone;
            self.slots.retain(|_, slot| !is_free(slot) || slot.used > limit);
        }
        self.sweep_at = self.slots.len() + self.blocks_max / 8;
    }
}
