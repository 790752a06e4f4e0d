//! What a service manager hears of a daemon (`sd_notify(3)`): that it is ready, how it is, that it lives, that it stops.
//!
//! That it lives is only ever said by whoever drives the volume, so that a loop that hangs is noticed, however many other threads go on.
//! Without a service manager nothing is sent, and what cannot be sent stops nobody.

use nearhead_disk::Nanos;
use sd_notify::NotifyState;

/// How often what people read is sent anew.
const STATUS_PERIOD: Nanos = Nanos::from_secs(5);
/// Signs of life within the time that the manager gives.
const SIGNS: u64 = 3;

/// A service manager, if there is one.
#[derive(Debug)]
pub struct ServiceManager {
    is_there: bool,
    /// How often it wants to hear that this process lives.
    period: Option<Nanos>,
    alive_at: Nanos,
    status_at: Nanos,
    status: String,
}

impl ServiceManager {
    /// The one that started this process.
    pub fn find() -> Self {
        let given = sd_notify::watchdog_enabled();
        let period = given.map(|span| Nanos::from_micros(span.as_micros() as u64 / SIGNS));
        Self {
            is_there: std::env::var_os("NOTIFY_SOCKET").is_some(),
            period: period.filter(|period| *period > Nanos::ZERO),
            alive_at: Nanos::ZERO,
            status_at: Nanos::ZERO,
            status: String::new(),
        }
    }

    /// Clients are welcome.
    pub fn ready(&self) {
        self.send(&[NotifyState::Ready]);
    }

    /// Whoever drives the volume is here, and it goes as `status` says.
    pub fn alive(&mut self, now: Nanos, status: impl FnOnce() -> String) {
        if let Some(period) = self.period
            && now >= self.alive_at
        {
            self.alive_at = now + period;
            self.send(&[NotifyState::Watchdog]);
        }
        if self.is_there && now >= self.status_at {
            self.status_at = now + STATUS_PERIOD;
            self.tell(status());
        }
    }

    /// What people read of it, if that is news.
    fn tell(&mut self, status: String) {
        if status != self.status {
            self.status = status;
            self.send(&[NotifyState::Status(&self.status)]);
        }
    }

    /// A stop was asked for.
    pub fn stopping(&mut self, how: &str) {
        if self.is_there {
            self.send(&[NotifyState::Stopping]);
            self.tell(how.to_owned());
        }
    }

    fn send(&self, state: &[NotifyState<'_>]) {
        if self.is_there {
            // It is served all the same.
            let _ = sd_notify::notify(state);
        }
    }
}
