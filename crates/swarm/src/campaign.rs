//! A campaign on every core: steered lives until their number or the time is reached, and what they met.

use crate::arguments::Arguments;
use crate::{report, tell_count};
use nearhead_swarm::{Campaign, Company, Failure, Recipe, Tally, run_observed};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Failing lives after which no batch is begun.
const FAILURES_MAX: u64 = 5;

/// What became of a life.
pub(crate) type Lived = (Result<Tally, Failure>, Company);

/// Lives a batch on `threads` threads; what became of each, in the batch's order.
pub(crate) fn live(batch: &[Recipe], arguments: &Arguments) -> Vec<Option<Lived>> {
    let next = AtomicUsize::new(0);
    let lived: Mutex<Vec<Option<Lived>>> = Mutex::new(vec![None; batch.len()]);
    let work = || {
        while let Some(recipe) = batch.get(next.fetch_add(1, Ordering::Relaxed)) {
            let scenario = arguments.options(recipe.scenario(arguments.operations));
            let result = run_observed(&scenario);
            let place = batch.iter().position(|other| std::ptr::eq(other, recipe));
            let mut lived = lived.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = place.and_then(|place| lived.get_mut(place)) {
                *place = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(work);
        }
    });
    lived.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Lives as many as were asked for, or until that time; true if none failed.
pub(crate) fn run_all(arguments: &Arguments, until: Option<Instant>) -> bool {
    if arguments.steered == 0 && until.is_none() {
        return true;
    }
    let number = arguments.campaign_number();
    println!("campaign {number}, {} threads", arguments.threads);
    let mut campaign = Campaign::new(number);
    let (mut tally, mut lives, mut failed) = (Tally::default(), 0, 0);
    let started = Instant::now();
    let goes_on = |lives: u64| match until {
        Some(until) if arguments.steered == 0 => Instant::now() < until,
        _ => lives < arguments.steered,
    };
    while goes_on(lives) && (failed < FAILURES_MAX || arguments.only_counts) {
        let mut batch = campaign.batch();
        if arguments.steered > 0 {
            batch.truncate((arguments.steered - lives) as usize);
        }
        let results = live(&batch, arguments);
        for (recipe, (result, company)) in batch.iter().zip(results.into_iter().flatten()) {
            lives += 1;
            campaign.take(recipe, &company);
            match result {
                Ok(one) => tally.add(&one),
                Err(_) if arguments.only_counts => failed += 1,
                Err(failure) => {
                    failed += 1;
                    println!("campaign {number}, life {lives}: {recipe}");
                    let scenario = arguments.options(recipe.scenario(arguments.operations));
                    if arguments.keeps_long {
                        println!("FAILED at step {}: {}", failure.step, failure.what);
                    } else {
                        report(&scenario, failure, arguments);
                    }
                }
            }
            if arguments.only_counts {
                tell_count(failed, lives);
            }
        }
    }
    let took = started.elapsed().as_secs_f64().max(1e-9);
    println!("steered: {tally}\n{}", campaign.coverage());
    println!(
        "{lives} steered lives in {took:.1} s: {:.1} lives/s/core; {failed} failed",
        lives as f64 / took / arguments.threads as f64
    );
    failed == 0
}
