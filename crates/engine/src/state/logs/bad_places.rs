//! Places of one log that did not take a record: what comes next goes behind them.
//!
//! Which block of the place is bad nobody knows, so all of what was to be written counts. Where the next attempt
//! fails right behind, twice as much is passed over, so that a scratch over many sectors is left after few of them. A
//! place is tried again after a while, longer after each failure, and forgotten once a record stands there.
//!
//! This is memory alone: after a restart the place is found again, at the cost of one write that fails.

use nearhead_disk::Nanos;

/// Places remembered of one log; of more, those are forgotten that would be tried again first.
const PLACES_MAX: usize = 64;
/// For how long a place is passed over at first; it doubles.
const REST_FIRST: Nanos = Nanos::from_secs(60);
/// How often it doubles: a little more than an hour.
const DOUBLED_MAX: u32 = 6;

/// One place, in log blocks.
#[derive(Clone, Copy, Debug)]
struct BadPlace {
    start: u32,
    end: u32,
    /// It is passed over until then.
    until: Nanos,
    is_passed_over: bool,
    failures: u32,
}

/// The bad places of one log.
#[derive(Clone, Debug, Default)]
pub(super) struct BadPlaces(Vec<BadPlace>);

impl BadPlaces {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A record of `blocks` could not be written at `start` of a log that has `capacity` blocks.
    pub(super) fn note(&mut self, start: u32, blocks: u32, capacity: u32, now: Nanos) {
        let mut place =
            BadPlace { start, end: start + blocks, until: now, is_passed_over: true, failures: 0 };
        // What was tried right behind a bad place belongs to it.
        let touching = |other: &BadPlace| other.start <= start + blocks && start <= other.end;
        for other in self.0.iter().filter(|other| touching(other)) {
            if other.end == start && other.is_passed_over {
                place.end = place.end.max(start + (other.end - other.start)).min(capacity);
            } else {
                place.failures = place.failures.max(other.failures + 1);
            }
            place.start = place.start.min(other.start);
            place.end = place.end.max(other.end);
        }
        self.0.retain(|other| !touching(other));
        place.until = now + Nanos(REST_FIRST.0 << place.failures.min(DOUBLED_MAX));
        self.0.push(place);
        if self.0.len() > PLACES_MAX
            && let Some(first) = (0..self.0.len()).min_by_key(|at| self.0[*at].until)
        {
            self.0.swap_remove(first);
        }
    }

    /// Where the bad place ends, if there is one that `blocks` blocks from `start` on would touch.
    pub(super) fn end_of_one_in(&self, start: u32, blocks: u32) -> Option<u32> {
        let passed_over = self.0.iter().filter(|place| place.is_passed_over);
        let touched = passed_over.filter(|place| place.start < start + blocks && start < place.end);
        touched.map(|place| place.end).max()
    }

    /// A record of `blocks` stands at `start` now.
    pub(super) fn is_well(&mut self, start: u32, blocks: u32) {
        self.0.retain(|place| start + blocks <= place.start || place.end <= start);
    }

    /// Places that were passed over long enough may be tried again.
    pub(super) fn end_rests(&mut self, now: Nanos) {
        for place in &mut self.0 {
            place.is_passed_over &= now < place.until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Nanos = Nanos::from_secs(1000);

    #[test]
    fn what_fails_right_behind_a_bad_place_makes_it_twice_as_long() {
        let mut bad = BadPlaces::default();
        let (mut at, mut ends) = (10, Vec::new());
        for _ in 0..5 {
            bad.note(at, 2, 1000, START);
            at = bad.end_of_one_in(at, 2).unwrap();
            ends.push(at);
        }
        assert_eq!(ends, [12, 14, 18, 26, 42]);
        assert_eq!((bad.end_of_one_in(8, 2), bad.end_of_one_in(8, 3)), (None, Some(42)));
        bad.note(42, 2, 50, START);
        assert_eq!(bad.end_of_one_in(42, 2), Some(50), "not past the end of the log");
    }

    #[test]
    fn a_bad_place_is_tried_ever_more_rarely_and_forgotten_once_it_is_well() {
        let mut bad = BadPlaces::default();
        let (mut now, mut waits) = (START, Vec::new());
        for _ in 0..9 {
            bad.note(10, 2, 1000, now);
            let since = now;
            while bad.end_of_one_in(10, 2).is_some() {
                now += Nanos::from_secs(1);
                bad.end_rests(now);
            }
            waits.push(now.since(since).0 / 1_000_000_000);
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3840, 3840, 3840]);
        bad.is_well(12, 5);
        assert!(!bad.is_empty(), "a record behind it says nothing");
        bad.is_well(11, 1);
        assert!(bad.is_empty());
    }

    #[test]
    fn of_many_bad_places_those_are_remembered_that_rest_longest() {
        let mut bad = BadPlaces::default();
        for number in 0..200 {
            bad.note(number * 10, 2, 4000, START + Nanos::from_secs(u64::from(number)));
        }
        let known = (0..200).filter(|number| bad.end_of_one_in(number * 10, 1).is_some());
        assert_eq!(known.collect::<Vec<_>>(), (136..200).collect::<Vec<_>>());
    }
}
