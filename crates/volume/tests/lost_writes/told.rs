//! What is told of a loss, to people and to clients, and the bounds of it: how often, for how long, how many wait.

use crate::rig::{Kind, LATENCY, Rig};
use crate::{ONE, assert_serves};
use nearhead_disk::Nanos;
use nearhead_engine::DiskEvent;
use nearhead_format::AckMode;
use nearhead_service::{ErrorKind, Extent, Service};
use nearhead_volume::LossEvent;

const HOUR: Nanos = Nanos::from_secs(3600);
/// Requests that wait while the volume is opened.
const HELD_MAX: u64 = 65_536;
/// What is kept for people who do not ask.
const EVENTS_MAX: usize = 64;

/// The disk has lost writes, and says so now.
fn lose(rig: &mut Rig) {
    rig.disk().stays_in_cache = true;
    rig.disk().lost = Some("the file: a page was bad".to_owned());
}

#[test]
fn who_asks_is_told_how_often_why_and_when_and_what_was_refused_and_recovered() {
    let mut rig = Rig::new(Kind { ack: AckMode::Durable, lone_writes_go_home: false, ..ONE }, 1);
    for round in 1..=3 {
        rig.settle();
        rig.pass(Nanos::from_secs(5));
        for number in 0..7 {
            rig.write(1000 + 64 * number, 8, true);
        }
        lose(&mut rig);
        rig.told.clear();
        rig.failed.clear();
        rig.drive();
        let lost_at = rig.now;
        // All that can be done is done at once: the next thing is an answer of the disk.
        let wake = rig.volume().wake();
        assert!(wake.is_precise && wake.at <= Some(lost_at + LATENCY), "{wake:?}");
        assert_eq!(rig.told, [LossEvent::Lost { why: "the file: a page was bad".to_owned() }]);
        assert!(rig.volume().is_reopening());
        let waits = rig.write(8, 8, true);
        while rig.volume().is_reopening() {
            assert!(rig.jump());
        }
        let (refused, records) =
            (rig.failed.len() as u64, rig.volume().volume().status().recovery_records);
        assert_eq!(refused, 7, "round {round}");
        let took = rig.now.since(lost_at);
        assert!(took > Nanos::ZERO);
        assert_eq!(rig.told[1..], [LossEvent::Opened { refused, records, took }]);
        let report = rig.volume().loss_report().clone();
        assert_eq!(report.count, round);
        assert_eq!(report.last, Some(("the file: a page was bad".to_owned(), lost_at)));
        assert_eq!(Service::losses(rig.volume()), round);
        rig.settle();
        assert!(rig.failed.iter().all(|(id, _)| *id != waits));
        assert_serves(&mut rig);
    }
}

#[test]
fn four_times_within_an_hour_it_is_opened_and_once_more_after_just_more_than_that() {
    for (later, is_opened) in [(Nanos::ZERO, false), (Nanos(1), true)] {
        let mut rig = Rig::new(ONE, 2);
        let mut first = None;
        for _ in 0..4 {
            lose(&mut rig);
            rig.drive();
            first = first.or(Some(rig.now));
            rig.settle();
            rig.pass(Nanos::from_secs(60));
        }
        assert_serves(&mut rig);
        rig.pass(HOUR.since(rig.now.since(first.unwrap())));
        rig.now += later;
        assert_eq!(rig.now.since(first.unwrap()), HOUR + later);
        lose(&mut rig);
        rig.told.clear();
        rig.settle();
        let last = rig.told.last().unwrap();
        if is_opened {
            assert!(matches!(last, LossEvent::Opened { .. }), "{last:?}");
        } else {
            let words = "it was 4 times within an hour, and now the file: a page was bad";
            assert_eq!(*last, LossEvent::NotOpened { problem: words.to_owned() });
        }
    }
}

#[test]
fn so_many_requests_wait_and_one_more_is_refused_at_once() {
    let mut rig = Rig::new(ONE, 3);
    rig.read(0, 8);
    rig.drive();
    rig.disk().is_silent = true;
    lose(&mut rig);
    rig.drive();
    assert!(rig.volume().is_reopening());
    rig.failed.clear();
    for _ in 0..HELD_MAX {
        rig.flush();
    }
    rig.drive();
    assert_eq!(rig.failed, [], "they wait");
    let last = rig.flush();
    rig.drive();
    assert_eq!(rig.failed, [(last, ErrorKind::Io)]);
    rig.failed.clear();
    rig.disk().is_silent = false;
    rig.settle();
    assert_eq!(rig.failed, [], "and are answered once it is open");
    let told = rig.told.last();
    assert!(matches!(told, Some(LossEvent::Opened { refused: 1, .. })), "{told:?}");
}

