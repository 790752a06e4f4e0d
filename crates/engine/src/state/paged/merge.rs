//! The merge that a snapshot of a paged map is: what had changed when it began, over the pages of the base, in order.
//!
//! Entries come out ready to be written, and the index of the new base is made of them on the way. What of the base is hidden is counted
//! ([`Drops`]) and let go only if the snapshot is committed; a merge that is given up leaves no trace. It holds a window of pages, which is
//! read again as a whole once it is used up, so that an arm that writes the other slot in between goes to and fro seldom, and as many entries as the next piece takes. On the way it takes note of what the logs hold that are to be cleaned next, since nobody else
//! looks at all of the map.

use super::base::{Base, BaseBuilder, PAGE_BYTES};
use super::drops::Drops;
use super::layers::Overlay;
use super::page::Page;
use crate::state::logs::Logs;
use crate::state::map::cut;
use nearhead_disk::Payload;
use nearhead_format::{Entry, Place};
use std::collections::{BTreeMap, VecDeque};

/// Pages that are read at once, at most: 240 KiB, as much as a rotational disk gets as bulk at once, so that a client that reads waits for
/// no more. The drive goes on reading meanwhile.
const READ_PAGES_MAX: u32 = ((256 << 10) / PAGE_BYTES) as u32;

/// What the newest base has of the logs that may be cleaned until the next snapshot.
pub(crate) type Offers = BTreeMap<u32, Vec<Entry>>;

/// The logs to be cleaned next, as far as anybody knows when a merge begins.
#[derive(Debug, Default)]
pub(crate) struct WantedLogs {
    /// One of each device, whatever it holds; with each so many entries as it is thought to have.
    pub(in crate::state) sure: Vec<(u32, usize)>,
    pub(in crate::state) others: Vec<(u32, usize)>,
    /// Entries of the others that are kept, at most.
    pub(in crate::state) entries_max: usize,
}

/// The next entry of what changed, as far as it was looked for.
#[derive(Clone, Copy, Debug)]
enum Newer {
    Unknown,
    Entry(Entry),
    Nothing,
}

/// What a merge comes to next.
enum Next {
    Entry(Entry),
    /// Pages of the base must be read first.
    NeedsPages,
    /// Everything was handed out.
    End,
}

/// A merge under way.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Home sector up to which all was handed out or is hidden.
    cursor: u64,
    /// The next page of the base to be read.
    page: u32,
    /// Those that were read, and the entry of the first one that comes next.
    window: VecDeque<Page>,
    at: usize,
    /// So many of them are read before it goes on, and whether that is what it waits for.
    window_pages: u32,
    is_filling: bool,
    /// Entries of the base and of what changed that it is done with.
    passed: u64,
    /// Sectors of that entry that were handed out, and that were removed.
    handed_out: u64,
    removed_of_it: u64,
    /// The next entry of what changed.
    newer: Newer,
    /// Handed out, and not written.
    ready: VecDeque<Entry>,
    is_at_end: bool,
    hidden: Drops,
    removed: Drops,
    /// Records say all that was removed.
    is_told: bool,
    builder: BaseBuilder,
    offers: Offers,
    /// Logs that are offered whatever it takes: one of each device.
    sure: Vec<u32>,
    /// Entries that the others may still take.
    offers_left: usize,
}

/// Room for what each log is thought to have. Lists that all grow at the same time would leave several times their size in holes.
fn offers_of<'a>(logs: impl Iterator<Item = &'a (u32, usize)>) -> Offers {
    logs.map(|(log, entries)| (*log, Vec::with_capacity(*entries))).collect()
}

impl Merge {
    /// From the start.
    pub(super) fn new(keeps: bool, window_pages: u32, wanted: WantedLogs, is_told: bool) -> Self {
        let WantedLogs { sure, others, entries_max } = wanted;
        Self {
            cursor: 0,
            page: 0,
            window: VecDeque::new(),
            at: 0,
            window_pages,
            is_filling: false,
            passed: 0,
            handed_out: 0,
            removed_of_it: 0,
            newer: Newer::Unknown,
            ready: VecDeque::new(),
            is_at_end: false,
            hidden: Drops::new(keeps),
            removed: Drops::new(keeps),
            is_told,
            builder: BaseBuilder::new(keeps),
            offers: offers_of(sure.iter().chain(&others)),
            sure: sure.into_iter().map(|(log, _)| log).collect(),
            offers_left: entries_max,
        }
    }

    /// Goes on until so many entries are ready or there are no more: true then. Else pages are needed.
    pub(super) fn produce(
        &mut self,
        count: usize,
        base: &Base,
        frozen: &Overlay,
        logs: &Logs,
    ) -> bool {
        while self.ready.len() < count && !self.is_at_end {
            if self.is_filling {
                return false;
            }
            match self.next(base, frozen, logs) {
                Next::Entry(entry) => {
                    self.builder.entry(&entry);
                    self.offer(&entry, logs);
                    self.ready.push_back(entry);
                }
                Next::NeedsPages => self.is_filling = true,
                Next::End => self.is_at_end = true,
            }
        }
        true
    }

