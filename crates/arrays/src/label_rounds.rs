//! The labels of a mirror that is used: when a round of them begins, and what follows once one is written.
//!
//! The invariants are those of `keeper`, which has the labels themselves.

use super::Core;
use super::keeper::{Keeper, Standing, unrecorded};
use super::leaving::Leaving;
use super::mirror::Copies;
use super::parts::Parts;
use nearhead_disk::{Disk, DiskError, Payload};

impl Copies {
    pub(super) fn labels_change<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        if let Some(keeper) = &mut self.keeper {
            keeper.changed();
        }
        self.tell_labels(core);
    }

    /// Lets the labels say what changed, unless nothing may change. Not while a member that counts is being made
    /// like another: cut in the middle of that it would be torn, and could be the one to go by from then on.
    pub(super) fn tell_labels<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        let is_labelled = self.keeper.as_ref().is_none_or(Keeper::has_told);
        if is_labelled || self.only_looks || self.repairs(core) {
            return;
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.advance(core, &self.standings);
        }
    }

    /// The write of a label is over.
    pub(super) fn label_written<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        member: usize,
        result: Result<Payload, DiskError>,
    ) {
        if let Err(error) = result {
            let others = self.counting().any(|other| other != member);
            if others || !self.standings[member].counts() {
                self.give_up(core, member, error.detail);
            } else {
                let held = self.keeper.as_mut().map(Keeper::fail).unwrap_or_default();
                self.leaving = Leaving::No;
                let unmarked = std::mem::take(&mut self.unmarked);
                for id in held.into_iter().chain(unmarked.into_iter().map(|(id, ..)| id)) {
                    core.desk.finish(id, |_| Err(unrecorded(&error)));
                }
                return;
            }
        }
        let repairs = self.repairs(core);
        let Some(keeper) = &mut self.keeper else { return };
        let answered = keeper.written(core, &self.standings, repairs);
        for (index, standing) in self.standings.iter_mut().enumerate() {
            if *standing == Standing::Joining && keeper.has_told_of(index) {
                *standing = Standing::InSync;
            }
        }
        for id in answered {
            core.desk.finish(id, |parts| Ok(parts.into_answer()));
        }
    }
}
