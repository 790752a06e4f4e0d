//! Where in a log a record would begin soonest, on a drive of which it is known when its places pass.
//!
//! What is compared is the time until the record is written and the arm back, with what it costs on the average to come too late. It
//! only looks: who asks says in which part of the log, and chooses.

use super::{Drive, Drives, Need, View};
use nearhead_disk::Nanos;
use std::ops::Range;

/// A place that passes as soon as the arm should be there is missed now and then, which costs a revolution, and less often the later
/// it passes, up to this share of a revolution. Of 1/20, 1/10 and 1/5, and of guards of 50, 100 and 200 us on
/// a disk that turns in 4 ms, these kept most of a stream beside records (figure 2a, changed builds: 91.0 % instead of 90.6 without).
const GUARD_SHARE: u64 = 40;
/// Steps towards the block under the head: skews are met on the way.
const STEPS_MAX: usize = 4;

/// What is compared in one log, which lies on one drive.
pub(super) struct Search<'a> {
    log_index: u32,
    drives: &'a Drives,
    need: Need,
    view: &'a View<'a>,
    /// What costs least there and back, and how much.
    best: Option<(Nanos, u32)>,
}

/// A place that begins within this share of a revolution begins soon: on another track one would hardly begin sooner. With an eighth
/// records waited behind those before them on one track, while the next head had a free place at once (0.8 ms instead of 0.4, figure 3 of
/// Trail, sparse, 4 KiB).
const SOON_SHARE: u64 = 32;

/// A block, and what it takes until it passes.
struct Candidate {
    block: u32,
    wait: Nanos,
}

/// How the drive turns at a byte of it.
#[derive(Clone, Copy)]
struct Pace {
    period: Nanos,
    /// How long a block takes to pass.
    block_time: Nanos,
    track_blocks: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(log_index: u32, drives: &'a Drives, need: Need, view: &'a View<'a>) -> Self {
        Self { log_index, drives, need, view, best: None }
    }

    /// What costs least of all that was looked at: how much there and back, and where.
    pub(super) fn best(&self) -> Option<(Nanos, u32)> {
        self.best
    }

    /// The drive on which a block is, and where it is there.
    fn part(&self, block: u32) -> Option<(&'a Drive, u64)> {
        Some(self.drives.part(self.view.logs.block_offset(self.log_index, block)?))
    }

    fn pace_at(&self, block: u32) -> Option<Pace> {
        let (drive, byte) = self.part(block)?;
        let (block_bytes, track_bytes) =
            (self.view.logs.block_bytes() as u64, drive.track_bytes(byte));
        let period = drive.period();
        Some(Pace {
            period,
            block_time: Nanos((period.0 * block_bytes / track_bytes).max(1)),
            track_blocks: ((track_bytes / block_bytes) as usize).max(1),
        })
    }

    /// How long until the block passes once the arm is there, if that is known.
    fn look_at(&self, block: u32) -> Option<Candidate> {
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
        let risk = Nanos(drive.cost_of_missing().0 * short_by / guard);
        let doubt = if drive.is_guess(byte) { drive.period().0 / 4 } else { 0 };
        Some((ways + risk + Nanos(doubt) + wait + drive.transfer(byte, bytes), block))
    }

    fn take(&mut self, candidate: &Candidate) {
        let Some(found) = self.cost(candidate.block, candidate.wait) else { return };
        self.best = Some(self.best.map_or(found, |best| best.min(found)));
    }

    /// From a block that passes too soon to one behind it that is under the head in time.
    fn go_on_from(&mut self, start: u32, pace: Pace) -> Option<()> {
        let mut candidate = self.look_at(start)?;
        for _ in 0..STEPS_MAX {
            let ahead = (pace.period - candidate.wait).0.div_ceil(pace.block_time.0);
            let behind = candidate.block.saturating_add(ahead as u32);
            let block = self.view.logs.place_from(self.log_index, behind, self.need)?;
            candidate = self.look_at(block)?;
            self.take(&candidate);
            // Behind what is taken, or a skew that was met on the way: anything but just missed will do.
            if candidate.wait.0 < pace.period.0 / 2 {
                break;
            }
        }
        Some(())
    }

    /// All of the log, of which at most so many tracks. Where nobody knows what turns how, its first place for half a revolution.
    pub(super) fn whole(mut self, tracks_max: usize) -> Option<(Nanos, u32)> {
        let first = self.view.logs.next_place(self.log_index, self.need)?;
        let pace = self.pace_at(first)?;
        let Some(candidate) = self.look_at(first) else {
            return self.cost(first, Nanos(pace.period.0 / 2));
        };
        self.take(&candidate);
        self.go_on_from(first, pace);
        if self.view.logs.take_records_anywhere() {
            for start in (0..self.view.logs.blocks()).step_by(pace.track_blocks).take(tracks_max) {
                self.go_on_from(start, pace);
            }
        }
        self.best
    }

    /// One track: what is under the head when the arm is there, or what comes behind it, or what of the track comes first.
    pub(super) fn track(&mut self, blocks: &Range<u32>) {
        let Some(first) = self.place_on(blocks, blocks.start) else { return };
        let (Some(pace), Some(at_start)) = (self.pace_at(first), self.look_at(blocks.start)) else {
            // Nobody knows when any of it passes.
            let wait =
                self.part(first).map_or(Nanos::ZERO, |(drive, _)| Nanos(drive.period().0 / 2));
            return self.take(&Candidate { block: first, wait });
        };
        let ahead = (pace.period - at_start.wait).0.div_ceil(pace.block_time.0);
        let under_head = blocks.start.saturating_add(ahead as u32);
        let behind = self.place_on(blocks, under_head);
        for block in [behind, Some(first)].into_iter().flatten() {
            if let Some(candidate) = self.look_at(block) {
                self.take(&candidate);
            }
        }
    }

    /// Whether a record would begin at this place soon once the arm is there.
    pub(super) fn is_soon(&self, block: u32) -> bool {
        let soon = || {
            let (drive, _) = self.part(block)?;
            Some(self.look_at(block)?.wait.0 < drive.period().0 / SOON_SHARE)
        };
        soon().unwrap_or(false)
    }

    /// The first place on a track from a block of it on. A record that is longer than what is left of it goes on behind it.
    fn place_on(&self, blocks: &Range<u32>, from: u32) -> Option<u32> {
        let place = self.view.logs.place_from(self.log_index, from, self.need)?;
        (place < blocks.end).then_some(place)
    }
}
