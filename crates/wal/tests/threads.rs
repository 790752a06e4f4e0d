//! The log for many threads: everything acknowledged is there, in order, and nobody waits for ever.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

mod support;

use nearhead_wal::log::{Driver, Log, LogOptions, ThreadStart};
use nearhead_wal::storage::{Cut, Memory};
use nearhead_wal::{Lsn, Result, Tail, WalErrorKind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use support::{created, open, small};

fn threaded(storage: &Memory, driver: Driver) -> Result<Log> {
    let options = small(Tail::Rewritten);
    let storage = Arc::new(storage.clone());
    let (log, _) = Log::open(storage, &options, driver, ThreadStart::default(), |_, _| {})?;
    Ok(log)
}

const DRIVERS: [Driver; 2] = [Driver::OwnThread, Driver::Callers];

fn lost_power(storage: &Memory) -> Memory {
    storage.cut(&Cut { sectors: Vec::new(), name_changes: 0 })
}

#[test]
fn what_many_threads_were_promised_survives_a_power_cut() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let log = threaded(&storage, driver).unwrap();
        let acknowledged = std::thread::scope(|scope| {
            let writer = |thread: u8| {
                let log = &log;
                scope.spawn(move || {
                    let record = |number: u8| vec![thread; usize::from(number) * 3];
                    let append =
                        |number| (log.append_durable(&record(number)).unwrap(), record(number));
                    (0..40).map(append).collect::<Vec<_>>()
                })
            };
            let threads: Vec<_> = (0..8).map(writer).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let after = lost_power(&storage);
        let (_, found, records) = open(&after, &small(Tail::Rewritten)).unwrap();
        assert_eq!(found.next_lsn, Lsn(321), "{driver:?}");
        for (lsn, record) in acknowledged {
            assert_eq!(records[lsn.0 as usize - 1], (lsn.0, record), "{driver:?}");
        }
        let metrics = log.metrics();
        assert_eq!(metrics.append_latency_ns.count(), 320);
        assert_eq!(log.take_latency_window().count(), 320);
        assert_eq!(log.take_latency_window().count(), 0);
    }
}

#[test]
fn records_that_wait_share_one_write() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let log = threaded(&storage, driver).unwrap();
        for _ in 0..50 {
            log.append(b"nobody waits for this one").unwrap();
        }
        assert_eq!(log.append_durable(b"but for this").unwrap(), Lsn(51));
        let metrics = log.metrics();
        assert_eq!(metrics.batch_records.count(), 1, "{driver:?}");
        assert_eq!(metrics.batch_records.max(), 51);
    }
}

#[test]
fn half_a_memory_of_records_is_written_unasked() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let log = threaded(&storage, driver).unwrap();
        // The bound is 64 KiB; three times that goes through without anybody waiting for durability.
        for number in 0..36 {
            log.append(&[number; 5500])
                .map(drop)
                .or_else(|error| match error.kind {
                    WalErrorKind::Full => log.truncate_prefix(log.durable_next()),
                    _ => Err(error),
                })
                .unwrap();
        }
        log.close().unwrap();
    }
}

#[test]
fn records_without_content_fill_the_memory_too() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let options = LogOptions { waiting_bytes_max: 6000, ..small(Tail::Rewritten) };
        let start = ThreadStart::default();
        let (log, _) = Log::open(Arc::new(storage), &options, driver, start, |_, _| {}).unwrap();
        for _ in 0..1000 {
            log.append(b"").unwrap();
        }
        log.sync().unwrap();
        let largest = log.metrics().batch_records.max();
        // Each takes more memory than the 32 bytes of its header on disk.
        assert!(largest <= 6000 / 32, "{driver:?}: {largest} records waited at once");
        log.close().unwrap();
    }
}

struct Bell(mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_ticket_is_a_future_that_wakes_its_owner() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let log = threaded(&storage, driver).unwrap();
        for number in 1..=20 {
            let mut ticket = pin!(log.submit(b"awaited").unwrap());
            let (sender, woken) = mpsc::channel();
            let waker = Waker::from(Arc::new(Bell(sender)));
            let mut context = Context::from_waker(&waker);
            let outcome = loop {
                match ticket.as_mut().poll(&mut context) {
                    Poll::Ready(outcome) => break outcome,
                    Poll::Pending => {
                        // Nobody else waits: in `Callers` mode the log's own thread has to write.
                        log.append(b"a nudge").map(drop).unwrap();
                        let _ = log.sync();
                        woken.recv().unwrap();
                    }
                }
            };
            assert!(outcome.unwrap().0 >= number);
        }
    }
}

#[test]
fn a_submitted_record_becomes_durable_though_nobody_waits() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let log = threaded(&storage, driver).unwrap();
        let (sender, told) = mpsc::channel();
        let lsn =
            log.submit_then(b"told later", move |outcome| sender.send(outcome).unwrap()).unwrap();
        assert_eq!(told.recv().unwrap(), Ok(lsn), "{driver:?}");
        let ticket = log.submit(b"polled").unwrap();
        let (sender, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Bell(sender)));
        let mut ticket = pin!(ticket);
        let mut context = Context::from_waker(&waker);
        while ticket.as_mut().poll(&mut context).is_pending() {
            woken.recv().unwrap();
        }
    }
}

#[test]
fn after_a_failed_write_everybody_who_waits_is_told() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let log = threaded(&storage, driver).unwrap();
        log.append_durable(b"safe").unwrap();
        // Both background and foreground operations from here on fail.
        storage.lose_power_at(storage.operations());
        let failures = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let outcome = log.append_durable(b"lost");
                        failures.fetch_add(u64::from(outcome.is_err()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(failures.load(Ordering::Relaxed), 120, "{driver:?}");
        assert_eq!(log.append(b"more").unwrap_err().kind, WalErrorKind::Stopped);
        let (sender, told) = mpsc::channel();
        let outcome = log.submit_then(b"never", move |outcome| sender.send(outcome).unwrap());
        assert!(outcome.is_err() && told.recv().is_err(), "refused at once, and not called back");
        assert_eq!(log.close().unwrap_err().kind, WalErrorKind::Stopped);
        let (_, found, _) = open(&lost_power(&storage), &small(Tail::Rewritten)).unwrap();
        assert_eq!(found.next_lsn, Lsn(2));
    }
}

#[test]
fn a_full_log_refuses_and_goes_on_after_truncation() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let log = threaded(&storage, driver).unwrap();
        let error = loop {
            if let Err(error) = log.append_durable(&[1; 5000]) {
                break error;
            }
        };
        assert_eq!(error.kind, WalErrorKind::Full, "{driver:?}");
        let blocked = log.try_submit(&[1; 5000]).map(drop).unwrap_err().kind;
        assert!(matches!(blocked, WalErrorKind::WouldBlock | WalErrorKind::Full));
        let next = log.sync().unwrap();
        log.truncate_prefix(next).unwrap();
        assert_eq!(log.append_durable(&[1; 5000]).unwrap(), next);
        let read: Vec<_> = log.records(next).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, [(next, vec![1; 5000])]);
        log.close().unwrap();
    }
}

#[test]
fn a_callback_that_panics_harms_nobody_else() {
    for driver in DRIVERS {
        let storage = created(&small(Tail::Rewritten));
        let log = threaded(&storage, driver).unwrap();
        log.submit_then(b"its owner panics", |_| panic!("on purpose")).unwrap();
        assert_eq!(log.append_durable(b"another's").unwrap(), Lsn(2), "{driver:?}");
        log.close().unwrap();
    }
}
