//! The bytes of a write: each sector of each write differs from every other one.
//!
//! A sector that is misplaced, torn or from another write is recognized by its bytes. The bytes
//! depend on the number of the write and on the absolute place alone, never on how it was cut.

use nearhead_basics::SplitMix;

/// Bytes of the smallest unit that a device keeps whole.
pub const SECTOR: u64 = 512;

/// The `len` bytes that write `number` puts at byte `at`.
pub fn bytes(number: u64, at: u64, len: u64) -> Vec<u8> {
    let (first, end) = (at / SECTOR, (at + len).div_ceil(SECTOR));
    let mut all = vec![0; ((end - first) * SECTOR) as usize];
    for (sector, target) in (first..end).zip(all.chunks_exact_mut(SECTOR as usize)) {
        SplitMix::new(number.rotate_left(32) ^ sector).fill(target);
        target[..8].copy_from_slice(&number.to_le_bytes());
        target[8..16].copy_from_slice(&sector.to_le_bytes());
    }
    let from = (at - first * SECTOR) as usize;
    all[from..from + len as usize].to_vec()
}

/// Words for a sector in a message.
pub fn describe(sector: &[u8]) -> String {
    if sector.iter().all(|byte| *byte == 0) {
        return "zeros".to_owned();
    }
    let word = |from: usize| {
        let bytes = sector.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let (number, place) = (word(0), word(8));
    let own = bytes(number, place.wrapping_mul(SECTOR) % (1 << 60), SECTOR);
    if own == sector {
        format!("sector {place} of write #{number}")
    } else {
        format!("bytes of no single write (they begin with {number:#018x})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_does_not_depend_on_where_a_write_is_cut() {
        let whole = bytes(7, 1000, 5000);
        assert_eq!(whole[24..], bytes(7, 1024, 4976));
        assert_ne!(whole, bytes(8, 1000, 5000));
        assert_eq!(describe(&bytes(3, 1024, 512)), "sector 2 of write #3");
        assert_eq!(describe(&[0; 512]), "zeros");
        assert!(describe(&whole[..512]).contains("no single write"));
    }
}
