//! The service, its clock, and who waits for which reply.
//!
//! Two threads share it: the one that receives requests from the kernel submits and drives, and
//! the one that waits for the alarm drives when a reply is due. Replies are sent after the lock was
//! given back, since sending one may run what waits for it. Every request gets exactly one reply,
//! never before the service's clock says so; the kernel bounds how many are under way.

use crate::alarm::Alarm;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use nearhead_disk::{Buffer, BufferPool, Nanos, Payload};
use nearhead_engine::{ErrorKind, Operation, Reply, Request, RequestError, RequestId};
use nearhead_volume::Service;
use nearhead_volume::bare::Slots;
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
    /// How long before a reply is due the alarm rings; then the clock is looked at.
    look: Nanos,
}

struct Core<S> {
    service: S,
    pending: Slots<Waiting>,
    pool: BufferPool,
    /// What the alarm is set to.
    alarm_at: Option<Nanos>,
    stopping: bool,
}

impl<S: Service> Front<S> {
    pub(crate) fn new(service: S, start: Instant, look: Nanos) -> Result<Self, rustix::io::Errno> {
        let core = Core {
            service,
            pending: Slots::default(),
            pool: BufferPool::default(),
            alarm_at: None,
            stopping: false,
        };
        Ok(Self { core: Mutex::new(core), alarm: Alarm::new()?, start, look })
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

    /// Moves the service on, sets the alarm, sends what is ready.
    fn drive(&self, mut core: MutexGuard<'_, Core<S>>, now: Nanos) {
        core.service.drive(now);
        let mut ready = Vec::new();
        while let Some(reply) = core.service.poll_reply() {
            ready.extend(core.pending.remove_tagged(reply.id.0).map(|waiting| (waiting, reply)));
        }
        let at = core.service.wake_at();
        if at != core.alarm_at {
            core.alarm_at = at;
            if let Some(at) = at {
                // It can only fail for a value that is none.
                let _ = self.alarm.set(at.since(now).since(self.look));
            }
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
        while self.alarm.wait().is_ok() {
            loop {
                let core = self.locked();
                if core.stopping {
                    return;
                }
                let now = self.now();
                let Some(at) = core.service.wake_at() else { break };
                if at <= now {
                    self.drive(core, now);
                } else if at.since(now) > self.look {
                    // Set by whoever drove last.
                    break;
                } else {
                    drop(core);
                    while self.now() < at {
                        std::hint::spin_loop();
                    }
                }
            }
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
        let _ = self.alarm.set(Nanos::ZERO);
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
    match error.kind {
        ErrorKind::Io => Errno::EIO,
        ErrorKind::NoSpace => Errno::ENOSPC,
        ErrorKind::Invalid => Errno::EINVAL,
        ErrorKind::NotSupported => Errno::EOPNOTSUPP,
        ErrorKind::ReadOnly => Errno::EROFS,
        ErrorKind::ShuttingDown => Errno::ESHUTDOWN,
    }
}
