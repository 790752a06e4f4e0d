//! Keeps account of how the disk behaves: errors, want of space, commands that are not answered.
//!
//! It only watches. Every failed command is counted; of what is told as an event only a bounded number waits, and
//! errors are told a bounded number of times in a while, the rest as their sum. A stall is looked for at times of
//! its own, so that a command that is answered in time costs nothing here.

use crate::disk::report::{
    DiskErrorCounts, DiskErrorReport, DiskEvent, DiskStall, DiskWork, Shortage,
};
use nearhead_disk::{DiskError, Nanos};
use std::collections::VecDeque;

/// Most events that wait to be asked for; of more only the newest stay.
const EVENTS_MAX: usize = 64;
/// Most errors told one by one in a period.
const TOLD_MAX: u32 = 16;
/// That period.
const PERIOD: Nanos = Nanos::from_secs(10);

/// The account.
#[derive(Debug, Default)]
pub struct DiskWatch {
    counts: DiskErrorCounts,
    last: Option<DiskErrorReport>,
    events: VecDeque<DiskEvent>,
    period_from: Nanos,
    told: u32,
    untold: u64,
    shortage: Option<Shortage>,
    stall: Option<DiskStall>,
    stalls: u64,
    /// When commands under way are looked at next, if any are.
    look_at: Option<Nanos>,
}

impl DiskWatch {
    /// Every command that failed.
    pub fn counts(&self) -> DiskErrorCounts {
        self.counts
    }

    /// The last one.
    pub fn last(&self) -> Option<&DiskErrorReport> {
        self.last.as_ref()
    }

    pub(crate) fn shortage(&self) -> Option<Shortage> {
        self.shortage
    }

    pub(crate) fn stall(&self) -> Option<DiskStall> {
        self.stall
    }

    /// How often the disk was found not to answer.
    pub(crate) fn stalls(&self) -> u64 {
        self.stalls
    }

    fn tell(&mut self, event: DiskEvent) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The next thing to tell, oldest first.
    pub fn poll(&mut self, now: Nanos) -> Option<DiskEvent> {
        if self.events.is_empty() && self.untold > 0 && now.since(self.period_from) >= PERIOD {
            let commands = std::mem::take(&mut self.untold);
            (self.period_from, self.told) = (now, 0);
            return Some(DiskEvent::MoreFailed { commands });
        }
        self.events.pop_front()
    }

    /// A command failed.
    pub fn note(&mut self, report: DiskErrorReport) {
        self.counts.note(report.work, report.kind);
        if report.at.since(self.period_from) >= PERIOD && self.untold == 0 {
            (self.period_from, self.told) = (report.at, 0);
        }
        if self.told < TOLD_MAX {
            self.told += 1;
            self.tell(DiskEvent::Failed(report.clone()));
        } else {
            self.untold += 1;
        }
        self.last = Some(report);
    }

    /// The read cache's device is done without.
    pub(crate) fn note_cache_dropped(&mut self, error: &DiskError) {
        self.counts.note(DiskWork::Cache, error.kind);
        let detail = error.detail.clone();
        self.tell(DiskEvent::CacheDropped { detail });
    }

    /// What must be written waits for space; since when.
    pub(crate) fn note_no_space(&mut self, now: Nanos, wait_max: Nanos) -> Nanos {
        if let Some(shortage) = self.shortage {
            return shortage.since;
        }
        self.shortage = Some(Shortage { since: now });
        self.tell(DiskEvent::NoSpace { wait_max });
        now
    }

    /// Such a write was done.
    pub(crate) fn note_space(&mut self, now: Nanos) {
        if let Some(shortage) = self.shortage.take() {
            self.tell(DiskEvent::SpaceIsBack { after: now.since(shortage.since) });
        }
    }

    /// When [`DiskWatch::look`] is to be called.
    pub fn look_at(&self) -> Option<Nanos> {
        self.look_at
    }

    /// The disk got its first command after it had none.
    pub fn note_busy(&mut self, now: Nanos, stall_after: Nanos) {
        if self.look_at.is_none() && self.stall.is_none() {
            self.look_at = Some(now + stall_after);
        }
    }

    /// Looks at the commands under way: when each left, and what it is for.
    pub fn look(
        &mut self,
        commands: impl Iterator<Item = (Nanos, DiskWork)>,
        now: Nanos,
        stall_after: Nanos,
    ) {
        let (mut oldest, mut late, mut next): (Option<(Nanos, DiskWork)>, u32, Option<Nanos>) =
            (None, 0, None);
        for (left_at, work) in commands {
            if now.since(left_at) >= stall_after {
                late += 1;
            } else if next.is_none_or(|next| left_at < next) {
                next = Some(left_at);
            }
            if oldest.is_none_or(|(at, _)| left_at < at) {
                oldest = Some((left_at, work));
            }
        }
        self.look_at = next.map(|left_at| left_at + stall_after);
        let Some((since, work)) = oldest.filter(|_| late > 0) else { return };
        let is_new = self.stall.is_none();
        self.stall = Some(DiskStall { since, commands: late, work });
        if is_new {
            self.stalls += 1;
            self.tell(DiskEvent::Stalled { commands: late, waited: now.since(since), work });
        }
    }

