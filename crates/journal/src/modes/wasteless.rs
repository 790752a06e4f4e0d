//! Wasteless: as data, but of a block that changed in part the record has the bytes that are new, those of many blocks and writers in
//! one log block (Okeanos, section 3).

use crate::mode::{Mode, Placement};

/// The mode.
#[derive(Debug)]
pub(crate) struct Wasteless;

impl Mode for Wasteless {
    fn name(&self) -> &'static str {
        "wasteless"
    }

    fn about(&self) -> &'static str {
        "data and metadata to one fixed log, of blocks that changed in part the bytes alone"
    }

    fn data(&self, _: u64, _: u64) -> Placement {
        Placement::Record
    }

    fn packs_fragments(&self) -> bool {
        true
    }

    fn is_near_head(&self) -> bool {
        false
    }
}
