//! The command line of `nearhead-sim`.

use clap::Parser;
use nearhead_models::faults::{FaultBudget, FaultKind};
use nearhead_swarm::{Bend, OPERATIONS, Recipe, Scenario, Steps};
use std::num::NonZeroUsize;
use std::time::{SystemTime, UNIX_EPOCH};

/// Lives of volumes under faults, crashes and restarts, by seed: the same seed is the same life, everywhere.
///
/// Without a choice of seeds it takes 1,000 new ones, and those of seeds.txt, which once failed. A life that fails is made
/// short and printed with the command that repeats it.
#[derive(Parser, Debug)]
#[command(name = "nearhead-sim", version)]
struct Words {
    #[command(flatten)]
    which: Which,
    /// So many lives steered towards company of activities not met yet, after the others; alone if no seeds are chosen
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    steer: u64,
    /// This campaign of steered lives, not a new one
    #[arg(long, value_name = "N")]
    campaign: Option<u64>,
    /// The first of the new seeds, instead of one never taken before
    #[arg(long, value_name = "N")]
    first: Option<u64>,
    /// Steps of each life
    #[arg(long, value_name = "N", default_value_t = OPERATIONS)]
    ops: usize,
    /// Only these steps of a life, such as 0-12,17
    #[arg(long, value_name = "STEPS")]
    steps: Option<Steps>,
    /// Bend a life so, one after the other
    #[arg(long, value_name = "BEND,BEND", value_delimiter = ',')]
    bend: Vec<Bend>,
    /// Leave these kinds of faults out
    #[arg(long, value_name = "KIND,KIND", value_delimiter = ',', value_parser = fault_kind)]
    without: Vec<FaultKind>,
    /// What faults may do: survive or detect, instead of as the seed likes
    #[arg(long, value_name = "BUDGET", value_parser = fault_budget)]
    budget: Option<FaultBudget>,
    /// Only lives of volumes of this preset: the other seeds are passed over
    #[arg(long, value_name = "PRESET", value_parser = preset, conflicts_with_all = ["seed", "minutes", "steer"])]
    preset: Option<&'static str>,
    /// Threads that live, instead of one for each core
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Do not shorten what fails
    #[arg(long)]
    long: bool,
    /// Only count what fails, and say after each life on standard error how many did: none is shortened, none ends it
    #[arg(long, conflicts_with_all = ["long", "seed"])]
    count: bool,
}

/// Which seeds: one choice at most.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
struct Which {
    /// This seed alone, told in full
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// These seeds and no others, from A to before B: low ones have the lives that there were before logs anywhere, log devices, chains and
    /// fragments could be chosen; new ones, as they are taken without this, have all
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<(u64, u64)>,
    /// So many new seeds, and those of seeds.txt
    #[arg(long, value_name = "COUNT")]
    fresh: Option<u64>,
    /// New seeds for so long, and those of seeds.txt; the other half of it is steered
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
}

/// Which seeds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seeds {
    One(u64),
    Range { first: u64, count: u64 },
    Fresh { count: u64 },
    Minutes(f64),
}

#[derive(Debug)]
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
    /// Seeds that make another preset are passed over.
    pub(crate) preset: Option<&'static str>,
    pub(crate) threads: usize,
    pub(crate) keeps_long: bool,
    pub(crate) with_regressions: bool,
    /// What fails is counted, and nothing more.
    pub(crate) only_counts: bool,
}

impl From<Words> for Arguments {
    fn from(words: Words) -> Self {
        let Which { seed, seeds, fresh, minutes } = words.which;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let mut with_regressions = true;
        let seeds = match (seed, seeds, fresh, minutes) {
            (Some(seed), ..) => Seeds::One(seed),
            (_, Some((first, end)), ..) => {
                with_regressions = false;
                Seeds::Range { first, count: end.saturating_sub(first) }
            }
            (_, _, Some(count), _) => Seeds::Fresh { count },
            (_, _, _, Some(minutes)) => Seeds::Minutes(minutes),
            _ if words.steer > 0 => {
                with_regressions = false;
                Seeds::Range { first: 0, count: 0 }
            }
            _ => Seeds::Fresh { count: 1000 },
        };
        Self {
            seeds,
            operations: words.ops,
            steps: words.steps,
            bends: words.bend,
            steered: words.steer,
            first: words.first,
            campaign: words.campaign,
            without: words.without,
            budget: words.budget,
            preset: words.preset,
            threads: words.threads.map_or_else(cores, usize::from),
            keeps_long: words.long,
            with_regressions,
            only_counts: words.count,
        }
    }
}

