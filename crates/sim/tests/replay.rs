//! Replays on a service whose answers can be worked out by hand.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]
#![expect(clippy::float_cmp, reason = "whole milliseconds are exact, and must come out so")]

use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::fixed_latency::FixedLatency;
use nearhead_sim::replay::{Durability, ReplayError, ReplayOptions, ReplayResults, Tempo, replay};
use nearhead_sim::trace::{Input, TraceError, TraceOptions, TraceReader};
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::PathBuf;

fn trace_for(service: &FixedLatency, text: &str) -> TraceReader {
    let input = Input::from_reader("made-up", Cursor::new(text.to_owned())).unwrap();
    TraceReader::new(input, TraceOptions::default().for_service(&service.info())).unwrap()
}

fn replayed(mut service: FixedLatency, text: &str, options: ReplayOptions) -> ReplayResults {
    let mut trace = trace_for(&service, text);
    replay(&mut service, &mut VirtualTime::default(), &mut trace, options).unwrap()
}

/// `count` 4 KiB writes, one every `gap_ms`, in the columns of the Heimdall form.
fn writes(count: u64, gap_ms: u64) -> String {
    let mut text = String::new();
    for number in 0..count {
        writeln!(text, "{}.000 0 {} 4096 0", number * gap_ms, number * 4096).unwrap();
    }
    text
}

#[test]
fn a_service_that_keeps_up_is_idle_in_between() {
    let service = FixedLatency::serial(Nanos::from_millis(4));
    let results = replayed(service, &writes(1000, 10), ReplayOptions::default());
    assert_eq!((results.requests, results.writes.requests, results.failed), (1000, 1000, 0));
    assert_eq!((results.all.latency.min_ms, results.all.latency.max_ms), (4.0, 4.0));
    assert!((results.simulated_s - 9.994).abs() < 1e-9, "{results:?}");
    assert!((results.trace_s - 9.99).abs() < 1e-9);
    assert_eq!((results.delayed_requests, results.lag_at_end_ms), (0, 0.0));
    assert_eq!(results.all.bytes, 4_096_000);
}

#[test]
fn an_overloaded_service_shows_its_backlog() {
    let options = ReplayOptions { outstanding_max: 8, ..ReplayOptions::default() };
    let service = FixedLatency::serial(Nanos::from_millis(20));
    let results = replayed(service, &writes(1000, 10), options);
    assert_eq!(results.requests, 1000, "delayed, not dropped");
    // The last of 1000 requests arrives at 9.99 s and is done at 20 s.
    assert!((results.all.latency.max_ms - 10_010.0).abs() < 1e-6, "waiting counts: {results:?}");
    assert!((results.simulated_s - 20.0).abs() < 1e-9);
    // It was handed over when the eighth before it was done, at 992 * 20 ms.
    assert!((results.lag_at_end_ms - (992.0 * 20.0 - 9_990.0)).abs() < 1e-6, "{results:?}");
    assert_eq!(results.lag_at_end_ms, results.lag_max_ms);
    assert!(results.delayed_requests > 980, "{results:?}");
}

#[test]
fn kinds_of_requests_are_told_apart() {
    let text = "0.000 0 0 4096 0\n1.000 0 8192 4096 1\n2.000 0 0 1048576 0\n\
                3.000 0 0 1048576 1\n4.000 0 0 32768 1\n";
    let service = FixedLatency::parallel(Nanos::from_millis(3));
    let results = replayed(service, text, ReplayOptions::default());
    let counts = [
        results.small_reads.requests,
        results.large_reads.requests,
        results.small_writes.requests,
        results.large_writes.requests,
    ];
    assert_eq!((counts, results.reads.requests, results.writes.requests), ([2, 1, 1, 1], 3, 2));
    assert_eq!(results.small_reads.bytes, 4096 + 32_768);
}

#[test]
fn a_request_larger_than_the_service_takes_is_done_when_its_last_piece_is() {
    // The service takes 32 MiB at a time; this is 100 MiB, four pieces one after the other.
    let text = "0.000 0 0 104857600 0\n1.000 0 0 4096 1\n";
    let service = FixedLatency::serial(Nanos::from_millis(10));
    let results = replayed(service, text, ReplayOptions::default());
    assert_eq!((results.requests, results.writes.requests), (2, 1));
    assert_eq!(results.writes.latency.max_ms, 40.0);
    assert_eq!(results.reads.latency.max_ms, 49.0, "behind the four pieces, from its arrival");
    assert_eq!(results.writes.bytes, 104_857_600);
}

