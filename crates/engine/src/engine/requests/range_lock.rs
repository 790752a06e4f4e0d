//! Who may touch which addresses now: operations in flight that overlap are carried out in the
//! order in which they came.
//!
//! What stays true:
//!
//! - two owners that hold at the same time never overlap;
//! - an owner waits for every earlier owner, holding or waiting, that overlaps it, and for nobody
//!   else, so nobody starves and order is first in, first out on every single address;
//! - the same calls give the same grants in the same order.
//!
//! For each address only its *last* owner is kept: a newcomer waits for that one, which itself waits
//! for the one before, and so on down to the holder. So a hundred thousand owners that wait for one
//! block cost one step each, not one for each pair. Last owners of small ranges are found by hashing
//! (64 addresses to a cell, a bit mask for each owner in it); large ranges lie in an ordered map, and
//! take over the cells they cover. The number of owners is bounded by the caller.

mod cells;
#[cfg(test)]
mod tests;

use cells::{CELL_ADDRESSES, Cells};
use nearhead_basics::NumberHash;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A range that covers more cells than this is kept in the ordered map.
const SMALL_RANGE_CELLS_MAX: u64 = 8;

/// Where an owner's record is.
type Slot = u32;

/// Orders overlapping operations.
#[derive(Default)]
pub struct RangeLocks {
    slots: Vec<Owner>,
    free: Vec<Slot>,
    by_name: HashMap<u64, Slot, NumberHash>,
    cells: Cells,
    /// Last owners of large ranges: start, end and owner.
    large: BTreeMap<u64, (u64, Slot)>,
    arrivals: u64,
    waiting: usize,
}

/// An owner that holds or waits.
struct Owner {
    name: u64,
    /// Order of arrival.
    arrival: u64,
    ranges: Ranges,
    /// How many times it stands among the followers of others.
    blockers: u32,
    /// Released while it waited: it keeps its place in the order until its turn, then goes.
    cancelled: bool,
    /// Who waits for this one.
    followers: Vec<Slot>,
}

/// What an owner asked for; one range needs no allocation.
enum Ranges {
    One([Range<u64>; 1]),
    Many(Box<[Range<u64>]>),
}

impl Ranges {
    fn as_slice(&self) -> &[Range<u64>] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl RangeLocks {
    /// Nobody holds anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of owners that hold or wait.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether nobody holds or waits.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Number of owners that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Asks for all of `ranges` (which may be empty and may overlap each other) for `owner`. True if
    /// they are granted now; otherwise a [`RangeLocks::release`] will report the grant.
    ///
    /// # Panics
    /// If `owner` already holds or waits.
    pub fn acquire(&mut self, owner: u64, ranges: &[Range<u64>]) -> bool {
        let slot = self.new_slot(owner, ranges);
        let previous = self.by_name.insert(owner, slot);
        assert!(previous.is_none(), "owner {owner} holds or waits for ranges already");
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            self.take_over(slot, range);
        }
        let granted = self.slots[slot as usize].blockers == 0;
        self.waiting += usize::from(!granted);
        granted
    }

    /// Gives up what `owner` holds. One that still waits is never granted, but keeps its place until
    /// its turn, because those behind it rely on its order. Owners that may go on now are added
    /// to `granted` in the order of their arrival.
    ///
    /// # Panics
    /// If `owner` neither holds nor waits.
    pub fn release(&mut self, owner: u64, granted: &mut Vec<u64>) {
        let slot = self.by_name.remove(&owner);
        let slot = slot.unwrap_or_else(|| panic!("owner {owner} holds no ranges"));
        if self.slots[slot as usize].blockers > 0 {
            self.slots[slot as usize].cancelled = true;
            self.waiting -= 1;
            return;
        }
        if self.slots[slot as usize].followers.is_empty() {
            self.vacate(slot);
        } else {
            self.hand_over(slot, granted);
        }
    }

