//! Logged copies that a newer in-place write made stale, and the way to say so durably.
//!
//! After an in-place write over logged blocks the map in memory already points home, but the log
//! still holds the older copy and a recovery would bring it back. So each displaced map entry waits
//! here until an invalidation record is durable (law 2). Two orders matter:
//!
//! - the invalidation must not become durable before the in-place bytes are, or a crash between
//!   would lose both copies: an entry is *ready* only after the device flush that covers the write;
//! - until the invalidation is durable the log space must not be used again: the entries keep
//!   counting as live.
//!
//! Entries are in one queue in the order of their writes; three running counts say how far it is
//! ready, taken into a record, and committed.

use crate::disk::flusher::FlushTicket;
use crate::state::sectors::BLOCK_SECTORS;
use nearhead_format::Entry;
use std::collections::VecDeque;
use std::ops::Range;

/// How many stale copies there were before one: a running count, which says who has to be committed for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InvalidationCount(u64);

impl InvalidationCount {
    /// Of nothing.
    pub(crate) const NONE: Self = Self(0);

    /// How many lie between; 0 if `earlier` is not earlier.
    pub(crate) fn since(self, earlier: Self) -> usize {
        self.0.saturating_sub(earlier.0) as usize
    }

    fn plus(self, count: usize) -> Self {
        Self(self.0 + count as u64)
    }
}

/// What is stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// What the map said of an entry's sectors.
    Copy(Entry),
    /// Whatever it said of these: where it is paged nobody looked. What counts of it is let go by a merge.
    Sectors(Range<u64>),
}

impl Stale {
    /// The home sectors.
    pub(crate) fn sectors(&self) -> Range<u64> {
        match self {
            Self::Copy(entry) => entry.home_sector..entry.end_sector(),
            Self::Sectors(sectors) => sectors.clone(),
        }
    }

    /// What is counted for it until it is committed.
    pub(crate) fn copy(&self) -> Option<&Entry> {
        match self {
            Self::Copy(entry) => Some(entry),
            Self::Sectors(_) => None,
        }
    }
}

/// The queue of stale copies.
#[derive(Debug, Default)]
pub(crate) struct Invalidations {
    queue: VecDeque<Stale>,
    /// Count of entries committed and gone from the queue.
    committed: InvalidationCount,
    /// Count of entries that may go into a record.
    ready: InvalidationCount,
    /// Flush tickets that make entries ready: everything before the count is ready at the ticket.
    awaiting_flush: VecDeque<(InvalidationCount, FlushTicket)>,
    /// Some waiter wants everything before this count committed.
    wanted: InvalidationCount,
}

impl Invalidations {
    /// Count after the newest entry.
    pub(crate) fn end(&self) -> InvalidationCount {
        self.committed.plus(self.queue.len())
    }

    pub(crate) fn committed(&self) -> InvalidationCount {
        self.committed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds stale copies; `flush_ticket` is what must be redeemed before they are ready.
    pub(crate) fn push(
        &mut self,
        displaced: impl Iterator<Item = Stale>,
        flush_ticket: FlushTicket,
    ) {
        let before = self.queue.len();
        self.queue.extend(displaced);
        if self.queue.len() > before {
            // One that needs no flush of its own still comes after those that do.
            let ticket = flush_ticket.max(self.flush_ticket());
            self.awaiting_flush.push_back((self.end(), ticket));
        }
    }

    /// Moves entries on whose flush is redeemed.
    pub(crate) fn settle(&mut self, is_done: impl Fn(FlushTicket) -> bool) {
        while let Some((end, ticket)) = self.awaiting_flush.front().copied() {
            if !is_done(ticket) {
                break;
            }
            self.ready = end;
            self.awaiting_flush.pop_front();
        }
    }

    /// Whether some entries wait for a flush.
    pub(crate) fn has_unready(&self) -> bool {
        self.ready < self.end()
    }

    /// The flush ticket that makes everything queued so far ready.
    pub(crate) fn flush_ticket(&self) -> FlushTicket {
        self.awaiting_flush.back().map_or(FlushTicket::NONE, |(_, ticket)| *ticket)
    }

    /// Somebody waits until everything queued so far is committed; returns the count to wait for.
    pub(crate) fn want_all(&mut self) -> InvalidationCount {
        self.wanted = self.end();
        self.wanted
    }

    /// Whether a record should be written for waiters alone.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted > self.committed && self.ready > self.committed
    }

    /// All that are not committed.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Stale> {
        self.queue.iter()
    }

    /// Whether some waiter wants what is not committed yet.
    pub(crate) fn awaits_any(&self) -> bool {
        self.wanted > self.committed
    }

    /// Entries that may go into the next record, oldest first.
    pub(super) fn ready_entries(&self) -> impl Iterator<Item = &Stale> {
        self.queue.iter().take(self.ready.since(self.committed))
    }

    /// How many may go into the next record.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.since(self.committed)
    }

    /// Whether an entry that is not ready touches a home block of which `is_staged` says it is about
    /// to be recorded anew (its invalidation would then come after, and kill, the newer copy).
    pub(super) fn unready_touches(&self, is_staged: impl Fn(u64) -> bool) -> bool {
        let ready = self.ready.since(self.committed);
        let blocks = |stale: &Stale| {
            let sectors = stale.sectors();
            sectors.start / BLOCK_SECTORS..sectors.end.div_ceil(BLOCK_SECTORS)
        };
        self.queue.iter().skip(ready).any(|stale| blocks(stale).any(&is_staged))
    }

    /// The record with the first `count` entries is durable; hands them out for accounting.
    pub(crate) fn commit(&mut self, count: usize) -> impl Iterator<Item = Stale> + '_ {
        self.committed = self.committed.plus(count);
        self.queue.drain(..count)
    }
}
