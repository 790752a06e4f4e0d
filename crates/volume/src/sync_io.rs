//! One command at a time over the disks of a volume, waiting for each: what create, open and check need.
//!
//! Once the data devices of a volume are known ([`SyncIo::join`]) its addresses go on over them.
//! On a model in virtual time waiting means jumping to the next event; in real time it means
//! sleeping until then or until the device's descriptor is readable. A disk that does not answer is told to whom
//! [`tell_of_waits`] named, after the same time as while a volume is served. Never used while an engine runs on the
//! disk.

use crate::presets::{Presets, STALL_AFTER};
use nearhead_disk::{
    At, Buffer, BufferMut, Class, Command, CommandId, Completion, Disk, DiskError, DiskErrorKind,
    Lane, Nanos, Payload, Submission, Ticket,
};
use nearhead_engine::{DiskEvent, DiskWatch, DiskWork};
use nearhead_format::Layout;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Instant;

/// Attempts at a read, as a recovery has.
const READ_TRIES: u32 = 3;

/// Who is told of a disk that lets everything wait.
static TOLD: OnceLock<fn(&DiskEvent)> = OnceLock::new();

/// From now on `tell` hears of each disk that does not answer, and what else goes wrong with one, while somebody waits
/// for a single command or for a volume to open. The first call counts.
pub fn tell_of_waits(tell: fn(&DiskEvent)) {
    let _ = TOLD.set(tell);
}

/// Whether anybody hears of it.
pub(crate) fn is_heard() -> bool {
    TOLD.get().is_some()
}

/// Tells it.
pub(crate) fn tell(event: &DiskEvent) {
    if let Some(tell) = TOLD.get() {
        tell(event);
    }
}

/// How waiting is done.
#[derive(Clone, Copy, Debug)]
enum Time {
    Virtual(Nanos),
    Real(Instant),
}

/// Synchronous access to a disk, and to others of the same volume beside it.
pub struct SyncIo<'a> {
    main: &'a mut dyn Disk,
    map: Option<&'a mut dyn Disk>,
    /// In the order in which they were named.
    data: Vec<&'a mut dyn Disk>,
    /// So many of them, the last ones, are for further logs of a volume that is made.
    for_logs: usize,
    /// By position: which of the volume's addresses are a data device's, and its number among those named.
    joined: Vec<(Range<u64>, usize)>,
    time: Time,
    presets: Presets,
}

impl<'a> SyncIo<'a> {
    /// Access in virtual time, which begins at `now`.
    pub fn in_virtual_time(disk: &'a mut dyn Disk, now: Nanos) -> Self {
        Self::new(disk, Time::Virtual(now))
    }

    /// Access in real time; `start` is the instant the disk knows as zero.
    pub fn in_real_time(disk: &'a mut dyn Disk, start: Instant) -> Self {
        Self::new(disk, Time::Real(start))
    }

    fn new(main: &'a mut dyn Disk, time: Time) -> Self {
        let (data, joined) = (Vec::new(), Vec::new());
        Self { main, map: None, data, for_logs: 0, joined, time, presets: Presets::default() }
    }

    /// The same with the device for the map.
    #[must_use]
    pub(crate) fn with_map(self, disk: &'a mut dyn Disk) -> Self {
        Self { map: Some(disk), ..self }
    }

    /// The same with one more data device.
    #[must_use]
    pub(crate) fn with_data(mut self, disk: &'a mut dyn Disk) -> Self {
        self.data.push(disk);
        self
    }

    /// The last so many of its data devices are for further logs, if a volume is made.
    #[must_use]
    pub(crate) fn with_last_for_logs(self, for_logs: usize) -> Self {
        Self { for_logs, ..self }
    }

    /// How many of them are.
    pub(crate) fn for_logs(&self) -> usize {
        self.for_logs
    }

    /// Its data devices, in the order in which they were named.
    pub(crate) fn data_disks(&self) -> impl Iterator<Item = &dyn Disk> {
        self.data.iter().map(|disk| &**disk)
    }

    /// From now on the volume's addresses go on over its data devices; `order` says by position which of those named it is.
    pub(crate) fn join(&mut self, layout: &Layout, order: &[usize]) {
        self.joined = layout.data_devices().zip(order.iter().copied()).collect();
    }

    /// By position which of the data devices named it is, once they are joined.
    pub(crate) fn order(&self) -> Vec<usize> {
        self.joined.iter().map(|(_, number)| *number).collect()
    }

