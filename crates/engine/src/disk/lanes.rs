//! The devices of a volume as the engine sees them: for each a way there, and a count of its flushes.
//!
//! It keeps true:
//!
//! - what one device has to do keeps no command of another waiting: each has its own queue, admission and depth;
//! - a flush makes durable what completed on its own device and nothing else, so each has its own tickets: a ticket of one
//!   is never shown to another;
//! - a command's id says which device it went to, so that every completion finds its purpose, wherever it comes from.
//!
//! What may only be durable after something on another device is nobody's knowledge here: whoever has such an order waits
//! for the ticket of the one before it tells the other (the comments there say which, for example `snapshot/mod.rs`).

use crate::admission::{Admission, Pace};
use crate::disk::dispatch::{Dispatcher, InFlight};
use crate::disk::flusher::{FlushTicket, Flusher};
use crate::disk::report::DiskWork;
use nearhead_disk::{CommandId, Lane, Nanos, PartDone, Properties, Submission};

/// Bits of a command's id that say which of its device's commands it is; those above say the device.
const ID_BITS: u32 = 32;

/// One device.
#[derive(Debug)]
pub(crate) struct OneLane {
    queue: Dispatcher,
    flusher: Flusher,
}

impl OneLane {
    fn new(lane: Lane, properties: &Properties) -> Self {
        let flusher = Flusher::new(properties.volatile_cache);
        Self { queue: Dispatcher::new(lane, properties), flusher }
    }

    /// The commands on their way.
    pub(crate) fn queue(&self) -> &Dispatcher {
        &self.queue
    }

    pub(crate) fn queue_mut(&mut self) -> &mut Dispatcher {
        &mut self.queue
    }

    /// What flushes cover.
    pub(crate) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    pub(crate) fn flusher_mut(&mut self) -> &mut Flusher {
        &mut self.flusher
    }
}

/// All of them, and there is at least one.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// The volume's own disk: logs and homes.
    main: OneLane,
    /// The others, in the order of their numbers.
    others: Vec<OneLane>,
}

/// What makes everything durable that had completed on any of them: a flush ticket for each, in their order.
#[derive(Debug)]
pub(crate) struct Tickets(Vec<FlushTicket>);

impl Lanes {
    /// Devices with these facts, the volume's own disk first.
    pub(crate) fn new(main: &Properties, others: &[Properties]) -> Self {
        let others = (1..).map(Lane).zip(others);
        let others = others.map(|(lane, properties)| OneLane::new(lane, properties)).collect();
        Self { main: OneLane::new(Lane::MAIN, main), others }
    }

    /// The volume's own disk.
    pub(crate) fn main(&self) -> &OneLane {
        &self.main
    }

    pub(crate) fn main_mut(&mut self) -> &mut OneLane {
        &mut self.main
    }

    fn get(&self, lane: Lane) -> Option<&OneLane> {
        match usize::from(lane.0).checked_sub(1) {
            None => Some(&self.main),
            Some(other) => self.others.get(other),
        }
    }

    fn get_mut(&mut self, lane: Lane) -> Option<&mut OneLane> {
        match usize::from(lane.0).checked_sub(1) {
            None => Some(&mut self.main),
            Some(other) => self.others.get_mut(other),
        }
    }

    /// One that the engine was told of when it was opened.
    pub(crate) fn of(&self, lane: Lane) -> &OneLane {
        self.get(lane)
            .expect("whoever opens an engine names no lane that it does not tell the facts of")
    }

    /// The same, to be told something.
    pub(crate) fn of_mut(&mut self, lane: Lane) -> &mut OneLane {
        self.get_mut(lane)
            .expect("whoever opens an engine names no lane that it does not tell the facts of")
    }

    fn all(&self) -> impl Iterator<Item = &OneLane> {
        std::iter::once(&self.main).chain(&self.others)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut OneLane> {
        std::iter::once(&mut self.main).chain(&mut self.others)
    }

    /// What time it is for everything that follows.
    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.all_mut().for_each(|lane| lane.queue.set_now(now));
    }

    /// Says how much background work matters now, everywhere.
    pub(crate) fn set_pace(&mut self, admission: &dyn Admission, pace: Pace) {
        self.all_mut().for_each(|lane| lane.queue.set_pace(admission, pace));
    }

    /// The next command, and the device that it is for.
    pub(crate) fn poll(&mut self) -> Option<(Lane, Submission)> {
        (0..).map(Lane).zip(self.all_mut()).find_map(|(lane, of)| Some((lane, of.queue.poll()?)))
    }

    /// A command completed; says on which device, and what it was for. `None` for an unknown id.
    pub(crate) fn complete(
        &mut self,
        admission: &dyn Admission,
        id: CommandId,
        parts: &[PartDone],
    ) -> Option<(Lane, InFlight)> {
        let lane = Lane(u8::try_from(id.0 >> ID_BITS).ok()?);
        let done = self.get_mut(lane)?.queue.complete(admission, id.0 as u32, parts)?;
        Some((lane, done))
    }

