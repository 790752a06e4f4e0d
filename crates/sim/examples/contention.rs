//! Bulk I/O against durable points on a bare modelled disk, in virtual time.
//!
//! `cargo run --release -p nearhead-sim --example contention [model:PROFILE,option=value...]`. What
//! it prints is the baseline that every preset is measured against: the disk with nothing on it.

use clap::Parser;
use nearhead_disk::Nanos;
use nearhead_models::ModelSpec;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::contention::{ContentionOptions, ContentionResults, run};
use nearhead_sim::workload::{BulkOptions, Content, DurableBy, DurablePointsOptions};
use nearhead_volume::BareDisk;
use std::error::Error;
use std::time::Instant;

fn measure(disk: &str, options: &ContentionOptions) -> Result<ContentionResults, Box<dyn Error>> {
    let mut service = BareDisk::new(ModelSpec::parse(disk)?.build()?);
    let mut time = VirtualTime::default();
    let results = run(&mut service, &mut time, options)?;
    time.shut_down(&mut service, Nanos::from_secs(60))?;
    Ok(results)
}

/// Durable points beside bulk, on a disk without an engine
#[derive(clap::Parser)]
struct Arguments {
    /// The modelled disk
    #[arg(default_value = "model:st3146855fc,content=none")]
    disk: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { disk } = Arguments::parse();
    let size = BareDisk::new(ModelSpec::parse(&disk)?.build()?).info().size_bytes;
    let started = Instant::now();
    println!("{disk}\nbulk    points/s      MB/s       %   mean ms    p99 ms  points/s done");
    for write in [false, true] {
        let bulk = BulkOptions { write, ..BulkOptions::reader(0..size / 8) };
        let bulk = BulkOptions { content: Content::Phantom, ..bulk };
        let mut alone_bytes_per_s = None;
        for (points_per_s, durable_by) in [
            (0.0, DurableBy::Flush),
            (2.0, DurableBy::Flush),
            (8.0, DurableBy::Flush),
            (16.0, DurableBy::Flush),
            (16.0, DurableBy::Fua),
        ] {
            let points = DurablePointsOptions::of_twenty(size / 4..size / 2, points_per_s);
            let options = ContentionOptions {
                bulk: Some(bulk.clone()),
                points: (points_per_s > 0.0)
                    .then_some(DurablePointsOptions { durable_by, ..points }),
                warm_up: Nanos::from_secs(5),
                duration: Nanos::from_secs(60),
            };
            let results = measure(&disk, &options)?;
            let bytes_per_s = results.bulk.unwrap_or_default().bytes_per_s;
            let alone = *alone_bytes_per_s.get_or_insert(bytes_per_s);
            let points = results.points.unwrap_or_default();
            println!(
                "{:<6} {points_per_s:>6} {durable_by:?}\t{:>6.1} {:>7.1} {:>9.1} {:>9.1} {:>8.1}",
                if write { "write" } else { "read" },
                bytes_per_s / 1e6,
                100.0 * bytes_per_s / alone,
                points.points.latency.mean_ms,
                points.points.latency.p99_ms,
                points.points.requests_per_s,
            );
        }
    }
    println!("{:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}
