//! Pages of one file that are in memory: what was written and is not durable yet, and a little of what is.
//!
//! A page is one block of the file. It is dirty until a write-out or a record takes it, and may become dirty again while it is on its
//! way: the bytes on their way never change, a later write replaces them here. It never drops a page that is dirty or on its way. A page that
//! is being read is awaited from one request, and from none any more once it was written or is no part of the file: what comes then is older.
//!
//! Each page knows which of its bytes were changed since the volume had all of them, by a read or by a record; where that is not known,
//! all were. It also knows by what its updates began since it was written in place last.

use crate::changed_bytes::ChangedBytes;
use nearhead_disk::{Buffer, BufferMut, Payload};
use nearhead_ext4::BLOCK_BYTES;
use nearhead_journal::Placement;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One page.
#[derive(Debug)]
struct Page {
    bytes: Buffer,
    /// What of it is not what the volume has, or what is on its way there in a record.
    changed: ChangedBytes,
    /// Whether the volume had, or is given by a record, all that is not changed.
    is_known: bool,
    /// Where the updates go that began since it was in place last.
    goes: Option<Placement>,
    /// Writes of it that are under way.
    under_way: u32,
    /// It stands in the queue of those that may be dropped.
    is_queued: bool,
}

/// A change of a page.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    /// Which bytes of it.
    pub(crate) bytes: Range<usize>,
    /// Whether it has a place already.
    pub(crate) has_block: bool,
    /// Where it goes with all that follow until it is there, if it is the first.
    pub(crate) goes: Placement,
}

/// A page that goes into a record.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) page: u64,
    pub(crate) bytes: Buffer,
    /// What of them the volume does not have.
    pub(crate) changed: ChangedBytes,
}

