//! What goes home without a log: a lone write where no head moves, and staged blocks that no log has room for.
//!
//! A home that cannot be written costs that block alone a rest, never the volume.

mod alone_home;
mod commands;
mod failed_homes;
mod spill;

pub(crate) use failed_homes::FailedHomes;
pub(crate) use spill::SpillEnd;

use crate::core::Core;
use nearhead_disk::Nanos;
use spill::Spill;

/// What is on its way home from the stage, and the homes that failed.
#[derive(Debug, Default)]
pub(crate) struct Home {
    spill: Option<Spill>,
    failed: FailedHomes,
}

impl Home {
    /// Whether staged blocks are on their way home, or what must follow them is.
    pub(crate) fn is_spilling(&self) -> bool {
        self.spill.is_some()
    }

    /// The same: whether the transfers are done.
    pub(crate) fn is_written(&self) -> Option<bool> {
        self.spill.as_ref().map(Spill::is_written)
    }

    /// Homes that could not be written.
    pub(crate) fn failed(&self) -> &FailedHomes {
        &self.failed
    }

    pub(crate) fn failed_mut(&mut self) -> &mut FailedHomes {
        &mut self.failed
    }

    /// How many of `blocks`, from the first on, rest.
    pub(crate) fn resting(&self, blocks: impl Iterator<Item = u64>, now: Nanos) -> usize {
        if self.failed.is_empty() {
            return 0;
        }
        blocks.take_while(|block| self.failed.rests(*block, now)).count()
    }

    /// Notes that there was no space for this block, or that its home failed though it was written alone.
    fn note_missed(&mut self, core: &Core, block: u64, is_short: bool) {
        if is_short {
            self.failed.note_short_of_space(block, core.now());
        } else {
            self.failed.note_failed(block, true, core.now());
        }
    }
}
