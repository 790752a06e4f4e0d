//! Damage behind the volume's back, for lives that look for detection.
//!
//! One piece of damage in a life: SAFETY.md promises no more. And it is damage of a kind that can be told
//! from the end of what was written: before a crash a few more records follow it, and at rest it comes
//! after a clean stop.

use crate::life::Life;
use crate::restart::Stop;
use crate::steps::Place;
use nearhead_basics::SplitMix;
use nearhead_models::faults::FaultBudget;

/// Records behind a damaged one, so that it is not the last.
const RECORDS_BEHIND: u64 = 4;

impl Life<'_> {
    /// Writes records behind live damage before the volume ends; false if that cannot be done any more,
    /// which ends the life. Writes that find the log full go home without a record: then room is made first.
    pub(crate) fn bury_damage(&mut self) -> Result<bool, String> {
        if self.scenario.budget == FaultBudget::Survive || !self.is_damaged() || self.over {
            return Ok(!self.over);
        }
        self.disarm();
        let newest = self.volume()?.status().record_sequence;
        let mut written = self.write_behind()?;
        if written && !self.is_buried(newest)? {
            written = self.drain()? && self.write_behind()? && self.is_buried(newest)?;
        }
        self.over = !written;
        Ok(written)
    }

    /// Some durable writes; false if they are not all answered, or the volume has failed.
    fn write_behind(&mut self) -> Result<bool, String> {
        for number in 0..RECORDS_BEHIND {
            if !self.settle()? {
                return Ok(false);
            }
            self.write(Place { window: number, start: 32, count: 8 }, true)?;
        }
        Ok(self.settle()? && self.volume()?.engine().failure().is_none())
    }

    /// Whether a record stands behind the damage; once one does, it stays there. When `newest` was the
    /// newest complete one the next may have been on its way, perhaps the damaged one, but no other.
    fn is_buried(&mut self, newest: u64) -> Result<bool, String> {
        let volume = self.volume()?;
        let has_logs = volume.superblock().layout.log_count() > 0;
        self.buried |= !has_logs || volume.status().record_sequence > newest + 1;
        Ok(self.buried)
    }

    /// Stops the volume cleanly, turns bits of the disk over, and starts it again.
    pub(crate) fn damage(&mut self, salt: u64) -> Result<(), String> {
        let detects = self.scenario.budget == FaultBudget::Detect;
        if !detects || self.is_damaged() || self.volume()?.engine().failure().is_some() {
            return Ok(());
        }
        let superblock = self.volume()?.superblock().clone();
        // One piece of damage is enough.
        self.disk.allow_silent(0);
        match self.stop()? {
            Stop::Clean => {}
            // The newest record may be the only place of what was acknowledged.
            Stop::Failed => return self.begin(0),
            Stop::Never => return self.kill(0),
        }
        let mut random = SplitMix::new(salt);
        let layout = &superblock.layout;
        match random.below(4) {
            0 => {
                let copies = layout.superblock_offsets();
                let spared = random.below(3) as usize;
                for copy in (0..3).filter(|copy| *copy != spared) {
                    self.disk.rot_in(copies[copy]..copies[copy] + 512);
                }
            }
            1 => {
                let slot = random.below(2) as usize;
                self.disk.rot_in_slot(layout, slot, random.below(4) as usize);
            }
            _ => self.rot_logs(layout, &mut random),
        }
        // A clean stop's snapshot holds all that was acknowledged.
        (self.damaged, self.buried) = (true, true);
        self.begin(0)
    }

    /// A few sectors of some logs, near where they begin: that is where something is.
    fn rot_logs(&mut self, layout: &nearhead_format::Layout, random: &mut SplitMix) {
        if layout.log_count() == 0 {
            return;
        }
        for _ in 0..=random.below(6) {
            let log = random.below(u64::from(layout.log_count())) as u32;
            let Some(start) = layout.log_offset(log) else { continue };
            let sectors = (256 << 10) / 512;
            let at = start + random.below(sectors) * 512;
            self.disk.rot_in(at..at + 512);
        }
    }
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod tests;
