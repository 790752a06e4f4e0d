//! What is booked of a member's rest: since when it has had nothing to do, for how long it rested in all, and what woke it.
//!
//! A member rests from when it has had nothing to do for as long as was said, or from when that was said, if it had by then. Every
//! moment of rest is counted once, whatever is said meanwhile.

use nearhead_disk::{Class, Command, Nanos, Woken, WokenBy};

/// When members rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leave {
    /// Once they have had nothing to do for so long.
    pub(super) after: Nanos,
    /// Since when that is so.
    pub(super) since: Nanos,
}

/// The book of one member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rested {
    /// When it last began or ended anything.
    busy_at: Nanos,
    /// For how long it rested, up to when it was woken last.
    before: Nanos,
    woken: Woken,
}

impl Rested {
    /// It begins or ends something.
    pub(super) fn note_busy(&mut self, now: Nanos) {
        self.busy_at = now;
    }

    /// For how long it has had nothing to do, if nothing is under way.
    pub(super) fn idle(&self, now: Nanos) -> Nanos {
        now.since(self.busy_at)
    }

    /// For how long it has rested, if it does and nothing is under way.
    pub(super) fn resting_for(&self, leave: Option<Leave>, now: Nanos) -> Option<Nanos> {
        let leave = leave.filter(|leave| self.idle(now) >= leave.after)?;
        Some(now.since((self.busy_at + leave.after).max(leave.since)))
    }

    /// For how long in all.
    pub(super) fn in_all(&self, leave: Option<Leave>, now: Nanos) -> Nanos {
        self.before + self.resting_for(leave, now).unwrap_or(Nanos::ZERO)
    }

    /// What it rested so far is booked: another rule begins.
    pub(super) fn settle(&mut self, leave: Option<Leave>, now: Nanos) {
        self.before = self.in_all(leave, now);
    }

    /// It was woken.
    pub(super) fn wake(&mut self, by: WokenBy, leave: Option<Leave>, now: Nanos) {
        self.settle(leave, now);
        self.woken.note(by);
    }

    pub(super) fn woken(&self) -> Woken {
        self.woken
    }
}

/// What a member is woken by that is given this command, if nothing else is known of it.
pub(super) fn woken_by(class: Class, command: &Command) -> WokenBy {
    match (class, command) {
        (Class::Background, _) => WokenBy::Cleaning,
        (_, Command::Read { .. }) => WokenBy::Read,
        _ => WokenBy::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn every_moment_of_rest_is_counted_once_whatever_is_said_meanwhile() {
        let mut rested = Rested::default();
        rested.note_busy(at(10));
        let leave = |after, since| Some(Leave { after: at(after), since: at(since) });
        assert_eq!(rested.resting_for(None, at(1000)), None);
        // It has had nothing to do for longer when it is allowed to rest.
        assert_eq!(rested.resting_for(leave(30, 100), at(100)), Some(at(0)));
        assert_eq!(rested.resting_for(leave(30, 100), at(160)), Some(at(60)));
        rested.settle(leave(30, 100), at(160));
        assert_eq!(rested.in_all(leave(300, 160), at(200)), at(60), "not for long enough yet");
        assert_eq!(rested.in_all(leave(300, 160), at(320)), at(70));
        rested.wake(WokenBy::Write, leave(300, 160), at(330));
        rested.note_busy(at(331));
        assert_eq!(rested.in_all(leave(300, 160), at(400)), at(80));
        assert_eq!((rested.woken().total(), rested.woken().by(WokenBy::Write)), (1, 1));
    }
}
