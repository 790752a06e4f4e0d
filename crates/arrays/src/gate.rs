//! Which commands wait for which while bytes are on their way from one member of a mirror to another.
//!
//! Where members may differ, a read asks all of them, and what it shows is written first to those that hold
//! something else: else it could be gone when the member it was read from fails. What stays true:
//! - a change never overtakes, and is never overtaken by, older bytes on their way to the same place;
//! - what was shown once stays, whichever member fails, unless it is changed.

use super::Core;
use super::copying::Copying;
use super::keeper::Standing;
use super::mirror::Copies;
use super::parts::{Parts, overlap};
use nearhead_disk::{Class, Command, Disk, DiskError, DiskErrorKind, Payload};
use std::collections::VecDeque;
use std::ops::Range;

/// What a member holds, or why it cannot say.
pub(super) type Answer = (usize, Result<Payload, DiskError>);

/// A command that waits, with its number.
pub(super) type Held = (u64, Class, Command);

/// The bytes that a command reads or changes; none for a flush.
pub(super) fn bytes_of(command: &Command) -> Option<Range<u64>> {
    let (offset, len) = match command {
        Command::Write { offset, parts, .. } => (*offset, nearhead_disk::total_len(parts) as u64),
        Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => (*offset, *len),
        Command::Read { offset, len } => (*offset, u64::from(*len)),
        Command::Flush => return None,
    };
    Some(offset..offset + len)
}

/// Whether a change is durable when it is answered.
pub(super) fn is_durable(command: &Command) -> bool {
    matches!(
        command,
        Command::Write { durable: true, .. } | Command::WriteZeroes { durable: true, .. }
    )
}

/// Brings what is shown to a member that holds something else. It is durable at once, for what it replaces is
/// also what a power cut would leave.
pub(super) fn repair_of(offset: u64, bytes: &Payload) -> Command {
    Command::Write { offset, parts: vec![bytes.clone()], durable: true }
}

fn is_the_same(one: &Payload, other: &Payload) -> bool {
    if let (Payload::Bytes(one), Payload::Bytes(other)) = (one, other) {
        return one[..] == other[..];
    }
    let bytes = |payload: &Payload| {
        let mut bytes = vec![0; payload.len()];
        payload.copy_to(&mut bytes);
        bytes
    };
    bytes(one) == bytes(other)
}

impl Copies {
    /// Whether members may differ for no other reason than that the mirror was not left in order.
    pub(super) fn any_unsure(&self) -> bool {
        self.standings.contains(&Standing::Unsure)
    }

    /// Whether members may differ in these bytes.
    pub(super) fn may_differ(&self, bytes: &Range<u64>) -> bool {
        let alike_bytes = self.copying.as_ref().map_or(0, |copying| copying.done_bytes);
        self.any_unsure() && !self.only_looks && bytes.end > alike_bytes
    }

    /// Whether a member that counts is being made like another anywhere.
    pub(super) fn repairs<D: Disk>(&self, core: &Core<D, Parts>) -> bool {
        self.copying.as_ref().is_some_and(Copying::is_repair)
            || self.was_unsure && core.desk.kinds().any(Parts::is_repair)
    }

