//! Which log near the head comes round soonest: as much of the disk's rotation as a host can know without a table
//! of how the drive lays out its tracks.
//!
//! - When a record completes, the block after it is under the head, and again after every revolution. So for each
//!   log written since the start it is known when its next block passes.
//! - The shortest of several accesses over about the same distance is what arm and electronics take; what others
//!   took beyond it they waited for the disk to turn.
//!
//! Together they say when a record would begin in each log. That holds only while nothing is outstanding, as
//! otherwise nobody but the drive knows when the arm is free. Every prediction is compared with what happens, and
//! while too many fail (a spindle that is not quite as fast as its datasheet says, several disks in one) none is
//! followed. A log keeps its order: nothing is skipped, so recovery need not know of any of this.

use nearhead_disk::Nanos;
use std::collections::BTreeMap;

/// Logs around the head that are compared: a seek over four groups (400 MiB) takes about what one over one does.
/// More bring little and spread what was written together.
const LOGS_COMPARED: usize = 8;
/// Larger records say little about positioning, as their transfer takes its own time.
const BYTES_MAX: u64 = 64 << 10;
/// Accesses over about the same distance before the shortest counts: an eighth of a revolution from the truth.
const ACCESSES_MIN: u32 = 8;
/// What a failed prediction takes away of the trust that one that held adds; so four in five must hold.
const MISTRUST: i32 = 4;
/// Most trust; as much mistrust.
const TRUST_MAX: i32 = 64;
/// Distances are told apart by powers of two of a MiB.
const DISTANCES: usize = 44;

/// Accesses over about the same distance.
#[derive(Clone, Copy, Debug, Default)]
struct Accesses {
    least: Nanos,
    count: u32,
}

/// How long a record will take to begin, as far as one can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) time: Nanos,
    /// Computed from when the log's next block passes; otherwise half a revolution is assumed.
    pub(super) is_known: bool,
}

/// What is known of the rotation.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    /// `None`: not a single disk with a known speed.
    period: Option<Nanos>,
    /// Where the last command ended that moved the arm.
    last_end: u64,
    accesses: [Accesses; DISTANCES],
    trust: i32,
    /// The record on its way, if nothing else is outstanding: where it began from, and what was predicted.
    alone: Option<(u64, Wait)>,
    /// Of each log written since the start the block behind its newest record, and when that was under the head.
    passed: BTreeMap<u32, (u32, Nanos)>,
}

