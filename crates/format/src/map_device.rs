//! The header of a map device: a small fast device or file that holds the map's snapshots and a
//! journal of record headers (the papers' capacitor-backed RAM, Manylogs III-E).
//!
//! It says which volume it belongs to and where its parts are. The header of version 1 is written once, at creation. One of version 2
//! also has the device's [generation](crate::generation), and is written again whenever that is raised: its 512 bytes, checksum
//! included, are at byte 0 and at byte 2048, so that a power cut leaves one of them.
//!
//! ```text
//! 0        8    12    16          32       48      56      64      72      80      88           96    508  512        2048
//! | magic  | ver| zeros | volume id | map id | slot 0 | slot 1 | bytes | journal | bytes | generation | zeros | crc | zeros | the same
//! ```

use crate::block::{SEALED_BYTES, SealError, check_rest_zero, check_zero, open, seal};
use crate::bytes::FieldError;
use crate::crc::crc32c;
use crate::{Slots, VolumeId};
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};

/// The first eight bytes.
pub const MAP_DEVICE_MAGIC: [u8; 8] = *b"NHMAPDEV";
/// Version of a header without a generation.
pub const MAP_DEVICE_VERSION: u32 = 1;
/// Version of one with a generation.
pub const MAP_DEVICE_VERSION_GENERATION: u32 = 2;
/// Where the two copies of such a header begin.
pub const MAP_DEVICE_COPIES: [usize; 2] = [0, 2048];
/// Size of each: the smallest sector.
pub const MAP_DEVICE_COPY_BYTES: usize = 512;
/// Smallest map device, in bytes.
pub const MAP_DEVICE_BYTES_MIN: u64 = 4 << 20;
/// Unit of the journal: each entry starts at and is padded to a multiple of it.
pub const JOURNAL_BLOCK_BYTES: u64 = 4096;
/// Largest journal; recovery reads all of it.
const JOURNAL_BYTES_MAX: u64 = 16 << 20;
const USED_BYTES: usize = 88;
const COPY_CRC_AT: usize = MAP_DEVICE_COPY_BYTES - 4;

/// Where the parts of a map device are, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapDevice {
    /// The volume whose map it holds.
    pub volume_id: VolumeId,
    /// Names the device; the volume's superblock says it too.
    pub map_device_id: VolumeId,
    /// The two snapshot slots.
    pub slot_offsets: [u64; 2],
    /// Size of each.
    pub slot_bytes: u64,
    /// The journal.
    pub journal_offset: u64,
    /// Its size.
    pub journal_bytes: u64,
    /// Generation of the device; 0 of one that never had one.
    pub generation: u64,
}

impl MapDevice {
    /// Both slots.
    pub fn slots(&self) -> Slots {
        Slots { offsets: self.slot_offsets, bytes: self.slot_bytes }
    }

    /// Lays out a device of `device_bytes`: a quarter for the journal (at most 16 MiB), the rest
    /// for the two slots. `None` if it is smaller than [`MAP_DEVICE_BYTES_MIN`].
    pub fn plan(device_bytes: u64, volume_id: VolumeId, map_device_id: VolumeId) -> Option<Self> {
        if device_bytes < MAP_DEVICE_BYTES_MIN {
            return None;
        }
        let whole = |bytes: u64| bytes / JOURNAL_BLOCK_BYTES * JOURNAL_BLOCK_BYTES;
        let journal_bytes = whole((device_bytes / 4).min(JOURNAL_BYTES_MAX));
        let first = SEALED_BYTES as u64;
        let slot_bytes = whole((device_bytes - first - journal_bytes) / 2);
        Some(Self {
            volume_id,
            map_device_id,
            slot_offsets: [first, first + slot_bytes],
            slot_bytes,
            journal_offset: first + 2 * slot_bytes,
            journal_bytes,
            generation: 0,
        })
    }

    /// The header's 4096 bytes.
    pub fn encode(&self) -> [u8; SEALED_BYTES] {
        let mut block = [0; SEALED_BYTES];
        if self.generation > 0 {
            let copy = self.copy();
            for at in MAP_DEVICE_COPIES {
                put(&mut block, at, &copy);
            }
            return block;
        }
        self.put_fields(&mut block, MAP_DEVICE_VERSION);
        seal(&mut block);
        block
    }

    /// A copy of the header with its generation.
    fn copy(&self) -> [u8; MAP_DEVICE_COPY_BYTES] {
        let mut copy = [0; MAP_DEVICE_COPY_BYTES];
        self.put_fields(&mut copy, MAP_DEVICE_VERSION_GENERATION);
        put(&mut copy, USED_BYTES, &self.generation.to_le_bytes());
        let crc = crc32c(&copy[..COPY_CRC_AT]);
        put(&mut copy, COPY_CRC_AT, &crc.to_le_bytes());
        copy
    }

