//! Which logs can be cleaned where the map is paged.
//!
//! What is needed of a log is known whole only where all of the map was looked at, which a snapshot does. It is told which logs it is to
//! take note of: those of which least is needed, some of each device, and none that may still get a record. What it found is *offered*, and a
//! log that is not offered cannot be cleaned before the next snapshot.

use super::Logs;
use std::ops::Range;

impl Logs {
    /// The logs of each device that could be cleaned, those of which least is needed first.
    pub(in crate::state) fn cleanable(&self, last_log: u32) -> Vec<Vec<u32>> {
        let may_go = |log: &u32| {
            let is_used = *log == last_log || self.is_claimed_alone(*log) || self.is_held(*log);
            !is_used && self.is_needed(*log) && !self.is_lost(*log)
        };
        let of_device = |device| {
            let mut logs: Vec<u32> = self.touched_in(device).filter(may_go).collect();
            logs.sort_by_key(|log| (self.live_sectors_of(*log), *log));
            logs
        };
        self.by_device().map(of_device).collect()
    }

    /// Whether a recovery reads it because a claim names it.
    fn is_claimed_alone(&self, log: u32) -> bool {
        self.claimed.contains(&log)
    }

    /// Only these can be cleaned from now on.
    pub(in crate::state) fn offer(&mut self, logs: impl Iterator<Item = u32>) {
        self.offered = Some(logs.collect());
    }

    /// What it holds was taken, to be cleaned.
    pub(in crate::state) fn note_taken(&mut self, log: u32) {
        if let Some(offered) = &mut self.offered {
            offered.remove(&log);
        }
    }

    /// The logs in this range that hold something and of which it is known what, so that they can be cleaned: as few as are offered, where
    /// the map is paged.
    pub(crate) fn known_in(&self, range: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        let known = self.offered.as_ref().unwrap_or(&self.present).range(range).copied();
        known.filter(|log| self.is_touched(*log))
    }
}