impl Default for Rotation {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Rotation {
    /// `period` is that of the one disk that turns, if it is known.
    pub(super) fn new(period: Option<Nanos>) -> Self {
        let period = period.filter(|period| period.0 > 0);
        Self {
            period,
            last_end: 0,
            accesses: [Accesses::default(); DISTANCES],
            trust: 0,
            alone: None,
            passed: BTreeMap::new(),
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.period.is_some()
    }

    /// A record of the log completed just now: what comes after it, from `block` on, is under the head.
    pub(super) fn note_passed(&mut self, log_index: u32, block: u32, now: Nanos) {
        if self.is_known() {
            self.passed.insert(log_index, (block, now));
        }
    }

    /// When the block was under the head, if that is known; once in every revolution since.
    pub(super) fn passed_at(&self, log_index: u32, block: u32) -> Option<Nanos> {
        let (passed, at) = self.passed.get(&log_index)?;
        (*passed == block).then_some(*at)
    }

    /// How many logs to compare now, nearest first from [`Rotation::last_end`]; 0 if it is no use.
    pub(super) fn logs_compared(&self) -> usize {
        if self.period.is_some() && self.trust >= 0 { LOGS_COMPARED } else { 0 }
    }

    pub(super) fn last_end(&self) -> u64 {
        self.last_end
    }

    /// A command ended at `end` that moved the arm.
    pub(super) fn moved_to(&mut self, end: u64) {
        self.last_end = end;
    }

    fn distance(&self, offset: u64) -> usize {
        let mib = self.last_end.abs_diff(offset) >> 20;
        (u64::BITS - mib.leading_zeros()) as usize
    }

    /// How long a record would take to begin at `offset` if it left `now`; `passed_at` is when that place was
    /// under the head.
    pub(super) fn wait(&self, offset: u64, passed_at: Option<Nanos>, now: Nanos) -> Wait {
        let Some(Nanos(period)) = self.period else {
            return Wait { time: Nanos::ZERO, is_known: false };
        };
        // Too few accesses: 3 ms at 7,200 revolutions a minute, more than most seeks over a few groups.
        let assumed = Nanos(period * 3 / 8);
        let seen =
            self.accesses.get(self.distance(offset)).filter(|seen| seen.count >= ACCESSES_MIN);
        // A little later than the shortest, or the sector has just passed.
        let access = seen.map_or(assumed, |seen| seen.least) + Nanos(period / 64);
        let Some(passed_at) = passed_at else {
            return Wait { time: access + Nanos(period / 2), is_known: false };
        };
        let turned = (now + access).since(passed_at).0 % period;
        Wait { time: access + Nanos((period - turned) % period), is_known: true }
    }

    /// A record leaves with nothing outstanding.
    pub(super) fn leaves_alone(&mut self, wait: Wait) {
        self.alone = Some((self.last_end, wait));
    }

    /// A record of `bytes` at `offset` completed, or failed, after `took`.
    pub(super) fn record_completed(
        &mut self,
        offset: u64,
        bytes: u64,
        took: Nanos,
        succeeded: bool,
    ) {
        let Some((from, wait)) = self.alone.take() else { return };
        let usable = succeeded && bytes <= BYTES_MAX;
        let Some(period) = self.period.filter(|_| usable) else { return };
        self.last_end = from;
        let distance = self.distance(offset);
        if let Some(seen) = self.accesses.get_mut(distance) {
            seen.least = if seen.count == 0 { took } else { seen.least.min(took) };
            seen.count = seen.count.saturating_add(1);
        }
        if wait.is_known {
            let held =
                took + Nanos(period.0 / 8) >= wait.time && took <= wait.time + Nanos(period.0 / 4);
            let trust = if held { self.trust + 1 } else { self.trust - MISTRUST };
            self.trust = trust.clamp(-TRUST_MAX, TRUST_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Nanos = Nanos(8_000_000);
    const MIB: u64 = 1 << 20;

    /// One that knows that 10 MiB take 2 ms.
    fn rotation() -> Rotation {
        let mut rotation = Rotation::new(Some(PERIOD));
        for took_ms in [7, 5, 2, 9, 4, 3, 6, 8] {
            rotation.leaves_alone(Wait { time: Nanos::ZERO, is_known: false });
            rotation.record_completed(10 * MIB, 4096, Nanos::from_millis(took_ms), true);
        }
        rotation
    }

    #[test]
    fn a_place_that_has_just_passed_comes_a_revolution_later() {
        let rotation = rotation();
        let access = Nanos(2_125_000);
        let arrives = |now: Nanos, passed_at| rotation.wait(10 * MIB, Some(passed_at), now).time;
        let passed_at = Nanos::from_millis(1000);
        // It passes again at 1008 ms, 1016 ms, ...
        let in_time = passed_at + Nanos(5 * PERIOD.0) - access;
        assert_eq!(arrives(in_time, passed_at), access);
        assert_eq!(arrives(in_time + Nanos(1), passed_at), access + Nanos(PERIOD.0 - 1));
    }

    #[test]
    fn an_unknown_place_counts_half_a_revolution() {
        let wait = rotation().wait(10 * MIB, None, Nanos::from_millis(50));
        assert_eq!(wait, Wait { time: Nanos(6_125_000), is_known: false });
    }

    #[test]
    fn predictions_that_fail_are_not_followed_until_they_hold_again() {
        let mut rotation = rotation();
        let mut predict = |took_ms: u64, times: u32| {
            for _ in 0..times {
                rotation.leaves_alone(Wait { time: Nanos::from_millis(3), is_known: true });
                rotation.record_completed(10 * MIB, 4096, Nanos::from_millis(took_ms), true);
            }
            rotation.logs_compared()
        };
        assert_eq!(predict(3, 10), LOGS_COMPARED);
        assert_eq!(predict(9, 3), 0, "they took two thirds of a revolution longer");
        assert_eq!(predict(3, 2), LOGS_COMPARED);
        assert_eq!(predict(1, 3), 0, "nor may they come too soon");
    }

    #[test]
    fn a_disk_of_unknown_speed_compares_nothing() {
        assert_eq!(Rotation::new(None).logs_compared(), 0);
        assert_eq!(Rotation::new(Some(Nanos::ZERO)).logs_compared(), 0);
    }
}
