//! Selective: as wasteless for a block whose updates begin with less than a block; where they begin with all of it they go in place
//! (Okeanos, section 3).
//!
//! The first update decides for all that follow until the block is written where it belongs, so that journaling of a block is never
//! turned off halfway.

use crate::mode::{Mode, Placement, Unit};

/// Updates from this size on go in place: those of a whole block, as in the paper.
const WRITE_THRESHOLD_BYTES: u64 = 4096;

/// The mode.
#[derive(Debug)]
pub(crate) struct Selective;

impl Mode for Selective {
    fn name(&self) -> &'static str {
        "selective"
    }

    fn about(&self) -> &'static str {
        "updates of blocks that begin with a part as wasteless, those that begin with a whole block in place"
    }

    fn unit(&self) -> Unit {
        Unit::UpdateSequence
    }

    fn data(&self, first_update_bytes: u64, _: u64) -> Placement {
        if first_update_bytes < WRITE_THRESHOLD_BYTES {
            Placement::Record
        } else {
            Placement::InPlace
        }
    }

    fn packs_fragments(&self) -> bool {
        true
    }

    fn is_near_head(&self) -> bool {
        false
    }
}
