//! How the records since a snapshot are found again: each way of placing them has its way of finding them.
//!
//! A finder is told what a claim, a journal or the layout knows, asks for bytes of the device until it has seen all that
//! may hold a record, and then says what it found. It holds a bounded window of what it reads, writes nothing, and decides
//! nothing: what a missing or damaged record means is decided by the chain ([`super::chain`]).
//!
//! - [`claims`]: each log that the snapshot or a record claims, from there on;
//! - [`whole`]: the same, where records may begin anywhere: each such log whole;
//! - [`journal`]: the map's own journal, which has every header, so that no log is read but where a record may be torn;
//! - [`sweep`]: every log whole, when no snapshot is left.

pub(super) mod claims;
mod found;
pub(super) mod journal;
mod scan;
mod sweep;
mod whole;

use crate::damage::Damage;
pub(super) use claims::ByClaims;
use found::found_at;
pub(super) use found::{Found, Hidden, Remains, ScanContext};
pub(super) use journal::ByJournal;
pub(super) use sweep::BySweep;
pub(super) use whole::ByWholeLogs;

use crate::recovery::careful::Piece;
use nearhead_disk::At;
use std::ops::Range;

/// What a finder found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Records, whole or not, in no order.
    pub(super) records: Vec<Found>,
    /// What is left of records that are not whole, and may be no damage.
    pub(super) remains: Vec<Remains>,
    /// What is damaged.
    pub(super) problems: Vec<Damage>,
    /// Places that cannot be read and where the header of a record may be that is newer than all that was found.
    pub(super) hidden: Vec<Hidden>,
    /// Places where records are missing that stood before newer ones: each of these places had at least one.
    pub(super) passed: usize,
    /// A record names what does not lie on the volume that the superblock describes.
    pub(super) outside: Option<String>,
    /// Device bytes that cannot be read and where a record may be that nobody knows of.
    pub(super) unknown: Vec<Range<u64>>,
    /// Logs that were read.
    pub(super) logs: u32,
}

impl Findings {
    /// Takes a record, unless it names what the volume does not have; says whether it did.
    fn take(&mut self, found: Found) -> bool {
        if found.past_volume.is_some() {
            self.outside = self.outside.take().or(found.past_volume);
            return false;
        }
        self.records.push(found);
        true
    }
}

/// A way to find records.
pub(super) trait Finder: Send {
    /// The bytes to read next, as place and length; `None` once everything was seen.
    fn next_read(&mut self, context: &ScanContext) -> Option<(At, u64)>;

    /// Takes those bytes, with zeros where they could not be read.
    fn take(&mut self, piece: Piece, context: &ScanContext);

    /// What was found, once everything was seen.
    fn findings(self: Box<Self>) -> Findings;
}
