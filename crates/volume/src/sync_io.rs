//! One command at a time over any disk, waiting for each: what create, open and check need.
//!
//! On a model in virtual time waiting means jumping to the next event; in real time it means
//! sleeping until then or until the device's descriptor is readable. Never used while an engine
//! runs on the disk.

use nearhead_disk::{
    Buffer, BufferMut, Class, Command, CommandId, Disk, DiskError, DiskErrorKind, Nanos, Payload,
    Submission, Ticket,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Instant;

/// How waiting is done.
#[derive(Clone, Copy, Debug)]
enum Time {
    Virtual(Nanos),
    Real(Instant),
}

/// Synchronous access to a disk.
pub struct SyncIo<'a> {
    disk: &'a mut dyn Disk,
    time: Time,
}

impl<'a> SyncIo<'a> {
    /// Access in virtual time, which begins at `now`.
    pub fn in_virtual_time(disk: &'a mut dyn Disk, now: Nanos) -> Self {
        Self { disk, time: Time::Virtual(now) }
    }

    /// Access in real time; `start` is the instant the disk knows as zero.
    pub fn in_real_time(disk: &'a mut dyn Disk, start: Instant) -> Self {
        Self { disk, time: Time::Real(start) }
    }

    /// The disk.
    pub fn disk(&self) -> &dyn Disk {
        self.disk
    }

    /// The time on the disk's clock.
    pub fn now(&self) -> Nanos {
        match self.time {
            Time::Virtual(now) => now,
            Time::Real(start) => {
                Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
            }
        }
    }

    /// Reads `len` bytes at `offset`.
    pub fn read(&mut self, offset: u64, len: usize) -> Result<Buffer, DiskError> {
        match self.run(Command::Read { offset, len: len as u32 })? {
            Payload::Bytes(bytes) => Ok(bytes),
            Payload::Zeros(len) => Ok(BufferMut::zeroed(len).freeze()),
            Payload::Phantom(_) => Err(DiskError {
                kind: DiskErrorKind::Invalid,
                detail: format!(
                    "{}: this disk keeps no content (data-less); give it a file to hold a volume",
                    self.disk.properties().name
                ),
            }),
        }
    }

    /// Writes `bytes` at `offset`.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let parts = vec![Payload::Bytes(BufferMut::copy_of(bytes).freeze())];
        self.run(Command::Write { offset, parts, durable: false }).map(drop)
    }

    /// Makes everything written durable.
    pub fn flush(&mut self) -> Result<(), DiskError> {
        self.run(Command::Flush).map(drop)
    }

    /// Runs any command to its end.
    pub fn run(&mut self, command: Command) -> Result<Payload, DiskError> {
        let now = self.now();
        let ticket = Ticket::new(CommandId(u64::MAX));
        self.disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
        self.disk.kick();
        loop {
            let now = self.now();
            if let Some(done) = self.disk.poll(now) {
                return done.result;
            }
            self.wait()?;
        }
    }

    /// Leaves the disk in order ([`Disk::leave`]): nothing more will be changed.
    pub fn leave(&mut self) -> Result<(), DiskError> {
        self.disk.leave();
        loop {
            let now = self.now();
            // No command is outstanding, so no answer comes.
            let _ = self.disk.poll(now);
            if self.disk.has_left() {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Waits until the disk may have something.
    pub fn wait(&mut self) -> Result<(), DiskError> {
        let now = self.now();
        let wake_at = self.disk.wake_at();
        if let Time::Virtual(time) = &mut self.time {
            let Some(wake_at) = wake_at else {
                return Err(stuck(&self.disk.properties().name));
            };
            *time = wake_at.max(*time);
            return Ok(());
        }
        let left = wake_at.map(|at| at.since(now));
        let timeout = left.map(|left| Timespec {
            tv_sec: (left.0 / 1_000_000_000) as i64,
            tv_nsec: (left.0 % 1_000_000_000) as i64,
        });
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        if let Some(fd) = self.disk.wake_fd() {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        if fds.is_empty() && timeout.is_none() {
            return Err(stuck(&self.disk.properties().name));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(DiskError {
                kind: DiskErrorKind::Io,
                detail: format!("waiting for the disk failed: {error}"),
            }),
        }
    }
}

fn stuck(disk: &str) -> DiskError {
    DiskError {
        kind: DiskErrorKind::Io,
        detail: format!("{disk}: a command neither completed nor will (internal error)"),
    }
}
