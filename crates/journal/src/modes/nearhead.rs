//! Nearhead: as manylogs, and as wasteless does it, of a block that changed in part the record has the bytes that are new.

use super::adaptive::by_size;
use crate::mode::{Mode, Placement};

/// The mode.
#[derive(Debug)]
pub(crate) struct Nearhead;

impl Mode for Nearhead {
    fn name(&self) -> &'static str {
        "nearhead"
    }

    fn about(&self) -> &'static str {
        "small data and metadata as one record to the log nearest the head, of blocks that changed in part the bytes alone, bulk in place"
    }

    fn data(&self, run_bytes: u64, small_bytes_max: u64) -> Placement {
        by_size(run_bytes, small_bytes_max)
    }

    fn packs_fragments(&self) -> bool {
        true
    }

    fn is_near_head(&self) -> bool {
        true
    }
}
