//! Where a drive's tracks are, as far as a host found out (a calibration, never the drive's own word): enough to say by how
//! much the disk turns between two addresses.
//!
//! Zone by zone the tracks are alike. One follows the other turned by a skew; every so many of them form a group (a cylinder, or
//! the run of a serpentine layout), the first of which is turned by another one and the last of which may be shorter, where spares are
//! kept. Other spares and defects are not known here: an angle is exact over short distances, and the longer one is, the more it is a
//! guess. Whoever follows it compares with what happens.

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

    fn units(self) -> u64 {
        u64::from(self.0)
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
    /// Bytes of a group: those of its tracks, or fewer where the last one is shorter. 0 counts as those of its tracks.
    pub group_bytes: u64,
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
        let zones: Result<Vec<_>, _> = zones.into_iter().map(TrackZone::checked_group).collect();
        Ok(Self { period, zones: zones? })
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
        let place = zone.place(byte);
        let start = byte.max(zone.first_byte) - place.within;
        start..start.saturating_add(zone.bytes_of(&place)).min(zone_end)
    }

    /// Whether two bytes lie on one track, as far as one can tell.
    pub fn is_one_track(&self, one: u64, other: u64) -> bool {
        let (zone, other_zone) = (self.zone_of(one), self.zone_of(other));
        let track = |byte| {
            let place = zone.place(byte);
            (place.group, place.track)
        };
        zone.first_byte == other_zone.first_byte && track(one) == track(other)
    }

    /// Whether two bytes lie in one group, so that only heads are changed between them, as far as one can tell: not where there are no groups.
    pub fn is_one_group(&self, one: u64, other: u64) -> bool {
        let (zone, other_zone) = (self.zone_of(one), self.zone_of(other));
        let is_one_zone = zone.first_byte == other_zone.first_byte && zone.group_tracks > 0;
        is_one_zone && zone.place(one).group == zone.place(other).group
    }

    /// At which angle the sector at `byte` begins, against the first one of its zone.
    pub fn turn_at(&self, byte: u64) -> Turn {
        let zone = self.zone_of(byte);
        let place = zone.place(byte);
        zone.turn_of(&place).plus(zone.share(place.within))
    }

    /// At which angle a transfer ends that ends before `end`.
    pub fn turn_at_end(&self, end: u64) -> Turn {
        let Some(last) = end.checked_sub(SECTOR_BYTES) else { return self.turn_at(end) };
        self.turn_at(last).plus(self.zone_of(last).share(SECTOR_BYTES))
    }

    /// How long a transfer takes from its first sector on, with what the head needs from each track to the next.
    pub fn transfer(&self, bytes: Range<u64>) -> Nanos {
        let turn = self.turn_at_end(bytes.end).since(self.turn_at(bytes.start));
        let zone = self.zone_of(bytes.start);
        let last = bytes.end.saturating_sub(SECTOR_BYTES).max(bytes.start);
        let whole = if zone.first_byte == self.zone_of(last).first_byte {
            // A track that is left and the skew to the next take more than a revolution, and less than two.
            let turned = |byte| zone.turned_to(byte);
            (turned(last).wrapping_sub(turned(bytes.start)) + zone.share(SECTOR_BYTES).units())
                >> 32
        } else {
            (bytes.end - bytes.start) / zone.track_bytes
        };
        turn.time(self.period()) + Nanos(self.period().0.saturating_mul(whole))
    }
}

/// Where a byte is in its zone.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its group; 0 if there are no groups.
    group: u64,
    /// Its track in that.
    track: u64,
    /// Bytes before it on that track.
    within: u64,
}

