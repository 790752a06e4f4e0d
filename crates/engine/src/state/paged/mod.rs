//! The paged map of a chain: what changed since the newest snapshot is in memory, the rest lies in that snapshot's body and is read
//! page by page (`docs/engine.md`, *The paged map*).
//!
//! ```text
//!  newest   a Map, and the sectors removed since    what records say now goes here and nowhere else
//!  frozen   the same of before                      what had changed when the snapshot under way began
//!  base     pages of the newest snapshot's body     its index is in memory, hot pages are
//! ```
//!
//! What stays true:
//!
//! - a snapshot is a *merge* of `frozen` over the base, exactly as the map was when it began; once it is durable it is the base,
//!   and `frozen` is given up. One that fails leaves all as it was: the next one begins with both;
//! - what is needed of a log is never counted too low: a sector counts as long as *any* layer has it, and what a newer layer hides of a
//!   lower one is let go once a merge has found it and is durable;
//! - memory is bounded: the layers and the cache of pages by what was configured, the index by 12 bytes for 1024 entries.
//!
//! Nothing here reads or writes: the snapshot and reads do, and hand in what they read.

mod base;
mod drops;
mod layers;
mod merge;
mod page;
#[cfg(test)]
mod tests;

pub(crate) use base::{Base, BaseBuilder};
pub(crate) use layers::{Layers, Missing};
pub(crate) use merge::{Merge, Offers, WantedLogs};
pub(crate) use page::Page;

use crate::state::logs::Logs;
use crate::state::map::Map;
use drops::Drops;
use layers::Overlay;
use nearhead_disk::{Payload, RangeSet};
use nearhead_format::{BLOCK_SECTORS, Entry};
use page::PageCache;
use std::ops::Range;

/// Memory of an entry that is offered to be cleaned, in bytes.
const OFFERED_BYTES: u64 = size_of::<Entry>() as u64;
/// The least that a layer gets, whatever is configured: a few hundred entries, and a record more.
const LAYER_BYTES_MIN: u64 = 8 << 10;

/// Bounds of a paged map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagedBounds {
    /// Memory for all of it but the index, in bytes.
    bytes_max: u64,
    /// Home blocks there are.
    blocks: u64,
    /// All entries of the base stay in memory as well: for tests.
    keeps_base: bool,
}

impl PagedBounds {
    pub(crate) fn new(bytes_max: u64, blocks: u64, keeps_base: bool) -> Self {
        Self { bytes_max, blocks, keeps_base }
    }

    pub(crate) fn keeps_base(&self) -> bool {
        self.keeps_base
    }

    /// Of what was configured three eighths are for pages, and up to 4 MiB beyond it for those that a merge reads; half as much is for the layer
    /// that takes changes, and for the frozen one; an eighth is for what is offered to be cleaned, and for what the merge under way will offer.
    fn layer_bytes_max(&self) -> u64 {
        (self.bytes_max / 16 * 3).max(LAYER_BYTES_MIN)
    }

    /// Pages that a merge reads before it goes on: a 16th, between 1 MiB and 4, of which each costs an arm a way to and fro.
    fn window_pages(&self) -> u32 {
        ((self.bytes_max / 16).clamp(1 << 20, 4 << 20) / base::PAGE_BYTES as u64) as u32
    }

    fn pages_bytes_max(&self) -> u64 {
        self.bytes_max / 8 * 3
    }

    fn offered_max(&self) -> usize {
        (self.bytes_max / 8 / OFFERED_BYTES) as usize
    }
}

/// All but the newest map.
pub(crate) struct Paged {
    bounds: PagedBounds,
    /// Sectors removed since the snapshot under way began, and entries it may add to home blocks that have one.
    gone: RangeSet,
    extra: u64,
    frozen: Option<Box<Overlay>>,
    base: Base,
    cache: PageCache,
    offers: Offers,
    /// Something of them was taken since the newest snapshot began.
    was_any_taken: bool,
    /// What was removed with the newest snapshot while no record said so counts until the next one: then it is in neither slot.
    held: Drops,
    /// What was removed of the frozen layer since a snapshot failed, while no record said so: the next one that does not fail is without it.
    untold: Drops,
    /// Another merge would know more of what is needed of logs than the last one did.
    counts_are_new: bool,
}

impl Paged {
    pub(crate) fn new(bounds: PagedBounds, base: Base) -> Self {
        let cache = PageCache::new(bounds.pages_bytes_max());
        Self {
            bounds,
            gone: RangeSet::new(),
            extra: 0,
            frozen: None,
            base,
            cache,
            offers: Offers::new(),
            was_any_taken: false,
            held: Drops::new(bounds.keeps_base),
            untold: Drops::new(bounds.keeps_base),
            counts_are_new: true,
        }
    }

    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    fn frozen(&self) -> Option<&Overlay> {
        self.frozen.as_deref()
    }

