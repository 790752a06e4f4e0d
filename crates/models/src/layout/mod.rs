//! Layouts that a profile spells out: zones with spares and defects, or an extracted index tree.
//!
//! Both end as a [`RunMap`], a list of evenly spaced tracks; only this module knows how a drive
//! skips its defects. Nothing here knows the files such layouts were read from.

mod remaps;
mod runs;
mod spares;
mod tree;
mod zoned;

pub use remaps::TreeRemap;
pub use runs::RunMap;
pub use tree::{Origins, TreeRow, TreeSpec};
pub use zoned::{SpareScheme, SurfaceOrder, ZonedSpec, ZonedZone};

/// A stretch of a layout that holds consecutive logical blocks on consecutive physical sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// First physical sector, counted from the start of the zone or the disk.
    pub(crate) physical: u64,
    /// Sectors.
    pub(crate) sectors: u64,
}
