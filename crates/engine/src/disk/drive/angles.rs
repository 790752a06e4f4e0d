//! When a place will be under the head: what was found out about tracks, held to what is seen.
//!
//! Every transfer ends when its last sector has passed, so its completion says at what angle that sector lies. The tracks as they
//! were found out say how far the disk turns between two places, exactly over short distances; so for each region of the disk
//! it is remembered how far off they were last, and the spindle is followed by what all of them have in common. A completion that was
//! late (a busy host, a sector that lies elsewhere) says little, as the next one corrects it. A read is told of a little later than a write,
//! as its bytes are still to come: by how much is learned where both were seen.

use nearhead_disk::{Nanos, Tracks, Turn};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Regions of 16 MiB: less than a surface of a serpentine layout holds in a run.
const REGION_SHIFT: u32 = 24;
/// So far away a region that is known says something of another: more tracks, more doubt.
const REGIONS_NEAR: u64 = 4;
/// Regions remembered: a TB of them.
const REGIONS_MAX: usize = 1 << 16;
/// Off by more than this, 2^-32 of a revolution, is no drift of the spindle: a sixteenth.
const DRIFT_MAX: u32 = 1 << 28;
/// Share of what a completion is off by that the spindle is taken to have drifted; the rest is how its region lies.
const DRIFT_SHARE: i32 = 64;
/// After so long without any all of it is drift: a spindle a few millionths off its period is anywhere by then.
const DRIFTS_FREELY_AFTER: Nanos = Nanos::from_secs(10);

/// A read is not told of later than this after a write would have been, in 2^-32 of a revolution: a sixteenth...
const LAG_MAX: u32 = 1 << 28;
/// ...of which each read that follows a write there within this time tells a share.
const LAG_LEARNED_WITHIN: Nanos = Nanos::from_secs(10);
const LAG_SHARE: i32 = 4;

/// What is known of a region.
#[derive(Clone, Copy, Debug)]
struct Region {
    turned: Turn,
    /// When a write completed there, if nothing else did since.
    written_at: Option<Nanos>,
}

/// Angles of one drive.
#[derive(Clone, Debug)]
pub(super) struct Angles {
    tracks: Arc<Tracks>,
    /// What the spindle is ahead of the time since the start.
    drift: Turn,
    /// When a transfer completed last.
    seen_at: Nanos,
    /// By how much each region is turned against the tracks.
    regions: BTreeMap<u64, Region>,
    /// By how much later the end of a read is seen than that of a write.
    reads_lag: Turn,
}

impl Angles {
    pub(super) fn of(tracks: Arc<Tracks>) -> Self {
        let (drift, reads_lag) = (Turn(0), Turn(0));
        Self { tracks, drift, seen_at: Nanos::ZERO, regions: BTreeMap::new(), reads_lag }
    }

    pub(super) fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    fn spindle_at(&self, now: Nanos) -> Turn {
        self.tracks.turned_in(now).plus(self.drift)
    }

    /// By how much the region of `byte` is turned, if that is known.
    fn turned(&self, byte: u64) -> Option<Turn> {
        let region = byte >> REGION_SHIFT;
        let zone = self.tracks.zone_of(byte).first_byte;
        let range = region.saturating_sub(REGIONS_NEAR)..=region + REGIONS_NEAR;
        let alike = |found: &u64| self.tracks.zone_of(found << REGION_SHIFT).first_byte == zone;
        let near = self.regions.range(range).filter(|(found, _)| **found == region || alike(found));
        near.min_by_key(|(found, _)| found.abs_diff(region)).map(|(_, region)| region.turned)
    }

    /// Whether something was seen near `byte`: elsewhere an angle is a guess.
    pub(super) fn is_region_known(&self, byte: u64) -> bool {
        self.regions.contains_key(&(byte >> REGION_SHIFT))
    }

    /// A transfer that ended before `end` completed now: says at what angle that lies, and how far the spindle is.
    pub(super) fn completed(&mut self, end: u64, is_write: bool, now: Nanos) {
        let last = end.saturating_sub(1);
        let seen = self.spindle_at(now).since(self.tracks.turn_at_end(end));
        let seen = if is_write { seen } else { self.without_lag(seen, last, now) };
        let off = self.turned(last).map(|expected| seen.since(expected).signed());
        let is_known = self.is_region_known(last);
        let drifted = match off {
            Some(off) if is_known && now.since(self.seen_at) > DRIFTS_FREELY_AFTER => off,
            Some(off) if off.unsigned_abs() <= DRIFT_MAX => off / DRIFT_SHARE,
            _ => 0,
        };
        let drifted = Turn(drifted.cast_unsigned());
        self.drift = self.drift.since(drifted);
        self.seen_at = now;
        let turned = seen.since(drifted);
        self.remember(last >> REGION_SHIFT, Region { turned, written_at: is_write.then_some(now) });
    }

