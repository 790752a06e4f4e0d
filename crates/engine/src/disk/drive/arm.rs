//! How long it takes from a command's leaving until the drive can begin with it: electronics, arm, settling.
//!
//! By distance in bytes, learned from what happens: what began sooner than expected shortens it, what missed its place lengthens
//! it. A record that came in time shortens it by a step, too: at first by a large one, which is an eighth after each miss, until one
//! in twenty misses. Rarer would be cheaper, as a miss costs a revolution and each moment of waiting only itself; but some three in
//! a hundred miss whatever time they had (a head that settles late, a retry: measured drives do), and where those lengthened the
//! way by more than all others shorten it, it would grow without end.

use nearhead_disk::Nanos;

/// One track is told apart from others, and distances in quarters of powers of two of this.
const UNIT_SHIFT: u32 = 18;
const DISTANCES: usize = 2 + 4 * (u64::BITS - UNIT_SHIFT) as usize;
/// Before anything is known: 3/8 of a revolution, more than most short seeks.
const ASSUMED_EIGHTHS: u64 = 3;
/// And of ways shorter than this, over some tracks: an eighth. To think them longer would be to never try them, where the next place on
/// the same track is only a wait away.
const SHORT_BYTES: u64 = 4 << 20;
const ASSUMED_SHORT_EIGHTHS: u64 = 1;
/// The first step is this share of a revolution, the last one that.
const STEP_FIRST_SHARE: u64 = 32;
const STEP_LAST_SHARE: u64 = 1280;
/// After a miss it is so many times smaller.
const STEP_SHARE: u64 = 8;
/// A miss takes the last step back, or lengthens at least by this share of a revolution.
const MISS_SHARE: u64 = 64;
/// What began behind a wait of no more than this share of a revolution, or a step, might have begun sooner.
const SHORT_WAIT_SHARE: u64 = 32;
/// So many classes farther a class that is known says something of one that is not.
const FARTHER_MAX: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Access {
    time: Nanos,
    /// 0 of what was never tried.
    step: u64,
}

/// What is known of the arm.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    period: Nanos,
    accesses: Box<[Access; DISTANCES]>,
}

/// The way of the arm from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// None: they are on one track.
    OneTrack,
    /// So many bytes.
    Over(u64),
}

impl Way {
    fn class(self) -> usize {
        let Self::Over(bytes) = self else { return 0 };
        let units = bytes >> UNIT_SHIFT;
        let Some(log) = units.checked_ilog2() else { return 1 };
        let quarter = if log >= 2 { units >> (log - 2) } else { units << (2 - log) } & 3;
        2 + 4 * log as usize + quarter as usize
    }
}

impl Arm {
    pub(super) fn of(period: Nanos) -> Self {
        Self { period, accesses: Box::new([Access::default(); DISTANCES]) }
    }

    /// How long until the drive can begin.
    pub(super) fn access(&self, way: Way) -> Nanos {
        self.expected(way.class()).time
    }

    fn expected(&self, class: usize) -> Access {
        let is_known = |class: &usize| self.accesses[*class].step > 0;
        // What takes the arm farther takes longer, nearly always.
        let farther = (class..(class + FARTHER_MAX).min(DISTANCES)).find(is_known);
        let first = self.period.0 / STEP_FIRST_SHARE;
        match farther {
            Some(known) if known == class => self.accesses[class],
            Some(other) => {
                let Access { time, step } = self.accesses[other];
                Access { time, step: (4 * step).min(first) }
            }
            None => Access { time: self.assumed(class), step: first },
        }
    }

    /// What is taken of a way of which nothing is known: what a nearer one takes at least.
    fn assumed(&self, class: usize) -> Nanos {
        let is_short = class < Way::Over(SHORT_BYTES).class();
        let eighths = if is_short { ASSUMED_SHORT_EIGHTHS } else { ASSUMED_EIGHTHS };
        let nearer = self.accesses[..class].iter().rev().find(|access| access.step > 0);
        let least = nearer.map_or(Nanos::ZERO, |access| access.time);
        least.max(Nanos(self.period.0 * eighths / 8))
    }

    fn learn(&mut self, way: Way, learn: impl FnOnce(&mut Access, u64)) {
        let class = way.class();
        let mut access = self.expected(class);
        learn(&mut access, self.period.0);
        self.accesses[class] = access;
    }

    /// It began `after` it left, and need not have been sooner for all that is known: then it can begin so soon.
    pub(super) fn began(&mut self, way: Way, after: Nanos) {
        self.learn(way, |access, _| access.time = access.time.min(after));
    }

    /// It began as expected, after a `wait` behind the arm: if that was short, a shorter way may do as well.
    pub(super) fn was_in_time(&mut self, way: Way, after: Nanos, wait: Nanos) {
        self.began(way, after);
        self.learn(way, |access, period| {
            if wait.0 <= access.step.max(period / SHORT_WAIT_SHARE) {
                access.time = Nanos(access.time.0.saturating_sub(access.step));
            }
        });
    }

