//! Commands on their way to one disk: who asked, in which order they leave, what is outstanding.
//!
//! Keeps true: never more outstanding than the disk's queue takes, classes leave in the order the
//! admission policy allows, commands of one class in the order they were issued, and every
//! completion finds its purpose exactly once.

use crate::admission::{Admission, Outstanding, Pace};
use crate::disk::head::Head;
use crate::disk::lanes::command_id;
use crate::disk::report::DiskWork;
use nearhead_basics::Slab;
use nearhead_disk::{Class, Command, Lane, Nanos, Properties, Submission, Ticket};
use std::collections::VecDeque;

/// What a command is for; decides who handles its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// One transfer of a client's read: request slot and transfer number.
    Read { slot: u32, io: u32 },
    /// One transfer of a client's in-place write.
    InPlace { slot: u32 },
    /// The record in flight.
    Record,
    /// The copy of its header on the map device.
    Journal,
    /// Zeros over what is left of a record that a power cut tore.
    Torn,
    /// A device flush.
    Flush,
    /// In-place write of staged blocks because no log has room.
    Spill,
    /// Reading logged chunks for a checkpoint.
    CheckpointRead { io: u32 },
    /// Writing them home.
    CheckpointWrite,
    /// Reading a hot log.
    SwapRead { io: u32 },
    /// A piece of a snapshot's body.
    SnapshotBody,
    /// A snapshot's header.
    SnapshotHeader,
    /// The copy of a snapshot's header.
    SnapshotCopy,
    /// The header of the newest snapshot, where the other one of its two is missing.
    LoneHeader,
    /// A block of the blank map, or its header.
    Blanks,
    /// A read of recovery.
    Recovery,
}

/// What sort of command it is, as far as that matters once it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Read,
    Trim,
    Other,
}

/// A command that left or waits to leave.
#[derive(Debug)]
pub(crate) struct InFlight {
    purpose: Purpose,
    class: Class,
    bytes: u64,
    /// First device byte after the transfer (0 for flushes).
    end_offset: u64,
    /// What of the device it is about, for those who tell of it: first byte and length, none for a flush.
    extent: Option<(u64, u64)>,
    /// It leaves with the one before it.
    follows: bool,
    sort: Sort,
    has_left: bool,
    left_at: Nanos,
}

impl InFlight {
    /// Who issued it, and for what.
    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// When it left for the disk; until then when it was issued.
    pub(crate) fn left_at(&self) -> Nanos {
        self.left_at
    }

    /// First byte and length of what it is about; none for a flush.
    pub(crate) fn extent(&self) -> Option<(u64, u64)> {
        self.extent
    }

    /// What it is for, in the words of those who count errors.
    pub(crate) fn work(&self) -> DiskWork {
        match self.purpose {
            Purpose::InPlace { .. } if self.sort == Sort::Trim => DiskWork::Trim,
            Purpose::InPlace { .. } | Purpose::Spill | Purpose::CheckpointWrite => {
                DiskWork::HomeWrite
            }
            Purpose::Record | Purpose::Torn => DiskWork::LogWrite,
            Purpose::Journal
            | Purpose::SnapshotBody
            | Purpose::SnapshotHeader
            | Purpose::SnapshotCopy
            | Purpose::LoneHeader
            | Purpose::Blanks => DiskWork::MapWrite,
            Purpose::Recovery if self.extent.is_none() => DiskWork::Flush,
            Purpose::Flush => DiskWork::Flush,
            Purpose::Read { .. }
            | Purpose::CheckpointRead { .. }
            | Purpose::SwapRead { .. }
            | Purpose::Recovery => DiskWork::Read,
        }
    }

    /// First device byte and length of what it transfers; nothing of a trim or a flush. Not `bytes`, which is what it
    /// counts for: of commands that leave together the first counts for all.
    pub(crate) fn transferred(&self) -> (u64, u64) {
        self.extent.filter(|_| self.end_offset > 0).unwrap_or_default()
    }

    /// Whether it is a transfer of what a client reads, or writes in place: near-head placement stays with
    /// those, not with the engine's own work.
    fn is_for_client(&self) -> bool {
        let of_client = matches!(self.purpose, Purpose::Read { .. } | Purpose::InPlace { .. });
        of_client && self.bytes > 0
    }
}

/// The way to one disk.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    lane: Lane,
    in_flight: Slab<InFlight>,
    waiting: [VecDeque<(u32, Command)>; 4],
    outstanding: Outstanding,
    queue_depth_max: u32,
    /// Where the head is, as far as one can tell from what passes here.
    head: Head,
    now: Nanos,
    leaving: VecDeque<Submission>,
}

const CLASSES: [Class; 4] = [Class::Durable, Class::Foreground, Class::Bulk, Class::Background];

