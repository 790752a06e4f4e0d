//! Manylogs' figures 3a and 3b: figures 2a and 2b on four disks as RAID-0.
//!
//! A client that reads or writes in stripes goes at the pace of the slowest disk, so small writes
//! that keep any one disk busy slow down all four. Manylogs lays its logs over the aggregate, which
//! gives each disk a quarter of every log.

use crate::contention::BulkKind;
use crate::error::FigureError;
use crate::fig2::{FIG2A, Setting, report};
use crate::lab::Lab;
use crate::report::Report;

/// Disks of the array (Manylogs V-A).
const DISKS: u32 = 4;

pub(crate) const FIG3A: Setting = Setting { name: "fig3a", disks: DISKS, ..FIG2A };
pub(crate) const FIG3B: Setting = Setting { name: "fig3b", kind: BulkKind::Write, ..FIG3A };

/// Figure 3a.
pub(crate) fn fig3a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG3A, "a sequential reader beside a random writer's syncs, RAID-0 of four")
}

/// Figure 3b.
pub(crate) fn fig3b(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG3B, "a sequential writer beside a random writer's syncs, RAID-0 of four")
}
