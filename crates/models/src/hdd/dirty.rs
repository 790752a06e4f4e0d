//! The write cache of a drive: acknowledged bytes that are not on the medium yet.
//!
//! Extents never overlap: a newer write replaces the part of an older one that it covers. Two
//! numbers go with each extent. `version` names the write it came from. `owed` is the oldest
//! acknowledged write whose bytes the medium still lacks there: when a newer write replaces an
//! older one, a flush that covers the older one must keep waiting (else a power cut could bring
//! back what was there before both), so the replacement inherits the debt.

use nearhead_disk::Payload;
use std::collections::{BTreeMap, BTreeSet};

/// Acknowledged bytes of one contiguous range.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) lbn: u64,
    pub(super) sectors: u64,
    pub(super) payload: Payload,
    pub(super) version: u64,
    owed: u64,
}

impl Extent {
    pub(super) fn end(&self) -> u64 {
        self.lbn + self.sectors
    }

    /// The part `from..to` (blocks) of this extent.
    fn part(&self, from: u64, to: u64, sector_bytes: usize) -> Self {
        let start = (from - self.lbn) as usize * sector_bytes;
        let len = (to - from) as usize * sector_bytes;
        let payload = self.payload.slice(start..start + len);
        Self { lbn: from, sectors: to - from, payload, ..*self }
    }
}

/// Extents by place and by debt.
#[derive(Debug)]
pub(super) struct WriteCache {
    extents: BTreeMap<u64, Extent>,
    by_debt: BTreeSet<(u64, u64)>,
    sectors: u64,
    sector_bytes: usize,
}

