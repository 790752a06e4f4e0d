//! The checksums of ext4: CRC-32C without the final inversion, and CRC-16 for group descriptors of older images.
//!
//! Which bytes count and what stands before them is the documented layout (kernel documentation, "ext4 Data Structures and
//! Algorithms", chapter Checksums). Nothing here knows where a checksum is stored.

/// How an image protects its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    /// Not at all.
    None,
    /// `uninit_bg`: group descriptors alone, by CRC-16.
    Descriptors,
    /// `metadata_csum`: everything, by CRC-32C.
    All,
}

/// CRC-32C of `bytes`, going on from `seed`; neither inverted at the start nor at the end.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// CRC-16 (polynomial 0x8005, reflected) of `bytes`, going on from `seed`.
pub(crate) fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| (crc >> 1) ^ (0xA001 * (crc & 1)))
    })
}

/// The seed of everything that belongs to one inode.
pub(crate) fn inode_seed(seed: u32, ino: u32, generation: u32) -> u32 {
    crc32c(crc32c(seed, &ino.to_le_bytes()), &generation.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_are_those_that_the_standards_publish() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
        assert_eq!(crc16(0, b"123456789"), 0xBB3D);
        assert_eq!(crc32c(crc32c(7, b"1234"), b"56789"), crc32c(7, b"123456789"));
    }
}
