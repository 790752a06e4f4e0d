//! A log file of exact size: the kernel writes it, and only its syncs are the library's.
//!
//! The default for every log file. Another reader sees at every moment what the program wrote, and so
//! does the next run after any death, since nothing of the file is kept in the program. A sync is
//! made with a priority of its own where the scheduler honours one, and its latency paces the bulk
//! files. Kept for each descriptor is one byte, and no identity: on a descriptor that is another file's
//! by now, a sync with priority does what a sync does.

use crate::bulk::record_sync;
use crate::raw::{self, Outcome, call};
use crate::settings::settings;
use libc::{c_int, c_long};
use nearhead_wal::writer::{
    IoPriority, block_signals, scheduler_of, set_thread_priority, thread_priority,
};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// Descriptors from here on are left as they are.
const DESCRIPTORS_MAX: usize = 65536;
/// Threads that sync; a sync beyond them is made by its caller.
const THREADS_MAX: usize = 16;

/// The descriptor is a log's.
const LOG: u8 = 1;
/// Each write is a sync (`O_DSYNC`, `O_SYNC`).
const WRITES_THROUGH: u8 = 2;
/// The scheduler honours the priority of threads, for which a thread of the library's syncs.
const BY_THREAD: u8 = 4;
/// The scheduler honours the class, which is lent to the caller.
const LENT: u8 = 8;

static KINDS: [AtomicU8; DESCRIPTORS_MAX] = [const { AtomicU8::new(0) }; DESCRIPTORS_MAX];

fn kind_of(fd: c_int) -> Option<&'static AtomicU8> {
    KINDS.get(usize::try_from(fd).ok()?)
}

fn kind(fd: c_int) -> u8 {
    kind_of(fd).map_or(0, |kind| kind.load(Ordering::Acquire))
}

/// The descriptor is a log's from now on. Returns how its syncs are made, in words.
pub(crate) fn remember(fd: c_int, device: u64) -> &'static str {
    let (how, words) = how_on(device);
    let flags = raw::flags_of(fd);
    let through = if flags & (libc::O_DSYNC | libc::O_SYNC) == 0 { 0 } else { WRITES_THROUGH };
    if let Some(kind) = kind_of(fd) {
        kind.store(LOG | how | through, Ordering::Release);
    }
    words
}

/// The descriptor is closed, or becomes another file's.
pub(crate) fn forget(fd: c_int) {
    if let Some(kind) = kind_of(fd)
        && kind.load(Ordering::Relaxed) != 0
    {
        kind.store(0, Ordering::Release);
    }
}

/// The descriptors from `first` to `last` are closed.
pub(crate) fn forget_between(first: u32, last: u32) {
    let start = (first as usize).min(DESCRIPTORS_MAX);
    let end = (last as usize).saturating_add(1).min(DESCRIPTORS_MAX);
    for kind in KINDS.get(start..end).unwrap_or_default() {
        kind.store(0, Ordering::Release);
    }
}

/// `to` is the same open file as `from`.
pub(crate) fn duplicate(from: c_int, to: c_int) {
    if let Some(slot) = kind_of(to) {
        slot.store(kind(from), Ordering::Release);
    }
}

/// How syncs on a device are made.
fn how_on(device: u64) -> (u8, &'static str) {
    let by_thread = settings().is_some_and(|settings| settings.by_thread);
    let scheduler = scheduler_of(libc::major(device), libc::minor(device));
    match scheduler.as_ref().map(|(current, _)| current.as_str()) {
        Some("mq-deadline") if !is_real_time_permitted() => {
            (0, "as they are: the real-time class is not permitted")
        }
        Some("mq-deadline") if by_thread => {
            (BY_THREAD | LENT, "by a thread in the real-time class")
        }
        Some("mq-deadline") => (LENT, "in the real-time class"),
        Some("none" | "kyber") => (0, "as they are: the scheduler honours no priority"),
        _ if by_thread => (BY_THREAD, "by a thread with a priority of its own"),
        _ => (0, "as they are"),
    }
}

fn is_real_time_permitted() -> bool {
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    *PERMITTED.get_or_init(|| {
        let own = thread_priority();
        let is_permitted = own.is_ok() && set_thread_priority(IoPriority::REAL_TIME).is_ok();
        if is_permitted && let Ok(own) = own {
            // A lower one needs no permission.
            let _ = set_thread_priority(own);
        }
        is_permitted
    })
}

