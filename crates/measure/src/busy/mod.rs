//! Whether the machine was busy with something else while real time was measured.
//!
//! A number that was taken in real time on a machine that also does other work is a number about that
//! machine. So whoever measures in real time starts a [`Watch`], and tells what [`judge`] says of it
//! beside the numbers. What is watched: processor time that a hypervisor took (steal), that other programs
//! took, how long anything waited for a processor (pressure), how late a sleeping thread woke, and what
//! the bare disk gave before and after. The judgement is a pure function over these; nothing here changes
//! a measurement, and a machine that does not tell one of them is judged by the others.

mod judge;
mod processors;
mod sleeper;
mod word;

pub(crate) use judge::{Bare, Machine, judge};
pub(crate) use word::{BUSY, repeat, seen};

use processors::Counters;
use sleeper::Sleeper;
use std::time::Duration;

/// How long a timer is tried before and after a measurement that uses all processors itself.
const TRIAL: Duration = Duration::from_millis(400);

/// Looks at the machine while something is measured.
pub(crate) struct Watch {
    before: Counters,
    timer: Timer,
}

/// How it is found out how late sleeps end.
enum Timer {
    Beside(Sleeper),
    /// What was found before; the worse of that and what is found after counts.
    Around(Option<f64>),
}

impl Watch {
    /// Beside a measurement that leaves processors idle most of the time: the timer is tried
    /// meanwhile.
    pub(crate) fn beside() -> Self {
        Self { before: Counters::read(), timer: Timer::Beside(Sleeper::start()) }
    }

    /// Around a measurement that may use all processors: it would disturb the timer itself.
    pub(crate) fn around() -> Self {
        let late_us = Sleeper::try_for(TRIAL);
        Self { before: Counters::read(), timer: Timer::Around(late_us) }
    }

    /// What the machine did since. What was measured must have ended.
    pub(crate) fn end(self) -> Machine {
        let spent = Counters::read().since(&self.before);
        let sleep_late_us_p99 = match self.timer {
            Timer::Beside(sleeper) => sleeper.late_us_p99(),
            Timer::Around(before_us) => {
                let after_us = Sleeper::try_for(TRIAL);
                before_us.into_iter().chain(after_us).reduce(f64::max)
            }
        };
        Machine {
            steal_pct: spent.steal_pct(),
            others_pct: spent.others_pct(),
            pressure_pct: spent.pressure_pct(),
            sleep_late_us_p99,
            bare: Vec::new(),
        }
    }
}
