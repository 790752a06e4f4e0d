//! A hash with a fixed key, for a table whose order may show in what it lets go.
//!
//! Keys are places on a disk, many of them in a row, and nobody chooses them to collide: one step of `SplitMix` spreads
//! them. It must never be used for what people outside can name.

use nearhead_basics::SplitMix;
use std::hash::{BuildHasherDefault, Hasher};

/// Builds it.
pub(crate) type FixedState = BuildHasherDefault<FixedHasher>;

/// Of one number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = SplitMix::new(self.0 ^ value).next_u64();
    }
}
