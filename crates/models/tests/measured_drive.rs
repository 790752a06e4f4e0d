//! The model against a real drive: 10,000 requests whose response times were measured.
//!
//! `random.trace` of the `DIXtrac` package for the `ST3146855FC` (see the profile) holds
//! `R|W Hit lbn sectors response_us think_us`: one request outstanding, the next one issued
//! `think_us` after a completion, write cache off. The model replays it in virtual time.
//!
//! Fitted on this trace, and written in the profile: the rotation period (15017.5 rpm; the rotation
//! of the package's `.model` file drifts against it), one constant overhead per command, one
//! constant for settling before a write, and the share of accesses that settle too late and take
//! another revolution (3 %: without it the demerit is 4.8 %, all of it in the slowest tenth). Nothing is fitted per request or per place. The *demerit*
//! (Ruemmler and Wilkes, IEEE Computer, March 1994) is the root mean square distance between the
//! sorted response times of model and drive, here as a share of the drive's mean.

#![allow(clippy::unwrap_used)]

use nearhead_disk::{Class, Command, CommandId, Disk, Nanos, Payload, Submission, Ticket};
use nearhead_models::{Dataless, HddModel, HddOptions, Profile};
use std::io::Read;
use std::path::PathBuf;

struct Measured {
    write: bool,
    lbn: u64,
    sectors: u64,
    response_ms: f64,
    think_us: u64,
}

fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("NEARHEAD_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    Some(root.join(path)).filter(|path| path.exists())
}

fn trace() -> Option<Vec<Measured>> {
    let path = shared("disks/st3146855fc/random.trace.zst")?;
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    zstd::Decoder::new(file).unwrap().read_to_string(&mut text).unwrap();
    let parse = |line: &str| {
        let field: Vec<&str> = line.split_whitespace().collect();
        Measured {
            write: field[0] == "W",
            lbn: field[2].parse().unwrap(),
            sectors: field[3].parse().unwrap(),
            response_ms: field[4].parse::<f64>().unwrap() / 1000.0,
            think_us: field[5].parse::<f64>().unwrap() as u64,
        }
    };
    Some(text.lines().map(parse).collect())
}

fn replay(disk: &mut HddModel, requests: &[Measured]) -> Vec<f64> {
    let mut now = Nanos::ZERO;
    let mut responses = Vec::new();
    for (id, request) in requests.iter().enumerate() {
        let (offset, len) = (request.lbn * 512, request.sectors * 512);
        let command = if request.write {
            let parts = vec![Payload::Phantom(len as usize)];
            Command::Write { offset, parts, durable: false }
        } else {
            Command::Read { offset, len: len as u32 }
        };
        let ticket = Ticket::new(CommandId(id as u64));
        disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
        let start = now;
        loop {
            now = disk.wake_at().unwrap();
            if let Some(completion) = disk.poll(now) {
                completion.result.unwrap();
                break;
            }
        }
        responses.push(now.since(start).as_millis_f64());
        now += Nanos::from_micros(request.think_us);
    }
    responses
}

/// Mean error and demerit in percent of the measured mean.
fn compare(measured: &[f64], modelled: &[f64]) -> (f64, f64) {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let squares = sorted(measured)
        .iter()
        .zip(sorted(modelled))
        .map(|(measured, modelled)| (measured - modelled).powi(2))
        .sum::<f64>();
    let demerit = (squares / measured.len() as f64).sqrt();
    let error = mean(modelled) / mean(measured) - 1.0;
    (100.0 * error, 100.0 * demerit / mean(measured))
}

#[test]
fn response_times_are_distributed_as_on_the_measured_drive() {
    let Some(requests) = trace() else {
        println!("skipped: no disks/st3146855fc/random.trace.zst under NEARHEAD_SHARED");
        return;
    };
    assert_eq!(requests.len(), 10_000);
    let profile = Profile::named("st3146855fc").unwrap();
    let mut disk = HddModel::new(&profile, Box::new(Dataless), HddOptions::default()).unwrap();
    let modelled = replay(&mut disk, &requests);
    for (what, kind) in [("all", None), ("reads", Some(false)), ("writes", Some(true))] {
        let chosen = |index: &usize| kind.is_none_or(|write| requests[*index].write == write);
        let indices: Vec<usize> = (0..requests.len()).filter(chosen).collect();
        let measured: Vec<f64> = indices.iter().map(|&index| requests[index].response_ms).collect();
        let found: Vec<f64> = indices.iter().map(|&index| modelled[index]).collect();
        let (error, demerit) = compare(&measured, &found);
        println!("{what}: mean error {error:+.2} %, demerit {demerit:.2} %");
        assert!(error.abs() < 2.0, "{what}: mean error {error} %");
        assert!(demerit < 4.5, "{what}: demerit {demerit} %");
    }
}