impl TrackZone {
    /// With the bytes of a group, or why nothing can be computed from them.
    fn checked_group(self) -> Result<Self, TracksError> {
        let most = self.track_bytes.checked_mul(u64::from(self.group_tracks));
        let group_bytes = if self.group_bytes == 0 { most } else { Some(self.group_bytes) };
        let range = most.map(|most| most.saturating_sub(self.track_bytes)..=most);
        let is_right = match (&range, group_bytes) {
            (Some(range), Some(bytes)) => {
                let is_some = bytes > *range.start() || self.group_tracks == 0;
                range.contains(&bytes) && is_some && bytes.is_multiple_of(SECTOR_BYTES)
            }
            _ => false,
        };
        match group_bytes.filter(|_| is_right) {
            Some(group_bytes) => Ok(Self { group_bytes, ..self }),
            None => Err(TracksError(format!(
                "expected groups of {} tracks of {} bytes, the last of which may be shorter, found groups of {} bytes from byte {} on",
                self.group_tracks, self.track_bytes, self.group_bytes, self.first_byte
            ))),
        }
    }

    /// Where a byte is. Asked for each place that a record could go to: two divisions.
    fn place(&self, byte: u64) -> Place {
        let in_zone = byte.saturating_sub(self.first_byte);
        let group = in_zone.checked_div(self.group_bytes).unwrap_or(0);
        let in_group = in_zone - group * self.group_bytes;
        // As a group has no more bytes than its tracks, none lies behind its last track.
        let track = in_group / self.track_bytes;
        Place { group, track, within: in_group - track * self.track_bytes }
    }

    /// Bytes of the track of `place`.
    fn bytes_of(&self, place: &Place) -> u64 {
        let before = place.track * self.track_bytes;
        match self.group_bytes {
            0 => self.track_bytes,
            group_bytes => self.track_bytes.min(group_bytes - before),
        }
    }

    /// By how much the track of `place` is turned against the first one of the zone.
    fn turn_of(&self, place: &Place) -> Turn {
        // Whole revolutions count for nothing, so products and sums may go round.
        let times = |turn: Turn, count: u64| turn.0.wrapping_mul(count as u32);
        let in_group = times(self.skew, u64::from(self.group_tracks.saturating_sub(1)));
        let group = Turn(in_group).plus(self.group_skew);
        Turn(times(group, place.group)).plus(Turn(times(self.skew, place.track)))
    }

    /// How far the disk turns from the zone's first sector to the one at `byte` if all between are transferred, in units of 2^-32.
    fn turned_to(&self, byte: u64) -> u64 {
        let place = self.place(byte);
        let next_track = (1 << 32) + u64::from(self.skew.0);
        let next_group = (1 << 32) + u64::from(self.group_skew.0);
        let in_group = u64::from(self.group_tracks.saturating_sub(1)).wrapping_mul(next_track);
        // Of numbers that nobody believes it may go round; what is asked for is how far two are apart.
        (in_group.wrapping_add(next_group).wrapping_mul(place.group))
            .wrapping_add(place.track.wrapping_mul(next_track))
            .wrapping_add(self.share(place.within).units())
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
        let (group_tracks, group_skew, group_bytes) = (3, Turn(QUARTER), 0);
        TrackZone { first_byte, track_bytes, skew, group_tracks, group_skew, group_bytes }
    }

    /// The same, but the last of three tracks is a quarter shorter.
    fn zone_with_spares() -> TrackZone {
        TrackZone { group_bytes: 3 * 4096 - 1024, ..zone(0, 4096) }
    }

    #[test]
    fn where_spares_make_a_groups_last_track_shorter_the_next_group_begins_so_much_sooner() {
        let tracks = Tracks::new(4e6, vec![zone_with_spares()]).unwrap();
        let group = 3 * 4096 - 1024;
        let eighths = |byte| tracks.turn_at(byte).0 / (QUARTER / 2);
        // Tracks begin an eighth, an eighth and two eighths further, whether or not the one before was full.
        assert_eq!([0, 4096, 8192, group, group + 4096].map(eighths), [0, 1, 2, 4, 5]);
        assert_eq!([2 * group - 1024, 2 * group].map(eighths), [6 + 4 - 8, 0]);
        assert_eq!(tracks.turn_at_end(group).0 / (QUARTER / 2), 0, "two eighths and six");
        assert_eq!(tracks.track_of(8192), 8192..group);
        assert_eq!(tracks.track_of(group), group..group + 4096);
        assert!(tracks.is_one_track(8192, group - 1) && !tracks.is_one_track(group - 1, group));
        assert!(!tracks.is_one_track(0, group), "of different groups");
        assert!(tracks.is_one_group(0, group - 1) && !tracks.is_one_group(group - 1, group));
    }

