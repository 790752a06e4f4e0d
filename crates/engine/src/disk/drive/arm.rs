//! How long it takes from a command's leaving until the drive can begin with it: electronics, arm, settling.
//!
//! By distance in bytes, learned from what happens. Each try says whether so much time was enough. Of the last tries that say
//! anything the time is taken that would have cost least: itself, and a revolution for each that misses with so much or more. Some
//! miss whatever time they had (a head that settles late, a retry: three in a hundred on measured drives); those make no time longer, as
//! they are found beside longer ones, too. Now and then a little less is tried, ever more rarely where that misses.

use nearhead_disk::Nanos;

/// One track and the others of its group are told apart from the rest, and distances in quarters of powers of two of this.
const UNIT_SHIFT: u32 = 18;
const DISTANCES: usize = 3 + 4 * (u64::BITS - UNIT_SHIFT) as usize;
/// Before anything is known: 3/8 of a revolution, more than most short seeks.
const ASSUMED_EIGHTHS: u64 = 3;
/// And of ways shorter than this, over some tracks: an eighth. To think them longer would be to never try them, where the next place on
/// the same track is only a wait away.
const SHORT_BYTES: u64 = 4 << 20;
const ASSUMED_SHORT_EIGHTHS: u64 = 1;
/// The first step towards less is this share of a revolution, the last one that; a miss halves it.
const STEP_FIRST_SHARE: u64 = 32;
const STEP_LAST_SHARE: u64 = 512;
/// Tries that are remembered of each class.
const TRIES: usize = 32;
/// What began behind a longer wait than this share of a revolution says little: it might have begun much sooner.
const SHORT_WAIT_SHARE: u64 = 16;
/// Before anything is known of a time one in so many is taken to miss, as if so many had been tried.
const ASSUMED_MISSES_ONE_IN: u64 = 20;
const ASSUMED_TRIES: u64 = 4;
/// What missed longest might have done with so much more, a share of a revolution: never tried, so weighed as what is assumed.
const MISS_SHARE: u64 = 64;
/// After a step that was in time so many tries until the next one.
const REST_IN_TIME: u32 = 2;
/// After a step that missed so many tries until the next one, doubling up to the most.
const REST_FIRST: u32 = 16;
const REST_MAX: u32 = 1024;
/// So many classes farther a class that is known says something of one that is not.
const FARTHER_MAX: usize = 8;

/// How much time one had, and whether it missed.
#[derive(Clone, Copy, Debug, Default)]
struct Try {
    time: Nanos,
    has_missed: bool,
}

/// What is known of the ways of one class.
#[derive(Clone, Debug, Default)]
struct Access {
    /// 0 of what was never tried.
    time: Nanos,
    /// What would have cost least of what was tried.
    best: Nanos,
    /// The least that was ever enough.
    least: Option<Nanos>,
    /// The last ones, in no order.
    tries: Vec<Try>,
    /// The one of them that is replaced next.
    oldest: usize,
    step: u64,
    /// Tries until less is tried again.
    rest_left: u32,
    /// How many it were after the last miss.
    rest_after_miss: u32,
}

impl Access {
    fn is_known(&self) -> bool {
        self.time > Nanos::ZERO
    }

    /// One more try.
    fn note(&mut self, new: Try, period: u64) {
        let steps_on = new.time < self.best || !self.is_known();
        if self.tries.len() < TRIES {
            self.tries.push(new);
        } else {
            self.tries[self.oldest] = new;
            self.oldest = (self.oldest + 1) % TRIES;
        }
        if new.has_missed && steps_on {
            self.step = (self.step / 2).max(period / STEP_LAST_SHARE);
            self.rest_after_miss = (self.rest_after_miss * 2).clamp(REST_FIRST, REST_MAX);
            self.rest_left = self.rest_after_miss;
        } else if !new.has_missed {
            // Less than ever does: so may still less.
            let is_least = self.least.is_none_or(|least| new.time < least);
            self.least = if is_least { Some(new.time) } else { self.least };
            self.rest_after_miss = if is_least { REST_FIRST / 2 } else { self.rest_after_miss };
            self.rest_left = if steps_on { REST_IN_TIME } else { self.rest_left.saturating_sub(1) };
        }
        let before = self.best;
        self.best = self.cheapest(period);
        // What seems to take longer now is soon tried again: a few that miss whatever time they have look the same.
        if self.best > before && new.has_missed && !steps_on {
            self.rest_left = self.rest_left.min(REST_FIRST);
        }
        self.time = self.best.max(Nanos(1));
        self.step_on();
    }

