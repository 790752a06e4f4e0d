//! Ordered: data in place first, then the metadata as one record (what ext3 and ext4 do by default).

use crate::mode::{Mode, Placement};

/// The mode.
#[derive(Debug)]
pub(crate) struct Ordered;

impl Mode for Ordered {
    fn name(&self) -> &'static str {
        "ordered"
    }

    fn about(&self) -> &'static str {
        "data in place first, metadata to one fixed log"
    }

    fn data(&self, _: u64, _: u64) -> Placement {
        Placement::InPlace
    }

    fn is_near_head(&self) -> bool {
        false
    }
}
