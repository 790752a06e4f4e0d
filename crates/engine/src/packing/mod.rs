//! How a record is packed: how much of what waits goes into the next one.
//!
//! A policy is told what waits and answers with a bound. The engine takes whole atomic groups in the order in which they
//! came, at least one, and never more than a record holds; what is left waits for the record after it. Taking back, releases,
//! claims and moves go into records without being asked about: laws depend on them.

mod everything;

pub use everything::Everything;

use nearhead_disk::SECTOR_BYTES;
use nearhead_format::record::ITEM_BYTES;
use std::fmt::Debug;

/// What waits: as much of it as one record can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Runs of sectors, each of which is a chunk of a record.
    pub pieces: usize,
    /// Sectors of 512 bytes.
    pub sectors: u64,
}

/// How much of it goes into the next record at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Runs of sectors.
    pub pieces_max: usize,
    /// Sectors of 512 bytes.
    pub sectors_max: u64,
}

/// The policy question *how is it packed?*
pub trait Packing: Debug + Send {
    /// How much of what waits the next record takes. It is asked for each record that takes any.
    fn amount(&mut self, waiting: Waiting) -> Amount;

    /// Whether so many sectors are logged as `runs` runs of new bytes, `bytes` of them in all, rather than as they are, where the volume takes
    /// both. What is logged by bytes must be put together with what lies under it before it goes home, so it has to save at least half.
    fn takes_fragments(&self, sectors: usize, runs: usize, bytes: usize) -> bool {
        2 * (runs * ITEM_BYTES + bytes) <= ITEM_BYTES + sectors * SECTOR_BYTES as usize
    }

    /// Another one of its kind: a configuration is copied, an engine keeps its own.
    fn boxed(&self) -> Box<dyn Packing>;
}

impl Clone for Box<dyn Packing> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}