    fn put_fields(&self, block: &mut [u8], version: u32) {
        put(block, 0, &MAP_DEVICE_MAGIC);
        put(block, 8, &version.to_le_bytes());
        put(block, 16, &self.volume_id);
        put(block, 32, &self.map_device_id);
        put(block, 48, &self.slot_offsets[0].to_le_bytes());
        put(block, 56, &self.slot_offsets[1].to_le_bytes());
        put(block, 64, &self.slot_bytes.to_le_bytes());
        put(block, 72, &self.journal_offset.to_le_bytes());
        put(block, 80, &self.journal_bytes.to_le_bytes());
    }

    fn fields(block: &[u8]) -> Self {
        Self {
            volume_id: array_at(block, 16),
            map_device_id: array_at(block, 32),
            slot_offsets: [u64_at(block, 48), u64_at(block, 56)],
            slot_bytes: u64_at(block, 64),
            journal_offset: u64_at(block, 72),
            journal_bytes: u64_at(block, 80),
            generation: 0,
        }
    }

    /// A copy of the header with a generation, if it is sound; an error of one that no program writes.
    fn decode_copy(copy: &[u8]) -> Option<Self> {
        let is_ours = copy.starts_with(&MAP_DEVICE_MAGIC)
            && u32_at(copy, 8) == MAP_DEVICE_VERSION_GENERATION
            && u32_at(copy, COPY_CRC_AT) == crc32c(&copy[..COPY_CRC_AT]);
        let found =
            is_ours.then(|| Self { generation: u64_at(copy, USED_BYTES), ..Self::fields(copy) })?;
        (found.generation > 0 && found.copy()[..] == *copy).then_some(found)
    }

    /// Reads the header of a device of `device_bytes`, trusting nothing.
    pub fn decode(bytes: &[u8], device_bytes: u64) -> Result<Self, FieldError> {
        let copies = MAP_DEVICE_COPIES.map(|at| {
            let copy = bytes
                .get(at..at + MAP_DEVICE_COPY_BYTES)
                .filter(|_| bytes.len() >= SEALED_BYTES)?;
            Self::decode_copy(copy)
        });
        if let Some(newest) = copies.into_iter().flatten().max_by_key(|copy| copy.generation) {
            newest.check(device_bytes)?;
            return Ok(newest);
        }
        let block = open(bytes, MAP_DEVICE_MAGIC).map_err(|error| seal_field(&error))?;
        let version = u32_at(block, 8);
        if version != MAP_DEVICE_VERSION {
            return Err(FieldError::new("map device version", MAP_DEVICE_VERSION, version));
        }
        let found = Self::fields(block);
        check_zero("reserved", &block[12..16])?;
        check_rest_zero(block, USED_BYTES)?;
        found.check(device_bytes)?;
        Ok(found)
    }

    /// The parts must follow each other, whole, inside the device.
    fn check(&self, device_bytes: u64) -> Result<(), FieldError> {
        let ends = |offset: u64, bytes: u64| offset.checked_add(bytes);
        let sound = self.slot_offsets[0] == SEALED_BYTES as u64
            && self.slot_bytes > 2 * SEALED_BYTES as u64
            && ends(self.slot_offsets[0], self.slot_bytes) == Some(self.slot_offsets[1])
            && ends(self.slot_offsets[1], self.slot_bytes) == Some(self.journal_offset)
            && ends(self.journal_offset, self.journal_bytes).is_some_and(|end| end <= device_bytes)
            && self.journal_bytes >= 64 * JOURNAL_BLOCK_BYTES
            && self.journal_bytes <= JOURNAL_BYTES_MAX
            && self.slot_bytes.is_multiple_of(JOURNAL_BLOCK_BYTES)
            && self.journal_bytes.is_multiple_of(JOURNAL_BLOCK_BYTES);
        if sound {
            return Ok(());
        }
        let expected = format_args!("parts that fit {device_bytes} bytes").to_string();
        Err(FieldError::new("map device layout", expected, format_args!("{self:?}")))
    }
}

