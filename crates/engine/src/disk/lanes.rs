//! The devices of a volume as the engine sees them: for each a way there, and a count of its flushes.
//!
//! It keeps true:
//!
//! - what one device has to do keeps no command of another waiting: each has its own queue, admission and depth;
//! - a flush makes durable what completed on its own device and nothing else. The volume's own disk and its data devices are flushed
//!   together (`together.rs`), those of them that need it, since homes lie on any of them; the map's device has its own tickets: a
//!   ticket of one is never shown to the other;
//! - the engine knows the volume's addresses, which go on over its data devices, and each device hears its own: they are
//!   exchanged where a command leaves, and nowhere else;
//! - a command's id says which device it went to, so that every completion finds its purpose, wherever it comes from.
//!
//! What may only be durable after something on another device is nobody's knowledge here: whoever has such an order waits
//! for the ticket of the one before it tells the other (the comments there say which, for example `snapshot/mod.rs`).

use crate::admission::{Admission, Pace};
use crate::disk::dispatch::{Dispatcher, InFlight};
use crate::disk::flusher::{FlushTicket, Flusher};
use crate::disk::report::DiskWork;
use crate::disk::together::FlushedTogether;
use nearhead_disk::{CommandId, Lane, Nanos, PartDone, Properties, Submission};
use nearhead_format::Layout;
use std::collections::VecDeque;
use std::ops::Range;

/// Bits of a command's id that say which of its device's commands it is; those above say the device.
const ID_BITS: u32 = 32;

/// A data device, and which of the volume's addresses are its.
#[derive(Debug)]
struct DataLane {
    queue: Dispatcher,
    addresses: Range<u64>,
    /// It has logs and no homes, as the volume's own disk then.
    is_for_logs: bool,
    /// Why nothing is asked of it any more, if so.
    given_up: Option<String>,
}

impl DataLane {
    /// The byte of the device that is at this address of the volume.
    fn byte_of(&self, address: u64) -> u64 {
        address - self.addresses.start
    }
}

/// The device for the map: nothing it has to do concerns the others.
#[derive(Debug)]
struct MapLane {
    queue: Dispatcher,
    flusher: Flusher,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// The volume's own disk.
    main: Dispatcher,
    map: Option<MapLane>,
    /// Of the read cache's device: nothing there is ever flushed, as nothing there has to last.
    cache: Option<Dispatcher>,
    /// By position.
    data: Vec<DataLane>,
    /// Flushes of all but the map's.
    own: FlushedTogether,
    /// Commands for devices that were given up, which nobody answers.
    refused: VecDeque<CommandId>,
}

/// What makes everything durable that had completed on any of them.
#[derive(Debug)]
pub(crate) struct Tickets {
    own: FlushTicket,
    map: Option<FlushTicket>,
}

impl Lanes {
    /// Of a volume with this layout, on devices with these facts: its own disk, its data devices by position, and one for its map.
    pub(crate) fn new(
        main: &Properties,
        data: &[Properties],
        map: Option<&Properties>,
        layout: &Layout,
    ) -> Self {
        let volatile: Vec<Lane> = std::iter::once((Lane::MAIN, main))
            .chain((0..).map(Lane::data).zip(data))
            .filter(|(_, properties)| properties.volatile_cache)
            .map(|(lane, _)| lane)
            .collect();
        let with_homes = layout.data_parts.with_homes() as u8;
        let lanes = (0..).zip(data).zip(layout.data_devices());
        let lanes = lanes.map(|((position, properties), addresses)| DataLane {
            queue: Dispatcher::new(Lane::data(position), properties),
            addresses,
            is_for_logs: position >= with_homes,
            given_up: None,
        });
        Self {
            main: Dispatcher::new(Lane::MAIN, main),
            map: map.map(|properties| MapLane {
                queue: Dispatcher::new(Lane::MAP, properties),
                flusher: Flusher::new(properties.volatile_cache),
            }),
            cache: None,
            data: lanes.collect(),
            own: FlushedTogether::new(volatile),
            refused: VecDeque::new(),
        }
    }

    /// The read cache has a device with these facts.
    pub(crate) fn with_cache(self, cache: Option<&Properties>) -> Self {
        let cache = cache.map(|properties| Dispatcher::new(Lane::CACHE, properties));
        Self { cache, ..self }
    }

    /// Commands on their way to the volume's own disk.
    pub(crate) fn main(&self) -> &Dispatcher {
        &self.main
    }

    /// Commands on their way to the device of a lane; of one that the engine was not told of to the volume's own.
    pub(crate) fn queue(&self, lane: Lane) -> &Dispatcher {
        let data = lane.data_position().and_then(|position| self.data.get(usize::from(position)));
        let map = self.map.as_ref().filter(|_| lane == Lane::MAP).map(|map| &map.queue);
        let cache = self.cache.as_ref().filter(|_| lane == Lane::CACHE);
        data.map(|data| &data.queue).or(map).or(cache).unwrap_or(&self.main)
    }

