//! The command line of `nearhead-sim`.

use nearhead_models::faults::{FaultBudget, FaultKind};
use nearhead_swarm::{Bend, OPERATIONS, Recipe, Scenario, Steps};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const USAGE: &str =
    "usage: nearhead-sim --seed N [--bend BEND,BEND] [--steps 0-12,17] [--without KIND,KIND]
       nearhead-sim --seeds A..B      these seeds
       nearhead-sim --fresh COUNT     so many new seeds, and those of seeds.txt
       nearhead-sim --minutes M       new seeds for so long, and those of seeds.txt; the other half of it is steered
       nearhead-sim --steer COUNT     so many lives steered towards company of activities not met yet
options: --ops N        steps of each life (1000)
         --first N      the first of the new seeds, instead of one never taken before
         --steer COUNT  so many steered lives after the others
         --campaign N   this campaign, not a new one
         --budget B     survive or detect, instead of as the seed likes
         --threads N    instead of one for each core
         --long         do not shorten what fails
         --planted X    make these planted mistakes, or all (none, list); needs a build with `--cfg planted`";

/// Which seeds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seeds {
    One(u64),
    Range { first: u64, count: u64 },
    Fresh { count: u64 },
    Minutes(f64),
}

pub(crate) struct Arguments {
    pub(crate) seeds: Seeds,
    pub(crate) operations: usize,
    pub(crate) steps: Option<Steps>,
    pub(crate) bends: Vec<Bend>,
    /// Lives of a campaign, and which.
    pub(crate) steered: u64,
    /// The first of the fresh seeds.
    pub(crate) first: Option<u64>,
    pub(crate) campaign: Option<u64>,
    pub(crate) without: Vec<FaultKind>,
    pub(crate) budget: Option<FaultBudget>,
    pub(crate) threads: usize,
    pub(crate) keeps_long: bool,
    pub(crate) with_regressions: bool,
    pub(crate) planted: Option<String>,
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut arguments = Self {
            seeds: Seeds::Fresh { count: 1000 },
            operations: OPERATIONS,
            steps: None,
            bends: Vec::new(),
            steered: 0,
            first: None,
            campaign: None,
            without: Vec::new(),
            budget: None,
            threads,
            keeps_long: false,
            with_regressions: true,
            planted: None,
        };
        let mut is_steered_only = true;
        while let Some(word) = words.next() {
            is_steered_only &=
                !matches!(word.as_str(), "--seed" | "--seeds" | "--fresh" | "--minutes");
            if word == "--long" {
                arguments.keeps_long = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word}: expected a value"))?;
            arguments.take(&word, &value)?;
        }
        if arguments.steered > 0 && is_steered_only {
            arguments.seeds = Seeds::Range { first: 0, count: 0 };
            arguments.with_regressions = false;
        }
        Ok(arguments)
    }

    fn take(&mut self, word: &str, value: &str) -> Result<(), String> {
        match word {
            "--seed" => self.seeds = Seeds::One(number(word, value)?),
            "--seeds" => {
                let (first, end) = value.split_once("..").ok_or_else(|| wrong(word, value))?;
                let (first, end): (u64, u64) = (number(word, first)?, number(word, end)?);
                self.seeds = Seeds::Range { first, count: end.saturating_sub(first) };
                self.with_regressions = false;
            }
            "--fresh" => self.seeds = Seeds::Fresh { count: number(word, value)? },
            "--minutes" => self.seeds = Seeds::Minutes(number(word, value)?),
            "--ops" => self.operations = number(word, value)?,
            "--threads" => self.threads = number::<usize>(word, value)?.max(1),
            "--planted" => self.planted = Some(value.to_owned()),
            "--steps" => self.steps = Some(value.parse()?),
            "--bend" => {
                self.bends = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--steer" => self.steered = number(word, value)?,
            "--first" => self.first = Some(number(word, value)?),
            "--campaign" => self.campaign = Some(number(word, value)?),
            "--budget" => {
                self.budget = Some(match value {
                    "survive" => FaultBudget::Survive,
                    "detect" => FaultBudget::Detect,
                    _ => return Err(wrong(word, value)),
                });
            }
            "--without" => {
                for name in value.split(',') {
                    let kind = FaultKind::by_name(name).ok_or_else(|| wrong(word, name))?;
                    self.without.push(kind);
                }
            }
            _ => return Err(format!("unknown option {word}")),
        }
        Ok(())
    }

    /// The life that a seed names under these options.
    pub(crate) fn scenario(&self, seed: u64) -> Scenario {
        self.options(Recipe { seed, bends: self.bends.clone() }.scenario(self.operations))
    }

    /// The same life under these options.
    pub(crate) fn options(&self, mut scenario: Scenario) -> Scenario {
        if let Some(budget) = self.budget {
            scenario = scenario.with_budget(budget);
        }
        for kind in &self.without {
            scenario.faults = scenario.faults.without(*kind);
        }
        match &self.steps {
            Some(steps) => scenario.with_steps(steps),
            None => scenario,
        }
    }

    /// The words that chose the budget, if any did.
    pub(crate) fn budget_words(&self) -> &'static str {
        match self.budget {
            None => "",
            Some(FaultBudget::Survive) => " --budget survive",
            Some(FaultBudget::Detect) => " --budget detect",
        }
    }

    /// The campaign asked for, or a new one.
    pub(crate) fn campaign_number(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let fresh = || now.map_or(0, |now| now.as_secs() % 1_000_000_000) * 100_000 + 50_000;
        self.campaign.unwrap_or_else(fresh)
    }

    /// The first seed: as asked for, or one that was probably never taken before.
    pub(crate) fn first_seed(&self) -> u64 {
        match self.seeds {
            Seeds::One(first) | Seeds::Range { first, .. } => first,
            Seeds::Fresh { .. } | Seeds::Minutes(_) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let fresh = || now.map_or(0, |now| now.as_secs() % 1_000_000_000) * 100_000;
                self.first.unwrap_or_else(fresh)
            }
        }
    }
}

fn number<T: std::str::FromStr>(word: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| wrong(word, value))
}

fn wrong(word: &str, value: &str) -> String {
    format!("{word}: cannot read {value:?}")
}
