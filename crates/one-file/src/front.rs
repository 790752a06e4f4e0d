//! The service, its clock, and who waits for which reply.
//!
//! Two threads share it: the one that receives requests from the kernel submits and drives, and
//! the timekeeper drives when a reply is due. Replies are sent after the lock was
//! given back, since sending one may run what waits for it. Every request gets exactly one reply,
//! never before the service's clock says so; the kernel bounds how many are under way.
//!
//! Setting an alarm can take longer than what it is set for (40 us on a virtual machine, where that leaves it; a disk
//! may have something to do every 60 us). So the timekeeper sleeps only until times that are far, and nobody sets the
//! alarm while it is awake.

use crate::alarm::Alarm;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use nearhead_basics::Slab;
use nearhead_disk::{Buffer, BufferPool, Nanos, Payload};
use nearhead_service::{Operation, Reply, Request, RequestError, RequestId, Service};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who waits for a reply.
pub(crate) enum Waiting {
    Read(ReplyData),
    Write(ReplyWrite, Payload),
    Nothing(ReplyEmpty),
}

/// The service behind the file.
pub(crate) struct Front<S> {
    core: Mutex<Core<S>>,
    alarm: Alarm,
    start: Instant,
    /// When the service has to be driven next, [`NEVER`] if it need not: what the timekeeper looks at between looks at
    /// the service itself.
    due: AtomicU64,
    /// How long before it is due the timekeeper stays awake, and looks at the clock.
    look: Nanos,
}

const NEVER: Nanos = Nanos(u64::MAX);

struct Core<S> {
    service: S,
    pending: Slab<Waiting>,
    pool: BufferPool,
    /// Until when the timekeeper sleeps, or is about to; none while it is awake.
    asleep_until: Option<Nanos>,
    stopping: bool,
}

impl<S: Service> Front<S> {
    pub(crate) fn new(service: S, start: Instant, look: Nanos) -> Result<Self, rustix::io::Errno> {
        let core = Core {
            service,
            pending: Slab::new(),
            pool: BufferPool::default(),
            asleep_until: None,
            stopping: false,
        };
        let due = AtomicU64::new(NEVER.0);
        Ok(Self { core: Mutex::new(core), alarm: Alarm::new()?, start, due, look })
    }

    fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn locked(&self) -> MutexGuard<'_, Core<S>> {
        // A panic of the service has ended the thread it was in; what comes later is answered by
        // whatever state it left, as a disk with a fault would.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads `len` bytes at `offset`.
    pub(crate) fn read(&self, offset: u64, len: u32, reply: ReplyData) {
        self.submit(Operation::Read { offset, len }, Waiting::Read(reply));
    }