    pub(crate) fn main_mut(&mut self) -> &mut Dispatcher {
        &mut self.main
    }

    /// Those to the devices that have logs and no homes, beside the volume's own.
    pub(crate) fn others_for_logs_mut(&mut self) -> impl Iterator<Item = (u64, &mut Dispatcher)> {
        let others = self.data.iter_mut().filter(|data| data.is_for_logs);
        others.map(|data| (data.addresses.start, &mut data.queue))
    }

    /// Whether what happens on a lane concerns an arm that records wait for.
    pub(crate) fn is_for_logs(&self, lane: Lane) -> bool {
        let data = lane.data_position().and_then(|position| self.data.get(usize::from(position)));
        lane == Lane::MAIN || data.is_some_and(|data| data.is_for_logs)
    }

    /// Whether any bulk is there or waits where records go.
    pub(crate) fn has_bulk_beside_logs(&self) -> bool {
        let data = self.data.iter().filter(|data| data.is_for_logs).map(|data| &data.queue);
        std::iter::once(&self.main).chain(data).any(Dispatcher::has_bulk)
    }

    /// The way to the device that has this address of a log.
    pub(crate) fn queue_of_log(&self, address: u64) -> &Dispatcher {
        self.data_at(address).map_or(&self.main, |position| &self.data[position].queue)
    }

    /// The way for a command at this byte of a lane: of the volume's addresses to the device that has it. Of a lane that the
    /// engine was not told of when it was opened there is none.
    pub(crate) fn queue_for(&mut self, lane: Lane, byte: Option<u64>) -> &mut Dispatcher {
        let at = match lane.data_position() {
            Some(position) => Some(usize::from(position)),
            None if lane == Lane::MAIN => byte.and_then(|byte| self.data_at(byte)),
            None => None,
        };
        let Self { main, map, cache, data, .. } = self;
        match (at, map, cache) {
            (Some(position), ..) => &mut data[position].queue,
            (None, Some(map), _) if lane == Lane::MAP => &mut map.queue,
            (None, _, Some(cache)) if lane == Lane::CACHE => cache,
            (None, ..) => main,
        }
    }

    /// The data device that has this address.
    fn data_at(&self, address: u64) -> Option<usize> {
        self.data.iter().position(|data| data.addresses.contains(&address))
    }

    /// A place as the device itself calls it.
    pub(crate) fn on_device(&self, lane: Lane, byte: u64) -> u64 {
        let data = lane.data_position().and_then(|position| self.data.get(usize::from(position)));
        data.map_or(byte, |data| data.byte_of(byte))
    }

    /// The flushes of the volume's own disk and its data devices.
    pub(crate) fn own_flusher(&self) -> &Flusher {
        self.own.flusher()
    }

    pub(crate) fn own_flusher_mut(&mut self) -> &mut Flusher {
        self.own.flusher_mut()
    }

    /// The flushes that concern what is on this lane.
    pub(crate) fn flusher(&self, lane: Lane) -> &Flusher {
        match &self.map {
            Some(map) if lane == Lane::MAP => &map.flusher,
            _ => self.own.flusher(),
        }
    }

    pub(crate) fn flusher_mut(&mut self, lane: Lane) -> &mut Flusher {
        match &mut self.map {
            Some(map) if lane == Lane::MAP => &mut map.flusher,
            _ => self.own.flusher_mut(),
        }
    }

    fn queues(&self) -> impl Iterator<Item = &Dispatcher> {
        let data = self.data.iter().map(|data| &data.queue);
        let map = self.map.iter().map(|map| &map.queue);
        std::iter::once(&self.main).chain(map).chain(&self.cache).chain(data)
    }

    fn queues_mut(&mut self) -> impl Iterator<Item = &mut Dispatcher> {
        let data = self.data.iter_mut().map(|data| &mut data.queue);
        let map = self.map.iter_mut().map(|map| &mut map.queue);
        std::iter::once(&mut self.main).chain(map).chain(&mut self.cache).chain(data)
    }

