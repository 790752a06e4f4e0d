//! One arm of `track_by_track`: the track of a log disk that takes records, and where on it the next one begins.
//!
//! It knows its own disk only. Which of several takes a record, and what is claimed, its owner says.

use super::passing::Search;
use super::{Completed, Drives, Need, Reposition, Spot, View};
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
pub(super) const LOOKED_UP_EVERY: Nanos = Nanos::from_secs(1);
/// A disk that did not take a record is passed over for so long, if another one takes it: less than the log rests that failed, so that a
/// disk of which no log takes anything is soon known (`state/logs/lost.rs`).
const RESTS_AFTER_FAILURE: Nanos = Nanos::from_millis(100);

/// Where the head is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Track {
    log_index: u32,
    blocks: Range<u32>,
    /// Blocks that took records since the head came here.
    used: u32,
}

/// The arm.
#[derive(Clone, Debug)]
pub(super) struct TrackArm {
    use_max_pct: u32,
    /// The logs of its disk.
    logs: Range<u32>,
    pub(super) track: Option<Track>,
    /// The record on its way.
    leaving: Option<Spot>,
    /// The log and the block behind the newest record.
    pub(super) last: Option<(u32, u32)>,
    /// When a record, or the arm that was sent on, arrived last; and whether the arm was sent to the track in use.
    pub(super) seen_at: Nanos,
    is_there: bool,
    /// When a record completed last.
    pub(super) record_at: Nanos,
    /// How many records had left for any disk when one left for its own last.
    pub(super) turn: u64,
    /// It did not take the last one, and is passed over until then.
    rests_until: Nanos,
}

impl TrackArm {
    /// Of a disk with these logs, which goes to the next track once more than so much of one is taken.
    pub(super) fn new(logs: Range<u32>, use_max_pct: u32) -> Self {
        Self {
            use_max_pct,
            logs,
            track: None,
            leaving: None,
            last: None,
            seen_at: Nanos::ZERO,
            is_there: false,
            record_at: Nanos::ZERO,
            turn: 0,
            rests_until: Nanos::ZERO,
        }
    }

