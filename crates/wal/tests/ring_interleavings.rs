//! The ring between a program and its helper, in every interleaving that the memory model permits.
//!
//! Its source is built here over loom's atomics; the bell is a counter that a sleeper waits for, as
//! the socket between the two is. A wake-up that gets lost is a sleeper that nobody wakes, a word
//! read before it is there or stored over before it is read is a wrong value: loom reports both.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]
#![allow(dead_code, reason = "constants of the ring are for its transport")]

#[path = "../src/process/ring.rs"]
mod ring;

/// What `process::atomics` is in the library.
mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

use atomics::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ring::{Consumer, Lane, Producer};

/// Bytes that wake whoever waits for them, before or after it begins to.
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

    fn sleep_until_rung(&self) {
        let mut rings = self.rings.lock().unwrap();
        while *rings == 0 {
            rings = self.rung.wait(rings).unwrap();
        }
        *rings = 0;
    }
}

struct Shared {
    words: Vec<AtomicU64>,
    data: Vec<AtomicU64>,
    producer_bell: Bell,
    consumer_bell: Bell,
}

impl Shared {
    fn new(capacity: usize) -> Self {
        let words = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let (producer_bell, consumer_bell) = (Bell::new(), Bell::new());
        Self { words: words(4), data: words(capacity), producer_bell, consumer_bell }
    }

    fn lane(&self) -> Lane<'_> {
        let [written, read, consumer_sleeps, producer_sleeps] = &self.words[..] else {
            panic!("four words")
        };
        Lane { written, read, consumer_sleeps, producer_sleeps, data: &self.data }
    }

    fn produce(&self, values: std::ops::RangeInclusive<u64>) {
        let (lane, mut producer) = (self.lane(), Producer::default());
        for value in values {
            while producer.room(&lane).unwrap() == 0 {
                if producer.may_sleep(&lane, 1).unwrap() {
                    self.producer_bell.sleep_until_rung();
                }
                Producer::wake(&lane);
            }
            assert_eq!(producer.put(&lane, &value.to_le_bytes()), 8);
            if producer.publish(&lane) {
                self.consumer_bell.ring();
            }
        }
    }

    fn consume(&self, count: usize) -> Vec<u64> {
        let (lane, mut consumer) = (self.lane(), Consumer::default());
        let mut found = Vec::new();
        while found.len() < count {
            while consumer.available(&lane).unwrap() == 0 {
                if consumer.may_sleep(&lane, 1).unwrap() {
                    self.consumer_bell.sleep_until_rung();
                }
                Consumer::wake(&lane);
            }
            let mut word = [0; 8];
            assert_eq!(consumer.get(&lane, &mut word), 8);
            found.push(u64::from_le_bytes(word));
            if consumer.free(&lane) {
                self.producer_bell.ring();
            }
        }
        found
    }
}

/// Every word comes, once, in its order and whole, and nobody sleeps for ever.
fn all_words_come(capacity: usize, count: u64) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let shared = Arc::new(Shared::new(capacity));
        let theirs = Arc::clone(&shared);
        let producer = thread::spawn(move || theirs.produce(1..=count));
        let found = shared.consume(count as usize);
        producer.join().unwrap();
        assert_eq!(found, (1..=count).collect::<Vec<_>>());
    });
}

#[test]
fn a_consumer_is_woken_for_every_word() {
    all_words_come(2, 2);
}

#[test]
fn a_producer_is_woken_for_room_and_stores_over_nothing_unread() {
    all_words_come(1, 3);
}