    /// What time it is for everything that follows.
    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.queues_mut().for_each(|queue| queue.set_now(now));
    }

    /// Says how much background work matters now, everywhere.
    pub(crate) fn set_pace(&mut self, admission: &dyn Admission, pace: Pace) {
        self.queues_mut().for_each(|queue| queue.set_pace(admission, pace));
    }

    /// The next command, and the device that it is for, by whose own addresses it is told.
    pub(crate) fn poll(&mut self) -> Option<(Lane, Submission)> {
        if let Some(submission) = self.main.poll() {
            return Some((Lane::MAIN, submission));
        }
        if let Some(submission) = self.map.as_mut().and_then(|map| map.queue.poll()) {
            return Some((Lane::MAP, submission));
        }
        if let Some(submission) = self.cache.as_mut().and_then(Dispatcher::poll) {
            return Some((Lane::CACHE, submission));
        }
        let Self { data, refused, .. } = self;
        let mut data = (0..).map(Lane::data).zip(data);
        data.find_map(|(lane, data)| {
            if data.given_up.is_some() {
                refused.extend(std::iter::from_fn(|| data.queue.poll()).map(refuse));
                return None;
            }
            let Submission { ticket, class, command } = data.queue.poll()?;
            let command = match command.offset() {
                Some(address) => command.at(data.byte_of(address)),
                None => command,
            };
            Some((lane, Submission { ticket, class, command }))
        })
    }

    /// A command completed; says on which device, and what it was for. `None` for an unknown id.
    pub(crate) fn complete(
        &mut self,
        admission: &dyn Admission,
        id: CommandId,
        parts: &[PartDone],
    ) -> Option<(Lane, InFlight)> {
        let lane = Lane(u8::try_from(id.0 >> ID_BITS).ok()?);
        let queue = match lane.data_position() {
            Some(position) => &mut self.data.get_mut(usize::from(position))?.queue,
            None if lane == Lane::MAP => &mut self.map.as_mut()?.queue,
            None if lane == Lane::CACHE => self.cache.as_mut()?,
            None => &mut self.main,
        };
        let done = queue.complete(admission, id.0 as u32, parts)?;
        if !matches!(lane, Lane::MAP | Lane::CACHE) && done.needs_flush() {
            self.own.note_written(lane);
        }
        Some((lane, done))
    }

    /// The next command for a device that was given up: it is answered with an error.
    pub(crate) fn take_refused(&mut self) -> Option<CommandId> {
        self.refused.pop_front()
    }

    /// Whether there is any.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Nothing is asked of a data device any more, and nobody waits for its flush: whatever is not known to be durable there counts as lost.
    /// Says whether it is one.
    pub(crate) fn give_up(&mut self, lane: Lane, why: String) -> bool {
        let data =
            lane.data_position().and_then(|position| self.data.get_mut(usize::from(position)));
        let Some(data) = data else { return false };
        data.given_up.get_or_insert(why);
        self.own.forget(lane);
        true
    }

    /// Why nothing is asked any more of the device that has this address, if so: its position and the reason.
    pub(crate) fn given_up_at(&self, address: u64) -> Option<(u8, &str)> {
        let mut data = (0..).zip(&self.data);
        let (position, data) = data.find(|(_, data)| data.addresses.contains(&address))?;
        Some((position, data.given_up.as_deref()?))
    }

    /// The data devices that were given up, and why.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = (u8, &str)> {
        let data = (0..).zip(&self.data);
        data.filter_map(|(position, data)| Some((position, data.given_up.as_deref()?)))
    }

    /// Commands issued and not completed, on all of them.
    pub(crate) fn len(&self) -> usize {
        self.queues().map(Dispatcher::len).sum()
    }

    /// Whether anything left that is not answered.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.queues().any(Dispatcher::is_on_disk)
    }

    /// When each command on any of them left, and what it is for.
    pub(crate) fn on_disk(&self) -> impl Iterator<Item = (Nanos, DiskWork)> + '_ {
        self.queues().flat_map(Dispatcher::on_disk)
    }

    /// Whether a flush is on one of them.
    pub(crate) fn is_flushing(&self) -> bool {
        let map = self.map.as_ref().is_some_and(|map| map.flusher.is_under_way());
        map || self.own.flusher().is_under_way()
    }

    /// One on which a flush must be submitted now; it counts as submitted.
    pub(crate) fn start_flush(&mut self) -> Option<Lane> {
        if let Some(lane) = self.own.start() {
            return Some(lane);
        }
        self.map.as_mut().is_some_and(|map| map.flusher.start()).then_some(Lane::MAP)
    }

    /// A flush of that device ended.
    pub(crate) fn flush_ended(&mut self, lane: Lane, is_ok: bool) {
        match &mut self.map {
            Some(map) if lane == Lane::MAP && is_ok => map.flusher.complete(),
            Some(map) if lane == Lane::MAP => map.flusher.fail(),
            _ => self.own.ended(is_ok),
        }
    }

    /// Tickets for everything completed so far on any of them, and the demand for all.
    pub(crate) fn want_all(&mut self) -> Tickets {
        let own = self.own.flusher_mut().want();
        Tickets { own, map: self.map.as_mut().map(|map| map.flusher.want()) }
    }

    /// Whether all of `tickets` are redeemed, each by its own devices.
    pub(crate) fn are_done(&self, tickets: &Tickets) -> bool {
        let map = self.map.as_ref().zip(tickets.map);
        self.own.flusher().is_done(tickets.own)
            && map.is_none_or(|(map, ticket)| map.flusher.is_done(ticket))
    }
}

/// Nobody will answer it; its id.
fn refuse(submission: Submission) -> CommandId {
    let id = submission.ticket.id();
    submission.ticket.abandon();
    id
}

/// What names the command `id` of one device among those of all.
pub(super) fn command_id(lane: Lane, id: u32) -> CommandId {
    CommandId(u64::from(lane.0) << ID_BITS | u64::from(id))
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