    /// Makes `slot` the last owner of `range`, waiting for those that were.
    #[inline]
    fn take_over(&mut self, slot: Slot, range: &Range<u64>) {
        let Self { slots, cells, large, .. } = self;
        let mut wait_for = |earlier: Slot| {
            if earlier != slot {
                slots[earlier as usize].followers.push(slot);
                slots[slot as usize].blockers += 1;
            }
        };
        if is_small(range) {
            if !large.is_empty() {
                large_overlapping(large, range).for_each(|(_, _, earlier)| wait_for(earlier));
            }
            cells.take_over(range, slot, &mut wait_for);
        } else {
            cells.clear(range, &mut wait_for);
            cut_large(large, range, |_| true, &mut wait_for);
            large.insert(range.start, (range.end, slot));
        }
    }

    /// Forgets a holder, without looking at who waits for it.
    fn vacate(&mut self, slot: Slot) -> Vec<Slot> {
        let owner = &mut self.slots[slot as usize];
        let followers = std::mem::take(&mut owner.followers);
        for range in owner.ranges.as_slice().iter().filter(|range| !range.is_empty()) {
            if is_small(range) {
                self.cells.give_up(range, slot);
            } else {
                cut_large(&mut self.large, range, |last| last == slot, &mut |_| ());
            }
        }
        owner.ranges = Ranges::Many(Box::default());
        self.free.push(slot);
        followers
    }

    /// Forgets a holder and lets its followers go on, also those of followers that were cancelled.
    fn hand_over(&mut self, slot: Slot, granted: &mut Vec<u64>) {
        let (mut leaving, mut ready) = (vec![slot], Vec::new());
        while let Some(slot) = leaving.pop() {
            for follower in self.vacate(slot) {
                let owner = &mut self.slots[follower as usize];
                owner.blockers -= 1;
                if owner.blockers > 0 {
                    continue;
                }
                if owner.cancelled {
                    leaving.push(follower);
                } else {
                    ready.push((owner.arrival, owner.name));
                }
            }
        }
        ready.sort_unstable();
        self.waiting -= ready.len();
        granted.extend(ready.into_iter().map(|(_, name)| name));
    }

    fn new_slot(&mut self, name: u64, ranges: &[Range<u64>]) -> Slot {
        let ranges = match ranges {
            [one] => Ranges::One([one.clone()]),
            many => Ranges::Many(many.into()),
        };
        self.arrivals += 1;
        let arrival = self.arrivals;
        let owner =
            Owner { name, arrival, ranges, blockers: 0, cancelled: false, followers: Vec::new() };
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = owner;
            return slot;
        }
        self.slots.push(owner);
        (self.slots.len() - 1) as Slot
    }
}

#[inline]
fn is_small(range: &Range<u64>) -> bool {
    (range.end - 1) / CELL_ADDRESSES - range.start / CELL_ADDRESSES < SMALL_RANGE_CELLS_MAX
}

/// The large ranges that overlap `range`, last one first: start, end, owner.
fn large_overlapping<'a>(
    large: &'a BTreeMap<u64, (u64, Slot)>,
    range: &Range<u64>,
) -> impl Iterator<Item = (u64, u64, Slot)> + 'a {
    let from = range.start;
    let before_end = large.range(..range.end).rev();
    before_end
        .map(|(start, (end, slot))| (*start, *end, *slot))
        .take_while(move |(_, end, _)| *end > from)
}

/// Takes `range` out of the large ranges of those owners that `applies` names, and tells `visit`.
fn cut_large(
    large: &mut BTreeMap<u64, (u64, Slot)>,
    range: &Range<u64>,
    applies: impl Fn(Slot) -> bool,
    visit: &mut impl FnMut(Slot),
) {
    let found: Vec<_> =
        large_overlapping(large, range).filter(|(_, _, slot)| applies(*slot)).collect();
    for (start, end, slot) in found {
        visit(slot);
        large.remove(&start);
        if start < range.start {
            large.insert(start, (range.start, slot));
        }
        if end > range.end {
            large.insert(range.end, (end, slot));
        }
    }
}
