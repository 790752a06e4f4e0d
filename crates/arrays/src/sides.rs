//! Which member of a mirror serves a read, and when each is given what nobody waits for.
//!
//! Reads of class background (cleaning, checkpoints) go to one member, the last of those that have everything, and the others serve
//! everybody else. Writes of that class have to go to all: while anybody reads they are given to one member after the other. So a log
//! is cleaned on one side while clients are served by the other (Gecko, section 4, "decoupled cleaning"). What stays true:
//! - while two members or more have everything, no read that somebody waits for is given to a member with a background read to
//!   answer, nor to one with a background write to answer if another has nothing of the kind;
//! - while there are none of these, the other reads are spread as [`ReadPolicy`] says, over all members;
//! - with one member left, it serves all;
//! - the same commands at the same times go to the same members.
//!
//! It never gives a read to a member that lacks anything, and a change is answered when every member has it, however it went there.

use super::Core;
use super::gate::bytes_of;
use super::keeper::Standing;
use super::mirror::{Copies, ReadPolicy};
use super::parts::Parts;
use nearhead_disk::{Class, Command, Disk, Nanos};

/// Somebody reads if there was a read within so long: while nobody does, cleaning writes to all members at once.
const READS_GO_ON_FOR: Nanos = Nanos::from_secs(1);

/// Who serves reads, and what of them is under way.
#[derive(Debug)]
pub(super) struct Sides {
    policy: ReadPolicy,
    /// Whether reads that nobody waits for have a member of their own.
    are_apart: bool,
    /// When somebody last asked for a read and waits for it.
    read_at: Option<Nanos>,
    /// One member serves everybody once nothing was written for so long.
    pub(super) rest_after: Option<Nanos>,
    /// When something was last written, or said to be about to.
    pub(super) changed_at: Nanos,
    /// Reads that were to wake members or keep them awake.
    pub(super) waking_reads: u64,
    list: Vec<Side>,
}

/// What one member has to do.
#[derive(Clone, Debug, Default)]
struct Side {
    /// Where its last read ended.
    read_end: u64,
    /// Reads that nobody waits for, given to it and not answered yet.
    background_reads: usize,
    /// The same of changes.
    background_changes: usize,
}

impl Sides {
    /// Of so many members. Kept apart are the reads of a mirror that knows where its members may differ (`are_known`), or
    /// reads from all of them anyway.
    pub(super) fn new(policy: ReadPolicy, members: usize, are_known: bool) -> Self {
        let are_apart = are_known || policy == ReadPolicy::Balanced;
        let list = vec![Side::default(); members];
        let (read_at, rest_after) = (None, None);
        Self {
            policy,
            are_apart,
            read_at,
            rest_after,
            changed_at: Nanos::ZERO,
            waking_reads: 0,
            list,
        }
    }

    /// Whether reads that nobody waits for have a member of their own from now on.
    pub(super) fn keep_apart(&mut self, are_apart: bool) {
        self.are_apart = are_apart;
    }

    /// A member was given a read.
    pub(super) fn note_read(&mut self, member: usize, class: Class, end: u64, now: Nanos) {
        self.list[member].read_end = end;
        if class != Class::Background {
            self.read_at = Some(now);
        }
        self.list[member].background_reads += usize::from(class == Class::Background);
    }

    /// A member was given a change.
    fn note_change(&mut self, member: usize, class: Class) {
        self.list[member].background_changes += usize::from(class == Class::Background);
    }

    /// It answered a read, or a change.
    pub(super) fn note_answered(&mut self, member: usize, class: Class, is_read: bool) {
        let side = &mut self.list[member];
        let count = if is_read { &mut side.background_reads } else { &mut side.background_changes };
        *count = count.saturating_sub(usize::from(class == Class::Background));
    }

    /// Whether members are given changes of this class one after the other.
    fn are_in_turn(&self, class: Class, now: Nanos) -> bool {
        let reads_go_on = self.read_at.is_some_and(|at| now.since(at) < READS_GO_ON_FOR);
        self.are_apart && class == Class::Background && reads_go_on
    }

