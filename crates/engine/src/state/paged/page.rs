//! Pages of the base that are in memory: each is verified before anything of it is believed, and only so many are kept.

use super::base::{Base, PAGE_BYTES};
use crate::state::map::{Segment, cut};
use nearhead_basics::little_endian::array_at;
use nearhead_disk::{Buffer, BufferMut, Payload};
use nearhead_format::crc::crc32c;
use nearhead_format::{ENTRY_BYTES, Entry, PackedEntry};
use nearhead_read_cache::Slots;
use std::ops::Range;

/// Entries of the base, verified.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The snapshot that it is of, and its number there.
    snapshot: u64,
    number: u32,
    bytes: Buffer,
    count: usize,
}

impl Page {
    /// The page of this number out of what was read of it.
    ///
    /// # Errors
    /// It is not what was written: what was expected, and what was found.
    pub(crate) fn of(base: &Base, page: u32, data: Payload) -> Result<Self, String> {
        let bytes = match data {
            Payload::Bytes(bytes) => bytes,
            Payload::Zeros(len) => BufferMut::zeroed(len).freeze(),
            Payload::Phantom(_) => return Err("the disk keeps no content".to_owned()),
        };
        let (offset, len) = base.extent(page, 1);
        let place = format_args!("page {page} of snapshot {} at byte {offset}", base.number());
        if bytes.len() != len as usize {
            return Err(format!("{place}: expected {len} bytes, found {}", bytes.len()));
        }
        let (expected, found) = (base.sum_of(page), crc32c(&bytes));
        if expected != Some(found) {
            let expected = expected.unwrap_or(0);
            return Err(format!("{place}: expected checksum {expected:08x}, found {found:08x}"));
        }
        let (snapshot, count) = (base.number(), base.entries_of(page));
        Ok(Self { snapshot, number: page, bytes, count })
    }

    /// Whether it is the page of this number. One of an older snapshot says nothing any more, whoever still has it.
    pub(super) fn is(&self, base: &Base, number: u32) -> bool {
        (self.snapshot, self.number) == (base.number(), number)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn packed(&self, index: usize) -> PackedEntry {
        PackedEntry::decode(&array_at(&self.bytes, index * ENTRY_BYTES))
    }

    /// The entry of this number. What has the right checksum was valid when it was written.
    pub(super) fn entry(&self, index: usize) -> Option<Entry> {
        self.packed(index).unpack().ok()
    }

    /// The first entry that ends after `sector`.
    pub(super) fn first_ending_after(&self, sector: u64) -> usize {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = usize::midpoint(from, to);
            let entry = self.packed(middle);
            if entry.home_sector() + u64::from(entry.len_sectors()) > sector {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        from
    }

    /// What it has of these sectors, each entry cut to them.
    pub(super) fn lookup(&self, sectors: &Range<u64>, visit: &mut dyn FnMut(Segment)) {
        let entries = (self.first_ending_after(sectors.start)..self.count)
            .map_while(|index| self.entry(index).filter(|entry| entry.home_sector < sectors.end));
        entries.for_each(|entry| visit(Segment::Mapped(cut(&entry, sectors.start, sectors.end))));
    }
}

/// Pages that were asked for, as many as there is room for.
#[derive(Debug)]
pub(super) struct PageCache {
    slots: Slots<()>,
    pages: Vec<Option<Page>>,
}

/// What a page costs beside its bytes: its share of the tables.
const SLOT_BYTES: u64 = 256;
/// Slots of the smallest cache.
const SLOTS_MIN: u64 = 2;

impl PageCache {
    /// Of at most so many bytes, but of one page at least.
    pub(super) fn new(bytes_max: u64) -> Self {
        let slots = (bytes_max / (PAGE_BYTES as u64 + SLOT_BYTES)).max(SLOTS_MIN);
        let slots = Slots::new(u32::try_from(slots).unwrap_or(u32::MAX));
        Self { slots, pages: Vec::new() }
    }

    /// The page, if it is here; which counts as a use of it.
    pub(super) fn find(&self, page: u32) -> Option<&Page> {
        let kept = self.slots.find(u64::from(page))?;
        self.pages.get(kept.slot as usize)?.as_ref()
    }

    pub(super) fn keep(&mut self, page: Page) {
        let Some(slot) = self.slots.keep(u64::from(page.number), ()) else { return };
        let slot = slot as usize;
        if self.pages.len() <= slot {
            self.pages.resize(slot + 1, None);
        }
        self.pages[slot] = Some(page);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slots.len() as u64 * PAGE_BYTES as u64
    }

    /// None of them is of the base any more.
    pub(super) fn clear(&mut self) {
        self.slots = Slots::new(self.slots.slots());
        self.pages.clear();
    }
}
