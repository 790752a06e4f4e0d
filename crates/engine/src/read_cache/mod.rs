//! The read cache: copies of what the tail of a chain holds, so that reads of it leave the arm to the writes.
//!
//! Paper: Gecko, section 4, "Caching": what lies on the tail drive is cached preferentially, as only its reads get in the way of
//! writes. So a client's write is kept as soon as its record is durable, and what a read had to fetch from the tail is kept as well;
//! what lies on other drives is answered from here while it stays, and never put in. What cleaning moves is not kept: it is cold. It
//! keeps true:
//!
//! - a copy is found only by everything that the map says of it (place, home, length, checksum), and whoever takes one verifies it
//!   like bytes from a log. What is written to a place takes the place of what was kept of it;
//! - cleaning, recovery and checks never ask here: what is wrong with a disk is found there. A read whose copy does not match is
//!   begun anew without the cache, and nothing that did not match is kept;
//! - memory and room on the device are bounded, and so are copies on their way there; of more the newest are left out;
//! - a device that fails once is used no more, and no read fails for it.
//!
//! It must never hold anything back: no write and no reply waits for it.

mod device;
mod memory;

use crate::core::Core;
use crate::state::chunks::LoggedCopy;
use crate::stats::ReadCacheStatus;
use device::CacheDevice;
use memory::CacheMemory;
use nearhead_disk::{DiskError, Payload, SECTOR_BYTES};
use nearhead_read_cache::Slots;

pub use device::CACHE_START_BYTES;

/// Room for one copy: no chunk of a record is longer.
pub(crate) const SLOT_BYTES: u64 = 4096;

/// A copy that is kept.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// In memory.
    Here(Payload),
    /// On the cache's device, at this byte.
    There {
        /// Of the device.
        offset: u64,
    },
}

/// What is kept, and where.
#[derive(Debug)]
pub(crate) struct ReadCache {
    memory: CacheMemory,
    device: Option<CacheDevice>,
    /// Why its device is used no more, if so.
    dropped: Option<String>,
}

impl ReadCache {
    /// The one that a volume was told to have; an empty one that keeps nothing if it is no chain.
    pub(crate) fn of(core: &Core) -> Self {
        let (setup, is_chain) = (core.setup(), core.logs().has_no_homes());
        let memory_bytes = if is_chain { setup.config.read_cache_bytes } else { 0 };
        let device = setup.cache_device.as_ref().filter(|_| is_chain).map(CacheDevice::new);
        Self { memory: CacheMemory::new(memory_bytes), device, dropped: None }
    }

    /// Whether anything is ever kept.
    pub(crate) fn is_on(&self) -> bool {
        self.memory.is_on() || self.device.is_some()
    }

    /// How full it is; none if there is no cache.
    pub(crate) fn status(&self) -> Option<ReadCacheStatus> {
        let device = self.device.as_ref();
        (self.is_on() || self.dropped.is_some()).then(|| ReadCacheStatus {
            memory_bytes: self.memory.bytes(),
            memory_bytes_max: self.memory.bytes_max(),
            device_bytes: device.map_or(0, CacheDevice::bytes),
            device_bytes_max: device.map_or(0, CacheDevice::bytes_max),
            dropped: self.dropped.clone(),
        })
    }

    /// Where exactly this copy is kept, which counts as a use of it. Its bytes are to be verified.
    pub(crate) fn find(&self, copy: &LoggedCopy) -> Option<Found> {
        if let Some(data) = self.memory.find(copy) {
            return Some(Found::Here(data));
        }
        let offset = self.device.as_ref()?.find(copy)?;
        Some(Found::There { offset })
    }

    /// Keeps a copy that is durable. What was in its place is gone.
    pub(crate) fn keep(&mut self, core: &mut Core, copy: LoggedCopy, data: &Payload) {
        if u64::from(copy.bytes) > SLOT_BYTES || data.len() != copy.bytes as usize {
            return self.forget(copy.device_offset);
        }
        self.memory.keep(copy, data);
        if let Some(device) = &mut self.device {
            device.keep(core, copy, data);
        }
    }

    /// Something else is in this place now, or what is kept of it does not match.
    pub(crate) fn forget(&mut self, device_offset: u64) {
        self.memory.forget(device_offset);
        if let Some(device) = &mut self.device {
            device.forget(device_offset);
        }
    }

    /// A copy is on the device.
    pub(crate) fn written(&mut self, slot: u32) {
        if let Some(device) = &mut self.device {
            device.written(slot);
        }
    }

    /// A command of the device failed: it is done without. Says so if that is new.
    pub(crate) fn device_failed(&mut self, error: &DiskError) -> bool {
        if self.device.take().is_none() {
            return false;
        }
        self.dropped = Some(error.detail.clone());
        true
    }
}

/// As a table of slots knows a place.
fn key_of(device_offset: u64) -> u64 {
    device_offset / SECTOR_BYTES
}

/// So many slots as fit, of which each takes so many bytes.
fn slots_of<V>(bytes: u64, bytes_of_each: u64) -> Slots<V> {
    Slots::new(u32::try_from(bytes / bytes_of_each).unwrap_or(u32::MAX))
}
