//! The two slots of a map's snapshots: a header, the body, and a copy of the header at the end.
//!
//! They are on the volume's own disk ([`crate::Layout::slots`]) or on a map device ([`crate::MapDevice::slots`]), and look the
//! same on both. Numbers only: who has them knows which device they are of.

use crate::snapshot::SNAPSHOT_HEADER_BYTES;

/// Where both are, in bytes from the start of their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slots {
    /// Where each begins.
    pub offsets: [u64; 2],
    /// Size of each.
    pub bytes: u64,
}

impl Slots {
    /// Where a slot's header stands, as every even or odd snapshot has it: slot 0 or 1.
    pub fn header_offset(&self, slot: usize) -> u64 {
        self.offsets[slot]
    }

    /// Where the snapshot's body begins.
    pub fn body_offset(&self, slot: usize) -> u64 {
        self.offsets[slot] + SNAPSHOT_HEADER_BYTES
    }

    /// Where the copy of the header stands: the last block of the slot.
    pub fn copy_offset(&self, slot: usize) -> u64 {
        self.offsets[slot] + self.bytes - SNAPSHOT_HEADER_BYTES
    }

    /// Bytes of a body that fit between the header and its copy.
    pub fn body_bytes_max(&self) -> u64 {
        self.bytes - 2 * SNAPSHOT_HEADER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_fills_a_slot_between_the_header_and_its_copy() {
        let slots = Slots { offsets: [4096, 1 << 20], bytes: 64 << 10 };
        for slot in 0..2 {
            assert_eq!(slots.body_offset(slot), slots.header_offset(slot) + SNAPSHOT_HEADER_BYTES);
            assert_eq!(slots.body_offset(slot) + slots.body_bytes_max(), slots.copy_offset(slot));
        }
    }
}
