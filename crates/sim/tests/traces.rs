//! The readers on whole traces: made-up ones that need nothing, and real ones where they are.
//!
//! Real traces are looked for in `$NEARHEAD_SHARED` or `../shared` beside the workspace; their
//! figures must be those that an independent reader found (`traces/STATS.md` there).

#![expect(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_sim::trace::{
    AddressFit, AddressOptions, Format, Input, Summary, TraceError, TraceOptions, TraceReader,
    TraceRequest, summarize,
};
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::PathBuf;

fn reader(text: &str, options: TraceOptions) -> TraceReader {
    let input = Input::from_reader("made-up", Cursor::new(text.to_owned())).unwrap();
    TraceReader::new(input, options).unwrap()
}

fn offsets(reader: &mut TraceReader) -> Vec<u64> {
    reader.map(|request| request.unwrap().offset_bytes).collect()
}

const TENCENT: &str =
    "1538323200,0,8,1,7\n1538323200,8,8,x,7\n\n1538323201,16,8,0,8\nrubbish\n1538323202,24,0,0,7\n";

#[test]
fn bad_lines_are_skipped_counted_and_the_first_few_remembered() {
    let mut trace = reader(TENCENT, TraceOptions::default());
    assert_eq!(offsets(&mut trace), [0, 16 * 512]);
    let counts = trace.counts();
    assert_eq!((counts.lines, counts.requests, counts.skipped), (6, 2, 2));
    assert_eq!((counts.not_transfers, counts.empty), (1, 1));
    assert_eq!(trace.problems().iter().map(|bad| bad.line).collect::<Vec<_>>(), [2, 5]);
}

#[test]
fn every_line_is_accounted_for() {
    let text = format!("{}Timestamp\n1,2,3\n1538323200,0,8,1,9\n", TENCENT.repeat(50));
    let mut trace = reader(&text, TraceOptions { device: Some(8), ..TraceOptions::default() });
    while trace.next().is_some() {}
    let counts = trace.counts();
    let sum = counts.requests
        + counts.skipped
        + counts.not_transfers
        + counts.empty
        + counts.other_devices;
    assert_eq!(sum, counts.lines, "{counts:?}");
    assert!(trace.problems().len() < 10, "only the first few are kept");
}

#[test]
fn requests_of_a_program_are_treated_as_those_of_a_file() {
    let request = |at_ms: u64, offset_bytes| TraceRequest {
        at: Nanos::from_millis(at_ms),
        offset_bytes,
        len_bytes: 4096,
        ..TraceRequest::default()
    };
    let requests = vec![request(7, 8192), request(5, 4096), request(9, 1 << 30)];
    let address = AddressOptions { capacity_bytes: Some(1 << 20), ..AddressOptions::default() };
    let options = TraceOptions { address, ..TraceOptions::default() };
    let mut trace = TraceReader::of_requests("mine", requests.into_iter(), options).unwrap();
    let error = trace.find_map(Result::err).unwrap().to_string();
    assert!(error.starts_with("trace mine, line 3: "), "{error}");
    let wrapped = AddressOptions { fit: AddressFit::Wrap, ..address };
    let options = TraceOptions { address: wrapped, ..TraceOptions::default() };
    let requests = vec![request(7, 8192), request(5, 4096), request(9, 1 << 30)];
    let mut trace = TraceReader::of_requests("mine", requests.into_iter(), options).unwrap();
    let read: Vec<_> = trace.by_ref().map(Result::unwrap).collect();
    let found: Vec<_> =
        read.iter().map(|read| (read.at.0 / 1_000_000, read.offset_bytes)).collect();
    assert_eq!(found, [(0, 4096), (2, 8192), (4, 0)]);
    assert_eq!((trace.counts().lines, trace.counts().moved), (3, 1));
    assert_eq!((trace.format(), trace.name()), (Format::Requests, "mine"));
}

#[test]
fn strict_mode_stops_at_the_first_bad_line_and_names_it() {
    let mut trace = reader(TENCENT, TraceOptions { strict: true, ..TraceOptions::default() });
    let error = trace.find_map(Result::err).unwrap();
    let text = error.to_string();
    assert!(matches!(error, TraceError::Line { .. }));
    assert!(text.contains("line 2") && text.contains("found \"x in"), "{text}");
    assert!(trace.next().is_none(), "an error ends the trace");
}

#[test]
fn only_the_device_asked_for_is_read() {
    let mut trace = reader(TENCENT, TraceOptions { device: Some(8), ..TraceOptions::default() });
    assert_eq!(offsets(&mut trace), [16 * 512]);
    assert_eq!(trace.counts().other_devices, 2);
}

#[test]
fn a_format_that_is_named_wins_over_what_it_looks_like() {
    let text = "0 0 1024 2048 1\n979 0 512 512 1\n";
    assert_eq!(reader(text, TraceOptions::default()).format(), Format::Heimdall);
    let options = TraceOptions { format: Some(Format::Mqsim), ..TraceOptions::default() };
    let mut trace = reader(text, options);
    assert_eq!((trace.format(), trace.format_reason()), (Format::Mqsim, "told so"));
    assert_eq!(offsets(&mut trace), [1024 * 512, 512 * 512]);
}

