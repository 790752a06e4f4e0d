//! The generation of a device: how often the volume that it belongs to was opened for writing or stopped in order while the device
//! was part of it.
//!
//! A device whose generation is older than the others expect is a restored copy or was away: it is never served with them. Each device
//! of a volume but a map device has the block twice, in its first mebibyte; a [map device](crate::map_device) has the number in its header.
//!
//! ```text
//! 0        8     12   16          32         40           48       52      56      64               336          512       4096
//! +--------+-----+----+-----------+----------+------------+--------+-------+-------+----------------+------------+---------+
//! | magic  | crc |ver | volume id | sequence | generation | device | flags | zeros | 17 x (from, at)| zeros      | zeros   |
//! +--------+-----+----+-----------+----------+------------+--------+-------+-------+----------------+------------+---------+
//! ```
//!
//! - `crc`: CRC32C of the first 512 bytes without itself. All that is said fits the smallest sector, which a disk writes whole or not.
//! - `sequence`: counts the blocks written to this device; of the two copies the one with the larger counts.
//! - `device`: 0 is the volume's own, 1 to 15 the data devices, log devices or further links by position, 16 the map device.
//! - `from`, `at`: which generations of each device belong to this one. They are the same, unless the volume's own device says that a
//!   raise is under way: then the device has the one or the other, and no write was accepted at the newer one yet.
//! - `flags`: the volume was stopped in order; nothing of it was left in its logs.
//!
//! Nothing here reads or writes a disk.

use crate::VolumeId;
use crate::block::check_zero;
use crate::bytes::FieldError;
use crate::crc::{crc32c, crc32c_append};
use crate::layout::{DATA_DEVICES_MAX, Layout};
use crate::track_table::TRACK_TABLE_OFFSET;
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};
use std::ops::RangeInclusive;

/// The first eight bytes.
pub const GENERATION_MAGIC: [u8; 8] = *b"NHGENRTN";
/// Version of the block.
pub const GENERATION_VERSION: u32 = 1;
/// Where the two copies are, in bytes from the start of the device.
pub const GENERATION_OFFSETS: [u64; 2] = [32 << 10, 80 << 10];
/// Size of a copy.
pub const GENERATION_BYTES: usize = 4096;
/// Devices of a volume: its own, the others, and the map device.
pub const DEVICES_MAX: usize = DATA_DEVICES_MAX + 2;
/// Number of the map device among them.
pub const MAP_DEVICE_NUMBER: usize = DEVICES_MAX - 1;

/// Bytes that the checksum covers: the smallest sector.
const COVERED_BYTES: usize = 512;
const BELONGING_AT: usize = 64;
const USED_BYTES: usize = BELONGING_AT + 16 * DEVICES_MAX;
const STOPPED_IN_ORDER: u32 = 1;
const DRAINED: u32 = 2;

const _: () = assert!(USED_BYTES == 336 && USED_BYTES <= COVERED_BYTES, "all of it in one sector");
const _: () = assert!(
    GENERATION_OFFSETS[1] + GENERATION_BYTES as u64 <= TRACK_TABLE_OFFSET,
    "between superblocks, headers of data devices and track tables"
);

/// Whether the volume's own device has room for the blocks: nothing else of the volume is stored there.
pub fn has_room(layout: &Layout) -> bool {
    let end = GENERATION_OFFSETS[1] + GENERATION_BYTES as u64;
    layout.slot_offsets.iter().chain([&layout.groups_offset]).all(|at| *at >= end)
}

/// What a device says of its generation and of those of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGeneration {
    /// The volume.
    pub volume_id: VolumeId,
    /// Counts the blocks written to this device.
    pub sequence: u64,
    /// Its generation.
    pub generation: u64,
    /// Its number among the volume's devices.
    pub device: u32,
    /// The volume was stopped in order, and was not opened for writing since.
    pub stopped_in_order: bool,
    /// Nothing of it was left in its logs then: all is at its home location.
    pub drained: bool,
    /// Generations of each device that belong to this one; 0 for a device that never had one.
    pub belonging: [RangeInclusive<u64>; DEVICES_MAX],
}

impl DeviceGeneration {
    /// The bytes of a copy.
    pub fn encode(&self) -> [u8; GENERATION_BYTES] {
        let mut block = [0; GENERATION_BYTES];
        put(&mut block, 0, &GENERATION_MAGIC);
        put(&mut block, 12, &GENERATION_VERSION.to_le_bytes());
        put(&mut block, 16, &self.volume_id);
        put(&mut block, 32, &self.sequence.to_le_bytes());
        put(&mut block, 40, &self.generation.to_le_bytes());
        put(&mut block, 48, &self.device.to_le_bytes());
        let in_order = if self.stopped_in_order { STOPPED_IN_ORDER } else { 0 };
        let flags = in_order | if self.drained { DRAINED } else { 0 };
        put(&mut block, 52, &flags.to_le_bytes());
        for (range, at) in self.belonging.iter().zip((BELONGING_AT..).step_by(16)) {
            put(&mut block, at, &range.start().to_le_bytes());
            put(&mut block, at + 8, &range.end().to_le_bytes());
        }
        let crc = checksum(&block);
        put(&mut block, 8, &crc.to_le_bytes());
        block
    }

