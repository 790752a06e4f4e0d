//! Manylogs: as adaptive, but the record goes to the log nearest the head (Manylogs IV-B).

use super::adaptive::by_size;
use crate::mode::{Mode, Placement};

/// The mode.
#[derive(Debug)]
pub(crate) struct Manylogs;

impl Mode for Manylogs {
    fn name(&self) -> &'static str {
        "manylogs"
    }

    fn about(&self) -> &'static str {
        "small data and metadata as one record to the log nearest the head, bulk in place"
    }

    fn data(&self, run_bytes: u64, small_bytes_max: u64) -> Placement {
        by_size(run_bytes, small_bytes_max)
    }

    fn is_near_head(&self) -> bool {
        true
    }
}