fn seal_field(error: &SealError) -> FieldError {
    match error {
        SealError::Length { found } => FieldError::new("map device header", 4096, found),
        SealError::Magic { found } => {
            FieldError::new("map device magic", "\"NHMAPDEV\"", format_args!("bytes {found:02x?}"))
        }
        SealError::Checksum { expected, found } => FieldError::new(
            "map device checksum",
            format_args!("{expected:#010x}"),
            format_args!("{found:#010x}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::for_every_bit_flip;

    const DEVICE_BYTES: u64 = 64 << 20;

    fn header() -> MapDevice {
        MapDevice::plan(DEVICE_BYTES, [1; 16], [2; 16]).unwrap()
    }

    #[test]
    fn every_bit_flip_and_truncation_is_detected() {
        let bytes = header().encode();
        assert_eq!(MapDevice::decode(&bytes, DEVICE_BYTES), Ok(header()));
        for_every_bit_flip(&bytes, |mutant, bit| {
            assert!(MapDevice::decode(mutant, DEVICE_BYTES).is_err(), "bit {bit}");
        });
        for len in 0..bytes.len() {
            assert!(MapDevice::decode(&bytes[..len], DEVICE_BYTES).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_header_with_a_generation_survives_the_loss_of_either_copy() {
        let newer = MapDevice { generation: 9, ..header() };
        let (old, new) = (MapDevice { generation: 8, ..header() }.encode(), newer.encode());
        assert_eq!(MapDevice::decode(&new, DEVICE_BYTES), Ok(newer));
        for_every_bit_flip(&new[..MAP_DEVICE_COPY_BYTES], |mutant, bit| {
            for (one, other) in [(0, 2048), (2048, 0)] {
                let mut block = old;
                block[one..one + 512].copy_from_slice(mutant);
                let found = MapDevice::decode(&block, DEVICE_BYTES).unwrap();
                assert_eq!(found.generation, 8, "bit {bit}");
                block[other..other + 512].copy_from_slice(&new[..512]);
                assert_eq!(MapDevice::decode(&block, DEVICE_BYTES), Ok(newer), "bit {bit}");
            }
        });
    }

    #[test]
    fn a_header_without_a_generation_gets_one_whatever_a_power_cut_leaves() {
        let (old, new) = (header().encode(), MapDevice { generation: 1, ..header() }.encode());
        let mut block = old;
        block[2048..2560].copy_from_slice(&new[2048..2560]);
        assert_eq!(MapDevice::decode(&block, DEVICE_BYTES).unwrap().generation, 1);
        block[..512].copy_from_slice(&new[..512]);
        assert_eq!(MapDevice::decode(&block, DEVICE_BYTES).unwrap().generation, 1);
    }

    #[test]
    fn bytes_that_mean_nothing_must_be_zeros() {
        for at in (12..16).chain([USED_BYTES, SEALED_BYTES - 5]) {
            let mut block = header().encode();
            block[at] = 1;
            crate::block::seal(&mut block);
            let told = MapDevice::decode(&block, DEVICE_BYTES).unwrap_err().to_string();
            assert!(told.starts_with("reserved: expected zeros"), "byte {at}: {told}");
        }
    }

    #[test]
    fn parts_never_overlap_nor_reach_past_the_device() {
        for device_bytes in [MAP_DEVICE_BYTES_MIN, (4 << 20) + 12_345, 1 << 30, 1 << 40] {
            let plan = MapDevice::plan(device_bytes, [1; 16], [2; 16]).unwrap();
            assert_eq!(plan.check(device_bytes), Ok(()), "{device_bytes}");
        }
        assert_eq!(MapDevice::plan(MAP_DEVICE_BYTES_MIN - 1, [1; 16], [2; 16]), None);
        assert!(MapDevice::decode(&header().encode(), DEVICE_BYTES - 8192).is_err());
    }

    #[test]
    fn a_part_out_of_its_place_is_refused_whichever_it_is() {
        let sound = header();
        let [first, second] = sound.slot_offsets;
        let shifted = MapDevice {
            slot_offsets: [first + 4096, second + 4096],
            journal_offset: sound.journal_offset + 4096,
            journal_bytes: sound.journal_bytes - 4096,
            ..sound
        };
        let slots_of = |slot_bytes: u64| MapDevice {
            slot_offsets: [first, first + slot_bytes],
            slot_bytes,
            journal_offset: first + 2 * slot_bytes,
            ..sound
        };
        let journal_of = |journal_bytes| MapDevice { journal_bytes, ..slots_of(12288) };
        let wrong = [
            ("the first slot not behind the header", shifted),
            ("slots without room for a body", slots_of(8192)),
            (
                "a gap between the slots",
                MapDevice { slot_offsets: [first, second + 4096], ..shifted },
            ),
            ("a gap before the journal", MapDevice { slot_offsets: [first, second], ..shifted }),
            (
                "a journal past the end",
                MapDevice { journal_bytes: sound.journal_bytes + 4096, ..sound },
            ),
            ("a journal too small", journal_of(63 * JOURNAL_BLOCK_BYTES)),
            ("a journal too large", journal_of(JOURNAL_BYTES_MAX + JOURNAL_BLOCK_BYTES)),
            ("slots of part of a block", slots_of(12288 + 512)),
            ("a journal of part of a block", journal_of(64 * JOURNAL_BLOCK_BYTES + 512)),
            ("no number holds the end", MapDevice { journal_offset: u64::MAX - 8191, ..sound }),
        ];
        for (what, device) in wrong {
            let refused = MapDevice::decode(&device.encode(), DEVICE_BYTES).unwrap_err();
            assert_eq!(refused.name, "map device layout", "{what}: {refused}");
        }
        let least =
            [slots_of(12288), journal_of(64 * JOURNAL_BLOCK_BYTES), journal_of(JOURNAL_BYTES_MAX)];
        for device in least {
            assert_eq!(MapDevice::decode(&device.encode(), DEVICE_BYTES), Ok(device));
        }
    }
}
