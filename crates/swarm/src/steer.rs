//! A campaign: lives that are made of others, towards company of activities that was seldom or never met.
//!
//! It keeps the lives that met something new, as seeds and bends, and bends them further: towards a pair that was never
//! seen, from a life that had half of it; or with an eye on a pair that is rare, so that the power goes exactly there.
//! The same number gives the same campaign, with any number of threads: lives come in batches, and what a batch has
//! met is taken in its order.

use crate::bend::Bend;
use crate::company::{Company, Coverage, Pair, pairs};
use crate::scenario::Scenario;
use nearhead_basics::SplitMix;
use std::collections::BTreeMap;
use std::fmt;

/// Lives of a batch.
pub const BATCH: usize = 24;
/// Bends of a life, at most.
const BENDS_MAX: usize = 10;
/// Lives kept; then no more are.
const KEPT_MAX: usize = 4096;
/// One life in so many is a new one.
const FRESH_ONE_IN: u64 = 4;
/// Of the rarest pairs one among so many is chosen.
const RAREST: usize = 24;

/// What a life is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Its beginning.
    pub seed: u64,
    /// What was changed, in this order.
    pub bends: Vec<Bend>,
}

impl Recipe {
    /// The life itself, of `operations` steps before it is bent.
    pub fn scenario(&self, operations: usize) -> Scenario {
        let life = Scenario::new(self.seed, operations);
        self.bends.iter().fold(life, |life, bend| life.bent(*bend))
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "--seed {}{}", self.seed, words(&self.bends))
    }
}

/// The words that bend a life so; none if it is not bent.
pub fn words(bends: &[Bend]) -> String {
    let bends: Vec<String> = bends.iter().map(Bend::to_string).collect();
    if bends.is_empty() { String::new() } else { format!(" --bend {}", bends.join(",")) }
}

/// The search.
pub struct Campaign {
    random: SplitMix,
    next_seed: u64,
    kept: Vec<Recipe>,
    /// For each pair the life that met it with the fewest bends.
    met_by: BTreeMap<Pair, usize>,
    coverage: Coverage,
}

impl Campaign {
    /// The campaign with this number; its fresh lives have seeds from it on.
    pub fn new(number: u64) -> Self {
        Self {
            random: SplitMix::new(number ^ 0x7374_6565_7269_6e67),
            next_seed: number,
            kept: Vec::new(),
            met_by: BTreeMap::new(),
            coverage: Coverage::default(),
        }
    }

    /// What was met so far.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// The lives to live next.
    pub fn batch(&mut self) -> Vec<Recipe> {
        (0..BATCH).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> Recipe {
        if self.kept.is_empty() || self.random.below(FRESH_ONE_IN) == 0 {
            self.next_seed += 1;
            return Recipe { seed: self.next_seed, bends: Vec::new() };
        }
        let salt = self.random.next_u64() >> 24;
        let kind = self.random.below(4);
        let (parent, bend) = match kind {
            0 => (self.anyone(), Bend::Shape(salt)),
            1 => (self.halfway_to_a_new_pair(), Bend::Shape(salt)),
            2 => (self.halfway_to_a_new_pair(), Bend::Steps(salt)),
            _ => self.watching_a_rare_pair(),
        };
        let mut recipe = self.kept[parent].clone();
        if recipe.bends.len() >= BENDS_MAX {
            recipe.bends.remove(0);
        }
        recipe.bends.push(bend);
        if kind == 3 && self.random.coin() {
            recipe.bends.push(Bend::Steps(salt));
        }
        recipe
    }

    fn anyone(&mut self) -> usize {
        self.random.below(self.kept.len() as u64) as usize
    }

    /// A life that met one of two activities that nobody has met together.
    fn halfway_to_a_new_pair(&mut self) -> usize {
        let never: Vec<Pair> = pairs().filter(|pair| self.coverage.of(*pair).0 == 0).collect();
        if never.is_empty() {
            return self.anyone();
        }
        let (one, two) = never[self.random.below(never.len() as u64) as usize];
        let has = |pair: &Pair, activity| pair.0 == activity || pair.1 == activity;
        // Of the two the one that fewer pairs were met with is the harder to come by.
        let count = |activity| self.met_by.keys().filter(|pair| has(pair, activity)).count();
        let harder =
            if count(one) == 0 || count(two) > 0 && count(two) < count(one) { two } else { one };
        let lives: Vec<usize> = self
            .met_by
            .iter()
            .filter_map(|(pair, life)| has(pair, harder).then_some(*life))
            .collect();
        if lives.is_empty() {
            return self.anyone();
        }
        lives[self.random.below(lives.len() as u64) as usize]
    }

    /// A life that met a pair which was seldom there when the power went, and the eye on that pair.
    fn watching_a_rare_pair(&mut self) -> (usize, Bend) {
        let mut met: Vec<Pair> = self.met_by.keys().copied().collect();
        met.sort_by_key(|pair| {
            let (seen, at_cuts) = self.coverage.of(*pair);
            (at_cuts, seen)
        });
        met.truncate(RAREST);
        let pair = met[self.random.below(met.len() as u64) as usize];
        (self.met_by[&pair], Bend::Watch(pair.0, pair.1))
    }

    /// Takes note of what a life has met.
    pub fn take(&mut self, recipe: &Recipe, company: &Company) {
        let new = self.coverage.add(company);
        if new == 0 || self.kept.len() >= KEPT_MAX {
            return;
        }
        self.kept.push(recipe.clone());
        let number = self.kept.len() - 1;
        for pair in company.pairs() {
            let bends = |life: usize| self.kept[life].bends.len();
            let known = self.met_by.get(&pair).copied();
            if known.is_none_or(|known| bends(number) < bends(known)) {
                self.met_by.insert(pair, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_observed;

    fn campaign(batches: usize) -> (String, Vec<String>) {
        let mut campaign = Campaign::new(11);
        let mut lived = Vec::new();
        for _ in 0..batches {
            for recipe in campaign.batch() {
                let (result, company) = run_observed(&recipe.scenario(60));
                assert!(
                    result.is_ok(),
                    "repeat with: cargo xtask sim {recipe} --ops 60: {result:?}"
                );
                campaign.take(&recipe, &company);
                lived.push(recipe.to_string());
            }
        }
        (campaign.coverage().to_string(), lived)
    }

    #[test]
    fn the_same_campaign_is_the_same_lives_and_bends_what_met_something_new() {
        let (report, lived) = campaign(3);
        assert_eq!((report, lived.clone()), campaign(3));
        assert!(lived.iter().any(|life| life.contains("watch:")), "{lived:?}");
        assert!(lived.iter().any(|life| life.contains("shape:")), "{lived:?}");
    }
}