impl Arguments {
    /// Of this process; ends it where they cannot be read, or help is asked for.
    pub(crate) fn of_process() -> Self {
        Words::parse().into()
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

    /// Whether this life is among those that are wanted.
    pub(crate) fn wants(&self, scenario: &Scenario) -> bool {
        self.preset.is_none_or(|name| name == scenario.preset.name)
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

fn range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let ends = text.split_once("..").and_then(|(a, b)| Some((number(a)?, number(b)?)));
    ends.ok_or_else(|| "expected two numbers such as 100..200".to_owned())
}

fn preset(name: &str) -> Result<&'static str, String> {
    let known = || Scenario::preset_names().collect::<Vec<_>>().join(", ");
    let found = Scenario::preset_names().find(|of_lives| *of_lives == name);
    found.ok_or_else(|| format!("lives are of {}", known()))
}

fn fault_kind(name: &str) -> Result<FaultKind, String> {
    FaultKind::by_name(name).ok_or_else(|| "expected the name of a kind of fault".to_owned())
}

fn fault_budget(name: &str) -> Result<FaultBudget, String> {
    match name {
        "survive" => Ok(FaultBudget::Survive),
        "detect" => Ok(FaultBudget::Detect),
        _ => Err("expected survive or detect".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn read(line: &str) -> Arguments {
        let words = std::iter::once("nearhead-sim").chain(line.split_whitespace());
        Words::try_parse_from(words).unwrap().into()
    }

    #[test]
    fn the_command_line_is_sound() {
        Words::command().debug_assert();
    }

    #[test]
    fn steered_lives_stand_alone_unless_seeds_are_chosen() {
        let alone = read("--steer 3");
        assert_eq!(alone.seeds, Seeds::Range { first: 0, count: 0 });
        assert!(alone.steered == 3 && !alone.with_regressions);
        let beside = read("--fresh 4 --first 9 --steer 3 --campaign 7");
        assert_eq!(
            (beside.seeds, beside.first, beside.campaign),
            (Seeds::Fresh { count: 4 }, Some(9), Some(7))
        );
        assert!(beside.with_regressions);
    }

    #[test]
    fn what_a_failing_life_prints_is_read_again() {
        let read = read("--seed 5 --ops 200 --steps 0-12,17 --without read-error --budget detect");
        assert_eq!(read.seeds, Seeds::One(5));
        assert_eq!(read.steps.map(|steps| steps.0.len()), Some(14));
        assert_eq!((read.without.len(), read.operations), (1, 200));
    }

    #[test]
    fn lives_of_one_preset_are_those_that_their_seeds_make() {
        let asked = read("--preset gecko --seeds 79600000000000..79600000000100");
        let all = (0..100).map(|seed| asked.scenario(79_600_000_000_000 + seed));
        let (wanted, others): (Vec<_>, Vec<_>) = all.partition(|life| asked.wants(life));
        assert!(!wanted.is_empty() && wanted.iter().all(|life| life.preset.name == "gecko"));
        assert!(!others.is_empty() && others.iter().all(|life| life.preset.name != "gecko"));
        for line in ["--preset nosuch", "--preset gecko --seed 1", "--preset gecko --steer 3"] {
            let words = std::iter::once("nearhead-sim").chain(line.split_whitespace());
            assert!(Words::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn two_choices_of_seeds_are_refused() {
        let words = ["nearhead-sim", "--seed", "1", "--minutes", "2"];
        assert!(Words::try_parse_from(words).is_err());
    }
}