fn transfer(command: &Command) -> (u64, u64) {
    match command {
        Command::Read { offset, len } => (u64::from(*len), offset + u64::from(*len)),
        Command::Write { offset, parts, .. } => {
            let len = nearhead_disk::total_len(parts) as u64;
            (len, offset + len)
        }
        Command::WriteZeroes { offset, len, .. } => (*len, offset + len),
        Command::Trim { .. } | Command::Flush => (0, 0),
    }
}

fn extent(command: &Command) -> Option<(u64, u64)> {
    match command {
        Command::Read { offset, len } => Some((*offset, u64::from(*len))),
        Command::Write { offset, parts, .. } => {
            Some((*offset, nearhead_disk::total_len(parts) as u64))
        }
        Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
            Some((*offset, *len))
        }
        Command::Flush => None,
    }
}

impl InFlight {
    fn new(purpose: Purpose, class: Class, command: &Command, now: Nanos) -> Self {
        let (bytes, end_offset) = transfer(command);
        Self {
            purpose,
            class,
            bytes,
            end_offset,
            extent: extent(command),
            sort: match command {
                Command::Read { .. } => Sort::Read,
                Command::Trim { .. } => Sort::Trim,
                Command::Write { .. } | Command::WriteZeroes { .. } | Command::Flush => Sort::Other,
            },
            has_left: false,
            left_at: now,
            follows: false,
        }
    }
}

impl Dispatcher {
    pub(crate) fn new(lane: Lane, properties: &Properties) -> Self {
        Self {
            lane,
            in_flight: Slab::new(),
            waiting: std::array::from_fn(|_| VecDeque::new()),
            outstanding: Outstanding::default(),
            queue_depth_max: u32::from(properties.queue_depth_max),
            head: Head::new(properties),
            now: Nanos::ZERO,
            leaving: VecDeque::new(),
        }
    }

    /// What time it is for everything that follows.
    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Device byte where the head will be for a command that leaves now, as far as a host can know.
    pub(crate) fn head_offset(&self) -> u64 {
        self.head.position(self.now)
    }

