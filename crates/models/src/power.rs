//! What a drive draws, and what sleeping costs: a layer over any disk that stops turning when it had nothing to do for long, and takes
//! its time to turn again.
//!
//! The drive goes to standby by its own timer alone, as drives do that were told so once (`hdparm -S`); a command that comes then waits
//! until it is ready. What stays true: without a timer the disk below behaves as ever, and every moment since it was made is booked
//! once, as active (a command is outstanding), idle, standby or spinning up. It must never change what a command does.

use nearhead_disk::{Completion, Disk, Nanos, Properties, Submission};
use std::collections::VecDeque;

/// What a drive draws in each of its states, in watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerSpec {
    /// While it works.
    pub active_w: f64,
    /// While it turns and has nothing to do.
    pub idle_w: f64,
    /// While it does not turn.
    pub standby_w: f64,
    /// While it begins to turn.
    pub spin_up_w: f64,
    /// How long that takes.
    pub spin_up: Nanos,
}

impl PowerSpec {
    /// A 3.5-inch drive of 4 TB and 7200 rpm: volts times amperes of the Seagate Constellation ES.3 Serial ATA product manual (rev. E, table
    /// 2): sequential writes 0.55 A at 5 V and 0.60 A at 12 V, idle 0.28 and 0.50, standby 0.15 and 0.01, and while it begins to
    /// turn as much as its peak, 0.52 and 2.16. How long that takes at most is of the model before, ES.2 with 3 TB (rev. H, 2.7):
    /// 15 s from standby to ready.
    pub const CONSTELLATION: Self = Self {
        active_w: 5.0 * 0.55 + 12.0 * 0.60,
        idle_w: 5.0 * 0.28 + 12.0 * 0.50,
        standby_w: 5.0 * 0.15 + 12.0 * 0.01,
        spin_up_w: 5.0 * 0.52 + 12.0 * 2.16,
        spin_up: Nanos::from_secs(15),
    };
}

/// How long a drive was in each of its states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerTimes {
    /// A command was outstanding.
    pub active: Nanos,
    /// It turned, and had nothing to do.
    pub idle: Nanos,
    /// It did not turn.
    pub standby: Nanos,
    /// It began to turn.
    pub spin_up: Nanos,
    /// How often it did.
    pub spin_ups: u64,
}

impl PowerTimes {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            active: self.active - earlier.active,
            idle: self.idle - earlier.idle,
            standby: self.standby - earlier.standby,
            spin_up: self.spin_up - earlier.spin_up,
            spin_ups: self.spin_ups - earlier.spin_ups,
        }
    }

    /// What that takes of a drive like this one, in joules.
    pub fn joules(self, spec: &PowerSpec) -> f64 {
        self.active.as_secs_f64() * spec.active_w
            + self.idle.as_secs_f64() * spec.idle_w
            + self.standby.as_secs_f64() * spec.standby_w
            + self.spin_up.as_secs_f64() * spec.spin_up_w
    }
}

/// A disk with its power booked, which may sleep.
pub struct Powered<D> {
    disk: D,
    spec: PowerSpec,
    /// It goes to standby after so long with nothing to do; never without.
    standby_after: Option<Nanos>,
    times: PowerTimes,
    /// Up to when they are booked.
    booked: Nanos,
    outstanding: usize,
    /// It begins to turn, and will be ready then.
    ready_at: Option<Nanos>,
    /// Commands that wait for that; as many as the host gave, who knows the queue.
    waiting: VecDeque<Submission>,
    /// Since when it has had nothing to do.
    free_since: Nanos,
}

impl<D: Disk> Powered<D> {
    /// It turns, and goes to standby after so long with nothing to do, or never.
    pub fn new(disk: D, spec: PowerSpec, standby_after: Option<Nanos>) -> Self {
        Self {
            disk,
            spec,
            standby_after,
            times: PowerTimes::default(),
            booked: Nanos::ZERO,
            outstanding: 0,
            ready_at: None,
            waiting: VecDeque::new(),
            free_since: Nanos::ZERO,
        }
    }

    /// For how long it was in which state until `now`.
    pub fn times(&self, now: Nanos) -> PowerTimes {
        let mut times = self.times;
        self.book_into(&mut times, now);
        times
    }

    /// Books what happened since it was booked last: nothing came or went meanwhile.
    fn book_into(&self, times: &mut PowerTimes, now: Nanos) {
        let now = now.max(self.booked);
        if let Some(ready_at) = self.ready_at {
            let turns_from = ready_at.clamp(self.booked, now);
            times.spin_up += turns_from.since(self.booked);
            times.active += now.since(turns_from);
        } else if self.outstanding > 0 {
            times.active += now.since(self.booked);
        } else {
            let sleeps_from = self.sleeps_from().map_or(now, |at| at.clamp(self.booked, now));
            times.idle += sleeps_from.since(self.booked);
            times.standby += now.since(sleeps_from);
        }
    }

    fn book(&mut self, now: Nanos) {
        let mut times = self.times;
        self.book_into(&mut times, now);
        self.times = times;
        self.booked = self.booked.max(now);
    }

    /// From when on it does not turn, if nothing comes.
    fn sleeps_from(&self) -> Option<Nanos> {
        self.standby_after.map(|after| self.free_since + after)
    }

