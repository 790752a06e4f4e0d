//! Reading ahead: the head goes on after a read until its limit, or until the arm is needed.
//!
//! A stream is computed only when somebody looks at it; between looks it is just "block
//! `next_lbn` starts to pass under the head at `at`".

use crate::mechanics::{ArmPosition, Mechanics};
use nearhead_disk::Nanos;

/// A head that reads on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Segment that it fills.
    pub(super) segment: usize,
    /// First block not read yet.
    pub(super) next_lbn: u64,
    /// When that block starts to pass under the head.
    pub(super) at: Nanos,
    /// Block before which the stream stops.
    pub(super) limit: u64,
    /// Before this the arm is moving and cannot be sent elsewhere.
    pub(super) settled_at: Nanos,
    /// Track under the head.
    pub(super) arm: ArmPosition,
}

impl Stream {
    /// Whether everything up to the limit has been read.
    pub(super) fn is_over(&self) -> bool {
        self.next_lbn >= self.limit
    }

    /// Lets the head read on until `now`.
    pub(super) fn advance(&mut self, mechanics: &Mechanics, now: Nanos) {
        while !self.is_over() && self.at < now {
            let track = mechanics.geometry().locate(self.next_lbn);
            let count = track.end_lbn().min(self.limit) - self.next_lbn;
            let passing = Nanos(mechanics.spindle().pass_ns(count, track.sectors_per_track));
            if self.at + passing > now {
                let part = now.since(self.at).0 * u64::from(track.sectors_per_track)
                    / mechanics.spindle().period().0;
                let part = part.min(count - 1);
                let passing = mechanics.spindle().pass_ns(part, track.sectors_per_track);
                self.next_lbn += part;
                self.at += Nanos(passing);
                return;
            }
            self.next_lbn += count;
            self.at += passing;
            if !self.is_over() {
                let way = mechanics.approach_read(self.arm, self.at, self.next_lbn);
                self.settled_at = self.at + Nanos(way.seek_ns);
                self.at += Nanos(way.seek_ns + way.rotation_ns);
                self.arm = way.arm;
            }
        }
    }
}
