//! A member of a mirror that is being replaced: it counts until its successor does, and is used no more from then on.
//!
//! The two have one number, as `replacing` says, and the successor is copied to as any member that is behind. What stays true:
//! - the old member gets every change, and may be read, until the labels say that its successor has everything and its own one that it
//!   does not count;
//! - no change that the old member misses is answered before the labels of the others have a greater generation than its own;
//! - a successor that fails leaves the old member as it was;
//! - the old member is released only when no command is outstanding on it and all labels are written.

use super::Core;
use super::copying::Target;
use super::keeper::{Keeper, Standing};
use super::mirror::{Copies, Mirror};
use super::parts::Parts;
use nearhead_disk::{Disk, Replacing};

/// A replacement under way, by places among the members that were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Succession {
    /// The member that is replaced; none if it is away, or too old to be of use.
    old: Option<usize>,
    new: usize,
    /// Others may have the member that was replaced.
    is_over: bool,
}

impl<D: Disk> Mirror<D> {
    /// The member at place `new`, if one is named, replaces the one before it that has the same number, or one that is away.
    pub(super) fn replacing(mut self, new: Option<usize>) -> Self {
        let copies = &mut self.arrangement;
        copies.succession = new.map(|new| {
            let twins = copies.keeper.as_mut().and_then(|keeper| {
                keeper.replaces(new);
                keeper.twin_of(new)
            });
            Succession { old: twins, new, is_over: false }
        });
        self
    }
}

impl Copies {
    /// Members that the mirror is made of, given or not.
    pub(super) fn members_made_of(&self) -> usize {
        let count = self.keeper.as_ref().map(Keeper::count);
        count.map_or(self.states.len(), usize::from)
    }

    /// Whether this member replaces another one.
    pub(super) fn replaces_another(&self, member: usize) -> bool {
        self.succession.is_some_and(|succession| succession.new == member)
    }

    /// Whether a member was replaced, and is used no more.
    pub(super) fn has_retired(&self, member: usize) -> bool {
        let Some(Succession { old: Some(old), new, .. }) = self.succession else { return false };
        old == member
            && self.standings[old] == Standing::Out
            && self.standings[new] != Standing::Out
    }

    /// Uses a member no more whose successor has everything, and counts by all labels.
    pub(super) fn retire_replaced<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        let Some(Succession { old: Some(old), new, .. }) = self.succession else { return };
        let is_due = self.standings[new] == Standing::InSync
            && self.standings[old] != Standing::Out
            && self.keeper.as_ref().is_some_and(Keeper::has_told);
        if !is_due || self.only_looks || self.leaving.is_asked() || self.any_unsure() {
            return;
        }
        let Some(keeper) = &mut self.keeper else { return };
        // Its label first: alone, after a cut between two labels, it would be served as it was before.
        if !keeper.has_retired(old) {
            keeper.retires(old);
            return self.tell_labels(core);
        }
        self.standings[old] = Standing::Out;
        self.copying.take_if(|copying| copying.target == Target::Behind(old));
        self.labels_change(core);
    }

    /// Ends a replacement: the member that was replaced is released once it has no command. Returns whether none is left to release.
    pub(super) fn let_go_of_replaced<D: Disk>(&mut self, core: &mut Core<D, Parts>) -> bool {
        let Some(Succession { old, new, is_over }) = &mut self.succession else { return true };
        let are_labels_written = self.keeper.as_ref().is_some_and(Keeper::has_told);
        let is_due = self.standings[*new] == Standing::InSync && are_labels_written;
        let is_used = old.is_some_and(|old| self.standings[old] != Standing::Out);
        if is_due && !is_used && !*is_over {
            *is_over = old.is_none_or(|old| core.members.release(old));
        }
        *is_over || !is_due || is_used
    }

    /// How far a replacement is, if there is one.
    pub(super) fn replacing<D: Disk>(&self, core: &Core<D, Parts>) -> Option<Replacing> {
        let Succession { old, new, .. } =
            self.succession.filter(|succession| !succession.is_over)?;
        let keeper = self.keeper.as_ref()?;
        let size_bytes = keeper.member_bytes();
        let old_counts = old.is_some_and(|old| self.standings[old].counts());
        let is_in = self.standings[new] == Standing::InSync;
        let name = |member: usize| core.members.disk(member).properties().name.clone();
        Some(Replacing {
            old: old.map(name),
            new: name(new),
            size_bytes,
            left_bytes: self.left_bytes(new, size_bytes),
            old_counts,
            is_done: is_in && !old_counts && keeper.has_told(),
            failed: self.states[new].failed.clone(),
        })
    }

    /// A replacement in words, while the successor is copied to.
    pub(super) fn succession_in_words<D: Disk>(&self, core: &Core<D, Parts>) -> Option<String> {
        let Succession { old: Some(old), new, .. } = self.succession? else { return None };
        if !self.standings[old].counts() || self.standings[new] == Standing::Out {
            return None;
        }
        let name = |member: usize| core.members.disk(member).properties().name.as_str();
        Some(format!(
            "{}: {} is being replaced by {}, and counts until that has everything",
            core.properties.name,
            name(old),
            name(new)
        ))
    }
}
