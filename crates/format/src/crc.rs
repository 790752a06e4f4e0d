//! CRC32C, the one checksum of the format, and the rule that binds a chunk to its address.
//!
//! CRC32C (Castagnoli, RFC 3720 section 12.1) is what processors compute in hardware and detects
//! every single burst of up to 32 bits. It protects against rot and torn writes, never against an
//! adversary.

/// CRC32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC32C of everything that gave `crc`, followed by `bytes`.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Checksum of a chunk: CRC32C over the home sector of its first byte (8 bytes, little-endian),
/// then its bytes.
///
/// The home address is included so that a chunk read from the wrong place, or written to it, does
/// not verify. The address in the log is not, so that moving a chunk keeps its checksum.
#[inline]
pub fn chunk_crc(home_sector: u64, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&home_sector.to_le_bytes()), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_crc32c() {
        // RFC 3720 appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn appending_gives_the_checksum_of_the_whole() {
        for cut in 0..=9 {
            let (left, right) = b"123456789".split_at(cut);
            assert_eq!(crc32c_append(crc32c(left), right), 0xe306_9283, "cut at {cut}");
        }
    }

    #[test]
    fn every_byte_of_a_chunk_counts_whatever_its_length() {
        for sectors in 1..=8 {
            let mut bytes: Vec<u8> = (0..sectors * 512_usize).map(|at| (at / 7) as u8).collect();
            let whole = chunk_crc(64, &bytes);
            for at in 0..bytes.len() {
                bytes[at] ^= 1 << (at % 8);
                assert_ne!(whole, chunk_crc(64, &bytes), "byte {at} of {sectors} sectors");
                bytes[at] ^= 1 << (at % 8);
            }
        }
    }

    #[test]
    fn a_chunk_at_another_address_does_not_verify() {
        let bytes = [0x5a; 4096];
        let here = chunk_crc(8, &bytes);
        for bit in 0..48 {
            assert_ne!(here, chunk_crc(8 ^ (1 << bit), &bytes), "address bit {bit}");
        }
    }
}
