//! Commands that wait for the arm, and which of them goes next.

use crate::mechanics::{ArmPosition, Mechanics, Target};
use crate::profile_parts::QueuePolicy;
use nearhead_disk::{Class, Nanos, Payload, Ticket};
use std::ops::RangeInclusive;

/// What a waiting command does with the medium.
#[derive(Debug)]
pub(super) enum MediaOperation {
    Read,
    Write { parts: Vec<Payload> },
    Zero,
}

/// A command that waits for the arm.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    pub(super) class: Class,
    /// Order of arrival, and the version of its bytes.
    pub(super) sequence: u64,
    pub(super) arrived_at: Nanos,
    /// When the electronics have understood it.
    pub(super) ready_at: Nanos,
    /// When its data can begin to cross the interface.
    pub(super) data_from: Nanos,
    pub(super) lbn: u64,
    pub(super) target: Target,
    pub(super) sectors: u64,
    pub(super) operation: MediaOperation,
}

impl Pending {
    pub(super) fn end(&self) -> u64 {
        self.lbn + self.sectors
    }

    pub(super) fn is_write(&self) -> bool {
        !matches!(self.operation, MediaOperation::Read)
    }
}

/// How the queue chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chooser {
    pub(super) policy: QueuePolicy,
    /// A command that waited this long goes first.
    pub(super) age_limit: Nanos,
    /// What SPTF takes off a positioning time per time waited.
    pub(super) aging: f64,
    pub(super) honours_priority: bool,
}

/// Where the choice is made.
pub(super) struct Situation<'a> {
    pub(super) mechanics: &'a Mechanics,
    pub(super) arm: ArmPosition,
    pub(super) now: Nanos,
    /// Block from which an elevator goes on upwards.
    pub(super) cursor: u64,
    /// Reads that begin here go on where the head is reading ahead.
    pub(super) streaming: Option<RangeInclusive<u64>>,
}

impl Chooser {
    /// Index of the command in `queue` that goes next, among those that are ready.
    pub(super) fn choose(&self, queue: &[Pending], situation: &Situation<'_>) -> Option<usize> {
        let ready = |pending: &Pending| pending.ready_at <= situation.now;
        if queue.len() == 1 {
            return ready(&queue[0]).then_some(0);
        }
        let best_class = if self.honours_priority {
            queue.iter().filter(|pending| ready(pending)).map(|pending| pending.class).min()
        } else {
            None
        };
        let candidates = || {
            queue.iter().enumerate().filter(|(_, pending)| {
                ready(pending) && best_class.is_none_or(|class| class == pending.class)
            })
        };
        let oldest = candidates().min_by_key(|(_, pending)| pending.sequence)?;
        if situation.now.since(oldest.1.arrived_at) >= self.age_limit {
            return Some(oldest.0);
        }
        let chosen = match self.policy {
            QueuePolicy::Fifo => Some(oldest),
            QueuePolicy::Clook => candidates().min_by_key(|(_, pending)| {
                (pending.lbn < situation.cursor, pending.lbn, pending.sequence)
            }),
            QueuePolicy::Sptf => return self.nearest(candidates(), situation),
        };
        chosen.map(|(index, _)| index)
    }

    /// The command with the shortest positioning time, less a share of the time it waited: aged
    /// SPTF (Jacobson and Wilkes, HP Laboratories report HPL-CSP-91-7). Without aging, a stream of
    /// reads that follow each other would keep everything else waiting for ever.
    fn nearest<'a>(
        &self,
        candidates: impl Iterator<Item = (usize, &'a Pending)>,
        situation: &Situation<'_>,
    ) -> Option<usize> {
        let mut best: Option<(i64, u64, usize)> = None;
        for (index, pending) in candidates {
            let waited = situation.now.since(pending.arrived_at).0;
            let bonus = (waited as f64 * self.aging) as i64;
            let enough = best.map_or(i64::MAX, |(cost, ..)| cost.saturating_add(bonus));
            let positioning = situation.positioning_ns(pending, enough.max(0) as u64);
            let found = (positioning as i64 - bonus, pending.sequence, index);
            if best.is_none_or(|best| found < best) {
                best = Some(found);
            }
        }
        best.map(|(_, _, index)| index)
    }
}

impl Situation<'_> {
    /// Time until the head is there; some number from `enough` on if it is at least that.
    fn positioning_ns(&self, pending: &Pending, enough: u64) -> u64 {
        let write = pending.is_write();
        let joins = |range: &RangeInclusive<u64>| range.contains(&pending.lbn);
        if !write && self.streaming.as_ref().is_some_and(joins) {
            return 0;
        }
        self.mechanics.positioning_below(self.arm, self.now, &pending.target, write, enough)
    }
}