    /// Writes `bytes` at `offset`.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8], reply: ReplyWrite) {
        let mut buffer = self.locked().pool.take(bytes.len());
        buffer[..bytes.len()].copy_from_slice(bytes);
        let data = Payload::Bytes(buffer.freeze().slice(0..bytes.len()));
        let waiting = Waiting::Write(reply, data.clone());
        self.submit(Operation::Write { offset, data, fua: false }, waiting);
    }

    /// Anything that is answered with nothing but success.
    pub(crate) fn carry_out(&self, operation: Operation, reply: ReplyEmpty) {
        self.submit(operation, Waiting::Nothing(reply));
    }

    fn submit(&self, operation: Operation, waiting: Waiting) {
        let mut core = self.locked();
        let now = self.now();
        let tag = core.pending.insert_tagged(waiting);
        core.service.submit(Request { id: RequestId(tag), operation }, now);
        self.drive(core, now);
    }

    /// Moves the service on, wakes the timekeeper earlier if need be, sends what is ready.
    fn drive(&self, mut core: MutexGuard<'_, Core<S>>, now: Nanos) {
        core.service.drive(now);
        let mut ready = Vec::new();
        while let Some(reply) = core.service.poll_reply() {
            ready.extend(core.pending.remove_tagged(reply.id.0).map(|waiting| (waiting, reply)));
        }
        let at = core.service.wake_at().unwrap_or(NEVER);
        self.due.store(at.0, Ordering::SeqCst);
        if core.asleep_until.is_some_and(|until| at < until) {
            core.asleep_until = Some(at);
            self.set_alarm(at, now);
        }
        drop(core);
        for (waiting, reply) in ready {
            if let Some(buffer) = answer(waiting, reply) {
                self.locked().pool.recycle(buffer);
            }
        }
    }

    /// Sends every reply when it is due, until [`Front::close`].
    pub(crate) fn keep_time(&self) {
        loop {
            let mut core = self.locked();
            core.asleep_until = None;
            if core.stopping {
                return;
            }
            let now = self.now();
            let at = core.service.wake_at().unwrap_or(NEVER);
            if at <= now {
                self.drive(core, now);
            } else if at.since(now) <= self.look {
                drop(core);
                self.look_until_due();
            } else {
                core.asleep_until = Some(at);
                drop(core);
                self.set_alarm(at, now);
                // Somebody who set it earlier before it was set here has said so before.
                if self.due.load(Ordering::SeqCst) >= at.0 && self.alarm.wait().is_err() {
                    return;
                }
            }
        }
    }

    /// Returns when the service is to be driven, or not soon any more.
    fn look_until_due(&self) {
        loop {
            let due = Nanos(self.due.load(Ordering::SeqCst));
            let left = due.since(self.now());
            if left == Nanos::ZERO || left > self.look {
                return;
            }
            // What a reply sets off may wait for this very processor: the kernel's softirq thread does.
            std::thread::yield_now();
        }
    }

    /// To ring as long before `at` as the timekeeper stays awake.
    fn set_alarm(&self, at: Nanos, now: Nanos) {
        if at != NEVER {
            // It can only fail for a value that is none.
            let _ = self.alarm.set(at.since(now).since(self.look));
        }
    }

    /// Makes durable what the service still holds, and ends [`Front::keep_time`]. The kernel sends
    /// nothing any more. False if the service gave up before it was done.
    pub(crate) fn close(&self) -> bool {
        let mut core = self.locked();
        core.service.begin_shutdown(self.now());
        core.stopping = true;
        loop {
            let now = self.now();
            core.service.drive(now);
            // Nobody waits for these: the kernel has gone.
            while core.service.poll_reply().is_some() {}
            match core.service.wake_at() {
                Some(at) if !core.service.is_shut_down() => {
                    std::thread::sleep(Duration::from_nanos(at.since(now).0));
                }
                _ => break,
            }
        }
        let is_done = core.service.is_shut_down();
        drop(core);
        self.due.store(0, Ordering::SeqCst);
        self.set_alarm(Nanos::ZERO, Nanos::ZERO);
        is_done
    }
}

/// Sends a reply; the memory that is not needed any more.
fn answer(waiting: Waiting, reply: Reply) -> Option<Buffer> {
    match (waiting, reply.result) {
        (Waiting::Read(to), Ok(parts)) => send_data(to, &parts),
        (Waiting::Write(to, data), Ok(_)) => {
            to.written(data.len() as u32);
            if let Payload::Bytes(buffer) = data {
                return Some(buffer);
            }
        }
        (Waiting::Nothing(to), Ok(_)) => to.ok(),
        (Waiting::Read(to), Err(error)) => to.error(errno(&error)),
        (Waiting::Write(to, _), Err(error)) => to.error(errno(&error)),
        (Waiting::Nothing(to), Err(error)) => to.error(errno(&error)),
    }
    None
}

fn send_data(to: ReplyData, parts: &[Payload]) {
    if let [Payload::Bytes(bytes)] = parts {
        return to.data(bytes);
    }
    let mut whole = Vec::new();
    for part in parts {
        match part {
            Payload::Bytes(bytes) => whole.extend_from_slice(bytes),
            Payload::Zeros(len) | Payload::Phantom(len) => whole.resize(whole.len() + len, 0),
        }
    }
    to.data(&whole);
}

fn errno(error: &RequestError) -> Errno {
    Errno::from_i32(error.kind.errno())
}
