//! Which activities of an engine were under way at once, in lives: pairs, triples, and pairs when the power went.
//!
//! What was never seen together was never tried together, however many lives there were. A life notes it
//! ([`Company`]), a campaign adds it up ([`Coverage`]) and looks for what is missing.

use nearhead_engine::{Activities, Activity};
use std::collections::BTreeSet;
use std::fmt;

const COUNT: usize = Activity::ALL.len();
/// Different sets of activities that a life remembers.
const SETS_MAX: usize = 4096;

/// What one life met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Company {
    last: Activities,
    sets: BTreeSet<u64>,
    /// Those that were there when the power went.
    at_cuts: BTreeSet<u64>,
}

impl Company {
    /// These are under way; true if this life met them together for the first time.
    pub(crate) fn note(&mut self, activities: Activities) -> bool {
        let changed = std::mem::replace(&mut self.last, activities) != activities;
        changed && self.sets.len() < SETS_MAX && self.sets.insert(activities.0)
    }

    /// The power goes, or might have gone: what comes of it was looked at.
    pub(crate) fn note_cut(&mut self, activities: Activities) {
        if self.at_cuts.len() < SETS_MAX {
            self.at_cuts.insert(activities.0);
        }
    }

    /// Every pair met.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        add(&mut vec![0; COUNT * COUNT], &self.sets)
    }

    /// Whether the power went with no set that holds both of them.
    pub(crate) fn is_new_at_cuts(&self, activities: Activities) -> bool {
        !self.at_cuts.contains(&activities.0)
    }
}

/// A pair of activities that can be under way at once.
pub type Pair = (Activity, Activity);

/// Every pair that does not exclude itself.
pub fn pairs() -> impl Iterator<Item = Pair> {
    let all = Activity::ALL;
    let pairs =
        (0..COUNT).flat_map(move |one| (one + 1..COUNT).map(move |two| (all[one], all[two])));
    pairs.filter(|(one, two)| !one.excludes(*two))
}

/// What many lives met.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// Lives in which each pair was seen, and was there at a cut; by both bits.
    seen: Vec<u32>,
    at_cuts: Vec<u32>,
    triples: BTreeSet<u16>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self {
            seen: vec![0; COUNT * COUNT],
            at_cuts: vec![0; COUNT * COUNT],
            triples: BTreeSet::new(),
        }
    }
}

fn place(one: Activity, two: Activity) -> usize {
    one as usize * COUNT + two as usize
}

/// Adds one to each pair in these sets; says which were new.
fn add(counts: &mut [u32], sets: &BTreeSet<u64>) -> Vec<Pair> {
    let mut together = [0_u64; COUNT];
    for set in sets {
        for activity in Activities(*set).iter() {
            together[activity as usize] |= set;
        }
    }
    let mut new = Vec::new();
    for (one, two) in pairs() {
        if together[one as usize] >> two as u8 & 1 == 1 {
            let count = &mut counts[place(one, two)];
            if *count == 0 {
                new.push((one, two));
            }
            *count += 1;
        }
    }
    new
}

impl Coverage {
    /// Adds a life; says how much of it was new: pairs, pairs at cuts, triples.
    pub fn add(&mut self, company: &Company) -> usize {
        let new = add(&mut self.seen, &company.sets).len();
        let new_at_cuts = add(&mut self.at_cuts, &company.at_cuts).len();
        let before = self.triples.len();
        for set in &company.sets {
            self.add_triples(Activities(*set));
        }
        new + new_at_cuts + self.triples.len() - before
    }

    fn add_triples(&mut self, set: Activities) {
        let of_set: Vec<Activity> = set.iter().collect();
        for (first, one) in of_set.iter().enumerate() {
            for (second, two) in of_set.iter().enumerate().skip(first + 1) {
                for three in &of_set[second + 1..] {
                    let number = place(*one, *two) * COUNT + *three as usize;
                    self.triples.insert(number as u16);
                }
            }
        }
    }

    /// Lives that saw the pair, and that had it at a cut.
    pub fn of(&self, (one, two): Pair) -> (u32, u32) {
        (self.seen[place(one, two)], self.at_cuts[place(one, two)])
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<Pair> = pairs().collect();
        let seen = all.iter().filter(|pair| self.of(**pair).0 > 0).count();
        let at_cuts = all.iter().filter(|pair| self.of(**pair).1 > 0).count();
        write!(
            formatter,
            "company: {seen} of {} pairs of activities seen, {at_cuts} when the power went; {} triples",
            all.len(),
            self.triples.len()
        )?;
        let name = |(one, two): &Pair| format!("{}+{}", one.name(), two.name());
        let never: Vec<String> =
            all.iter().filter(|pair| self.of(**pair).0 == 0).map(name).collect();
        if !never.is_empty() {
            write!(formatter, "\nnever seen: {}", never.join(", "))?;
        }
        Ok(())
    }
}

const _: () = assert!(COUNT * COUNT * COUNT <= 1 << 16, "a triple is a number of 16 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_and_triples_are_counted_by_life_and_what_is_new_is_told() {
        let set = Activities::pair(Activity::Flush, Activity::Stop).0
            | Activities::pair(Activity::Barrier, Activity::Stop).0;
        let mut company = Company::default();
        assert!(company.note(Activities(set)) && !company.note(Activities(set)));
        company.note_cut(Activities::pair(Activity::Flush, Activity::Stop));
        let mut coverage = Coverage::default();
        // Three pairs, one of them at a cut, one triple.
        assert_eq!(coverage.add(&company), 3 + 1 + 1);
        assert_eq!(coverage.add(&company), 0);
        assert_eq!(coverage.of((Activity::Flush, Activity::Stop)), (2, 2));
        assert_eq!(coverage.of((Activity::Flush, Activity::Barrier)), (2, 0));
        assert!(coverage.to_string().contains("company: 3 of "), "{coverage}");
        assert!(coverage.to_string().contains("snapshot-body+stop"), "{coverage}");
    }
}