    /// Hands on what waited, if it turns again.
    fn go_on(&mut self, now: Nanos) {
        if self.ready_at.is_none_or(|ready_at| ready_at > now) {
            return;
        }
        self.book(now);
        self.ready_at = None;
        while let Some(submission) = self.waiting.pop_front() {
            self.disk.submit(submission, now);
        }
        self.disk.kick();
    }
}

impl<D: Disk> Disk for Powered<D> {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.go_on(now);
        self.book(now);
        let sleeps = self.outstanding == 0 && self.sleeps_from().is_some_and(|from| from <= now);
        self.outstanding += 1;
        if sleeps {
            self.ready_at = Some(now + self.spec.spin_up);
            self.times.spin_ups += 1;
        }
        if self.ready_at.is_some() {
            self.waiting.push_back(submission);
        } else {
            self.disk.submit(submission, now);
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.go_on(now);
        let done = self.disk.poll(now)?;
        self.book(now);
        self.outstanding = self.outstanding.saturating_sub(1);
        self.free_since = now;
        Some(done)
    }

    fn wake_at(&self) -> Option<Nanos> {
        [self.ready_at, self.disk.wake_at()].into_iter().flatten().min()
    }
}

impl<D> Drop for Powered<D> {
    fn drop(&mut self) {
        self.waiting.drain(..).for_each(|submission| submission.ticket.abandon());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InstantDisk, MemoryStore, plain_properties};
    use nearhead_disk::{Class, Command, CommandId, Ticket};

    const SPEC: PowerSpec = PowerSpec::CONSTELLATION;

    fn disk(standby_after_s: Option<u64>) -> Powered<InstantDisk> {
        let store = Box::new(MemoryStore::new());
        let below = InstantDisk::new(plain_properties(1 << 20, 512), store, Nanos::from_secs(2));
        Powered::new(below, SPEC, standby_after_s.map(Nanos::from_secs))
    }

    /// Gives it a command then, and says when that is answered.
    fn answered(disk: &mut Powered<InstantDisk>, at_s: u64) -> Nanos {
        let ticket = Ticket::new(CommandId(at_s));
        let command = Command::Read { offset: 0, len: 512 };
        let submission = Submission { ticket, class: Class::Foreground, command };
        disk.submit(submission, Nanos::from_secs(at_s));
        loop {
            let at = disk.wake_at().unwrap();
            if disk.poll(at).is_some() {
                return at;
            }
        }
    }

    fn seconds(times: PowerTimes) -> [u64; 4] {
        [times.active, times.idle, times.standby, times.spin_up].map(|span| span.0 / 1_000_000_000)
    }

    #[test]
    fn a_drive_without_a_timer_never_sleeps() {
        let mut disk = disk(None);
        assert_eq!(answered(&mut disk, 1000), Nanos::from_secs(1002));
        assert_eq!(seconds(disk.times(Nanos::from_secs(1010))), [2, 1008, 0, 0]);
    }

    #[test]
    fn a_command_that_comes_while_the_drive_sleeps_waits_until_it_turns_and_one_that_comes_before_does_not()
     {
        let mut disk = disk(Some(100));
        assert_eq!(answered(&mut disk, 99), Nanos::from_secs(101));
        assert_eq!(answered(&mut disk, 201), Nanos::from_secs(218), "15 s and 2");
        assert_eq!(answered(&mut disk, 218), Nanos::from_secs(220));
        let times = disk.times(Nanos::from_secs(330));
        assert_eq!(seconds(times), [6, 99 + 100 + 100, 10, 15]);
        assert_eq!(times.spin_ups, 1);
        assert_eq!(seconds(times).iter().sum::<u64>(), 330, "every moment once");
    }

    #[test]
    fn commands_that_come_while_it_begins_to_turn_wait_for_the_same() {
        let mut disk = disk(Some(10));
        for (id, at_s) in [(1, 50), (2, 55)] {
            let ticket = Ticket::new(CommandId(id));
            let submission =
                Submission { ticket, class: Class::Foreground, command: Command::Flush };
            disk.submit(submission, Nanos::from_secs(at_s));
            assert_eq!(disk.wake_at(), Some(Nanos::from_secs(65)));
        }
        assert!(disk.poll(Nanos::from_secs(64)).is_none());
        assert!(disk.poll(Nanos::from_secs(65)).is_none(), "they take their time then");
        let end = Nanos::from_secs(67);
        assert_eq!([disk.poll(end), disk.poll(end)].into_iter().flatten().count(), 2);
        assert_eq!((disk.times(end).spin_ups, disk.times(end).spin_up), (1, Nanos::from_secs(15)));
    }

    #[test]
    fn what_it_takes_is_what_it_draws_for_as_long_as_it_does() {
        let one = |of: fn(&mut PowerTimes) -> &mut Nanos| {
            let mut times = PowerTimes::default();
            *of(&mut times) = Nanos::from_secs(10);
            times.joules(&SPEC)
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
        near(one(|times| &mut times.active), 99.5);
        near(one(|times| &mut times.idle), 74.0);
        near(one(|times| &mut times.standby), 8.7);
        near(one(|times| &mut times.spin_up), 285.2);
    }
}
