//! The pace of clients where cleaning makes all the room there is: a little of it at a time, and nobody waits for the end of a cycle.
//!
//! What cleaning frees comes all at once, with the snapshot that ends a cycle. Whoever takes it as fast as the disk can then waits for the
//! whole of the next cycle. So while cleaning is at work and room is scarce, clients have used no larger share of the room that they found
//! than is over of the time that the last cycle worked. It must never hold anybody while cleaning rests, nor longer than such a cycle works:
//! a wrong guess costs a wait that there was without it, too.

use crate::core::Core;
use nearhead_disk::Nanos;

/// Room is scarce where clients find less than so many of a hundred logs when a cycle begins.
const SCARCE_PCT: u64 = 5;

/// What is seen of a chain that is to be cleaned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    now: Nanos,
    /// A cycle ends with each snapshot.
    snapshot_number: u64,
    /// Something is copied, or a snapshot is written.
    is_at_work: bool,
    /// In free logs that clients may begin.
    room_bytes: u64,
    /// Of all logs there are.
    chain_bytes: u64,
    /// Of all records so far.
    recorded_bytes: u64,
}

impl Seen {
    pub(super) fn of(core: &Core, snapshot_number: u64, is_at_work: bool) -> Self {
        let (room_bytes, chain_bytes) = core.logs().room_of_chain();
        let recorded_bytes = core.stats().record_bytes;
        Self {
            now: core.now(),
            snapshot_number,
            is_at_work,
            room_bytes,
            chain_bytes,
            recorded_bytes,
        }
    }
}

/// From one snapshot to the next.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    /// As it began; its number is that of the snapshot before it.
    first: Seen,
    /// As it was seen the last time.
    last: Seen,
    /// So long something was at work.
    worked: Nanos,
    /// It began with a snapshot, not in the middle.
    is_whole: bool,
}

impl Cycle {
    fn worked_by(&self, now: Nanos) -> Nanos {
        let since = if self.last.is_at_work { now.since(self.last.now) } else { Nanos::ZERO };
        self.worked + since
    }

    fn is_scarce(&self) -> bool {
        self.first.room_bytes * 100 < self.first.chain_bytes * SCARCE_PCT
    }
}

/// The cycle under way, and how long the last one worked.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    now: Option<Cycle>,
    last_worked: Option<Nanos>,
}

impl Cycles {
    /// The chain is to be cleaned, and this is how it stands; or it is not.
    pub(crate) fn observe(&mut self, seen: Option<Seen>) {
        let Some(seen) = seen else {
            *self = Self::default();
            return;
        };
        let begun = |is_whole| Cycle { first: seen, last: seen, worked: Nanos::ZERO, is_whole };
        let Some(cycle) = &mut self.now else {
            self.now = Some(begun(false));
            return;
        };
        cycle.worked = cycle.worked_by(seen.now);
        cycle.last = seen;
        if cycle.first.snapshot_number != seen.snapshot_number {
            self.last_worked = cycle.is_whole.then_some(cycle.worked).or(self.last_worked);
            self.now = Some(begun(true));
        }
    }

    /// Until when what clients wrote waits, of which so much is in records so far: none if it need not.
    pub(crate) fn held_until(&self, now: Nanos, recorded_bytes: u64) -> Option<Nanos> {
        let cycle = self.now.as_ref().filter(|cycle| cycle.last.is_at_work && cycle.is_scarce())?;
        let used_bytes = recorded_bytes - cycle.first.recorded_bytes.min(recorded_bytes);
        let used_bytes = used_bytes.min(cycle.first.room_bytes);
        let share = u128::from(self.last_worked?.0) * u128::from(used_bytes);
        let due = Nanos(share.checked_div(u128::from(cycle.first.room_bytes))? as u64);
        let worked = cycle.worked_by(now);
        (due > worked).then(|| now + due.since(worked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn seen(at_ms: u64, snapshot_number: u64) -> Seen {
        Seen {
            now: Nanos::from_millis(at_ms),
            snapshot_number,
            is_at_work: true,
            room_bytes: 100 * MIB,
            chain_bytes: 10_000 * MIB,
            recorded_bytes: 0,
        }
    }

    /// Cycles that work for two seconds each, the newest of which began at 3 s.
    fn cycles() -> Cycles {
        let mut cycles = Cycles::default();
        for (at_ms, number) in [(0, 1), (1000, 2), (3000, 3)] {
            cycles.observe(Some(seen(at_ms, number)));
        }
        cycles
    }

    #[test]
    fn clients_use_no_larger_share_of_the_room_than_is_over_of_the_cycle() {
        let cycles = cycles();
        let at = |ms| Nanos::from_millis(ms);
        assert_eq!(cycles.held_until(at(3000), 0), None, "nothing was used");
        assert_eq!(cycles.held_until(at(3000), 25 * MIB), Some(at(3500)));
        assert_eq!(cycles.held_until(at(3500), 25 * MIB), None);
        assert_eq!(cycles.held_until(at(3500), 400 * MIB), Some(at(5000)), "never longer");
        assert_eq!(cycles.held_until(at(9000), 400 * MIB), None, "it takes longer than the last");
    }

    #[test]
    fn nobody_is_held_while_nothing_is_at_work_or_room_is_not_scarce_or_no_cycle_is_known() {
        let at = Nanos::from_millis(3100);
        let mut rests = cycles();
        rests.observe(Some(Seen { is_at_work: false, ..seen(3050, 3) }));
        assert_eq!(rests.held_until(at, 50 * MIB), None);
        let mut wide = cycles();
        wide.observe(Some(Seen { room_bytes: 500 * MIB, ..seen(3100, 4) }));
        assert_eq!(wide.held_until(at, 50 * MIB), None);
        let mut first = Cycles::default();
        first.observe(Some(seen(0, 1)));
        first.observe(Some(seen(1000, 2)));
        assert_eq!(first.held_until(at, 50 * MIB), None, "the one that was seen whole is not over");
        let mut over = cycles();
        over.observe(None);
        assert_eq!(over.held_until(at, 50 * MIB), None, "there is room enough");
        let mut full = cycles();
        full.observe(Some(Seen { room_bytes: 0, ..seen(3100, 4) }));
        assert_eq!(full.held_until(at, 50 * MIB), None, "what has no room waits for that");
    }

    #[test]
    fn only_the_time_counts_in_which_something_is_at_work() {
        let mut cycles = cycles();
        cycles.observe(Some(Seen { is_at_work: false, ..seen(3100, 3) }));
        cycles.observe(Some(seen(60_000, 3)));
        let at = Nanos::from_millis(60_000);
        assert_eq!(cycles.held_until(at, 25 * MIB), Some(Nanos::from_millis(60_400)));
    }
}
