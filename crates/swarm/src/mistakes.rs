//! `nearhead-sim --planted`: makes each planted mistake in turn and says which seeds find it.
//!
//! `cargo xtask planted` asks for one at a time, beside all other rungs. `none` lives the same lives without
//! a mistake, of which none may fail; `list` says which mistakes there are. With `--steer COUNT` a campaign looks
//! instead of the seeds, until the first of so many lives fails. After each life standard error is told how many have
//! failed so far, unless that is a terminal: whoever stops a search has what it found until then.

use crate::arguments::Arguments;
use nearhead_planted::{Mistake, choose, is_planted};
use nearhead_swarm::{Campaign, Failure, run};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Seeds tried for each mistake.
const SEEDS: u64 = 100;
/// More seeds for a mistake that none of those finds.
const SEEDS_MAX: u64 = 1000;
/// Steered lives without a mistake, to see that none fails.
const STEERED_NONE: u64 = 240;
/// Characters of a failure that are shown.
const SHOWN_CHARS: usize = 110;

#[derive(Default)]
struct Found {
    lives: u64,
    caught: u64,
    /// Lowest seed that failed, how, and after how many seconds of this search the first one did.
    first: Option<(u64, Failure)>,
    first_after_s: f64,
}

impl Found {
    fn tell(&self, lives_before: u64) {
        if !std::io::stderr().is_terminal() {
            eprintln!("{} of {} lives", self.caught, lives_before + self.lives);
        }
    }
}

/// Makes the mistakes called `names`, or all of them.
pub(crate) fn run_all(names: &str, arguments: &Arguments) -> ExitCode {
    if !is_planted() {
        eprintln!("nearhead-sim: this build makes no mistakes; run: cargo xtask planted");
        return ExitCode::from(2);
    }
    if names == "list" {
        for mistake in Mistake::all() {
            println!("{}: {}", mistake.name(), mistake.what());
        }
        return ExitCode::SUCCESS;
    }
    print_head();
    if names == "none" {
        let found = match arguments.steered {
            0 => search(0, SEEDS, arguments, false),
            steered => steer(steered.min(STEERED_NONE), arguments),
        };
        print("none", "no mistake", &found);
        return if found.first.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let wanted =
        |mistake: &Mistake| names == "all" || names.split(',').any(|n| n == mistake.name());
    let mut holes = Vec::new();
    for mistake in Mistake::all().filter(wanted) {
        choose(Some(mistake));
        let mut found = match arguments.steered {
            0 => search(0, SEEDS, arguments, false),
            steered => steer(steered, arguments),
        };
        if found.first.is_none() && arguments.steered == 0 {
            found = search(SEEDS, SEEDS_MAX, arguments, true);
        }
        choose(None);
        print(mistake.name(), mistake.what(), &found);
        if found.first.is_none() {
            holes.push(mistake.name());
        }
    }
    if holes.is_empty() {
        println!("every mistake was caught");
        ExitCode::SUCCESS
    } else {
        println!("nobody found: {}", holes.join(", "));
        ExitCode::FAILURE
    }
}

fn search(from: u64, to: u64, arguments: &Arguments, first_only: bool) -> Found {
    let started = Instant::now();
    let next = AtomicU64::new(from);
    let found = Mutex::new(Found::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return;
            }
            let result = run(&arguments.scenario(seed));
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.lives += 1;
            found.caught += u64::from(result.is_err());
            found.tell(from);
            let Err(failure) = result else { continue };
            if found.caught == 1 {
                found.first_after_s = started.elapsed().as_secs_f64();
            }
            if found.first.as_ref().is_none_or(|(first, _)| seed < *first) {
                found.first = Some((seed, failure));
            }
            if first_only {
                next.store(to, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(work);
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Lives of a campaign until one fails.
fn steer(lives_max: u64, arguments: &Arguments) -> Found {
    let started = Instant::now();
    let mut found = Found::default();
    let mut campaign = Campaign::new(arguments.campaign.unwrap_or(1));
    while found.lives < lives_max && found.first.is_none() {
        let batch = campaign.batch();
        let lived = crate::campaign::live(&batch, arguments);
        for (recipe, (result, company)) in batch.iter().zip(lived.into_iter().flatten()) {
            campaign.take(recipe, &company);
            if found.first.is_some() {
                continue;
            }
            found.lives += 1;
            if let Err(failure) = result {
                let what = format!("{recipe}: {}", failure.what);
                found.caught = 1;
                found.first = Some((found.lives, Failure { what, ..failure }));
                found.first_after_s = started.elapsed().as_secs_f64();
            }
            found.tell(0);
        }
    }
    found
}

fn print_head() {
    println!("| mistake | caught by seeds | first seed | time to it | as |");
    println!("|---|---|---|---|---|");
}

fn print(name: &str, what: &str, found: &Found) {
    let Some((seed, failure)) = &found.first else {
        println!("| `{name}`: {what} | 0 of {} | – | – | – |", found.lives);
        return;
    };
    let how: String = failure.what.chars().take(SHOWN_CHARS).collect();
    println!(
        "| `{name}`: {what} | {} of {} | {seed} | {:.1} s | {} |",
        found.caught,
        found.lives,
        found.first_after_s,
        how.replace('|', "/").replace('\n', " ")
    );
}