    /// A step less, if one is to be tried, but nothing that was too little already.
    fn step_on(&mut self) {
        let step = if self.rest_left == 0 { self.step } else { 0 };
        let missed = self.tries.iter().filter(|of| of.has_missed && of.time < self.best);
        let least = missed.map(|of| of.time.0 + 1).max().unwrap_or(1).min(self.time.0);
        self.time = Nanos(self.time.0.saturating_sub(step).max(least));
    }

    /// Of the times that were enough once, and one a little longer than what was not, the one that would have cost least.
    fn cheapest(&self, period: u64) -> Nanos {
        let missed = self.tries.iter().filter(|of| of.has_missed).map(|of| of.time).max();
        let longer = missed.map(|longest| longest + Nanos(period / MISS_SHARE));
        let enough = self.tries.iter().filter(|of| !of.has_missed).map(|of| of.time);
        let cost = |time: &Nanos| {
            let with_more = || self.tries.iter().filter(|of| of.time >= *time);
            let missed = with_more().filter(|of| of.has_missed).count() as u64;
            let tried = ASSUMED_TRIES + with_more().count() as u64;
            let missed = missed * ASSUMED_MISSES_ONE_IN + ASSUMED_TRIES;
            time.0 + period * missed / (tried * ASSUMED_MISSES_ONE_IN)
        };
        enough.chain(longer).min_by_key(cost).unwrap_or(self.best)
    }
}

/// What is known of the arm.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    period: Nanos,
    accesses: Box<[Access]>,
}

/// The way of the arm from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// None: they are on one track.
    OneTrack,
    /// None, but to another head: they are on tracks of one group, where those are known.
    OneGroup,
    /// So many bytes.
    Over(u64),
}

impl Way {
    fn class(self) -> usize {
        let bytes = match self {
            Self::OneTrack => return 0,
            Self::OneGroup => return 1,
            Self::Over(bytes) => bytes,
        };
        let units = bytes >> UNIT_SHIFT;
        let Some(log) = units.checked_ilog2() else { return 2 };
        let quarter = if log >= 2 { units >> (log - 2) } else { units << (2 - log) } & 3;
        3 + 4 * log as usize + quarter as usize
    }
}

impl Arm {
    pub(super) fn of(period: Nanos) -> Self {
        Self { period, accesses: vec![Access::default(); DISTANCES].into() }
    }

    /// Whether a way of this class was tried.
    pub(super) fn knows(&self, way: Way) -> bool {
        self.accesses[way.class()].is_known()
    }

    /// How long until the drive can begin.
    pub(super) fn access(&self, way: Way) -> Nanos {
        self.expected(way.class())
    }

    fn expected(&self, class: usize) -> Nanos {
        if self.accesses[class].is_known() {
            return self.accesses[class].time;
        }
        self.farther(class).map_or_else(|| self.assumed(class), |access| access.best)
    }

    /// The class itself, or what takes the arm a little farther, which takes longer, nearly always.
    fn farther(&self, class: usize) -> Option<&Access> {
        self.accesses[class..].iter().take(FARTHER_MAX).find(|access| access.is_known())
    }

    /// What is taken of a way of which nothing is known: what a nearer one takes at least.
    fn assumed(&self, class: usize) -> Nanos {
        let is_short = class < Way::Over(SHORT_BYTES).class();
        let eighths = if is_short { ASSUMED_SHORT_EIGHTHS } else { ASSUMED_EIGHTHS };
        let nearer = self.accesses[..class].iter().rev().find(|access| access.is_known());
        let least = nearer.map_or(Nanos::ZERO, |access| access.time);
        least.max(Nanos(self.period.0 * eighths / 8))
    }