    fn gone(&self) -> &RangeSet {
        &self.gone
    }

    fn is_empty(&self) -> bool {
        self.base.entries() == 0 && self.frozen.as_ref().is_none_or(|frozen| frozen.map.is_empty())
    }

    /// Entries there are at most, with so many in the newest map. Where nothing is cut there is one for each home block, however much is written
    /// over.
    fn len_max(&self, newest: usize) -> usize {
        let frozen = self.frozen();
        let (map, gone, extra) =
            frozen.map_or((0, 0, 0), |over| (over.map.len(), over.gone.len(), over.extra));
        let changed = (newest + map + gone + self.gone.len()) as u64;
        let of_blocks = self.bounds.blocks + self.base.extra() + extra + self.extra;
        if changed == 0 {
            return self.base.entries() as usize;
        }
        (self.base.entries() + 2 * changed).min(of_blocks) as usize
    }

    /// The newest map has this entry now.
    pub(in crate::state) fn note_inserted(&mut self, entry: &Entry) {
        if u64::from(entry.len_sectors) < BLOCK_SECTORS {
            self.extra += 2;
        }
    }

    /// Whether anything below the newest layer may say something of these sectors, as far as it shows without a page.
    pub(in crate::state) fn may_have(&self, sectors: Range<u64>) -> bool {
        let len = sectors.end - sectors.start;
        let frozen = self.frozen();
        frozen.is_some_and(|frozen| frozen.map.overlaps(sectors.start, len))
            || !self.base.pages_of(sectors).is_empty()
    }

    /// The newest map has nothing for these sectors, and nothing below counts.
    pub(in crate::state) fn note_removed(&mut self, sectors: Range<u64>) {
        let is_inside = |sector: u64| u64::from(!sector.is_multiple_of(BLOCK_SECTORS));
        self.extra += is_inside(sectors.start) + is_inside(sectors.end);
        self.gone.insert(sectors);
    }

    /// Whether the newest layer, of so many bytes, may grow. Where snapshots fail the frozen one has taken in those before it.
    pub(crate) fn has_room(&self, newest_bytes: usize) -> bool {
        let (newest, most) = (newest_bytes as u64, self.bounds.layer_bytes_max());
        newest < most && newest + (self.frozen_bytes() as u64) < 2 * most
    }

    /// Whether the newest layer, of so many bytes, has grown faster than the merge under way goes on: a quarter is free, of the rest as much as
    /// of the merge is done. Who writes only so fast never comes to its end and waits for all of the merge.
    pub(crate) fn is_ahead_of(&self, merge: &Merge, newest_bytes: usize) -> bool {
        let changed = self.frozen().map_or(0, |frozen| frozen.map.len() as u64);
        let all = (self.base.entries() + changed).max(1);
        let (most, passed) = (self.bounds.layer_bytes_max(), merge.passed().min(all));
        let free = most / 4;
        let rest = u128::from(most - free) * u128::from(passed) / u128::from(all);
        newest_bytes as u128 > u128::from(free) + rest
    }

    /// Whether a snapshot should begin, if none is under way: an eighth before there is no room, as it may have to wait for a record.
    pub(crate) fn wants_snapshot(&self, newest_bytes: usize) -> bool {
        (newest_bytes + self.frozen_bytes()) as u64 >= self.bounds.layer_bytes_max() / 8 * 7
    }

    /// Whether another snapshot could offer something to be cleaned, though nothing was written since the last one.
    pub(crate) fn may_offer_more(&self) -> bool {
        self.counts_are_new
    }

    /// Whether logs were cleaned of which only a snapshot that begins from now on lets go.
    pub(crate) fn was_any_taken(&self) -> bool {
        self.was_any_taken
    }

    /// Memory for all of it but the index, in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bounds.bytes_max
    }

    /// Memory of the frozen layer, and of pages, in bytes.
    pub(crate) fn frozen_bytes(&self) -> usize {
        self.frozen().map_or(0, Overlay::bytes)
    }

    pub(crate) fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    fn cached(&self, page: u32) -> Option<&Page> {
        self.cache.find(page)
    }

    /// A page was read and verified.
    pub(in crate::state) fn keep(&mut self, page: Page) {
        self.cache.keep(page);
    }

    /// What the newest base has of a log, taken to be cleaned.
    pub(in crate::state) fn take_offer(&mut self, log: u32) -> Vec<Entry> {
        self.was_any_taken = true;
        self.offers.remove(&log).unwrap_or_default()
    }
}

