//! How fast the simulation itself is: lines parsed and requests replayed a second of real time.
//!
//! `cargo run --release -p nearhead-sim --example speed`. The service costs next to nothing, so
//! what is shown is the cost of trace, clock and histograms.

use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::fixed_latency::FixedLatency;
use nearhead_sim::replay::{Player, ReplayOptions, Tempo, replay};
use nearhead_sim::trace::{Format, Input, TraceError, TraceOptions, TraceReader, TraceRequest};

use std::error::Error;
use std::fmt::Write as _;
use std::io::Cursor;
use std::time::Instant;

const LINES: u64 = 2_000_000;

fn made_up(format: Format) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let mut random = Random::new(1);
    for number in 0..LINES {
        let (at, sector, write) = (number * 100_000, random.below(1 << 30) * 8, number & 1);
        match format {
            Format::Mqsim => writeln!(text, "{at} 0 {sector} 8 {write}")?,
            Format::Heimdall => {
                writeln!(text, "{}.{:03} 0 {} 4096 {write}", at / 1000, at % 1000, sector * 512)?;
            }
            _ => {
                let ticks = 128_166_385_295_514_663 + at / 100;
                writeln!(text, "{ticks},web,0,Write,{},4096,2833", sector * 512)?;
            }
        }
    }
    Ok(text)
}

fn reader(text: &str, format: Format) -> Result<TraceReader, TraceError> {
    let options = TraceOptions { format: Some(format), strict: true, ..TraceOptions::default() };
    let service = FixedLatency::parallel(Nanos(0)).of_size(1 << 45);
    let input = Input::from_reader("made-up", Cursor::new(text.to_owned()))?;
    TraceReader::new(input, options.for_service(&service.info()))
}

fn show(what: &str, count: u64, started: Instant) {
    let taken_s = started.elapsed().as_secs_f64();
    let (millions_per_s, each_ns) = (count as f64 / taken_s / 1e6, taken_s * 1e9 / count as f64);
    println!("{what:<28} {millions_per_s:6.2} million/s {each_ns:6.0} ns each");
}

fn main() -> Result<(), Box<dyn Error>> {
    for format in [Format::Msr, Format::Mqsim, Format::Heimdall] {
        let text = made_up(format)?;
        let mut trace = reader(&text, format)?;
        let started = Instant::now();
        let parsed = trace.try_fold(0, |count, request| request.map(|_| count + 1_u64))?;
        show(&format!("parse {format}"), parsed, started);

        let mut trace = reader(&text, format)?;
        let mut service = FixedLatency::parallel(Nanos::from_millis(1)).of_size(1 << 45);
        let started = Instant::now();
        let mut time = VirtualTime::default();
        let results = replay(&mut service, &mut time, &mut trace, ReplayOptions::default())?;
        show(&format!("parse and replay {format}"), results.requests, started);
    }
    let requests = (0..LINES).map(|number| {
        let at = Nanos::from_micros(100 * number);
        Ok(TraceRequest { at, offset_bytes: number * 4096, len_bytes: 4096, ..Default::default() })
    });
    let mut service = FixedLatency::parallel(Nanos::from_millis(1));
    let options = ReplayOptions::default();
    let mut player = Player::new(requests, Tempo::OpenLoop, options, Nanos::ZERO, 1 << 20);
    let started = Instant::now();
    VirtualTime::default().run(&mut service, &mut [&mut player], Nanos::MAX)?;
    show("replay without parsing", LINES, started);
    Ok(())
}
