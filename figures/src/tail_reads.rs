//! What traces read of the tail of a log that they are written to, and how much of that a cache absorbs.
//!
//! Blocks are appended in the order in which they are written; a read is looked for where its block was written last: on the tail, or in
//! the body, which counts for nothing here; what the trace never wrote was there before, in the body. The tail's reads and writes go to
//! the very table that the engine has for its cache, and, as the best that any cache of that size could do, to one that knows the future.

use crate::traces::RealTrace;
use nearhead_read_cache::Slots;
use nearhead_sim::trace::TraceRequest;
use std::collections::{BTreeMap, BTreeSet};

/// What the engine keeps.
const BLOCK_BYTES: u64 = 4096;
/// Of all that a mix writes so much fits on the tail, one part in so many.
const TAILS_WRITTEN: u64 = 2;

/// Something that happens to a place on the tail.
#[derive(Clone, Copy, Debug)]
struct Event {
    place: u64,
    is_read: bool,
}

/// What a mix does to its tail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    blocks: u64,
    events: Vec<Event>,
    reads: u64,
    reads_of_body: u64,
    reads_unwritten: u64,
}

fn blocks_of(request: &TraceRequest) -> std::ops::Range<u64> {
    request.offset_bytes / BLOCK_BYTES..request.end_bytes().div_ceil(BLOCK_BYTES)
}

impl Tail {
    /// Of traces that take equally long, each with addresses of its own.
    pub(crate) fn of(traces: &[&RealTrace]) -> Self {
        let mut merged: Vec<(f64, usize, &TraceRequest)> = Vec::new();
        for (owner, trace) in traces.iter().enumerate() {
            let count = trace.requests.len() as f64;
            let at = |number: usize| number as f64 / count;
            merged.extend(trace.requests.iter().enumerate().map(|(n, one)| (at(n), owner, one)));
        }
        merged.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let blocks = |request: &TraceRequest| blocks_of(request).count() as u64;
        let writes = merged.iter().filter(|(_, _, request)| request.write);
        let written: u64 = writes.map(|(_, _, request)| blocks(request)).sum();
        let mut tail = Self { blocks: (written / TAILS_WRITTEN).max(1), ..Self::default() };
        let (mut newest, mut end) = (BTreeMap::new(), 0_u64);
        for (_, owner, request) in merged {
            for block in blocks_of(request) {
                if request.write {
                    newest.insert((owner, block), end);
                    tail.events.push(Event { place: end, is_read: false });
                    end += 1;
                } else {
                    tail.read(newest.get(&(owner, block)).copied(), end);
                }
            }
        }
        tail
    }

    /// A block is read that was last written at `place`, while the log ends at `end`.
    fn read(&mut self, place: Option<u64>, end: u64) {
        let Some(place) = place else {
            self.reads_unwritten += 1;
            return;
        };
        if place / self.blocks == end.saturating_sub(1) / self.blocks {
            self.reads += 1;
            self.events.push(Event { place, is_read: true });
        } else {
            self.reads_of_body += 1;
        }
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// Blocks that were read of it.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Blocks that were read of the body, having been written before.
    pub(crate) fn reads_of_body(&self) -> u64 {
        self.reads_of_body
    }

    /// Blocks that were read and never written before.
    pub(crate) fn reads_unwritten(&self) -> u64 {
        self.reads_unwritten
    }

    fn slots(&self, size_pct: f64) -> u32 {
        (self.blocks as f64 * size_pct / 100.0) as u32
    }

    /// Share of the reads that the engine's cache answers, in percent.
    pub(crate) fn absorbed_pct(&self, size_pct: f64) -> f64 {
        let mut slots = Slots::new(self.slots(size_pct));
        let mut hits = 0_u64;
        for event in &self.events {
            if event.is_read && slots.find(event.place).is_some() {
                hits += 1;
            } else {
                slots.keep(event.place, ());
            }
        }
        100.0 * hits as f64 / self.reads.max(1) as f64
    }

    /// The same of a cache that lets go of what is read again last, or never (Belady, 1966), and keeps nothing that never is.
    pub(crate) fn absorbed_at_best_pct(&self, size_pct: f64) -> f64 {
        let mut next = vec![u64::MAX; self.events.len()];
        let mut later = BTreeMap::new();
        for (number, event) in self.events.iter().enumerate().rev() {
            next[number] = later.insert(event.place, number as u64).unwrap_or(u64::MAX);
        }
        let room = self.slots(size_pct) as usize;
        let (mut kept, mut hits): (BTreeSet<(u64, u64)>, u64) = (BTreeSet::new(), 0);
        for (number, event) in self.events.iter().enumerate() {
            hits += u64::from(kept.remove(&(number as u64, event.place)) && event.is_read);
            if next[number] != u64::MAX {
                kept.insert((next[number], event.place));
            }
            if kept.len() > room {
                kept.pop_last();
            }
        }
        100.0 * hits as f64 / self.reads.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(requests: &[(bool, u64)]) -> RealTrace {
        let request = |(write, block): &(bool, u64)| TraceRequest {
            offset_bytes: block * BLOCK_BYTES,
            len_bytes: BLOCK_BYTES as u32,
            write: *write,
            ..TraceRequest::default()
        };
        RealTrace { name: "made up".to_owned(), requests: requests.iter().map(request).collect() }
    }

    #[test]
    fn a_read_is_of_the_tail_the_body_or_of_what_was_never_written() {
        // A tail of two blocks: 0 and 1, then 2 and 3.
        let requests = [
            (true, 10),
            (false, 10),
            (true, 11),
            (true, 12),
            (false, 10),
            (true, 10),
            (false, 10),
            (false, 99),
        ];
        let tail = Tail::of(&[&trace(&requests)]);
        assert_eq!(
            (tail.blocks, tail.reads, tail.reads_of_body, tail.reads_unwritten),
            (2, 2, 1, 1)
        );
        assert!((tail.absorbed_at_best_pct(100.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn no_cache_is_better_than_one_that_knows_the_future() {
        let mut random = nearhead_basics::Random::new(5);
        let requests: Vec<(bool, u64)> = (0..20_000)
            .map(|_| (random.happens(0.3), random.below(40) * random.below(40)))
            .collect();
        let tail = Tail::of(&[&trace(&requests)]);
        let mut last = 0.0;
        for size in [1.0, 4.0, 16.0, 64.0] {
            let (ours, best) = (tail.absorbed_pct(size), tail.absorbed_at_best_pct(size));
            assert!(ours <= best && best >= last, "{size}: {ours} and {best}, {last} before");
            last = best;
        }
        assert!(last > 50.0);
    }
}
