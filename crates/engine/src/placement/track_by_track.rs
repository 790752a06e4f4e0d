//! `track_by_track`: a device that has nothing but logs is filled track by track, and each record begins where the head arrives (Trail,
//! sections 3 and 4.2).
//!
//! The head stays on a track while less than a stated share of it was taken since it came there; then the next one takes the records, and
//! behind the last track of a log the next log does, so that the device goes round. Where no place of the track passes soon, the tracks
//! behind it are looked at as well. While nothing else is to be done the arm is taken to where the next record will go, and its place in the
//! revolution is looked up again now and then ([`Placement::repositions`]).
//!
//! Where nobody knows where tracks are, or what was predicted does not hold, one record follows the other.

use super::passing::Search;
use super::{Drives, Need, Placement, Reposition, Seen, Spot, View};
use nearhead_disk::Nanos;
use std::ops::Range;

/// Tracks behind the one in use that are looked at for a place: of those near it one is nearly always free.
const TRACKS_AHEAD: u32 = 6;
/// Logs that are looked at for room behind the one in use.
const LOGS_AHEAD: u32 = 1 << 16;
/// The arm is not taken to the next track before nothing was to be done for so long: a client that writes as soon as it is answered
/// would wait for it. Four requests a revolution at 5,400 turns a minute.
const IDLE_BEFORE_REPOSITION: Nanos = Nanos::from_millis(3);
/// Where it is in the revolution is looked up again after so long without anything: a spindle a hundred-thousandth off has turned
/// by 10 us more or less then.
const LOOKED_UP_EVERY: Nanos = Nanos::from_secs(1);

/// Without a record for so long nobody looks it up any more, and a drive may go to sleep: the first record then may come late.
const LOOKED_UP_FOR: Nanos = Nanos::from_secs(60);

/// Where the head is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Track {
    log_index: u32,
    blocks: Range<u32>,
    /// Blocks that took records since the head came here.
    used: u32,
}

/// Records under the head, track by track.
#[derive(Clone, Debug)]
pub struct TrackByTrack {
    use_max_pct: u32,
    track: Option<Track>,
    /// The record on its way.
    leaving: Option<Spot>,
    /// The log and the block behind the newest record.
    last: Option<(u32, u32)>,
    /// When a record, or the arm that was sent on, arrived last; and whether the arm was sent to the track in use.
    seen_at: Nanos,
    is_there: bool,
    /// When a record completed last.
    record_at: Nanos,
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
        let (track, leaving, last) = (None, None, None);
        let (seen_at, record_at) = (Nanos::ZERO, Nanos::ZERO);
        Self { use_max_pct, track, leaving, last, seen_at, is_there: false, record_at }
    }

    /// The track that holds a block, as blocks of its log.
    fn track_at(view: &View<'_>, drives: &Drives, log_index: u32, block: u32) -> Option<Track> {
        let logs = view.logs;
        let start = logs.block_offset(log_index, 0)?;
        let (drive, byte) = drives.part(logs.block_offset(log_index, block)?);
        let bytes = drive.track_of(byte);
        let to_block = |at: u64| (at.saturating_sub(start)).div_ceil(logs.block_bytes() as u64);
        let first = to_block(bytes.start).min(u64::from(block)) as u32;
        let end = to_block(bytes.end).clamp(u64::from(block) + 1, u64::from(logs.blocks())) as u32;
        Some(Track { log_index, blocks: first..end, used: 0 })
    }

    /// The track behind this one: that of the next log with room, where the log ends.
    fn behind(view: &View<'_>, drives: &Drives, need: Need, track: &Track) -> Option<Track> {
        if track.blocks.end < view.logs.blocks() {
            return Self::track_at(view, drives, track.log_index, track.blocks.end);
        }
        let next = next_log(view, need, track.log_index, true)?;
        Self::track_at(view, drives, next, view.logs.place_from(next, 0, need)?)
    }

    fn is_used_up(&self, track: &Track) -> bool {
        let blocks = track.blocks.end - track.blocks.start;
        u64::from(track.used) * 100 > u64::from(blocks) * u64::from(self.use_max_pct)
    }

    /// The track where the next record is to go, if no other is better.
    fn here(&self, view: &View<'_>, drives: &Drives, need: Need) -> Option<Track> {
        let track = match (&self.track, self.last) {
            (Some(track), _) => track.clone(),
            (None, Some((log_index, block))) => {
                let block = block.min(view.logs.blocks().saturating_sub(1));
                Self::track_at(view, drives, log_index, block)?
            }
            (None, None) => {
                let log_index = view.logs.nearest_claimed(view.head_offset, need)?;
                let block = view.logs.next_place(log_index, need)?;
                Self::track_at(view, drives, log_index, block)?
            }
        };
        if self.is_used_up(&track) || !view.logs.is_claimed(track.log_index) {
            return Self::behind(view, drives, need, &track).or(Some(track));
        }
        Some(track)
    }

    /// The place that costs least of the track in use; where none of it passes soon of those behind it as well.
    fn under_head(&self, need: Need, view: &View<'_>, drives: &Drives) -> Option<Spot> {
        let mut track = self.here(view, drives, need)?;
        let mut best: Option<(Nanos, u32, u32)> = None;
        for _ in 0..=TRACKS_AHEAD {
            let log_index = track.log_index;
            if view.logs.is_claimed(log_index) {
                let mut search = Search::new(log_index, drives, need, view);
                search.track(&track.blocks);
                let found = search.best();
                let is_soon = found.is_some_and(|(_, block)| search.is_soon(block));
                let found = found.map(|(cost, block)| (cost, log_index, block));
                best = [best, found].into_iter().flatten().min();
                if is_soon {
                    break;
                }
            }
            let Some(next) = Self::behind(view, drives, need, &track) else { break };
            track = next;
        }
        best.map(|(_, log_index, block)| Spot { log_index, block, wanted_index: log_index })
    }

    /// One record behind the other.
    fn in_order(&self, need: Need, view: &View<'_>) -> Option<Spot> {
        let spot = |log_index, block| Some(Spot { log_index, block, wanted_index: log_index });
        let Some((log_index, block)) = self.last.filter(|(log, _)| view.logs.is_claimed(*log))
        else {
            let log_index = view.logs.nearest_claimed(view.head_offset, need)?;
            return spot(log_index, view.logs.next_place(log_index, need)?);
        };
        if let Some(block) = view.logs.place_from(log_index, block, need) {
            return spot(log_index, block);
        }
        let next = next_log(view, need, log_index, true).unwrap_or(log_index);
        spot(next, view.logs.next_place(next, need)?)
    }
}

