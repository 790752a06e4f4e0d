//! What the moving parts do: seeks, head switches, rotation and transfers.
//!
//! Pure functions of where the arm is, when, and what is asked; no queue, no cache, no content.
//! Everything here is true of the drive alone; what it could do at best is in `limits`.

use crate::angle::Spindle;
use crate::geometry::{Geometry, Track};
use crate::profile::Profile;
use crate::profile_text::ProfileError;
use crate::seek::SeekCurve;
use nearhead_basics::SplitMix;
use nearhead_disk::{Nanos, SECTOR_BYTES};

/// A sector "missed" by no more than this, in units of 2^-32 of a revolution, follows directly on the sector before: times
/// are whole nanoseconds, and a few of them add up to 8 ns on the fastest spindle. A head that lands inside a sector has
/// missed it, however little of it is gone: half a sector of grace, as there was, let drives of other people's packages
/// win revolutions that the drives lose.
const ROUNDING: u32 = 1 << 13;

/// Where the arm rests or will rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmPosition {
    /// Cylinder.
    pub cylinder: u32,
    /// Head that is listening.
    pub head: u16,
    /// Block after the last one of the track under the head: where a stream would go on.
    pub next_lbn: u64,
}

/// Where a transfer takes the time it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Motion {
    /// When the last sector has passed.
    pub ends_at: Nanos,
    /// Moving and settling, in ns.
    pub seek_ns: u64,
    /// Waiting for a sector to come round, in ns.
    pub rotation_ns: u64,
    /// Sectors passing under the head, in ns.
    pub transfer_ns: u64,
    /// Whether the arm changed its cylinder before the first sector.
    pub moved: bool,
    /// Whether it had to settle on a track that does not continue the one before.
    pub settled: bool,
    /// Where the arm is afterwards.
    pub arm: ArmPosition,
}

/// Where a block is, worked out once for a command that is compared with others many times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    cylinder: u32,
    head: u16,
    track_lbn: u64,
    /// When in each revolution the block starts to pass, in ns.
    phase_ns: u64,
}

/// The way to a block that is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) seek_ns: u64,
    pub(crate) rotation_ns: u64,
    pub(crate) arm: ArmPosition,
}

/// Sectors of one piece of a track passing under the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// When the first of them starts to pass.
    pub(crate) starts_at: Nanos,
    /// How many.
    pub(crate) sectors: u64,
    /// Time that they take, in ns.
    pub(crate) ns: u64,
}

/// The way to the first sector of a transfer.
#[derive(Clone, Copy, Debug)]
struct Approach {
    track: Track,
    seek_ns: u64,
    rotation_ns: u64,
}

/// A surface whose tracks do not align with those of the others.
#[derive(Clone, Debug)]
pub(crate) struct MisalignedSurface {
    pub(crate) head: u16,
    /// Time to find the track when changing to or from this surface: evenly spread over a range,
    /// decided by the pair of tracks, because how far two tracks are apart does not change.
    pub(crate) find_ns: std::ops::RangeInclusive<u64>,
    pub(crate) seed: u64,
}

impl MisalignedSurface {
    fn find_ns(&self, from_lbn: u64, to_lbn: u64) -> u64 {
        let pair = self.seed ^ from_lbn.rotate_left(32) ^ to_lbn;
        let (least, most) = (*self.find_ns.start(), *self.find_ns.end());
        least + SplitMix::new(pair).below(most - least + 1)
    }
}

/// The moving parts of one drive.
#[derive(Clone, Debug)]
pub struct Mechanics {
    misaligned: Option<MisalignedSurface>,
    geometry: Geometry,
    seek: SeekCurve,
    /// Of writes, if it is another one.
    write_seek: Option<SeekCurve>,
    spindle: Spindle,
    head_switch_ns: u64,
    write_settle_ns: i64,
    settles_between_tracks: bool,
    zero_latency_reads: bool,
    sector_bytes: u64,
    physical_sectors: u64,
}

