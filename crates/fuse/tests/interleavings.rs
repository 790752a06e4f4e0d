//! Threads that ask and take turns, in every interleaving.
//!
//! Their source is built here over loom's locks. A request that stays in the queue when all threads are done is one that nobody would
//! answer; loom tries every order in which that could happen.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[path = "../src/turns.rs"]
mod turns;

/// What `crate::sync` is in the library.
mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::TryLockError;
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use turns::{Turn, Turns};

/// How often in one order a thread is stopped where it need not be.
const PREEMPTIONS: usize = 3;

/// What was taken in, and what is still due: a request that is answered in the turn after the one that took it.
#[derive(Default)]
struct Taken {
    requests: Vec<usize>,
    due: Vec<usize>,
}

/// Takes in what was asked, and may be stopped then: loom stops a thread only where it touches what others do, `middle` here.
fn turn(
    middle: &AtomicUsize,
    taken: &mut Taken,
    asked: impl IntoIterator<Item = usize>,
) -> Turn<usize> {
    middle.fetch_add(1, Ordering::Relaxed);
    let answered = std::mem::take(&mut taken.due);
    let left = answered.len();
    taken.requests.extend(answered);
    taken.due.extend(asked);
    Turn { is_due: !taken.due.is_empty(), left }
}

/// `threads` threads ask for `each`; one more takes a turn by itself, as the one that sleeps does.
fn each_request_is_answered_once(threads: usize, each: usize, has_sleeper: bool) {
    let mut model = loom::model::Builder::new();
    // Two threads in the wrong place are enough for whatever was thought of; without a bound it takes minutes.
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let turns = Arc::new(Turns::new(Taken::default()));
        let answered = Arc::new(loom::sync::Mutex::new(0));
        let middle = Arc::new(AtomicUsize::new(0));
        let asking: Vec<_> = (0..threads)
            .map(|thread| {
                let (turns, answered) = (Arc::clone(&turns), Arc::clone(&answered));
                let middle = Arc::clone(&middle);
                thread::spawn(move || {
                    for number in 0..each {
                        turns.put(thread * each + number);
                        middle.fetch_add(1, Ordering::Relaxed);
                        let taken = turns.take(
                            |taken, asked| turn(&middle, taken, asked),
                            |left| *answered.lock().unwrap() += left,
                        );
                        taken.unwrap();
                    }
                })
            })
            .collect();
        if has_sleeper {
            let take_one = || {
                turns.take_one(
                    |taken, asked| turn(&middle, taken, asked),
                    |left| *answered.lock().unwrap() += left,
                )
            };
            while take_one().unwrap() {}
        }
        for thread in asking {
            thread.join().unwrap();
        }
        let mut requests = Vec::new();
        turns
            .take(
                |taken, asked| {
                    assert!(asked.is_empty() && taken.due.is_empty(), "nothing is left over");
                    requests = std::mem::take(&mut taken.requests);
                    Turn { is_due: false, left: 0 }
                },
                |_| {},
            )
            .unwrap();
        requests.sort_unstable();
        assert_eq!(requests, (0..threads * each).collect::<Vec<_>>(), "each once");
        assert_eq!(*answered.lock().unwrap(), threads * each);
    });
}

#[test]
fn two_threads_that_ask_leave_nothing_to_nobody() {
    each_request_is_answered_once(2, 1, false);
}

#[test]
fn one_that_asks_beside_the_one_that_sleeps_is_answered() {
    each_request_is_answered_once(1, 1, true);
}

#[test]
fn one_that_asks_twice_beside_another_is_answered() {
    each_request_is_answered_once(2, 2, false);
}
