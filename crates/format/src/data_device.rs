//! The header of a data device: one of the devices that hold the data of a volume whose own device has the logs.
//!
//! It says which volume the device belongs to and at which position, so that devices are known again in whatever order they are named,
//! and one of another volume, or of an earlier one, is never taken for it. It is written once, when the volume is made, in two copies;
//! beside them are the device's [generation](crate::generation) and a copy of the superblock, and behind them what the volume's address
//! space has of the device ([`crate::layout::DataParts`]).
//!
//! ```text
//! 0              16 KiB         32 KiB         64 KiB         80 KiB         1 MiB
//! | header 4 KiB | | superblock | | generation | | copy 4 KiB | | generation | | the volume's ...         | less than 1 MiB |
//!   magic 8 | version 4 | copy 4 | volume 16 | position 4 | devices 4 | bytes 8 | zeros | crc 4
//! ```

use crate::VolumeId;
use crate::block::{SEALED_BYTES, SealError, check_rest_zero, open, seal};
use crate::bytes::FieldError;
use crate::generation::GENERATION_OFFSETS;
use crate::layout::{DATA_DEVICES_MAX, DATA_PART_ALIGN};
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};

/// The first eight bytes.
pub const DATA_DEVICE_MAGIC: [u8; 8] = *b"NHDATDEV";
/// Version of the header.
pub const DATA_DEVICE_VERSION: u32 = 1;
/// Where the copies are, in bytes from the start of the device.
pub const DATA_DEVICE_COPIES: [u64; 2] = [0, 64 << 10];
/// Where a copy of the volume's superblock is, for the day on which its own device is lost.
pub const DATA_SUPERBLOCK_OFFSET: u64 = 16 << 10;
/// Where the volume's part begins.
pub const DATA_START_BYTES: u64 = 1 << 20;
/// Size of a copy.
pub const DATA_HEADER_BYTES: usize = SEALED_BYTES;

const USED_BYTES: usize = 48;

const _: () = assert!(
    DATA_DEVICE_COPIES[1] + SEALED_BYTES as u64 <= DATA_START_BYTES,
    "no copy lies in the volume's part"
);
const _: () = assert!(
    DATA_SUPERBLOCK_OFFSET >= SEALED_BYTES as u64
        && DATA_SUPERBLOCK_OFFSET + SEALED_BYTES as u64 <= GENERATION_OFFSETS[0],
    "between header and generation"
);

/// What a data device says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataDevice {
    /// The volume whose data it holds.
    pub volume_id: VolumeId,
    /// Its position among the data devices.
    pub position: u32,
    /// How many there are.
    pub devices: u32,
    /// What it adds to the volume's address space.
    pub bytes: u64,
}

impl DataDevice {
    /// What a device of `device_bytes` adds to a volume.
    pub fn part_bytes(device_bytes: u64) -> u64 {
        device_bytes.saturating_sub(DATA_START_BYTES) / DATA_PART_ALIGN * DATA_PART_ALIGN
    }

    /// The 4096 bytes of copy `copy`, 0 or 1.
    pub fn encode(&self, copy: u32) -> [u8; SEALED_BYTES] {
        let mut block = [0; SEALED_BYTES];
        put(&mut block, 0, &DATA_DEVICE_MAGIC);
        put(&mut block, 8, &DATA_DEVICE_VERSION.to_le_bytes());
        put(&mut block, 12, &copy.to_le_bytes());
        put(&mut block, 16, &self.volume_id);
        put(&mut block, 32, &self.position.to_le_bytes());
        put(&mut block, 36, &self.devices.to_le_bytes());
        put(&mut block, 40, &self.bytes.to_le_bytes());
        seal(&mut block);
        block
    }

    /// Reads copy `copy`, trusting nothing.
    pub fn decode(bytes: &[u8], copy: u32) -> Result<Self, FieldError> {
        let block = open(bytes, DATA_DEVICE_MAGIC).map_err(|error| of_seal(&error))?;
        let version = u32_at(block, 8);
        if version != DATA_DEVICE_VERSION {
            return Err(FieldError::new("data device version", DATA_DEVICE_VERSION, version));
        }
        let found_copy = u32_at(block, 12);
        if found_copy != copy {
            return Err(FieldError::new("data device copy", copy, found_copy));
        }
        let found = Self {
            volume_id: array_at(block, 16),
            position: u32_at(block, 32),
            devices: u32_at(block, 36),
            bytes: u64_at(block, 40),
        };
        check_rest_zero(block, USED_BYTES)?;
        let counts = (1..=DATA_DEVICES_MAX as u32).contains(&found.devices);
        if !counts || found.position >= found.devices {
            let expected =
                format_args!("a position below 1 to {DATA_DEVICES_MAX} devices").to_string();
            let told = format_args!("position {} of {}", found.position, found.devices).to_string();
            return Err(FieldError::new("data device position", expected, told));
        }
        Ok(found)
    }
}

fn of_seal(error: &SealError) -> FieldError {
    match error {
        SealError::Length { found } => FieldError::new("data device header", 4096, found),
        SealError::Magic { found } => {
            FieldError::new("data device magic", "\"NHDATDEV\"", format_args!("bytes {found:02x?}"))
        }
        SealError::Checksum { expected, found } => FieldError::new(
            "data device checksum",
            format_args!("{expected:#010x}"),
            format_args!("{found:#010x}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::{assert_same_bytes, for_every_bit_flip, golden};

    fn header() -> DataDevice {
        let volume_id = std::array::from_fn(|byte| 0xa0 + byte as u8);
        DataDevice { volume_id, position: 1, devices: 3, bytes: 5 << 30 }
    }

    #[test]
    fn a_header_is_these_bytes_and_is_read_again() {
        let expected = golden(include_str!("../golden/data_device.hex"));
        assert_same_bytes(&header().encode(1), &expected);
        assert_eq!(DataDevice::decode(&expected, 1), Ok(header()));
    }

    #[test]
    fn no_bit_can_flip_unnoticed_and_a_copy_is_not_taken_for_the_other() {
        for_every_bit_flip(&header().encode(0), |block, _| {
            assert!(DataDevice::decode(block, 0).is_err());
        });
        let told = DataDevice::decode(&header().encode(0), 1).unwrap_err().to_string();
        assert_eq!(told, "data device copy: expected 1, found 0");
    }

    #[test]
    fn what_is_no_position_among_so_many_is_refused() {
        for (position, devices) in [(3, 3), (0, 0), (u32::MAX, 2), (0, 16)] {
            let block = DataDevice { position, devices, ..header() }.encode(0);
            let error = DataDevice::decode(&block, 0).unwrap_err();
            assert_eq!(error.name, "data device position", "{error}");
        }
        let last = DataDevice { position: 14, devices: 15, ..header() };
        assert_eq!(DataDevice::decode(&last.encode(0), 0), Ok(last));
    }

    #[test]
    fn a_device_adds_whole_mebibytes_behind_its_first() {
        for (device, part) in [(0, 0), (1 << 20, 0), ((2 << 20) - 1, 0), (2 << 20, 1 << 20)] {
            assert_eq!(DataDevice::part_bytes(device), part, "{device}");
        }
        assert_eq!(DataDevice::part_bytes(1_000_204_886_016), 953_868 << 20);
    }
}
