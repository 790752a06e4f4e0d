//! The mailbox between the threads that carry commands and the one that polls, in every interleaving.
//!
//! Its source is built here over loom's locks; the bell is a counter that a sleeper waits for, as an
//! event descriptor is. A wake-up that gets lost is a sleeper that nobody wakes, which loom reports.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[path = "../src/mailbox.rs"]
mod mailbox;

/// What `crate::sync` is in the library.
mod sync {
    pub(crate) use loom::sync::Mutex;
}

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use mailbox::Mailbox;

/// An event descriptor: rings add up, a sleeper waits until there is one, silence takes them all.
struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    fn new() -> Self {
        Self { rings: Mutex::new(0), rung: Condvar::new() }
    }

    fn ring(&self) {
        *self.rings.lock().unwrap() += 1;
        self.rung.notify_one();
    }

    fn silence(&self) {
        *self.rings.lock().unwrap() = 0;
    }

    fn sleep_until_rung(&self) {
        let mut rings = self.rings.lock().unwrap();
        while *rings == 0 {
            rings = self.rung.wait(rings).unwrap();
        }
    }
}

/// `workers` threads put `each` in; the poller takes what there is and sleeps until all came.
fn nobody_sleeps_over_a_completion(workers: usize, each: usize) {
    loom::model(move || {
        let shared = Arc::new((Mailbox::new(), Bell::new()));
        let threads: Vec<_> = (0..workers)
            .map(|worker| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    for number in 0..each {
                        shared.0.put(worker * each + number, || shared.1.ring());
                    }
                })
            })
            .collect();
        let mut taken = Vec::new();
        while taken.len() < workers * each {
            match shared.0.take(|| shared.1.silence()) {
                Some(item) => taken.push(item),
                None => shared.1.sleep_until_rung(),
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..workers * each).collect::<Vec<_>>(), "each comes once");
    });
}

#[test]
fn one_worker_with_two_completions_is_heard() {
    nobody_sleeps_over_a_completion(1, 2);
}

#[test]
fn two_workers_are_heard() {
    nobody_sleeps_over_a_completion(2, 1);
}
