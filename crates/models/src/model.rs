//! What every modelled disk can do beside being a disk: lose its power, and report on itself.
//!
//! Tools that drive any kind of model (a served bare disk, a simulator) hold a [`Box<dyn Model>`].
//! Nothing here may be used by what stands above a disk to make decisions: no real disk offers it.

use crate::flash::FlashStats;
use crate::hdd::{HddModel, Stats};
use crate::smr::SmrStats;
use nearhead_basics::SplitMix;
use nearhead_disk::{Disk, DiskError, Nanos};
use serde::Serialize;

/// A modelled disk of any kind.
pub trait Model: Disk + Send {
    /// Cuts the power at `now`: what was not safe survives sector by sector as `random` decides,
    /// no command outstanding is ever answered, and the same object is the disk after its restart.
    ///
    /// Errors come from the store that holds the content.
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError>;

    /// What the disk did since it was made or the counters were reset.
    fn report(&self) -> Report;

    /// Starts counting anew.
    fn reset_report(&mut self);
}

/// Counters of a modelled disk, by its kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// A hard disk's.
    HardDisk(Stats),
    /// A shingled disk's.
    Shingled(Box<SmrStats>),
    /// A flash disk's.
    Flash(FlashStats),
    /// Those of the members of an array, in order.
    Array {
        /// One report per member.
        members: Vec<Report>,
        /// Power cuts of the whole.
        power_cuts: u64,
    },
}

impl Report {
    /// How often the power was cut.
    pub fn power_cuts(&self) -> u64 {
        match self {
            Self::HardDisk(stats) => stats.power_cuts,
            Self::Shingled(stats) => stats.power_cuts,
            Self::Flash(stats) => stats.power_cuts,
            Self::Array { power_cuts, .. } => *power_cuts,
        }
    }
}

impl Model for HddModel {
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        Self::power_cut(self, now, random)
    }

    fn report(&self) -> Report {
        Report::HardDisk(self.stats())
    }

    fn reset_report(&mut self) {
        self.reset_stats();
    }
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        (**self).power_cut(now, random)
    }

    fn report(&self) -> Report {
        (**self).report()
    }

    fn reset_report(&mut self) {
        (**self).reset_report();
    }
}
