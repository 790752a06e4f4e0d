//! Last owners of small ranges: a hash table of cells of 64 addresses.
//!
//! A cell lists its last owners, each with a mask of the addresses it is the last owner of. Masks of
//! one cell are disjoint and not empty, so that a list has at most 64 owners; nearly always it has
//! one, which lies in the table itself.

use nearhead_basics::NumberHash;
use std::collections::HashMap;
use std::ops::Range;

/// Addresses of a cell, one for each bit of a mask.
pub(super) const CELL_ADDRESSES: u64 = u64::BITS as u64;

/// One last owner in a cell.
#[derive(Clone, Copy)]
struct Part {
    mask: u64,
    slot: u32,
}

/// The last owners of a cell: the first one, and rarely more.
struct Cell {
    first: Part,
    more: Vec<Part>,
}

/// Cells that have a last owner.
#[derive(Default)]
pub(super) struct Cells {
    cells: HashMap<u64, Cell, NumberHash>,
}

impl Cells {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Makes `slot` the last owner of `range`; `visit` gets those that were, each once for a cell.
    #[inline]
    pub(super) fn take_over(&mut self, range: &Range<u64>, slot: u32, visit: &mut impl FnMut(u32)) {
        for number in numbers(range) {
            let part = Part { mask: mask(number, range), slot };
            match self.cells.entry(number) {
                std::collections::hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(Cell { first: part, more: Vec::new() });
                }
                std::collections::hash_map::Entry::Occupied(mut occupied) => {
                    let cell = occupied.get_mut();
                    if cell.clear(part.mask, visit) {
                        cell.more.push(part);
                    } else {
                        cell.first = part;
                    }
                }
            }
        }
    }

    /// Takes `range` from its last owners, whom `visit` gets: somebody else keeps it now.
    pub(super) fn clear(&mut self, range: &Range<u64>, visit: &mut impl FnMut(u32)) {
        let wanted = numbers(range);
        if wanted.end - wanted.start > self.cells.len() as u64 {
            self.cells.retain(|number, cell| {
                !wanted.contains(number) || cell.clear(mask(*number, range), visit)
            });
            return;
        }
        for number in wanted {
            if let Some(cell) = self.cells.get_mut(&number)
                && !cell.clear(mask(number, range), visit)
            {
                self.cells.remove(&number);
            }
        }
    }

    /// Takes from `slot` whatever of `range` it is still the last owner of.
    #[inline]
    pub(super) fn give_up(&mut self, range: &Range<u64>, slot: u32) {
        for number in numbers(range) {
            if let std::collections::hash_map::Entry::Occupied(mut occupied) =
                self.cells.entry(number)
                && !occupied.get_mut().forget(slot)
            {
                occupied.remove();
            }
        }
    }
}

impl Cell {
    /// Takes the addresses `mask` from their owners; `visit` gets those. False if nobody is left.
    fn clear(&mut self, mask: u64, visit: &mut impl FnMut(u32)) -> bool {
        let mut take = |part: &mut Part| {
            if part.mask & mask != 0 {
                visit(part.slot);
                part.mask &= !mask;
            }
            part.mask != 0
        };
        self.more.retain_mut(&mut take);
        take(&mut self.first) || self.promote()
    }

    /// Removes `slot`. False if nobody is left.
    #[inline]
    fn forget(&mut self, slot: u32) -> bool {
        self.more.retain(|part| part.slot != slot);
        self.first.slot != slot || self.promote()
    }

    /// Puts another part first. False if there is none.
    fn promote(&mut self) -> bool {
        self.more.pop().map(|part| self.first = part).is_some()
    }
}

#[inline]
fn numbers(range: &Range<u64>) -> Range<u64> {
    range.start / CELL_ADDRESSES..(range.end - 1) / CELL_ADDRESSES + 1
}

/// The addresses of `range` in cell `number`, which it overlaps.
#[inline]
fn mask(number: u64, range: &Range<u64>) -> u64 {
    let base = number * CELL_ADDRESSES;
    let from = range.start.saturating_sub(base);
    let to = (range.end - base).min(CELL_ADDRESSES);
    (u64::MAX << from) & (u64::MAX >> (CELL_ADDRESSES - to))
}
