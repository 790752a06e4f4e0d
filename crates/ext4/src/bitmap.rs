//! Bits of a block: set, clear, count, and runs of zeros.
//!
//! Bit n is bit n % 8 of byte n / 8. Callers keep ranges within the block.

use nearhead_basics::little_endian::u64_at;

pub(crate) fn is_set(bytes: &[u8], bit: u32) -> bool {
    bytes[bit as usize / 8] & (1 << (bit % 8)) != 0
}

/// Sets or clears `first..end`.
pub(crate) fn fill(bytes: &mut [u8], first: u32, end: u32, is_set: bool) {
    let mut bit = first;
    while bit < end {
        if bit.is_multiple_of(8) && end - bit >= 8 {
            let whole = (end - bit) / 8;
            let at = bit as usize / 8;
            bytes[at..at + whole as usize].fill(if is_set { 0xFF } else { 0 });
            bit += whole * 8;
        } else {
            let mask = 1 << (bit % 8);
            let byte = &mut bytes[bit as usize / 8];
            *byte = if is_set { *byte | mask } else { *byte & !mask };
            bit += 1;
        }
    }
}

/// Zeros among the first `bits`.
pub(crate) fn count_zeros(bytes: &[u8], bits: u32) -> u32 {
    let words = bits / 64;
    let mut zeros: u32 = (0..words as usize).map(|nth| u64_at(bytes, nth * 8).count_zeros()).sum();
    zeros += (words * 64..bits).filter(|bit| !is_set(bytes, *bit)).count() as u32;
    zeros
}

/// The first bit from `from` on, below `end`, that is as `wanted`.
pub(crate) fn next(bytes: &[u8], from: u32, end: u32, wanted: bool) -> Option<u32> {
    let mut bit = from;
    while bit < end {
        let word = u64_at(bytes, bit as usize / 64 * 8);
        let word = if wanted { word } else { !word } >> (bit % 64);
        if word != 0 {
            let found = bit + word.trailing_zeros();
            return (found < end).then_some(found);
        }
        bit = (bit / 64 + 1) * 64;
    }
    None
}

/// Whether all of `first..end` is as `wanted`.
pub(crate) fn is_all(bytes: &[u8], first: u32, end: u32, wanted: bool) -> bool {
    next(bytes, first, end, !wanted).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

    #[test]
    fn bits_are_a_list_of_truths() {
        let mut random = SplitMix::new(3);
        let mut bytes = [0; 64];
        let mut list = [false; 512];
        for _ in 0..2000 {
            let first = random.below(513) as u32;
            let end = first + random.below(u64::from(513 - first)) as u32;
            let wanted = random.coin();
            match random.below(3) {
                0 => {
                    fill(&mut bytes, first, end, wanted);
                    list[first as usize..end as usize].fill(wanted);
                }
                1 => {
                    let found = (first..end).find(|bit| list[*bit as usize] == wanted);
                    assert_eq!(next(&bytes, first, end, wanted), found);
                }
                _ => {
                    let zeros = list[..end as usize].iter().filter(|bit| !**bit).count();
                    assert_eq!(count_zeros(&bytes, end), zeros as u32);
                }
            }
        }
        assert!((0..512).all(|bit| is_set(&bytes, bit) == list[bit as usize]));
    }
}
