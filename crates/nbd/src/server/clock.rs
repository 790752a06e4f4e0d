//! The server's clock: nanoseconds since it was made, never going back.

use nearhead_disk::Nanos;
use std::time::Instant;

/// A monotonic clock that starts at zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// A clock that started at `start`, for those whose disk has counted from there already.
    pub fn since(start: Instant) -> Self {
        Self { start }
    }

    /// Time since the start.
    pub fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }
}
