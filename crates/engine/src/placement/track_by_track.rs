//! `track_by_track`: devices that have nothing but logs are filled track by track, and each record begins where the head arrives (Trail,
//! sections 3 and 4.2).
//!
//! The head stays on a track while less than a stated share of it was taken since it came there; then the next one takes the records, and
//! behind the last track of a log the next log does, so that the device goes round. Where no place of the track passes soon, the tracks
//! behind it are looked at as well. While nothing else is to be done the arm is taken to where the next record will go, and its place in the
//! revolution is looked up again now and then ([`Placement::repositions`]).
//!
//! Of several log disks the one takes a record on which it would be written soonest, while the arms of others are on their way to their next
//! tracks. One that did not take a record is passed over for a while.
//!
//! Where nobody knows where tracks are, or what was predicted does not hold, one record follows the other; of several disks the one is next
//! that rested longest.

use super::track_arm::TrackArm;
use super::{Drives, Need, Placement, Reposition, Seen, Spot, View};
use crate::state::logs::GAP_BYTES_MAX;
use nearhead_disk::Nanos;

/// Without a record for so long nobody looks it up any more, and a drive may go to sleep: the first record then may come late.
const LOOKED_UP_FOR: Nanos = Nanos::from_secs(60);

/// Records under the head, track by track.
#[derive(Clone, Debug)]
pub struct TrackByTrack {
    use_max_pct: u32,
    /// One of each disk that has logs, once it is known which there are.
    arms: Vec<TrackArm>,
    /// Records that left.
    turn: u64,
}

impl Default for TrackByTrack {
    fn default() -> Self {
        Self::leaving_at_pct(Self::USE_MAX_PCT)
    }
}

impl TrackByTrack {
    /// The share of a track, in hundredths, at which the head leaves it (Trail, section 4.2).
    pub const USE_MAX_PCT: u32 = 30;

    /// One that goes to the next track once more than so much of one is taken.
    pub fn leaving_at_pct(use_max_pct: u32) -> Self {
        Self { use_max_pct, arms: Vec::new(), turn: 0 }
    }

    /// There is an arm for each disk that has logs.
    fn meet(&mut self, view: &View<'_>) {
        if !self.arms.is_empty() {
            return;
        }
        let all = 0..view.logs.count();
        let devices = view.logs.by_device().filter(|_| view.disks.is_some());
        let mut arms: Vec<TrackArm> =
            devices.map(|logs| TrackArm::new(logs, self.use_max_pct)).collect();
        if arms.is_empty() {
            arms.push(TrackArm::new(all, self.use_max_pct));
        }
        self.arms = arms;
    }

    fn arm_of_log(&mut self, log_index: u32) -> Option<&mut TrackArm> {
        self.arms.iter_mut().find(|arm| arm.has(log_index))
    }

    /// The arm of the disk of which a byte of a log is; with one disk all is its.
    fn arm_at(&mut self, view: &View<'_>, address: u64) -> Option<&mut TrackArm> {
        let is_alone = self.arms.len() == 1;
        self.arms.iter_mut().find(|arm| is_alone || arm.has_byte(view, address))
    }

    /// Those whose disks take records.
    fn there<'a>(&'a self, view: &'a View<'_>) -> impl Iterator<Item = &'a TrackArm> {
        self.arms.iter().filter(|arm| !arm.is_lost(view))
    }

    /// The place where a record would be written soonest, of all disks that are known and have nothing to do.
    fn soonest(&self, need: Need, view: &View<'_>) -> Option<Spot> {
        let spots = self.there(view).filter_map(|arm| {
            let of = arm.of(view);
            let drives = followed(&of).filter(|_| of.on_disk == 0)?;
            let (cost, spot) = arm.under_head(need, &of, drives)?;
            Some((arm.rests(view.now), cost, spot.log_index, spot))
        });
        let soonest = spots.min_by_key(|(rests, cost, log_index, _)| (*rests, *cost, *log_index));
        soonest.map(|(.., spot)| spot)
    }

    /// Behind the last record of the disk that rested longest.
    fn in_order(&self, need: Need, view: &View<'_>) -> Option<Spot> {
        let mut arms: Vec<&TrackArm> = self.there(view).collect();
        arms.sort_by_key(|arm| (arm.rests(view.now), arm.of(view).on_disk > 0, arm.turn));
        arms.into_iter().find_map(|arm| arm.in_order(need, &arm.of(view)))
    }

    /// The log that a record at `spot` is to claim: of a disk that has none for records, or the next one of its own.
    fn wanted(&self, spot: Spot, need: Need, view: &View<'_>) -> Option<u32> {
        let unused = self.there(view).find(|arm| !arm.may_be_used(view, need));
        let first = unused.and_then(|arm| arm.first_wanted(view, need));
        let own = self.arms.iter().find(|arm| arm.has(spot.log_index));
        first.or_else(|| own?.wanted(view, need, spot.log_index))
    }
}

