//! Counters of a shingled disk, for reports only.

use crate::hdd::Stats;
use crate::served::Served;
use serde::Serialize;

/// What a shingled disk did since it was made or reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SmrStats {
    /// What was asked of it.
    #[serde(flatten)]
    pub served: Served,
    /// Pieces of reads that were in the persistent cache.
    pub cached_reads: u64,
    /// Appends to the persistent cache.
    pub appends: u64,
    /// Bytes of them, headers included.
    pub append_bytes: u64,
    /// Bytes written in place: non-shingled, or in a band's order.
    pub direct_bytes: u64,
    /// Bands cleaned or rewritten.
    pub bands_rewritten: u64,
    /// Those among them that a write had to wait for.
    pub bands_forced: u64,
    /// Time from the beginning of each band's rewriting to its end, together, in ns.
    pub band_ns: u64,
    /// Writes that found the persistent cache full.
    pub stalls: u64,
    /// Bytes of the persistent cache in use now.
    pub cache_used_bytes: u64,
    /// Pieces that it holds now.
    pub cache_entries: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// What the moving parts did.
    pub drive: Stats,
}
