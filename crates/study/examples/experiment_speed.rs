//! How long two experiments of a million requests take from Rust: what `bindings/python-study/bench.py` compares the library for Python with.
//!
//! `cargo run --release -p nearhead-study --example experiment_speed -- [REQUESTS]` prints a JSON object for each: which, seconds of the
//! clock and of the processor, digest.

use nearhead_disk::Nanos;
use nearhead_sim::trace::{TraceOptions, TraceRequest};
use nearhead_study::{
    Disks, Experiment, Load, RandomLoad, ReplayLoad, Requests, SpanBytes, VolumeChoices,
};
use nearhead_volume::NamedPreset;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Instant;

/// Where requests of the trace go, and how far apart they are, as in `bench.py`.
const BLOCKS: u64 = 1 << 20;
const STRIDE: u64 = 7919;
const PERIOD_NS: u64 = 20_000_000;

fn main() -> Result<(), String> {
    let asked = std::env::args().nth(1).map(|text| text.parse());
    let requests = asked.transpose().map_err(|error| format!("requests: {error}"))?;
    let requests: u64 = requests.unwrap_or(1_000_000);
    let random = Load::Random(RandomLoad {
        span: SpanBytes::default(),
        request_bytes: 4096,
        reads: 0.5,
        fua: true,
        outstanding_max: 4,
        requests_max: Some(requests),
        seed: 1,
    });
    run("random_mix", random)?;
    run("trace", trace(requests))
}

fn trace(requests: u64) -> Load {
    let request = |index: u64| TraceRequest {
        at: Nanos(index * PERIOD_NS),
        offset_bytes: index * STRIDE % BLOCKS * 65536,
        len_bytes: 4096,
        write: !index.is_multiple_of(3),
        ..TraceRequest::default()
    };
    let requests = Arc::new((0..requests).map(request).collect());
    Load::Replay(ReplayLoad {
        requests: Requests::Memory { name: "made-up".to_owned(), requests },
        options: TraceOptions::default(),
        tempo: None,
        outstanding_max: 1024,
    })
}

fn run(name: &str, load: Load) -> Result<(), String> {
    let experiment = Experiment {
        disk: Disks::parse("st3146855fc")?,
        preset: Some(NamedPreset::by_name("mlb").map_err(|error| error.to_string())?),
        choices: VolumeChoices::default(),
        policies: None,
        answers: None,
        loads: vec![load],
        span: None,
        record: false,
    };
    let (begun, used) = (Instant::now(), processor_s());
    let outcome = experiment.run(&mut || true).map_err(|error| error.to_string())?;
    let seconds = begun.elapsed().as_secs_f64();
    let told = serde_json::json!({
        "case": name,
        "seconds": seconds,
        "processor_s": processor_s() - used,
        "digest": format!("{:016x}", outcome.digest),
    });
    println!("{told}");
    Ok(())
}

/// Of this thread, so far.
fn processor_s() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