    /// What was under way is no more.
    pub(super) fn forget(&mut self) {
        for side in &mut self.list {
            (side.background_reads, side.background_changes) = (0, 0);
        }
    }

    /// Which of these members serves a read at `offset`, of which `load` says how much each has to do.
    fn choose(
        &self,
        candidates: &[usize],
        (class, offset, now): (Class, u64, Nanos),
        load: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        if self.is_at_rest(now) {
            return candidates.first().copied();
        }
        if self.are_apart && class == Class::Background {
            return candidates.last().copied();
        }
        let is_free = |member: &usize| !self.are_apart || self.list[*member].background_reads == 0;
        let is_quiet = |member: &usize| {
            !self.are_apart || is_free(member) && self.list[*member].background_changes == 0
        };
        let best = |members: &mut dyn Iterator<Item = usize>| match self.policy {
            ReadPolicy::First => members.next(),
            ReadPolicy::Balanced => members.min_by_key(|&member| {
                let gap = self.list[member].read_end.abs_diff(offset);
                (gap != 0, load(member), gap)
            }),
        };
        best(&mut candidates.iter().copied().filter(is_quiet))
            .or_else(|| best(&mut candidates.iter().copied().filter(is_free)))
            .or_else(|| best(&mut candidates.iter().copied()))
    }
}

impl Copies {
    /// The member for a read at `offset` that the members in `tried` could not serve.
    pub(super) fn reader<D: Disk>(
        &self,
        core: &Core<D, Parts>,
        class: Class,
        offset: u64,
        tried: &[usize],
    ) -> Option<usize> {
        let candidates: Vec<usize> =
            self.in_sync().filter(|index| !tried.contains(index)).collect();
        let chosen = self
            .sides
            .choose(&candidates, (class, offset, core.now), |member| core.members.load(member));
        chosen.or_else(|| self.counting().find(|index| !tried.contains(index)))
    }

    /// Sends a change to every member that gets changes: to all at once, or to one after the other.
    pub(super) fn send_change<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        id: u64,
        class: Class,
        command: &Command,
    ) {
        let is_in = |index: &usize| self.standings[*index] != Standing::Out;
        let mut concerned: Vec<usize> = (0..self.standings.len()).filter(is_in).collect();
        let count = concerned.len();
        self.sides.changed_at = core.now;
        let in_turn = bytes_of(command).is_some() && self.sides.are_in_turn(class, core.now);
        // The last one first: it has the reads of cleaning.
        let others =
            if in_turn { concerned.drain(..count.saturating_sub(1)).collect() } else { Vec::new() };
        if let Some(booked) = core.desk.get_mut(id)
            && let Parts::Change { sent, later, .. } = &mut booked.kind
        {
            *sent = true;
            *later = (!others.is_empty()).then(|| (command.clone(), others));
            booked.left = count;
        }
        for index in concerned {
            self.give_change(core, index, id, class, command.clone());
        }
    }

    /// Gives a change that goes from one member to the next to the next one. Whether there is nobody to wait for.
    pub(super) fn send_later<D: Disk>(&mut self, core: &mut Core<D, Parts>, id: u64) -> bool {
        loop {
            let Some(booked) = core.desk.get_mut(id) else { return false };
            let Parts::Change { class, later: Some((command, members)), .. } = &mut booked.kind
            else {
                return false;
            };
            let (class, command) = (*class, command.clone());
            let Some(next) = members.pop() else { return false };
            // One that was given up meanwhile gets nothing more.
            if self.standings[next] != Standing::Out {
                self.give_change(core, next, id, class, command);
                core.members.kick();
                return false;
            }
            if core.desk.part_done(id, None) {
                return true;
            }
        }
    }

    fn give_change<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        member: usize,
        id: u64,
        class: Class,
        command: Command,
    ) {
        if bytes_of(&command).is_some() {
            self.sides.note_change(member, class);
        }
        core.members.submit(member, id, class, command, core.now);
    }
}
