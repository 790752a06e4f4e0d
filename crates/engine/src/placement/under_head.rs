//! `under_head`: the block of the nearest log that will be under the head when the arm is there.
//!
//! Where a drive's tracks are known ([`Drive`]), a record waits until nothing is on the disk, as otherwise nobody but the drive knows
//! when the arm is free, and then leaves out the blocks that the head passes too soon: a recovery looks that far. Of the logs around
//! the arm the one is taken that costs least there and back; if it has no place that passes soon, one more is wanted for the next
//! record. Where nothing is known, or what was predicted does not hold, [`NearHead`] answers.

use super::passing::Search;
use super::{Drives, NearHead, Need, Placement, Seen, Spot, View};
use crate::state::logs::GAP_BYTES_MAX;
use nearhead_disk::Nanos;

/// Logs around the head that are compared.
const LOGS_COMPARED: usize = 8;
/// Logs around the head among which those are found.
const LOGS_LOOKED_AT: usize = 64;
/// With more commands than so many on the disk a record does not wait for the end of all.
const WAITED_FOR_MAX: u32 = 3;
/// On an array, for each member that was written to longer ago a log costs this share of a revolution more: who writes falls behind the
/// others in a stream over all of them, and who has not for long has read ahead. Of none, 1/4 and 1/2 of a revolution the last kept
/// most of a stream beside records (figure 3a at 320 writes/s, changed builds).
const RESTED_SHARE: u64 = 2;
/// Tracks of a log that are compared.
const TRACKS_MAX: usize = 64;
/// Records under the head.
#[derive(Clone, Debug)]
pub struct UnderHead {
    near: NearHead,
}

impl UnderHead {
    /// One that does what `near` does where nothing is known of the drive.
    pub fn beside(near: NearHead) -> Self {
        Self { near }
    }
}

/// The drives, if they are to be followed.
fn followed<'a>(view: &View<'a>) -> Option<&'a Drives> {
    view.drives.filter(|drives| drives.is_followed())
}

/// The best place of a log, beside those of others.
struct Place {
    spot: Spot,
    cost: Nanos,
    /// It costs more than half a revolution beside the ways.
    is_dear: bool,
}

fn place_in(spot: Spot, drives: &Drives, need: Need, view: &View<'_>) -> Option<Place> {
    let search = Search::new(spot.log_index, drives, need, view);
    let (cost, block) = search.whole(TRACKS_MAX)?;
    let byte = view.logs.block_offset(spot.log_index, block)?;
    let (drive, at) = drives.part(byte);
    let period = drive.period().0;
    let ways = drive.access(at) + drive.way_back(at, view.now);
    let beside_ways = cost.0.saturating_sub(ways.0);
    let rested = Nanos(u64::from(drives.longer_rested(byte)) * period / RESTED_SHARE);
    let spot = Spot { block, ..spot };
    Some(Place { spot, cost: cost + rested, is_dear: beside_ways > period / 2 })
}

impl Placement for UnderHead {
    fn seen(&mut self, seen: &Seen, view: &View<'_>) {
        self.near.seen(seen, view);
    }

