//! Clock of durable writes at one disk: how long they have had it in total, and whether one was there lately.
//!
//! It keeps true: the total grows only while a durable command is on the disk or a record waits for the disk, so the difference of
//! two readings is the time that another command gave way to durable writes. Time behind commands of its own class never counts. It
//! decides nothing: what a command may do after so much time is the admission's to say.

use nearhead_disk::Nanos;

/// Period after the last durable command in which the dispatcher keeps the queue in the arm's order for the next one. With 20 ms
/// DTRS at a depth of 8 and figure 6b lose what that order brings, as their records are farther apart.
const RECENT: Nanos = Nanos::from_secs(1);

/// Time that durable writes have had a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DurableClock {
    /// Total of all periods that are over.
    past: Nanos,
    /// Start of the current period, if durable writes have the disk now.
    since: Option<Nanos>,
    /// Time at which the last durable command left.
    left_at: Option<Nanos>,
}

impl DurableClock {
    /// Starts, continues or ends a period: `has_disk` is whether a durable command is on the disk or a record waits.
    pub(super) fn set(&mut self, has_disk: bool, now: Nanos) {
        match self.since {
            None if has_disk => self.since = Some(now),
            Some(since) if !has_disk => {
                self.past += now.since(since);
                self.since = None;
            }
            _ => {}
        }
    }

    /// Notes that a durable command leaves.
    pub(super) fn note_left(&mut self, now: Nanos) {
        self.left_at = Some(now);
    }

    /// Reading of the clock: the total up to `now`.
    pub(super) fn total(&self, now: Nanos) -> Nanos {
        self.past + self.since.map_or(Nanos::ZERO, |since| now.since(since))
    }

    /// Whether a durable command left within the last second.
    pub(super) fn is_recent(&self, now: Nanos) -> bool {
        self.left_at.is_some_and(|left_at| now.since(left_at) <= RECENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn the_total_grows_only_while_durable_writes_have_the_disk() {
        let mut clock = DurableClock::default();
        assert_eq!(clock.total(ms(90)), Nanos::ZERO);
        clock.set(true, ms(100));
        clock.set(true, ms(103));
        assert_eq!(clock.total(ms(105)), ms(5));
        clock.set(false, ms(107));
        clock.set(false, ms(150));
        assert_eq!(clock.total(ms(200)), ms(7));
        clock.set(true, ms(200));
        assert_eq!(clock.total(ms(201)), ms(8));
    }

    #[test]
    fn a_durable_command_is_recent_for_a_second() {
        let mut clock = DurableClock::default();
        assert!(!clock.is_recent(ms(5)), "none has left");
        clock.note_left(ms(500));
        assert!(clock.is_recent(ms(1500)) && !clock.is_recent(ms(1501)));
    }
}
