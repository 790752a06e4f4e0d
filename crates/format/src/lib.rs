//! Codecs and arithmetic of everything Nearhead keeps on a disk; docs/format.md draws it byte by
//! byte.
//!
//! What this crate keeps true:
//!
//! - what was decoded was written by us, whole, for this volume and this address: magic, checksum,
//!   version, identity and every field are checked before any of them is used in arithmetic;
//! - no input makes it panic, loop without bound, or allocate more than the stated limits;
//! - the same value always gives the same bytes, with zeros where nothing is said.
//!
//! It performs no I/O, reads no clock and holds no state between calls but what a caller keeps.
//! Integers are little-endian; a *sector* is 512 bytes on every device; a *home sector* counts from
//! the start of the client's address space, a *device sector* from the start of the device.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backup;
pub mod blank_map;
mod block;
mod bytes;
pub mod crc;
#[cfg(test)]
mod damage;
pub mod data_device;
pub mod entry;
pub mod generation;
pub mod layout;
pub mod map_device;
pub mod record;
mod slots;
pub mod snapshot;
pub mod superblock;
pub mod track_table;

pub use blank_map::BlankMapHeader;
pub use bytes::FieldError;
pub use data_device::DataDevice;
pub use entry::{ENTRY_BYTES, Entry, PackedEntry, Place};
pub use generation::DeviceGeneration;
pub use layout::{Layout, LayoutError, LayoutKind, LayoutOptions};
pub use map_device::MapDevice;
pub use record::{RecordError, RecordHeader};
pub use slots::Slots;
pub use snapshot::{SnapshotError, SnapshotHeader};
pub use superblock::{AckMode, Label, PresetNumber, SUPERBLOCK_MAGIC, Superblock, SuperblockError};

/// The unit of every address and length that counts sectors.
pub const SECTOR_BYTES: u64 = 512;

/// Sectors of a home block, the unit the map is kept in.
pub const BLOCK_SECTORS: u64 = 8;

/// Bytes of a home block.
pub const BLOCK_BYTES: u64 = BLOCK_SECTORS * SECTOR_BYTES;

/// Sector numbers are below this: 48 bits, 128 PiB.
pub const SECTORS_MAX: u64 = 1 << 48;

/// Names a volume; random, chosen at creation. Stale records of an older volume do not carry it.
pub type VolumeId = [u8; 16];