    fn waits(&self, view: &View<'_>) -> bool {
        (1..=WAITED_FOR_MAX).contains(&view.on_disk) && followed(view).is_some()
    }

    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        let chosen = self.near.choose(need, view)?;
        let Some(drives) = followed(view).filter(|_| view.on_disk == 0) else {
            return Some(chosen);
        };
        let near = || view.logs.near(drives.arm_at()).take(LOGS_LOOKED_AT);
        let has_room =
            |index: &u32| view.logs.is_claimed(*index) && view.logs.has_room(*index, need);
        let claimed = near().filter(has_room).take(LOGS_COMPARED);
        let places = claimed
            .filter_map(|log_index| place_in(Spot { log_index, ..chosen }, drives, need, view));
        let Some(Place { mut spot, is_dear, .. }) = places.min_by_key(|place| place.cost) else {
            return Some(chosen);
        };
        // Places are rare in logs that are nearly full: the next record is to have one more.
        if is_dear {
            let is_new = |index: &u32| !view.logs.is_claimed(*index) && !view.logs.is_full(*index);
            spot.wanted_index = near().find(is_new).unwrap_or(spot.wanted_index);
        }
        Some(spot)
    }

    fn leaves_out_bytes_max(&self, knows_tracks: bool) -> u64 {
        if knows_tracks { GAP_BYTES_MAX } else { 0 }
    }

    fn claims_ahead(&self) -> u32 {
        self.near.claims_ahead()
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::drive::Moved;
    use crate::disk::drives::Done;
    use crate::state::logs::Logs;
    use nearhead_disk::{Striping, TrackZone, Tracks, Turn, WholeRuns};
    use nearhead_format::Layout;
    use nearhead_format::layout::{LayoutKind, LayoutOptions};
    use std::sync::Arc;

    const PERIOD: Nanos = Nanos(8_000_000);
    const NEED: Need = Need { blocks: 2, reserve: 0 };

    fn logs() -> Logs {
        let options = LayoutOptions::new(LayoutKind::ManyLogsAnywhere);
        let mut logs = Logs::new(&Layout::plan(1 << 33, &options).unwrap(), false);
        for log in 0..20 {
            logs.note_claimed(log);
        }
        logs
    }

    fn tracks() -> Arc<Tracks> {
        let zone = TrackZone {
            first_byte: 0,
            track_bytes: 1 << 20,
            skew: Turn(1 << 28),
            group_tracks: 0,
            group_skew: Turn(0),
            group_bytes: 0,
        };
        Arc::new(Tracks::new(PERIOD.0 as f64, vec![zone]).unwrap())
    }

    /// A drive with tracks of 1 MiB, whose arm stands at log 7 since a transfer completed at 20 ms.
    fn drive(logs: &Logs) -> Drives {
        let mut drives = Drives::of(&[tracks()], None).unwrap();
        let read = Moved::new(logs.block_offset(7, 0).unwrap() - 4096, 4096, false);
        let done = Done::new(read, Nanos::from_millis(8), &[]);
        drives.completed(&done, Nanos::from_millis(20));
        drives
    }

    fn view<'a>(logs: &'a Logs, drives: Option<&'a Drives>, on_disk: u32) -> View<'a> {
        let now = Nanos::from_millis(21);
        View { logs, head_offset: 0, now, is_idle: on_disk == 0, on_disk, drives, disks: None }
    }

    fn under_head() -> UnderHead {
        UnderHead::beside(NearHead::default())
    }

    #[test]
    fn a_record_begins_just_behind_where_the_arm_arrives_in_the_log_nearest_it() {
        let logs = logs();
        let drive = drive(&logs);
        let view = view(&logs, Some(&drive), 0);
        let spot = under_head().choose(NEED, &view).unwrap();
        assert_eq!(spot.log_index, 7);
        let byte = logs.block_offset(7, spot.block).unwrap();
        let (drive, byte) = drive.part(byte);
        let wait = drive.wait(byte, view.now + drive.access(byte)).unwrap();
        assert!(wait.0 < PERIOD.0 / 10, "{spot:?} waits for {wait}");
    }

    #[test]
    fn what_is_taken_is_passed_over_and_used_once_it_is_free() {
        let mut logs = logs();
        let drive = drive(&logs);
        let choose = |logs: &Logs| under_head().choose(NEED, &view(logs, Some(&drive), 0)).unwrap();
        let first = choose(&logs);
        logs.advance(first.log_index, first.block, 2);
        let second = choose(&logs);
        assert_ne!(second, first);
        assert!(!logs.accepts(first.log_index, first.block, NEED));
        for _ in 0..2 {
            logs.snapshot_begins(&(0..20).collect::<Vec<_>>());
            logs.snapshot_committed();
        }
        assert!(logs.accepts(first.log_index, first.block, NEED), "nothing in it counts any more");
        let again = choose(&logs);
        assert!(again.block.abs_diff(first.block) <= NEED.blocks, "{again:?} after {first:?}");
    }

    #[test]
    fn where_no_place_passes_soon_one_more_log_is_wanted_for_the_next_record() {
        let mut logs = logs();
        let drive = drive(&logs);
        let choose = |logs: &Logs| under_head().choose(NEED, &view(logs, Some(&drive), 0)).unwrap();
        assert!(logs.is_claimed(choose(&logs).wanted_index), "there is room enough");
        // Of each log that is claimed one place is left: what passed just before the arm can be there.
        let first = choose(&logs);
        let before = first.block - 8;
        for log in 0..20 {
            logs.advance(log, 0, before);
            logs.advance(log, before + NEED.blocks, logs.blocks() - before - NEED.blocks);
        }
        let dear = choose(&logs);
        assert!(logs.is_claimed(dear.log_index) && !logs.is_claimed(dear.wanted_index), "{dear:?}");
    }

    #[test]
    fn logs_that_are_full_are_not_among_those_that_are_compared() {
        let mut logs = logs();
        let mut drives = drive(&logs);
        // Of the logs near the arm all are full but one, of which it is known how it is turned.
        let seen = Moved::new(logs.block_offset(13, 0).unwrap(), 4096, false);
        let back = Moved::new(logs.block_offset(7, 0).unwrap() - 4096, 4096, false);
        for (moved, at) in [(seen, 30), (back, 40)] {
            let done = Done::new(moved, Nanos::from_millis(at - 9), &[]);
            drives.completed(&done, Nanos::from_millis(at));
        }
        for log in 2..=12 {
            logs.advance(log, 0, logs.blocks());
        }
        let view = view(&logs, Some(&drives), 0);
        let spot = under_head().choose(NEED, &view).unwrap();
        assert_eq!(spot.log_index, 13, "{spot:?}");
        let (drive, byte) = drives.part(logs.block_offset(13, spot.block).unwrap());
        let wait = drive.wait(byte, view.now + drive.access(byte)).unwrap();
        assert!(wait.0 < PERIOD.0 / 10, "{spot:?} waits for {wait}");
    }

    #[test]
    fn on_an_array_a_record_goes_to_the_member_that_was_not_written_to_for_longest() {
        let logs = logs();
        let at = |log: u32| logs.block_offset(log, 0).unwrap();
        let (first_byte, every_bytes) = (at(0), at(1) - at(0));
        let bytes = u64::from(logs.blocks()) * logs.block_bytes() as u64;
        let runs = WholeRuns { first_byte, every_bytes, bytes };
        let striping = Striping::new(4, 64 << 10).unwrap().with_whole_runs(runs).unwrap();
        let tracks = tracks();
        let all = [&tracks, &tracks, &tracks, &tracks].map(Arc::clone);
        let mut drives = Drives::of(&all, Some(striping)).unwrap();
        let mut now = Nanos::from_millis(1);
        let mut write = |drives: &mut Drives, byte| {
            let done = Done::new(Moved::new(byte, 4096, true), now, &[]);
            now += Nanos::from_millis(9);
            drives.completed(&done, now);
        };
        for log in [7, 8, 9, 10] {
            write(&mut drives, at(log));
        }
        let mut members = Vec::new();
        for _ in 0..6 {
            let spot = under_head().choose(NEED, &view(&logs, Some(&drives), 0)).unwrap();
            members.push(spot.log_index % 4);
            write(&mut drives, logs.block_offset(spot.log_index, spot.block).unwrap());
        }
        assert_eq!(members, [3, 0, 1, 2, 3, 0]);
    }

    #[test]
    fn it_waits_for_few_commands_on_a_drive_that_is_known_and_for_nothing_else() {
        let logs = logs();
        let drive = drive(&logs);
        let waits = |drive, on_disk| under_head().waits(&view(&logs, drive, on_disk));
        let known =
            [0, 1, WAITED_FOR_MAX, WAITED_FOR_MAX + 1].map(|count| waits(Some(&drive), count));
        assert_eq!(known, [false, true, true, false]);
        assert!(!waits(None, 1));
    }

    #[test]
    fn of_a_drive_that_nobody_knows_it_goes_where_the_head_is_taken_to_be() {
        let logs = logs();
        let drive = drive(&logs);
        for (drive, on_disk) in [(None, 0), (Some(&drive), 4)] {
            let view = view(&logs, drive, on_disk);
            let near = NearHead::default().choose(NEED, &view);
            assert_eq!(under_head().choose(NEED, &view), near);
        }
    }
}
