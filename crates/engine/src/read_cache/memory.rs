//! The part of the read cache that is in memory.
//!
//! Bytes lie in segments of many slots, which are made as they are needed and never given back: single pages from an allocator
//! take up to twice their size. A copy of zeros, or of what a data-less simulation left out, has a slot and no bytes. It must never
//! hand out the memory itself: what is found is copied, since the slot may be another's a moment later.

use super::{SLOT_BYTES, key_of, slots_of};
use crate::state::chunks::LoggedCopy;
use nearhead_disk::{BufferMut, Payload};
use nearhead_read_cache::Slots;

/// What is counted for a slot beside its bytes: its share of the tables, which double as they grow, and of what is remembered of
/// pieces that are gone.
const ENTRY_BYTES: u64 = 224;
/// Slots of a segment: 1 MiB of them.
const SEGMENT_SLOTS: usize = 256;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Bytes,
    Zeros,
    Phantom,
}

/// Copies in memory.
#[derive(Debug)]
pub(super) struct CacheMemory {
    slots: Slots<(LoggedCopy, Sort)>,
    segments: Vec<Box<[u8]>>,
    bytes_max: u64,
}

impl CacheMemory {
    pub(super) fn new(bytes_max: u64) -> Self {
        let slots = slots_of(bytes_max, SLOT_BYTES + ENTRY_BYTES);
        Self { slots, segments: Vec::new(), bytes_max }
    }

    pub(super) fn is_on(&self) -> bool {
        self.slots.slots() > 1
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slots.len() as u64 * (SLOT_BYTES + ENTRY_BYTES)
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The bytes of exactly this copy.
    pub(super) fn find(&self, copy: &LoggedCopy) -> Option<Payload> {
        let kept = self.slots.find(key_of(copy.device_offset))?;
        let (of, sort) = kept.about;
        let len = copy.bytes as usize;
        if of != *copy {
            return None;
        }
        Some(match sort {
            Sort::Zeros => Payload::Zeros(len),
            Sort::Phantom => Payload::Phantom(len),
            Sort::Bytes => {
                Payload::Bytes(BufferMut::copy_of(self.room(kept.slot)?.get(..len)?).freeze())
            }
        })
    }

    pub(super) fn keep(&mut self, copy: LoggedCopy, data: &Payload) {
        let sort = match data {
            Payload::Bytes(_) => Sort::Bytes,
            Payload::Zeros(_) => Sort::Zeros,
            Payload::Phantom(_) => Sort::Phantom,
        };
        let Some(slot) = self.slots.keep(key_of(copy.device_offset), (copy, sort)) else { return };
        if let Payload::Bytes(bytes) = data {
            self.put(slot, bytes);
        }
    }

    pub(super) fn forget(&mut self, device_offset: u64) {
        self.slots.forget(key_of(device_offset));
    }

    fn room(&self, slot: u32) -> Option<&[u8]> {
        let (segment, within) = place(slot);
        self.segments.get(segment)?.get(within..within + SLOT_BYTES as usize)
    }

    fn put(&mut self, slot: u32, bytes: &[u8]) {
        let (segment, within) = place(slot);
        while self.segments.len() <= segment {
            // The last one is as long as the slots that are left.
            let left = self.slots.slots() as usize - self.segments.len() * SEGMENT_SLOTS;
            let slots = left.min(SEGMENT_SLOTS);
            self.segments.push(vec![0; slots * SLOT_BYTES as usize].into_boxed_slice());
        }
        self.segments[segment][within..within + bytes.len()].copy_from_slice(bytes);
    }
}

/// The segment of a slot, and the byte of it where the slot begins.
fn place(slot: u32) -> (usize, usize) {
    let slot = slot as usize;
    (slot / SEGMENT_SLOTS, slot % SEGMENT_SLOTS * SLOT_BYTES as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

    fn copy(place: u64, bytes: u32) -> LoggedCopy {
        LoggedCopy { device_offset: place * 4096, bytes, home_sector: place, crc: place as u32 }
    }

    fn data(place: u64, bytes: u32) -> Payload {
        Payload::Bytes(BufferMut::copy_of(&vec![place as u8; bytes as usize]).freeze())
    }

    #[test]
    fn all_that_a_full_cache_takes_is_no_more_than_was_said() {
        let mut random = SplitMix::new(1);
        for bytes_max in [1_u64 << 20, 3 << 20, 37 << 20, 100 << 20] {
            let mut memory = CacheMemory::new(bytes_max);
            let places = 3 * bytes_max / SLOT_BYTES;
            for place in 0..places {
                memory.keep(copy(place, 4096), &data(place, 4096));
                memory.find(&copy(random.below(place + 1), 4096));
                if place % 7 == 0 {
                    memory.forget(random.below(place + 1) * 4096);
                }
            }
            let segments: usize = memory.segments.iter().map(|segment| segment.len()).sum();
            let taken = (segments + memory.slots.memory_bytes()) as u64;
            assert!(taken <= bytes_max, "{taken} of {bytes_max}");
            assert!(taken > bytes_max * 9 / 10, "{taken} of {bytes_max}");
            assert!(memory.bytes() <= bytes_max);
        }
    }

    #[test]
    fn a_copy_is_found_by_all_that_the_map_says_of_it_and_by_nothing_less() {
        let mut memory = CacheMemory::new(1 << 20);
        let kept = copy(5, 512);
        memory.keep(kept, &data(5, 512));
        let found = memory.find(&kept).unwrap();
        assert!(matches!(found, Payload::Bytes(bytes) if bytes[..] == [5; 512]));
        for other in [
            LoggedCopy { crc: 6, ..kept },
            LoggedCopy { home_sector: 16, ..kept },
            LoggedCopy { bytes: 4096, ..kept },
            copy(6, 512),
        ] {
            assert!(memory.find(&other).is_none(), "{other:?}");
        }
        memory.keep(LoggedCopy { crc: 6, ..kept }, &Payload::Zeros(512));
        assert!(memory.find(&kept).is_none(), "something else is in its place");
        memory.forget(kept.device_offset);
        assert!(memory.find(&LoggedCopy { crc: 6, ..kept }).is_none());
    }
}