    /// Whether nothing is on the disk or on its way there.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// When each command on the disk left, and what it is for.
    pub(crate) fn on_disk(&self) -> impl Iterator<Item = (Nanos, DiskWork)> + '_ {
        let left = self.in_flight.iter().filter(|command| command.has_left);
        left.map(|command| (command.left_at, command.work()))
    }

    /// Whether anything left that is not answered.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.outstanding.commands_total() > 0
    }

    /// How long `done` took, and whether it moved the arm, as far as one can tell.
    pub(crate) fn took(&self, done: &InFlight) -> (Nanos, bool) {
        let took = self.now.since(done.left_at);
        let from_memory = done.sort == Sort::Read && self.head.is_from_memory(took);
        (took, done.bytes > 0 && !from_memory)
    }

    /// Issues a command; it leaves when admitted.
    pub(crate) fn issue(
        &mut self,
        admission: &dyn Admission,
        class: Class,
        purpose: Purpose,
        command: Command,
    ) {
        let new = InFlight::new(purpose, class, &command, self.now);
        let bytes = new.bytes;
        let id = self.in_flight.insert(new);
        let is_first = self.waiting[class as usize].is_empty();
        if is_first && self.may_leave(admission, class, bytes, Nanos::ZERO) {
            self.leave(id, class, bytes, command);
        } else {
            self.waiting[class as usize].push_back((id, command));
        }
    }

    /// Issues commands of which all leave as soon as the first is admitted and the disk's queue has
    /// room. They count as one piece: a disk that has them works on them piece by piece anyway.
    pub(crate) fn issue_together(
        &mut self,
        admission: &dyn Admission,
        class: Class,
        purpose: Purpose,
        commands: Vec<Command>,
    ) {
        let mut bytes = u64::from(admission.piece_bytes());
        for command in commands {
            let new = InFlight::new(purpose, class, &command, self.now);
            let id = self.in_flight.insert(InFlight { bytes, follows: bytes == 0, ..new });
            self.waiting[class as usize].push_back((id, command));
            bytes = 0;
        }
        self.pump(admission);
    }

    /// Says how much background work matters now; what may go then goes.
    pub(crate) fn set_pace(&mut self, admission: &dyn Admission, pace: Pace) {
        if self.outstanding.pace != pace {
            self.outstanding.pace = pace;
            self.pump(admission);
        }
    }

    fn may_leave(
        &self,
        admission: &dyn Admission,
        class: Class,
        bytes: u64,
        waited: Nanos,
    ) -> bool {
        self.outstanding.commands_total() < self.queue_depth_max
            && admission.admits(class, bytes, waited, &self.outstanding)
    }

    fn leave(&mut self, id: u32, class: Class, bytes: u64, command: Command) {
        self.outstanding.add(class, bytes);
        if let Some(leaving) = self.in_flight.get_mut(id) {
            leaving.left_at = self.now;
            leaving.has_left = true;
        }
        if let Some(leaving) = self.in_flight.get(id).filter(|leaving| leaving.is_for_client()) {
            let writes = matches!(leaving.purpose, Purpose::InPlace { .. });
            self.head.left(id, leaving.end_offset, writes, self.now);
        }
        let ticket = Ticket::new(command_id(self.lane, id));
        self.leaving.push_back(Submission { ticket, class, command });
    }

    /// A command completed; says what it was for. `None` for an unknown id.
    pub(crate) fn complete(&mut self, admission: &dyn Admission, id: u32) -> Option<InFlight> {
        let done = self.in_flight.remove(id)?;
        self.outstanding.remove(done.class, done.bytes);
        if done.is_for_client() {
            self.head.completed(id, done.end_offset, done.bytes, self.now);
        }
        self.pump(admission);
        Some(done)
    }

    fn pump(&mut self, admission: &dyn Admission) {
        for class in CLASSES {
            while let Some((id, _)) = self.waiting[class as usize].front() {
                let (bytes, follows, since) = self
                    .in_flight
                    .get(*id)
                    .map_or((0, false, self.now), |of| (of.bytes, of.follows, of.left_at));
                let has_room = self.outstanding.commands_total() < self.queue_depth_max;
                let may_leave = (follows && has_room)
                    || self.may_leave(admission, class, bytes, self.now.since(since));
                if !may_leave {
                    break;
                }
                if let Some((id, command)) = self.waiting[class as usize].pop_front() {
                    self.leave(id, class, bytes, command);
                }
            }
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Submission> {
        self.leaving.pop_front()
    }

    /// Commands issued and not completed.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }
}

/// An engine that is dropped in the middle (a crash in a test, a fatal error) never sends what had
/// not left yet.
impl Drop for Dispatcher {
    fn drop(&mut self) {
        for submission in self.leaving.drain(..) {
            submission.ticket.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::DurableFirst;
    use nearhead_disk::Payload;

    const POLICY: DurableFirst = DurableFirst {
        piece_bytes: 128 << 10,
        bulk_bytes_max: 256 << 10,
        bulk_wait_max: Nanos::from_millis(50),
        background_commands_max: 1,
    };

    /// Records follow each other without a pause, each 10 ms, while one large read waits; says how many there were when it left.
    #[test]
    fn a_large_read_leaves_beside_records_that_never_pause_once_it_has_waited_long_enough() {
        let properties =
            Properties { queue_depth_max: 32, ..Properties::plain("disk", 1 << 30, 512) };
        let mut queue = Dispatcher::new(Lane::MAIN, &properties);
        let record =
            || Command::Write { offset: 0, parts: vec![Payload::Zeros(4096)], durable: true };
        queue.issue(&POLICY, Class::Durable, Purpose::Record, record());
        let read = Command::Read { offset: 1 << 20, len: 128 << 10 };
        queue.issue(&POLICY, Class::Bulk, Purpose::Read { slot: 0, io: 0 }, read);
        for round in 1..20 {
            queue.set_now(Nanos::from_millis(10 * round));
            let left: Vec<Submission> = std::iter::from_fn(|| queue.poll()).collect();
            let has_bulk = left.iter().any(|left| left.class == Class::Bulk);
            assert_eq!(has_bulk, round == 6, "in round {round}");
            let durable = left.iter().find(|left| left.class == Class::Durable);
            let done = durable.map(|left| left.ticket.id().0 as u32);
            for left in left {
                left.ticket.abandon();
            }
            // The next one is there before the one on the disk is done.
            queue.issue(&POLICY, Class::Durable, Purpose::Record, record());
            if let Some(id) = done {
                queue.complete(&POLICY, id);
            }
            if has_bulk {
                return;
            }
        }
        panic!("it never left");
    }

    #[test]
    fn what_a_command_transfers_is_not_what_it_counts_for() {
        let parts = vec![Payload::Zeros(4096)];
        let write = Command::Write { offset: 0, parts, durable: false };
        let (class, purpose) = (Class::Background, Purpose::CheckpointWrite);
        let transferred = |command, bytes| {
            let alone = InFlight::new(purpose, class, command, Nanos::ZERO);
            InFlight { bytes, ..alone }.transferred()
        };
        // The first of several that leave together, and another of them.
        assert_eq!([transferred(&write, 1 << 20), transferred(&write, 0)], [(0, 4096); 2]);
        assert_eq!(transferred(&Command::Trim { offset: 8192, len: 512 }, 0), (0, 0));
        assert_eq!(transferred(&Command::Flush, 0), (0, 0));
    }
}
