//! Helpers of the tests: everything that can happen to bytes on a disk.

use proptest::prelude::*;

/// Calls `check` with `bytes` and each single bit flipped in turn; `check` gets the bit's number.
pub(crate) fn for_every_bit_flip(bytes: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut mutant = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        mutant[bit / 8] ^= 1 << (bit % 8);
        check(&mutant, bit);
        mutant[bit / 8] ^= 1 << (bit % 8);
    }
}

/// The same with one bit of each byte: for what is long.
pub(crate) fn for_every_byte(bytes: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut mutant = bytes.to_vec();
    for at in 0..bytes.len() {
        mutant[at] ^= 1 << (at % 8);
        check(&mutant, at);
        mutant[at] ^= 1 << (at % 8);
    }
}

/// Bytes out of a golden file: hex, any number of lines.
pub(crate) fn golden(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Shows the first difference between two byte strings, far more readable than both in full.
pub(crate) fn assert_same_bytes(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len(), "length");
    let at = found.iter().zip(expected).position(|(left, right)| left != right);
    if let Some(at) = at {
        panic!("byte {at}: expected {:#04x}, found {:#04x}", expected[at], found[at]);
    }
}

/// Up to twelve edits `(where, what)` to be applied to bytes, `where` modulo their length.
pub(crate) fn edits() -> impl Strategy<Value = Vec<(usize, u8)>> {
    // Most fields are at the front, where edits hit them more often than chance would have it.
    let place = prop_oneof![0_usize..160, any::<usize>()];
    let value = prop_oneof![Just(0), Just(0xff), any::<u8>()];
    prop::collection::vec((place, value), 1..12)
}

/// Applies `edits` to `bytes`.
pub(crate) fn apply(edits: &[(usize, u8)], bytes: &mut [u8]) {
    for (place, value) in edits {
        let len = bytes.len();
        bytes[place % len] = *value;
    }
}
