//! The blank map: which regions of the client's address space hold nothing but zeros at home.
//!
//! It lies in the unused space before the first snapshot slot, at the same place on every volume that has it
//! ([`FEATURE_BLANK_MAP`]): one block that says how large a region is, then a bit for each region, in units of one
//! sector of 512 bytes. A unit has its own number and checksum, so that it is written as a whole or not at all on
//! any disk, and one that is damaged costs what it says of its own regions.
//!
//! A bit that is set is a promise: the home bytes of this region read as zeros, now and after any power cut. A bit
//! that is clear promises nothing. So whatever is damaged, missing or of another volume counts as clear, and must
//! never be taken for a promise.
//!
//! ```text
//! 128 KiB        132 KiB                                                   1 MiB
//! | header 4 KiB | unit 0: 512 B | unit 1 | ... | unit 1783                 | snapshot slot 0 ...
//!                  magic 4, number 4, volume 16, 3840 bits, zeros 4, crc 4
//! ```
//!
//! [`FEATURE_BLANK_MAP`]: crate::superblock::FEATURE_BLANK_MAP

use crate::VolumeId;
use crate::block::{SEALED_BYTES, SealError, check_rest_zero, check_zero, open, seal};
use crate::bytes::FieldError;
use crate::crc::crc32c;
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};

/// Where the header is on the device, in bytes: past the second superblock copy.
pub const BLANK_MAP_OFFSET: u64 = 128 << 10;
/// Where the units begin.
pub const BLANK_UNITS_OFFSET: u64 = BLANK_MAP_OFFSET + SEALED_BYTES as u64;
/// Where their room ends: no slot, log or home of a volume with a blank map begins before it.
pub const BLANK_MAP_END: u64 = 1 << 20;
/// The first eight bytes of the header.
pub const BLANK_MAP_MAGIC: [u8; 8] = *b"NHBLANKS";
/// The first four bytes of a unit.
pub const BLANK_UNIT_MAGIC: [u8; 4] = *b"NHBU";
/// Version of the blank map.
pub const BLANK_MAP_VERSION: u32 = 1;
/// Size of a unit: what every disk writes as a whole.
pub const BLANK_UNIT_BYTES: usize = 512;
/// Words of 64 bits in a unit.
pub const BLANK_UNIT_WORDS: usize = 60;
/// Regions of a unit.
pub const BLANK_UNIT_REGIONS: u64 = BLANK_UNIT_WORDS as u64 * 64;
/// Most units there is room for.
pub const BLANK_UNITS_MAX: u64 = (BLANK_MAP_END - BLANK_UNITS_OFFSET) / BLANK_UNIT_BYTES as u64;
/// Smallest region: one home block.
pub const REGION_BYTES_MIN: u64 = 4096;
/// Largest region.
pub const REGION_BYTES_MAX: u64 = 1 << 40;
/// The smallest region that is chosen unasked.
const REGION_BYTES_DEFAULT_MIN: u64 = 1 << 20;
/// As many regions are chosen unasked at most: 128 KiB of bits.
const REGIONS_DEFAULT_MAX: u64 = 1 << 20;

const HEADER_USED_BYTES: usize = 40;
const BITS_AT: usize = 24;
const BITS_END: usize = BITS_AT + 8 * BLANK_UNIT_WORDS;
const CRC_AT: usize = BLANK_UNIT_BYTES - 4;

const _: () = assert!(BITS_END + 4 == CRC_AT, "four bytes of zeros between bits and checksum");
const _: () = assert!(BLANK_UNITS_MAX == 1784, "as docs/format.md says");
const _: () = assert!(BLANK_UNITS_MAX.is_multiple_of(8), "units are written eight at a time");

/// The bits of one unit: bit `n` of word `w` is region `64 * w + n` of the unit.
pub type UnitBits = [u64; BLANK_UNIT_WORDS];

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlankMapHeader {
    /// The volume.
    pub volume_id: VolumeId,
    /// Size of a region in client bytes: a power of two. Region `n` begins at client byte `n * region_bytes`.
    pub region_bytes: u64,
}

impl BlankMapHeader {
    /// The region size for a volume of `client_bytes`: at least 1 MiB, at most 1 Mi regions.
    pub fn region_bytes_for(client_bytes: u64) -> u64 {
        let wanted = client_bytes.div_ceil(REGIONS_DEFAULT_MAX).max(REGION_BYTES_DEFAULT_MIN);
        wanted.checked_next_power_of_two().unwrap_or(REGION_BYTES_MAX).min(REGION_BYTES_MAX)
    }

