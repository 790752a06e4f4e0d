//! Logged copies that are still in memory: what goes home from here need not be read from a log.
//!
//! It holds the newest chunks of durable records, in memory of its own and never more of it than its owner said; the
//! oldest go first. It is no authority: a copy is found only by everything that the map says of it, and whoever takes one
//! verifies it like bytes from a log. After a restart it is empty, and the logs have everything.

use super::chunks::LoggedCopy;
use nearhead_disk::{BufferMut, Payload};
use std::collections::BTreeMap;

/// What is counted for an entry beside its bytes: the two tables' share, measured generously.
const ENTRY_BYTES: u64 = 160;

/// Newest copies first to be found, oldest first to go.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    bytes_max: u64,
    bytes: u64,
    /// By device byte.
    copies: BTreeMap<u64, Kept>,
    /// Device bytes, by when they were kept.
    by_age: BTreeMap<u64, u64>,
    kept_ever: u64,
}

#[derive(Debug)]
struct Kept {
    copy: LoggedCopy,
    data: Payload,
    age: u64,
}

impl Kept {
    fn cost_bytes(&self) -> u64 {
        ENTRY_BYTES + u64::from(self.copy.bytes)
    }
}

impl Remembered {
    /// At most so many bytes; 0 remembers nothing.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.bytes_max > 0
    }

    /// Keeps a copy that is durable now. What was in its place is gone.
    pub(crate) fn keep(&mut self, copy: LoggedCopy, data: &Payload) {
        self.forget(copy.device_offset);
        let kept = Kept { copy, data: own(data), age: self.kept_ever };
        self.kept_ever += 1;
        self.bytes += kept.cost_bytes();
        self.by_age.insert(kept.age, copy.device_offset);
        self.copies.insert(copy.device_offset, kept);
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_age.first_key_value() else { break };
            self.forget(*oldest);
        }
    }

    /// The bytes of exactly this copy.
    pub(crate) fn get(&self, copy: &LoggedCopy) -> Option<&Payload> {
        self.copies
            .get(&copy.device_offset)
            .filter(|kept| kept.copy == *copy)
            .map(|kept| &kept.data)
    }

    fn forget(&mut self, device_offset: u64) {
        if let Some(kept) = self.copies.remove(&device_offset) {
            self.by_age.remove(&kept.age);
            self.bytes -= kept.cost_bytes();
        }
    }
}

/// In memory of its own: a part of a client's buffer would keep all of it.
fn own(data: &Payload) -> Payload {
    match data {
        Payload::Bytes(bytes) => Payload::Bytes(BufferMut::copy_of(bytes).freeze()),
        Payload::Zeros(_) | Payload::Phantom(_) => data.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_format::crc::chunk_crc;

    fn copy(device_offset: u64, fill: u8) -> (LoggedCopy, Payload) {
        let content = [fill; 4096];
        let crc = chunk_crc(8, &content);
        let copy = LoggedCopy { device_offset, bytes: 4096, home_sector: 8, crc };
        (copy, Payload::Bytes(BufferMut::copy_of(&content).freeze()))
    }

    fn keep(memory: &mut Remembered, device_offset: u64, fill: u8) -> LoggedCopy {
        let (copy, data) = copy(device_offset, fill);
        memory.keep(copy, &data);
        copy
    }

    #[test]
    fn a_copy_is_found_by_all_that_the_map_says_of_it_and_by_nothing_less() {
        let mut memory = Remembered::new(1 << 20);
        let kept = keep(&mut memory, 4096, 1);
        assert!(memory.get(&kept).is_some_and(|data| data.len() == 4096));
        let others = [
            LoggedCopy { crc: kept.crc ^ 1, ..kept },
            LoggedCopy { home_sector: 16, ..kept },
            LoggedCopy { bytes: 512, ..kept },
            LoggedCopy { device_offset: 8192, ..kept },
        ];
        assert!(others.iter().all(|other| memory.get(other).is_none()));
    }

    #[test]
    fn what_is_written_to_the_place_of_a_copy_takes_its_place_here() {
        let mut memory = Remembered::new(1 << 20);
        let old = keep(&mut memory, 4096, 1);
        let new = keep(&mut memory, 4096, 2);
        assert!(memory.get(&old).is_none() && memory.get(&new).is_some());
        assert_eq!(memory.bytes, 4096 + ENTRY_BYTES);
    }

    #[test]
    fn there_is_never_more_than_its_owner_said_however_often_one_place_is_written_and_the_newest_stay()
     {
        let mut memory = Remembered::new(3 * (4096 + ENTRY_BYTES));
        for round in 0..100_u64 {
            keep(&mut memory, 4096 * (round % 7), round as u8);
            keep(&mut memory, 1 << 30, round as u8);
            assert!(memory.bytes <= memory.bytes_max);
            assert!(memory.copies.len() <= 3 && memory.by_age.len() == memory.copies.len());
        }
        assert!(memory.get(&copy(1 << 30, 99).0).is_some());
        assert!(memory.get(&copy(4096, 99).0).is_some());
    }

    #[test]
    fn a_client_s_large_buffer_is_not_kept_for_a_part_of_it() {
        let mut memory = Remembered::new(1 << 20);
        let large = BufferMut::copy_of(&vec![7; 1 << 16]).freeze();
        let part = Payload::Bytes(large.clone()).slice(0..4096);
        let copy = LoggedCopy { device_offset: 0, bytes: 4096, home_sector: 0, crc: 1 };
        memory.keep(copy, &part);
        let kept = memory.get(&copy).unwrap();
        let Payload::Bytes(kept) = kept else { panic!("bytes were kept") };
        assert_eq!(kept[..], large[..4096]);
        assert_ne!(kept.as_ptr(), large.as_ptr());
    }
}