    /// Sends a command for these bytes, now or when nothing is in its way any more.
    pub(super) fn send_or_hold<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        id: u64,
        class: Class,
        command: Command,
    ) {
        let held = (id, class, command);
        if self.held.is_empty() && !self.must_wait(core, &held) {
            return self.send(core, held);
        }
        self.held.push_back(held);
        self.release_held(core);
    }

    /// Sends what waits and has nothing in its way any more.
    pub(super) fn release_held<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        if self.held.is_empty() {
            return;
        }
        let mut waiting = VecDeque::new();
        while let Some(held) = self.held.pop_front() {
            if self.must_wait(core, &held) {
                waiting.push_back(held);
            } else {
                self.send(core, held);
            }
        }
        self.held = waiting;
        core.members.kick();
    }

    fn must_wait<D: Disk>(&self, core: &Core<D, Parts>, held: &Held) -> bool {
        let Some(bytes) = bytes_of(&held.2) else { return false };
        let moving = self.copying.as_ref().and_then(|copying| copying.moving(core));
        let is_read = matches!(held.2, Command::Read { .. });
        // Of changes of the same bytes whoever sends them takes care.
        let in_the_way = |parts: &Parts| parts.repairs(&bytes) || is_read && parts.changes(&bytes);
        moving.is_some_and(|piece| overlap(&piece, &bytes))
            || self.was_unsure && core.desk.kinds().any(in_the_way)
    }

    fn send<D: Disk>(&mut self, core: &mut Core<D, Parts>, (id, class, command): Held) {
        if !matches!(command, Command::Read { .. }) {
            return self.send_change(core, id, class, &command);
        }
        let members: Vec<usize> = self.counting().collect();
        if let Some(booked) = core.desk.get_mut(id)
            && let Parts::Compare { sent, .. } = &mut booked.kind
        {
            *sent = true;
            booked.left = members.len();
        }
        for index in members {
            core.members.submit(index, id, class, command.clone(), core.now);
        }
    }

    /// Which of the answers counts, and which of the unsure members need it: those that hold something
    /// else, or could not say. An error if nobody could.
    pub(super) fn judge<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        answers: Vec<Answer>,
    ) -> Result<(Payload, Vec<usize>), DiskError> {
        let mut error = None;
        let mut bytes: Vec<(usize, Payload)> = Vec::new();
        let mut silent = Vec::new();
        for (member, answer) in answers {
            match answer {
                Ok(payload) => bytes.push((member, payload)),
                Err(problem) => {
                    if problem.kind == DiskErrorKind::Gone {
                        self.give_up(core, member, problem.detail.clone());
                    } else {
                        self.states[member].unread.get_or_insert(problem.detail.clone());
                        silent.push(member);
                    }
                    error.get_or_insert(problem);
                }
            }
        }
        // The one that is in sync before those that are unsure, and those in their order. One that counts no
        // more since it was asked says nothing.
        bytes.retain(|(member, _)| self.standings[*member].counts());
        while self.any_unsure() && !bytes.is_empty() {
            let first = self.in_sync().next();
            let Some(first) = first.filter(|first| silent.contains(first)) else { break };
            self.fall_behind(core, first);
        }
        bytes.sort_by_key(|(member, _)| (self.standings[*member] != Standing::InSync, *member));
        let Some((_, shown)) = bytes.first().cloned() else {
            let nobody =
                || DiskError { kind: DiskErrorKind::Io, detail: "no member counts".into() };
            return Err(error.unwrap_or_else(nobody));
        };
        let holds = |index: &usize| {
            bytes.iter().any(|(member, held)| member == index && is_the_same(held, &shown))
        };
        let unsure = (0..self.standings.len())
            .filter(|&index| self.standings[index] == Standing::Unsure)
            .filter(|index| !holds(index))
            .collect();
        Ok((shown, unsure))
    }

    /// All members have said what they hold.
    pub(super) fn end_compare<D: Disk>(&mut self, core: &mut Core<D, Parts>, id: u64) {
        let Some(booked) = core.desk.get_mut(id) else { return };
        let Parts::Compare { class, range, answers, .. } = &mut booked.kind else { return };
        let (class, range, answers) = (*class, range.clone(), std::mem::take(answers));
        let (bytes, others) = match self.judge(core, answers) {
            Err(error) => return core.desk.finish(id, |_| Err(error)),
            Ok(judged) => judged,
        };
        let Some(booked) = core.desk.get_mut(id) else { return };
        booked.left = others.len();
        let offset = range.start;
        booked.kind = Parts::Repair {
            is_over: others.is_empty(),
            range,
            bytes: bytes.clone(),
            failed: Vec::new(),
        };
        if others.is_empty() {
            return self.end_repair(core, id);
        }
        for index in others {
            let command = repair_of(offset, &bytes);
            core.members.submit(index, id, class, command, core.now);
        }
        core.members.kick();
    }

    /// Every member has what is shown, or said that it cannot take it.
    pub(super) fn end_repair<D: Disk>(&mut self, core: &mut Core<D, Parts>, id: u64) {
        let Some(booked) = core.desk.get_mut(id) else { return };
        let Parts::Repair { failed, is_over, .. } = &mut booked.kind else { return };
        *is_over = true;
        let failed: Vec<(usize, DiskError)> = std::mem::take(failed);
        for (member, problem) in failed {
            self.give_up(core, member, problem.detail);
        }
        if self.keeper.as_mut().is_some_and(|keeper| keeper.holds(id)) {
            return self.go_on(core);
        }
        core.desk.finish(id, |parts| Ok(parts.into_answer()));
    }
}
