//! Three bits for each region, and the order in which they may change.
//!
//! - *zero*: its home reads as zeros now;
//! - *settled*: and will after a power cut;
//! - *promised*: the blank map on the disk may say so, now or after a power cut.
//!
//! What stays true: a region that is promised has nothing but zeros at home. So nothing but zeros is written to a
//! home that is promised; first a write of the blank map that takes the promise back must be durable. And only what
//! is settled is promised. Blocks of the map are written one at a time: while one is on its way, both what it said
//! before and what it will say count as promised.

use super::bits::Bits;
use super::streams::Streams;
use crate::disk::flusher::FlushTicket;
use crate::state::sectors::SECTOR;
use nearhead_disk::RangeSet;
use nearhead_format::BlankMapHeader;
use nearhead_format::blank_map::{
    BLANK_UNIT_BYTES, BLANK_UNIT_WORDS, BLANK_UNITS_OFFSET, UnitBits, encode_unit,
};
use std::collections::BTreeSet;
use std::ops::Range;

/// Units written together: what every disk takes.
const BLOCK_UNITS: usize = 8;
const BLOCK_WORDS: usize = BLOCK_UNITS * BLANK_UNIT_WORDS;
const BLOCK_BYTES: usize = BLOCK_UNITS * BLANK_UNIT_BYTES;

/// What is known of the regions of one volume.
#[derive(Debug)]
pub(super) struct Regions {
    volume_id: [u8; 16],
    sectors_each: u64,
    /// Sectors of the volume; the last region may be shorter.
    sectors: u64,
    /// Regions that have a bit.
    count: u64,
    zero: Bits,
    settled: Bits,
    promised: Bits,
    /// Regions that were zeroed and are settled at this flush ticket.
    flushing: Option<(FlushTicket, RangeSet)>,
    /// Those zeroed after.
    zeroed: RangeSet,
    streams: Streams,
    /// Blocks that hold promises somebody waits to see taken back.
    wanted: BTreeSet<usize>,
    /// The block being written, and what it will say.
    in_flight: Option<(usize, Vec<u64>)>,
    /// More may be settled than is promised.
    may_promise: bool,
}

impl Regions {
    /// What is blank, and what the disk may say is, as it was found.
    pub(super) fn new(
        volume_id: [u8; 16],
        region_bytes: u64,
        client_bytes: u64,
        words: Vec<u64>,
        promised: Vec<u64>,
    ) -> Self {
        let count = BlankMapHeader { volume_id, region_bytes }.region_count(client_bytes);
        let len = (count.div_ceil(64) as usize).next_multiple_of(BLOCK_WORDS);
        let bits = |mut words: Vec<u64>| {
            words.resize(len, 0);
            Bits::new(words, count)
        };
        let (zero, promised) = (bits(words), bits(promised));
        Self {
            volume_id,
            sectors_each: region_bytes / SECTOR as u64,
            sectors: client_bytes / SECTOR as u64,
            count,
            settled: zero.clone(),
            zero,
            promised,
            flushing: None,
            zeroed: RangeSet::new(),
            streams: Streams::new(region_bytes),
            wanted: BTreeSet::new(),
            in_flight: None,
            may_promise: false,
        }
    }

    /// Whether any of these home sectors is in a region that is blank, or that the disk may still call so.
    pub(super) fn touch_blank(&self, sectors: &Range<u64>) -> bool {
        let first = (sectors.start / self.sectors_each).min(self.count);
        let regions = first..sectors.end.div_ceil(self.sectors_each).min(self.count);
        self.promised.any(regions.clone()) || self.zero.any(regions)
    }

    /// Takes back what is promised of these home sectors; says whether they may be written already. If not,
    /// [`Regions::next_write`] has the write that must be durable first: ask again then.
    pub(super) fn prepare(&mut self, sectors: Range<u64>) -> bool {
        let first = (sectors.start / self.sectors_each).min(self.count);
        let regions = first..sectors.end.div_ceil(self.sectors_each).min(self.count);
        let promised = self.promised.any(regions.clone());
        if !promised && !self.zero.any(regions.clone()) {
            return true;
        }
        self.zero.clear(regions.clone());
        self.settled.clear(regions.clone());
        self.zeroed.remove(regions.clone());
        if let Some((_, flushing)) = self.flushing.as_mut() {
            flushing.remove(regions.clone());
        }
        let held = self.streams.note(regions.clone());
        let end = held.end.min(self.count);
        let per_block = 64 * BLOCK_WORDS as u64;
        for block in regions.start / per_block..end.div_ceil(per_block) {
            let part = regions.start.max(block * per_block)..end.min((block + 1) * per_block);
            if self.promised.any(part) {
                self.wanted.insert(block as usize);
            }
        }
        !promised
    }

    /// The home of these sectors was zeroed, or trimmed to zeros, and nothing else is writing there.
    pub(super) fn note_zeroed(&mut self, sectors: Range<u64>) {
        let first = sectors.start.div_ceil(self.sectors_each);
        let whole = sectors.end / self.sectors_each;
        let end = if sectors.end >= self.sectors { self.count } else { whole.min(self.count) };
        let regions = first..end;
        if regions.start < regions.end {
            self.zero.set(regions.clone());
            self.zeroed.insert(regions);
        }
    }

