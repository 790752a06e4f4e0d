//! `fifo`: everything goes to the disk as it comes, bulk in large pieces; the disk's own queue
//! decides. The behaviour of a block layer without priorities.

use super::{Admission, Outstanding};
use nearhead_disk::{Class, Nanos};

/// First come, first served.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    /// Largest single transfer, in bytes.
    pub piece_bytes: u32,
}

impl Admission for Fifo {
    fn admits(&self, class: Class, _: u64, _: Nanos, outstanding: &Outstanding) -> bool {
        // Nobody waits for background work, so even here it stays a trickle.
        class != Class::Background || outstanding.commands[Class::Background as usize] < 4
    }

    fn piece_bytes(&self) -> u32 {
        self.piece_bytes
    }

    fn boxed(&self) -> Box<dyn Admission> {
        Box::new(*self)
    }
}