impl WriteCache {
    pub(super) fn new(sector_bytes: u32) -> Self {
        Self {
            extents: BTreeMap::new(),
            by_debt: BTreeSet::new(),
            sectors: 0,
            sector_bytes: sector_bytes as usize,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.sectors * self.sector_bytes as u64
    }

    /// The oldest write whose bytes the medium lacks somewhere.
    pub(super) fn oldest_debt(&self) -> Option<u64> {
        self.by_debt.first().map(|&(owed, _)| owed)
    }

    /// Holds `payload` at `lbn` as write `version`.
    pub(super) fn insert(&mut self, lbn: u64, payload: Payload, version: u64) {
        let sectors = (payload.len() / self.sector_bytes) as u64;
        if sectors == 0 {
            return;
        }
        let replaced = self.remove_where(lbn, lbn + sectors, |_| true);
        let owed = replaced.unwrap_or(version).min(version);
        self.put(Extent { lbn, sectors, payload, version, owed });
    }

    /// Drops what is held of `lbn..end` from writes for which `drops(version)`; says the oldest
    /// debt dropped.
    pub(super) fn remove_where(
        &mut self,
        lbn: u64,
        end: u64,
        drops: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let overlapping: Vec<u64> = self
            .overlapping(lbn, end)
            .filter(|extent| drops(extent.version))
            .map(|extent| extent.lbn)
            .collect();
        let mut oldest = None;
        for key in overlapping {
            let Some(extent) = self.take(key) else { continue };
            oldest = Some(oldest.unwrap_or(extent.owed).min(extent.owed));
            if extent.lbn < lbn {
                self.put(extent.part(extent.lbn, lbn, self.sector_bytes));
            }
            if end < extent.end() {
                self.put(extent.part(end, extent.end(), self.sector_bytes));
            }
        }
        oldest
    }

    /// The extents that hold blocks of `lbn..end`, in order.
    pub(super) fn overlapping(&self, lbn: u64, end: u64) -> impl Iterator<Item = &Extent> {
        let before = self.extents.range(..lbn).next_back().map(|(_, extent)| extent);
        let before = before.filter(move |extent| lbn < extent.end());
        before.into_iter().chain(self.extents.range(lbn..end).map(|(_, extent)| extent))
    }

    /// Whether all of `lbn..end` is held.
    pub(super) fn covers(&self, lbn: u64, end: u64) -> bool {
        let mut reached = lbn;
        for extent in self.overlapping(lbn, end) {
            if extent.lbn > reached {
                return false;
            }
            reached = extent.end();
        }
        reached >= end
    }

    /// Copies what is held of the range over `bytes`, which start at block `lbn`.
    pub(super) fn overlay(&self, lbn: u64, bytes: &mut [u8]) {
        let end = lbn + (bytes.len() / self.sector_bytes) as u64;
        for extent in self.overlapping(lbn, end) {
            let part = extent.part(extent.lbn.max(lbn), extent.end().min(end), self.sector_bytes);
            let start = (part.lbn - lbn) as usize * self.sector_bytes;
            part.payload.copy_to(&mut bytes[start..start + part.payload.len()]);
        }
    }

    /// All extents from block `cursor` on, and then those before it.
    pub(super) fn starting_at(&self, cursor: u64) -> impl Iterator<Item = &Extent> {
        let after = self.extents.range(cursor..);
        after.chain(self.extents.range(..cursor)).map(|(_, extent)| extent)
    }

    /// Up to `count` extents before and from block `lbn` on each.
    pub(super) fn around(&self, lbn: u64, count: usize) -> impl Iterator<Item = &Extent> {
        let before = self.extents.range(..lbn).rev().take(count);
        self.extents.range(lbn..).take(count).chain(before).map(|(_, extent)| extent)
    }

    /// The extent that holds the oldest debt.
    pub(super) fn oldest(&self) -> Option<&Extent> {
        self.by_debt.first().and_then(|(_, lbn)| self.extents.get(lbn))
    }

    /// The extents that follow each other without a gap from the one at `lbn`, up to `sectors`.
    pub(super) fn run_from(&self, lbn: u64, sectors: u64) -> Vec<Extent> {
        let mut run: Vec<Extent> = Vec::new();
        for extent in self.extents.range(lbn..).map(|(_, extent)| extent) {
            let follows = run.last().is_none_or(|last| last.end() == extent.lbn);
            if !follows || !run.is_empty() && extent.end() - lbn > sectors {
                break;
            }
            run.push(extent.clone());
        }
        run
    }

    /// Whether extent `extent` holds debts up to write `version`.
    pub(super) fn owes(extent: &Extent, version: u64) -> bool {
        extent.owed <= version
    }

    /// Takes everything out, in order of place.
    pub(super) fn drain(&mut self) -> Vec<Extent> {
        self.by_debt.clear();
        self.sectors = 0;
        std::mem::take(&mut self.extents).into_values().collect()
    }

    fn put(&mut self, extent: Extent) {
        self.by_debt.insert((extent.owed, extent.lbn));
        self.sectors += extent.sectors;
        self.extents.insert(extent.lbn, extent);
    }

    fn take(&mut self, lbn: u64) -> Option<Extent> {
        let extent = self.extents.remove(&lbn)?;
        self.by_debt.remove(&(extent.owed, lbn));
        self.sectors -= extent.sectors;
        Some(extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;
    use nearhead_disk::BufferMut;

    fn payload(byte: u8, sectors: u64) -> Payload {
        Payload::Bytes(BufferMut::copy_of(&vec![byte; sectors as usize * 512]).freeze())
    }

    #[test]
    fn the_newest_write_of_each_sector_is_what_is_held() {
        for seed in 0..200 {
            let mut random = SplitMix::new(seed);
            let mut cache = WriteCache::new(512);
            let mut flat = [0_u8; 64];
            for version in 1..60_u64 {
                let (lbn, sectors) = (random.below(56), 1 + random.below(8));
                let range = lbn as usize..(lbn + sectors) as usize;
                if random.below(5) == 0 {
                    cache.remove_where(lbn, lbn + sectors, |_| true);
                    flat[range].fill(0);
                } else {
                    cache.insert(lbn, payload(version as u8, sectors), version);
                    flat[range].fill(version as u8);
                }
                let held = flat.iter().filter(|&&byte| byte != 0).count();
                assert_eq!(cache.bytes(), held as u64 * 512, "seed {seed}");
            }
            let mut bytes = vec![0; 64 * 512];
            cache.overlay(0, &mut bytes);
            for (lbn, &expected) in flat.iter().enumerate() {
                assert_eq!(bytes[lbn * 512], expected, "seed {seed}, block {lbn}");
                assert_eq!(cache.covers(lbn as u64, lbn as u64 + 1), expected != 0);
            }
        }
    }

    #[test]
    fn a_replacement_still_owes_what_it_replaced() {
        let mut cache = WriteCache::new(512);
        cache.insert(10, payload(1, 4), 5);
        cache.insert(10, payload(2, 4), 9);
        assert_eq!(cache.oldest_debt(), Some(5));
        cache.remove_where(10, 14, |version| version == 9);
        assert_eq!(cache.oldest_debt(), None);
    }
}
