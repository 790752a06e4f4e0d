//! Counters of a flash disk, for reports only.

use crate::served::Served;
use serde::Serialize;

/// What a flash disk did since it was made or reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlashStats {
    /// What was asked of it.
    #[serde(flatten)]
    pub served: Served,
    /// Pages read for the host, or to change a part of them.
    pub page_reads: u64,
    /// Pages programmed for the host.
    pub page_programs: u64,
    /// Translation pages read.
    pub mapping_reads: u64,
    /// Translation pages programmed.
    pub mapping_programs: u64,
    /// Valid pages moved by collecting.
    pub pages_moved: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Writes that found no page to program.
    pub stalls: u64,
    /// Time that dies were at work, together, in ns.
    pub die_busy_ns: u64,
    /// Time that buses were in use, together, in ns.
    pub channel_busy_ns: u64,
    /// Power cuts.
    pub power_cuts: u64,
}

impl FlashStats {
    /// Pages programmed for each one that the host wrote.
    pub fn write_amplification(&self) -> f64 {
        let all = self.page_programs + self.mapping_programs + self.pages_moved;
        all as f64 / self.page_programs.max(1) as f64
    }
}