    /// What the end of a read says, less what it is seen later than that of a write: learned where a write was seen last.
    fn without_lag(&mut self, seen: Turn, last: u64, now: Nanos) -> Turn {
        let written = self.regions.get(&(last >> REGION_SHIFT)).filter(|region| {
            region.written_at.is_some_and(|at| now.since(at) < LAG_LEARNED_WITHIN)
        });
        if let Some(written) = written {
            let lag = seen.since(written.turned);
            let off = lag.since(self.reads_lag).signed();
            if lag.signed().unsigned_abs() <= LAG_MAX {
                self.reads_lag = self.reads_lag.plus(Turn((off / LAG_SHARE).cast_unsigned()));
            }
        }
        seen.since(self.reads_lag)
    }

    fn remember(&mut self, region: u64, turned: Region) {
        self.regions.insert(region, turned);
        if self.regions.len() > REGIONS_MAX {
            let first = self.regions.keys().next().map_or(0, |first| region.abs_diff(*first));
            let last = self.regions.keys().next_back().map_or(0, |last| region.abs_diff(*last));
            // The one farthest from here.
            let _ = if first > last { self.regions.pop_first() } else { self.regions.pop_last() };
        }
    }

    /// How long after `at` the sector at `byte` begins to pass, if that is known.
    pub(super) fn wait(&self, byte: u64, at: Nanos) -> Option<Nanos> {
        let passes = self.tracks.turn_at(byte).plus(self.turned(byte)?);
        Some(passes.since(self.spindle_at(at)).time(self.tracks.period()))
    }

    /// How long a transfer takes that begins with the first sector of `bytes`.
    pub(super) fn transfer(&self, bytes: Range<u64>) -> Nanos {
        self.tracks.transfer(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::TrackZone;

    const PERIOD: Nanos = Nanos(8_000_000);
    const TRACK: u64 = 1 << 20;

    fn tracks() -> Tracks {
        let zone = |first_byte| TrackZone {
            first_byte,
            track_bytes: TRACK,
            skew: Turn(1 << 28),
            group_tracks: 0,
            group_skew: Turn(0),
            group_bytes: 0,
        };
        Tracks::new(PERIOD.0 as f64, vec![zone(0), zone(1000 << 20)]).unwrap()
    }

    fn angles() -> Angles {
        Angles::of(Arc::new(tracks()))
    }

    /// When the sector at `byte` begins to pass on a drive like that whose period is `period_ns`, at `at` or later.
    fn passes(byte: u64, at: Nanos, period_ns: u64) -> Nanos {
        let angle = u64::from(tracks().turn_at(byte).0);
        let phase = u64::from(u32::MAX) * (at.0 % period_ns) / period_ns;
        let ahead = (angle + (1 << 32) - phase) % (1 << 32);
        at + Nanos(((u128::from(ahead) * u128::from(period_ns)) >> 32) as u64)
    }

    fn error_us(angles: &Angles, byte: u64, at: Nanos, period_ns: u64) -> u64 {
        let expected = passes(byte, at, period_ns).since(at).0;
        let found = angles.wait(byte, at).unwrap().0;
        let off = expected.abs_diff(found);
        off.min(period_ns - off) / 1000
    }

    #[test]
    fn one_completion_says_when_every_place_around_it_passes() {
        let mut angles = angles();
        let at = Nanos::from_secs(5);
        assert_eq!(angles.wait(40 << 20, at), None, "nothing is known yet");
        // A transfer up to there ends when the next sector begins.
        let end = (40 << 20) + 8192;
        angles.completed(end, true, passes(end, at, PERIOD.0));
        for byte in [40 << 20, (40 << 20) + 700_000, 45 << 20, 33 << 20] {
            assert!(error_us(&angles, byte, at + Nanos(3_141_592), PERIOD.0) < 5, "{byte}");
        }
        assert_eq!(angles.wait(900 << 20, at), None, "far away");
        assert_eq!(angles.wait(1001 << 20, at), None, "another zone");
    }

    #[test]
    fn a_spindle_a_millionth_off_is_followed_and_found_again_after_a_pause() {
        let real = PERIOD.0 + 8;
        let mut angles = angles();
        let mut at = Nanos::ZERO;
        let (here, there) = ((40 << 20) + 8192, (80 << 20) + 8192);
        angles.completed(there, true, passes(there, at, real));
        for _ in 0..3000 {
            at += Nanos::from_millis(13);
            angles.completed(here, true, passes(here, at, real));
        }
        // A millionth, in 39 s.
        let off = error_us(&angles, there, at, real);
        assert!(off < 60, "not seen since, {off} us");
        at += Nanos::from_secs(600);
        angles.completed(here, true, passes(here, at, real));
        assert!(error_us(&angles, there, at, real) < 100);
    }

    #[test]
    fn no_more_regions_are_remembered_than_there_is_room_for() {
        let mut angles = angles();
        for region in 0..REGIONS_MAX as u64 + 100 {
            angles.completed((region << REGION_SHIFT) + 512, true, Nanos(region));
        }
        assert_eq!(angles.regions.len(), REGIONS_MAX);
        assert!(angles.regions.keys().next() > Some(&0), "the farthest is forgotten");
    }
}
