//! Where a drive's tracks are, as far as a host found out (a calibration, never the drive's own word): enough to say by how
//! much the disk turns between two addresses.
//!
//! Zone by zone the tracks are alike. One follows the other turned by a skew; every so many of them form a group (a cylinder, or
//! the run of a serpentine layout), the first of which is turned by another one. Spares and defects are not known here: an angle is
//! exact over short distances, and the longer one is, the more it is a guess. Whoever follows it compares with what happens.

use crate::{Nanos, SECTOR_BYTES};
use std::fmt;
use std::ops::Range;

/// A part of a revolution in units of 2^-32; sums go round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(pub u32);

impl Turn {
    /// Of a share of a revolution; whole ones are left out.
    pub fn of(turns: f64) -> Self {
        Self(((turns - turns.floor()) * 2f64.powi(32)) as u64 as u32)
    }

    /// Further by `other`.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// How far the disk turns from `earlier` until here.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }

    /// As one that goes back if it is more than half a revolution, in units of 2^-32.
    pub fn signed(self) -> i32 {
        self.0.cast_signed()
    }

    /// As a share of a revolution, 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 2f64.powi(32)
    }

    /// As a span, if a revolution takes `period`.
    pub fn time(self, period: Nanos) -> Nanos {
        Nanos(((u128::from(self.0) * u128::from(period.0)) >> 32) as u64)
    }
}

/// Tracks that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackZone {
    /// First byte of a track, and of a group; the tracks before it belong to the zone before.
    pub first_byte: u64,
    /// Bytes of a track.
    pub track_bytes: u64,
    /// By how much a track is turned against the one before.
    pub skew: Turn,
    /// Tracks of a group; 0 if there are no groups.
    pub group_tracks: u32,
    /// By how much the first track of a group is turned against the last one of the group before.
    pub group_skew: Turn,
}

/// What is known of a drive's tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracks {
    /// Length of a revolution, in units of 2^-16 ns: exact to the millionth of one over minutes.
    period: u64,
    zones: Vec<TrackZone>,
}

/// Zones that nothing can be computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracksError(String);

impl fmt::Display for TracksError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TracksError {}

/// No disk turns faster (60,000 a minute) or slower (1,200).
const PERIOD_NS: std::ops::RangeInclusive<f64> = 1e6..=5e7;

/// Units of 2^-16 ns in one.
const PERIOD_UNITS: f64 = 65_536.0;

fn no_such_period(period_ns: f64) -> TracksError {
    let (least, most) = (PERIOD_NS.start(), PERIOD_NS.end());
    TracksError(format!("expected a revolution of {least} to {most} ns, found {period_ns}"))
}

impl Tracks {
    /// Of a drive that turns once in `period_ns`.
    ///
    /// # Errors
    /// No disk turns like that, or the zones are none, in no order, or have no tracks.
    pub fn new(period_ns: f64, zones: Vec<TrackZone>) -> Result<Self, TracksError> {
        if !PERIOD_NS.contains(&period_ns) {
            return Err(no_such_period(period_ns));
        }
        Self::of_units((period_ns * PERIOD_UNITS) as u64, zones)
    }

    /// The same, where a revolution takes `period` in units of 2^-16 ns.
    ///
    /// # Errors
    /// As above.
    pub fn of_units(period: u64, zones: Vec<TrackZone>) -> Result<Self, TracksError> {
        let period_ns = period as f64 / PERIOD_UNITS;
        if !PERIOD_NS.contains(&period_ns) {
            return Err(no_such_period(period_ns));
        }
        if zones.first().is_none_or(|zone| zone.first_byte != 0) {
            return Err(TracksError("expected a first zone that begins at byte 0".to_owned()));
        }
        if let Some(pair) = zones.windows(2).find(|pair| pair[1].first_byte <= pair[0].first_byte) {
            let (before, after) = (pair[0].first_byte, pair[1].first_byte);
            return Err(TracksError(format!(
                "expected zones in the order of their first bytes, found {after} after {before}"
            )));
        }
        let is_whole = |bytes: u64| bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES);
        if let Some(zone) = zones.iter().find(|zone| !is_whole(zone.track_bytes)) {
            return Err(TracksError(format!(
                "expected tracks of a multiple of {SECTOR_BYTES} bytes, found {} from byte {} on",
                zone.track_bytes, zone.first_byte
            )));
        }
        Ok(Self { period, zones })
    }

    /// Length of a revolution.
    pub fn period(&self) -> Nanos {
        Nanos(self.period >> 16)
    }

    /// The same in units of 2^-16 ns.
    pub fn period_units(&self) -> u64 {
        self.period
    }

    /// How far the disk turns in `span`, whole revolutions left out.
    pub fn turned_in(&self, span: Nanos) -> Turn {
        let period = u128::from(self.period);
        Turn(((((u128::from(span.0) << 16) % period) << 32) / period) as u32)
    }

    /// The zones.
    pub fn zones(&self) -> &[TrackZone] {
        &self.zones
    }

    /// The zone that holds a byte.
    pub fn zone_of(&self, byte: u64) -> &TrackZone {
        let behind = self.zones.partition_point(|zone| zone.first_byte <= byte);
        &self.zones[behind.max(1) - 1]
    }

    /// The bytes of the track that holds a byte, as far as its zone goes.
    pub fn track_of(&self, byte: u64) -> Range<u64> {
        let behind = self.zones.partition_point(|zone| zone.first_byte <= byte);
        let zone_end = self.zones.get(behind).map_or(u64::MAX, |next| next.first_byte);
        let zone = self.zone_of(byte);
        let start = zone.first_byte + zone.position(byte).0 * zone.track_bytes;
        start..start.saturating_add(zone.track_bytes).min(zone_end)
    }

    /// Whether two bytes lie on one track, as far as one can tell.
    pub fn is_one_track(&self, one: u64, other: u64) -> bool {
        let (zone, other_zone) = (self.zone_of(one), self.zone_of(other));
        zone.first_byte == other_zone.first_byte && zone.position(one).0 == zone.position(other).0
    }

    /// At which angle the sector at `byte` begins, against the first one of its zone.
    pub fn turn_at(&self, byte: u64) -> Turn {
        let zone = self.zone_of(byte);
        let (track, within) = zone.position(byte);
        let groups = track.checked_div(u64::from(zone.group_tracks)).unwrap_or(0);
        let skews = u128::from(zone.skew.0) * u128::from(track - groups)
            + u128::from(zone.group_skew.0) * u128::from(groups);
        Turn(skews as u32).plus(zone.share(within))
    }

    /// At which angle a transfer ends that ends before `end`.
    pub fn turn_at_end(&self, end: u64) -> Turn {
        let Some(last) = end.checked_sub(SECTOR_BYTES) else { return self.turn_at(end) };
        self.turn_at(last).plus(self.zone_of(last).share(SECTOR_BYTES))
    }
}

