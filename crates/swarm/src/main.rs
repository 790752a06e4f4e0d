//! `nearhead-sim`: lives of volumes by seed, on every core, until a number or a time is reached.
//!
//! It prints what was met and how fast; a seed that fails is made short and printed with the one command
//! that repeats it. The wall clock decides only when to stop and which fresh seeds are taken; what a seed
//! does never depends on it.

mod arguments;
mod campaign;

use arguments::{Arguments, Seeds};
use nearhead_swarm::{Failure, Scenario, Tally, minimise, run};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lives spent on making a failing one short.
const MINIMISING_LIVES_MAX: u32 = 600;
/// Failing seeds after which nothing new is begun.
const FAILURES_MAX: usize = 5;
/// One seed in so many is lived twice, to see that it is the same life.
const TWICE_ONE_IN: u64 = 50;
/// Seeds that once failed, one a line; they are always run.
const REGRESSIONS: &str = include_str!("../seeds.txt");

fn main() -> ExitCode {
    let arguments = Arguments::of_process();
    // A law that is broken by a panic is reported like any other; a life that was made short shows where.
    if arguments.steps.is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    match &arguments.seeds {
        Seeds::One(seed) => one(*seed, &arguments),
        _ => many(&arguments),
    }
}

/// One life, told in full.
fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    let scenario = arguments.scenario(seed);
    println!("{scenario:#?}");
    match run(&scenario) {
        Ok(tally) => {
            println!("{tally}\ndigest {:016x}", tally.digest);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("seed {seed} FAILED at step {}: {}", failure.step, failure.what);
            if arguments.steps.is_none() && !arguments.keeps_long {
                report(&scenario, failure, arguments);
            }
            ExitCode::FAILURE
        }
    }
}

/// For whoever stops a search: what it found until then.
pub(crate) fn tell_count(failed: u64, lives: u64) {
    eprintln!("{failed} of {lives} lives");
}

/// Prints a failing life as short as it gets.
pub(crate) fn report(scenario: &Scenario, failure: Failure, arguments: &Arguments) {
    let short = minimise(scenario, failure, MINIMISING_LIVES_MAX);
    println!(
        "seed {} FAILED, shortened to {} steps: {}\n  {:?}\n  repeat with: cargo xtask sim {}{}",
        scenario.seed,
        short.steps.0.len(),
        short.failure.what,
        short.scenario.steps,
        short.arguments(arguments.operations),
        arguments.budget_words()
    );
}

struct Shared<'a> {
    arguments: &'a Arguments,
    fixed: Vec<u64>,
    first: u64,
    next: AtomicU64,
    started: Instant,
    tally: Mutex<Tally>,
    twice: AtomicU64,
    failed: Mutex<Vec<u64>>,
}

impl Shared<'_> {
    /// The next seed, or none when it is enough.
    fn seed(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(seed) = self.fixed.get(number as usize) {
            return Some(*seed);
        }
        let number = number - self.fixed.len() as u64;
        let goes_on = match self.arguments.seeds {
            Seeds::One(_) => false,
            Seeds::Range { count, .. } | Seeds::Fresh { count } => number < count,
            Seeds::Minutes(minutes) => {
                self.started.elapsed() < Duration::from_secs_f64(minutes * 30.0)
            }
        };
        goes_on.then(|| self.first.wrapping_add(number))
    }

    fn work(&self) {
        while let Some(seed) = self.seed() {
            if !self.arguments.only_counts && lock(&self.failed).len() >= FAILURES_MAX {
                return;
            }
            let scenario = self.arguments.scenario(seed);
            if !self.arguments.wants(&scenario) {
                continue;
            }
            let result = run(&scenario);
            if seed.is_multiple_of(TWICE_ONE_IN) {
                self.twice.fetch_add(1, Ordering::Relaxed);
                let again = run(&scenario);
                if result != again {
                    lock(&self.failed).push(seed);
                    println!("seed {seed} FAILED: two different lives: {result:?} and {again:?}");
                }
            }
            match result {
                Ok(tally) => lock(&self.tally).add(&tally),
                Err(failure) => {
                    lock(&self.failed).push(seed);
                    if self.arguments.keeps_long {
                        println!("seed {seed} FAILED at step {}: {}", failure.step, failure.what);
                    } else if !self.arguments.only_counts {
                        report(&scenario, failure, self.arguments);
                    }
                }
            }
            if self.arguments.only_counts {
                let (lived, failed) = (lock(&self.tally).lives, lock(&self.failed).len() as u64);
                tell_count(failed, lived + failed);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn many(arguments: &Arguments) -> ExitCode {
    let first = arguments.first_seed();
    let threads = arguments.threads;
    println!("seeds from {first} on, {} steps each, {threads} threads", arguments.operations);
    let shared = Shared {
        arguments,
        fixed: if arguments.with_regressions { regressions() } else { Vec::new() },
        first,
        next: AtomicU64::new(0),
        started: Instant::now(),
        tally: Mutex::default(),
        twice: AtomicU64::new(0),
        failed: Mutex::default(),
    };
    let mut until = None;
    if let Seeds::Minutes(minutes) = arguments.seeds {
        until = Some(shared.started + Duration::from_secs_f64(minutes * 60.0));
    }
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| shared.work());
        }
    });
    let took = shared.started.elapsed().as_secs_f64().max(1e-9);
    let (tally, failed) = (*lock(&shared.tally), lock(&shared.failed).clone());
    let lives = tally.lives + failed.len() as u64 + shared.twice.load(Ordering::Relaxed);
    println!("{tally}");
    println!(
        "{lives} lives in {took:.1} s: {:.1} seeds/s/core; {} lived twice with the same digest; {} failed",
        lives as f64 / took / threads as f64,
        shared.twice.load(Ordering::Relaxed),
        failed.len()
    );
    if let Some(preset) = arguments.preset.filter(|_| lives == 0) {
        println!(
            "expected lives of {preset}, found none among these seeds; take more of them, or newer ones"
        );
        return ExitCode::FAILURE;
    }
    let steered = campaign::run_all(arguments, until);
    if failed.is_empty() && steered { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn regressions() -> Vec<u64> {
    let lines = REGRESSIONS.lines().filter_map(|line| line.split('#').next());
    lines.filter_map(|line| line.trim().parse().ok()).collect()
}
