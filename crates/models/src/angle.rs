//! Angles on a spinning disk, as exact fractions of a revolution.
//!
//! An [`Angle`] is a 32-bit fixed-point fraction of a revolution, so that adding angles wraps
//! around the circle by itself and the same run gives the same bits on every machine. A
//! [`Spindle`] turns time into angles and back: the phase is absolute, it is a function of the
//! time alone and never of what was asked of the disk before.

use nearhead_disk::Nanos;

/// A fraction of a revolution in units of 2^-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Angle(pub u32);

impl Angle {
    /// The fractional part of `revolutions`.
    pub fn from_revolutions(revolutions: f64) -> Self {
        Self((revolutions.rem_euclid(1.0) * 4_294_967_296.0).round() as u64 as u32)
    }

    /// Where sector `index` of a track of `per_track` sectors starts, seen from its first one.
    pub fn of_sector(index: u32, per_track: u32) -> Self {
        Self(((u64::from(index) << 32) / u64::from(per_track.max(1))) as u32)
    }

    /// This angle as a fraction of a revolution, from 0 to below 1.
    pub fn revolutions(self) -> f64 {
        f64::from(self.0) / 4_294_967_296.0
    }

    /// The angle `other` past this one.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// How far the disk turns from this angle until `target` is under the head.
    #[must_use]
    pub fn until(self, target: Self) -> Self {
        Self(target.0.wrapping_sub(self.0))
    }

    /// This angle `count` times over.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self(self.0.wrapping_mul(count as u32))
    }
}

/// A spindle turning at constant speed.
#[derive(Clone, Copy, Debug)]
pub struct Spindle {
    period_ns: u64,
}

impl Spindle {
    /// A spindle that turns once in `period_ns`, which is below 2^31 (over 28 rpm).
    pub fn new(period_ns: u64) -> Self {
        assert!((1..1 << 31).contains(&period_ns), "profiles are validated before use");
        Self { period_ns }
    }

    /// Time of one revolution.
    pub fn period(&self) -> Nanos {
        Nanos(self.period_ns)
    }

    /// What is under the head at `now`.
    pub fn angle_at(&self, now: Nanos) -> Angle {
        Angle((((now.0 % self.period_ns) << 32) / self.period_ns) as u32)
    }

    /// How long the disk takes to turn by `angle`, in ns, rounded up.
    pub fn turn_ns(&self, angle: Angle) -> u64 {
        (u64::from(angle.0) * self.period_ns).div_ceil(1 << 32)
    }

    /// How long `sectors` of a track of `per_track` take to pass, in ns.
    pub fn pass_ns(&self, sectors: u64, per_track: u32) -> u64 {
        sectors * self.period_ns / u64::from(per_track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_depends_on_time_alone_and_repeats_every_revolution() {
        let spindle = Spindle::new(3_995_340);
        let quarter = Nanos(3_995_340 / 4);
        let here = spindle.angle_at(quarter);
        assert!((here.revolutions() - 0.25).abs() < 1e-6);
        assert_eq!(spindle.angle_at(quarter + Nanos(3_995_340 * 1000)), here);
    }

    #[test]
    fn waiting_for_an_angle_ends_at_that_angle() {
        let spindle = Spindle::new(8_333_333);
        for start in [0, 17, 4_000_000, 8_333_332, 123_456_789_012] {
            for target in [0.0, 0.1, 0.5, 0.999] {
                let target = Angle::from_revolutions(target);
                let wait = spindle.turn_ns(spindle.angle_at(Nanos(start)).until(target));
                let arrived = spindle.angle_at(Nanos(start + wait));
                let past = target.until(arrived).revolutions() * 8_333_333.0;
                assert!(past < 3.0, "start {start}: {past} ns past the target");
            }
        }
    }
}
