//! A timer that one thread waits for and others set.
//!
//! It is a descriptor of the kernel's (timerfd), so setting it wakes nobody up: the thread that
//! received a request sets it and goes on, and the one that waits sleeps until the reply is due.

use nearhead_disk::Nanos;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::os::fd::OwnedFd;

/// The timer.
pub(crate) struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    /// One that is not set.
    pub(crate) fn new() -> Result<Self, Errno> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        Ok(Self { timer })
    }

    /// It rings in `span` from now, also for 0, and not at any time it was set to before.
    pub(crate) fn set(&self, span: Nanos) -> Result<(), Errno> {
        // A time of 0 would unset it. A day at most: far times must not overflow.
        let span = span.0.clamp(1, 86_400 * 1_000_000_000);
        let it_value = Timespec {
            tv_sec: (span / 1_000_000_000) as i64,
            tv_nsec: (span % 1_000_000_000) as i64,
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting).map(drop)
    }

    /// Waits until it rings.
    pub(crate) fn wait(&self) -> Result<(), Errno> {
        let mut times = [0; 8];
        match rustix::io::read(&self.timer, &mut times) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