impl Mechanics {
    /// The moving parts that `profile` describes.
    pub fn new(profile: &Profile) -> Result<Self, ProfileError> {
        Ok(Self {
            misaligned: None,
            geometry: profile.geometry()?,
            seek: profile.seek_curve()?,
            write_seek: match profile.seek.write_points_ms {
                Some(_) => Some(profile.write_seek_curve()?),
                None => None,
            },
            spindle: Spindle::new(profile.period_ns),
            head_switch_ns: Nanos::from_millis_f64(profile.seek.head_switch_ms).0,
            write_settle_ns: (profile.seek.write_settle_ms * 1e6).round() as i64,
            settles_between_tracks: profile.seek.settles_between_tracks,
            zero_latency_reads: profile.cache.zero_latency_reads,
            sector_bytes: u64::from(profile.sector_bytes),
            physical_sectors: u64::from(profile.physical_sector_bytes / profile.sector_bytes),
        })
    }

    /// The same parts with one surface whose tracks do not align with the others'.
    pub(crate) fn set_misaligned_surface(&mut self, surface: MisalignedSurface) {
        self.misaligned = Some(surface);
    }

    /// Where each block is.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The spindle.
    pub fn spindle(&self) -> &Spindle {
        &self.spindle
    }

    /// Bytes of a logical sector.
    pub fn sector_bytes(&self) -> u64 {
        self.sector_bytes
    }

    /// The seek curve.
    pub fn seek_curve(&self) -> &SeekCurve {
        &self.seek
    }

    /// The arm resting on the track of block `lbn`.
    pub fn arm_at(&self, lbn: u64) -> ArmPosition {
        arm_on(&self.geometry.locate(lbn))
    }

    /// Time from `at` until block `lbn` is under the head, in ns: what SPTF minimises.
    pub fn positioning_ns(&self, arm: ArmPosition, at: Nanos, lbn: u64, write: bool) -> u64 {
        let way = self.approach(arm, at, lbn, write);
        way.seek_ns + way.rotation_ns
    }

    /// Where block `lbn` is.
    pub(crate) fn target(&self, lbn: u64) -> Target {
        let track = self.geometry.locate(lbn);
        Target {
            cylinder: track.cylinder,
            head: track.head,
            track_lbn: track.first_lbn,
            phase_ns: self.spindle.turn_ns(track.angle_of(lbn)),
        }
    }

    /// As [`Self::positioning_ns`], but some number from `enough` on if it is at least that.
    pub(crate) fn positioning_below(
        &self,
        arm: ArmPosition,
        at: Nanos,
        target: &Target,
        write: bool,
        enough: u64,
    ) -> u64 {
        let seek_ns = self.seek_ns(arm, target.cylinder, target.head, target.track_lbn, write);
        if seek_ns >= enough {
            return seek_ns;
        }
        let period = self.spindle.period().0;
        let phase = (at.0 + seek_ns) % period;
        let wait = target.phase_ns + period - phase;
        seek_ns + if wait >= period { wait - period } else { wait }
    }

    /// The way from `arm` at `at` to block `lbn`, which is to be read.
    pub(crate) fn approach_read(&self, arm: ArmPosition, at: Nanos, lbn: u64) -> Way {
        let Approach { track, seek_ns, rotation_ns } = self.approach(arm, at, lbn, false);
        Way { seek_ns, rotation_ns, arm: arm_on(&track) }
    }

    /// Transfers `sectors` (at least one) from block `lbn` on, starting at `at` from `arm`.
    pub fn transfer(
        &self,
        arm: ArmPosition,
        at: Nanos,
        lbn: u64,
        sectors: u64,
        write: bool,
    ) -> Motion {
        self.transfer_with(arm, at, (lbn, sectors), write, 0, |pass| pass.ns)
    }

