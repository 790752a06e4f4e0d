//! A hash for tables whose keys are numbers of ours: addresses, blocks, pages, slots.
//!
//! It has no seed, so that a run can be repeated exactly, and costs one multiplication, which spreads numbers that follow each other. It
//! must never be used where somebody gains by keys that collide.

use std::hash::{BuildHasherDefault, Hasher};

/// Builds it.
pub type NumberHash = BuildHasherDefault<NumberHasher>;

/// Of one number, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio: consecutive keys land far apart (Knuth, TAOCP 3, 6.4). The high half has the most of it.
        let product = u128::from(number ^ self.0) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    #[test]
    fn numbers_that_follow_each_other_differ_in_the_bits_that_tables_look_at() {
        let hash = |number: u64| NumberHash::default().hash_one(number);
        for step in [1, 8, 4096] {
            let hashes: Vec<u64> = (0..4096).map(|nth| hash(nth * step)).collect();
            let low: BTreeSet<u64> = hashes.iter().map(|hash| hash % 4096).collect();
            let high: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // By chance 2,590 of 4,096 would be met.
            assert!(low.len() > 2_000 && high.len() == 128, "{step}: {} {}", low.len(), high.len());
        }
    }
}
