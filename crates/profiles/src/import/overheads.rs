//! Overheads of a package that contradict each other.
//!
//! What a package says was measured by programs that took differences of many times, and was completed by hand. Two laws show where that
//! went wrong, and hold on every drive that was measured for us but where the package errs: nothing is answered from memory in no time,
//! and a write takes no less than a read after the same command, for the drive understands both alike and has to ask for a
//! write's data besides. What is taken instead is always a number of the package, and is told. No drive is named here.

use super::Notes;
use std::fmt::Display;

/// How far a write may be below a read: two of the drives measured are by 0.03 ms, which is what their packages are exact to.
const EXACT_TO_MS: f64 = 0.05;

/// Milliseconds after a read, and after a write.
type Pair = [f64; 2];

/// A memory that answers after one kind of command and not after the other in no time was not measured after the other.
pub(super) fn hits(hit: Pair, place: impl Display, notes: &mut Notes) -> Pair {
    let larger = hit[0].max(hit[1]);
    if hit[0].min(hit[1]) > 0.0 || larger <= EXACT_TO_MS {
        return hit;
    }
    notes.warn(
        place,
        format!("Read hit over.: expected a time after reads and after writes, found {hit:?}: {larger} ms is taken for both"),
    );
    [larger; 2]
}

/// `read` and `write` (their names are `names`) as they can be true together: where a write takes less than a read, the fewest pairs
/// are replaced by one of their two numbers for both so that it does not. Of several ways the longest is taken, for time
/// that was measured was spent on something.
pub(super) fn agreed(
    names: [&str; 2],
    read: Pair,
    write: Pair,
    place: impl Display,
    notes: &mut Notes,
) -> (Pair, Pair) {
    if is_lawful(read, write) {
        return (read, write);
    }
    let [read_name, write_name] = names;
    let found =
        format!("{read_name} {read:?}, {write_name} {write:?} (ms after a read, after a write)");
    let ways = |pair: Pair| [(0, pair), (1, [pair[0]; 2]), (1, [pair[1]; 2])];
    let total = |(read, write): &(Pair, Pair)| read.iter().chain(write).sum::<f64>();
    let mut best: Option<(u32, (Pair, Pair))> = None;
    for (read_changes, read) in ways(read) {
        for (write_changes, write) in ways(write) {
            let (changes, both) = (read_changes + write_changes, (read, write));
            let is_better = best.as_ref().is_none_or(|(least, known)| {
                changes < *least || changes == *least && total(&both) > total(known)
            });
            if is_lawful(read, write) && is_better {
                best = Some((changes, both));
            }
        }
    }
    let law = "expected no write to take less than a read after the same command";
    let Some((_, both)) = best else {
        notes.warn(
            place,
            format!("{law}, found {found}: taken as they are, for no two of them agree"),
        );
        return (read, write);
    };
    notes.warn(place, format!("{law}, found {found}: {:?} and {:?} are taken", both.0, both.1));
    both
}

fn is_lawful(read: Pair, write: Pair) -> bool {
    read.iter().zip(write).all(|(read, write)| *read <= write + EXACT_TO_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(read: Pair, write: Pair) -> (Pair, Pair, usize) {
        let mut notes = Notes::default();
        let (read, write) = agreed(["reads", "writes"], read, write, "tiny:1", &mut notes);
        (read, write, notes.warnings.len())
    }

    #[test]
    fn what_is_lawful_stays_as_it_is() {
        for (read, write) in
            [([0.1, 0.6], [1.0, 0.9]), ([1.433; 2], [2.059, 1.404]), ([0.0; 2], [0.0; 2])]
        {
            assert_eq!(told(read, write), (read, write, 0));
        }
    }

    #[test]
    fn a_write_that_is_too_short_once_takes_what_it_takes_otherwise() {
        assert_eq!(told([0.07, 0.3], [0.5, 0.1]), ([0.07, 0.3], [0.5; 2], 1));
        assert_eq!(told([0.07, 0.3], [0.01, 0.5]), ([0.07, 0.3], [0.5; 2], 1));
    }

    #[test]
    fn of_two_pairs_that_are_wrong_those_numbers_are_taken_that_can_be_true_together() {
        assert_eq!(told([3.6, 2.3], [3.3, 0.8]), ([2.3; 2], [3.3; 2], 1));
    }

    #[test]
    fn where_no_two_numbers_agree_all_stay() {
        assert_eq!(told([3.0, 3.0], [1.0, 2.0]), ([3.0; 2], [1.0, 2.0], 1));
    }

    #[test]
    fn nothing_comes_from_memory_in_no_time() {
        let mut notes = Notes::default();
        let is = |found: Pair, wanted: Pair| {
            found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-12)
        };
        assert!(is(hits([1.4, 0.0], "tiny:1", &mut notes), [1.4; 2]));
        assert_eq!(notes.warnings.len(), 1);
        for known in [[0.0; 2], [0.2, 0.3]] {
            assert!(is(hits(known, "tiny:1", &mut notes), known), "{known:?}");
        }
        assert_eq!(notes.warnings.len(), 1);
    }
}