    /// It came too late for its place, where it was expected at `expected`.
    pub(super) fn missed(&mut self, way: Way, expected: Nanos) {
        self.learn(way, |access, period| {
            let short_by = expected.since(access.time).0 / 2;
            access.time += Nanos(short_by.max(access.step).max(period / MISS_SHARE));
            access.step = (access.step / STEP_SHARE).max(period / STEP_LAST_SHARE);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

    const PERIOD: Nanos = Nanos(8_000_000);

    #[test]
    fn distances_of_one_class_differ_by_a_quarter_at_most_and_one_track_is_a_class_of_its_own() {
        assert_eq!(Way::OneTrack.class(), 0);
        let mut last = 0;
        for bytes in (0..1u64 << 34).step_by(100_003) {
            let class = Way::Over(bytes).class();
            assert!(class == last || class == last + 1 || bytes < 5 << UNIT_SHIFT, "{bytes}");
            last = class;
        }
        assert!(Way::Over(u64::MAX).class() < DISTANCES);
    }

    /// What a record costs beyond the way itself, where each goes to the place that is expected to be in time.
    #[test]
    fn the_way_is_found_by_few_misses_and_then_missed_rarely() {
        let (mut arm, mut random) = (Arm::of(PERIOD), SplitMix::new(5));
        let way = Way::Over(30 << 20);
        let mut misses = [0; 2];
        for record in 0..4000 {
            let real = Nanos(1_800_000 + random.below(100_000));
            // The next block passes within 20 us.
            let (access, wait) = (arm.access(way), Nanos(random.below(20_000)));
            let begins = access + wait;
            if begins >= real {
                arm.was_in_time(way, begins, wait);
            } else {
                arm.missed(way, begins);
                misses[usize::from(record >= 200)] += 1;
            }
        }
        assert!(misses[0] <= 20, "{misses:?} misses in the first 200");
        assert!((1..=240).contains(&misses[1]), "{misses:?} misses in the other 3800");
        let access = arm.access(way).0;
        assert!((1_700_000..2_300_000).contains(&access), "{access} ns");
    }

    #[test]
    fn what_a_drive_misses_whatever_time_it_had_does_not_make_a_way_longer_and_longer() {
        let (mut arm, mut random) = (Arm::of(PERIOD), SplitMix::new(6));
        let (way, real) = (Way::Over(30 << 20), Nanos(1_500_000));
        let (mut late, mut sum_ns) = (0, 0);
        for record in 0..6000 {
            let begins = arm.access(way);
            let comes_late = random.below(100) < 3;
            late += u32::from(comes_late);
            if begins >= real && !comes_late {
                arm.was_in_time(way, begins, Nanos::ZERO);
            } else {
                arm.missed(way, begins);
            }
            sum_ns += if record >= 3000 { begins.0 } else { 0 };
        }
        let mean = Nanos(sum_ns / 3000);
        assert!(late > 100 && mean < real + Nanos(PERIOD.0 / 16), "{mean} after {late}");
    }

    #[test]
    fn a_way_that_takes_longer_from_now_on_is_soon_found_out() {
        let mut arm = Arm::of(PERIOD);
        let way = Way::Over(30 << 20);
        let mut misses_with = |real: Nanos| {
            let mut misses = 0;
            for _ in 0..500 {
                let begins = arm.access(way);
                if begins >= real {
                    arm.was_in_time(way, begins, Nanos::ZERO);
                } else {
                    arm.missed(way, begins);
                    misses += 1;
                }
            }
            misses
        };
        misses_with(Nanos(1_500_000));
        let misses = misses_with(Nanos(2_500_000));
        assert!((2..=40).contains(&misses), "{misses} misses for 1 ms more");
    }

    #[test]
    fn a_way_never_tried_takes_as_long_as_one_a_little_farther_or_what_is_assumed() {
        let mut arm = Arm::of(PERIOD);
        let assumed = Nanos(PERIOD.0 * ASSUMED_EIGHTHS / 8);
        assert_eq!(arm.access(Way::Over(10 << 20)), assumed);
        arm.began(Way::Over(12 << 20), Nanos(700_000));
        assert_eq!(arm.access(Way::Over(10 << 20)), Nanos(700_000));
        assert_eq!(arm.access(Way::Over(100 << 20)), assumed, "what is nearer says nothing");
        let short = Nanos(PERIOD.0 * ASSUMED_SHORT_EIGHTHS / 8);
        assert_eq!([Way::OneTrack, Way::Over(1 << 20)].map(|way| arm.access(way)), [short; 2]);
        arm.missed(Way::Over(2 << 20), Nanos(4_000_000));
        let longer = arm.access(Way::Over(2 << 20));
        assert_eq!(
            arm.access(Way::Over(100 << 20)),
            assumed.max(longer),
            "no less than what is nearer"
        );
    }
}
