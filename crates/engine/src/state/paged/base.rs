//! The base: the entries of the newest snapshot's body as they lie in its slot, in pages, and what is known of each without reading it.
//!
//! A page is 1024 entries, 20 KiB: the least that is whole entries and whole blocks of any disk. Of each page its first home sector and a
//! checksum are in memory, 12 bytes. Both are made of what was written, or of a body that was read whole and whose own checksum held; so
//! a page that is read again and matches is what the snapshot's writer meant. The last page has what follows the entries in the
//! body behind them, and its checksum is over that as well. Nothing here reads anything.

use nearhead_format::crc::crc32c_append;
use nearhead_format::{BLOCK_SECTORS, ENTRY_BYTES, Entry};
use std::ops::Range;

/// Entries of a page.
pub(crate) const PAGE_ENTRIES: usize = 1024;
/// Its bytes.
pub(crate) const PAGE_BYTES: usize = PAGE_ENTRIES * ENTRY_BYTES;

const _: () = assert!(PAGE_BYTES.is_multiple_of(4096), "a page is whole blocks of any disk");

/// What is known of the body of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Base {
    /// Number of the snapshot.
    number: u64,
    /// Where the body is on its device, and how long it is.
    offset: u64,
    body_bytes: u64,
    entries: u64,
    /// Entries beyond the first one of their home block.
    extra: u64,
    /// First home sector of each page.
    firsts: Vec<u64>,
    /// Checksum of each page.
    sums: Vec<u32>,
    /// The sector behind the last entry.
    end_sector: u64,
    /// All entries, for tests that count anew.
    kept: Option<Vec<Entry>>,
}

impl Base {
    /// Number of the snapshot.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Entries beyond the first one of their home block.
    pub(super) fn extra(&self) -> u64 {
        self.extra
    }

    pub(super) fn pages(&self) -> u32 {
        self.firsts.len() as u32
    }

    /// All entries, where they are kept for tests.
    pub(super) fn kept(&self) -> Option<&[Entry]> {
        self.kept.as_deref()
    }

    /// Memory of the index, in bytes.
    pub(crate) fn index_bytes(&self) -> u64 {
        (self.firsts.capacity() * size_of::<u64>() + self.sums.capacity() * size_of::<u32>()) as u64
    }

    /// The pages that may say something of these home sectors.
    pub(super) fn pages_of(&self, sectors: Range<u64>) -> Range<u32> {
        if sectors.start >= self.end_sector {
            return 0..0;
        }
        let from = self.firsts.partition_point(|first| *first <= sectors.start).saturating_sub(1);
        let to = self.firsts.partition_point(|first| *first < sectors.end);
        from as u32..to as u32
    }

    /// Device bytes of so many pages from one on: offset and length.
    pub(crate) fn extent(&self, page: u32, pages: u32) -> (u64, u32) {
        let start = u64::from(page) * PAGE_BYTES as u64;
        let len = self.body_bytes.saturating_sub(start).min(u64::from(pages) * PAGE_BYTES as u64);
        (self.offset + start, len as u32)
    }

    /// How many entries a page has.
    pub(super) fn entries_of(&self, page: u32) -> usize {
        let before = u64::from(page) * PAGE_ENTRIES as u64;
        self.entries.saturating_sub(before).min(PAGE_ENTRIES as u64) as usize
    }

    pub(super) fn sum_of(&self, page: u32) -> Option<u32> {
        self.sums.get(page as usize).copied()
    }
}

/// Makes the index while a body is written, or read whole.
#[derive(Debug, Default)]
pub(crate) struct BaseBuilder {
    base: Base,
    last_block: Option<u64>,
    /// Of the page under way: its checksum so far, and how many of its bytes are in it.
    sum: u32,
    summed_bytes: usize,
}

impl BaseBuilder {
    /// Of nothing yet; with `keeps` all entries stay in memory as well.
    pub(crate) fn new(keeps: bool) -> Self {
        let base = Base { kept: keeps.then(Vec::new), ..Base::default() };
        Self { base, ..Self::default() }
    }

    /// The next entry of the body.
    pub(crate) fn entry(&mut self, entry: &Entry) {
        let base = &mut self.base;
        if base.entries.is_multiple_of(PAGE_ENTRIES as u64) {
            base.firsts.push(entry.home_sector);
        }
        let block = entry.home_sector / BLOCK_SECTORS;
        base.extra += u64::from(self.last_block.replace(block) == Some(block));
        base.entries += 1;
        base.end_sector = entry.end_sector();
        if let Some(kept) = &mut base.kept {
            kept.push(*entry);
        }
    }

    /// The next bytes of the body, whatever they hold.
    pub(crate) fn bytes(&mut self, mut bytes: &[u8]) {
        self.base.body_bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let (own, rest) = bytes.split_at(bytes.len().min(PAGE_BYTES - self.summed_bytes));
            self.sum = crc32c_append(self.sum, own);
            self.summed_bytes += own.len();
            if self.summed_bytes == PAGE_BYTES {
                self.end_page();
            }
            bytes = rest;
        }
    }

    fn end_page(&mut self) {
        self.base.sums.push(self.sum);
        (self.sum, self.summed_bytes) = (0, 0);
    }

    /// The body is complete: it is that of snapshot `number`, and begins at this device byte.
    pub(crate) fn finish(mut self, number: u64, offset: u64) -> Base {
        self.end_page();
        let Self { mut base, .. } = self;
        (base.number, base.offset) = (number, offset);
        // What follows the entries is of no use here.
        base.sums.truncate(base.firsts.len());
        base.firsts.shrink_to_fit();
        base.sums.shrink_to_fit();
        base
    }
}
