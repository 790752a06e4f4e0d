//! Checkpoints of volumes that take turns: what can wait begins only with a permit and stops without one, what is
//! needed never waits, and a volume without coordination knows nothing of permits. All in virtual time.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "each test binary uses its part")]
mod support;

use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_engine::{Config, Status};
use nearhead_models::CrashDisk;
use nearhead_service::{Operation, Service};
use nearhead_volume::{SyncIo, create};
use support::Run;

/// Logged by each test, in blocks that are no neighbours.
const BLOCKS: u64 = 64;
/// What a checkpoint copies at once.
const BATCH_BYTES: u32 = 16 << 10;
const SECOND: Nanos = Nanos::from_secs(1);

/// A volume whose logs are emptied for no reason but what `configure` says, a little at a time.
fn open(configure: impl FnOnce(&mut Config)) -> Run<CrashDisk> {
    let mut disk = CrashDisk::new(64 << 20, 512).with_latency(Nanos::from_micros(50));
    let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
    create(&mut io, &support::options("mlb-256", 3, 4 << 20)).unwrap();
    let now = io.now();
    Run::open(disk, now, |config| {
        config.cleaning.idle_after = None;
        config.cleaning.watermark_pct = None;
        config.cleaning.swap_above_pct = None;
        config.cleaning.coordinated = true;
        config.cleaning.batch_bytes = BATCH_BYTES;
        config.cleaning.window_bytes = BATCH_BYTES;
        configure(config);
    })
}

/// The three reasons for a pass that can wait.
/// Changes a configuration.
type Change = fn(&mut Config);