#[test]
fn a_request_past_the_end_of_the_disk_names_its_line() {
    let address = AddressOptions { capacity_bytes: Some(8192), ..AddressOptions::default() };
    let options = TraceOptions { address, ..TraceOptions::default() };
    let error = reader(TENCENT, options.clone()).find_map(Result::err).unwrap();
    let text = error.to_string();
    assert!(text.contains("line 4") && text.contains("8192"), "{text}");
    let address = AddressOptions { fit: AddressFit::Wrap, ..address };
    let mut wrapped = reader(TENCENT, TraceOptions { address, ..options });
    assert_eq!(offsets(&mut wrapped), [0, 0]);
    assert_eq!(wrapped.counts().moved, 1);
}

#[test]
fn times_start_at_zero_in_order_and_are_rescaled() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                100.5,0.1,R,0,0,512\n100.0,0.1,W,0,512,512\n103.0,,R,,1024,512\n";
    let options = TraceOptions { time_scale: 0.5, ..TraceOptions::default() };
    let times: Vec<Nanos> = reader(text, options).map(|request| request.unwrap().at).collect();
    assert_eq!(times, [Nanos::ZERO, Nanos::from_millis(250), Nanos::from_millis(1500)]);
}

#[test]
fn a_measured_trace_is_issued_by_its_response_and_think_times() {
    let text = "R Hit 8 8 1000.0 500.0\nW Miss 16 8 2000.0 0.0\nR Hit 24 8 1.0 1.0\n";
    let requests: Vec<TraceRequest> =
        reader(text, TraceOptions::default()).map(Result::unwrap).collect();
    let times: Vec<u64> = requests.iter().map(|request| request.at.0 / 1000).collect();
    assert_eq!(times, [0, 1500, 3500]);
    assert_eq!(requests[1].response, Some(Nanos::from_millis(2)));
}

#[test]
fn files_that_are_no_trace_are_refused_with_what_was_found() {
    for (text, part) in [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("13.25 0.02\n13.22 92.5\n", "13.25 0.02"),
        ("\u{7f}ELF\x02\x01", "\\x7fELF"),
    ] {
        let input = Input::from_reader("x", Cursor::new(text.to_owned())).unwrap();
        let error = TraceReader::new(input, TraceOptions::default()).err().unwrap().to_string();
        assert!(error.contains(part) && error.contains("mqsim"), "{error}");
    }
}

#[test]
fn a_wrong_format_is_not_an_empty_trace() {
    for lines in [3, 20_000] {
        let text = "13.25 0.02\n".repeat(lines);
        let options = TraceOptions { format: Some(Format::Msr), ..TraceOptions::default() };
        let error = reader(&text, options).find_map(Result::err).unwrap();
        assert!(matches!(error, TraceError::NothingParsed { .. }), "{error}");
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}

#[test]
fn rubbish_of_any_kind_ends_in_requests_or_errors_never_in_a_panic() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut bytes = vec![0; random.below(5000) as usize];
        random.fill(&mut bytes);
        match seed % 4 {
            0 => bytes.splice(0..0, *b"\x28\xB5\x2F\xFD").for_each(drop),
            1 => bytes.splice(0..0, *b"\x1F\x8B\x08").for_each(drop),
            2 => bytes.splice(0..0, *b"BZh9").for_each(drop),
            _ => {}
        }
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            let Ok(input) = Input::from_reader("x", Cursor::new(bytes.clone())) else { continue };
            let options = TraceOptions { format, ..TraceOptions::default() };
            let Ok(trace) = TraceReader::new(input, options) else { continue };
            assert!(trace.count() <= 5000, "seed {seed}");
        }
    }
}

#[test]
fn a_long_trace_passes_with_everything_in_order() {
    let mut text = String::new();
    let mut random = Random::new(4);
    for number in 0..200_000_u64 {
        let jitter = random.below(500);
        writeln!(text, "419,W,{},4096,{}", number * 4096, 10_000 + number + jitter).unwrap();
    }
    let mut trace = reader(&text, TraceOptions { strict: true, ..TraceOptions::default() });
    let mut latest = Nanos::ZERO;
    let mut count = 0;
    for request in &mut trace {
        let request = request.unwrap();
        assert!(request.at >= latest);
        latest = request.at;
        count += 1;
    }
    assert_eq!((count, trace.counts().late), (200_000, 0));
}