    /// Takes what comes next and is ready.
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        self.ready.pop_front()
    }

    /// These bytes were made of it and of what follows.
    pub(crate) fn note_bytes(&mut self, bytes: &[u8]) {
        self.builder.bytes(bytes);
    }

    /// The pages to be read next: the first, and how many.
    pub(super) fn wanted(&self, base: &Base, pages_max: u32) -> (u32, u32) {
        let missing = self.window_pages.saturating_sub(self.window.len() as u32);
        let pages = missing.min(READ_PAGES_MAX).min(pages_max).max(1);
        (self.page, pages.min(base.pages() - self.page))
    }

    /// How many entries, of the base and of what changed, it is done with.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// What was read of them.
    ///
    /// # Errors
    /// A page is not what it should be.
    pub(super) fn take(&mut self, base: &Base, data: &Payload) -> Result<(), String> {
        let mut from = 0;
        let mut pages = Vec::new();
        while from < data.len() {
            let page = self.page + pages.len() as u32;
            let to = (from + base.extent(page, 1).1 as usize).min(data.len());
            pages.push(Page::of(base, page, data.slice(from..to))?);
            from = to.max(from + 1);
        }
        if pages.is_empty() {
            return Err("no page was read".to_owned());
        }
        self.page += pages.len() as u32;
        self.window.extend(pages);
        let is_full = self.window.len() >= self.window_pages as usize;
        self.is_filling = !is_full && self.page < base.pages();
        Ok(())
    }

    /// What of the older base nobody needs, and what was removed and no record may say so yet.
    pub(super) fn take_drops(&mut self) -> (Drops, Drops) {
        (std::mem::take(&mut self.hidden), std::mem::take(&mut self.removed))
    }

    /// It is over, and the snapshot is durable: the new base, and what is offered to be cleaned.
    pub(super) fn finish(self, number: u64, offset: u64) -> (Base, Offers) {
        (self.builder.finish(number, offset), self.offers)
    }

    /// The entry of the base that comes next, whole.
    fn head(&self, base: &Base) -> Option<Result<Entry, Next>> {
        match self.window.front() {
            Some(page) => page.entry(self.at).map(Ok),
            None if self.page < base.pages() => Some(Err(Next::NeedsPages)),
            None => None,
        }
    }

    /// The base's entry is done: what was not handed out of it is hidden.
    fn pass(&mut self, entry: &Entry, logs: &Logs) {
        let removed = if self.is_told { 0 } else { self.removed_of_it };
        let hidden = u64::from(entry.len_sectors) - self.handed_out - removed;
        self.hidden.add(entry, hidden, logs);
        self.removed.add(entry, removed, logs);
        (self.handed_out, self.removed_of_it, self.at) = (0, 0, self.at + 1);
        self.passed += 1;
        if self.window.front().is_some_and(|page| self.at == page.len()) {
            self.window.pop_front();
            self.at = 0;
        }
    }

    fn next(&mut self, base: &Base, frozen: &Overlay, logs: &Logs) -> Next {
        loop {
            let newer = self.next_newer(frozen);
            let head = match self.head(base) {
                Some(Ok(entry)) => entry,
                Some(Err(next)) => return next,
                None => return newer.map_or(Next::End, |newer| self.hand_out_newer(newer)),
            };
            let from = head.home_sector.max(self.cursor);
            if from >= head.end_sector() {
                self.pass(&head, logs);
                continue;
            }
            if let Some(newer) = newer.filter(|newer| newer.home_sector <= from) {
                return self.hand_out_newer(newer);
            }
            let stop = newer.map_or(u64::MAX, |newer| newer.home_sector).min(head.end_sector());
            let mut stop_at = stop;
            if let Some(hidden) = frozen.gone.within(from..stop).next() {
                if hidden.start == from {
                    self.cursor = hidden.end;
                    self.removed_of_it += hidden.end - from;
                    continue;
                }
                stop_at = hidden.start;
            }
            self.cursor = stop_at;
            self.handed_out += stop_at - from;
            return Next::Entry(cut(&head, from, stop_at));
        }
    }

    fn next_newer(&mut self, frozen: &Overlay) -> Option<Entry> {
        if matches!(self.newer, Newer::Unknown) {
            let next = frozen.map.iter_from(self.cursor).next();
            self.newer = next.map_or(Newer::Nothing, Newer::Entry);
        }
        match self.newer {
            Newer::Entry(entry) => Some(entry),
            Newer::Unknown | Newer::Nothing => None,
        }
    }

    fn hand_out_newer(&mut self, newer: Entry) -> Next {
        self.cursor = newer.end_sector();
        self.newer = Newer::Unknown;
        self.passed += 1;
        Next::Entry(newer)
    }

    fn offer(&mut self, entry: &Entry, logs: &Logs) {
        let Place::Log { chunk_sector, .. } = entry.place else { return };
        if self.offers.is_empty() {
            return;
        }
        let log = logs.log_of(chunk_sector);
        let Some(of_log) = self.offers.get_mut(&log) else { return };
        let is_sure = self.sure.contains(&log);
        if is_sure || self.offers_left > 0 {
            of_log.push(*entry);
            self.offers_left -= usize::from(!is_sure);
            return;
        }
        // More than was thought: what is offered of a log must be all of it.
        self.offers_left = of_log.len();
        self.offers.remove(&log);
    }
}
