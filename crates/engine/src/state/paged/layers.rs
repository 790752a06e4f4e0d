//! The map as whoever asks sees it: in memory as a whole, or in layers over pages of which some are here.
//!
//! The newest says first: what changed since the snapshot under way began, then what had changed when it began, then the base. A layer that
//! says that a sector was removed hides what lies below. Where a page is needed that is not here, the answer is which; nothing is guessed.

use super::Paged;
use super::page::Page;
use crate::state::chunks::LoggedCopy;
use crate::state::map::{Map, Segment};
use crate::state::sectors::SECTOR;
use nearhead_disk::RangeSet;
use nearhead_format::{Entry, Place};
use std::ops::Range;

/// What changed in one stretch of time.
#[derive(Default)]
pub(super) struct Overlay {
    pub(super) map: Map,
    /// Sectors that were removed: where the map has nothing, nothing below counts.
    pub(super) gone: RangeSet,
    /// Entries it may add to home blocks that have one, at most.
    pub(super) extra: u64,
}

/// All layers.
#[derive(Clone, Copy)]
pub(crate) struct Layers<'a> {
    newest: &'a Map,
    paged: Option<&'a Paged>,
}

/// Who is asked for what a layer says nothing of, and whom it tells.
type Below<'a> = dyn FnMut(Range<u64>, &mut dyn FnMut(Segment)) + 'a;

/// Pages of the base that must be read before a question can be answered.
pub(crate) type Missing = Vec<u32>;

impl<'a> Layers<'a> {
    pub(in crate::state) fn new(newest: &'a Map, paged: Option<&'a Paged>) -> Self {
        Self { newest, paged }
    }

    /// Whether nothing is logged.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.paged.is_none_or(Paged::is_empty)
    }

    /// How many entries there are; at most, while there are layers.
    pub(crate) fn len_max(&self) -> usize {
        let newest = self.newest.len();
        self.paged.map_or(newest, |paged| paged.len_max(newest))
    }

    /// Says where the newest copy of each of these sectors is, as [`Map::lookup`] does, if every page that is needed is here or among
    /// `held`. Else the pages that are not, and what was said is to be forgotten.
    #[inline]
    pub(crate) fn lookup(
        &self,
        start_sector: u64,
        len_sectors: u64,
        held: &[Page],
        visit: &mut impl FnMut(Segment),
    ) -> Missing {
        let Some(paged) = self.paged else {
            self.newest.lookup(start_sector, len_sectors, visit);
            return Missing::new();
        };
        let mut missing = Missing::new();
        self.newest.lookup(start_sector, len_sectors, &mut |segment| match segment {
            Segment::Mapped(_) => visit(segment),
            Segment::Home { start_sector, len_sectors } => {
                let range = start_sector..start_sector + len_sectors;
                paged.lookup_below(range, held, &mut missing, visit);
            }
        });
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Whether what the map was known to say since its newest snapshot, or at that, is what it still says: nothing newer took any of the
    /// entry's sectors. Needs no page.
    pub(crate) fn holds(&self, entry: &Entry) -> bool {
        let Some(paged) = self.paged else { return self.newest.holds(entry) };
        if self.newest.holds(entry) {
            return true;
        }
        let sectors = entry.home_sector..entry.end_sector();
        let is_hidden = |map: &Map, gone: &RangeSet| {
            map.overlaps(sectors.start, sectors.end - sectors.start)
                || gone.overlaps(sectors.clone())
        };
        if is_hidden(self.newest, paged.gone()) {
            return false;
        }
        let frozen = paged.frozen();
        frozen.is_none_or(|frozen| frozen.map.holds(entry) || !is_hidden(&frozen.map, &frozen.gone))
    }

    /// Whether the newest copy of any of its sectors is this one, if that is known.
    pub(crate) fn has_copy(&self, copy: &LoggedCopy, held: &[Page]) -> Option<bool> {
        let (place, sectors) =
            (copy.device_offset / SECTOR as u64, u64::from(copy.bytes) / SECTOR as u64);
        let mut is_mapped = false;
        let missing = self.lookup(copy.home_sector, sectors, held, &mut |segment| {
            is_mapped |= matches!(
                segment,
                Segment::Mapped(Entry { place: Place::Log { chunk_sector, .. }, crc, .. })
                    if chunk_sector == place && crc == copy.crc
            );
        });
        missing.is_empty().then_some(is_mapped)
    }

    /// Everything that any layer says, also what a newer one hides, and what is kept for the older snapshot; if the base is kept, for tests
    /// that count anew.
    pub(crate) fn all_entries(&self) -> Option<impl Iterator<Item = Entry> + 'a> {
        let (frozen, kept, held, untold) = match self.paged {
            None => (None, &[][..], &[][..], &[][..]),
            Some(paged) => {
                let (held, untold) = (paged.held.kept(), paged.untold.kept());
                (paged.frozen(), paged.base().kept()?, held, untold)
            }
        };
        let frozen = frozen.into_iter().flat_map(|frozen| frozen.map.iter());
        let of_slots = kept.iter().chain(held).chain(untold).copied();
        Some(self.newest.iter().chain(frozen).chain(of_slots))
    }

    /// Of a paged map the sectors that are mapped, which are fewer than those of all entries where a newer layer removed some; if the base is
    /// kept, for tests.
    pub(crate) fn mapped_in_pages(&self) -> Option<RangeSet> {
        let paged = self.paged?;
        let sectors = |entry: &Entry| entry.home_sector..entry.end_sector();
        let mut mapped = RangeSet::new();
        for entry in paged.base().kept()? {
            mapped.insert(sectors(entry));
        }
        let frozen = paged.frozen().map(|frozen| (&frozen.gone, &frozen.map));
        for (gone, map) in frozen.into_iter().chain([(paged.gone(), self.newest)]) {
            for range in gone.iter() {
                mapped.remove(range);
            }
            for entry in map {
                mapped.insert(sectors(&entry));
            }
        }
        Some(mapped)
    }

    /// Which snapshot the base is of; none where there is none.
    pub(crate) fn era(&self) -> Option<u64> {
        self.paged.map(|paged| paged.base().number())
    }

    /// The layers below the newest, if there are any.
    pub(crate) fn paged(&self) -> Option<&'a Paged> {
        self.paged
    }

    /// Memory of the newest, in bytes.
    pub(crate) fn newest_bytes(&self) -> usize {
        self.newest.memory_bytes() + self.paged.map_or(0, |paged| gone_bytes(paged.gone()))
    }
}

