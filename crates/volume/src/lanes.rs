//! The devices of a volume: its own disk, beside it a small fast device for the map if it has one, and those that hold its data if its
//! own disk has nothing but the logs; and a flash device for the read cache, which holds nothing that counts.
//!
//! Each is a lane with addresses, a queue and a cache of its own. Nothing here decides what goes where: whoever has a
//! command says the lane, and a completion says by its id which command it answers. What people and fronts ask of "the
//! disk" (trouble, lost writes, leaving in order) is asked of all of them. It must never hold anything back: what one of
//! them has to do is nothing to the other.

use crate::sync_io::SyncIo;
use nearhead_disk::{
    Completion, Disk, DiskError, DiskErrorKind, Lane, Nanos, Properties, Submission,
};
use rustix::event::epoll;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// The largest sector of a map device, if the volume's own disk does not have such: the unit of everything on it.
const MAP_SECTOR_BYTES_MAX: u32 = 4096;

/// The devices that a volume lies on.
pub struct Lanes<D> {
    main: D,
    map: Option<D>,
    /// By position, once the volume is open; until then as they were named.
    data: Vec<D>,
    /// So many of them, the last ones named, are for further logs of a volume that is made.
    for_logs: usize,
    cache: Option<D>,
    /// Commands that each device of the volume has, by number of its lane.
    outstanding: Vec<u32>,
    /// Readable when any device's descriptor is, if there are several.
    wake: Option<OwnedFd>,
}

/// A volume that lies on one disk.
impl<D: Disk> From<D> for Lanes<D> {
    fn from(main: D) -> Self {
        let (data, outstanding) = (Vec::new(), Vec::new());
        Self { main, map: None, data, for_logs: 0, cache: None, outstanding, wake: None }
    }
}

impl<D: Disk> Lanes<D> {
    /// A disk with a device for the map beside it.
    ///
    /// # Errors
    /// If the map device's sectors are larger than what is written there, or the kernel cannot watch both.
    pub fn with_map(main: D, map: D) -> Result<Self, DiskError> {
        let found = map.properties();
        if found.sector_bytes > MAP_SECTOR_BYTES_MAX {
            let detail = format!(
                "map device {}: expected sectors of at most {MAP_SECTOR_BYTES_MAX} bytes, found {}",
                found.name, found.sector_bytes
            );
            return Err(DiskError { kind: DiskErrorKind::Invalid, detail });
        }
        Self { map: Some(map), ..Self::from(main) }.watched()
    }

    /// The same with devices that hold the data, in any order if the volume has been made; all of its own disk is for the logs then.
    /// [`Lanes::with_log_devices`] comes behind it.
    ///
    /// # Errors
    /// If the kernel cannot watch all of them.
    pub fn with_data(self, data: Vec<D>) -> Result<Self, DiskError> {
        Self { data, ..self }.watched()
    }

    /// The same with further devices for logs behind those that hold the data, in any order if the volume has been made.
    ///
    /// # Errors
    /// If the kernel cannot watch all of them.
    pub fn with_log_devices(mut self, logs: Vec<D>) -> Result<Self, DiskError> {
        self.for_logs += logs.len();
        self.data.extend(logs);
        self.watched()
    }

    /// The same with a device for the read cache: only copies go there, and what it does wrong is nobody's loss.
    ///
    /// # Errors
    /// If the kernel cannot watch all of them.
    pub fn with_cache(self, cache: D) -> Result<Self, DiskError> {
        Self { cache: Some(cache), ..self }.watched()
    }

    fn watched(mut self) -> Result<Self, DiskError> {
        let fds: Vec<_> = self.with_cache_too().filter_map(Disk::wake_fd).collect();
        self.wake = watch(&fds).map_err(|error| DiskError {
            kind: DiskErrorKind::Io,
            detail: format!("the devices of the volume cannot be watched together: {error}"),
        })?;
        Ok(self)
    }

    /// The data devices come in another order: `order` says for each position which of them it is.
    pub(crate) fn arrange(&mut self, order: &[usize]) {
        let mut data: Vec<Option<D>> =
            std::mem::take(&mut self.data).into_iter().map(Some).collect();
        let arranged: Vec<D> =
            order.iter().filter_map(|number| data.get_mut(*number)?.take()).collect();
        // Nothing is dropped, whatever the order leaves out.
        self.data = arranged.into_iter().chain(data.into_iter().flatten()).collect();
    }

