//! Dies and buses: who works on what, and until when.
//!
//! A die does one thing at a time, and so does a bus. Every operation begins with its command on the
//! bus, which it waits for like any transfer. Reading senses the cells, then waits for the bus again
//! and sends the page, the die waiting with it; programming sends the page with the command. With a
//! page its spare bytes cross the bus, or there would be nothing to correct its errors by. Reads go
//! before programs, and both before collecting, unless a plane is nearly out of free blocks.
//!
//! Dies of a chip work by themselves, as ONFI's multi-LUN operations permit; a controller that gives
//! a chip nothing before all of its dies are idle is slower.

use super::plane::By;
use super::{Event, FlashModel};
use nearhead_disk::Nanos;
use std::collections::VecDeque;

/// What a die is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    ReadMapping {
        page: u64,
    },
    ProgramMapping,
    Read {
        task: u64,
    },
    Program {
        task: u64,
        plane: u32,
    },
    /// Collecting: the host's page, and where it is.
    MoveOut {
        plane: u32,
        page: u32,
        place: u32,
    },
    MoveIn {
        plane: u32,
        page: u32,
        place: u32,
    },
    Erase {
        plane: u32,
        block: u32,
    },
}

/// What a die is doing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub(super) operation: Operation,
    /// The page of the plane being programmed.
    pub(super) target: Option<u32>,
    started_at: Nanos,
}

/// A die and what waits for it. Bounded: by what the host has outstanding, one translation page for
/// each of that, and one step of collecting per plane.
#[derive(Debug, Default)]
pub(super) struct Die {
    pub(super) current: Option<Current>,
    reads: VecDeque<Operation>,
    programs: VecDeque<Operation>,
    collecting: VecDeque<Operation>,
}

/// Times in ns, ready for use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) command: u64,
    pub(super) read: u64,
    pub(super) program: u64,
    pub(super) erase: u64,
    pub(super) page_transfer: u64,
    pub(super) mapping_transfer: u64,
    pub(super) cached: u64,
}

impl FlashModel {
    pub(super) fn queue(&mut self, die: u32, operation: Operation) {
        let waiting = &mut self.dies[die as usize];
        match operation {
            Operation::ReadMapping { .. } | Operation::Read { .. } => {
                waiting.reads.push_back(operation);
            }
            Operation::Program { .. } | Operation::ProgramMapping => {
                waiting.programs.push_back(operation);
            }
            _ => waiting.collecting.push_back(operation),
        }
        self.start_die(die);
    }

    /// Puts a program that found no page back at the head of its queue.
    pub(super) fn queue_first(&mut self, die: u32, operation: Operation) {
        self.dies[die as usize].programs.push_front(operation);
        self.start_die(die);
    }

    /// Gives an idle die something to do, if there is anything.
    fn start_die(&mut self, die: u32) {
        while self.dies[die as usize].current.is_none() {
            let Some(operation) = self.next_operation(die) else { return };
            let target = match operation {
                Operation::Program { plane, .. } => {
                    let Some(place) = self.planes[plane as usize].allocate(By::Host) else {
                        self.stats.stalls += 1;
                        self.blocked[plane as usize].push_back(operation);
                        self.collect(plane);
                        continue;
                    };
                    Some(place)
                }
                Operation::MoveIn { plane, .. } => {
                    self.planes[plane as usize].allocate(By::Collector)
                }
                _ => None,
            };
            self.dies[die as usize].current =
                Some(Current { operation, target, started_at: self.time });
            self.begin(die, operation);
        }
    }

    fn next_operation(&mut self, die: u32) -> Option<Operation> {
        let urgent = match self.dies[die as usize].collecting.front() {
            Some(
                Operation::MoveOut { plane, .. }
                | Operation::MoveIn { plane, .. }
                | Operation::Erase { plane, .. },
            ) => self.planes[*plane as usize].free_blocks() <= self.collect_first_below,
            _ => false,
        };
        let die = &mut self.dies[die as usize];
        if urgent {
            return die.collecting.pop_front();
        }
        let next = die.reads.pop_front().or_else(|| die.programs.pop_front());
        next.or_else(|| die.collecting.pop_front())
    }

    fn begin(&mut self, die: u32, operation: Operation) {
        let times = self.times;
        let now = self.time;
        match operation {
            Operation::ReadMapping { .. } | Operation::Read { .. } | Operation::MoveOut { .. } => {
                let told = self.use_channel(die, now, times.command);
                self.at(told + Nanos(times.read), Event::Sensed(die));
            }
            Operation::ProgramMapping | Operation::Program { .. } | Operation::MoveIn { .. } => {
                let sent = self.use_channel(die, now, times.command + times.page_transfer);
                self.at(sent + Nanos(times.program), Event::DieDone(die));
            }
            Operation::Erase { .. } => {
                let told = self.use_channel(die, now, times.command);
                self.at(told + Nanos(times.erase), Event::DieDone(die));
            }
        }
    }

    /// Takes the bus of a die for so long, from `from` on at the earliest; says until when.
    fn use_channel(&mut self, die: u32, from: Nanos, span_ns: u64) -> Nanos {
        let channel = (die % self.profile.flash.channels) as usize;
        let until = self.channels[channel].max(from) + Nanos(span_ns);
        self.channels[channel] = until;
        self.stats.channel_busy_ns += span_ns;
        until
    }

    /// A die has read its cells: the page goes over the bus.
    pub(super) fn sensed(&mut self, die: u32) {
        let mapping = matches!(
            self.dies[die as usize].current,
            Some(Current { operation: Operation::ReadMapping { .. }, .. })
        );
        let span_ns = if mapping { self.times.mapping_transfer } else { self.times.page_transfer };
        let until = self.use_channel(die, self.time, span_ns);
        self.at(until, Event::DieDone(die));
    }

    /// A die is done with what it did.
    pub(super) fn die_done(&mut self, die: u32) {
        if let Some(current) = self.dies[die as usize].current.take() {
            self.stats.die_busy_ns += self.time.since(current.started_at).0;
            self.operation_done(die, current);
        }
        self.start_die(die);
    }

    /// Forgets everything that dies were to do.
    pub(super) fn stop_dies(&mut self) {
        self.dies.iter_mut().for_each(|die| *die = Die::default());
        self.channels.iter_mut().for_each(|free_at| *free_at = Nanos::ZERO);
        self.planes.iter_mut().for_each(super::plane::Plane::waste_all);
        self.blocked.iter_mut().for_each(VecDeque::clear);
        self.collecting.iter_mut().for_each(|block| *block = None);
    }
}