    /// Reads of a data device, by its number among those named, whether they are joined or not.
    pub(crate) fn read_data(
        &mut self,
        number: usize,
        offset: u64,
        len: usize,
    ) -> Result<Buffer, DiskError> {
        let joined = std::mem::take(&mut self.joined);
        let result = self.read(At { lane: Lane::data(number as u8), offset }, len);
        self.joined = joined;
        result
    }

    /// The same for volumes of these presets, not only of the program's own.
    #[must_use]
    pub fn knowing(self, presets: Presets) -> Self {
        Self { presets, ..self }
    }

    /// The presets that a volume on the disk may have.
    pub fn presets(&self) -> Presets {
        self.presets
    }

    /// The volume's own disk.
    pub fn disk(&self) -> &dyn Disk {
        self.main
    }

    /// One of its devices, if it has that.
    pub fn lane(&self, lane: Lane) -> Option<&dyn Disk> {
        match (lane, lane.data_position()) {
            (Lane::MAIN, _) => Some(self.main),
            (_, Some(position)) => self.data.get(self.number_of(position)?).map(|disk| &**disk),
            (_, None) => self.map.as_deref(),
        }
    }

    /// Which of the data devices named is at a position: until they are joined as they were named.
    fn number_of(&self, position: u8) -> Option<usize> {
        let position = usize::from(position);
        if self.joined.is_empty() {
            return Some(position);
        }
        self.joined.get(position).map(|(_, number)| *number)
    }

    fn lane_mut(&mut self, lane: Lane) -> Option<&mut dyn Disk> {
        if lane == Lane::MAIN {
            return Some(self.main);
        }
        let number = lane.data_position().map(|position| self.number_of(position));
        let disk = match number {
            Some(number) => self.data.get_mut(number?),
            None => self.map.as_mut(),
        };
        match disk {
            Some(disk) => Some(&mut **disk),
            None => None,
        }
    }

    /// The device that has this address of the volume, and which byte of it that is.
    fn on_device(&self, address: u64) -> (Lane, u64) {
        let mut devices = (0..).map(Lane::data).zip(&self.joined);
        let found = devices.find(|(_, (addresses, _))| addresses.contains(&address));
        found.map_or((Lane::MAIN, address), |(lane, (addresses, _))| {
            (lane, address - addresses.start)
        })
    }

    fn lanes(&self) -> impl Iterator<Item = &dyn Disk> {
        let others = self.map.iter().chain(&self.data).map(|disk| &**disk);
        std::iter::once(&*self.main).chain(others)
    }

    /// Most bytes that one read or write there may have.
    pub(crate) fn transfer_bytes_max(&self, lane: Lane) -> u64 {
        let of = |disk: &dyn Disk| u64::from(disk.properties().transfer_bytes_max);
        let data = self.data.iter().map(|disk| of(&**disk));
        let own = std::iter::once(of(self.main)).chain(data).min();
        let map = self.map.as_deref().filter(|_| lane == Lane::MAP).map(of);
        map.or(own).unwrap_or_default()
    }

    /// The time on the disks' clock.
    pub fn now(&self) -> Nanos {
        match self.time {
            Time::Virtual(now) => now,
            Time::Real(start) => {
                Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
            }
        }
    }

    /// Reads `len` bytes at a place, on the volume's own disk if it says nothing else. A read that fails is tried again: what
    /// is decided by these reads is not to depend on an error that comes once.
    pub fn read(&mut self, at: impl Into<At>, len: usize) -> Result<Buffer, DiskError> {
        let At { lane, offset } = at.into();
        let mut tries_left = READ_TRIES;
        let payload = loop {
            tries_left -= 1;
            match self.run_on(lane, Command::Read { offset, len: len as u32 }) {
                Err(error) if error.kind == DiskErrorKind::Io && tries_left > 0 => {}
                result => break result?,
            }
        };
        match payload {
            Payload::Bytes(bytes) => Ok(bytes),
            Payload::Zeros(len) => Ok(BufferMut::zeroed(len).freeze()),
            Payload::Phantom(_) => Err(DiskError {
                kind: DiskErrorKind::Invalid,
                detail: format!(
                    "{}: this disk keeps no content (data-less); give it a file to hold a volume",
                    self.lane(lane).unwrap_or(self.main).properties().name
                ),
            }),
        }
    }

    /// Writes `bytes` at a place, on the volume's own disk if it says nothing else.
    pub fn write(&mut self, at: impl Into<At>, bytes: &[u8]) -> Result<(), DiskError> {
        let At { lane, offset } = at.into();
        let parts = vec![Payload::Bytes(BufferMut::copy_of(bytes).freeze())];
        self.run_on(lane, Command::Write { offset, parts, durable: false }).map(drop)
    }

