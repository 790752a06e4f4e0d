//! Requests that no sound client sends. Each must be refused with a reason and change nothing.

use crate::content::SECTOR;
use crate::life::{Life, Waiting};
use nearhead_basics::SplitMix;
use nearhead_disk::Payload;
use nearhead_engine::{ATOMIC_EXTENTS_MAX, REQUEST_BYTES_MAX};
use nearhead_service::{Changed, Hint, Operation};

impl Life<'_> {
    pub(crate) fn hostile(&mut self, salt: u64) -> Result<(), String> {
        let mut random = SplitMix::new(salt);
        let operation = hostile(self.size_bytes(), &mut random);
        let what = format!("{operation:?}");
        self.tally.hostile += 1;
        self.send(operation, Waiting::Refusal(what)).map(drop)
    }
}

/// An offset and a length that are wrong, each in its own way.
fn wrong_range(size: u64, random: &mut SplitMix) -> (u64, u64) {
    let block = 4096;
    match random.below(8) {
        0 => (size, block),
        1 => (size - block, 2 * block),
        2 => (u64::MAX - block + 1, block),
        3 => (u64::MAX / SECTOR * SECTOR, 1 << 20),
        4 => (random.below(size - block), 0),
        5 => (1 + random.below(SECTOR - 1), block),
        6 => (0, 1 + random.below(SECTOR - 1)),
        _ => (random.below(size / block) * block, REQUEST_BYTES_MAX.max(size) + block),
    }
}

fn hostile(size: u64, random: &mut SplitMix) -> Operation {
    let (offset, len) = wrong_range(size, random);
    let data = |len: u64| Payload::Zeros(len as usize);
    let fua = random.coin();
    match random.below(7) {
        0 => Operation::Read { offset, len: u32::try_from(len).unwrap_or(u32::MAX) },
        1 => Operation::Trim { offset, len, fua },
        2 => {
            let (fast_only, may_unmap) = (random.coin(), fua);
            Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap }
        }
        3 => Operation::Hint { offset, len, hint: Hint::DurabilityOnly },
        4 => Operation::WriteAtomic {
            extents: vec![(0, data(4096)), (offset, data(len))],
            changed: Changed::All,
        },
        5 => Operation::WriteAtomic {
            extents: wrong_extents(random, data(4096)),
            changed: Changed::All,
        },
        _ => Operation::Write { offset, data: data(len), fua },
    }
}

/// None, too many, or some that overlap.
fn wrong_extents(random: &mut SplitMix, data: Payload) -> Vec<(u64, Payload)> {
    match random.below(3) {
        0 => Vec::new(),
        1 => (0..=ATOMIC_EXTENTS_MAX as u64).map(|at| (at * 8192, data.clone())).collect(),
        _ => vec![(8192, data.clone()), (8192 + 4096 - SECTOR * 8, data.clone()), (8192, data)],
    }
}
