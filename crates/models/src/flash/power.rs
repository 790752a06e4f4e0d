//! Cutting the power of a flash disk.
//!
//! Each physical sector of every change that is not in the cells is left either old or new, in
//! order of arrival; a protected cache reaches the cells whole. The mapping table survives: drives keep it by what they write beside each page
//! or by a capacitor. A page that was being programmed is wasted until its block is collected.

use super::FlashModel;
use crate::model::{Model, Report};
use crate::pending::tear_parts;
use crate::tear::SectorSizes;
use nearhead_basics::SplitMix;
use nearhead_disk::{DiskError, Nanos};

impl FlashModel {
    /// Forgets every command without an answer.
    pub(super) fn abandon_commands(&mut self) {
        self.desk.abandon();
        self.events.clear();
        self.changes.clear();
        self.tasks.clear();
        self.waiting_for_mapping.clear();
        self.flushes.clear();
        self.waiting_for_room.clear();
        self.volatile_bytes = 0;
        self.lost = None;
        self.link_free_at = self.time;
        self.stop_dies();
    }
}

impl Model for FlashModel {
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        self.advance(now);
        let physical = u64::from(self.properties.physical_sector_bytes);
        let sizes = SectorSizes { logical: self.sector_bytes(), physical };
        let mut result = self.save_protected();
        for (at, parts) in self.take_unsafe() {
            result = result.and(tear_parts(&mut *self.store, sizes, at, &parts, random));
        }
        self.abandon_commands();
        self.stats.power_cuts += 1;
        result
    }

    fn report(&self) -> Report {
        Report::Flash(self.stats())
    }

    fn reset_report(&mut self) {
        self.reset_stats();
    }
}
