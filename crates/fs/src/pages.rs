//! Pages of one file that are in memory: what was written and is not durable yet, and a little of what is.
//!
//! A page is one block of the file. It is dirty until a write-out or a record takes it, and may become dirty again while it is on its
//! way: the bytes on their way never change, a later write replaces them here. It never drops a page that is dirty or on its way.

use nearhead_disk::{Buffer, BufferMut, Payload};
use nearhead_ext4::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One page.
#[derive(Debug)]
struct Page {
    bytes: Buffer,
    /// Writes of it that are under way.
    under_way: u32,
    /// It stands in the queue of those that may be dropped.
    is_queued: bool,
}

/// The pages of one file, by their numbers in it.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    by_number: BTreeMap<u64, Page>,
    dirty: BTreeSet<u64>,
    /// Dirty ones that have no block yet: room is kept for them.
    without_block: BTreeSet<u64>,
}

impl Pages {
    pub(crate) fn get(&self, page: u64) -> Option<&Buffer> {
        self.by_number.get(&page).map(|page| &page.bytes)
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub(crate) fn is_dirty_at(&self, page: u64) -> bool {
        self.dirty.contains(&page)
    }

    pub(crate) fn without_block_len(&self) -> usize {
        self.without_block.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The page now has these bytes; says whether it was clean. `has_block`: whether it has a place already.
    pub(crate) fn write(&mut self, page: u64, bytes: Buffer, has_block: bool) -> bool {
        let entry = self.by_number.entry(page).or_insert_with(|| Page {
            bytes: bytes.clone(),
            under_way: 0,
            is_queued: false,
        });
        entry.bytes = bytes;
        if !has_block {
            self.without_block.insert(page);
        }
        self.dirty.insert(page)
    }

    /// Bytes from the disk, unless there are newer ones. Says whether they are kept.
    pub(crate) fn keep(&mut self, page: u64, bytes: Buffer) -> bool {
        let is_new = !self.by_number.contains_key(&page);
        if is_new {
            self.by_number.insert(page, Page { bytes, under_way: 0, is_queued: true });
        }
        is_new
    }

    /// Whether a write to the page needs nothing of what is on the disk, nor of where that is: it is dirty already.
    pub(crate) fn has_all_of(&self, range: &Range<u64>) -> bool {
        self.dirty.range(range.clone()).count() as u64 == range.end - range.start
    }

    /// Runs of neighbouring dirty pages that begin in `range`, in order.
    pub(crate) fn dirty_runs(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in self.dirty.range(range) {
            match runs.last_mut() {
                Some(run) if run.end == *page => run.end += 1,
                _ => runs.push(*page..*page + 1),
            }
        }
        runs
    }

    /// The bytes of these pages, which are dirty and have blocks, leave for the disk: they are clean unless written again. In memory's
    /// neighbours together.
    pub(crate) fn take(&mut self, range: Range<u64>) -> Vec<Payload> {
        let mut parts: Vec<Buffer> = Vec::new();
        for page in range {
            let Some(entry) = self.by_number.get_mut(&page) else { continue };
            self.dirty.remove(&page);
            entry.under_way += 1;
            match parts.last_mut() {
                Some(last) if last.is_followed_by(&entry.bytes) => {
                    *last = last.joined_with(&entry.bytes);
                }
                _ => parts.push(entry.bytes.clone()),
            }
        }
        parts.into_iter().map(Payload::Bytes).collect()
    }

    /// They have a block now.
    pub(crate) fn has_block(&mut self, range: Range<u64>) {
        let found: Vec<u64> = self.without_block.range(range).copied().collect();
        for page in found {
            self.without_block.remove(&page);
        }
    }

    /// What `take` gave is durable or lost; gives those that may be dropped from now on, once.
    pub(crate) fn settle(&mut self, range: Range<u64>) -> Vec<u64> {
        let mut idle = Vec::new();
        for (number, page) in self.by_number.range_mut(range) {
            page.under_way = page.under_way.saturating_sub(1);
            if page.under_way == 0 && !page.is_queued && !self.dirty.contains(number) {
                page.is_queued = true;
                idle.push(*number);
            }
        }
        idle
    }

    /// Drops a page that waited for that, unless it is needed again; says whether it is gone.
    pub(crate) fn drop_idle(&mut self, page: u64) -> bool {
        let Some(entry) = self.by_number.get_mut(&page) else { return false };
        entry.is_queued = false;
        if entry.under_way > 0 || self.dirty.contains(&page) {
            return false;
        }
        self.by_number.remove(&page);
        true
    }

    /// These are no part of the file any more. Says how many of them were dirty.
    pub(crate) fn forget(&mut self, range: Range<u64>) -> usize {
        let gone: Vec<u64> = self.by_number.range(range).map(|(page, _)| *page).collect();
        let mut dirty = 0;
        for page in gone {
            self.by_number.remove(&page);
            dirty += usize::from(self.dirty.remove(&page));
            self.without_block.remove(&page);
        }
        dirty
    }
}

/// A page with some bytes changed; `None` is one of zeros.
pub(crate) fn changed(page: Option<&Buffer>, at: usize, bytes: &[u8]) -> Buffer {
    let mut new = match page {
        Some(page) => BufferMut::copy_of(page),
        None => BufferMut::zeroed(BLOCK_BYTES),
    };
    new[at..at + bytes.len()].copy_from_slice(bytes);
    new.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(byte: u8) -> Buffer {
        BufferMut::copy_of(&[byte; BLOCK_BYTES]).freeze()
    }

    #[test]
    fn a_page_that_is_written_while_it_is_on_its_way_is_dirty_again_and_stays() {
        let mut pages = Pages::default();
        assert!(pages.write(3, page_of(1), false));
        let sent = pages.take(3..4);
        assert!(!pages.is_dirty());
        pages.write(3, page_of(2), true);
        let mut bytes = vec![0; BLOCK_BYTES];
        sent[0].copy_to(&mut bytes);
        assert_eq!(bytes[0], 1, "what is on its way never changes");
        assert!(pages.settle(3..4).is_empty());
        assert!(!pages.drop_idle(3));
        assert_eq!(pages.get(3).unwrap()[0], 2);
    }

    #[test]
    fn what_is_clean_may_be_dropped_once_and_what_comes_from_the_disk_never_replaces_newer_bytes() {
        let mut pages = Pages::default();
        pages.write(5, page_of(1), true);
        assert!(!pages.keep(5, page_of(9)));
        pages.take(5..6);
        assert_eq!(pages.settle(5..6), [5]);
        assert!(pages.drop_idle(5) && pages.is_empty());
    }

    #[test]
    fn runs_are_of_neighbours_and_forgetting_counts_what_was_dirty() {
        let mut pages = Pages::default();
        for page in [1, 2, 3, 7, 9, 10] {
            pages.write(page, page_of(1), false);
        }
        assert_eq!(pages.dirty_runs(2..u64::MAX), [2..4, 7..8, 9..11]);
        assert_eq!((pages.without_block_len(), pages.forget(7..u64::MAX)), (6, 3));
        assert_eq!((pages.dirty_runs(0..u64::MAX).len(), pages.without_block_len()), (1, 3));
    }
}