    #[test]
    fn tracks_are_of_one_group_only_where_groups_are_known() {
        let ungrouped = TrackZone { group_tracks: 0, ..zone(1 << 20, 4096) };
        let tracks = Tracks::new(4e6, vec![zone(0, 4096), ungrouped]).unwrap();
        assert!(tracks.is_one_group(0, 4096) && !tracks.is_one_group(0, 3 * 4096));
        assert!(!tracks.is_one_group(1 << 20, (1 << 20) + 512), "no groups there");
        assert!(!tracks.is_one_group((1 << 20) - 512, 1 << 20), "of two zones");
    }

    /// Byte after byte, as one would count.
    #[test]
    fn each_sector_lies_where_counting_tracks_puts_it() {
        for zone in
            [zone_with_spares(), zone(0, 1536), TrackZone { group_tracks: 0, ..zone(0, 2048) }]
        {
            let tracks = Tracks::new(4e6, vec![zone]).unwrap();
            let (mut start, mut turn, mut number) = (0, Turn(0), 0);
            while start < 100_000 {
                number += 1;
                let is_last = zone.group_tracks > 0 && number % zone.group_tracks == 0;
                let missing = match zone.group_bytes {
                    0 => 0,
                    bytes => u64::from(zone.group_tracks) * zone.track_bytes - bytes,
                };
                let end = start + zone.track_bytes - if is_last { missing } else { 0 };
                for byte in (start..end).step_by(512) {
                    assert_eq!(tracks.track_of(byte), start..end, "{byte} of {zone:?}");
                    assert_eq!(tracks.turn_at(byte), turn.plus(zone.share(byte - start)), "{byte}");
                }
                turn = turn.plus(if is_last { zone.group_skew } else { zone.skew });
                start = end;
            }
        }
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
    fn a_transfer_takes_a_revolution_for_each_track_and_a_skew_between_any_two() {
        let tracks = Tracks::new(8e6, vec![zone_with_spares(), zone(1 << 20, 8192)]).unwrap();
        let eighths = |bytes| tracks.transfer(bytes).0.div_ceil(1_000_000);
        assert_eq!([0..512, 0..4096, 4096..4608].map(eighths), [1, 8, 1]);
        assert_eq!([0..4608, 4096 - 512..4608].map(eighths), [8 + 1 + 1, 1 + 1 + 1]);
        let group = 3 * 4096 - 1024;
        // Two whole tracks, one of six eighths, skews of one, one and two: what is missing passes, too.
        assert_eq!([0..group, 0..group + 512].map(eighths), [9 + 9 + 6, 9 + 9 + 10 + 1]);
        assert_eq!(eighths(512..9 * group + 512), 9 * 28, "nine groups");
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
        let group = |group_tracks, group_bytes| {
            why(8e6, vec![TrackZone { group_tracks, group_bytes, ..zone(0, 1024) }])
        };
        for (tracks, bytes) in [(3, 3584), (3, 2048), (3, 2100), (0, 512), (1, 100), (2, u64::MAX)]
        {
            let why = group(tracks, bytes);
            assert!(why.contains(&format!("groups of {tracks} tracks of 1024 bytes")), "{why}");
            assert!(why.contains(&format!("groups of {bytes} bytes")), "{why}");
        }
        assert!(why(8e6, vec![zone(0, u64::MAX / 512 * 512)]).contains("groups of 3 tracks"));
    }
}
