//! What a read has to do with the read cache: what it finds there, and what it puts there.
//!
//! Only what was verified is put there, by the same checksum as everything that is returned, and only what lies on the tail of the
//! chain. A stream is not: it is read once, and its arm stays where it is.

use super::{Begun, Body, Planner, ReadState, Source, Transfer};
use crate::engine::Engine;
use crate::engine::requests::Active;
use crate::read_cache::{Found, SLOT_BYTES};
use crate::state::chunks::LoggedCopy;
use crate::state::sectors::SECTOR;
use nearhead_disk::Payload;
use nearhead_format::Entry;
use std::ops::Range;

/// What a read found in the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheHits {
    on_tail: u64,
    on_tail_bytes: u64,
    in_body: u64,
}

impl Planner<'_> {
    /// Takes a copy from the cache, if it is there: whether it is.
    pub(super) fn cached(&mut self, entry: &Entry, copy: LoggedCopy, offset: u8) -> bool {
        let (from, len) = (usize::from(offset) * SECTOR, usize::from(entry.len_sectors) * SECTOR);
        match self.engine.read_cache.find(&copy) {
            Some(Found::Here(data)) => {
                let Ok(data) = copy.take(&data, copy.device_offset) else { return false };
                self.ready(data.slice(from..from + len));
            }
            Some(Found::There { offset }) => {
                let io = self.state.transfers.len() as u32;
                self.state.transfers.push(Transfer {
                    device_offset: copy.device_offset,
                    len: SLOT_BYTES as u32,
                    copies: vec![copy],
                    cached_at: Some(offset),
                    data: None,
                });
                let source = Source::Transfer { io, start: from as u32 };
                self.state.parts.push((source, len as u32));
            }
            None => return false,
        }
        let hits = &mut self.state.hits;
        if self.engine.core.tail_addresses().contains(&copy.device_offset) {
            hits.on_tail += 1;
            hits.on_tail_bytes += u64::from(copy.bytes);
        } else {
            hits.in_body += 1;
        }
        true
    }
}

impl ReadState {
    /// What was taken from the cache's device and is not what it should be.
    pub(super) fn cached_unsound(&self) -> impl Iterator<Item = u64> + '_ {
        let cached = self.transfers.iter().filter(|transfer| transfer.cached_at.is_some());
        cached.filter_map(Transfer::unsound).map(|(copy, _)| copy.device_offset)
    }

    /// What was read from these addresses of the volume's devices, in order.
    fn fetched(&self, from: &Range<u64>) -> Vec<(LoggedCopy, Payload)> {
        let transfers = self.transfers.iter().filter(|transfer| transfer.cached_at.is_none());
        let copies = transfers.flat_map(|transfer| {
            let data = transfer.data.as_ref();
            transfer.copies.iter().filter_map(move |copy| Some((copy, data?, transfer)))
        });
        let copies = copies.filter(|(copy, ..)| from.contains(&copy.device_offset));
        let found = copies.filter_map(|(copy, data, transfer)| {
            let start = usize::try_from(copy.device_offset - transfer.device_offset).ok()?;
            Some((*copy, data.slice(start..start + copy.bytes as usize)))
        });
        found.collect()
    }
}

impl Engine {
    /// Something that came from the cache's device is wrong, or did not come.
    pub(super) fn read_without_cache(&mut self, slot: u32) {
        let Some(Active { body: Body::Read(state), .. }) = self.requests.active.get_mut(slot)
        else {
            return;
        };
        let (attempts, is_bulk) = (state.attempts, state.is_bulk);
        let unsound: Vec<u64> = state.cached_unsound().collect();
        let begun = Begun { attempts, is_bulk, asks_cache: false, pages: state.pages.take() };
        let range = (state.offset, state.len);
        self.core.stats_mut().read_cache_unsound += unsound.len() as u64;
        for place in unsound {
            self.read_cache.forget(place);
        }
        self.read_again(slot, range, begun);
    }

    /// A read is done: what it found is counted, and what it fetched from the tail is kept.
    pub(super) fn note_cached(&mut self, slot: u32) {
        let Self { core, read_cache, requests, .. } = self;
        if !read_cache.is_on() {
            return;
        }
        let Some(Active { body: Body::Read(state), .. }) = requests.active.get_mut(slot) else {
            return;
        };
        let fetched = state.fetched(&core.tail_addresses());
        let counts = core.stats_mut();
        counts.read_cache_hits += state.hits.on_tail;
        counts.read_cache_hit_bytes += state.hits.on_tail_bytes;
        counts.read_cache_body_hits += state.hits.in_body;
        counts.read_cache_misses += fetched.len() as u64;
        counts.read_cache_miss_bytes +=
            fetched.iter().map(|(copy, _)| u64::from(copy.bytes)).sum::<u64>();
        // What was overwritten meanwhile nobody asks for again.
        let held = &state.pages.held;
        let is_newest = |copy: &LoggedCopy| core.layers().has_copy(copy, held) == Some(true);
        let is_worth_it = |copy: &LoggedCopy| !state.is_bulk && is_newest(copy);
        let kept: Vec<_> = fetched.into_iter().filter(|(copy, _)| is_worth_it(copy)).collect();
        for (copy, data) in kept {
            read_cache.keep(core, copy, &data);
        }
    }
}
