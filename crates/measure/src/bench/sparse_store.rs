//! A disk in memory that takes no room for zeros: terabytes of logs whose payload is zero.
//!
//! What was written is read back exactly; only its representation is small.

use nearhead_disk::DiskError;
use nearhead_models::{MemoryStore, Store};

const PAGE_BYTES: u64 = 4096;
const ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];

/// Keeps pages that hold something other than zeros.
#[derive(Default)]
pub(super) struct SparseStore {
    kept: MemoryStore,
}

impl Store for SparseStore {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
        self.kept.read(offset, target)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let step = (PAGE_BYTES - at % PAGE_BYTES).min(rest.len() as u64) as usize;
            let (page, after) = rest.split_at(step);
            if *page == ZEROS[..step] {
                self.kept.zero(at, step as u64)?;
            } else {
                self.kept.write(at, page)?;
            }
            (at, rest) = (at + step as u64, after);
        }
        Ok(())
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), DiskError> {
        self.kept.zero(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_take_no_room_and_replace_what_was_there() {
        let mut store = SparseStore::default();
        store.write(100, &[7; 10_000]).unwrap();
        let full = store.kept.page_bytes();
        store.write(4096, &[0; 4096]).unwrap();
        assert!(store.kept.page_bytes() < full);
        let mut found = vec![1; 10_100];
        store.read(0, &mut found).unwrap();
        let mut expected = vec![0; 100];
        expected.extend([7; 10_000]);
        expected[4096..8192].fill(0);
        assert_eq!(found, expected);
    }
}