/// File, format, requests, devices and the figures of [`figures`] of a row of `traces/STATS.md`.
type Known = (&'static str, Format, u64, usize, [f64; 7]);

/// Stands for a figure that `STATS.md` does not have, or that depends on the order of a trace which
/// is not sorted by time.
const NONE: f64 = f64::NAN;

const STATS: [Known; 12] = [
    (
        "traces/ms-prod-dtrs/DTRS1K.trace.zst",
        Format::Dtrs,
        127_043,
        1,
        [11.0, 300.0, 55.6, 53.4, 18.0, 20.0, 164.5],
    ),
    (
        "traces/mqsim/tpcc-small.trace.zst",
        Format::Mqsim,
        6_999,
        16,
        [37.4, 0.1, 8.1, 8.7, 99.0, 1.2, 3132.5],
    ),
    (
        "traces/heimdall-msr/msr.cut.per_10k.rw_20_80.105.trace.zst",
        Format::Heimdall,
        10_000,
        1,
        [79.8, 242.9, 1.8, 6.2, 96.1, 2.8, 15.0],
    ),
    (
        "traces/caffeine-snia-samples/msr-cambridge1-sample.csv.zst",
        Format::Msr,
        1_000,
        1,
        [49.2, 127.2, 11.7, 7.1, 96.5, 3.9, 13.6],
    ),
    (
        "traces/caffeine-snia-samples/systor17-traces-sample.csv.gz",
        Format::Systor17,
        999,
        1,
        [17.3, 2.4, 43.0, 15.6, 90.2, NONE, 5029.3],
    ),
    (
        "traces/caffeine-snia-samples/systor17-additional-sample.csv.gz",
        Format::Systor17,
        999,
        1,
        [29.9, 1.3, 25.7, 7.5, 95.3, NONE, 4982.6],
    ),
    (
        "traces/caffeine-snia-samples/cloud_storage-sample.bz2",
        Format::Tencent,
        50_000,
        2_038,
        [51.0, 1.0, 25.8, 33.4, 86.6, NONE, NONE],
    ),
    (
        "traces/cloudphysics/cloudPhysicsIO.csv.zst",
        Format::CloudPhysics,
        113_872,
        1,
        [58.7, 7200.0, 37.4, 35.2, 49.4, 26.0, 33.6],
    ),
    (
        "disks/st3146855fc/random.trace.zst",
        Format::DiskSimValidation,
        10_000,
        1,
        [33.2, 127.5, 6.4, 6.2, 99.9, 0.0, 146.8],
    ),
    (
        "disks/disksim-valid/hp_c2247a.trace.zst",
        Format::DiskSimValidation,
        9_999,
        1,
        [48.8, 294.8, 8.2, 8.3, 98.2, 30.1, 1.0],
    ),
    (
        "disks/disksim-valid/st41601n.trace.zst",
        Format::DiskSimValidation,
        9_999,
        1,
        [33.2, 285.4, 8.1, 8.3, 97.9, 24.9, 1.4],
    ),
    (
        "disks/disksim-valid/cheetah9LP.trace.zst",
        Format::DiskSimValidation,
        10_000,
        1,
        [34.1, 497.6, 3.1, 3.2, 100.0, 20.3, 9.1],
    ),
];

const FIGURES: [&str; 7] = [
    "% of writes",
    "seconds",
    "KiB per read",
    "KiB per write",
    "% of writes to 32 KiB",
    "% sequential",
    "GB spanned",
];

fn figures(found: &Summary) -> [f64; 7] {
    let (requests, writes) = (found.requests as f64, found.writes as f64);
    [
        100.0 * writes / requests,
        found.duration_s,
        found.read_bytes as f64 / (requests - writes) / 1024.0,
        found.write_bytes as f64 / writes / 1024.0,
        100.0 * found.writes_to_32_kib as f64 / writes,
        100.0 * found.sequential as f64 / requests,
        found.span_bytes_all_devices as f64 / 1e9,
    ]
}

fn shared() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let folder = std::env::var_os("NEARHEAD_SHARED").map_or_else(|| beside.into(), PathBuf::from);
    folder.join("traces").is_dir().then_some(folder)
}

#[test]
fn real_traces_have_the_figures_that_another_reader_found() {
    let Some(shared) = shared() else {
        println!("skipped: no real traces in $NEARHEAD_SHARED or ../shared");
        return;
    };
    for (file, format, requests, devices, known) in STATS {
        let options = TraceOptions { strict: true, ..TraceOptions::default() };
        let mut trace = TraceReader::open(shared.join(file), options).unwrap();
        assert_eq!(trace.format(), format, "{file}: {}", trace.format_reason());
        let summary = summarize(&mut trace).unwrap();
        assert_eq!((summary.requests, summary.devices), (requests, devices), "{file}");
        assert_eq!(summary.counts.skipped, 0, "{file}");
        // Tencent's whole seconds are up to 20,000 lines out of order, more than the window sorts.
        let late_max = if format == Format::Tencent { requests / 500 } else { 0 };
        assert!(summary.counts.late <= late_max, "{file}: {:?}", summary.counts);
        for ((what, found), known) in FIGURES.into_iter().zip(figures(&summary)).zip(known) {
            let differs = (found - known).abs() > 0.051;
            assert!(!differs, "{file}: {what}: {found}, expected {known}");
        }
    }
}

#[test]
fn a_file_without_addresses_is_refused() {
    let Some(shared) = shared() else {
        println!("skipped: no real traces in $NEARHEAD_SHARED or ../shared");
        return;
    };
    let file = shared.join("traces/smr-emul/q2c.lat_253,0_q2c.dat.zst");
    let error = TraceReader::open(file, TraceOptions::default()).err().unwrap().to_string();
    assert!(error.contains("13.258416 0.026977"), "{error}");
}