impl Placement for TrackByTrack {
    fn seen(&mut self, seen: &Seen, view: &View<'_>) {
        self.meet(view);
        match seen {
            Seen::RecordLeaves { spot } => {
                self.turn += 1;
                let turn = self.turn;
                if let Some(arm) = self.arm_of_log(spot.log_index) {
                    arm.leaves(*spot, turn);
                }
            }
            Seen::Completed(done) => {
                let arm = match done.record_end {
                    Some((log_index, _)) => self.arm_of_log(log_index),
                    None => self.arm_at(view, done.offset),
                };
                if let Some(arm) = arm {
                    let of = arm.of(view);
                    arm.completed(done, &of);
                }
            }
        }
    }

    /// Nothing but records moves its arm, so that it is soon done with whatever there is.
    fn waits(&self, view: &View<'_>) -> bool {
        let is_busy = |view: &View<'_>| view.on_disk > 0 && followed(view).is_some();
        if view.disks.is_none() {
            return is_busy(view);
        }
        let need = Need { blocks: 1, reserve: 0 };
        let mut used = self.there(view).filter(|arm| arm.may_be_used(view, need)).peekable();
        used.peek().is_some() && used.all(|arm| is_busy(&arm.of(view)))
    }

    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        self.meet(view);
        let spot = self.soonest(need, view).or_else(|| self.in_order(need, view))?;
        // The next log may be written once this record is durable.
        let wanted = self.wanted(spot, need, view);
        Some(Spot { wanted_index: wanted.unwrap_or(spot.log_index), ..spot })
    }

    fn leaves_out_bytes_max(&self, knows_tracks: bool) -> u64 {
        if knows_tracks { GAP_BYTES_MAX } else { 0 }
    }

    fn claims_ahead(&self) -> u32 {
        1
    }

    /// The one in use and the next one of each disk: it never goes back.
    fn claims_kept(&self) -> usize {
        2 * self.arms.len().max(1)
    }

    fn goes_on_in(&self) -> Vec<u32> {
        let is_alone = self.arms.len() < 2;
        self.arms.iter().filter(|_| !is_alone).filter_map(TrackArm::log).collect()
    }

    fn repositions(&self, view: &View<'_>) -> Option<Reposition> {
        let record_at = self.arms.iter().map(|arm| arm.record_at).max()?;
        if view.now.since(record_at) > LOOKED_UP_FOR {
            return None;
        }
        let is_alone = self.arms.len() == 1;
        let due = self.there(view).filter_map(|arm| {
            let of = arm.of(view);
            let drives = followed(&of).filter(|_| of.is_idle)?;
            let is_other = |other: &&TrackArm| !std::ptr::eq(*other, arm);
            let another_is_ready = !is_alone
                && self
                    .there(view)
                    .filter(is_other)
                    .any(|other| other.is_ready() && followed(&other.of(view)).is_some());
            arm.repositions(&of, drives, another_is_ready)
        });
        due.min_by_key(|due| due.at)
    }

    fn repositioned(&mut self, offset: u64, view: &View<'_>) {
        if let Some(arm) = self.arm_at(view, offset) {
            let of = arm.of(view);
            arm.repositioned(&of);
        }
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

/// The drives, if they are to be followed.
fn followed<'a>(view: &View<'a>) -> Option<&'a Drives> {
    view.drives.filter(|drives| drives.is_followed())
}

#[cfg(test)]
#[path = "track_by_track_tests.rs"]
mod tests;
