//! The slots of a cache, and the pieces that have them.

use nearhead_basics::NumberHash;
use quick_cache::unsync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, UnitWeighter};
use std::collections::BTreeMap;
use std::fmt;

/// Share of the slots that only what is asked for again may keep. The library's own choice is 97 in 100; what lies on the tail of a
/// log was written a moment ago and is read soon or not at all, so that nearly all of the room is worth more as a window over what is
/// newest.
const HOT_SHARE: f64 = 0.1;

/// A piece that is kept: its slot, and what its owner said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept<V> {
    /// Number of the slot, from 0.
    pub slot: u32,
    /// What was said of it.
    pub about: V,
}

/// Tells which slots are free again because others took their place.
#[derive(Clone, Copy, Debug, Default)]
struct Evicted;

impl<V> Lifecycle<u64, Kept<V>> for Evicted {
    type RequestState = Vec<u32>;

    fn on_evict(&self, slots: &mut Vec<u32>, _key: u64, kept: Kept<V>) {
        slots.push(kept.slot);
    }
}

type Table<V> = Cache<u64, Kept<V>, UnitWeighter, NumberHash, Evicted>;

/// A bounded number of slots for pieces that have a number as their name.
pub struct Slots<V> {
    table: Table<V>,
    count: u32,
    /// Slots from this one on were never given out.
    unused: u32,
    free: Vec<u32>,
    /// Slots that are held, and whether the piece of each is gone: then it is free once it is released.
    held: BTreeMap<u32, bool>,
}

impl<V> fmt::Debug for Slots<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slots({} of {})", self.len(), self.count)
    }
}

impl<V> Slots<V> {
    /// So many of them, all free. One is for the next piece, before the policy says whose place it takes: of fewer than two none
    /// is ever given out.
    pub fn new(slots: u32) -> Self {
        let pieces_max = slots.saturating_sub(1);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(pieces_max as usize)
            .weight_capacity(u64::from(pieces_max))
            .hot_allocation(HOT_SHARE)
            .build()
            .expect("both numbers that it wants are there");
        let table = Cache::with_options(options, UnitWeighter, NumberHash::default(), Evicted);
        Self { table, count: slots, unused: 0, free: Vec::new(), held: BTreeMap::new() }
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        self.count
    }

    /// How many pieces are kept.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the tables, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_used().total() + self.free.capacity() * size_of::<u32>()
    }

    /// Finds a piece, which counts as a use of it.
    pub fn find(&self, key: u64) -> Option<&Kept<V>> {
        self.table.get(&key)
    }

    /// Finds a piece as if nobody had asked.
    pub fn look(&self, key: u64) -> Option<&Kept<V>> {
        self.table.peek(&key)
    }

    /// Keeps a piece in place of what had this name, and of others if it must be; its slot. None if there is no slot for it.
    pub fn keep(&mut self, key: u64, about: V) -> Option<u32> {
        self.forget(key);
        let slot = self.take_slot()?;
        let mut evicted = Vec::new();
        self.table.insert_with_lifecycle(key, Kept { slot, about }, &mut evicted);
        for slot in evicted {
            self.free_slot(slot);
        }
        self.table.peek(&key).map(|kept| kept.slot)
    }

    /// The piece is not what was kept any more.
    pub fn forget(&mut self, key: u64) {
        if let Some((_, kept)) = self.table.remove(&key) {
            self.free_slot(kept.slot);
        }
    }

    /// The slot is given to no other piece until it is released.
    pub fn hold(&mut self, slot: u32) {
        self.held.entry(slot).or_default();
    }

    /// Whether it is held.
    pub fn is_held(&self, slot: u32) -> bool {
        self.held.contains_key(&slot)
    }

    /// How many are.
    pub fn held_len(&self) -> usize {
        self.held.len()
    }

    /// It may be given to others, once nothing is kept there.
    pub fn release(&mut self, slot: u32) {
        if self.held.remove(&slot) == Some(true) {
            self.free.push(slot);
        }
    }

    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = self.unused;
        (slot < self.count).then(|| self.unused += 1)?;
        Some(slot)
    }

    fn free_slot(&mut self, slot: u32) {
        match self.held.get_mut(&slot) {
            Some(is_freed) => *is_freed = true,
            None => self.free.push(slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_never_more_pieces_than_slots_and_no_slot_has_two() {
        for count in [0, 1, 2, 3, 17, 256] {
            let (mut slots, mut random) = (Slots::new(count), SplitMix::new(7));
            let mut held: Vec<u32> = Vec::new();
            for _ in 0..5_000 {
                let key = random.below(600);
                match random.below(8) {
                    0 => slots.forget(key),
                    1 if held.len() < 8 => {
                        let slot = slots.find(key).map(|kept| kept.slot);
                        if let Some(slot) = slot {
                            slots.hold(slot);
                            held.push(slot);
                        }
                    }
                    2 => {
                        if let Some(slot) = held.pop() {
                            slots.release(slot);
                        }
                    }
                    _ => drop(slots.keep(key, key)),
                }
                let kept: Vec<Kept<u64>> =
                    (0..600).filter_map(|key| slots.look(key).copied()).collect();
                let distinct: BTreeSet<u32> = kept.iter().map(|kept| kept.slot).collect();
                assert_eq!((distinct.len(), kept.len()), (slots.len(), slots.len()));
                assert!(slots.len() <= count.saturating_sub(1) as usize);
                assert!(distinct.iter().all(|slot| *slot < count));
            }
            assert_eq!(slots.is_empty(), count < 2);
        }
    }

    #[test]
    fn a_slot_that_is_held_is_given_to_nobody_until_it_is_released() {
        let mut slots = Slots::new(3);
        let mine = slots.keep(1, 1).unwrap();
        slots.hold(mine);
        slots.forget(1);
        let others = |slots: &mut Slots<u64>| -> BTreeSet<u32> {
            (10..40).filter_map(|key| slots.keep(key, key)).collect()
        };
        assert!(slots.is_held(mine) && !others(&mut slots).contains(&mine));
        slots.release(mine);
        assert!(others(&mut slots).contains(&mine));
    }

    #[test]
    fn the_same_calls_give_the_same_answers() {
        let run = || {
            let (mut slots, mut random, mut answers) =
                (Slots::new(100), SplitMix::new(3), Vec::new());
            for _ in 0..20_000 {
                let key = random.below(40) * random.below(40);
                let found = slots.find(key).map(|kept| kept.slot);
                answers.push(found.or_else(|| slots.keep(key, key)));
            }
            answers
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn what_is_asked_for_again_and_again_survives_a_scan_of_many_times_the_room() {
        let mut slots = Slots::new(1001);
        let hot = 0..(1000.0 * HOT_SHARE) as u64 - 5;
        for _ in 0..3 {
            for key in hot.clone() {
                if slots.find(key).is_none() {
                    slots.keep(key, key);
                }
            }
        }
        for key in 1_000..11_000 {
            slots.keep(key, key);
        }
        let survived = hot.filter(|key| slots.look(*key).is_some()).count();
        assert_eq!(survived, 95, "of the newest 1000 none would be left");
    }
}
