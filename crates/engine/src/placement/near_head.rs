//! `near_head`: the log nearest the head, as far as a host can know it (Manylogs, III-D: nearest the last in-place
//! I/O).
//!
//! A log may be written only once recovery is certain to scan it. When the nearest log with room is
//! not claimed yet, this record goes to the nearest one that is and carries the claim, so that the
//! next record finds the near log ready; nobody ever waits for a claim of its own.
//!
//! With nothing outstanding on a disk that tells its speed, of the claimed logs around the head the one takes the
//! record whose next block comes round soonest ([`super::rotation`]).

use super::rotation::{Rotation, Wait};
use super::{Completed, Need, Placement, Seen, Spot, View};
use nearhead_disk::{Nanos, Properties};

/// How many logs with some room are looked at around the head before any claimed log is taken.
const NEIGHBOURS_MAX: usize = 64;
/// How many full logs are passed over while looking for them.
const FULL_MAX: usize = 1 << 16;
/// Logs claimed with a record, from the one on that would have been nearest.
const CLAIMS_AHEAD: u32 = 3;

/// The log nearest the head.
#[derive(Clone, Debug, Default)]
pub struct NearHead {
    rotation: Rotation,
}

impl NearHead {
    /// For a disk. `is_single` says that all addresses are of one disk: otherwise nobody knows what turns where.
    pub fn on(properties: &Properties, is_single: bool) -> Self {
        let turns = properties.rotational && is_single;
        Self { rotation: Rotation::new(properties.rotation_period.filter(|_| turns)) }
    }

    /// The nearest log with room that is claimed.
    fn nearest(need: Need, view: &View<'_>) -> Option<Spot> {
        let logs = view.logs;
        let spot = |log_index, wanted_index| {
            let block = logs.next_place(log_index, need)?;
            Some(Spot { log_index, block, wanted_index })
        };
        let mut wanted = None;
        let roomy = logs.near(view.head_offset).take(FULL_MAX).filter(|log| !logs.is_full(*log));
        for index in roomy.take(NEIGHBOURS_MAX) {
            if !logs.has_room(index, need) {
                continue;
            }
            let wanted = *wanted.get_or_insert(index);
            if logs.is_claimed(index) {
                return spot(index, wanted);
            }
        }
        let claimed = logs.nearest_claimed(view.head_offset, need)?;
        spot(claimed, wanted.unwrap_or(claimed))
    }

    /// How long until a record would begin in a log, as far as one can tell, and in which block.
    fn wait_for_log(&self, log_index: u32, need: Need, view: &View<'_>) -> Option<(Wait, u32)> {
        let block = view.logs.next_place(log_index, need)?;
        Some((self.wait_for_block(log_index, block, view)?, block))
    }

    fn wait_for_block(&self, log_index: u32, block: u32, view: &View<'_>) -> Option<Wait> {
        let offset = view.logs.block_offset(log_index, block)?;
        Some(self.rotation.wait(offset, self.rotation.passed_at(log_index, block), view.now))
    }

    /// Of the usable logs near the head the one where a record would begin soonest, or the one chosen.
    fn soonest(&self, chosen: Spot, need: Need, view: &View<'_>) -> Spot {
        let compared = self.rotation.logs_compared();
        if compared == 0 || !view.is_idle {
            return chosen;
        }
        let near = view.logs.near(self.rotation.last_end()).take(compared);
        let claimed = near.filter(|index| view.logs.is_claimed(*index));
        let waits = claimed.filter_map(|log_index| {
            let (wait, block) = self.wait_for_log(log_index, need, view)?;
            Some((wait.time, Spot { log_index, block, ..chosen }))
        });
        waits.min_by_key(|(time, _)| *time).map_or(chosen, |(_, spot)| spot)
    }
}

impl Placement for NearHead {
    fn seen(&mut self, seen: &Seen, view: &View<'_>) {
        match seen {
            Seen::RecordLeaves { spot } if view.is_idle && self.rotation.is_known() => {
                if let Some(wait) = self.wait_for_block(spot.log_index, spot.block, view) {
                    self.rotation.leaves_alone(wait);
                }
            }
            Seen::RecordLeaves { .. } => {}
            Seen::Completed(done) => self.completed(done, view.now),
        }
    }

    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        Some(self.soonest(Self::nearest(need, view)?, need, view))
    }

    fn leaves_out_bytes_max(&self, _knows_tracks: bool) -> u64 {
        0
    }

    fn claims_ahead(&self) -> u32 {
        CLAIMS_AHEAD
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

impl NearHead {
    fn completed(&mut self, done: &Completed, now: Nanos) {
        if let Some((log_index, block)) = done.record_end {
            self.rotation.record_completed(done.offset, done.bytes, done.took, done.is_ok);
            if done.is_ok {
                self.rotation.note_passed(log_index, block, now);
            }
        }
        if done.has_moved && done.is_ok {
            self.rotation.moved_to(done.offset + done.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::logs::Logs;
    use nearhead_format::Layout;
    use nearhead_format::layout::{LayoutKind, LayoutOptions};

    #[test]
    fn without_a_claimed_log_in_the_neighbourhood_the_nearest_claimed_one_takes_the_record() {
        let layout = Layout::plan(1 << 40, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
        let mut logs = Logs::new(&layout, false);
        for claimed in [0, 3000, 8000] {
            logs.note_claimed(claimed);
        }
        for (head_log, nearest) in
            [(200, 0), (1700, 3000), (2900, 3000), (5600, 8000), (9999, 8000)]
        {
            let head_offset = layout.log_offset(head_log).unwrap();
            let view = View {
                logs: &logs,
                head_offset,
                now: Nanos::ZERO,
                is_idle: false,
                on_disk: 1,
                drives: None,
                disks: None,
            };
            let spot = NearHead::default().choose(Need { blocks: 8, reserve: 0 }, &view).unwrap();
            assert_eq!((spot.log_index, spot.wanted_index), (nearest, head_log));
        }
    }
}
