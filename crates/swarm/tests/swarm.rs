//! A few lives in every test run, and that the same life is lived twice the same way.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_swarm::{
    Arrangement, Campaign, Coverage, OPERATIONS, Scenario, Tally, minimise, pairs, run,
    run_observed,
};
use nearhead_volume::NamedPreset;

#[test]
fn lives_under_faults_and_crashes_break_no_law() {
    let mut all = Tally::default();
    for seed in 0..60 {
        let scenario = Scenario::new(seed, OPERATIONS);
        match run(&scenario) {
            Ok(tally) => all.add(&tally),
            Err(failure) => panic!("repeat with: cargo xtask sim --seed {seed}: {failure:?}"),
        }
    }
    println!("{all}");
    // What never ran proves nothing.
    assert!(all.cuts > 100 && all.cuts_in_recovery > 50 && all.kills > 50 && all.stops > 50);
    assert!(all.records > 1000 && all.snapshots > 200 && all.swaps > 10 && all.hostile > 100);
    assert!(all.mirrors_alike > 0 && all.arrays > 2 && all.map_devices > 2);
    assert!(all.faults.of_commands() > 200 && all.checkpointed_bytes > 1 << 20);
}

/// Of lives that few seeds are.
#[test]
fn a_member_of_a_mirror_that_goes_and_comes_breaks_no_law() {
    let lives: u64 = std::env::var("MIRRORS").map_or(12, |lives| lives.parse().unwrap());
    let goes = |scenario: &Scenario| {
        matches!(scenario.arrangement, Arrangement::Mirror { goes_away: true, .. })
    };
    let mut all = Tally::default();
    let scenarios = (79_571_000_000_000..).map(|seed| Scenario::new(seed, OPERATIONS));
    for scenario in scenarios.filter(goes).take(lives as usize) {
        match run(&scenario) {
            Ok(tally) => all.add(&tally),
            Err(failure) => {
                panic!("repeat with: cargo xtask sim --seed {}: {failure:?}", scenario.seed)
            }
        }
    }
    println!("{all}");
    assert!(all.absences > lives / 2 && all.mirrors_alike > lives / 2);
}

#[test]
fn the_same_seed_is_the_same_life_and_another_is_another() {
    let digest = |seed| run(&Scenario::new(seed, 400)).map(|tally| tally.digest).unwrap();
    for seed in 0..8 {
        assert_eq!(digest(seed), digest(seed), "seed {seed}");
    }
    assert_ne!(digest(1), digest(2));
}

#[test]
fn a_failing_life_is_made_short_and_still_fails() {
    // A volume too small for its own steps fails at once, whatever the rest is: that is what is left.
    let mut scenario = Scenario::new(3, 50);
    scenario.log_bytes = 1;
    scenario.preset = NamedPreset::by_name("singlelog").unwrap();
    let failure = run(&scenario).unwrap_err();
    let short = minimise(&scenario, failure.clone(), 100);
    assert!(short.steps.0.len() <= 1, "{}", short.steps);
    assert_eq!(short.failure.what, failure.what);
}

#[test]
fn a_campaign_meets_more_company_than_the_same_number_of_seeds_and_breaks_no_law() {
    const OPERATIONS: usize = 200;
    let mut campaign = Campaign::new(7);
    let (mut by_chance, mut lives, mut ghosts) = (Coverage::default(), 0, 0);
    for _ in 0..3 {
        for recipe in campaign.batch() {
            let (result, company) = run_observed(&recipe.scenario(OPERATIONS));
            match result {
                Ok(tally) => ghosts += tally.ghosts,
                Err(failure) => {
                    panic!("repeat with: cargo xtask sim {recipe} --ops {OPERATIONS}: {failure:?}")
                }
            }
            campaign.take(&recipe, &company);
            lives += 1;
        }
    }
    for seed in 0..lives {
        by_chance.add(&run_observed(&Scenario::new(seed, OPERATIONS)).1);
    }
    println!("{lives} lives, {ghosts} cuts beside them: {}", campaign.coverage());
    let seen = |coverage: &Coverage| pairs().filter(|pair| coverage.of(*pair).1 > 0).count();
    assert!(ghosts > 100, "only {ghosts} cuts beside lives");
    assert!(
        seen(campaign.coverage()) >= seen(&by_chance),
        "{} pairs at cuts, by chance {}",
        seen(campaign.coverage()),
        seen(&by_chance)
    );
}
