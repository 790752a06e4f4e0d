//! `near_head`: the log nearest the head, as far as a host can know it (Manylogs, III-D: nearest the last in-place
//! I/O).
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
pub struct NearHead;

impl Placement for NearHead {
    fn choose(&self, logs: &Logs, head_offset: u64, blocks: u32, reserve: u32) -> Option<Choice> {
        let mut wanted = None;
        let roomy = logs.near(head_offset).take(FULL_MAX).filter(|index| !logs.is_full(*index));
        for index in roomy.take(NEIGHBOURS_MAX) {
            if !logs.has_room(index, blocks, reserve) {
                continue;
            }
            wanted.get_or_insert(index);
            if logs.is_claimed(index) {
                return Some(Choice { log_index: index, wanted_index: wanted.unwrap_or(index) });
            }
        }
        let claimed = logs.nearest_claimed(head_offset, blocks, reserve)?;
        Some(Choice { log_index: claimed, wanted_index: wanted.unwrap_or(claimed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_format::Layout;
    use nearhead_format::layout::{LayoutOptions, Preset};

    #[test]
    fn without_a_claimed_log_in_the_neighbourhood_the_nearest_claimed_one_takes_the_record() {
        let layout = Layout::plan(1 << 40, &LayoutOptions::new(Preset::Mlb)).unwrap();
        let mut logs = Logs::new(&layout, false);
        for claimed in [0, 3000, 8000] {
            logs.note_claimed(claimed);
        }
        for (head_log, nearest) in
            [(200, 0), (1700, 3000), (2900, 3000), (5600, 8000), (9999, 8000)]
        {
            let head_offset = layout.log_offset(head_log).unwrap();
            let choice = NearHead.choose(&logs, head_offset, 8, 0).unwrap();
            assert_eq!((choice.log_index, choice.wanted_index), (nearest, head_log));
        }
    }
}