    /// Commands issued and not completed, on all of them.
    pub(crate) fn len(&self) -> usize {
        self.all().map(|lane| lane.queue.len()).sum()
    }

    /// Whether anything left that is not answered.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.all().any(|lane| lane.queue.is_on_disk())
    }

    /// When each command on any of them left, and what it is for.
    pub(crate) fn on_disk(&self) -> impl Iterator<Item = (Nanos, DiskWork)> + '_ {
        self.all().flat_map(|lane| lane.queue.on_disk())
    }

    /// Whether a flush is on one of them.
    pub(crate) fn is_flushing(&self) -> bool {
        self.all().any(|lane| lane.flusher.is_under_way())
    }

    /// One on which a flush must be submitted now; it counts as submitted.
    pub(crate) fn start_flush(&mut self) -> Option<Lane> {
        (0..)
            .map(Lane)
            .zip(self.all_mut())
            .find_map(|(lane, of)| of.flusher.start().then_some(lane))
    }

    /// Tickets for everything completed so far on any of them, and the demand for all.
    pub(crate) fn want_all(&mut self) -> Tickets {
        Tickets(self.all_mut().map(|lane| lane.flusher.want()).collect())
    }

    /// Whether all of `tickets` are redeemed, each by its own device.
    pub(crate) fn are_done(&self, tickets: &Tickets) -> bool {
        self.all().zip(&tickets.0).all(|(lane, ticket)| lane.flusher.is_done(*ticket))
    }
}

/// What names the command `id` of one device among those of all.
pub(super) fn command_id(lane: Lane, id: u32) -> CommandId {
    CommandId(u64::from(lane.0) << ID_BITS | u64::from(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Fifo;
    use crate::disk::dispatch::Purpose;
    use nearhead_disk::{Class, Command, Payload};

    const MAP: Lane = Lane(1);
    const FIFO: Fifo = Fifo { piece_bytes: 1 << 20 };

    /// Two devices that take one command at a time.
    fn two() -> Lanes {
        let facts = Properties {
            volatile_cache: true,
            queue_depth_max: 1,
            ..Properties::plain("one of two", 1 << 20, 512)
        };
        Lanes::new(&facts, std::slice::from_ref(&facts))
    }

    fn write(lanes: &mut Lanes, lane: Lane, purpose: Purpose) {
        let parts = vec![Payload::Zeros(512)];
        let command = Command::Write { offset: 0, parts, durable: false };
        lanes.of_mut(lane).queue.issue(&FIFO, Class::Durable, purpose, command);
    }

    #[test]
    fn a_full_queue_of_one_device_keeps_nothing_for_another_waiting() {
        let mut lanes = two();
        for _ in 0..2 {
            write(&mut lanes, Lane::MAIN, Purpose::Record);
        }
        write(&mut lanes, MAP, Purpose::Journal);
        let left: Vec<_> = std::iter::from_fn(|| lanes.poll()).collect();
        assert_eq!(left.iter().map(|(lane, _)| *lane).collect::<Vec<_>>(), [Lane::MAIN, MAP]);
        assert_eq!((lanes.len(), lanes.is_on_disk()), (3, true));
        // Each finds what it was for, in whatever order they are answered.
        let expected = [(MAP, Purpose::Journal), (Lane::MAIN, Purpose::Record)];
        for ((_, submission), (lane, purpose)) in left.into_iter().rev().zip(expected) {
            let id = submission.ticket.complete(Ok(Payload::EMPTY)).id;
            let done = lanes.complete(&FIFO, id, &[]).map(|(lane, done)| (lane, done.purpose()));
            assert_eq!(done, Some((lane, purpose)));
            assert!(lanes.complete(&FIFO, id, &[]).is_none(), "it was answered");
        }
        assert!(
            lanes.complete(&FIFO, command_id(Lane(2), 0), &[]).is_none(),
            "there is no such device"
        );
        lanes.poll().into_iter().for_each(|(_, submission)| submission.ticket.abandon());
    }

    #[test]
    fn a_flush_of_one_device_says_nothing_of_another() {
        let mut lanes = two();
        lanes.main.flusher.note_volatile_write();
        lanes.of_mut(MAP).flusher.note_volatile_write();
        let tickets = lanes.want_all();
        assert_eq!([lanes.start_flush(), lanes.start_flush()], [Some(Lane::MAIN), Some(MAP)]);
        assert!(lanes.start_flush().is_none() && lanes.is_flushing());
        for lane in [MAP, Lane::MAIN] {
            assert!(!lanes.are_done(&tickets));
            lanes.of_mut(lane).flusher.complete();
        }
        assert!(lanes.are_done(&tickets) && !lanes.is_flushing());
    }

    #[test]
    fn who_waits_for_all_waits_for_no_device_that_has_nothing_to_flush() {
        let mut lanes = two();
        lanes.of_mut(MAP).flusher.note_volatile_write();
        let tickets = lanes.want_all();
        assert_eq!([lanes.start_flush(), lanes.start_flush()], [Some(MAP), None]);
        lanes.of_mut(MAP).flusher.complete();
        assert!(lanes.are_done(&tickets));
    }
}
