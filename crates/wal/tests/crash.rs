//! Power fails at every operation, and of what was not safe then every subset survives: nothing
//! acknowledged is lost, nothing that recovery said is gone comes back, and recovery may be cut too.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

mod support;

use nearhead_basics::SplitMix;
use nearhead_wal::storage::Memory;
use nearhead_wal::{LogOptions, Tail};
use support::{Oracle, Step, created, cuts, live, open_checked, small};

use Step::{Append, Commit, KeepLast, Prepare, Reopen};

/// Short lives that meet every part: packed records, part-filled blocks, several blocks, a roll, a
/// truncation with recycling, an orderly end.
const SHORT: &[&[Step]] = &[
    &[Append(10), Commit, Append(20), Commit],
    &[Append(0), Append(1), Append(500), Commit, Append(700), Append(100), Commit],
    &[Append(470), Commit, Append(8), Append(8), Commit, Append(1500), Commit],
    &[Append(5800), Commit, Append(5800), Commit, Append(900), Commit],
    &[
        Append(5000),
        Commit,
        Prepare,
        Append(5000),
        Append(5000),
        Commit,
        KeepLast(1),
        Append(5000),
        Commit,
    ],
    &[Append(100), Commit, Reopen, Append(100), Append(600), Commit, Reopen, Append(1), Commit],
    &[
        Append(5000),
        Append(5000),
        Append(5000),
        Append(5000),
        Commit,
        KeepLast(0),
        Append(5000),
        Append(5000),
        Append(5000),
        Commit,
        KeepLast(1),
        Append(5900),
        Append(5900),
        Commit,
    ],
];

/// What a life does after a crash: first the very records that may have been cut short, once more.
const AFTER: &[Step] = &[Append(20), Append(8), Commit, Append(700), Commit];

struct Count {
    images: u64,
    seconds: u64,
}

/// Every crash point of `steps`; `most` images at each, and `most_again` at each point of recovery.
fn crash_everywhere(
    options: &LogOptions,
    steps: &[Step],
    most: usize,
    most_again: usize,
    seed: u64,
) -> Count {
    let tail = options.geometry.tail;
    let mut random = SplitMix::new(seed);
    let mut count = Count { images: 0, seconds: 0 };
    for crash_at in 0.. {
        let storage = created(options);
        let created_at = storage.operations();
        let mut oracle = Oracle::new();
        storage.lose_power_at(created_at + crash_at);
        let opened = support::open(&storage, options);
        let ended = match opened {
            Ok((log, ..)) => live(&storage, options, log, steps, &mut oracle).map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(ended.is_err(), storage.is_dead(), "crash at {crash_at}: {ended:?}");
        for (number, cut) in cuts(&storage, tail, most, &mut random).iter().enumerate() {
            count.images += 1;
            let image = storage.cut(cut);
            let context = format!(
                "{tail:?}, steps {steps:?}, crash at {crash_at}, image {number}, seed {seed}, {cut:?}"
            );
            recover_and_go_on(&image, options, oracle.clone(), &context);
            if number % 13 == 0 {
                count.seconds +=
                    crash_in_recovery(&image, options, &oracle, most_again, &mut random, &context);
            }
        }
        if ended.is_ok() {
            assert!(crash_at > 0, "a workload that does nothing tests nothing");
            return count;
        }
    }
    unreachable!("a workload has an end")
}

/// Recovers, appends, is killed, loses power, and recovers again.
fn recover_and_go_on(image: &Memory, options: &LogOptions, mut oracle: Oracle, context: &str) {
    let storage = image.killed();
    let log = open_checked(&storage, options, &mut oracle, context);
    drop(log);
    // Recovery promised what it showed, whatever power does afterwards.
    let none = nearhead_wal::storage::Cut { sectors: Vec::new(), name_changes: 0 };
    let storage = storage.cut(&none);
    let context = format!("{context}, after recovery");
    let log = open_checked(&storage, options, &mut oracle, &context);
    let log = live(&storage, options, log, AFTER, &mut oracle).unwrap();
    drop(log);
    let storage = storage.cut(&none);
    let log = open_checked(&storage, options, &mut oracle, &format!("{context} and another life"));
    log.close().unwrap();
    open_checked(&storage, options, &mut oracle, &format!("{context} and an orderly end"));
}

fn crash_in_recovery(
    image: &Memory,
    options: &LogOptions,
    oracle: &Oracle,
    most: usize,
    random: &mut SplitMix,
    context: &str,
) -> u64 {
    let mut images = 0;
    for crash_at in 0.. {
        let storage = image.killed();
        storage.lose_power_at(crash_at);
        let outcome = support::open(&storage, options);
        for cut in cuts(&storage, options.geometry.tail, most, random) {
            images += 1;
            let again = storage.cut(&cut);
            let context = format!("{context}, recovery cut at {crash_at}, {cut:?}");
            recover_and_go_on(&again, options, oracle.clone(), &context);
        }
        if outcome.is_ok() {
            return images;
        }
    }
    unreachable!("recovery has an end")
}

#[test]
fn nothing_acknowledged_is_lost_by_any_crash_where_the_tail_is_rewritten() {
    let (mut images, mut again) = (0, 0);
    for (number, steps) in SHORT.iter().enumerate() {
        let count = crash_everywhere(&small(Tail::Rewritten), steps, 80, 4, number as u64);
        (images, again) = (images + count.images, again + count.seconds);
    }
    println!("{images} images, {again} of a recovery that was cut");
    assert!(images > 3_000 && again > 1_000);
}

#[test]
fn nothing_acknowledged_is_lost_by_any_crash_where_the_tail_is_left_alone() {
    let (mut images, mut again) = (0, 0);
    for (number, steps) in SHORT.iter().enumerate() {
        let count = crash_everywhere(&small(Tail::LeftAlone), steps, 80, 4, number as u64);
        (images, again) = (images + count.images, again + count.seconds);
    }
    println!("{images} images, {again} of a recovery that was cut");
    assert!(images > 3_000 && again > 1_000);
}

fn random_steps(random: &mut SplitMix) -> Vec<Step> {
    let count = 3 + random.below(25);
    let step = |random: &mut SplitMix| match random.below(12) {
        0..5 => Append(random.below(700) as usize),
        5 => Append(random.below(6000) as usize),
        6..9 => Commit,
        9 => KeepLast(random.below(4)),
        10 => Prepare,
        _ => Reopen,
    };
    (0..count).map(|_| step(random)).collect()
}

#[test]
fn nothing_acknowledged_is_lost_in_random_lives() {
    for seed in 0..200 {
        let mut random = SplitMix::new(seed);
        let tail = if random.coin() { Tail::Rewritten } else { Tail::LeftAlone };
        let options = small(tail);
        let mut storage = created(&options);
        let mut oracle = Oracle::new();
        for life in 0..6 {
            let steps = random_steps(&mut random);
            let context = format!("seed {seed}, life {life}");
            storage.lose_power_at(storage.operations() + random.below(30));
            let opened = support::open(&storage, &options);
            if let Ok((log, found, records)) = opened {
                oracle.check(&found, &records).unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
                let _ = live(&storage, &options, log, &steps, &mut oracle);
            }
            storage = if random.below(4) == 0 {
                storage.killed()
            } else {
                let cuts = cuts(&storage, tail, 20, &mut random);
                storage.cut(&cuts[random.below(cuts.len() as u64) as usize])
            };
        }
        open_checked(&storage, &options, &mut oracle, &format!("seed {seed}, last"));
    }
}
