//! `under_head`: the block of the nearest log that will be under the head when the arm is there.
//!
//! Where a drive's tracks are known ([`Drive`]), a record waits until nothing is on the disk, as otherwise nobody but the drive knows
//! when the arm is free, and then leaves out the blocks that the head passes too soon: a recovery looks that far. Of the logs around
//! the arm the one is taken that costs least there and back; if it has no place that passes soon, one more is wanted for the next
//! record. Where nothing is known, or what was predicted does not hold, [`NearHead`] answers.

use super::{Drive, Drives, NearHead, Need, Placement, Seen, Spot, View};
use nearhead_disk::Nanos;

/// Logs around the head that are compared.
const LOGS_COMPARED: usize = 8;
/// Logs around the head among which those are found.
const LOGS_LOOKED_AT: usize = 64;
/// With more commands than so many on the disk a record does not wait for the end of all.
const WAITED_FOR_MAX: u32 = 3;
/// A place that passes as soon as the arm should be there is missed once in so many times, which costs a revolution...
const MISSED_ONE_IN: u64 = 10;
/// ...and less often the later it passes, up to this share of a revolution. Of 1/20, 1/10 and 1/5, and of guards of 50, 100 and 200 us on
/// a disk that turns in 4 ms, these kept most of a stream beside records (figure 2a, changed builds: 91.0 % instead of 90.6 without).
const GUARD_SHARE: u64 = 40;
/// On an array, for each member that was written to longer ago a log costs this share of a revolution more: who writes falls behind the
/// others in a stream over all of them, and who has not for long has read ahead. Of none, 1/4 and 1/2 of a revolution the last kept
/// most of a stream beside records (figure 3a at 320 writes/s, changed builds).
const RESTED_SHARE: u64 = 2;
/// Tracks of a log that are compared.
const TRACKS_MAX: usize = 64;
/// Steps towards the block under the head: skews are met on the way.
const STEPS_MAX: usize = 4;

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

/// What is compared in one log, which lies on one drive.
struct Search<'a> {
    log_index: u32,
    drives: &'a Drives,
    need: Need,
    view: &'a View<'a>,
    /// What costs least there and back, and how much.
    best: Option<(Nanos, u32)>,
}

/// A block, and what it takes until it passes.
struct Candidate {
    block: u32,
    wait: Nanos,
}

impl<'a> Search<'a> {
    /// The drive on which a block is, and where it is there.
    fn part(&self, block: u32) -> Option<(&'a Drive, u64)> {
        Some(self.drives.part(self.view.logs.block_offset(self.log_index, block)?))
    }

    /// One that is free, if it is known when it passes.
    fn look_at(&mut self, block: u32) -> Option<Candidate> {
        let (drive, byte) = self.part(block)?;
        let wait = drive.wait(byte, self.view.now + drive.access(byte))?;
        Some(Candidate { block, wait })
    }

    /// What a record takes there behind a `wait`: the way, the record (longer where it goes on behind the end of a track), the way
    /// back, and what it costs on the average to come too late. Where the angle is a guess it is wrong every other time or so, by
    /// half a revolution.
    fn cost(&self, block: u32, wait: Nanos) -> Option<(Nanos, u32)> {
        let (drive, byte) = self.part(block)?;
        let bytes = u64::from(self.need.blocks) * self.view.logs.block_bytes() as u64;
        let ways = drive.access(byte) + drive.way_back(byte, self.view.now);
        let guard = drive.period().0 / GUARD_SHARE;
        let short_by = guard.saturating_sub(wait.0);
        let risk = Nanos(drive.period().0 * short_by / (guard * MISSED_ONE_IN));
        let doubt = if drive.is_guess(byte) { drive.period().0 / 4 } else { 0 };
        Some((ways + risk + Nanos(doubt) + wait + drive.transfer(byte, bytes), block))
    }

    fn take(&mut self, candidate: &Candidate) {
        let Some(found) = self.cost(candidate.block, candidate.wait) else { return };
        self.best = Some(self.best.map_or(found, |best| best.min(found)));
    }

    /// From a block that passes too soon to one behind it that is under the head in time.
    fn go_on_from(&mut self, start: u32, period: Nanos, block_time: Nanos) -> Option<()> {
        let mut candidate = self.look_at(start)?;
        for _ in 0..STEPS_MAX {
            let ahead = (period - candidate.wait).0.div_ceil(block_time.0);
            let behind = candidate.block.saturating_add(ahead as u32);
            let block = self.view.logs.place_from(self.log_index, behind, self.need)?;
            candidate = self.look_at(block)?;
            self.take(&candidate);
            // Behind what is taken, or a skew that was met on the way: anything but just missed will do.
            if candidate.wait.0 < period.0 / 2 {
                break;
            }
        }
        Some(())
    }
}

/// The best place in a log, and what it costs there and back.
fn best_in(log_index: u32, drives: &Drives, need: Need, view: &View<'_>) -> Option<(Nanos, u32)> {
    let logs = view.logs;
    let first = logs.next_place(log_index, need)?;
    let mut search = Search { log_index, drives, need, view, best: None };
    let (drive, first_byte) = search.part(first)?;
    let period = drive.period();
    let Some(candidate) = search.look_at(first) else {
        return search.cost(first, Nanos(period.0 / 2));
    };
    search.take(&candidate);
    let (block_bytes, track_bytes) = (logs.block_bytes() as u64, drive.track_bytes(first_byte));
    let block_time = Nanos((period.0 * block_bytes / track_bytes).max(1));
    search.go_on_from(first, period, block_time);
    if logs.take_records_anywhere() {
        let track_blocks = ((track_bytes / block_bytes) as usize).max(1);
        for start in (0..logs.blocks()).step_by(track_blocks).take(TRACKS_MAX) {
            search.go_on_from(start, period, block_time);
        }
    }
    search.best
}

/// The best place of a log, beside those of others.
struct Place {
    spot: Spot,
    cost: Nanos,
    /// It costs more than half a revolution beside the ways.
    is_dear: bool,
}

fn place_in(spot: Spot, drives: &Drives, need: Need, view: &View<'_>) -> Option<Place> {
    let (cost, block) = best_in(spot.log_index, drives, need, view)?;
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
        View { logs, head_offset: 0, now, is_idle: on_disk == 0, on_disk, drives }
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
        assert!(wait.0 < PERIOD.0 / MISSED_ONE_IN, "{spot:?} waits for {wait}");
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
        assert!(wait.0 < PERIOD.0 / MISSED_ONE_IN, "{spot:?} waits for {wait}");
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
