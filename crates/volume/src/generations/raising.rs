//! The generations of an open volume: raised before its first change, and once it was stopped in order.
//!
//! Invariant: no command of the engine that changes a device leaves before every device has the generation of this opening.
//! A write of a raise leaves only where the device's queue has room, so all that the engine sends during a raise is held, reads as
//! well: the engine fills the queue by itself. A volume that changes nothing keeps its generations, so stopping it again writes nothing. A device that does
//! not take its generation keeps the old one, and the volume's own device says so. If that one fails, the changes that wait fail.

use super::{Cause, Generations, LabelWrite, Raise};
use crate::lanes::Lanes;
use nearhead_disk::{
    Class, Command, CommandId, Completion, Disk, DiskError, Lane, Nanos, Submission, Ticket,
};
use std::collections::VecDeque;

/// Numbers of its commands begin here; those of the engine are far below.
const FIRST_ID: u64 = 1 << 62;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was changed since the volume was opened.
    Unchanged,
    /// Raised before the first change.
    Opening,
    /// The devices have the generation of this opening.
    Opened,
    /// Raised after an orderly stop.
    Ending,
    /// The devices were left.
    Left,
}

/// A raise under way.
#[derive(Debug)]
struct UnderWay {
    raise: Raise,
    /// Its writes, by their numbers.
    writes: Vec<LabelWrite>,
    /// Numbers of those that have not left: the queue of their device was full.
    pending: VecDeque<usize>,
    answered: usize,
    failed: Option<DiskError>,
}

impl UnderWay {
    /// Sends those pending writes for which their devices have room; says whether there was one. Each completion of the device
    /// makes room, and is followed by another call.
    fn send<D: Disk>(&mut self, lanes: &mut Lanes<D>, now: Nanos) -> bool {
        let before = self.pending.len();
        for number in std::mem::take(&mut self.pending) {
            let Some(write) = self.writes.get(number) else { continue };
            if !lanes.has_room(write.at.lane) {
                self.pending.push_back(number);
                continue;
            }
            let (ticket, command) =
                (Ticket::new(CommandId(FIRST_ID + number as u64)), write.command());
            let submission = Submission { ticket, class: Class::Durable, command };
            lanes.submit(write.at.lane, submission, now);
        }
        self.pending.len() < before
    }
}

/// The generations of an open volume.
#[derive(Debug)]
pub(crate) struct Raising {
    /// None of a volume whose devices were not read.
    found: Option<Generations>,
    phase: Phase,
    under_way: Option<UnderWay>,
    held: Held,
}

impl Raising {
    /// Starts with the generations of the devices; without them nothing is ever raised.
    pub(crate) fn of(found: Option<Generations>) -> Self {
        Self { found, phase: Phase::Unchanged, under_way: None, held: Held::default() }
    }

    /// The newest generation of a device.
    pub(crate) fn newest(&self) -> u64 {
        self.found.as_ref().map_or(0, Generations::newest)
    }

    /// Whether the next change of a device raises the generation.
    pub(crate) fn may_raise(&self) -> bool {
        matches!(self.phase, Phase::Unchanged | Phase::Opening)
    }

    /// Whether all is done that follows an end of the engine.
    pub(crate) fn has_left(&self) -> bool {
        self.phase == Phase::Left
    }

    /// Keeps a command that changes something, and each one after it, until the devices have their generation; gives back any other.
    pub(crate) fn hold(&mut self, lane: Lane, submission: Submission) -> Option<Submission> {
        let changes = !matches!(submission.command, Command::Read { .. } | Command::Flush);
        let is_of_volume = lane != Lane::CACHE;
        if self.phase == Phase::Unchanged && changes && is_of_volume {
            let raise = self.found.as_ref().map(|found| found.raise(Cause::Opened));
            self.phase = if raise.is_some() { Phase::Opening } else { Phase::Opened };
            self.begin(raise);
        }
        if self.phase == Phase::Opening && is_of_volume {
            self.held.0.push_back((lane, submission));
            return None;
        }
        Some(submission)
    }

    fn begin(&mut self, raise: Option<Raise>) {
        let (writes, pending, answered) = (Vec::new(), VecDeque::new(), 0);
        self.under_way =
            raise.map(|raise| UnderWay { raise, writes, pending, answered, failed: None });
    }

    /// The engine has ended, in order if all of the volume is durable. The first call counts.
    pub(crate) fn end<D: Disk>(&mut self, lanes: &mut Lanes<D>, stopped: Option<Cause>) {
        if matches!(self.phase, Phase::Ending | Phase::Left) || self.under_way.is_some() {
            return;
        }
        let cause = stopped.filter(|_| self.phase == Phase::Opened);
        let several = self.found.as_ref().filter(|found| found.are_several());
        let raise = cause.and_then(|cause| Some(several?.raise(cause)));
        self.phase = if raise.is_some() { Phase::Ending } else { Phase::Left };
        if self.phase == Phase::Left {
            lanes.leave();
        }
        self.begin(raise);
    }

    /// Keeps an answer to one of its own commands; gives back any other.
    pub(crate) fn take_own(&mut self, completion: Completion) -> Option<Completion> {
        let Some(UnderWay { raise, writes, answered, failed, .. }) = &mut self.under_way else {
            return Some(completion);
        };
        let number = completion.id.0.checked_sub(FIRST_ID);
        let write = number.and_then(|number| writes.get(usize::try_from(number).ok()?));
        let Some(write) = write else { return Some(completion) };
        *answered += 1;
        if let Err(error) = completion.result
            && let Err(error) = raise.failed(write, error)
        {
            failed.get_or_insert(error);
        }
        None
    }

    /// Goes on as far as it can. Says whether the devices were given something to do; `refused` gets what the engine is answered.
    pub(crate) fn go_on<D: Disk>(
        &mut self,
        lanes: &mut Lanes<D>,
        now: Nanos,
        refused: &mut Vec<Completion>,
    ) -> bool {
        let Some(under_way) = &mut self.under_way else { return false };
        if under_way.answered < under_way.writes.len() {
            return under_way.send(lanes, now);
        }
        if let Some(next) = under_way.raise.next_writes().filter(|_| under_way.failed.is_none()) {
            (under_way.pending, under_way.answered) = ((0..next.len()).collect(), 0);
            under_way.writes = next;
            return under_way.send(lanes, now);
        }
        let UnderWay { raise, failed, .. } = under_way;
        match failed.take() {
            None => self.found = Some(raise.clone().done()),
            // Begun again by the next change.
            Some(error) => {
                for (lane, one) in std::mem::take(&mut self.held.0) {
                    if matches!(one.command, Command::Read { .. }) {
                        lanes.submit(lane, one, now);
                    } else {
                        refused.push(one.ticket.complete(Err(error.clone())));
                    }
                }
                self.under_way = None;
                self.phase =
                    if self.phase == Phase::Opening { Phase::Unchanged } else { Phase::Left };
                return false;
            }
        }
        self.under_way = None;
        if self.phase == Phase::Ending {
            self.phase = Phase::Left;
            lanes.leave();
            return false;
        }
        self.phase = Phase::Opened;
        let mut any = false;
        for (lane, submission) in std::mem::take(&mut self.held.0) {
            lanes.submit(lane, submission, now);
            any = true;
        }
        any
    }
}

/// Changes that wait, in order; bounded by what the engine has outstanding.
#[derive(Debug, Default)]
struct Held(VecDeque<(Lane, Submission)>);

impl Drop for Held {
    fn drop(&mut self) {
        for (_, submission) in self.0.drain(..) {
            submission.ticket.abandon();
        }
    }
}
