//! The mark on a mirror's labels that it is in use, and taking it away in order.
//!
//! Where the power or the program goes while changes are under way, the members may differ. Whoever
//! opens the mirror next knows it from the mark, and makes the members alike again. What stays true:
//! - no member gets a change before the labels say that the mirror is in use, and where a member is away that its regions change
//!   (`missed`);
//! - the mark goes only when every change was answered, every member that counts was flushed after
//!   that, and none of them is unsure.

use super::Core;
use super::copying::Copying;
use super::gate::bytes_of;
use super::keeper::Keeper;
use super::mirror::Copies;
use super::parts::Parts;
use nearhead_disk::{Class, Command, Disk};

/// How far a mirror is that was asked to take its mark away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Nobody asked.
    #[default]
    No,
    /// What is under way must be answered first.
    Asked,
    /// The labels are being written.
    Telling,
    /// There is nothing left to do.
    Left,
}

impl Leaving {
    /// Whether nothing more is begun that a change does not ask for.
    pub(super) fn is_asked(self) -> bool {
        !matches!(self, Self::No)
    }

    pub(super) fn is_under_way(self) -> bool {
        matches!(self, Self::Asked | Self::Telling)
    }
}

impl Copies {
    /// Keeps a change back until the labels say that the mirror is in use, and of its regions that they change if a member
    /// is away; says whether it did.
    pub(super) fn holds_unmarked<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        id: u64,
        class: Class,
        command: &Command,
    ) -> bool {
        let Some(keeper) = &mut self.keeper else { return false };
        let bytes = bytes_of(command).unwrap_or(0..0);
        if keeper.is_marked() && keeper.missed().tells(&bytes) {
            // Before the mark went: whoever asked for that comes back.
            self.leaving = Leaving::No;
            return false;
        }
        keeper.mark(true);
        keeper.expect(&bytes);
        self.leaving = Leaving::No;
        self.unmarked.push_back((id, class, command.clone()));
        self.go_on(core);
        true
    }

    /// Sends what waited for the labels and has them now.
    pub(super) fn release_marked<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        for (id, class, command) in std::mem::take(&mut self.unmarked) {
            let bytes = bytes_of(&command).unwrap_or(0..0);
            let is_labelled = |keeper: &Keeper| keeper.is_marked() && keeper.missed().tells(&bytes);
            if self.keeper.as_ref().is_some_and(is_labelled) {
                self.send_or_hold(core, id, class, command);
                continue;
            }
            // A member may have left since the change came.
            if let Some(keeper) = &mut self.keeper {
                keeper.expect(&bytes);
            }
            self.unmarked.push_back((id, class, command));
        }
    }

    /// Goes on with what was asked for, as far as it can now.
    pub(super) fn go_on_leaving<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        match self.leaving {
            Leaving::Asked => self.begin_leaving(core),
            Leaving::Telling if self.keeper.as_ref().is_none_or(Keeper::has_told) => {
                self.leaving = Leaving::Left;
            }
            _ => {}
        }
    }

    /// Begins to take the mark away, once nothing is under way.
    fn begin_leaving<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        let at_rest = self.copying.as_ref().is_none_or(Copying::is_at_rest);
        if core.desk.outstanding() > 0 || !at_rest {
            return;
        }
        let is_marked = self.keeper.as_ref().is_some_and(Keeper::is_marked);
        if !is_marked || self.any_unsure() {
            self.leaving = Leaving::Left;
            return;
        }
        if let Some(keeper) = &mut self.keeper {
            // Its round flushes every member that counts before it says so.
            keeper.mark(false);
            keeper.advance(core, &self.standings);
        }
        self.leaving = Leaving::Telling;
    }
}