    /// The volume's own disk.
    pub fn main(&self) -> &D {
        &self.main
    }

    /// The same, to be told something.
    pub fn main_mut(&mut self) -> &mut D {
        &mut self.main
    }

    /// The device for the map, if there is one.
    pub fn map(&self) -> Option<&D> {
        self.map.as_ref()
    }

    /// The same, to be told something.
    pub fn map_mut(&mut self) -> Option<&mut D> {
        self.map.as_mut()
    }

    /// The data devices: by position, once the volume is open.
    pub fn data(&self) -> &[D] {
        &self.data
    }

    /// The same, to be told something.
    pub fn data_mut(&mut self) -> &mut [D] {
        &mut self.data
    }

    /// The one that is this lane.
    pub(crate) fn at_mut(&mut self, lane: Lane) -> Option<&mut D> {
        match (lane, lane.data_position()) {
            (Lane::MAIN, _) => Some(&mut self.main),
            (Lane::MAP, _) => self.map.as_mut(),
            (_, position) => self.data.get_mut(usize::from(position?)),
        }
    }

    /// Releases members of mirrors that were replaced, on any of them. Returns whether all of them are.
    pub fn release_replaced(&mut self) -> bool {
        self.all_mut().fold(true, |are_all, disk| disk.release_replaced() & are_all)
    }

    /// Sides of mirrors may rest once nothing was written for so long ([`Disk::let_rest`]), on any of them.
    pub(crate) fn let_rest(&mut self, after: Option<Nanos>) {
        self.all_mut().for_each(|disk| disk.let_rest(after));
    }

    /// The device for the read cache, if there is one.
    pub fn cache(&self) -> Option<&D> {
        self.cache.as_ref()
    }

    /// All of them but data devices, given back: the volume's own disk and the device for the map.
    pub fn into_parts(self) -> (D, Option<D>) {
        (self.main, self.map)
    }

    /// All of them, given back: the volume's own disk, the device for the map, and the data devices.
    pub fn into_all(self) -> (D, Option<D>, Vec<D>) {
        (self.main, self.map, self.data)
    }

    /// The facts of the volume's own disk.
    pub fn properties(&self) -> &Properties {
        self.main.properties()
    }

    /// Those of its data devices.
    pub(crate) fn data_properties(&self) -> Vec<Properties> {
        self.data.iter().map(|disk| disk.properties().clone()).collect()
    }

    /// Positions of those that are not there.
    pub(crate) fn absent_data(&self) -> Vec<u8> {
        let data = (0..).zip(&self.data);
        data.filter(|(_, disk)| disk.is_absent()).map(|(position, _)| position).collect()
    }

