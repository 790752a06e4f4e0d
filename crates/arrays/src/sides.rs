//! Which member of a mirror serves a read.
//!
//! Reads that nobody waits for (of class background: cleaning, checkpoints) go to one member, the last of those that have
//! everything, and while any of them is there everybody else's reads go to the other members. So a log is cleaned on one
//! side while clients are served by the other (Gecko, section 4, "decoupled cleaning"). What stays true:
//! - while two members or more have everything, no read that somebody waits for is given to a member that has a
//!   background read yet to answer;
//! - while there are none of these, the other reads are spread as [`ReadPolicy`] says, over all members;
//! - with one member left, it serves all;
//! - the same commands at the same times go to the same members.
//!
//! It never gives a read to a member that lacks anything.

use super::Core;
use super::mirror::{Copies, ReadPolicy};
use super::parts::Parts;
use nearhead_disk::{Class, Disk};

/// Who serves reads, and what of them is under way.
#[derive(Debug)]
pub(super) struct Sides {
    policy: ReadPolicy,
    /// Whether reads that nobody waits for have a member of their own.
    are_apart: bool,
    list: Vec<Side>,
}

/// The reads of one member.
#[derive(Clone, Debug, Default)]
struct Side {
    /// Where its last read ended.
    read_end: u64,
    /// Reads that nobody waits for, given to it and not answered yet.
    background_reads: usize,
}

impl Sides {
    /// Of so many members. Kept apart are the reads of a mirror that knows where its members may differ (`are_known`), or
    /// reads from all of them anyway.
    pub(super) fn new(policy: ReadPolicy, members: usize, are_known: bool) -> Self {
        let are_apart = are_known || policy == ReadPolicy::Balanced;
        Self { policy, are_apart, list: vec![Side::default(); members] }
    }

    /// Whether reads that nobody waits for have a member of their own from now on.
    pub(super) fn keep_apart(&mut self, are_apart: bool) {
        self.are_apart = are_apart;
    }

    /// A member was given a read.
    pub(super) fn note_given(&mut self, member: usize, class: Class, end: u64) {
        let side = &mut self.list[member];
        side.read_end = end;
        side.background_reads += usize::from(class == Class::Background);
    }

    /// It answered one.
    pub(super) fn note_answered(&mut self, member: usize, class: Class) {
        let side = &mut self.list[member];
        let is_background = usize::from(class == Class::Background);
        side.background_reads = side.background_reads.saturating_sub(is_background);
    }

    /// What was under way is no more.
    pub(super) fn forget(&mut self) {
        self.list.iter_mut().for_each(|side| side.background_reads = 0);
    }

    /// Which of these members serves a read at `offset`, of which `load` says how much each has to do.
    fn choose(
        &self,
        candidates: &[usize],
        class: Class,
        offset: u64,
        load: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        if self.are_apart && class == Class::Background {
            return candidates.last().copied();
        }
        let is_quiet = |member: &usize| !self.are_apart || self.list[*member].background_reads == 0;
        let best = |members: &mut dyn Iterator<Item = usize>| match self.policy {
            ReadPolicy::First => members.next(),
            ReadPolicy::Balanced => members.min_by_key(|&member| {
                let gap = self.list[member].read_end.abs_diff(offset);
                (gap != 0, load(member), gap)
            }),
        };
        best(&mut candidates.iter().copied().filter(is_quiet))
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
        let chosen =
            self.sides.choose(&candidates, class, offset, |member| core.members.load(member));
        chosen.or_else(|| self.counting().find(|index| !tried.contains(index)))
    }
}
