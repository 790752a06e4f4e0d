//! The persistent cache of a drive-managed disk: a log at the outer tracks, and the map of what
//! the log holds the newest copy of.
//!
//! Everything is appended; the oldest record is the first to go (FIFO, as measured by Skylight,
//! FAST 2015). A record is dead when the map points at none of its sectors any more, because they
//! were written again, trimmed, or cleaned into their band; only dead records at the tail give
//! room back. The log never overwrites a record that is alive, and pieces and records are bounded
//! by `entries_max`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A piece of the host's sectors that the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    sectors: u64,
    /// Sector of the cache.
    position: u64,
    version: u64,
}

/// Something in the log, oldest first.
#[derive(Clone, Copy, Debug)]
struct Record {
    position: u64,
    sectors: u64,
    /// The host's first sector; none for a header, or for room that was skipped at the end.
    host: Option<u64>,
}

/// A part of a host's range, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) host: u64,
    pub(super) sectors: u64,
    /// Sector of the cache; none if it is at home in its band.
    pub(super) position: Option<u64>,
}

/// The log and its map.
#[derive(Debug)]
pub(super) struct Cache {
    pieces: BTreeMap<u64, Piece>,
    records: VecDeque<Record>,
    sectors: u64,
    head: u64,
    used: u64,
    entries_max: usize,
}

impl Cache {
    /// An empty log of `sectors`, with at most about `entries_max` pieces.
    pub(super) fn new(sectors: u64, entries_max: u64) -> Self {
        Self {
            pieces: BTreeMap::new(),
            records: VecDeque::new(),
            sectors,
            head: 0,
            used: 0,
            entries_max: usize::try_from(entries_max).unwrap_or(usize::MAX),
        }
    }

