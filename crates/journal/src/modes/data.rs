//! Data: everything into the record, whatever its size (data journaling of ext3 and ext4).

use crate::mode::{Mode, Placement};

/// The mode.
#[derive(Debug)]
pub(crate) struct Data;

impl Mode for Data {
    fn name(&self) -> &'static str {
        "data"
    }

    fn about(&self) -> &'static str {
        "data and metadata to one fixed log"
    }

    fn data(&self, _: u64, _: u64) -> Placement {
        Placement::Record
    }

    fn is_near_head(&self) -> bool {
        false
    }
}