#[test]
fn pieces_respect_a_queue_of_one() {
    let text = "0.000 0 0 104857600 0\n1.000 0 0 4096 1\n";
    let service = FixedLatency::serial(Nanos::from_millis(10));
    let options = ReplayOptions { outstanding_max: 1, ..ReplayOptions::default() };
    let results = replayed(service, text, options);
    assert_eq!((results.simulated_s, results.delayed_requests), (0.05, 1));
}

const MEASURED: &str = "R Hit 8 8 1000.0 500.0\nW Miss 16 8 2000.0 0.0\nR Hit 24 8 3000.0 1.0\n";

#[test]
fn a_measured_trace_is_replayed_in_a_closed_loop_and_compared() {
    let service = FixedLatency::serial(Nanos::from_millis(2));
    let results = replayed(service, MEASURED, ReplayOptions::default());
    assert!(results.closed_loop);
    assert!((results.simulated_s - 0.0065).abs() < 1e-9, "think time once: {results:?}");
    assert_eq!(results.all.latency.max_ms, 2.0);
    assert_eq!(results.measured.unwrap().mean_ms, 2.0);
    // Off by one millisecond in two of three requests, of a mean of two.
    let demerit = results.demerit_pct.unwrap();
    assert!((demerit - 100.0 * (2.0_f64 / 3.0).sqrt() / 2.0).abs() < 1.0, "{demerit}");
}

#[test]
fn the_tempo_can_be_chosen() {
    let options = ReplayOptions { tempo: Some(Tempo::OpenLoop), ..ReplayOptions::default() };
    let results = replayed(FixedLatency::parallel(Nanos::from_millis(2)), MEASURED, options);
    assert!((results.simulated_s - 0.0055).abs() < 1e-9, "issued when measured: {results:?}");
    let options = ReplayOptions { tempo: Some(Tempo::ClosedLoop), ..ReplayOptions::default() };
    let results = replayed(FixedLatency::serial(Nanos::from_millis(2)), &writes(10, 1000), options);
    assert!((results.simulated_s - 0.02).abs() < 1e-9, "as fast as replies come: {results:?}");
}

