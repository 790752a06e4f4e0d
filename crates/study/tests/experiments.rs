//! Experiments as a front runs them: what they come to, that they can be repeated and stopped, and what is refused.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_disk::Nanos;
use nearhead_sim::measured::Span;
use nearhead_sim::trace::{AddressFit, TraceOptions, TraceRequest};
use nearhead_study::{
    Answers, BulkLoad, Disks, Experiment, Load, Outcome, PointsLoad, RandomLoad, ReplayLoad,
    Requests, SpanBytes, StudyError, VolumeChoices,
};
use nearhead_volume::NamedPreset;
use std::sync::Arc;

const GIB: u64 = 1 << 30;

fn experiment(disk: &str, preset: Option<&str>, loads: Vec<Load>) -> Experiment {
    Experiment {
        disk: Disks::parse(disk).unwrap(),
        preset: preset.map(|name| NamedPreset::by_name(name).unwrap()),
        choices: VolumeChoices::default(),
        policies: None,
        answers: None,
        loads,
        span: None,
        record: false,
    }
}

fn run(experiment: &Experiment) -> Outcome {
    experiment.run(&mut || true).unwrap()
}

fn refused(experiment: &Experiment) -> String {
    match experiment.run(&mut || true) {
        Err(StudyError::Failed(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

fn random(requests: u64) -> Load {
    Load::Random(RandomLoad {
        span: SpanBytes::default(),
        request_bytes: 4096,
        reads: 0.5,
        fua: true,
        outstanding_max: 4,
        requests_max: Some(requests),
        seed: 3,
    })
}

fn bulk() -> BulkLoad {
    BulkLoad {
        span: SpanBytes { start: 0, end: Some(GIB) },
        write: false,
        fua: false,
        request_bytes: 1 << 20,
        outstanding_max: 2,
        bytes_max: None,
    }
}

fn points() -> PointsLoad {
    PointsLoad {
        span: SpanBytes { start: GIB, end: None },
        points_per_s: 8.0,
        writes_per_point: 20,
        write_bytes: 4096,
        outstanding_points_max: 4,
        fua: false,
        points_max: None,
        seed: 1,
    }
}

/// The demo's clients beside each other for a few seconds.
fn contention(preset: Option<&str>) -> Experiment {
    let loads = vec![Load::Bulk(bulk()), Load::Points(points())];
    let span = Span { warm_up: Nanos::from_secs(1), duration: Nanos::from_secs(5) };
    Experiment { span: Some(span), ..experiment("st3146855fc,cache=off", preset, loads) }
}

fn trace(requests: Vec<TraceRequest>) -> Load {
    let requests = Requests::Memory { name: "made-up".to_owned(), requests: Arc::new(requests) };
    let options = TraceOptions::default();
    Load::Replay(ReplayLoad { requests, options, tempo: None, outstanding_max: 1024 })
}

fn writes(count: u64) -> Vec<TraceRequest> {
    let write = |index: u64| TraceRequest {
        at: Nanos::from_millis(index * 10),
        offset_bytes: index * 7919 % 1000 * (1 << 20),
        len_bytes: 4096,
        write: true,
        ..TraceRequest::default()
    };
    (0..count).map(write).collect()
}

#[test]
fn the_same_experiment_has_the_same_digest_and_recording_changes_nothing() {
    for disk in ["st3146855fc", "raid0:model:st3146855fc,model:st3146855fc", "flash-8ch-550gb"] {
        let plain = experiment(disk, Some("nearhead"), vec![random(2000)]);
        let recorded = Experiment { record: true, ..plain.clone() };
        let (first, second, third) = (run(&plain), run(&plain), run(&recorded));
        assert_eq!(
            (first.digest, first.simulated_s),
            (second.digest, second.simulated_s),
            "{disk}"
        );
        assert_eq!((first.digest, first.commands), (third.digest, third.commands), "{disk}");
        assert!(first.recorded.is_none() && first.visits.is_none());
        let other = Load::Random(RandomLoad { seed: 4, ..random_load(&plain.loads[0]) });
        assert_ne!(first.digest, run(&Experiment { loads: vec![other], ..plain }).digest);
    }
}

/// The order of the arm is for the next record: without durable writes the drive's own order is better.
#[test]
fn queued_reads_alone_are_nearly_as_fast_as_without_logs() {
    let reads = RandomLoad { reads: 1.0, outstanding_max: 8, ..random_load(&random(1500)) };
    let took_s = |preset| {
        let loads = vec![Load::Random(reads)];
        run(&experiment("constellation-es3-1tb,cache=off", Some(preset), loads)).simulated_s
    };
    let (in_place, nearhead) = (took_s("nolog"), took_s("nearhead"));
    assert!(nearhead < 1.08 * in_place, "{nearhead:.2} s, in place {in_place:.2} s");
}

fn random_load(load: &Load) -> RandomLoad {
    let Load::Random(load) = load else { panic!("{load:?}") };
    *load
}

#[test]
fn what_was_recorded_adds_up_to_what_was_counted() {
    let outcome = run(&Experiment { record: true, ..contention(Some("mlb")) });
    let recorded = &outcome.recorded.unwrap();
    let measured = |row: &usize| recorded.answered_ns[*row] != u64::MAX;
    let of = |load: u8| (0..recorded.len()).filter(move |row| recorded.load[*row] == load);
    let late = of(0).filter(measured).filter(|row| recorded.answered_ns[*row] >= 1_000_000_000);
    let bulk = &outcome.loads[0].classes[0];
    assert!((late.count() as u64).abs_diff(bulk.requests) <= 1, "{}", bulk.requests);
    let count = |kind: u8| of(1).filter(|row| recorded.operation[*row] == kind).count();
    let (written, flushes) = (count(1), count(2));
    assert!(flushes > 40 && written.abs_diff(20 * flushes) <= 80, "{written} {flushes}");
    for row in (0..recorded.len()).filter(measured) {
        assert!(recorded.due_ns[row] <= recorded.issued_ns[row]);
        assert!(recorded.issued_ns[row] <= recorded.answered_ns[row]);
    }
    let visits = outcome.visits.unwrap();
    assert!(visits.completed_ns.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!(visits.completed_ns.len(), visits.class.len());
    assert!(visits.completed_ns.len() as u64 <= outcome.commands);
}

#[test]
fn a_log_near_the_head_keeps_the_stream_faster_than_writes_in_place() {
    let bytes = |preset| run(&contention(preset)).loads[0].classes[0].bytes;
    let (plain, mlb) = (bytes(None), bytes(Some("mlb")));
    assert!(mlb > plain, "{mlb} {plain}");
    let outcome = run(&contention(Some("mlb")));
    let volume = outcome.volume.unwrap();
    let records = volume.counters.iter().find(|(name, _)| *name == "records").unwrap().1;
    assert!(records > 40 && volume.preset == "mlb", "{records}");
}

#[test]
fn times_of_the_disk_are_parts_of_what_its_commands_took() {
    let outcome = run(&experiment("st3146855fc,cache=off", None, vec![random(500)]));
    let times = outcome.times;
    assert!(times.seek > 0 && times.rotation > 0 && times.transfer > 0, "{times:?}");
    assert_eq!(times.response, times.seek + times.rotation + times.transfer + times.queueing);
    // Four are under way all the time.
    let under_way = times.response as f64 / 1e9 / outcome.simulated_s;
    assert!((3.5..=4.0).contains(&under_way), "{under_way}");
    assert_eq!(outcome.commands, 500);
}

#[test]
fn a_trace_is_durable_at_every_reply_unless_it_asks_for_less() {
    let outcome = run(&experiment("st3146855fc", Some("mlb"), vec![trace(writes(50))]));
    assert!(outcome.every_reply_is_durable);
    assert_eq!(outcome.loads[0].classes[0].requests, 50);
    let flush =
        TraceRequest { flush: true, write: true, at: Nanos::from_secs(1), ..Default::default() };
    let mut asking = writes(50);
    asking.push(flush);
    let outcome = run(&experiment("st3146855fc", Some("mlb"), vec![trace(asking)]));
    assert!(!outcome.every_reply_is_durable);
    let points = outcome.loads[0].classes.iter().find(|class| class.name == "points").unwrap();
    assert_eq!(points.requests, 1);
}

#[test]
fn requests_past_the_end_are_an_error_unless_somebody_says_where_they_go() {
    let mut requests = writes(10);
    requests[3].offset_bytes = 1 << 50;
    let Load::Replay(load) = trace(requests) else { panic!() };
    let at = |fit| {
        let mut load = load.clone();
        load.options.address.fit = fit;
        experiment("st3146855fc", None, vec![Load::Replay(load)])
    };
    let problem = refused(&at(AddressFit::Error));
    assert!(problem.starts_with("trace made-up, line 4: "), "{problem}");
    for fit in [AddressFit::Wrap, AddressFit::Scale { span_bytes: 0 }] {
        assert_eq!(run(&at(fit)).loads[0].classes[0].requests, 10);
    }
}

#[test]
fn an_experiment_is_stopped_by_whoever_started_it() {
    let mut asked = 0;
    let mut goes_on = || {
        asked += 1;
        asked < 3
    };
    let stopped = experiment("st3146855fc", Some("mlb"), vec![random(u64::MAX)]).run(&mut goes_on);
    assert_eq!(stopped.err(), Some(StudyError::Stopped));
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_was_expected() {
    let on = |load| experiment("st3146855fc", Some("mlb"), vec![load]);
    let endless = Load::Random(RandomLoad { requests_max: None, ..random_load(&random(1)) });
    let span = Some(Span { warm_up: Nanos::ZERO, duration: Nanos::from_secs(1) });
    let bounded = |load| Experiment { span, ..on(load) };
    let odd = |bytes| Load::Random(RandomLoad { request_bytes: bytes, ..random_load(&random(1)) });
    let choices = VolumeChoices { log_bytes: Some(1 << 20), ..VolumeChoices::default() };
    for (experiment, expected) in [
        (on(endless), "expected a duration"),
        (Experiment { loads: Vec::new(), ..on(random(1)) }, "expected 1 to 64 workloads, found 0"),
        (Experiment { preset: None, choices, ..on(random(1)) }, "name a preset"),
        (on(odd(0)), "found 0"),
        (on(odd(777)), "found 777"),
        (bounded(Load::Points(PointsLoad { points_per_s: f64::NAN, ..points() })), "found NaN"),
        (
            bounded(Load::Points(PointsLoad { writes_per_point: 0, ..points() })),
            "writes of a point",
        ),
        (bounded(Load::Bulk(BulkLoad { outstanding_max: 0, ..bulk() })), "requests under way"),
        (
            bounded(Load::Bulk(BulkLoad {
                span: SpanBytes { start: GIB, end: Some(GIB) },
                ..bulk()
            })),
            "expected a span",
        ),
        (
            bounded(Load::Bulk(BulkLoad { span: SpanBytes { start: 1, end: None }, ..bulk() })),
            "in steps of 512",
        ),
    ] {
        let problem = refused(&experiment);
        assert!(problem.contains(expected), "{problem}");
    }
    let choices = VolumeChoices { log_bytes: Some(1 << 50), ..VolumeChoices::default() };
    assert!(!refused(&Experiment { choices, ..on(random(1)) }).is_empty());
}

#[test]
fn who_answers_when_can_be_said() {
    for (answers, is_durable) in [(Answers::Durable, true), (Answers::OnFlush, false)] {
        let asked = Experiment { answers: Some(answers), ..contention(Some("mlb")) };
        assert_eq!(run(&asked).every_reply_is_durable, is_durable);
    }
}