    /// Moves on what was zeroed: `is_done` says whether a flush ticket is redeemed, `ticket` is the one for all
    /// that is complete now.
    pub(super) fn settle(&mut self, ticket: FlushTicket, is_done: impl Fn(FlushTicket) -> bool) {
        self.take_flushed(&is_done);
        if self.flushing.is_none() && !self.zeroed.is_empty() {
            self.flushing = Some((ticket, std::mem::take(&mut self.zeroed)));
            self.take_flushed(&is_done);
        }
    }

    fn take_flushed(&mut self, is_done: &impl Fn(FlushTicket) -> bool) {
        if let Some((_, regions)) = self.flushing.take_if(|(ticket, _)| is_done(*ticket)) {
            self.may_promise |= !regions.is_empty();
            regions.iter().for_each(|range| self.settled.set(range));
        }
    }

    /// Whether something zeroed waits for a flush.
    pub(super) fn is_unsettled(&self) -> bool {
        self.flushing.is_some() || !self.zeroed.is_empty()
    }

    /// Whether a write of the map is on its way or somebody waits for one.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.is_some() || !self.wanted.is_empty()
    }

    pub(super) fn may_promise(&self) -> bool {
        self.may_promise
    }

    pub(super) fn has_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Streams have ended: what was held back may be promised again.
    pub(super) fn end_streams(&mut self) {
        self.may_promise |= self.has_streams();
        self.streams.clear();
    }

    /// What a block should say: what is settled and not held back.
    fn content(&self, block: usize) -> Vec<u64> {
        let words = block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS;
        let mut content = Bits::new(self.settled.words()[words].to_vec(), u64::MAX);
        let first = (block * BLOCK_WORDS) as u64 * 64;
        for held in self.streams.held() {
            let end = held.end.saturating_sub(first).min(BLOCK_WORDS as u64 * 64);
            content.clear(held.start.saturating_sub(first).min(end)..end);
        }
        content.words().to_vec()
    }

    fn first_to_promise(&self) -> Option<usize> {
        let blocks = self.settled.words().len() / BLOCK_WORDS;
        (0..blocks).find(|block| {
            let promised = &self.promised.words()[block * BLOCK_WORDS..];
            self.content(*block).iter().zip(promised).any(|(new, old)| new & !old != 0)
        })
    }

    /// The next write of the map, as device bytes and content, if one is due and none is on its way: promises to
    /// take back first, new ones only if `promises`.
    pub(super) fn next_write(&mut self, promises: bool) -> Option<(u64, Vec<u8>)> {
        if self.in_flight.is_some() {
            return None;
        }
        let block = self.wanted.pop_first().or_else(|| {
            let block = self.first_to_promise().filter(|_| promises && self.may_promise);
            self.may_promise &= block.is_some() || !promises;
            block
        })?;
        let content = self.content(block);
        let told = &mut self.promised.words_mut()[block * BLOCK_WORDS..];
        told.iter_mut().zip(&content).for_each(|(old, new)| *old |= new);
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        for (index, words) in content.chunks_exact(BLANK_UNIT_WORDS).enumerate() {
            let bits: UnitBits = std::array::from_fn(|word| words[word]);
            let number = (block * BLOCK_UNITS + index) as u32;
            bytes.extend_from_slice(&encode_unit(&self.volume_id, number, &bits));
        }
        self.in_flight = Some((block, content));
        Some((BLANK_UNITS_OFFSET + (block * BLOCK_BYTES) as u64, bytes))
    }

    /// The write on its way is durable.
    pub(super) fn written(&mut self) {
        if let Some((block, content)) = self.in_flight.take() {
            self.promised.words_mut()[block * BLOCK_WORDS..][..BLOCK_WORDS]
                .copy_from_slice(&content);
        }
    }

    /// It failed, and may have had its effect or not.
    pub(super) fn failed(&mut self) {
        self.in_flight = None;
    }

    /// The map on the disk promises nothing any more, for good.
    pub(super) fn made_void(&mut self) {
        self.promised.words_mut().fill(0);
        self.wanted.clear();
        self.may_promise = false;
    }

    /// Nobody waits any more for promises to be taken back.
    pub(super) fn give_up(&mut self) {
        self.wanted.clear();
    }

    /// Whether the home of `sector` certainly reads as zeros, and the sector where that ends, at most `end`.
    pub(super) fn run_at(&self, sector: u64, end: u64) -> (bool, u64) {
        let region = sector / self.sectors_each;
        let last = end.div_ceil(self.sectors_each);
        let run_end = self.zero.run_end(region, last) * self.sectors_each;
        (self.zero.get(region), run_end.min(end))
    }

    /// Regions whose home reads as zeros, and all there are.
    pub(super) fn zero_count(&self) -> u64 {
        self.zero.words().iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Bytes of a region.
    pub(super) fn region_bytes(&self) -> u64 {
        self.sectors_each * SECTOR as u64
    }
}