fn reasons() -> [(&'static str, Change); 3] {
    [
        ("idle", |config| config.cleaning.idle_after = Some(SECOND)),
        ("period", |config| config.cleaning.period = Some(Nanos::from_secs(5000))),
        ("window", |config| {
            config.second_of_day_at_zero = 86_000;
            config.cleaning.window = Some((86_100, 36_000));
        }),
    ]
}

/// Long enough for each reason.
const LONG: Nanos = Nanos::from_secs(6000);

fn log_something(run: &mut Run<CrashDisk>) {
    for block in 0..BLOCKS {
        let id = run.write(2 * block..2 * block + 1, 1);
        run.wait(id);
    }
}

fn permit(run: &mut Run<CrashDisk>, is_held: bool) {
    run.volume.set_checkpoint_permit(is_held, run.now);
    run.volume.drive(run.now);
}

/// Goes on until `is_reached`; says how often the volume had to be driven.
fn rest_until(run: &mut Run<CrashDisk>, is_reached: impl Fn(&Status) -> bool) -> u64 {
    for wakes in 0..100_000 {
        if is_reached(&run.volume.status()) {
            return wakes;
        }
        run.now = run.volume.wake_at().unwrap().max(run.now);
        run.volume.drive(run.now);
    }
    panic!("never: {:?}", run.volume.status());
}

fn copied(run: &Run<CrashDisk>) -> u64 {
    run.volume.status().stats.checkpointed_bytes
}

#[test]
fn what_can_wait_begins_only_with_a_permit_and_lets_it_go_at_its_end() {
    for (reason, configure) in reasons() {
        println!("reason: {reason}");
        let mut run = open(configure);
        log_something(&mut run);
        assert!(!run.volume.status().wants_checkpoint_permit, "nothing is due yet");
        run.rest(LONG);
        let status = run.volume.status();
        assert!(status.wants_checkpoint_permit && !status.checkpointing, "{status:?}");
        assert_eq!(status.stats.checkpointed_bytes, 0);
        assert_eq!(status.map_entries, BLOCKS);

        permit(&mut run, true);
        rest_until(&mut run, |status| status.checkpointing);
        rest_until(&mut run, |status| {
            assert!(
                !status.checkpointing || status.wants_checkpoint_permit,
                "it runs on the permit"
            );
            !status.wants_checkpoint_permit
        });
        let status = run.volume.status();
        assert!(status.map_entries == 0 && !status.checkpointing, "{status:?}");
    }
}

#[test]
fn waiting_for_a_permit_wakes_nobody_up() {
    for (reason, configure) in reasons() {
        println!("reason: {reason}");
        let mut run = open(configure);
        log_something(&mut run);
        run.rest(LONG);
        assert!(run.volume.status().wants_checkpoint_permit);
        let end = run.now + Nanos::from_secs(600);
        let mut wakes = 0;
        while let Some(at) = run.volume.wake_at().filter(|&at| at < end) {
            run.now = at.max(run.now);
            run.volume.drive(run.now);
            wakes += 1;
        }
        assert!(wakes <= 30, "{wakes} wake-ups in ten minutes");
    }
}

#[test]
fn a_pass_whose_permit_is_taken_away_stops_after_its_batch_and_goes_on_with_the_next() {
    for (reason, configure) in reasons() {
        for after_bytes in [0, 1, 100_000] {
            println!("reason: {reason}, permit taken after more than {after_bytes} bytes");
            let mut run = open(configure);
            log_something(&mut run);
            run.rest(LONG);
            permit(&mut run, true);
            rest_until(&mut run, |status| {
                status.checkpointing && status.stats.checkpointed_bytes >= after_bytes
            });
            let before = copied(&run);
            permit(&mut run, false);
            rest_until(&mut run, |status| !status.checkpointing);
            run.rest(Nanos::from_secs(3));
            let status = run.volume.status();
            let more = copied(&run) - before;
            assert!(more <= u64::from(BATCH_BYTES), "{more} bytes after the permit was gone");
            assert!(status.map_entries > 0, "the test took it away too late");
            assert!(status.wants_checkpoint_permit, "the rest is due still: {status:?}");
            permit(&mut run, true);
            rest_until(&mut run, |status| status.map_entries == 0);
        }
    }
}

#[test]
fn a_window_that_closes_before_a_permit_comes_is_over() {
    let mut run = open(|config| config.cleaning.window = Some((100, 1000)));
    log_something(&mut run);
    run.rest(Nanos::from_secs(900));
    assert!(run.volume.status().wants_checkpoint_permit);
    run.rest(Nanos::from_secs(200));
    assert!(!run.volume.status().wants_checkpoint_permit, "it closed");
    permit(&mut run, true);
    run.rest(Nanos::from_secs(200));
    assert_eq!(copied(&run), 0, "outside of the window");
    run.rest(Nanos::from_secs(86_400));
    assert_eq!(run.volume.status().map_entries, 0, "the next night comes");
}

#[test]
fn a_request_ends_the_wish_for_a_permit_that_only_idleness_had() {
    let mut run = open(|config| config.cleaning.idle_after = Some(SECOND));
    log_something(&mut run);
    run.rest(Nanos::from_secs(2));
    assert!(run.volume.status().wants_checkpoint_permit);
    run.version(0);
    assert!(!run.volume.status().wants_checkpoint_permit);
}

#[test]
fn what_is_needed_never_waits_for_a_permit() {
    let everything: fn(&mut Config) = |config| {
        for (_, configure) in reasons() {
            configure(config);
        }
    };
    // By command, also while a pass that can wait is due.
    let mut run = open(everything);
    log_something(&mut run);
    run.rest(LONG);
    assert_eq!(copied(&run), 0);
    run.volume.start_checkpoint(false, run.now);
    rest_until(&mut run, |status| status.map_entries == 0);

    // By the watermark.
    let mut run = open(|config| {
        everything(config);
        config.cleaning.watermark_pct = Some(1);
    });
    log_something(&mut run);
    run.rest(Nanos::from_millis(500));
    assert!(copied(&run) > 0, "{:?}", run.volume.status());

    // For a stop.
    let mut run = open(everything);
    log_something(&mut run);
    run.rest(LONG);
    run.volume.begin_shutdown(run.now);
    for _ in 0..10_000 {
        if run.volume.is_shut_down() {
            return;
        }
        run.volume.drive(run.now);
        run.now = run.volume.wake_at().unwrap_or(run.now);
    }
    panic!("the volume does not stop: {:?}", run.volume.status());
}

#[test]
fn full_logs_are_emptied_without_a_permit() {
    let mut run = open(|config| config.cleaning.period = Some(Nanos::from_secs(5)));
    let log_bytes = u64::from(run.volume.status().logs) * (512 << 10);
    let blocks = 3 * log_bytes / 4096;
    for block in 0..blocks {
        let id = run.write(block % 4000..block % 4000 + 1, block + 1);
        run.wait(id);
    }
    let status = run.volume.status();
    assert!(status.stats.checkpointed_bytes > log_bytes, "{status:?}");
    assert!(status.stats.logged_bytes > 2 * log_bytes, "logs are used again: {status:?}");
    assert_eq!(run.version(17), (0..blocks).rev().find(|block| block % 4000 == 17).unwrap() + 1);
}

/// Everything that can be seen of a volume under random requests and pauses.
fn observed(
    seed: u64,
    coordinated: bool,
    permits: impl Fn(&mut SplitMix) -> Option<bool>,
) -> Vec<String> {
    let mut run = open(|config| {
        for (_, configure) in reasons() {
            configure(config);
        }
        config.cleaning.period = Some(Nanos::from_secs(20));
        config.cleaning.watermark_pct = Some(20);
        config.cleaning.coordinated = coordinated;
    });
    let (mut random, mut given) = (SplitMix::new(seed), SplitMix::new(!seed));
    let mut views = Vec::new();
    for step in 1..=150 {
        if let Some(is_held) = permits(&mut given) {
            run.volume.set_checkpoint_permit(is_held, run.now);
        }
        for _ in 0..random.below(8) {
            let block = random.below(2000);
            let id = run.write(block..block + 1 + random.below(3), step);
            run.wait(id);
        }
        if random.below(4) == 0 {
            let offset = random.below(2000) * 4096;
            let id = run.send(Operation::Read { offset, len: 4096 });
            run.wait(id);
        }
        run.rest(Nanos::from_millis([1, 100, 1200, 30_000][random.below(4) as usize]));
        let mut status = run.volume.status();
        status.wants_checkpoint_permit = false;
        views.push(format!(
            "step {step} at {}: next {:?}, {status:?}",
            run.now.0,
            run.volume.wake_at()
        ));
    }
    assert!(copied(&run) > 0, "seed {seed}: nothing was ever checkpointed");
    views
}

fn assert_same(seed: u64, one: &[String], other: &[String]) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other, "seed {seed}");
    }
}

