//! Which commands wait for which while bytes are on their way from one member of a mirror to another.
//!
//! Where members may differ, a read asks all of them, and what it shows is written first to those that hold
//! something else: else it could be gone when the member it was read from fails. What stays true:
//! - a change never overtakes, and is never overtaken by, older bytes on their way to the same place;
//! - what was shown once stays, whichever member fails, unless it is changed.

use super::Core;
use super::alike::repairs;
use super::copying::Copying;
use super::keeper::Standing;
use super::mirror::Copies;
use super::parts::{Comparing, Parts, overlap};
use nearhead_disk::{Class, Command, Disk, DiskError, DiskErrorKind, Payload, WokenBy};
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
        self.ask_all(core, id);
    }

    /// Asks all members that count what they hold of the part of a comparison that is next.
    fn ask_all<D: Disk>(&mut self, core: &mut Core<D, Parts>, id: u64) {
        let members: Vec<usize> = self.counting().collect();
        let Some(booked) = core.desk.get_mut(id) else { return };
        let Parts::Compare { class, walk, step } = &mut booked.kind else { return };
        *step = Comparing::Answers(Vec::new());
        booked.left = members.len();
        let (class, part) = (*class, walk.part());
        let read = Command::Read { offset: part.start, len: (part.end - part.start) as u32 };
        for index in members {
            core.members.submit(index, id, class, read.clone(), core.now);
        }
        core.members.kick();
    }

    /// Whether any member could not say what it holds of these bytes, but may of fewer: what it cannot read is to be all that
    /// is written over.
    pub(super) fn is_for_less(&mut self, answers: &[Answer]) -> bool {
        let mut silent = answers.iter().filter_map(|(member, answer)| {
            let error = answer.as_ref().err().filter(|error| error.kind != DiskErrorKind::Gone)?;
            self.states[*member].unread.get_or_insert_with(|| error.detail.clone());
            Some(())
        });
        silent.next().is_some()
    }

    /// Which of the answers counts, of bytes from `offset` on, and the writes that the unsure members need: where they hold
    /// something else, or could not say. An error if nobody could.
    pub(super) fn judge<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        offset: u64,
        answers: Vec<Answer>,
    ) -> Result<(Payload, Vec<(usize, Command)>), DiskError> {
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
        let unsure = (0..self.standings.len())
            .filter(|&index| self.standings[index] == Standing::Unsure)
            .flat_map(|index| {
                let held = bytes.iter().find(|(member, _)| *member == index);
                let sector_bytes = core.members.disk(index).properties().sector_bytes;
                let repairs = repairs(offset, &shown, held.map(|(_, held)| held), sector_bytes);
                repairs.into_iter().map(move |repair| (index, repair))
            })
            .collect();
        Ok((shown, unsure))
    }

    /// All members that were asked have answered.
    pub(super) fn go_on_comparing<D: Disk>(&mut self, core: &mut Core<D, Parts>, id: u64) {
        let sector_bytes = core.properties.sector_bytes;
        let Some(booked) = core.desk.get_mut(id) else { return };
        let Parts::Compare { class, walk, step } = &mut booked.kind else { return };
        let answers = match step {
            Comparing::Answers(answers) => std::mem::take(answers),
            Comparing::Repairs(failed) => {
                let failed = std::mem::take(failed);
                return self.end_repair(core, id, failed);
            }
            Comparing::Turn | Comparing::Labels => return,
        };
        if self.is_for_less(&answers) && walk.narrow(sector_bytes) {
            return self.ask_all(core, id);
        }
        let (class, offset) = (*class, walk.part().start);
        let (shown, repairs) = match self.judge(core, offset, answers) {
            Err(error) => return core.desk.finish(id, |_| Err(error)),
            Ok(judged) => judged,
        };
        let Some(booked) = core.desk.get_mut(id) else { return };
        let Parts::Compare { walk, step, .. } = &mut booked.kind else { return };
        walk.show(shown);
        *step = Comparing::Repairs(Vec::new());
        booked.left = repairs.len();
        if repairs.is_empty() {
            return self.end_repair(core, id, Vec::new());
        }
        for (index, repair) in repairs {
            core.members.submit_for(WokenBy::Alike, (index, id, class), repair, core.now);
        }
        core.members.kick();
    }

    /// Every member has what is shown, or is among those that cannot take it.
    fn end_repair<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        id: u64,
        failed: Vec<(usize, DiskError)>,
    ) {
        let Some(booked) = core.desk.get_mut(id) else { return };
        let Parts::Compare { walk, step, .. } = &mut booked.kind else { return };
        *step = Comparing::Labels;
        let is_whole = walk.is_whole();
        for (member, problem) in failed {
            self.give_up(core, member, problem.detail);
        }
        if !is_whole {
            return self.ask_all(core, id);
        }
        if self.keeper.as_mut().is_some_and(|keeper| keeper.holds(id)) {
            return self.go_on(core);
        }
        core.desk.finish(id, |parts| Ok(parts.into_answer()));
    }
}
