//! One replica: a volume on a modelled disk, whichever kind that is.

use super::{Begins, Checkpoints, DAY_S};
use crate::dataless::volume_with;
use crate::disks::{Made, Modelled, OnDisk};
use nearhead_disk::Nanos;
use nearhead_engine::{Policies, Stats};
use nearhead_service::Service;
use nearhead_volume::Volume;
use nearhead_volume::create::CreateOptions;

/// A volume, as far as those that it is a replica of are concerned.
pub(super) trait Replica: Service {
    /// Whether a checkpoint that can wait is due, or runs on a permit.
    fn wants_permit(&self) -> bool;
    /// It may run, or not.
    fn set_permit(&mut self, is_held: bool, now: Nanos);
    /// Whether blocks go home.
    fn is_checkpointing(&self) -> bool;
    /// What it counted since it was made.
    fn stats(&self) -> Stats;
}

impl<D: Modelled> Replica for Volume<D> {
    fn wants_permit(&self) -> bool {
        self.engine().wants_checkpoint_permit()
    }

    fn set_permit(&mut self, is_held: bool, now: Nanos) {
        self.set_checkpoint_permit(is_held, now);
    }

    fn is_checkpointing(&self) -> bool {
        self.engine().is_checkpointing()
    }

    fn stats(&self) -> Stats {
        self.status().stats
    }
}

/// Makes one.
pub(super) struct Build<'a> {
    /// Instead of the preset's.
    pub(super) policies: Option<&'a dyn Policies>,
    pub(super) options: CreateOptions,
    pub(super) checkpoints: Checkpoints,
    /// By how much its checkpoints are later, or rarer, than the others'.
    pub(super) later: Nanos,
    /// By how much rarer it writes down its map.
    pub(super) snapshots_later: Nanos,
    pub(super) second_of_day: u32,
}

impl OnDisk for Build<'_> {
    type Outcome = Box<dyn Replica>;

    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Self::Outcome, String> {
        let volume = volume_with(disks, &self.options, |config| {
            let cleaning = &mut config.cleaning;
            cleaning.coordinated = self.checkpoints.permits.is_some();
            config.second_of_day_at_zero = self.second_of_day;
            config.snapshot_period += self.snapshots_later;
            match self.checkpoints.begins {
                Begins::Period(period) => cleaning.period = Some(period + self.later),
                Begins::Window(start, end) => {
                    let later = |second: u32| {
                        ((u64::from(second) + self.later.0 / 1_000_000_000) % u64::from(DAY_S))
                            as u32
                    };
                    cleaning.window = Some((later(start), later(end)));
                }
            }
            if let Some(policies) = self.policies {
                policies.configure(config);
            }
        })?;
        Ok(Box::new(volume))
    }
}