impl TrackZone {
    /// The track of a byte, and where on it.
    fn position(&self, byte: u64) -> (u64, u64) {
        let within = byte.saturating_sub(self.first_byte);
        (within / self.track_bytes, within % self.track_bytes)
    }

    /// By how much the disk turns while `bytes` of one track pass.
    pub fn share(&self, bytes: u64) -> Turn {
        Turn(((u128::from(bytes) << 32) / u128::from(self.track_bytes)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARTER: u32 = 1 << 30;

    fn zone(first_byte: u64, track_bytes: u64) -> TrackZone {
        let skew = Turn(QUARTER / 2);
        TrackZone { first_byte, track_bytes, skew, group_tracks: 3, group_skew: Turn(QUARTER) }
    }

    #[test]
    fn along_a_track_the_angle_grows_evenly_and_jumps_by_a_skew_where_the_next_begins() {
        let tracks = Tracks::new(4e6, vec![zone(0, 4096), zone(40_960, 8192)]).unwrap();
        let eighths = |byte| tracks.turn_at(byte).0 / (QUARTER / 2);
        assert_eq!([0, 1024, 3072].map(eighths), [0, 2, 6]);
        assert_eq!([4096, 8192, 12_288, 16_384].map(eighths), [1, 2, 4, 5]);
        assert_eq!([40_960, 40_960 + 2048].map(eighths), [0, 2], "another zone");
        let ends = [512, 4096, 8192].map(|end| tracks.turn_at_end(end).0);
        assert_eq!(
            ends,
            [QUARTER / 2, 0, QUARTER / 2],
            "where a track ends, not where the next begins"
        );
    }

    #[test]
    fn each_byte_lies_on_one_track_and_a_track_ends_where_its_zone_does() {
        let tracks = Tracks::new(4e6, vec![zone(0, 4096), zone(10_240, 8192)]).unwrap();
        for (byte, track) in [
            (0, 0..4096),
            (4095, 0..4096),
            (4096, 4096..8192),
            (10_239, 8192..10_240),
            (10_240, 10_240..18_432),
            (18_432, 18_432..26_624),
        ] {
            assert_eq!(tracks.track_of(byte), track, "{byte}");
        }
    }

    #[test]
    fn what_turned_in_a_span_is_exact_after_hours() {
        let tracks = Tracks::new(8_333_333.333, vec![zone(0, 4096)]).unwrap();
        let turned = tracks.turned_in(Nanos::from_secs(3600)).signed();
        assert!(
            turned.unsigned_abs() < 1 << 22,
            "120 revolutions a second, off by {turned} / 2^32"
        );
        assert_eq!(Turn(QUARTER).time(Nanos(8_000_000)), Nanos(2_000_000));
    }

    #[test]
    fn zones_that_nothing_can_be_computed_from_are_refused_with_the_reason() {
        let why = |period, zones| Tracks::new(period, zones).unwrap_err().to_string();
        assert!(why(0.0, vec![zone(0, 4096)]).contains("1000000 to 50000000 ns, found 0"));
        assert!(why(f64::NAN, vec![zone(0, 4096)]).contains("found NaN"));
        assert!(why(8e6, vec![]).contains("begins at byte 0"));
        assert!(why(8e6, vec![zone(0, 512), zone(0, 512)]).contains("found 0 after 0"));
        assert!(why(8e6, vec![zone(0, 0)]).contains("found 0 from byte 0"));
        assert!(why(8e6, vec![zone(0, 100)]).contains("found 100"));
    }
}