    /// Reads a copy, trusting nothing.
    pub fn decode(bytes: &[u8]) -> Result<Self, FieldError> {
        let Some(block) = bytes.get(..GENERATION_BYTES) else {
            return Err(FieldError::new("generation block", GENERATION_BYTES, bytes.len()));
        };
        let magic: [u8; 8] = array_at(block, 0);
        if magic != GENERATION_MAGIC {
            let found = format_args!("bytes {magic:02x?}").to_string();
            return Err(FieldError::new("generation magic", "\"NHGENRTN\"", found));
        }
        let (expected, found) = (checksum(block), u32_at(block, 8));
        if expected != found {
            let expected = format_args!("{expected:#010x}").to_string();
            return Err(FieldError::new(
                "generation checksum",
                expected,
                format_args!("{found:#010x}"),
            ));
        }
        let version = u32_at(block, 12);
        if version != GENERATION_VERSION {
            return Err(FieldError::new("generation version", GENERATION_VERSION, version));
        }
        let flags = u32_at(block, 52);
        let belonging = std::array::from_fn(|device| {
            let at = BELONGING_AT + 16 * device;
            u64_at(block, at)..=u64_at(block, at + 8)
        });
        let found = Self {
            volume_id: array_at(block, 16),
            sequence: u64_at(block, 32),
            generation: u64_at(block, 40),
            device: u32_at(block, 48),
            stopped_in_order: flags & STOPPED_IN_ORDER != 0,
            drained: flags & DRAINED != 0,
            belonging,
        };
        check_zero("reserved", &block[56..BELONGING_AT])?;
        check_zero("reserved", &block[USED_BYTES..])?;
        if flags & !(STOPPED_IN_ORDER | DRAINED) != 0 {
            return Err(FieldError::new(
                "generation flags",
                "bits 0 and 1",
                format_args!("{flags:#x}"),
            ));
        }
        found.check()?;
        Ok(found)
    }

    /// A device has one of the numbers there are, and no generation is newer than its own.
    fn check(&self) -> Result<(), FieldError> {
        let own = usize::try_from(self.device).ok().and_then(|own| self.belonging.get(own));
        if self.device as usize == MAP_DEVICE_NUMBER
            || !own.is_some_and(|own| own.contains(&self.generation))
        {
            let found = format_args!("device {} at {}", self.device, self.generation).to_string();
            return Err(FieldError::new(
                "generation device",
                "one of those that it has a generation of",
                found,
            ));
        }
        let is_sound = |range: &RangeInclusive<u64>| {
            range.start() <= range.end() && *range.end() <= self.generation
        };
        match self.belonging.iter().find(|range| !is_sound(range)) {
            None => Ok(()),
            Some(range) => {
                let expected = format_args!("at most {}", self.generation).to_string();
                Err(FieldError::new("generation of a device", expected, format_args!("{range:?}")))
            }
        }
    }
}

fn checksum(block: &[u8]) -> u32 {
    crc32c_append(crc32c(&block[..8]), &block[12..COVERED_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::{assert_same_bytes, for_every_bit_flip, golden};

    fn block() -> DeviceGeneration {
        let mut belonging: [_; DEVICES_MAX] = std::array::from_fn(|_| 0..=0);
        (belonging[0], belonging[2], belonging[16]) = (0x1234..=0x1234, 0x1232..=0x1233, 7..=7);
        DeviceGeneration {
            volume_id: std::array::from_fn(|byte| 0xa0 + byte as u8),
            sequence: 0x55,
            generation: 0x1234,
            device: 0,
            stopped_in_order: true,
            drained: true,
            belonging,
        }
    }

    #[test]
    fn a_generation_block_is_these_bytes_and_is_read_again() {
        let expected = golden(include_str!("../golden/generation.hex"));
        assert_same_bytes(&block().encode(), &expected);
        assert_eq!(DeviceGeneration::decode(&expected), Ok(block()));
        let plain = DeviceGeneration { stopped_in_order: false, drained: false, ..block() };
        assert_eq!(DeviceGeneration::decode(&plain.encode()), Ok(plain));
    }

    #[test]
    fn every_bit_flip_and_truncation_of_a_generation_is_detected() {
        let bytes = block().encode();
        for_every_bit_flip(&bytes, |mutant, bit| {
            assert!(DeviceGeneration::decode(mutant).is_err(), "bit {bit}");
        });
        assert!(DeviceGeneration::decode(&bytes[..GENERATION_BYTES - 1]).is_err());
    }

    #[test]
    fn generations_that_no_volume_has_are_refused() {
        let range = |device: usize, range| {
            let mut belonging = block().belonging;
            belonging[device] = range;
            DeviceGeneration { belonging, ..block() }
        };
        #[expect(clippy::reversed_empty_ranges, reason = "hostile input")]
        let backwards = range(1, 3..=2);
        for wrong in [
            DeviceGeneration { device: 17, ..block() },
            DeviceGeneration { device: 16, ..block() },
            DeviceGeneration { device: 2, ..block() },
            range(1, 1..=0x1235),
            range(0, 3..=4),
            backwards,
        ] {
            assert!(DeviceGeneration::decode(&wrong.encode()).is_err(), "{wrong:?}");
        }
    }
}