/// Makes a sync of a log's descriptor; `None` if it is not one.
pub(crate) fn sync(fd: c_int, number: c_long, arguments: [usize; 6]) -> Option<Outcome> {
    let kind = kind(fd);
    if kind & LOG == 0 {
        return None;
    }
    let start = Instant::now();
    let outcome = if kind & BY_THREAD != 0 {
        by_thread(number, arguments)
    } else {
        lent(kind, number, arguments)
    };
    record_sync(start.elapsed().as_nanos() as u64);
    Some(outcome)
}

/// Makes a write that is a sync, too; `None` if it is not one.
///
/// The caller makes it: a limit of the file's size raises a signal in the thread that writes.
pub(crate) fn write(fd: c_int, number: c_long, arguments: [usize; 6]) -> Option<Outcome> {
    let kind = kind(fd);
    if kind & WRITES_THROUGH == 0 {
        return None;
    }
    let start = Instant::now();
    let outcome = lent(kind, number, arguments);
    record_sync(start.elapsed().as_nanos() as u64);
    Some(outcome)
}

/// Makes a call in the real-time class, if that is worth it.
fn lent(kind: u8, number: c_long, arguments: [usize; 6]) -> Outcome {
    let own = if kind & LENT == 0 { None } else { thread_priority().ok() };
    let is_lent = own.is_some() && set_thread_priority(IoPriority::REAL_TIME).is_ok();
    let outcome = call(number, arguments);
    if is_lent && let Some(own) = own {
        let errno = raw::errno();
        // A lower one needs no permission.
        let _ = set_thread_priority(own);
        raw::fail(errno);
    }
    outcome
}

/// A call to be made, and what came of it with its `errno`.
type Job = (c_long, [usize; 6]);
type Answer = (Outcome, c_int);

/// A thread that makes calls, one at a time.
struct Worker {
    jobs: SyncSender<Job>,
    answers: Receiver<Answer>,
}

/// Idle workers. Without a lock: a signal handler may sync while its thread takes one.
static IDLE: [AtomicPtr<Worker>; THREADS_MAX] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; THREADS_MAX];
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Begins with no worker: a child of `fork` has none of its parent's threads.
pub(crate) fn begin() {
    for place in &IDLE {
        // Never freed: its thread is the parent's.
        place.store(std::ptr::null_mut(), Ordering::Release);
    }
    STARTED.store(0, Ordering::Release);
}

fn take_worker() -> Option<Box<Worker>> {
    for place in &IDLE {
        let worker = place.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !worker.is_null() {
            // SAFETY: made by `Box::into_raw` in `give_worker`, and taken by one thread only.
            return Some(unsafe { Box::from_raw(worker) });
        }
    }
    if STARTED.fetch_add(1, Ordering::AcqRel) < THREADS_MAX {
        return Worker::start().map(Box::new);
    }
    STARTED.fetch_sub(1, Ordering::AcqRel);
    None
}

fn give_worker(worker: Box<Worker>) {
    let worker = Box::into_raw(worker);
    let null = std::ptr::null_mut();
    let is_kept = IDLE.iter().any(|place| {
        place.compare_exchange(null, worker, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    debug_assert!(is_kept, "there is a place for each worker");
}

fn by_thread(number: c_long, arguments: [usize; 6]) -> Outcome {
    let Some(worker) = take_worker() else { return call(number, arguments) };
    let answer =
        worker.jobs.send((number, arguments)).ok().and_then(|()| worker.answers.recv().ok());
    // A thread that is gone made nothing of it.
    let Some((outcome, errno)) = answer else { return call(number, arguments) };
    give_worker(worker);
    if outcome < 0 {
        raw::fail(errno);
    }
    outcome
}

impl Worker {
    fn start() -> Option<Self> {
        let (jobs, incoming) = sync_channel::<Job>(1);
        let (outgoing, answers) = sync_channel::<Answer>(1);
        let body = move || {
            block_signals();
            if set_thread_priority(IoPriority::REAL_TIME).is_err() {
                // Without a privilege; without any priority syncs are only slower.
                let _ = set_thread_priority(IoPriority::BEST_EFFORT_FIRST);
            }
            for (number, arguments) in incoming {
                let outcome = call(number, arguments);
                if outgoing.send((outcome, raw::errno())).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("nearhead-sync".to_owned()).spawn(body);
        thread.is_ok().then_some(Self { jobs, answers })
    }
}