#[test]
fn a_volume_without_coordination_does_not_care_about_permits() {
    for seed in 0..4 {
        let untold = observed(seed, false, |_| None);
        let told = observed(seed, false, |random| Some(random.below(2) == 0));
        assert_same(seed, &untold, &told);
    }
}

#[test]
fn a_volume_that_always_holds_a_permit_does_what_one_without_coordination_does() {
    for seed in 0..4 {
        let alone = observed(seed, false, |_| None);
        let permitted = observed(seed, true, |_| Some(true));
        assert_same(seed, &alone, &permitted);
    }
}

#[test]
fn an_idle_pass_that_a_read_broke_off_before_it_copied_anything_comes_again() {
    let mut run = open(|config| {
        config.cleaning.coordinated = false;
        config.cleaning.idle_after = Some(SECOND);
    });
    log_something(&mut run);
    run.volume.start_snapshot(run.now);
    let before = run.volume.status().snapshot_number;
    rest_until(&mut run, |status| status.snapshot_number > before);
    rest_until(&mut run, |status| status.checkpointing);
    run.version(0);
    rest_until(&mut run, |status| !status.checkpointing);
    assert_eq!(copied(&run), 0, "the test's read came too late");
    run.rest(Nanos::from_secs(10));
    assert_eq!(run.volume.status().map_entries, 0, "{:?}", run.volume.status());
}
