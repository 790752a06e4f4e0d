//! The part of the read cache that is on a flash file or device.
//!
//! A slot of it is written as a whole, and a copy is found once its write is answered; until then its slot is nobody else's. Nothing
//! says on the device what a slot holds: after a restart nobody knows, and all of it is free. What is read from there is verified by
//! whoever reads it, and a device that lost or mixed up what it took costs a read of the disk. It must never keep a record's memory for
//! long: of more copies on their way than [`WRITES_MAX`] the newest are left out.

use super::{SLOT_BYTES, key_of, slots_of};
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::state::chunks::LoggedCopy;
use nearhead_disk::{Class, Command, Lane, Payload, Properties};
use nearhead_read_cache::Slots;

/// The first bytes of the device are not the cache's: whoever opens it says there what it is.
pub const CACHE_START_BYTES: u64 = 4096;
/// Most copies on their way to the device: 4 MiB, two records full of them.
const WRITES_MAX: usize = 1024;

/// Copies on the device.
#[derive(Debug)]
pub(super) struct CacheDevice {
    /// Those are held whose write was not answered yet.
    slots: Slots<LoggedCopy>,
}

impl CacheDevice {
    pub(super) fn new(properties: &Properties) -> Self {
        let bytes = properties.capacity_bytes.saturating_sub(CACHE_START_BYTES);
        Self { slots: slots_of(bytes, SLOT_BYTES) }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slots.len() as u64 * SLOT_BYTES
    }

    pub(super) fn bytes_max(&self) -> u64 {
        u64::from(self.slots.slots()) * SLOT_BYTES
    }

    /// The byte of the device where exactly this copy is.
    pub(super) fn find(&self, copy: &LoggedCopy) -> Option<u64> {
        let kept = self.slots.find(key_of(copy.device_offset))?;
        let is_there = kept.about == *copy && !self.slots.is_held(kept.slot);
        is_there.then(|| byte_of(kept.slot))
    }

    pub(super) fn keep(&mut self, core: &mut Core, copy: LoggedCopy, data: &Payload) {
        if self.slots.held_len() >= WRITES_MAX {
            core.stats_mut().read_cache_left_out += 1;
            return self.forget(copy.device_offset);
        }
        let Some(slot) = self.slots.keep(key_of(copy.device_offset), copy) else { return };
        self.slots.hold(slot);
        let rest = SLOT_BYTES as usize - data.len();
        let rest = (rest > 0).then_some(Payload::Zeros(rest));
        let parts = std::iter::once(data.clone()).chain(rest).collect();
        let command = Command::Write { offset: byte_of(slot), parts, durable: false };
        core.issue_on(Lane::CACHE, Class::Bulk, Purpose::CacheWrite { slot }, command);
    }

    pub(super) fn forget(&mut self, device_offset: u64) {
        self.slots.forget(key_of(device_offset));
    }

    /// The write of a slot was answered.
    pub(super) fn written(&mut self, slot: u32) {
        self.slots.release(slot);
    }
}

fn byte_of(slot: u32) -> u64 {
    CACHE_START_BYTES + u64::from(slot) * SLOT_BYTES
}