    /// A command that had left at `left_at` was answered while the disk counts as stalled; `commands` are under way
    /// still.
    pub fn note_answer(
        &mut self,
        left_at: Nanos,
        commands: impl Iterator<Item = (Nanos, DiskWork)>,
        now: Nanos,
        stall_after: Nanos,
    ) {
        let Some(stall) = self.stall.as_mut() else { return };
        let took = now.since(left_at);
        if took < stall_after {
            return;
        }
        let late = commands.filter(|(left_at, _)| now.since(*left_at) >= stall_after).count();
        if late > 0 {
            stall.commands = late as u32;
            return;
        }
        self.stall = None;
        // Those that left meanwhile are looked at in their turn.
        self.look_at = Some(now + stall_after);
        self.tell(DiskEvent::Answered { after: took });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::{DiskErrorKind, Lane};

    fn report(at_s: u64) -> DiskErrorReport {
        DiskErrorReport {
            work: DiskWork::Read,
            kind: DiskErrorKind::Io,
            lane: Lane::MAIN,
            offset: Some(4096),
            len: 512,
            at: Nanos::from_secs(at_s),
            detail: "EIO".to_owned(),
        }
    }

    fn all(watch: &mut DiskWatch, now_s: u64) -> Vec<DiskEvent> {
        std::iter::from_fn(|| watch.poll(Nanos::from_secs(now_s))).collect()
    }

    #[test]
    fn of_many_errors_all_are_counted_some_are_told_and_the_rest_as_their_sum() {
        let mut watch = DiskWatch::default();
        for _ in 0..100 {
            watch.note(report(1));
        }
        assert_eq!(watch.counts().total(), 100);
        assert_eq!(all(&mut watch, 2).len(), TOLD_MAX as usize);
        let rest = DiskEvent::MoreFailed { commands: 100 - u64::from(TOLD_MAX) };
        assert_eq!(all(&mut watch, 12), [rest]);
        watch.note(report(13));
        assert_eq!(all(&mut watch, 13), [DiskEvent::Failed(report(13))]);
        assert_eq!(watch.last(), Some(&report(13)));
    }

    #[test]
    fn events_that_nobody_asks_for_stay_few() {
        let mut watch = DiskWatch::default();
        for second in 0..10_000 {
            watch.note(report(second));
            watch.note_no_space(Nanos::from_secs(second), Nanos::ZERO);
            watch.note_space(Nanos::from_secs(second));
        }
        assert!(all(&mut watch, 10_000).len() <= EVENTS_MAX + 1);
        assert_eq!(watch.counts().total(), 10_000);
    }

    #[test]
    fn a_stall_is_told_once_and_so_is_its_end() {
        let (after, mut watch) = (Nanos::from_secs(30), DiskWatch::default());
        let at = Nanos::from_secs;
        watch.note_busy(at(1), after);
        assert_eq!(watch.look_at(), Some(at(31)));
        let commands = [(at(1), DiskWork::Flush), (at(20), DiskWork::Read)];
        watch.look(commands.into_iter(), at(31), after);
        let stalled = DiskEvent::Stalled { commands: 1, waited: at(30), work: DiskWork::Flush };
        assert_eq!(all(&mut watch, 31), [stalled]);
        assert_eq!(watch.look_at(), Some(at(50)));
        watch.look(commands.into_iter(), at(50), after);
        assert_eq!(all(&mut watch, 50), [], "it is told already");
        assert_eq!(watch.stall().map(|stall| stall.commands), Some(2));
        watch.note_answer(at(1), commands[1..].iter().copied(), at(60), after);
        assert_eq!(all(&mut watch, 60), [], "one still waits");
        watch.note_answer(at(20), [].into_iter(), at(61), after);
        assert_eq!(all(&mut watch, 61), [DiskEvent::Answered { after: at(41) }]);
        assert_eq!((watch.stall(), watch.stalls()), (None, 1));
    }

    #[test]
    fn commands_that_are_answered_in_time_are_no_stall() {
        let (after, mut watch) = (Nanos::from_secs(30), DiskWatch::default());
        watch.note_busy(Nanos::ZERO, after);
        watch.look(
            [(Nanos::from_secs(5), DiskWork::Read)].into_iter(),
            Nanos::from_secs(30),
            after,
        );
        assert_eq!((watch.stall(), watch.look_at()), (None, Some(Nanos::from_secs(35))));
        watch.look([].into_iter(), Nanos::from_secs(35), after);
        assert_eq!((watch.stall(), watch.look_at()), (None, None));
        assert_eq!(all(&mut watch, 35), []);
    }
}
