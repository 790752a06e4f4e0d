//! Commands on their way to the disk: who asked, in which order they leave, what is outstanding.
//!
//! Keeps true: never more outstanding than the disk's queue takes, classes leave in the order the
//! admission policy allows, commands of one class in the order they were issued, and every
//! completion finds its purpose exactly once.

use crate::admission::{Admission, Outstanding, Pace};
use crate::slab::Slab;
use nearhead_disk::{Class, Command, CommandId, Submission, Ticket};
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
    /// A read of recovery.
    Recovery,
}

/// A command that left or waits to leave.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) purpose: Purpose,
    pub(crate) class: Class,
    pub(crate) bytes: u64,
    /// First device byte after the transfer (0 for flushes).
    pub(crate) end_offset: u64,
    /// It leaves with the one before it.
    follows: bool,
}

/// The way to the disk.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    in_flight: Slab<InFlight>,
    waiting: [VecDeque<(u32, Command)>; 4],
    outstanding: Outstanding,
    queue_depth_max: u32,
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

impl Dispatcher {
    pub(crate) fn new(queue_depth_max: u16) -> Self {
        Self {
            in_flight: Slab::new(),
            waiting: std::array::from_fn(|_| VecDeque::new()),
            outstanding: Outstanding::default(),
            queue_depth_max: u32::from(queue_depth_max),
            leaving: VecDeque::new(),
        }
    }

    /// Issues a command; it leaves when admitted.
    pub(crate) fn issue(
        &mut self,
        admission: &dyn Admission,
        class: Class,
        purpose: Purpose,
        command: Command,
    ) {
        let (bytes, end_offset) = transfer(&command);
        let id =
            self.in_flight.insert(InFlight { purpose, class, bytes, end_offset, follows: false });
        if self.waiting[class as usize].is_empty() && self.may_leave(admission, class, bytes) {
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
            let end_offset = transfer(&command).1;
            let follows = bytes == 0;
            let id = self.in_flight.insert(InFlight { purpose, class, bytes, end_offset, follows });
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

    fn may_leave(&self, admission: &dyn Admission, class: Class, bytes: u64) -> bool {
        self.outstanding.commands_total() < self.queue_depth_max
            && admission.admits(class, bytes, &self.outstanding)
    }

    fn leave(&mut self, id: u32, class: Class, bytes: u64, command: Command) {
        self.outstanding.add(class, bytes);
        let ticket = Ticket::new(CommandId(u64::from(id)));
        self.leaving.push_back(Submission { ticket, class, command });
    }

    /// A command completed; says what it was for. `None` for an unknown id.
    pub(crate) fn complete(
        &mut self,
        admission: &dyn Admission,
        id: CommandId,
    ) -> Option<InFlight> {
        let done = self.in_flight.remove(u32::try_from(id.0).ok()?)?;
        self.outstanding.remove(done.class, done.bytes);
        self.pump(admission);
        Some(done)
    }

    fn pump(&mut self, admission: &dyn Admission) {
        for class in CLASSES {
            while let Some((id, _)) = self.waiting[class as usize].front() {
                let (bytes, follows) = self
                    .in_flight
                    .get(*id)
                    .map_or((0, false), |waiting| (waiting.bytes, waiting.follows));
                let has_room = self.outstanding.commands_total() < self.queue_depth_max;
                let may_leave = (follows && has_room) || self.may_leave(admission, class, bytes);
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