#[test]
fn what_nobody_asks_for_is_kept_up_to_a_bound_the_oldest_of_it() {
    let mut rig = Rig::new(ONE, 4);
    let losses = EVENTS_MAX as u64 / 2 + 3;
    for _ in 0..losses {
        rig.write(0, 8, true);
        lose(&mut rig);
        let now = rig.now;
        rig.volume().drive(now);
        while rig.volume().is_reopening() {
            rig.now = rig.volume().wake_at().unwrap().max(rig.now);
            let now = rig.now;
            rig.volume().drive(now);
        }
        rig.now += HOUR;
    }
    assert_eq!(rig.volume().loss_report().count, losses);
    let mut kept = Vec::new();
    while let Some(event) = rig.volume().poll_loss_event() {
        kept.push(event);
    }
    assert_eq!(kept.len(), EVENTS_MAX);
    for (number, event) in kept.iter().enumerate() {
        let is_lost = matches!(event, LossEvent::Lost { .. });
        assert_eq!(is_lost, number % 2 == 0, "{number}: {event:?}");
    }
    assert_eq!(failures(&mut rig), EVENTS_MAX, "of the disk as well");
}

#[test]
fn nothing_more_is_asked_of_a_disk_that_lost_writes_until_it_starts_over() {
    let mut rig = Rig::new(ONE, 8);
    for number in 0..20 {
        rig.write(64 * number, 8, true);
    }
    rig.settle();
    rig.read(0, 8);
    rig.drive();
    rig.disk().is_silent = true;
    lose(&mut rig);
    rig.drive();
    let submitted = rig.disk().submitted;
    // Cleaning would have begun long ago.
    rig.pass(Nanos::from_secs(5));
    rig.write(8, 8, true);
    rig.pass(Nanos::from_secs(5));
    assert_eq!((rig.disk().submitted, rig.volume().is_reopening()), (submitted, true));
    rig.disk().is_silent = false;
    rig.settle();
    assert!(rig.disk().submitted > submitted);
    assert_serves(&mut rig);
}

/// Events of the disk so far that tell of a failed command.
fn failures(rig: &mut Rig) -> usize {
    let mut count = 0;
    while let Some(event) = rig.volume().poll_disk_event() {
        count += usize::from(matches!(event, DiskEvent::Failed(_)));
    }
    count
}

#[test]
fn what_the_disk_did_wrong_before_it_started_over_is_told_afterwards_too() {
    let mut rig = Rig::new(ONE, 5);
    assert_eq!(failures(&mut rig), 0);
    rig.write(0, 8, true);
    lose(&mut rig);
    rig.settle();
    assert!(failures(&mut rig) > 0, "the write failed");
    assert_eq!(failures(&mut rig), 0, "once");
}

#[test]
fn of_a_volume_that_is_being_opened_again_everything_may_be_data() {
    let mut rig = Rig::new(ONE, 6);
    rig.read(0, 8);
    rig.drive();
    let status = |rig: &mut Rig| rig.volume().block_status(0, 1 << 20, 9);
    let serving = status(&mut rig);
    assert!(serving.iter().any(|extent| extent.zero), "{serving:?}");
    lose(&mut rig);
    rig.disk().is_silent = true;
    rig.drive();
    assert_eq!(status(&mut rig), [Extent::data(1 << 20)]);
    rig.disk().is_silent = false;
    rig.settle();
    assert_eq!(status(&mut rig), serving);
}

/// What a request is answered that is sent now.
fn answer_to_read(rig: &mut Rig) -> String {
    rig.read(0, 8);
    loop {
        let now = rig.now;
        rig.volume().drive(now);
        if let Some(reply) = rig.volume().poll_reply() {
            rig.unanswered.clear();
            return reply.result.map_or_else(|error| error.to_string(), |_| "content".to_owned());
        }
        rig.now = rig.volume().wake_at().expect("an answer comes").max(now);
    }
}

#[test]
fn a_volume_that_lost_writes_too_often_answers_for_itself() {
    let mut rig = Rig::new(ONE, 9);
    for _ in 0..5 {
        lose(&mut rig);
        rig.settle();
    }
    assert!(matches!(rig.told.last(), Some(LossEvent::NotOpened { .. })), "{:?}", rig.told);
    let told = answer_to_read(&mut rig);
    assert!(!told.contains("could not be opened again"), "{told}");
}

#[test]
fn who_asks_a_volume_that_could_not_be_opened_is_told_so_and_a_stop_ends_it() {
    let mut rig = Rig::new(ONE, 7);
    lose(&mut rig);
    rig.drive();
    // Its superblock was read; of the rest nothing can be.
    rig.disk().reads_fail = true;
    rig.settle();
    assert!(matches!(rig.told.last(), Some(LossEvent::NotOpened { .. })), "{:?}", rig.told);
    let now = rig.now;
    rig.write(0, 8, true);
    let reply = rig.volume().poll_reply().expect("at once");
    let told = reply.result.unwrap_err().to_string();
    assert!(
        told.contains("could not be opened again") && told.contains("serve it again"),
        "{told}"
    );
    rig.unanswered.clear();
    rig.flush();
    rig.volume().begin_shutdown(now);
    assert!(!rig.volume().is_shut_down(), "somebody waits for an answer");
    rig.settle();
    for _ in 0..100 {
        if rig.volume().is_shut_down() {
            return;
        }
        rig.jump();
    }
    panic!("the stop never ends");
}
