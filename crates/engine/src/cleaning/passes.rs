//! What is told of passes home: which one runs and why, and how the last one ended. Nothing is decided by it.

use crate::cleaner::Why;
use crate::pass::{Pass, PassReason};
use nearhead_disk::Nanos;

/// The reason of a pass that a policy asked for.
pub(super) fn reason_of(why: Why) -> PassReason {
    match why {
        Why::Idle => PassReason::Idle,
        Why::Room => PassReason::Filling,
        Why::Time => PassReason::Time,
        Why::Need => PassReason::NoRoom,
    }
}

/// The pass that runs, and the last one that ended.
#[derive(Debug, Default)]
pub(super) struct Passes {
    number: u64,
    running: Option<Pass>,
    last: Option<Pass>,
    /// Bytes taken home by all passes before the one that runs.
    copied_before: u64,
}

impl Passes {
    /// One begins, after so many bytes of others.
    pub(super) fn begin(&mut self, reason: PassReason, now: Nanos, copied_bytes: u64) {
        self.number += 1;
        self.copied_before = copied_bytes;
        self.running = Some(Pass {
            number: self.number,
            reason,
            begun_at: now,
            ended_at: None,
            copied_bytes: 0,
        });
    }

    /// It ended.
    pub(super) fn end(&mut self, now: Nanos, copied_bytes: u64) {
        let ended = self.running(copied_bytes);
        self.last = ended.map(|pass| Pass { ended_at: Some(now), ..pass }).or(self.last);
        self.running = None;
    }

    /// The one that runs, with what all passes took home so far.
    pub(super) fn running(&self, copied_bytes: u64) -> Option<Pass> {
        let copied_bytes = copied_bytes.saturating_sub(self.copied_before);
        self.running.map(|pass| Pass { copied_bytes, ..pass })
    }

    /// The last one that ended.
    pub(super) fn last(&self) -> Option<Pass> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_told_with_its_reason_its_time_and_what_it_took_home_by_itself() {
        let mut passes = Passes::default();
        passes.begin(PassReason::Idle, Nanos(5), 100);
        let running = passes.running(140).unwrap();
        assert_eq!((running.number, running.copied_bytes, running.ended_at), (1, 40, None));
        passes.end(Nanos(9), 150);
        assert_eq!(passes.running(150), None);
        let told = passes.last().unwrap();
        assert_eq!(
            (told.copied_bytes, told.begun_at, told.ended_at),
            (50, Nanos(5), Some(Nanos(9)))
        );
        passes.begin(PassReason::Command, Nanos(10), 150);
        assert_eq!(passes.last(), Some(told), "the last one stays until another ended");
        assert_eq!(passes.running(150).unwrap().number, 2);
    }
}
