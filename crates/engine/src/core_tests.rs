//! What activities share, by itself; and a core for the tests of each of them.

use super::*;
use crate::admission::Fifo;
use crate::cleaner::AsNeeded;
use crate::config::{Ack, Cleaning, Config, MapPlace};
use crate::packing::Everything;
use crate::placement::SingleLog;
use nearhead_disk::Properties;
use nearhead_format::{Layout, LayoutKind, LayoutOptions};

/// A core over a small volume with many logs, on a disk whose cache is volatile.
pub(crate) fn core() -> Core {
    core_with(|_| ())
}

/// The same with another configuration.
pub(crate) fn core_with(configure: impl FnOnce(&mut Config)) -> Core {
    core_of(LayoutKind::ManyLogs, configure)
}

/// The same on another layout.
pub(crate) fn core_of(kind: LayoutKind, configure: impl FnOnce(&mut Config)) -> Core {
    let layout = Layout::plan(1 << 30, &LayoutOptions::new(kind)).unwrap();
    let mut config = config();
    configure(&mut config);
    Core::new(Setup {
        config,
        layout,
        volume_id: [7; 16],
        properties: Properties { volatile_cache: true, ..Properties::plain("core", 1 << 30, 512) },
        data_devices: Vec::new(),
        absent_devices: Vec::new(),
        map_device: None,
        cache_device: None,
        map: MapPlace::of_layout(&layout),
        blanks: None,
        bands: None,
        tracks_are_doubtful: false,
    })
}

fn config() -> Config {
    Config {
        ack: Ack::Flush,
        placement: Box::new(SingleLog),
        tracks: Vec::new(),
        log_device_tracks: Vec::new(),
        packing: Box::new(Everything),
        admission: Box::new(Fifo { piece_bytes: 1 << 20 }),
        logged_write_bytes_max: 32 << 10,
        logged_beside_many_bytes_max: u32::MAX,
        map_memory_bytes: u64::MAX,
        keeps_paged_map: false,
        lone_writes_go_home: false,
        cleaner: Box::new(AsNeeded),
        cleaning: Cleaning {
            period: None,
            idle_after: None,
            window: None,
            coordinated: false,
            watermark_pct: None,
            batch_bytes: 1 << 20,
            window_bytes: 4 << 20,
            memory_bytes: 0,
            releases_wait: Nanos::ZERO,
            swap_above_pct: None,
            swap_idle_after: Nanos::ZERO,
        },
        read_cache_bytes: 0,
        stage_bytes_max: 1 << 20,
        record_bytes_max: 1 << 20,
        log_reserve_bytes: 8 << 10,
        snapshot_after_bytes: 1 << 20,
        snapshot_period: Nanos::from_secs(600),
        stage_age_max: Nanos::from_secs(1),
        stall_after: Nanos::from_secs(30),
        no_space_wait_max: Nanos::from_secs(10),
        second_of_day_at_zero: 0,
        read_only: false,
        accept_loss: false,
        rebuild: false,
        base: None,
    }
}

pub(crate) fn failure(kind: DiskErrorKind) -> DiskError {
    DiskError { kind, detail: "as told".to_owned() }
}

/// The commands that leave, with their purposes' ids; each ticket is given up.
pub(crate) fn commands(core: &mut Core) -> Vec<Command> {
    std::iter::from_fn(|| core.poll_command())
        .map(|(_, submission)| {
            submission.ticket.abandon();
            submission.command
        })
        .collect()
}

#[test]
fn a_failure_is_told_once_each_time_and_the_first_reason_stays() {
    let mut core = core();
    assert!(core.take_untold_failure().is_none() && !core.has_failed());
    core.fail(Failure::Flush { error: "first".to_owned() });
    assert!(core.take_untold_failure().unwrap().detail.contains("first"));
    assert!(core.take_untold_failure().is_none(), "it was told");
    core.fail(Failure::GivenUp { reason: "second".to_owned() });
    assert!(
        core.take_untold_failure().unwrap().detail.contains("first"),
        "for those who came since"
    );
    assert_eq!(core.failure(), Some(&Failure::Flush { error: "first".to_owned() }));
}

#[test]
fn who_waits_for_space_is_told_after_a_while_and_the_volume_fails_after_twelve_of_them() {
    let (mut core, error) = (core(), failure(DiskErrorKind::OutOfSpace));
    let mut told = Vec::new();
    for second in 0..=120 {
        core.set_now(Nanos::from_secs(second));
        core.wait_for_space(&error);
        if core.take_refusal().is_some() {
            told.push(second);
        }
    }
    assert_eq!((told.first(), told.last()), (Some(&10), Some(&119)));
    assert_eq!(core.failure().map(Failure::name), Some("no-space"));
}

#[test]
fn a_stop_without_space_ends_once_the_wait_is_over() {
    let (mut core, error) = (core(), failure(DiskErrorKind::OutOfSpace));
    core.drain();
    for (second, has_failed) in [(0, false), (9, false), (10, true)] {
        core.set_now(Nanos::from_secs(second));
        core.wait_for_space(&error);
        assert_eq!(core.has_failed(), has_failed, "after {second} s");
    }
    assert_eq!(core.failure().map(Failure::name), Some("no-space-at-stop"));
}

#[test]
fn space_that_comes_back_ends_the_wait() {
    let (mut core, error) = (core(), failure(DiskErrorKind::OutOfSpace));
    core.wait_for_space(&error);
    core.set_now(Nanos::from_secs(9));
    core.note_space();
    core.set_now(Nanos::from_secs(18));
    core.wait_for_space(&error);
    assert!(core.take_refusal().is_none() && core.watch().shortage().is_some());
}

#[test]
fn a_flush_that_failed_fails_the_volume_and_redeems_nothing() {
    let mut core = core();
    core.flusher_mut().note_volatile_write();
    let ticket = core.flusher_mut().want();
    core.start_flushes();
    assert!(matches!(commands(&mut core).as_slice(), [Command::Flush]));
    core.on_flush(Lane::MAIN, Err(failure(DiskErrorKind::Io)));
    assert!(!core.flusher().is_done(ticket));
    assert_eq!(core.failure().map(Failure::name), Some("flush"));
}