/// Requests of processes as `blkparse` prints them: process, milliseconds at which each is asked for and answered, kind, sector and sectors.
fn asked_for(requests: &[(u32, u64, u64, &str, u64, u64)]) -> String {
    let mut events = Vec::new();
    for (process, from, to, kind, sector, sectors) in requests {
        let place = if *sectors > 0 { format!("{sector} + {sectors}") } else { String::new() };
        events.push((*from, format!("{process} Q {kind} {place} [a]")));
        let place = if *sectors > 0 { place } else { "0".to_owned() };
        events.push((*to, format!("0 C {} {place} [0]", kind.trim_start_matches('F'))));
    }
    events.sort();
    events
        .iter()
        .map(|(ms, event)| format!("8,0 0 1 {}.{:03} {event}\n", ms / 1000, ms % 1000))
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn a_flush_and_fua_go_to_the_service_as_the_trace_has_them_and_a_write_waits_for_its_flush() {
    let text =
        asked_for(&[(1, 0, 5, "WS", 8, 8), (1, 5, 9, "FWFS", 16, 8), (1, 100, 101, "FWS", 0, 0)]);
    let options = ReplayOptions {
        durable_writes: false,
        durability: Durability::Asked,
        ..ReplayOptions::default()
    };
    let service = FixedLatency::parallel(Nanos::from_millis(3));
    let results = replayed(service, &text, options);
    assert_eq!((results.requests, results.failed), (3, 0));
    let all = results.all.latency;
    assert_eq!((all.min_ms, all.max_ms), (3.0, 6.0), "a flush, and then the write: {results:?}");
    assert_eq!(results.writes.bytes, 8192);
}

#[test]
fn who_waited_in_the_trace_waits_in_the_replay_and_nobody_comes_sooner() {
    // One process after its own answers, 10 ms each and 5 ms between; another one on its own.
    let requests: Vec<_> = (0..20)
        .map(|number| (1, 15 * number, 15 * number + 10, "WS", 8 * number, 8))
        .chain([(2, 100, 110, "WS", 9000, 8)])
        .collect();
    let text = asked_for(&requests);
    let play = |tempo, latency_ms| {
        let service = FixedLatency::parallel(Nanos::from_millis(latency_ms));
        replayed(service, &text, ReplayOptions { tempo: Some(tempo), ..ReplayOptions::default() })
    };
    // Ten times as slow: each waits for the one before it, instead of piling up.
    let slow = play(Tempo::Chained, 100);
    assert_eq!((slow.requests, slow.all.latency.max_ms), (21, 100.0));
    assert!((slow.simulated_s - (20.0 * 0.1 + 19.0 * 0.005)).abs() < 1e-9, "{slow:?}");
    assert!((play(Tempo::OpenLoop, 100).simulated_s - (0.285 + 0.1)).abs() < 1e-9);
    // Faster: at the recorded times.
    let fast = play(Tempo::Chained, 1);
    assert!((fast.simulated_s - 0.286).abs() < 1e-9, "{fast:?}");
}

#[test]
fn bulk_in_bursts_goes_as_fast_as_it_gets_through_and_pauses_where_the_trace_does() {
    let burst = |from_ms: u64| (0..10).map(move |number| (from_ms + 90 * number, 2048 * number));
    let text: String = burst(0)
        .chain(burst(5000))
        .map(|(ms, sector)| format!("{ms}.000 0 {} 1048576 1\n", sector * 512))
        .collect::<Vec<_>>()
        .concat();
    let options = ReplayOptions {
        tempo: Some(Tempo::Bursts),
        outstanding_max: 2,
        ..ReplayOptions::default()
    };
    let service = FixedLatency::serial(Nanos::from_millis(10));
    let results = replayed(service, &text, options);
    assert!((results.simulated_s - 5.1).abs() < 1e-9, "ten of 10 ms, twice: {results:?}");
    assert_eq!(
        results.all.latency.max_ms, 20.0,
        "two at once, counted from when they are asked for"
    );
}

#[test]
fn failed_requests_are_counted_and_named_not_timed() {
    let mut service = FixedLatency::parallel(Nanos::from_millis(1));
    let mut trace = trace_for(&service, &writes(3, 1));
    service.begin_shutdown(Nanos::ZERO);
    let mut time = VirtualTime::default();
    let results = replay(&mut service, &mut time, &mut trace, ReplayOptions::default()).unwrap();
    assert_eq!((results.requests, results.failed, results.all.requests), (3, 3, 0));
    assert!(results.first_failure.unwrap().contains("shutting down"));
}

#[test]
fn a_trace_that_breaks_off_is_an_error_and_leaves_nothing_outstanding() {
    let mut service = FixedLatency::parallel(Nanos::from_millis(1)).of_size(8192);
    let mut trace = trace_for(&service, &writes(5, 1));
    let mut time = VirtualTime::default();
    let error = replay(&mut service, &mut time, &mut trace, ReplayOptions::default()).unwrap_err();
    let ReplayError::Trace(TraceError::Address { at, .. }) = &error else { panic!("{error}") };
    assert_eq!(at.line, 3);
    service.begin_shutdown(time.now());
    assert!(service.is_shut_down());
}

#[test]
fn results_go_through_json_and_back() {
    let service = FixedLatency::serial(Nanos::from_millis(2));
    let results = replayed(service, MEASURED, ReplayOptions::default());
    let json = serde_json::to_string(&results).unwrap();
    assert!(json.contains("\"p999_ms\""), "{json}");
    let back: ReplayResults = serde_json::from_str(&json).unwrap();
    assert_eq!((back.requests, back.all), (results.requests, results.all));
}

#[test]
fn a_real_server_s_trace_replays_whole_and_the_same_twice() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("NEARHEAD_SHARED").map_or_else(|| beside.into(), PathBuf::from);
    let file = shared.join("traces/ms-prod-dtrs/DTRS1K.trace.zst");
    if !file.is_file() {
        println!("skipped: no real traces in $NEARHEAD_SHARED or ../shared");
        return;
    }
    let run = || {
        let mut service = FixedLatency::serial(Nanos::from_millis(1));
        let options = TraceOptions { strict: true, ..TraceOptions::default() };
        let mut trace = TraceReader::open(&file, options.for_service(&service.info())).unwrap();
        let mut time = VirtualTime::default();
        let results = replay(&mut service, &mut time, &mut trace, ReplayOptions::default());
        (results.unwrap(), time.digest())
    };
    let ((first, first_digest), (second, second_digest)) = (run(), run());
    assert_eq!((first.requests, first.writes.requests, first.failed), (127_043, 13_920, 0));
    assert_eq!((first.all, first_digest), (second.all, second_digest));
    assert!(first.simulated_s >= 299.999, "{first:?}");
}