    /// Regions of a volume of `client_bytes` that have a bit; behind them nothing is promised.
    pub fn region_count(&self, client_bytes: u64) -> u64 {
        client_bytes.div_ceil(self.region_bytes).min(BLANK_UNITS_MAX * BLANK_UNIT_REGIONS)
    }

    /// The header's 4096 bytes.
    pub fn encode(&self) -> [u8; SEALED_BYTES] {
        let mut block = [0; SEALED_BYTES];
        put(&mut block, 0, &BLANK_MAP_MAGIC);
        put(&mut block, 8, &BLANK_MAP_VERSION.to_le_bytes());
        put(&mut block, 16, &self.volume_id);
        put(&mut block, 32, &self.region_bytes.to_le_bytes());
        seal(&mut block);
        block
    }

    /// Reads the header of the volume `volume_id`, trusting nothing.
    pub fn decode(bytes: &[u8], volume_id: &VolumeId) -> Result<Self, FieldError> {
        let block = open(bytes, BLANK_MAP_MAGIC).map_err(|error| seal_field(&error))?;
        let version = u32_at(block, 8);
        if version != BLANK_MAP_VERSION {
            return Err(FieldError::new("blank map version", BLANK_MAP_VERSION, version));
        }
        let header = Self { volume_id: array_at(block, 16), region_bytes: u64_at(block, 32) };
        check_volume(&header.volume_id, volume_id)?;
        let sizes = REGION_BYTES_MIN..=REGION_BYTES_MAX;
        if !header.region_bytes.is_power_of_two() || !sizes.contains(&header.region_bytes) {
            let expected = "a power of two from 4096 to 2^40";
            return Err(FieldError::new("blank map region_bytes", expected, header.region_bytes));
        }
        check_zero("reserved", &block[12..16])?;
        check_rest_zero(block, HEADER_USED_BYTES)?;
        Ok(header)
    }
}

/// The 512 bytes of unit `index`.
pub fn encode_unit(volume_id: &VolumeId, index: u32, bits: &UnitBits) -> [u8; BLANK_UNIT_BYTES] {
    let mut unit = [0; BLANK_UNIT_BYTES];
    put(&mut unit, 0, &BLANK_UNIT_MAGIC);
    put(&mut unit, 4, &index.to_le_bytes());
    put(&mut unit, 8, volume_id);
    for (word, bits) in bits.iter().enumerate() {
        put(&mut unit, BITS_AT + 8 * word, &bits.to_le_bytes());
    }
    let crc = crc32c(&unit[..CRC_AT]);
    put(&mut unit, CRC_AT, &crc.to_le_bytes());
    unit
}

/// Reads unit `index` of the volume `volume_id`, trusting nothing.
pub fn decode_unit(bytes: &[u8], volume_id: &VolumeId, index: u32) -> Result<UnitBits, FieldError> {
    let Some(unit) = bytes.get(..BLANK_UNIT_BYTES) else {
        return Err(FieldError::new("blank map unit", BLANK_UNIT_BYTES, bytes.len()));
    };
    let magic: [u8; 4] = array_at(unit, 0);
    if magic != BLANK_UNIT_MAGIC {
        let found = format_args!("bytes {magic:02x?}").to_string();
        return Err(FieldError::new("blank map unit magic", "\"NHBU\"", found));
    }
    let (expected, found) = (crc32c(&unit[..CRC_AT]), u32_at(unit, CRC_AT));
    if expected != found {
        let hex = |crc: u32| format!("{crc:08x}");
        return Err(FieldError::new("blank map unit checksum", hex(expected), hex(found)));
    }
    let found = u32_at(unit, 4);
    if found != index {
        return Err(FieldError::new("blank map unit number", index, found));
    }
    check_volume(&array_at(unit, 8), volume_id)?;
    check_zero("reserved", &unit[BITS_END..CRC_AT])?;
    Ok(std::array::from_fn(|word| u64_at(unit, BITS_AT + 8 * word)))
}

fn check_volume(found: &VolumeId, expected: &VolumeId) -> Result<(), FieldError> {
    if found == expected {
        return Ok(());
    }
    let hex = |id: &VolumeId| format!("{:032x}", u128::from_be_bytes(*id));
    Err(FieldError::new("blank map volume_id", hex(expected), hex(found)))
}

