//! Little-endian integers at fixed offsets.
//!
//! For codecs: offsets are constants of a format and callers have checked the length, so an index that is out of bounds
//! is a bug of the codec, never of its input. Nothing here may be given an offset that was read from somewhere.

/// The `u16` at `at`.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// The `u32` at `at`.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// The `u64` at `at`.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// The `N` bytes at `at`.
#[inline]
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Stores `value`, already in little-endian bytes, at `at`.
#[inline]
pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_with_its_lowest_byte_first() {
        let mut bytes = [0; 16];
        put(&mut bytes, 1, &0x0102_u16.to_le_bytes());
        put(&mut bytes, 3, &0x0304_0506_u32.to_le_bytes());
        put(&mut bytes, 7, &0x0708_090a_0b0c_0d0e_u64.to_le_bytes());
        assert_eq!(bytes, [0, 2, 1, 6, 5, 4, 3, 14, 13, 12, 11, 10, 9, 8, 7, 0]);
        assert_eq!((u16_at(&bytes, 1), u32_at(&bytes, 3)), (0x0102, 0x0304_0506));
        assert_eq!(u64_at(&bytes, 7), 0x0708_090a_0b0c_0d0e);
        assert_eq!(array_at(&bytes, 14), [7, 0]);
    }
}