    /// As [`Self::transfer`] of `(lbn, sectors)`, but the first seek takes at least
    /// `seek_least_ns`, and `passing` says how long each piece of a track takes: at least as long
    /// as it passes under the head, longer if some of it must wait for another revolution.
    pub(crate) fn transfer_with(
        &self,
        arm: ArmPosition,
        at: Nanos,
        (lbn, sectors): (u64, u64),
        write: bool,
        seek_least_ns: u64,
        mut passing: impl FnMut(Pass) -> u64,
    ) -> Motion {
        let mut first = self.approach(arm, at, lbn, write);
        if first.seek_ns < seek_least_ns {
            let idle = seek_least_ns - first.seek_ns;
            first = self.approach(arm, at + Nanos(idle), lbn, write);
            first.seek_ns += idle;
        }
        let mut motion = Motion {
            ends_at: at + Nanos(first.seek_ns + first.rotation_ns),
            seek_ns: first.seek_ns,
            rotation_ns: first.rotation_ns,
            transfer_ns: 0,
            moved: first.track.cylinder != arm.cylinder,
            settled: first.seek_ns > 0 && arm.next_lbn != first.track.first_lbn,
            arm: arm_on(&first.track),
        };
        let here = sectors.min(first.track.end_lbn() - lbn);
        let mut pass = |starts_at: Nanos, sectors: u64, per_track: u32| {
            let ns = self.spindle.pass_ns(sectors, per_track);
            passing(Pass { starts_at, sectors, ns })
        };
        let passing_ns = pass(motion.ends_at, here, first.track.sectors_per_track);
        if !write && self.zero_latency_reads && self.lands_inside(&first, passing_ns) {
            // Reads from where the head lands, all the way round to the same place.
            motion.ends_at = at + Nanos(first.seek_ns) + self.spindle.period();
            motion.rotation_ns = self.spindle.period().0 - passing_ns;
        } else {
            motion.ends_at += Nanos(passing_ns);
        }
        motion.transfer_ns = passing_ns;
        let mut next = lbn + here;
        while next < lbn + sectors {
            let way = self.approach(motion.arm, motion.ends_at, next, write);
            let count = (lbn + sectors - next).min(way.track.end_lbn() - next);
            let starts_at = motion.ends_at + Nanos(way.seek_ns + way.rotation_ns);
            let passing_ns = pass(starts_at, count, way.track.sectors_per_track);
            motion.seek_ns += way.seek_ns;
            motion.rotation_ns += way.rotation_ns;
            motion.transfer_ns += passing_ns;
            motion.ends_at = starts_at + Nanos(passing_ns);
            motion.arm = arm_on(&way.track);
            next += count;
        }
        if write && self.splits_physical_sectors(lbn, sectors) {
            // The drive reads the rest of the physical sector first and writes it next time round.
            motion.ends_at += self.spindle.period();
            motion.rotation_ns += self.spindle.period().0;
        }
        motion
    }

    fn approach(&self, arm: ArmPosition, at: Nanos, lbn: u64, write: bool) -> Approach {
        let track = self.geometry.locate(lbn);
        let seek_ns = self.seek_ns(arm, track.cylinder, track.head, track.first_lbn, write);
        let angle = track.angle_of(lbn);
        let ahead = self.spindle.angle_at(at + Nanos(seek_ns)).until(angle);
        let missed = ahead.0.wrapping_neg();
        let rotation_ns = if missed <= ROUNDING { 0 } else { self.spindle.turn_ns(ahead) };
        Approach { track, seek_ns, rotation_ns }
    }

    /// Time to move to and settle on the track that begins with block `track_lbn`.
    fn seek_ns(
        &self,
        arm: ArmPosition,
        cylinder: u32,
        head: u16,
        track_lbn: u64,
        write: bool,
    ) -> u64 {
        let curve = self.write_seek.as_ref().filter(|_| write).unwrap_or(&self.seek);
        let mut seek_ns = curve.time_ns(arm.cylinder.abs_diff(cylinder));
        if arm.head != head {
            // Settling on another head overlaps with a seek.
            seek_ns = seek_ns.max(self.head_switch_ns);
        }
        let settles = self.settles_between_tracks || arm.next_lbn != track_lbn;
        if write && seek_ns > 0 && settles {
            seek_ns = seek_ns.saturating_add_signed(self.write_settle_ns);
        }
        if let Some(surface) = &self.misaligned
            && (arm.head == surface.head) != (head == surface.head)
        {
            seek_ns += surface.find_ns(arm.next_lbn, track_lbn);
        }
        seek_ns
    }