    /// Makes everything written durable, on each device.
    pub fn flush(&mut self) -> Result<(), DiskError> {
        let map = self.map.iter().map(|_| Lane::MAP);
        let data = (0..self.data.len() as u8).map(Lane::data);
        let lanes: Vec<Lane> = std::iter::once(Lane::MAIN).chain(map).chain(data).collect();
        lanes.into_iter().try_for_each(|lane| self.run_on(lane, Command::Flush).map(drop))
    }

    /// Runs any command to its end, on the volume's own disk.
    pub fn run(&mut self, command: Command) -> Result<Payload, DiskError> {
        self.run_on(Lane::MAIN, command)
    }

    /// The same on any of its devices.
    pub fn run_on(&mut self, lane: Lane, command: Command) -> Result<Payload, DiskError> {
        let left_at = self.now();
        let work = work_of(&command);
        let address = command.offset().filter(|_| lane == Lane::MAIN);
        let (lane, command) = match address.map(|address| self.on_device(address)) {
            Some((lane, byte)) => (lane, command.at(byte)),
            None => (lane, command),
        };
        let ticket = Ticket::new(CommandId(u64::MAX));
        let Some(disk) = self.lane_mut(lane) else {
            ticket.abandon();
            return Err(no_such(lane));
        };
        disk.submit(Submission { ticket, class: Class::Foreground, command }, left_at);
        disk.kick();
        let mut watch = DiskWatch::default();
        watch.note_busy(left_at, STALL_AFTER);
        loop {
            let now = self.now();
            if let Some(done) = self.poll(now) {
                watch.note_answer(left_at, std::iter::empty(), now, STALL_AFTER);
                watch.poll(now).iter().for_each(tell);
                return done.result;
            }
            if watch.look_at().is_some_and(|at| at <= now) {
                watch.look(std::iter::once((left_at, work)), now, STALL_AFTER);
                watch.poll(now).iter().for_each(tell);
            }
            self.wait_until(watch.look_at())?;
        }
    }

    /// Leaves the disk in order ([`Disk::leave`]): nothing more will be changed.
    pub fn leave(&mut self) -> Result<(), DiskError> {
        self.main.leave();
        self.map.iter_mut().chain(&mut self.data).for_each(|disk| disk.leave());
        loop {
            let now = self.now();
            // No command is outstanding, so no answer comes.
            let _ = self.poll(now);
            if self.lanes().all(Disk::has_left) {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// All of them, for each may have something to do of its own; one command at a time is asked for.
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let others = &mut self.map.iter_mut().chain(&mut self.data);
        self.main.poll(now).or_else(|| others.find_map(|disk| disk.poll(now)))
    }

    /// Waits until a disk may have something.
    pub fn wait(&mut self) -> Result<(), DiskError> {
        self.wait_until(None)
    }

    /// The same, but no longer than until `latest`.
    pub(crate) fn wait_until(&mut self, latest: Option<Nanos>) -> Result<(), DiskError> {
        let now = self.now();
        let of_disk = self.lanes().filter_map(Disk::wake_at).min();
        let wake_at = [of_disk, latest].into_iter().flatten().min();
        if let Time::Virtual(time) = &mut self.time {
            // In virtual time what the disk does not announce does not come.
            let Some(wake_at) = wake_at.filter(|_| of_disk.is_some()) else {
                return Err(stuck(&self.main.properties().name));
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
        let readable = self.lanes().filter_map(Disk::wake_fd);
        fds.extend(readable.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if fds.is_empty() && of_disk.is_none() {
            return Err(stuck(&self.main.properties().name));
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

fn work_of(command: &Command) -> DiskWork {
    match command {
        Command::Read { .. } => DiskWork::Read,
        // Whoever writes one command at a time writes superblocks, snapshots and what belongs to them.
        Command::Write { .. } | Command::WriteZeroes { .. } => DiskWork::MapWrite,
        Command::Trim { .. } => DiskWork::Trim,
        Command::Flush => DiskWork::Flush,
    }
}

fn no_such(lane: Lane) -> DiskError {
    DiskError {
        kind: DiskErrorKind::Invalid,
        detail: format!("the volume has no device at lane {} (internal error)", lane.0),
    }
}

fn stuck(disk: &str) -> DiskError {
    DiskError {
        kind: DiskErrorKind::Io,
        detail: format!("{disk}: a command neither completed nor will (internal error)"),
    }
}

#[cfg(test)]
mod tests;
