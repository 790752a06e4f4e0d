//! Adaptive: small writes into the record, bulk in place (adaptive journaling, Manylogs IV-A).

use crate::mode::{Mode, Placement};

/// The mode.
#[derive(Debug)]
pub(crate) struct Adaptive;

/// What adaptive journaling does with data, wherever its log is.
pub(super) fn by_size(run_bytes: u64, small_bytes_max: u64) -> Placement {
    if run_bytes <= small_bytes_max { Placement::Record } else { Placement::InPlace }
}

impl Mode for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn about(&self) -> &'static str {
        "small data and metadata to one fixed log, bulk in place"
    }

    fn data(&self, run_bytes: u64, small_bytes_max: u64) -> Placement {
        by_size(run_bytes, small_bytes_max)
    }

    fn is_near_head(&self) -> bool {
        false
    }
}
