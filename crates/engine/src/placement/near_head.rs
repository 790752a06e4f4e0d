//! `near_head`: the log nearest the last in-place I/O (Manylogs, III-D).
//!
//! A log may be written only once recovery is certain to scan it. When the nearest log with room is
//! not claimed yet, this record goes to the nearest one that is and carries the claim, so that the
//! next record finds the near log ready; nobody ever waits for a claim of its own.

use super::{Choice, Placement};
use crate::logs::Logs;

/// How many logs with some room are looked at around the head before any claimed log is taken.
const NEIGHBOURS_MAX: usize = 64;
/// How many full logs are passed over while looking for them.
const FULL_MAX: usize = 1 << 16;

/// The log nearest the head.
#[derive(Clone, Copy, Debug, Default)]
pub struct NearHead {
    head_offset: u64,
}

impl Placement for NearHead {
    fn note_in_place(&mut self, device_offset: u64) {
        self.head_offset = device_offset;
    }

    fn choose(&mut self, logs: &Logs, blocks: u32, reserve: u32) -> Option<Choice> {
        let mut wanted = None;
        let roomy =
            logs.near(self.head_offset).take(FULL_MAX).filter(|index| !logs.is_full(*index));
        for index in roomy.take(NEIGHBOURS_MAX) {
            if !logs.has_room(index, blocks, reserve) {
                continue;
            }
            wanted.get_or_insert(index);
            if logs.is_claimed(index) {
                return Some(Choice { log_index: index, wanted_index: wanted.unwrap_or(index) });
            }
        }
        let claimed = logs.claimed_with_room(blocks, reserve)?;
        Some(Choice { log_index: claimed, wanted_index: wanted.unwrap_or(claimed) })
    }
}
