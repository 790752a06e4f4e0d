//! How much to leave out between two records, so that the second does not wait for a whole revolution: learned by trying.
//!
//! With too little the place has passed when the command arrives, and a revolution is lost; with too much, room and time. So there is an edge,
//! and it is found from above: less is tried as long as that is no slower, and left alone where it is. What is less by far than a record is
//! worth nothing, so small records follow each other without any.

use super::{Completed, Need, View};
use crate::state::logs::{GAP_BYTES_MAX, Logs};
use nearhead_disk::{Nanos, Properties};

/// The first that is tried, and the most that ever is, in bytes: 2 ms of a disk of 120 MB/s.
const FIRST_BYTES: u64 = 256 << 10;
/// No more than this share of a record is left out before it.
const SHARE_OF_RECORD: u64 = 8;
/// Records by which one gap is told from another.
const RECORDS_TRIED: u32 = 4;
/// Records from one attempt to the next at first, and at most: each attempt that fails doubles it.
const REST_FIRST: u32 = 16;
const REST_MAX: u32 = 4096;
/// A record that left later than this after the one before says nothing: the disk has turned on.
const AT_ONCE: Nanos = Nanos(500_000);

impl Gap {
    /// Bytes of the longest gap.
    pub(super) const BYTES_MAX: u64 = FIRST_BYTES;
}

/// The gap, and what is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Gap {
    /// Whether anything turns.
    turns: bool,
    /// In use, and the one that is being tried.
    bytes: u64,
    tried: Option<u64>,
    /// What the last records took for each byte, in picoseconds, with the one in use and with the one that is tried.
    cost: Mean,
    cost_tried: Mean,
    /// Records until the next attempt, and how many there are from one to the next.
    rest: u32,
    rest_next: u32,
    /// Whether the next attempt leaves out more, in case the disk became slower; after one that failed it is the other way round.
    tries_more: bool,
    /// The record on its way left out so many blocks, right behind the end of the one before.
    leaving: Option<u32>,
    ended_at: Nanos,
}

/// The mean of a few.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: u64) {
        if self.count >= 4 * RECORDS_TRIED {
            // Old ones fade: half as many, half as much.
            (self.sum, self.count) = (self.sum / 2, self.count / 2);
        }
        self.sum += value;
        self.count += 1;
    }

    fn get(self) -> u64 {
        self.sum / u64::from(self.count.max(1))
    }
}

impl Gap {
    pub(super) fn on(properties: &Properties) -> Self {
        let turns = properties.rotational;
        Self {
            turns,
            bytes: FIRST_BYTES,
            rest: REST_FIRST,
            rest_next: REST_FIRST,
            ..Self::default()
        }
    }

    /// Blocks to leave out before such a record.
    pub(super) fn blocks(&self, need: Need, logs: &Logs) -> u32 {
        let block = logs.block_bytes() as u64;
        let record = u64::from(need.blocks) * block;
        let bytes = self.tried.unwrap_or(self.bytes);
        if !self.turns || bytes * SHARE_OF_RECORD > record {
            return 0;
        }
        (bytes.min(GAP_BYTES_MAX) / block) as u32
    }

    /// A record leaves that leaves out so many blocks behind the one before, if it goes on there at all.
    pub(super) fn leaves(&mut self, gap_blocks: Option<u32>, now: Nanos) {
        self.leaving = gap_blocks.filter(|_| now.since(self.ended_at) <= AT_ONCE);
    }

    /// A record ended.
    pub(super) fn completed(&mut self, done: &Completed, view: &View<'_>) {
        let since = view.now.since(self.ended_at);
        self.ended_at = view.now;
        let block = view.logs.block_bytes() as u64;
        let Some(gap) = self.leaving.take().filter(|_| done.is_ok && done.bytes > 0) else {
            return;
        };
        let used = self.tried.unwrap_or(self.bytes) / block * block;
        if u64::from(gap) * block != used {
            return;
        }
        let cost = since.0.saturating_mul(1000) / done.bytes;
        if self.tried.is_some() {
            self.cost_tried.add(cost);
            if self.cost_tried.count >= RECORDS_TRIED {
                self.judge();
            }
        } else {
            self.cost.add(cost);
            self.rest = self.rest.saturating_sub(1);
            if self.rest == 0 && self.cost.count >= RECORDS_TRIED {
                self.try_another();
            }
        }
    }

    fn try_another(&mut self) {
        let other = if self.tries_more { self.bytes / 2 * 3 } else { self.bytes / 4 * 3 };
        // More than the first would be more than a share of the records that it was learned with, and never be judged.
        self.tried = Some(other.clamp(8 << 10, FIRST_BYTES));
        self.cost_tried = Mean::default();
    }

    fn judge(&mut self) {
        let Some(tried) = self.tried.take() else { return };
        if self.cost_tried.get() <= self.cost.get() {
            (self.bytes, self.cost) = (tried, self.cost_tried);
            self.rest_next = REST_FIRST;
            self.rest = RECORDS_TRIED;
        } else {
            self.rest_next = (self.rest_next * 2).min(REST_MAX);
            self.rest = self.rest_next;
            self.tries_more = !self.tries_more;
        }
        self.cost_tried = Mean::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_format::Layout;
    use nearhead_format::layout::{LayoutKind, LayoutOptions};

    const RECORD_BYTES: u64 = 2 << 20;
    const PERIOD: Nanos = Nanos::from_millis(8);

    /// A disk on which a record begins at once if so much was left out before it, else a revolution later, at 100 MB/s.
    fn learned_on(needed_bytes: u64, records: u32) -> u64 {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::Chain)).unwrap();
        let logs = Logs::new(&layout, true);
        let mut gap = Gap {
            turns: true,
            bytes: FIRST_BYTES,
            rest: REST_FIRST,
            rest_next: REST_FIRST,
            ..Gap::default()
        };
        let need = Need { blocks: (RECORD_BYTES / 4096) as u32, reserve: 16 };
        let mut now = Nanos::from_secs(1);
        for _ in 0..records {
            let blocks = gap.blocks(need, &logs);
            gap.leaves(Some(blocks), now);
            let left_out = u64::from(blocks) * 4096;
            let turns = if left_out < needed_bytes { PERIOD } else { Nanos::ZERO };
            let took = Nanos((left_out + RECORD_BYTES) * 10) + turns;
            now += took;
            let view = View {
                logs: &logs,
                head_offset: 0,
                now,
                is_idle: true,
                on_disk: 0,
                drives: None,
                disks: None,
            };
            let done = Completed {
                record_end: Some((0, 0)),
                offset: 0,
                bytes: RECORD_BYTES,
                took,
                has_moved: true,
                is_ok: true,
            };
            gap.completed(&done, &view);
        }
        gap.bytes
    }

    #[test]
    fn what_is_left_out_becomes_little_more_than_what_is_needed() {
        for needed_kib in [16, 40, 100, 180, 220, 250] {
            let learned = learned_on(needed_kib << 10, 500) >> 10;
            assert!(
                (needed_kib..=needed_kib * 3 / 2).contains(&learned),
                "{learned} of {needed_kib} KiB"
            );
        }
    }

    #[test]
    fn before_small_records_and_where_nothing_turns_nothing_is_left_out() {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::Chain)).unwrap();
        let logs = Logs::new(&layout, true);
        let of = |turns, blocks| {
            Gap { turns, bytes: FIRST_BYTES, ..Gap::default() }
                .blocks(Need { blocks, reserve: 16 }, &logs)
        };
        assert_eq!((of(true, 2), of(true, 511), of(true, 512), of(false, 512)), (0, 0, 64, 0));
    }
}