    /// One command at a time in real time; `start` is the instant that the devices know as zero.
    pub fn in_real_time(&mut self, start: Instant) -> SyncIo<'_> {
        let io = SyncIo::in_real_time(&mut self.main, start).with_last_for_logs(self.for_logs);
        let io = self.map.iter_mut().fold(io, |io, map| io.with_map(map));
        self.data.iter_mut().fold(io, |io, disk| io.with_data(disk))
    }

    /// The same in virtual time, which begins at `now`.
    pub fn in_virtual_time(&mut self, now: Nanos) -> SyncIo<'_> {
        let io = SyncIo::in_virtual_time(&mut self.main, now).with_last_for_logs(self.for_logs);
        let io = self.map.iter_mut().fold(io, |io, map| io.with_map(map));
        self.data.iter_mut().fold(io, |io, disk| io.with_data(disk))
    }

    /// Those that hold the volume.
    fn all(&self) -> impl Iterator<Item = &D> {
        std::iter::once(&self.main).chain(&self.map).chain(&self.data)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut D> {
        std::iter::once(&mut self.main).chain(&mut self.map).chain(&mut self.data)
    }

    fn with_cache_too(&self) -> impl Iterator<Item = &D> {
        self.all().chain(&self.cache)
    }

    fn with_cache_too_mut(&mut self) -> impl Iterator<Item = &mut D> {
        let volume = std::iter::once(&mut self.main).chain(&mut self.map).chain(&mut self.data);
        volume.chain(&mut self.cache)
    }

    /// Hands a command to its device. The engine is told of the lanes there are, and names no other: a command for one
    /// that is not there must never reach another disk.
    pub(crate) fn submit(&mut self, lane: Lane, submission: Submission, now: Nanos) {
        if let Some(count) = self.outstanding_on(lane) {
            *count += 1;
        }
        let data = lane.data_position().map(usize::from);
        let data = data.and_then(|position| self.data.get_mut(position));
        match (lane, &mut self.map, &mut self.cache, data) {
            (Lane::MAIN, ..) => self.main.submit(submission, now),
            (Lane::MAP, Some(map), ..) => map.submit(submission, now),
            (Lane::CACHE, _, Some(cache), _) => cache.submit(submission, now),
            (_, _, _, Some(disk)) => disk.submit(submission, now),
            _ => unreachable!("a command for {lane:?}, of which the engine was not told"),
        }
    }

    pub(crate) fn kick(&mut self) {
        self.with_cache_too_mut().for_each(Disk::kick);
    }

    /// The next command that is done, on any of them.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let data = (0..).map(Lane::data).zip(&mut self.data);
        let named = std::iter::once((Lane::MAIN, &mut self.main))
            .chain(self.map.as_mut().map(|map| (Lane::MAP, map)))
            .chain(data)
            .chain(self.cache.as_mut().map(|cache| (Lane::CACHE, cache)));
        let (lane, completion) =
            named.into_iter().find_map(|(lane, disk)| Some((lane, disk.poll(now)?)))?;
        if let Some(count) = self.outstanding_on(lane) {
            *count = count.saturating_sub(1);
        }
        Some(completion)
    }

    /// Number of commands that the device of `lane` has; not counted for a read cache.
    fn outstanding_on(&mut self, lane: Lane) -> Option<&mut u32> {
        let number = usize::from((lane != Lane::CACHE).then_some(lane.0)?);
        if self.outstanding.len() <= number {
            self.outstanding.resize(number + 1, 0);
        }
        self.outstanding.get_mut(number)
    }

    /// Whether the queue of a device has room for one more command.
    pub(crate) fn has_room(&mut self, lane: Lane) -> bool {
        let disk = match (lane, lane.data_position()) {
            (Lane::MAIN, _) => Some(&self.main),
            (Lane::MAP, _) => self.map.as_ref(),
            (_, Some(position)) => self.data.get(usize::from(position)),
            _ => None,
        };
        let depth = disk.map_or(0, |disk| u32::from(disk.properties().queue_depth_max));
        self.outstanding_on(lane).is_some_and(|count| *count < depth)
    }

    /// When `poll` will next have something, as far as the devices know.
    pub(crate) fn wake_at(&self) -> Option<Nanos> {
        self.with_cache_too().filter_map(Disk::wake_at).min()
    }

    /// Readable when `poll` may have something.
    pub(crate) fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        let is_alone = self.map.is_none() && self.data.is_empty() && self.cache.is_none();
        if is_alone { self.main.wake_fd() } else { self.wake.as_ref().map(AsFd::as_fd) }
    }

    /// What people must know about the state of any of them ([`Disk::trouble`]).
    pub fn trouble(&self) -> Option<String> {
        self.all().find_map(Disk::trouble)
    }

    /// Why nothing may be changed any more, if one of them lost writes ([`Disk::lost_writes`]).
    pub fn lost_writes(&self) -> Option<&str> {
        self.all().find_map(Disk::lost_writes)
    }

    /// Those that lost writes forget what is not on their medium ([`Disk::start_over`]).
    ///
    /// # Errors
    /// As the device says; one that came before it has started over.
    pub(crate) fn start_over(&mut self) -> Result<(), DiskError> {
        self.all_mut().filter(|disk| disk.lost_writes().is_some()).try_for_each(Disk::start_over)
    }

    /// Nothing more will be changed ([`Disk::leave`]).
    pub(crate) fn leave(&mut self) {
        self.all_mut().for_each(Disk::leave);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.all().all(Disk::has_left)
    }
}

/// A descriptor that is readable when one of these is.
pub(crate) fn watch(fds: &[BorrowedFd<'_>]) -> rustix::io::Result<Option<OwnedFd>> {
    if fds.is_empty() {
        return Ok(None);
    }
    let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for fd in fds {
        epoll::add(&both, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(Some(both))
}

#[cfg(test)]
mod tests;
