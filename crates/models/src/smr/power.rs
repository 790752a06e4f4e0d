//! Cutting the power of a shingled disk.
//!
//! Each physical sector of every write that is not on the medium is left either old or new, in
//! order of arrival. The map of the persistent cache is kept with its log, and a band that was being
//! rewritten is whole, in its place or in the scratch band: it counts as not cleaned yet.

use super::SmrModel;
use crate::model::{Model, Report};
use crate::pending::tear_parts;
use crate::tear::SectorSizes;
use nearhead_basics::SplitMix;
use nearhead_disk::{DiskError, Nanos};

impl SmrModel {
    /// Forgets every command without an answer.
    pub(super) fn abandon_commands(&mut self) {
        self.desk.abandon();
        self.finishing.clear();
        self.flushes.clear();
        self.parts_waiting.clear();
        self.purposes.clear();
        self.appends.clear();
        self.pieces.clear();
        self.volatile_bytes = 0;
        self.lost = None;
        self.starved = false;
        self.job = None;
    }
}

impl Model for SmrModel {
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        self.advance(now);
        let physical = u64::from(self.properties.physical_sector_bytes);
        let sizes = SectorSizes { logical: self.sector_bytes(), physical };
        let mut result = Ok(());
        for piece in std::mem::take(&mut self.pieces).into_values() {
            let (at, parts) = (piece.host.start, &piece.parts);
            result = result.and(tear_parts(&mut *self.store, sizes, at, parts, random));
        }
        self.abandon_commands();
        self.last_activity = self.time;
        self.stats.power_cuts += 1;
        result.and(self.parts.power_cut(self.time, random))
    }

    fn report(&self) -> Report {
        Report::Shingled(Box::new(self.stats()))
    }

    fn reset_report(&mut self) {
        self.reset_stats();
    }
}