/// The pages of one file, by their numbers in it.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    by_number: BTreeMap<u64, Page>,
    dirty: BTreeSet<u64>,
    /// Dirty ones that have no block yet: room is kept for them.
    without_block: BTreeSet<u64>,
    /// Those that are being read, each with the number of the request whose answer it is. None of them is in memory.
    awaited: BTreeMap<u64, u64>,
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

    /// Whether the page was written, and that write has not reached the volume.
    pub(crate) fn is_unsaved_at(&self, page: u64) -> bool {
        self.dirty.contains(&page)
            || self.by_number.get(&page).is_some_and(|page| page.under_way > 0)
    }

    pub(crate) fn without_block_len(&self) -> usize {
        self.without_block.len()
    }

    /// How many of these have no block yet.
    pub(crate) fn without_block_within(&self, range: &Range<u64>) -> u64 {
        self.without_block.range(range.clone()).count() as u64
    }

    /// Whether nothing is known of any page, nor is about to be.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty() && self.awaited.is_empty()
    }

    /// These, none of which is in memory, are what this request will answer with.
    pub(crate) fn await_from(&mut self, request: u64, pages: Range<u64>) {
        self.awaited.extend(pages.map(|page| (page, request)));
    }

    /// Runs of those that are neither in memory nor on their way there.
    pub(crate) fn absent(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let is_absent = |page: &u64| !self.by_number.contains_key(page) && !self.is_coming(*page);
        runs_of(range.filter(is_absent))
    }

    pub(crate) fn is_coming(&self, page: u64) -> bool {
        self.awaited.contains_key(&page)
    }

    /// The request is answered; says whether the page is still what it answers with.
    pub(crate) fn stop_awaiting(&mut self, request: u64, page: u64) -> bool {
        let is_it = self.awaited.get(&page) == Some(&request);
        if is_it {
            self.awaited.remove(&page);
        }
        is_it
    }

    /// The page now has these bytes; says whether it was clean.
    pub(crate) fn write(&mut self, page: u64, bytes: Buffer, update: &Update) -> bool {
        let entry = self.by_number.entry(page).or_insert_with(|| Page::of(bytes.clone(), false));
        entry.bytes = bytes;
        if entry.is_known {
            entry.changed.insert(update.bytes.clone());
        } else {
            entry.changed = ChangedBytes::all();
        }
        entry.goes.get_or_insert(update.goes);
        self.awaited.remove(&page);
        if !update.has_block {
            self.without_block.insert(page);
        }
        self.dirty.insert(page)
    }

    /// Bytes from the disk, unless there are newer ones. Says whether they are kept, and the page stands in the queue of those that may be
    /// dropped if it `is_queued`.
    pub(crate) fn keep(&mut self, page: u64, bytes: Buffer, is_queued: bool) -> bool {
        let is_new = !self.by_number.contains_key(&page);
        if is_new {
            let page_of_disk = Page { is_queued, ..Page::of(bytes, true) };
            self.by_number.insert(page, page_of_disk);
        }
        is_new
    }

    /// Whether a write to the page needs nothing of what is on the disk, nor of where that is: it is dirty already.
    pub(crate) fn has_all_of(&self, range: &Range<u64>) -> bool {
        self.dirty.range(range.clone()).count() as u64 == range.end - range.start
    }

    /// Runs of neighbouring dirty pages that begin in `range`, in order.
    pub(crate) fn dirty_runs(&self, range: Range<u64>) -> Vec<Range<u64>> {
        runs_of(self.dirty.range(range).copied())
    }

    /// The same, of those whose updates began with one that goes in place.
    pub(crate) fn runs_in_place(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let goes = |page: &u64| self.by_number.get(page).and_then(|page| page.goes);
        let in_place = |page: &u64| goes(page) == Some(Placement::InPlace);
        runs_of(self.dirty.range(range).copied().filter(in_place))
    }

    /// The bytes of these pages, which are dirty and have blocks, leave for their places: they are clean unless written again. In
    /// memory's neighbours together.
    pub(crate) fn take(&mut self, range: Range<u64>) -> Vec<Payload> {
        let mut parts: Vec<Buffer> = Vec::new();
        for page in range {
            let Some(entry) = self.by_number.get_mut(&page) else { continue };
            self.dirty.remove(&page);
            entry.under_way += 1;
            // Until they are there the volume has the older ones, and nobody is told whether they ever are.
            (entry.is_known, entry.goes) = (false, None);
            match parts.last_mut() {
                Some(last) if last.is_followed_by(&entry.bytes) => {
                    *last = last.joined_with(&entry.bytes);
                }
                _ => parts.push(entry.bytes.clone()),
            }
        }
        parts.into_iter().map(Payload::Bytes).collect()
    }

    /// The same into a record, which ends before the next one begins.
    pub(crate) fn take_for_record(&mut self, range: Range<u64>) -> Vec<Recorded> {
        let mut taken = Vec::new();
        for page in range {
            let Some(entry) = self.by_number.get_mut(&page) else { continue };
            self.dirty.remove(&page);
            // One that is on its way to its place as well may come there later.
            entry.is_known = entry.under_way == 0;
            entry.under_way += 1;
            let changed = std::mem::take(&mut entry.changed);
            taken.push(Recorded { page, bytes: entry.bytes.clone(), changed });
        }
        taken
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
        for (_, page) in self.by_number.range_mut(range.clone()) {
            page.under_way = page.under_way.saturating_sub(1);
        }
        self.unneeded(range)
    }

    /// Those of the pages that may be dropped from now on, once.
    pub(crate) fn unneeded(&mut self, range: Range<u64>) -> Vec<u64> {
        let mut idle = Vec::new();
        for (number, page) in self.by_number.range_mut(range) {
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
        let gone: Vec<u64> = self.by_number.range(range.clone()).map(|(page, _)| *page).collect();
        let awaited: Vec<u64> = self.awaited.range(range).map(|(page, _)| *page).collect();
        for page in awaited {
            self.awaited.remove(&page);
        }
        let mut dirty = 0;
        for page in gone {
            self.by_number.remove(&page);
            dirty += usize::from(self.dirty.remove(&page));
            self.without_block.remove(&page);
        }
        dirty
    }
}

