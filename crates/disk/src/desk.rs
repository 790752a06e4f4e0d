//! The book of commands that a disk works on in several parts: who waits for what.
//!
//! Used by every disk that is more than one mechanism: flash, shingled, arrays. A command is
//! booked with its ticket and answered once, when all of its parts are done; the first error of a
//! part is its answer. Numbers rise in order of arrival, whatever they are given to, so that older
//! can be told from newer. What the queue has no room for, or the disk cannot do, is answered at
//! the gate and never booked.

use crate::limits::check_command;
use crate::{
    Command, Completion, DiskError, DiskErrorKind, Nanos, PartDone, Payload, Properties, Ticket,
};
use std::collections::{BTreeMap, VecDeque};

/// A command that was not answered.
#[derive(Debug)]
pub struct Booked<K> {
    ticket: Ticket,
    /// Parts not done yet.
    pub left: usize,
    /// The first that went wrong.
    error: Option<DiskError>,
    /// Members that are done with theirs.
    parts: Vec<PartDone>,
    /// What the disk has to know about it.
    pub kind: K,
}

/// The commands of a disk, and the answers that were not fetched.
#[derive(Debug)]
pub struct Desk<K> {
    booked: BTreeMap<u64, Booked<K>>,
    last_number: u64,
    done: VecDeque<Completion>,
    /// Commands answered since counting began.
    pub answered: u64,
    /// Those among them that were answered with an error.
    pub failed: u64,
}

impl<K> Default for Desk<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Desk<K> {
    /// Nothing booked.
    pub fn new() -> Self {
        Self {
            booked: BTreeMap::new(),
            last_number: 0,
            done: VecDeque::new(),
            answered: 0,
            failed: 0,
        }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The one gate: answers what the disk cannot do, and gives back the ticket otherwise.
    pub fn admit(
        &mut self,
        properties: &Properties,
        ticket: Ticket,
        command: &Command,
    ) -> Option<Ticket> {
        let depth = usize::from(properties.queue_depth_max);
        let refused = check_command(properties, command).err().or_else(|| {
            let name = &properties.name;
            (self.booked.len() >= depth).then(|| DiskError {
                kind: DiskErrorKind::Invalid,
                detail: format!("{name}: more than {depth} commands outstanding: wait for some"),
            })
        });
        let Some(error) = refused else { return Some(ticket) };
        self.answer(ticket, Err(error));
        None
    }

    /// Books a command that waits for `left` parts; gives its number.
    pub fn book(&mut self, ticket: Ticket, left: usize, kind: K) -> u64 {
        let id = self.number();
        self.booked.insert(id, Booked { ticket, left, error: None, parts: Vec::new(), kind });
        id
    }

    /// The command booked under `id`, if it was not answered.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Booked<K>> {
        self.booked.get_mut(&id)
    }

    /// A part of a command is done; whether it was the last one.
    pub fn part_done(&mut self, id: u64, error: Option<DiskError>) -> bool {
        let Some(booked) = self.booked.get_mut(&id) else { return false };
        booked.left = booked.left.saturating_sub(1);
        booked.error = booked.error.take().or(error);
        booked.left == 0
    }

    /// A member of an array is done with its part of a command; the same.
    pub fn member_done(&mut self, id: u64, part: PartDone, error: Option<DiskError>) -> bool {
        if let Some(booked) = self.booked.get_mut(&id) {
            booked.parts.push(part);
        }
        self.part_done(id, error)
    }

    /// Answers command `id` with its first error, or else with what `result` makes of it.
    pub fn finish(&mut self, id: u64, result: impl FnOnce(K) -> Result<Payload, DiskError>) {
        let Some(Booked { ticket, error, parts, kind, .. }) = self.booked.remove(&id) else {
            return;
        };
        let result = match error {
            Some(error) => Err(error),
            None => result(kind),
        };
        self.give(ticket.complete_in_parts(result, parts));
    }

    /// Answers a command that was never booked.
    pub fn answer(&mut self, ticket: Ticket, result: Result<Payload, DiskError>) {
        self.give(ticket.complete(result));
    }

    fn give(&mut self, completion: Completion) {
        self.answered += 1;
        self.failed += u64::from(completion.result.is_err());
        self.done.push_back(completion);
    }

    /// What the commands that are booked are.
    pub fn kinds(&self) -> impl Iterator<Item = &K> {
        self.booked.values().map(|booked| &booked.kind)
    }

    /// Commands booked and not answered.
    pub fn outstanding(&self) -> usize {
        self.booked.len()
    }

    /// The oldest answer that was not fetched.
    pub fn fetch(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// Whether an answer can be fetched.
    pub fn has_answers(&self) -> bool {
        !self.done.is_empty()
    }

    /// When to come back: at `now` if there is something to fetch.
    pub fn wake_at(&self, now: Nanos, next: Option<Nanos>) -> Option<Nanos> {
        if self.has_answers() { Some(now) } else { next }
    }

    /// Forgets every command without an answer, and every answer that was not fetched.
    pub fn abandon(&mut self) {
        while let Some((_, booked)) = self.booked.pop_first() {
            booked.ticket.abandon();
        }
        self.done.clear();
    }
}

impl<K> Drop for Desk<K> {
    fn drop(&mut self) {
        self.abandon();
    }
}