    /// The view of its own disk.
    pub(super) fn of<'a>(&self, view: &View<'a>) -> View<'a> {
        view.of_log(self.logs.start)
    }

    /// Whether a log is on its disk.
    pub(super) fn has(&self, log_index: u32) -> bool {
        self.logs.contains(&log_index)
    }

    /// Whether a byte is in one of its logs.
    pub(super) fn has_byte(&self, view: &View<'_>, address: u64) -> bool {
        let last_block = view.logs.blocks().saturating_sub(1);
        let first = view.logs.block_offset(self.logs.start, 0);
        let last = view.logs.block_offset(self.logs.end.saturating_sub(1), last_block);
        first.zip(last).is_some_and(|(first, last)| (first..=last).contains(&address))
    }

    /// Whether its disk takes nothing any more.
    pub(super) fn is_lost(&self, view: &View<'_>) -> bool {
        view.logs.is_lost(self.logs.start)
    }

    /// Whether its disk is passed over, if another one takes a record.
    pub(super) fn rests(&self, now: Nanos) -> bool {
        now < self.rests_until
    }

    /// The log in use.
    pub(super) fn log(&self) -> Option<u32> {
        self.last.map(|(log_index, _)| log_index)
    }

    /// Whether a record may go to its disk: some log of it is claimed and has room.
    pub(super) fn may_be_used(&self, view: &View<'_>, need: Need) -> bool {
        let in_use = self.log().filter(|log| view.logs.is_claimed(*log));
        in_use.is_some_and(|log| view.logs.has_room(log, need)) || self.first(view, need).is_some()
    }

    /// Where it begins when nothing was written to its disk yet.
    fn first(&self, view: &View<'_>, need: Need) -> Option<u32> {
        if view.disks.is_none() {
            return view.logs.nearest_claimed(view.head_offset, need);
        }
        view.logs.first_claimed_in(self.logs.clone(), need)
    }

    /// The track that holds a block, as blocks of its log.
    fn track_at(view: &View<'_>, drives: &Drives, log_index: u32, block: u32) -> Option<Track> {
        let logs = view.logs;
        let start = logs.block_offset(log_index, 0)?;
        let at = logs.block_offset(log_index, block)?;
        let (drive, byte) = drives.part(at);
        let bytes = drive.track_of(byte);
        // By the volume's addresses, in which the log begins.
        let to_address = |of_drive: u64| (of_drive + at).saturating_sub(byte);
        let to_block =
            |at: u64| to_address(at).saturating_sub(start).div_ceil(logs.block_bytes() as u64);
        let first = to_block(bytes.start).min(u64::from(block)) as u32;
        let end = to_block(bytes.end).clamp(u64::from(block) + 1, u64::from(logs.blocks())) as u32;
        Some(Track { log_index, blocks: first..end, used: 0 })
    }

    /// The track behind this one: that of the next log with room, where the log ends.
    fn behind(&self, view: &View<'_>, drives: &Drives, need: Need, track: &Track) -> Option<Track> {
        if track.blocks.end < view.logs.blocks() {
            return Self::track_at(view, drives, track.log_index, track.blocks.end);
        }
        let next = self.next_log(view, need, track.log_index, true)?;
        Self::track_at(view, drives, next, view.logs.place_from(next, 0, need)?)
    }

    /// The next log with room behind one, going round its disk; of those that may be written if it is to be so.
    fn next_log(
        &self,
        view: &View<'_>,
        need: Need,
        log_index: u32,
        is_claimed: bool,
    ) -> Option<u32> {
        let count = self.logs.len() as u32;
        let within = log_index.saturating_sub(self.logs.start);
        let others = 1..count.min(LOGS_AHEAD);
        let others = others.map(|step| self.logs.start + (within + step) % count);
        let mut with_room = others.filter(|log| view.logs.has_room(*log, need));
        with_room.find(|log| !is_claimed || view.logs.is_claimed(*log))
    }

    /// The log that is to be claimed for it, so that one is ready once this one is full: none if the next one is.
    pub(super) fn wanted(&self, view: &View<'_>, need: Need, log_index: u32) -> Option<u32> {
        let next = self.next_log(view, need, log_index, false);
        next.filter(|next| !view.logs.is_claimed(*next))
    }

    /// The log to be claimed where none of its disk may be written.
    pub(super) fn first_wanted(&self, view: &View<'_>, need: Need) -> Option<u32> {
        let in_use = self.log().unwrap_or(self.logs.start);
        let here = Some(in_use).filter(|log| view.logs.has_room(*log, need));
        here.or_else(|| self.next_log(view, need, in_use, false))
    }

    pub(super) fn is_used_up(&self, track: &Track) -> bool {
        let blocks = track.blocks.end - track.blocks.start;
        u64::from(track.used) * 100 > u64::from(blocks) * u64::from(self.use_max_pct)
    }

    /// Whether the track in use takes another record.
    pub(super) fn is_ready(&self) -> bool {
        self.track.as_ref().is_some_and(|track| self.is_there || !self.is_used_up(track))
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
                let log_index = self.first(view, need)?;
                let block = view.logs.next_place(log_index, need)?;
                Self::track_at(view, drives, log_index, block)?
            }
        };
        if self.is_used_up(&track) || !view.logs.is_claimed(track.log_index) {
            return self.behind(view, drives, need, &track).or(Some(track));
        }
        Some(track)
    }

    /// The place that costs least of the track in use, and how much; where none of it passes soon of those behind it as well.
    pub(super) fn under_head(
        &self,
        need: Need,
        view: &View<'_>,
        drives: &Drives,
    ) -> Option<(Nanos, Spot)> {
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
            let Some(next) = self.behind(view, drives, need, &track) else { break };
            track = next;
        }
        let (cost, log_index, block) = best?;
        Some((cost, Spot { log_index, block, wanted_index: log_index }))
    }

    /// One record behind the other.
    pub(super) fn in_order(&self, need: Need, view: &View<'_>) -> Option<Spot> {
        let spot = |log_index, block| Some(Spot { log_index, block, wanted_index: log_index });
        let Some((log_index, block)) = self.last.filter(|(log, _)| view.logs.is_claimed(*log))
        else {
            let log_index = self.first(view, need)?;
            return spot(log_index, view.logs.next_place(log_index, need)?);
        };
        if let Some(block) = view.logs.place_from(log_index, block, need) {
            return spot(log_index, block);
        }
        let next = self.next_log(view, need, log_index, true).unwrap_or(log_index);
        spot(next, view.logs.next_place(next, need)?)
    }

    /// A record leaves for its disk, behind so many others for any.
    pub(super) fn leaves(&mut self, spot: Spot, turn: u64) {
        self.leaving = Some(spot);
        self.turn = turn;
    }

    /// A command on its disk completed.
    pub(super) fn completed(&mut self, done: &Completed, view: &View<'_>) {
        self.seen_at = view.now;
        let Some((log_index, end)) = done.record_end else {
            return;
        };
        (self.last, self.record_at) = (Some((log_index, end)), view.now);
        self.rests_until = if done.is_ok { view.now } else { view.now + RESTS_AFTER_FAILURE };
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

    /// Where the arm is to be taken while nothing else is on its disk: at once, if another one takes the next record.
    pub(super) fn repositions(
        &self,
        view: &View<'_>,
        drives: &Drives,
        another_is_ready: bool,
    ) -> Option<Reposition> {
        self.last?;
        let track = self.here(view, drives, Need { blocks: 1, reserve: 0 })?;
        let start = view.logs.block_offset(track.log_index, track.blocks.start)?;
        let (drive, byte) = drives.part(start);
        let goes = !self.is_there && drive.is_sooner_behind_read(byte);
        let due_at = match (goes, another_is_ready) {
            (true, true) => Nanos::ZERO,
            (true, false) => IDLE_BEFORE_REPOSITION,
            (false, _) => LOOKED_UP_EVERY,
        };
        // What passes when the arm is there: to read anything else would be to wait for it.
        let bytes = view.logs.block_bytes() as u64;
        let wait = drive.wait(byte, view.now + drive.read_access(byte)).unwrap_or(Nanos::ZERO);
        let block_time = (drive.period().0 * bytes / drive.track_bytes(byte)).max(1);
        let ahead = (drive.period() - wait).0.div_ceil(block_time) as u32;
        let block = (track.blocks.start + ahead).min(track.blocks.end - 1);
        let offset = view.logs.block_offset(track.log_index, block)?;
        Some(Reposition { at: self.seen_at + due_at, offset })
    }

    /// It was, or could not be.
    pub(super) fn repositioned(&mut self, view: &View<'_>) {
        self.seen_at = view.now;
        let Some(drives) = view.drives else { return };
        self.track = self.here(view, drives, Need { blocks: 1, reserve: 0 });
        self.is_there = true;
    }
}