/// Snapshots.
impl Paged {
    /// A snapshot begins: what changed is frozen, and changes go to a new layer from now on. If the last snapshot failed, what it was to
    /// write is there still, and the newer goes over it; what that hides nobody needs, once records say so. `is_told`: they say all that was
    /// removed.
    pub(in crate::state) fn freeze(
        &mut self,
        newest: &mut Map,
        logs: &mut Logs,
        (last_log, is_told): (u32, bool),
    ) -> Merge {
        let (map, gone) = (std::mem::take(newest), std::mem::take(&mut self.gone));
        let extra = std::mem::take(&mut self.extra);
        self.was_any_taken = false;
        match &mut self.frozen {
            None => self.frozen = Some(Box::new(Overlay { map, gone, extra })),
            Some(frozen) => {
                let untold = &mut self.untold;
                for range in gone.iter() {
                    let len = range.end - range.start;
                    frozen.map.remove(range.start, len, &mut |lost| {
                        if is_told {
                            logs.drop_live(&lost);
                        } else {
                            untold.add(&lost, u64::from(lost.len_sectors), logs);
                        }
                    });
                    frozen.gone.insert(range);
                }
                for entry in &map {
                    frozen.map.insert(entry, &mut |lost| logs.drop_live(&lost));
                }
                frozen.extra += extra;
            }
        }
        let wanted = self.wanted_logs(logs, last_log);
        Merge::new(self.bounds.keeps_base, self.bounds.window_pages(), wanted, is_told)
    }

    /// The logs of which a snapshot that begins now is to take note: as many as there is memory for, and one of each device in any case.
    fn wanted_logs(&self, logs: &Logs, last_log: u32) -> WantedLogs {
        let devices = logs.cleanable(last_log);
        let entries_max = self.bounds.offered_max();
        let share = entries_max / devices.len().max(1);
        let mut wanted = WantedLogs { entries_max, ..WantedLogs::default() };
        for of_device in devices {
            let mut left = share;
            let entries_of =
                |log| (log, logs.live_sectors_of(log) as usize / BLOCK_SECTORS as usize + 1);
            let mut of_device = of_device.into_iter().map(entries_of);
            wanted.sure.extend(of_device.next());
            for (log, entries) in of_device {
                let Some(rest) = left.checked_sub(entries) else { break };
                left = rest;
                wanted.others.push((log, entries));
            }
        }
        wanted
    }

    /// The merge goes on until so many entries are ready, or all: true then. Else pages are to be read.
    pub(in crate::state) fn produce(&self, merge: &mut Merge, count: usize, logs: &Logs) -> bool {
        let nothing = Overlay::default();
        merge.produce(count, &self.base, self.frozen().unwrap_or(&nothing), logs)
    }

    /// The device bytes of the pages that the merge needs next: offset and length.
    pub(crate) fn wanted(&self, merge: &Merge, bytes_max: u32) -> (u64, u32) {
        let pages_max = bytes_max / base::PAGE_BYTES as u32;
        let (page, pages) = merge.wanted(&self.base, pages_max);
        self.base.extent(page, pages)
    }

    /// They were read.
    ///
    /// # Errors
    /// One is not what it should be.
    pub(crate) fn take_pages(&self, merge: &mut Merge, data: &Payload) -> Result<(), String> {
        merge.take(&self.base, data)
    }

    /// The snapshot is durable: what its merge found hidden is let go.
    pub(in crate::state) fn let_go(&mut self, merge: &mut Merge, logs: &mut Logs) {
        let (hidden, mut removed) = merge.take_drops();
        let untold = Drops::new(self.bounds.keeps_base);
        removed.append(std::mem::replace(&mut self.untold, untold));
        self.counts_are_new = !hidden.is_empty() || !removed.is_empty();
        hidden.apply(logs);
        // Nothing says of these that they are gone but this snapshot: while the older one has them, they are kept for it.
        std::mem::replace(&mut self.held, removed).apply(logs);
    }

    /// It is snapshot `number`, and its body, which begins at this device byte, is the base.
    pub(in crate::state) fn rebase(
        &mut self,
        merge: Merge,
        (number, offset): (u64, u64),
        logs: &mut Logs,
    ) {
        let (base, offers) = merge.finish(number, offset);
        self.base = base;
        self.cache.clear();
        self.frozen = None;
        logs.offer(offers.keys().copied());
        self.offers = offers;
    }
}
