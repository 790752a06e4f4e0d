//! The device for a read cache, before it is one: it must hold nothing that anybody may still need.
//!
//! Nothing on it counts, so all that is kept there is one block that says what it is ([`MAGIC`], then zeros): a device with that block
//! is used again without asking, and every other one only if `create` would take it for empty. What is behind the block is the
//! engine's ([`nearhead_engine::CACHE_START_BYTES`]) and forgotten at each start. It must never write to a device before it was looked
//! at all over.

use crate::create::{CreateError, refuse_used_part};
use crate::sync_io::SyncIo;
use nearhead_disk::{BufferMut, Command, DiskError, Payload};
use nearhead_engine::CACHE_START_BYTES;
use std::fmt;

/// The first bytes of a device for a read cache.
pub const MAGIC: [u8; 24] = *b"Nearhead read cache, v.1";
/// A smaller one is not worth it.
pub const CACHE_DEVICE_BYTES_MIN: u64 = 1 << 20;

/// Why a device is not taken for a read cache. Nothing was changed on it.
#[derive(Clone, Debug)]
pub enum CacheDeviceError {
    /// It holds something else.
    InUse {
        /// The device.
        device: String,
        /// What was found.
        found: String,
    },
    /// It is too small.
    Small {
        /// The device.
        device: String,
        /// Its bytes.
        bytes: u64,
    },
    /// It failed.
    Disk(DiskError),
}

impl fmt::Display for CacheDeviceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { device, found } => write!(
                formatter,
                "read cache on {device}: expected an empty device or one that was a read cache before, found {found}; name \
                 another, or wipe it if nobody needs that"
            ),
            Self::Small { device, bytes } => write!(
                formatter,
                "read cache on {device}: expected at least {CACHE_DEVICE_BYTES_MIN} bytes, found {bytes}; make it larger"
            ),
            Self::Disk(error) => write!(formatter, "read cache: {error}"),
        }
    }
}

impl std::error::Error for CacheDeviceError {}

impl From<DiskError> for CacheDeviceError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// Makes the disk one for a read cache, if it is not yet.
pub fn claim(io: &mut SyncIo<'_>) -> Result<(), CacheDeviceError> {
    let properties = io.disk().properties();
    let (device, bytes) = (properties.name.clone(), properties.capacity_bytes);
    if bytes < CACHE_DEVICE_BYTES_MIN {
        return Err(CacheDeviceError::Small { device, bytes });
    }
    let head = io.read(0, CACHE_START_BYTES as usize)?;
    let (magic, rest) = head.split_at(MAGIC.len());
    if magic == MAGIC && rest.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    refuse_used_part(io, bytes).map_err(|error| match error {
        CreateError::Disk(error) => CacheDeviceError::Disk(error),
        CreateError::InUse { found, .. } | CreateError::Volume { found, .. } => {
            CacheDeviceError::InUse { device, found }
        }
        other => CacheDeviceError::InUse { device, found: other.to_string() },
    })?;
    let mut block = BufferMut::zeroed(CACHE_START_BYTES as usize);
    block[..MAGIC.len()].copy_from_slice(&MAGIC);
    let parts = vec![Payload::Bytes(block.freeze())];
    io.run(Command::Write { offset: 0, parts, durable: true })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreateOptions, NamedPreset, create};
    use nearhead_disk::Nanos;
    use nearhead_models::{InstantDisk, MemoryStore, plain_properties};

    fn disk(bytes: u64) -> InstantDisk {
        InstantDisk::new(
            plain_properties(bytes, 512),
            Box::new(MemoryStore::new()),
            Nanos::from_micros(1),
        )
    }

    fn claimed(disk: &mut InstantDisk) -> Result<(), String> {
        claim(&mut SyncIo::in_virtual_time(disk, Nanos::ZERO)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_device_becomes_a_cache_and_is_one_from_then_on_whatever_the_engine_put_there() {
        let mut disk = disk(8 << 20);
        claimed(&mut disk).unwrap();
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&[0x5a; 8192]).freeze())];
        io.run(Command::Write { offset: CACHE_START_BYTES, parts, durable: false }).unwrap();
        claimed(&mut disk).unwrap();
    }

    #[test]
    fn a_volume_and_whatever_else_is_not_zeros_is_refused_and_left_as_it_is() {
        let mut volume = disk(64 << 20);
        let mut io = SyncIo::in_virtual_time(&mut volume, Nanos::ZERO);
        let options = CreateOptions::new([3; 16], NamedPreset::by_name("gecko").unwrap());
        create(&mut io, &options).unwrap();
        let before = io.read(0, 1 << 20).unwrap();
        let refused = claimed(&mut volume).unwrap_err();
        assert!(refused.contains("superblock of a Nearhead volume"), "{refused}");
        let after = SyncIo::in_virtual_time(&mut volume, Nanos::ZERO).read(0, 1 << 20).unwrap();
        assert!(before[..] == after[..]);

        for offset in [0, 4096, (8 << 20) - 512] {
            let mut used = disk(8 << 20);
            let parts = vec![Payload::Bytes(BufferMut::copy_of(&[1; 512]).freeze())];
            let write = Command::Write { offset, parts, durable: false };
            SyncIo::in_virtual_time(&mut used, Nanos::ZERO).run(write).unwrap();
            let refused = claimed(&mut used).unwrap_err();
            assert!(refused.contains("expected an empty device"), "{offset}: {refused}");
        }
    }

    #[test]
    fn one_that_is_too_small_is_refused() {
        let refused = claimed(&mut disk(CACHE_DEVICE_BYTES_MIN - 4096)).unwrap_err();
        assert!(refused.contains("expected at least 1048576 bytes, found 1044480"), "{refused}");
    }
}