fn seal_field(error: &SealError) -> FieldError {
    match error {
        SealError::Length { found } => FieldError::new("blank map header", SEALED_BYTES, found),
        SealError::Magic { found } => {
            FieldError::new("blank map magic", "\"NHBLANKS\"", format_args!("bytes {found:02x?}"))
        }
        SealError::Checksum { expected, found } => FieldError::new(
            "blank map checksum",
            format_args!("{expected:08x}"),
            format_args!("{found:08x}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::{assert_same_bytes, for_every_bit_flip, golden};

    const VOLUME: VolumeId = *b"\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf";

    fn header() -> BlankMapHeader {
        BlankMapHeader { volume_id: VOLUME, region_bytes: 1 << 21 }
    }

    fn bits() -> UnitBits {
        let mut bits = [0; BLANK_UNIT_WORDS];
        bits[0] = 0x8000_0000_0000_0005;
        bits[59] = 0x0102_0304_0506_0708;
        bits
    }

    #[test]
    fn header_and_unit_have_the_bytes_that_an_independent_writer_gives_them() {
        let expected = golden(include_str!("../golden/blank_map_header.hex"));
        assert_same_bytes(&header().encode(), &expected);
        assert_eq!(BlankMapHeader::decode(&expected, &VOLUME), Ok(header()));
        let expected = golden(include_str!("../golden/blank_map_unit.hex"));
        assert_same_bytes(&encode_unit(&VOLUME, 7, &bits()), &expected);
        assert_eq!(decode_unit(&expected, &VOLUME, 7), Ok(bits()));
    }

    #[test]
    fn every_bit_flip_and_truncation_is_detected() {
        for_every_bit_flip(&header().encode(), |mutant, bit| {
            assert!(BlankMapHeader::decode(mutant, &VOLUME).is_err(), "header, bit {bit}");
        });
        let unit = encode_unit(&VOLUME, 7, &bits());
        for_every_bit_flip(&unit, |mutant, bit| {
            assert!(decode_unit(mutant, &VOLUME, 7).is_err(), "unit, bit {bit}");
        });
        for len in 0..BLANK_UNIT_BYTES {
            assert!(decode_unit(&unit[..len], &VOLUME, 7).is_err(), "{len} bytes");
            assert!(BlankMapHeader::decode(&header().encode()[..8 * len], &VOLUME).is_err());
        }
    }

    #[test]
    fn what_belongs_elsewhere_or_means_nothing_is_refused() {
        let unit = encode_unit(&VOLUME, 7, &bits());
        for (volume, index) in [(&VOLUME, 6), (&VOLUME, 8), (&[9; 16], 7)] {
            assert!(decode_unit(&unit, volume, index).is_err(), "unit {index}");
        }
        assert!(BlankMapHeader::decode(&header().encode(), &[9; 16]).is_err());
        for region_bytes in [0, 1, 2048, 4097, 3 << 20, REGION_BYTES_MAX * 2, u64::MAX] {
            let wrong = BlankMapHeader { region_bytes, ..header() };
            let error = BlankMapHeader::decode(&wrong.encode(), &VOLUME).unwrap_err();
            assert_eq!(error.name, "blank map region_bytes", "{region_bytes}");
        }
        for at in (12..16).chain([HEADER_USED_BYTES, SEALED_BYTES - 5]) {
            let mut block = header().encode();
            block[at] = 1;
            seal(&mut block);
            let error = BlankMapHeader::decode(&block, &VOLUME).unwrap_err();
            assert_eq!(error.name, "reserved", "byte {at}");
        }
        let mut unit = unit;
        unit[BITS_END] = 1;
        let crc = crc32c(&unit[..CRC_AT]);
        put(&mut unit, CRC_AT, &crc.to_le_bytes());
        assert_eq!(decode_unit(&unit, &VOLUME, 7).unwrap_err().name, "reserved");
    }

    #[test]
    fn regions_are_at_least_a_mebibyte_and_at_most_a_mebi_of_them() {
        for client_bytes in [0, 1, 50 << 20, 1 << 40, (1 << 40) + 1, 10_000_000_000_000, 1 << 50] {
            let region_bytes = BlankMapHeader::region_bytes_for(client_bytes);
            let header = BlankMapHeader { region_bytes, ..header() };
            assert!(region_bytes.is_power_of_two() && region_bytes >= 1 << 20, "{client_bytes}");
            let count = header.region_count(client_bytes);
            assert!(count <= 1 << 20 && count * region_bytes >= client_bytes, "{client_bytes}");
        }
        assert_eq!(BlankMapHeader::region_bytes_for(1 << 40), 1 << 20);
        assert_eq!(BlankMapHeader::region_bytes_for((1 << 40) + 1), 2 << 20);
    }
}
