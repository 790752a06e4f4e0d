//! The newest of a row of messages, for any number of readers that each wait for the next.
//!
//! Whoever publishes never waits, whatever the readers do: one that is slow misses messages and gets the newest. Two are kept: the newest,
//! and none before it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The newest message and its number; the first one is 1.
#[derive(Debug, Default)]
pub struct Feed {
    newest: Mutex<(u64, Arc<str>)>,
    came: Condvar,
}

impl Feed {
    /// Takes the place of the message before.
    pub fn publish(&self, message: impl Into<Arc<str>>) {
        let mut newest = self.lock();
        newest.0 += 1;
        newest.1 = message.into();
        drop(newest);
        self.came.notify_all();
    }

    /// The newest message; none if there was none yet.
    pub fn newest(&self) -> Option<Arc<str>> {
        let newest = self.lock();
        (newest.0 > 0).then(|| Arc::clone(&newest.1))
    }

    /// The newest message, as soon as it is a later one than number `after`; none if there is none within `wait`.
    pub fn after(&self, after: u64, wait: Duration) -> Option<(u64, Arc<str>)> {
        let waited = self.came.wait_timeout_while(self.lock(), wait, |newest| newest.0 <= after);
        let (newest, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (newest.0 > after).then(|| (newest.0, Arc::clone(&newest.1)))
    }

    /// A message is whole whoever panicked.
    fn lock(&self) -> MutexGuard<'_, (u64, Arc<str>)> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_what_it_has_not_had_and_of_several_the_newest() {
        let feed = Feed::default();
        assert_eq!((feed.newest(), feed.after(0, Duration::ZERO)), (None, None));
        feed.publish("one");
        feed.publish("two");
        assert_eq!(feed.after(0, Duration::ZERO), Some((2, "two".into())));
        assert_eq!(feed.after(2, Duration::ZERO), None);
        assert_eq!(feed.newest(), Some("two".into()));
    }

    #[test]
    fn a_reader_that_waits_is_told_when_something_comes() {
        let feed = Arc::new(Feed::default());
        let reader = Arc::clone(&feed);
        let waiting = std::thread::spawn(move || reader.after(0, Duration::from_secs(600)));
        feed.publish("news");
        assert_eq!(waiting.join().unwrap(), Some((1, "news".into())));
    }
}