    fn note(&mut self, way: Way, new: Try) {
        let class = way.class();
        let first = self.period.0 / STEP_FIRST_SHARE;
        let step = self.farther(class).map_or(first, |access| (4 * access.step).min(first));
        let assumed = self.expected(class);
        let access = &mut self.accesses[class];
        if !access.is_known() {
            (access.best, access.step) = (assumed, step);
        }
        access.note(new, self.period.0);
    }

    /// It began `after` it left, and need not have been sooner for all that is known: then it can begin so soon.
    pub(super) fn began(&mut self, way: Way, after: Nanos) {
        if after < self.access(way) {
            self.note(way, Try { time: after, has_missed: false });
        }
    }

    /// It began as expected, after a `wait` behind the arm: if that was short, it says that so much is enough.
    pub(super) fn was_in_time(&mut self, way: Way, after: Nanos, wait: Nanos) {
        if wait.0 <= self.period.0 / SHORT_WAIT_SHARE {
            self.note(way, Try { time: after, has_missed: false });
        } else {
            // No place was there for what was to be tried: one that passes a little sooner is to do.
            self.accesses[way.class()].step_on();
        }
    }

    /// It came too late for its place, where it was expected at `expected`.
    pub(super) fn missed(&mut self, way: Way, expected: Nanos) {
        self.note(way, Try { time: expected, has_missed: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

    const PERIOD: Nanos = Nanos(8_000_000);

    #[test]
    fn distances_of_one_class_differ_by_a_quarter_at_most_and_one_track_is_a_class_of_its_own() {
        assert_eq!((Way::OneTrack.class(), Way::OneGroup.class()), (0, 1));
        let mut last = 1;
        for bytes in (0..1u64 << 34).step_by(100_003) {
            let class = Way::Over(bytes).class();
            assert!(class == last || class == last + 1 || bytes < 5 << UNIT_SHIFT, "{bytes}");
            last = class;
        }
        assert!(Way::Over(u64::MAX).class() < DISTANCES);
    }

    const WAY: Way = Way::Over(30 << 20);

    /// A record behind a `wait`, where the way takes `real`: when it was to begin, and whether it missed.
    fn record(arm: &mut Arm, wait: Nanos, real: Nanos) -> (Nanos, bool) {
        let begins = arm.access(WAY) + wait;
        let has_missed = begins < real;
        if has_missed {
            arm.missed(WAY, begins);
        } else {
            arm.was_in_time(WAY, begins, wait);
        }
        (begins, has_missed)
    }

    /// What a record costs beyond the way itself, where each goes to the place that is expected to be in time.
    #[test]
    fn the_way_is_found_by_few_misses_and_then_missed_rarely() {
        let (mut arm, mut random) = (Arm::of(PERIOD), SplitMix::new(5));
        let mut misses = [0; 2];
        for number in 0..4000 {
            let real = Nanos(1_800_000 + random.below(100_000));
            // The next block passes within 20 us.
            let (_, has_missed) = record(&mut arm, Nanos(random.below(20_000)), real);
            misses[usize::from(number >= 200)] += u32::from(has_missed);
        }
        assert!(misses[0] <= 20, "{misses:?} misses in the first 200");
        assert!((1..=240).contains(&misses[1]), "{misses:?} misses in the other 3800");
        let access = arm.access(WAY).0;
        assert!((1_700_000..2_300_000).contains(&access), "{access} ns");
    }

    #[test]
    fn what_a_drive_misses_whatever_time_it_had_does_not_make_a_way_longer_and_longer() {
        let (mut arm, mut random) = (Arm::of(PERIOD), SplitMix::new(6));
        let real = Nanos(1_500_000);
        let (mut late, mut sum_ns) = (0, 0);
        for number in 0..6000 {
            let comes_late = random.below(100) < 3;
            late += u32::from(comes_late);
            let takes = if comes_late { Nanos(u64::MAX) } else { real };
            let (begins, _) = record(&mut arm, Nanos::ZERO, takes);
            sum_ns += if number >= 3000 { begins.0 } else { 0 };
        }
        let mean = Nanos(sum_ns / 3000);
        assert!(late > 100 && mean < real + Nanos(PERIOD.0 / 16), "{mean} after {late}");
    }

    /// As on a drive whose head settles at once: then no record need come too late any more.
    #[test]
    fn a_way_that_always_takes_the_same_is_found_within_a_fiftieth_of_a_revolution_and_kept() {
        let (mut arm, mut random) = (Arm::of(PERIOD), SplitMix::new(7));
        let real = Nanos(1_500_000);
        let (mut missed, mut sum_ns) = (0, 0);
        for number in 0..6000 {
            let (begins, has_missed) = record(&mut arm, Nanos(random.below(40_000)), real);
            missed += u32::from(has_missed && number >= 1000);
            sum_ns += if number >= 1000 { begins.0 } else { 0 };
        }
        let mean = Nanos(sum_ns / 5000);
        assert!(missed <= 25 && mean < real + Nanos(PERIOD.0 / 50), "{missed} missed, {mean}");
    }

    #[test]
    fn a_step_that_misses_is_taken_again_ever_more_rarely() {
        let mut arm = Arm::of(PERIOD);
        let (mut last, mut rests) = (0, Vec::new());
        for number in 0..6000 {
            if record(&mut arm, Nanos::ZERO, Nanos(1_500_000)).1 {
                rests.push(number - last);
                last = number;
            }
        }
        assert!(rests.last() > Some(&500), "{rests:?}");
    }

    #[test]
    fn a_step_stops_short_of_what_missed_and_a_miss_with_more_time_is_in_nobodys_way() {
        let mut arm = Arm::of(PERIOD);
        let way = WAY;
        let enough = Nanos(1_500_000);
        arm.was_in_time(way, enough, Nanos::ZERO);
        arm.missed(way, Nanos(1_490_000));
        for _ in 0..REST_FIRST - 1 {
            arm.was_in_time(way, enough, Nanos::ZERO);
        }
        arm.missed(way, Nanos(1_600_000));
        assert_eq!(arm.access(way), enough, "nothing less is tried yet");
        arm.was_in_time(way, enough, Nanos::ZERO);
        assert_eq!(arm.access(way), Nanos(1_490_001));
    }

    #[test]
    fn what_began_behind_a_long_wait_says_nothing_of_how_soon_it_can() {
        let mut arm = Arm::of(PERIOD);
        let way = WAY;
        let long = Nanos(PERIOD.0 / SHORT_WAIT_SHARE);
        arm.was_in_time(way, Nanos(2_000_000), Nanos::ZERO);
        arm.was_in_time(way, Nanos(1_900_000), long + Nanos(1));
        assert_eq!(arm.access(way), Nanos(2_000_000));
        arm.was_in_time(way, Nanos(1_900_000), long);
        assert_eq!(arm.access(way), Nanos(1_900_000));
    }

    #[test]
    fn where_a_little_farther_is_known_well_steps_are_small_from_the_first() {
        let mut arm = Arm::of(PERIOD);
        let (farther, way) = (Way::Over(12 << 20), Way::Over(10 << 20));
        let enough = Nanos(1_500_000);
        arm.was_in_time(farther, enough, Nanos::ZERO);
        for missed in [1_400_000, 1_410_000, 1_420_000, 1_430_000] {
            arm.missed(farther, Nanos(missed));
        }
        for _ in 0..=REST_IN_TIME {
            assert_eq!(arm.access(way), enough);
            arm.was_in_time(way, enough, Nanos::ZERO);
        }
        assert_eq!(arm.access(way), enough - Nanos(4 * PERIOD.0 / STEP_LAST_SHARE));
    }

    #[test]
    fn a_way_that_takes_longer_from_now_on_is_soon_found_out() {
        let mut arm = Arm::of(PERIOD);
        let mut misses_with =
            |real| (0..500).filter(|_| record(&mut arm, Nanos::ZERO, real).1).count();
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
        arm.missed(Way::Over(40 << 20), Nanos(4_000_000));
        let longer = arm.access(Way::Over(40 << 20));
        assert!(longer > Nanos(4_000_000), "{longer}");
        assert_eq!(
            arm.access(Way::Over(100 << 20)),
            assumed.max(longer),
            "no less than what is nearer"
        );
    }
}