/// Memory of ranges, in bytes: two numbers each, in nodes that are half full or more.
fn gone_bytes(gone: &RangeSet) -> usize {
    gone.len() * 40
}

impl Overlay {
    pub(super) fn bytes(&self) -> usize {
        self.map.memory_bytes() + gone_bytes(&self.gone)
    }

    /// What it says, and its hand over to what lies below for the rest.
    fn lookup(&self, range: Range<u64>, below: &mut Below<'_>, visit: &mut dyn FnMut(Segment)) {
        let len = range.end - range.start;
        self.map.lookup(range.start, len, &mut |segment| match segment {
            Segment::Mapped(_) => visit(segment),
            Segment::Home { start_sector, len_sectors } => {
                through(&self.gone, start_sector..start_sector + len_sectors, below, visit);
            }
        });
    }
}

/// Hands on what of a range was not removed, and says of the rest that nothing is there.
fn through(
    gone: &RangeSet,
    range: Range<u64>,
    below: &mut Below<'_>,
    visit: &mut dyn FnMut(Segment),
) {
    let mut at = range.start;
    for hidden in gone.within(range.clone()) {
        if at < hidden.start {
            below(at..hidden.start, visit);
        }
        home(hidden.clone(), visit);
        at = hidden.end;
    }
    if at < range.end {
        below(at..range.end, visit);
    }
}

fn home(range: Range<u64>, visit: &mut dyn FnMut(Segment)) {
    if !range.is_empty() {
        let len_sectors = range.end - range.start;
        visit(Segment::Home { start_sector: range.start, len_sectors });
    }
}

impl Paged {
    /// What lies below the newest layer.
    fn lookup_below(
        &self,
        range: Range<u64>,
        held: &[Page],
        missing: &mut Missing,
        visit: &mut dyn FnMut(Segment),
    ) {
        let mut in_base = |range: Range<u64>, visit: &mut dyn FnMut(Segment)| {
            self.lookup_base(range, held, missing, visit);
        };
        let mut below = |range: Range<u64>, visit: &mut dyn FnMut(Segment)| match self.frozen() {
            Some(frozen) => frozen.lookup(range, &mut in_base, visit),
            None => in_base(range, visit),
        };
        through(self.gone(), range, &mut below, visit);
    }

    fn lookup_base(
        &self,
        range: Range<u64>,
        held: &[Page],
        missing: &mut Missing,
        visit: &mut dyn FnMut(Segment),
    ) {
        let mut at = range.start;
        for number in self.base().pages_of(range.clone()) {
            let held = held.iter().find(|page| page.is(self.base(), number));
            let Some(page) = held.or_else(|| self.cached(number)) else {
                missing.push(number);
                continue;
            };
            page.lookup(&range, &mut |segment| {
                if let Segment::Mapped(entry) = segment {
                    home(at..entry.home_sector, visit);
                    at = entry.end_sector();
                }
                visit(segment);
            });
        }
        home(at..range.end, visit);
    }
}