impl Page {
    fn of(bytes: Buffer, is_known: bool) -> Self {
        let changed = if is_known { ChangedBytes::default() } else { ChangedBytes::all() };
        Self { bytes, changed, is_known, goes: None, under_way: 0, is_queued: false }
    }
}

fn runs_of(pages: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
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
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is what is meant")]
mod tests {
    use super::*;

    fn page_of(byte: u8) -> Buffer {
        BufferMut::copy_of(&[byte; BLOCK_BYTES]).freeze()
    }

    fn update(bytes: Range<usize>, has_block: bool) -> Update {
        let goes = if bytes.len() < BLOCK_BYTES { Placement::Record } else { Placement::InPlace };
        Update { bytes, has_block, goes }
    }

    fn all(has_block: bool) -> Update {
        update(0..BLOCK_BYTES, has_block)
    }

    #[test]
    fn a_page_that_is_written_while_it_is_on_its_way_is_dirty_again_and_stays() {
        let mut pages = Pages::default();
        assert!(pages.write(3, page_of(1), &all(false)));
        let sent = pages.take(3..4);
        assert!(!pages.is_dirty());
        pages.write(3, page_of(2), &all(true));
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
        pages.write(5, page_of(1), &all(true));
        assert!(!pages.keep(5, page_of(9), true));
        pages.take(5..6);
        assert_eq!(pages.settle(5..6), [5]);
        assert!(pages.drop_idle(5) && pages.is_empty());
    }

    #[test]
    fn runs_are_of_neighbours_and_forgetting_counts_what_was_dirty() {
        let mut pages = Pages::default();
        for page in [1, 2, 3, 7, 9, 10] {
            pages.write(page, page_of(1), &all(false));
        }
        assert_eq!(pages.dirty_runs(2..u64::MAX), [2..4, 7..8, 9..11]);
        assert_eq!((pages.without_block_len(), pages.forget(7..u64::MAX)), (6, 3));
        assert_eq!((pages.dirty_runs(0..u64::MAX).len(), pages.without_block_len()), (1, 3));
    }

    fn recorded(pages: &mut Pages, page: u64) -> Vec<Range<usize>> {
        let taken = pages.take_for_record(page..page + 1);
        taken[0].changed.ranges().to_vec()
    }

    #[test]
    fn a_page_is_changed_in_part_only_over_what_the_volume_has_or_gets_by_a_record() {
        let mut pages = Pages::default();
        let part = update(10..20, true);
        // One that is from the disk, and again while the record is on its way.
        pages.keep(1, page_of(1), true);
        pages.write(1, page_of(2), &part);
        assert_eq!(recorded(&mut pages, 1), [10..20]);
        pages.write(1, page_of(3), &update(30..40, true));
        pages.settle(1..2);
        assert_eq!(recorded(&mut pages, 1), [30..40]);
        // One that is not.
        pages.write(2, page_of(2), &part);
        assert_eq!(recorded(&mut pages, 2), [0..BLOCK_BYTES]);
        // One that went in place.
        pages.keep(3, page_of(1), true);
        pages.write(3, page_of(2), &part);
        pages.take(3..4);
        pages.write(3, page_of(3), &part);
        assert_eq!(recorded(&mut pages, 3), [0..BLOCK_BYTES]);
        pages.write(3, page_of(4), &part);
        assert_eq!(recorded(&mut pages, 3), [0..BLOCK_BYTES], "it may come to its place only now");
    }

    #[test]
    fn the_first_update_since_a_page_was_in_place_says_where_it_goes() {
        let mut pages = Pages::default();
        pages.write(1, page_of(1), &update(0..9, true));
        pages.write(1, page_of(2), &all(true));
        pages.write(2, page_of(2), &all(true));
        pages.write(2, page_of(2), &update(0..9, true));
        assert_eq!(pages.runs_in_place(0..9), [2..3]);
        pages.take_for_record(1..2);
        pages.take(2..3);
        pages.write(1, page_of(3), &all(true));
        pages.write(2, page_of(3), &update(0..9, true));
        assert!(pages.runs_in_place(0..9).is_empty(), "only one of them was in place since");
    }
}
