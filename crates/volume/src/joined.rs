//! Two disks as one: a volume's disk, and behind the end of its addresses a small fast map device.
//!
//! Commands go to the disk their address belongs to; a flush goes to both and is done when both
//! are. The capacity stays that of the volume's disk, so nothing but the map ever lands on the other
//! (`Disk::map_region` says where it begins).

use nearhead_disk::{
    Command, CommandId, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Run, Submission, Ticket, Zones,
};
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The map device begins at a multiple of this.
const ALIGN_BYTES: u64 = 1 << 20;

/// A flush that both disks carry out.
#[derive(Debug, Default)]
struct SharedFlush {
    /// What the first of them said.
    first: Option<Result<Payload, DiskError>>,
}

/// A disk with a map device joined to it.
pub struct JoinedDisk<A, B> {
    main: A,
    map: B,
    properties: Properties,
    base: u64,
    flushes: BTreeMap<CommandId, SharedFlush>,
    /// Readable when either disk's descriptor is.
    wake: Option<OwnedFd>,
}

impl<A: Disk, B: Disk> JoinedDisk<A, B> {
    /// Joins `map` to `main`. Fails if the map device's sectors are larger than the disk's, or if
    /// the kernel cannot watch both.
    pub fn new(main: A, map: B) -> Result<Self, DiskError> {
        let (of_main, of_map) = (main.properties(), map.properties());
        if of_map.sector_bytes > 4096 || of_map.sector_bytes > of_main.sector_bytes.max(4096) {
            let detail = format!(
                "map device {}: expected sectors of at most 4096 bytes, found {}",
                of_map.name, of_map.sector_bytes
            );
            return Err(DiskError { kind: DiskErrorKind::Invalid, detail });
        }
        let properties = Properties {
            volatile_cache: of_main.volatile_cache || of_map.volatile_cache,
            transfer_bytes_max: of_main.transfer_bytes_max.min(of_map.transfer_bytes_max),
            queue_depth_max: of_main.queue_depth_max.min(of_map.queue_depth_max),
            ..of_main.clone()
        };
        let base = of_main.capacity_bytes.next_multiple_of(ALIGN_BYTES);
        let wake = watch(main.wake_fd(), map.wake_fd()).map_err(|error| DiskError {
            kind: DiskErrorKind::Io,
            detail: format!("the map device cannot be watched beside the disk: {error}"),
        })?;
        Ok(Self { main, map, properties, base, flushes: BTreeMap::new(), wake })
    }

    /// The two disks.
    pub fn parts_mut(&mut self) -> (&mut A, &mut B) {
        (&mut self.main, &mut self.map)
    }

    /// The two disks, given back.
    pub fn into_parts(self) -> (A, B) {
        (self.main, self.map)
    }

    fn flush_both(&mut self, ticket: Ticket, class: nearhead_disk::Class, now: Nanos) {
        let id = ticket.id();
        self.flushes.insert(id, SharedFlush::default());
        let other = Submission { ticket: Ticket::new(id), class, command: Command::Flush };
        self.main.submit(Submission { ticket, class, command: Command::Flush }, now);
        self.map.submit(other, now);
    }

    /// Holds back the first answer to a flush; the second one carries the worse of both.
    fn settle(&mut self, done: Completion) -> Option<Completion> {
        let Some(flush) = self.flushes.get_mut(&done.id) else { return Some(done) };
        let Some(first) = flush.first.take() else {
            flush.first = Some(done.result);
            return None;
        };
        self.flushes.remove(&done.id);
        Some(Completion { id: done.id, result: first.and(done.result) })
    }
}

/// A descriptor that is readable when one of the two is.
fn watch(
    first: Option<BorrowedFd<'_>>,
    second: Option<BorrowedFd<'_>>,
) -> rustix::io::Result<Option<OwnedFd>> {
    if first.is_none() && second.is_none() {
        return Ok(None);
    }
    let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for fd in [first, second].into_iter().flatten() {
        epoll::add(&both, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(Some(both))
}

fn offset_of(command: &Command) -> Option<u64> {
    match command {
        Command::Read { offset, .. }
        | Command::Write { offset, .. }
        | Command::WriteZeroes { offset, .. }
        | Command::Trim { offset, .. } => Some(*offset),
        Command::Flush => None,
    }
}

fn moved(command: Command, base: u64) -> Command {
    match command {
        Command::Read { offset, len } => Command::Read { offset: offset - base, len },
        Command::Write { offset, parts, durable } => {
            Command::Write { offset: offset - base, parts, durable }
        }
        Command::WriteZeroes { offset, len, durable } => {
            Command::WriteZeroes { offset: offset - base, len, durable }
        }
        Command::Trim { offset, len } => Command::Trim { offset: offset - base, len },
        Command::Flush => Command::Flush,
    }
}

#[warn(clippy::missing_trait_methods)]
impl<A: Disk, B: Disk> Disk for JoinedDisk<A, B> {
    /// There are two, and what each method says of both is said here.
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn run_at(&self, offset: u64) -> Run {
        let Run { len, zero } =
            if offset < self.base { self.main.run_at(offset) } else { Run::UNKNOWN };
        Run { len: len.min(self.base.saturating_sub(offset).max(1)), zero }
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        let Submission { ticket, class, command } = submission;
        match offset_of(&command) {
            None => self.flush_both(ticket, class, now),
            Some(offset) if offset >= self.base => {
                let command = moved(command, self.base);
                self.map.submit(Submission { ticket, class, command }, now);
            }
            Some(_) => self.main.submit(Submission { ticket, class, command }, now),
        }
    }

    fn kick(&mut self) {
        self.main.kick();
        self.map.kick();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        loop {
            let done = self.main.poll(now).or_else(|| self.map.poll(now))?;
            if let Some(done) = self.settle(done) {
                return Some(done);
            }
        }
    }

    fn wake_at(&self) -> Option<Nanos> {
        [self.main.wake_at(), self.map.wake_at()].into_iter().flatten().min()
    }

    fn map_region(&self) -> Option<(u64, u64)> {
        Some((self.base, self.map.properties().capacity_bytes))
    }

    fn zones(&self) -> Option<&Zones> {
        self.main.zones()
    }

    fn width(&self) -> u32 {
        self.main.width()
    }

    fn trouble(&self) -> Option<String> {
        self.main.trouble().or_else(|| self.map.trouble())
    }

    fn lost_writes(&self) -> Option<&str> {
        self.main.lost_writes().or_else(|| self.map.lost_writes())
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        if self.main.lost_writes().is_some() {
            self.main.start_over()?;
        }
        if self.map.lost_writes().is_some() {
            self.map.start_over()?;
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.main.leave();
        self.map.leave();
    }

    fn has_left(&self) -> bool {
        self.main.has_left() && self.map.has_left()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(AsFd::as_fd)
    }
}