    /// Whether the head arrives while the part to read, `passing_ns` long, is under it.
    fn lands_inside(&self, way: &Approach, passing_ns: u64) -> bool {
        way.rotation_ns > self.spindle.period().0 - passing_ns.min(self.spindle.period().0)
    }

    fn splits_physical_sectors(&self, lbn: u64, sectors: u64) -> bool {
        self.physical_sectors > 1
            && (!lbn.is_multiple_of(self.physical_sectors)
                || !sectors.is_multiple_of(self.physical_sectors))
    }
}

fn arm_on(track: &Track) -> ArmPosition {
    ArmPosition { cylinder: track.cylinder, head: track.head, next_lbn: track.end_lbn() }
}

const _: () = assert!(SECTOR_BYTES == 512, "profiles count 512- or 4096-byte sectors");

#[cfg(test)]
mod tests {
    use super::*;

    fn cheetah() -> Mechanics {
        Mechanics::new(&Profile::named("st3146855fc").unwrap()).unwrap()
    }

    #[test]
    fn a_transfer_in_two_halves_takes_as_long_as_in_one() {
        let disk = cheetah();
        for seed in 0..200 {
            let mut random = SplitMix::new(seed);
            let lbn = random.below(disk.geometry().blocks() - 20_000);
            let (sectors, at) = (2 + random.below(9_998), Nanos(random.below(1 << 40)));
            let (arm, write) = (disk.arm_at(random.below(1 << 28)), random.coin());
            let cut = 1 + random.below(sectors - 1);
            let whole = disk.transfer(arm, at, lbn, sectors, write);
            let first = disk.transfer(arm, at, lbn, cut, write);
            let second = disk.transfer(first.arm, first.ends_at, lbn + cut, sectors - cut, write);
            let differ = whole.ends_at.0.abs_diff(second.ends_at.0);
            assert!(differ < 1_000, "seed {seed}: {} or {}", whole.ends_at, second.ends_at);
            assert_eq!(whole.arm, second.arm, "seed {seed}");
        }
    }

    #[test]
    fn positioning_never_exceeds_a_seek_and_a_revolution() {
        let disk = cheetah();
        let most = disk.seek_curve().time_ns(u32::MAX) + disk.spindle().period().0 + 340_000;
        let mut random = SplitMix::new(3);
        for _ in 0..10_000 {
            let (from, to) = (random.below(1 << 28), random.below(1 << 28));
            let at = Nanos(random.next_u64() >> 16);
            assert!(disk.positioning_ns(disk.arm_at(from), at, to, true) <= most, "{from} {to}");
        }
    }

    #[test]
    fn comparing_commands_uses_the_times_that_carrying_them_out_takes() {
        let disk = cheetah();
        for seed in 0..5000 {
            let mut random = SplitMix::new(seed);
            let (from, to) = (random.below(1 << 28), random.below(1 << 28));
            let (at, write) = (Nanos(random.next_u64() >> 20), random.coin());
            let arm = disk.arm_at(from);
            let exact = disk.positioning_ns(arm, at, to, write);
            let quick = disk.positioning_below(arm, at, &disk.target(to), write, u64::MAX);
            let period = disk.spindle().period().0;
            let differ = exact.abs_diff(quick).min(exact.abs_diff(quick + period));
            let differ = differ.min(quick.abs_diff(exact + period));
            // They may differ by a revolution where the sector is just being missed.
            assert!(differ < 2_000, "seed {seed}: {exact} or {quick}");
        }
    }

    #[test]
    fn a_write_of_part_of_a_physical_sector_costs_a_revolution() {
        let exos = Mechanics::new(&Profile::named("exos-x20-20tb").unwrap()).unwrap();
        let arm = exos.arm_at(0);
        let whole = exos.transfer(arm, Nanos::ZERO, 8, 8, true);
        let part = exos.transfer(arm, Nanos::ZERO, 8, 7, true);
        let more = part.ends_at.0 - whole.ends_at.0;
        assert!(more > exos.spindle().period().0 - 10_000, "{more} ns more");
    }
}
