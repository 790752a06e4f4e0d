//! What is known of the arm, for each sort of command: a drive needs another time before it begins with a read, with a write, and with a
//! write behind a read (1.4 ms and 2.1 ms on the drive of Trail's log).
//!
//! What was never tried behind a read is taken to be as it is behind a write, and the other way round.

use super::arm::{Arm, Way};
use nearhead_disk::Nanos;

/// What a command does, and behind what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Read,
    Write,
    WriteBehindRead,
}

/// The arm as each of them finds it.
#[derive(Clone, Debug)]
pub(super) struct Arms {
    reads: Arm,
    writes: Arm,
    behind_reads: Arm,
    is_behind_read: bool,
}

impl Arms {
    pub(super) fn of(period: Nanos) -> Self {
        let new = || Arm::of(period);
        Self { reads: new(), writes: new(), behind_reads: new(), is_behind_read: false }
    }

    /// What the next command will be.
    pub(super) fn next(&self, is_write: bool) -> Sort {
        match (is_write, self.is_behind_read) {
            (false, _) => Sort::Read,
            (true, false) => Sort::Write,
            (true, true) => Sort::WriteBehindRead,
        }
    }

    /// One completed.
    pub(super) fn done(&mut self, is_write: bool) {
        self.is_behind_read = !is_write;
    }

    /// How long until the drive can begin.
    pub(super) fn access(&self, sort: Sort, way: Way) -> Nanos {
        let (own, other) = match sort {
            Sort::Read => return self.reads.access(way),
            Sort::Write => (&self.writes, &self.behind_reads),
            Sort::WriteBehindRead => (&self.behind_reads, &self.writes),
        };
        if !own.knows(way) && other.knows(way) { other.access(way) } else { own.access(way) }
    }

    pub(super) fn of_mut(&mut self, sort: Sort) -> &mut Arm {
        match sort {
            Sort::Read => &mut self.reads,
            Sort::Write => &mut self.writes,
            Sort::WriteBehindRead => &mut self.behind_reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Way = Way::OneTrack;

    #[test]
    fn what_a_write_takes_behind_a_read_is_not_what_it_takes_behind_a_write() {
        let mut arms = Arms::of(Nanos(8_000_000));
        assert_eq!(arms.next(true), Sort::Write);
        for _ in 0..40 {
            arms.of_mut(Sort::Write).was_in_time(WAY, Nanos(1_400_000), Nanos::ZERO);
        }
        let known = arms.access(Sort::Write, WAY);
        assert_eq!(arms.access(Sort::WriteBehindRead, WAY), known, "nothing else is known");
        arms.done(false);
        assert_eq!((arms.next(true), arms.next(false)), (Sort::WriteBehindRead, Sort::Read));
        for _ in 0..40 {
            arms.of_mut(Sort::WriteBehindRead).missed(WAY, Nanos(1_500_000));
            arms.of_mut(Sort::WriteBehindRead).was_in_time(WAY, Nanos(2_100_000), Nanos::ZERO);
        }
        assert!(arms.access(Sort::WriteBehindRead, WAY) > Nanos(1_500_000));
        assert!(arms.access(Sort::Write, WAY) <= known);
    }
}
