//! A sparse image whose file system is full, and a disk that does not answer: both pass, so nothing is given up.

use crate::support::disk::Trouble;
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_disk::Nanos;
use nearhead_engine::{DiskEvent, DiskWork, Phase};
use nearhead_format::AckMode;
use nearhead_service::{ErrorKind, Service};

const LOGGING: [&str; 7] = ["singlelog", "mlb", "mlb-256", "slsmr", "mlsmr", "trail", "gecko"];

fn no_space() -> Trouble {
    Trouble { full: [0..u64::MAX].into(), ..Trouble::default() }
}

fn events(harness: &mut Harness) -> Vec<DiskEvent> {
    let others =
        |event: &DiskEvent| !matches!(event, DiskEvent::Failed(_) | DiskEvent::MoreFailed { .. });
    std::iter::from_fn(|| harness.volume().poll_disk_event()).filter(others).collect()
}

fn write(harness: &mut Harness, block: u64) {
    harness.apply(&Step::Write { start: block * 8, count: 8, fua: true });
}

#[test]
fn a_write_without_space_waits_for_a_while_and_the_volume_heals() {
    for (preset, ack) in LOGGING
        .into_iter()
        .flat_map(|preset| [AckMode::Durable, AckMode::Flush].map(|ack| (preset, ack)))
    {
        println!("repeat with {preset}, {ack:?}");
        let mut harness = Harness::new(Options::new(preset, ack));
        write(&mut harness, 0);
        harness.apply(&Step::Settle);
        harness.volume().disk_mut().set_trouble(no_space());
        write(&mut harness, 1);
        harness.pass(Nanos::from_secs(9));
        assert!(harness.failed.is_empty() && !harness.is_settled(), "{:?}", harness.failed);
        assert!(harness.volume().status().shortage.is_some());
        harness.pass(Nanos::from_secs(3));
        assert!(harness.is_settled(), "a write without space waits for ever");
        assert_eq!(
            harness.failed.iter().map(|(_, kind)| *kind).collect::<Vec<_>>(),
            [ErrorKind::NoSpace]
        );
        // While it lasts a later write need not wait that long again.
        write(&mut harness, 2);
        harness.pass(Nanos::from_secs(2));
        assert!(harness.is_settled() && harness.failed.len() == 2, "{:?}", harness.failed);
        let status = harness.volume().status();
        assert_eq!((status.phase, &status.failure), (Phase::Serving, &None));
        assert!(
            status.disk_errors.no_space() > 0 && status.disk_errors.of_work(DiskWork::LogWrite) > 0
        );
        harness.volume().disk_mut().mend();
        write(&mut harness, 3);
        harness.apply(&Step::Settle);
        assert_eq!(harness.failed.len(), 2, "there is space again");
        assert_eq!(harness.volume().status().shortage, None);
        let told = events(&mut harness);
        assert!(
            matches!(told[..], [DiskEvent::NoSpace { .. }, DiskEvent::SpaceIsBack { .. }]),
            "{told:?}"
        );
        harness.apply(&Step::Cut { seed: 5 });
        harness.apply(&Step::Restart);
    }
}

#[test]
fn a_short_want_of_space_fails_nothing() {
    for preset in LOGGING {
        println!("repeat with {preset}");
        let mut harness = Harness::new(Options::new(preset, AckMode::Durable));
        harness.volume().disk_mut().set_trouble(no_space());
        for block in 0..200 {
            write(&mut harness, block);
        }
        harness.pass(Nanos::from_secs(5));
        harness.volume().disk_mut().mend();
        harness.apply(&Step::Settle);
        assert_eq!(harness.failed, []);
        harness.apply(&Step::Cut { seed: 5 });
    }
}

#[test]
fn a_stop_without_space_comes_to_an_end_and_loses_nothing_acknowledged() {
    for preset in LOGGING {
        println!("repeat with {preset}");
        let mut harness = Harness::new(Options::new(preset, AckMode::Flush));
        for block in 0..20 {
            write(&mut harness, block);
        }
        harness.apply(&Step::Settle);
        harness.volume().disk_mut().set_trouble(no_space());
        harness.apply(&Step::Restart);
        write(&mut harness, 30);
        harness.apply(&Step::Settle);
    }
}

#[test]
fn a_snapshot_without_space_is_written_when_there_is_some() {
    let mut harness = Harness::new(Options::new("mlb", AckMode::Durable));
    let slots = harness.volume().superblock().layout;
    let full = slots.slot_offsets.map(|offset| offset..offset + slots.slot_bytes).to_vec();
    write(&mut harness, 0);
    harness.apply(&Step::Settle);
    harness.volume().disk_mut().set_trouble(Trouble { full, ..Trouble::default() });
    let now = harness.now;
    harness.volume().start_snapshot(now);
    harness.pass(Nanos::from_secs(60));
    write(&mut harness, 1);
    harness.apply(&Step::Settle);
    let status = harness.volume().status();
    assert_eq!(
        (status.snapshot_number, status.phase, harness.failed.len()),
        (0, Phase::Serving, 0)
    );
    assert!(
        status.disk_errors.of_work(DiskWork::MapWrite) < 100,
        "tried without rest: {status:#?}"
    );
    harness.volume().disk_mut().mend();
    harness.pass(Nanos::from_secs(2));
    let status = harness.volume().status();
    assert_eq!((status.snapshot_number, status.shortage), (1, None));
}

#[test]
fn a_disk_that_does_not_answer_is_told_of_and_waited_for() {
    let mut harness = Harness::new(Options::new("mlb", AckMode::Durable));
    harness.volume().disk_mut().set_trouble(Trouble { is_silent: true, ..Trouble::default() });
    write(&mut harness, 0);
    harness.pass(Nanos::from_secs(29));
    assert_eq!((events(&mut harness), harness.volume().status().stall), (Vec::new(), None));
    harness.pass(Nanos::from_secs(100));
    assert!(!harness.is_settled(), "a kernel waits, and so does the client");
    let told = events(&mut harness);
    assert!(
        matches!(told[..], [DiskEvent::Stalled { commands: 1, work: DiskWork::LogWrite, .. }]),
        "{told:?}"
    );
    assert_eq!(harness.volume().status().stall.map(|stall| stall.commands), Some(1));
    // Until it answers only the next snapshot is due.
    let (now, wake) = (harness.now, harness.volume().wake_at());
    assert!(
        wake.is_none_or(|wake| wake > now + Nanos::from_secs(60)),
        "woken for nothing: {wake:?}"
    );
    harness.volume().disk_mut().mend();
    harness.apply(&Step::Settle);
    assert_eq!((harness.failed.len(), harness.volume().status().stall), (0, None));
    let told = events(&mut harness);
    assert!(
        matches!(told[..], [DiskEvent::Answered { after }] if after >= Nanos::from_secs(129)),
        "{told:?}"
    );
    assert_eq!(harness.volume().status().stalls, 1);
}