/// The next log with room behind one, going round; of those that may be written if it is to be so.
fn next_log(view: &View<'_>, need: Need, log_index: u32, is_claimed: bool) -> Option<u32> {
    let count = view.logs.count();
    let others = (1..count.min(LOGS_AHEAD)).map(|step| (log_index + step) % count);
    let mut with_room = others.filter(|log| view.logs.has_room(*log, need));
    with_room.find(|log| !is_claimed || view.logs.is_claimed(*log))
}

impl Placement for TrackByTrack {
    fn seen(&mut self, seen: &Seen, view: &View<'_>) {
        let Seen::Completed(done) = seen else {
            if let Seen::RecordLeaves { spot } = seen {
                self.leaving = Some(*spot);
            }
            return;
        };
        self.seen_at = view.now;
        let Some((log_index, end)) = done.record_end else {
            return;
        };
        (self.last, self.record_at) = (Some((log_index, end)), view.now);
        let Some(drives) = view.drives else { return };
        let Some(spot) = self.leaving.take() else { return };
        let taken = end.saturating_sub(spot.block);
        let is_here = self.track.as_ref().is_some_and(|track| {
            track.log_index == log_index && track.blocks.contains(&spot.block)
        });
        if !is_here || self.track.as_ref().is_some_and(|track| track.blocks.end < end) {
            // Where it ended, if it went over several tracks.
            self.track = Self::track_at(view, drives, log_index, end.saturating_sub(1));
        }
        let Some(track) = &mut self.track else { return };
        track.used += taken.min(end.saturating_sub(track.blocks.start));
        self.is_there = self.track.as_ref().is_some_and(|track| !self.is_used_up(track));
    }

    /// Nothing but records moves its arm, so that it is soon done with whatever there is.
    fn waits(&self, view: &View<'_>) -> bool {
        view.on_disk > 0 && followed(view).is_some()
    }

    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        let spot = match followed(view).filter(|_| view.on_disk == 0) {
            Some(drives) => self.under_head(need, view, drives),
            None => None,
        };
        let spot = spot.or_else(|| self.in_order(need, view))?;
        // The next log may be written once this record is durable.
        let next = next_log(view, need, spot.log_index, false);
        let wanted = next.filter(|next| !view.logs.is_claimed(*next));
        Some(Spot { wanted_index: wanted.unwrap_or(spot.log_index), ..spot })
    }

    fn claims_ahead(&self) -> u32 {
        1
    }

    /// The one in use and the next one: it never goes back.
    fn claims_kept(&self) -> usize {
        2
    }

    fn repositions(&self, view: &View<'_>) -> Option<Reposition> {
        let drives = followed(view)?;
        if self.last.is_none() || view.now.since(self.record_at) > LOOKED_UP_FOR {
            return None;
        }
        let track = self.here(view, drives, Need { blocks: 1, reserve: 0 })?;
        let start = view.logs.block_offset(track.log_index, track.blocks.start)?;
        let (drive, byte) = drives.part(start);
        let goes = !self.is_there && drive.is_sooner_behind_read(byte);
        let due_at = if goes { IDLE_BEFORE_REPOSITION } else { LOOKED_UP_EVERY };
        // What passes when the arm is there: to read anything else would be to wait for it.
        let bytes = view.logs.block_bytes() as u64;
        let wait = drive.wait(byte, view.now + drive.read_access(byte)).unwrap_or(Nanos::ZERO);
        let block_time = (drive.period().0 * bytes / drive.track_bytes(byte)).max(1);
        let ahead = (drive.period() - wait).0.div_ceil(block_time) as u32;
        let block = (track.blocks.start + ahead).min(track.blocks.end - 1);
        let offset = view.logs.block_offset(track.log_index, block)?;
        Some(Reposition { at: self.seen_at + due_at, offset })
    }

    fn repositioned(&mut self, view: &View<'_>) {
        self.seen_at = view.now;
        let Some(drives) = view.drives else { return };
        self.track = self.here(view, drives, Need { blocks: 1, reserve: 0 });
        self.is_there = true;
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