    /// Sectors in use, dead ones that were not given back included.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Pieces in the map.
    pub(super) fn entries(&self) -> usize {
        self.pieces.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Takes the next `sectors` of the log, which lie together. None if there is no room now.
    pub(super) fn reserve(&mut self, sectors: u64) -> Option<u64> {
        self.give_back();
        if self.pieces.len() >= self.entries_max || self.records.len() >= 2 * self.entries_max {
            return None;
        }
        let free = self.sectors - self.used;
        let to_end = self.sectors - self.head;
        let skipped = if to_end < sectors { to_end } else { 0 };
        if skipped + sectors > free {
            return None;
        }
        if skipped > 0 {
            self.note(skipped, None);
        }
        Some(self.head)
    }

    /// Adds a record of `sectors` at the head: sectors of the host from `host` on, or a header.
    pub(super) fn note(&mut self, sectors: u64, host: Option<u64>) -> u64 {
        let position = self.head;
        self.records.push_back(Record { position, sectors, host });
        self.used += sectors;
        self.head = (self.head + sectors) % self.sectors;
        position
    }

    /// The newest copy of the host's `range` is at `position` of the cache from now on.
    pub(super) fn insert(&mut self, range: Range<u64>, position: u64, version: u64) {
        self.remove(range.clone(), u64::MAX);
        let sectors = range.end - range.start;
        self.pieces.insert(range.start, Piece { sectors, position, version });
    }

    /// Forgets what the cache holds of `range` with a version below `below`.
    pub(super) fn remove(&mut self, range: Range<u64>, below: u64) {
        let overlapping: Vec<(u64, Piece)> =
            self.overlapping(range.clone()).filter(|(_, piece)| piece.version < below).collect();
        for (host, piece) in overlapping {
            self.pieces.remove(&host);
            let end = host + piece.sectors;
            if host < range.start {
                let sectors = range.start - host;
                self.pieces.insert(host, Piece { sectors, ..piece });
            }
            if end > range.end {
                let (sectors, gone) = (end - range.end, range.end - host);
                let position = piece.position + gone;
                self.pieces.insert(range.end, Piece { sectors, position, ..piece });
            }
        }
    }

    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Piece)> + '_ {
        let before = self.pieces.range(..range.start).next_back();
        let before = before.filter(|(host, piece)| *host + piece.sectors > range.start);
        before.into_iter().chain(self.pieces.range(range)).map(|(host, piece)| (*host, *piece))
    }

    /// Where each part of `range` is, in order.
    pub(super) fn find(&self, range: Range<u64>) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let mut at = range.start;
        for (host, piece) in self.overlapping(range.clone()) {
            let (from, to) = (host.max(range.start), (host + piece.sectors).min(range.end));
            if from > at {
                found.push(Found { host: at, sectors: from - at, position: None });
            }
            let position = Some(piece.position + (from - host));
            found.push(Found { host: from, sectors: to - from, position });
            at = to;
        }
        if at < range.end {
            found.push(Found { host: at, sectors: range.end - at, position: None });
        }
        found
    }

    /// A host's sector of the oldest record that is alive.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        self.give_back();
        let record = *self.records.front()?;
        self.alive(record)
    }

    /// The first of the host's sectors that the map finds in `record`.
    fn alive(&self, record: Record) -> Option<u64> {
        let host = record.host?;
        let inside = record.position..record.position + record.sectors;
        self.overlapping(host..host + record.sectors)
            .find(|(_, piece)| inside.contains(&piece.position))
            .map(|(start, _)| start.max(host))
    }

    /// Gives back the room of dead records at the tail.
    fn give_back(&mut self) {
        while let Some(record) = self.records.front().copied() {
            if self.alive(record).is_some() {
                return;
            }
            self.records.pop_front();
            self.used -= record.sectors;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

    /// What stands in each sector of the log and of the bands, to see whether the map is right.
    #[test]
    fn the_newest_copy_of_every_sector_is_where_the_map_says_whatever_is_written_and_cleaned() {
        const HOST: u64 = 400;
        for seed in 0..40 {
            let mut random = SplitMix::new(seed);
            let mut cache = Cache::new(150, 64);
            let mut log = vec![0_u64; 150];
            let mut home = vec![0_u64; HOST as usize];
            let mut newest = vec![0_u64; HOST as usize];
            let mut full = 0;
            for version in 1..600 {
                let sectors = 1 + random.below(20);
                let host = random.below(HOST - sectors);
                let range = host..host + sectors;
                if random.below(4) == 0 {
                    // Clean the band of the oldest record, as the disk does.
                    let Some(oldest) = cache.oldest() else { continue };
                    let band = oldest / 50 * 50..(oldest / 50 + 1) * 50;
                    for found in cache.find(band.clone()) {
                        for step in 0..found.sectors {
                            if let Some(position) = found.position {
                                home[(found.host + step) as usize] =
                                    log[(position + step) as usize];
                            }
                        }
                    }
                    cache.remove(band, version);
                } else if cache.reserve(sectors + 1).is_some() {
                    cache.note(1, None);
                    let position = cache.note(sectors, Some(host));
                    for step in 0..sectors {
                        log[(position + step) as usize] = version * 1000 + host + step;
                    }
                    for sector in range.clone() {
                        newest[sector as usize] = version * 1000 + sector;
                    }
                    cache.insert(range, position, version);
                } else {
                    full += 1;
                }
                assert!(cache.used() <= 150 && cache.entries() <= 128, "seed {seed}");
                for found in cache.find(0..HOST) {
                    for step in 0..found.sectors {
                        let sector = (found.host + step) as usize;
                        let held = match found.position {
                            Some(position) => log[(position + step) as usize],
                            None => home[sector],
                        };
                        assert_eq!(
                            held, newest[sector],
                            "seed {seed}, version {version}, {sector}"
                        );
                    }
                }
            }
            assert!(full > 10, "seed {seed}: the log must run full to prove anything");
        }
    }

    #[test]
    fn writing_again_and_again_needs_no_cleaning() {
        let mut cache = Cache::new(100, 50);
        for version in 0..1000 {
            cache.reserve(7).expect("everything older is dead");
            let position = cache.note(7, Some(3));
            cache.insert(3..10, position, version);
        }
        assert_eq!((cache.entries(), cache.oldest()), (1, Some(3)));
    }

    #[test]
    fn what_is_newer_than_a_cleaning_stays() {
        let mut cache = Cache::new(100, 50);
        for (version, host) in [(1, 0), (9, 2)] {
            cache.reserve(4).unwrap();
            let position = cache.note(4, Some(host));
            cache.insert(host..host + 4, position, version);
        }
        cache.remove(0..50, 5);
        let held: Vec<_> = cache.find(0..10).iter().map(|found| found.position.is_some()).collect();
        assert_eq!(held, [false, true, false]);
        assert_eq!(cache.find(0..10)[1], Found { host: 2, sectors: 4, position: Some(4) });
    }
}
