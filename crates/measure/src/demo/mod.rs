//! `nearhead demo`: the first measured result, on an emulated disk.
//!
//! A bulk reader or writer and a client that makes small scattered writes durable share an
//! emulated 15,000-rpm disk, for four presets. In real time everything goes through an NBD socket;
//! `--virtual` runs the same plan data-less in a moment. A second experiment, always in virtual time,
//! has other drives and more outstanding bulk requests (`axes.rs`). The result is two tables, a page with
//! charts and two JSON files; everything in them was measured in this run. In real time the
//! machine is watched (`busy`): its other load is in the JSON file, and rows that it disturbed are
//! marked. Virtual time does not pass faster or slower on a busy machine.

mod axes;
pub(crate) mod client;
pub(crate) mod drive;
pub(crate) mod experiment;
mod head_path;
mod in_real_time;
pub(crate) mod in_virtual_time;
mod page;
pub(crate) mod server;
mod table;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use verdict::made_by;

use crate::busy::{Bare, Watch};
use axes::Axes;
use experiment::{BulkKind, POINTS_PER_S, PRESETS, Row, Setting, Span};
use nearhead_output::say;
use nearhead_volume::NamedPreset;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Shortest measurement that means anything: some durable points at the lowest rate.
const SECONDS_MIN: f64 = 0.5;

/// Arguments of `nearhead demo`.
#[derive(clap::Args, Debug)]
pub struct DemoArgs {
    /// Folder for report.html, demo.json and axes.json.
    #[arg(long, default_value = "target/demo")]
    pub out: PathBuf,
    /// Seconds that each point takes, a seventh of it to warm up.
    #[arg(long, default_value_t = 6.5, value_name = "N")]
    pub seconds: f64,
    /// Two seconds a point: a first impression.
    #[arg(long, conflicts_with = "seconds")]
    pub quick: bool,
    /// In virtual time: engine and disk model alone, no socket, no clock; takes a moment.
    #[arg(long = "virtual")]
    pub in_virtual_time: bool,
}

/// Runs the demo; the error is what to tell the user.
pub fn run(args: &DemoArgs) -> Result<(), String> {
    let seconds = if args.quick { 2.0 } else { args.seconds };
    if !(SECONDS_MIN..=3600.0).contains(&seconds) {
        return Err(format!(
            "demo: expected --seconds from {SECONDS_MIN} to 3600, found {seconds}"
        ));
    }
    fs::create_dir_all(&args.out).map_err(|error| cannot("make the folder", &args.out, &error))?;
    let span = Span::of_seconds(seconds);
    let (rows, axes) = measure(args, span).map_err(|problem| format!("demo: {problem}"))?;
    let tables = [table::render(&rows), table::machine(&rows)].concat();
    say(format!("{tables}\n{}", axes.text()).trim_end_matches('\n'));
    for sentence in [verdict::of_axes(&axes), verdict::sentence(&rows)].into_iter().flatten() {
        say(&format!("\n{sentence}"));
    }
    let made_by = verdict::made_by(&command(args));
    let ways = head_path::all()?;
    let page = page::render(&rows, &axes, &ways, seconds, args.in_virtual_time, &made_by)?;
    write(&args.out.join("demo.json"), &json(&rows)?)?;
    write(&args.out.join("axes.json"), &json(&axes.rows().collect::<Vec<_>>())?)?;
    let report = args.out.join("report.html");
    write(&report, &page)?;
    say(&format!("\nThe chart: {}", report.display()));
    Ok(())
}

fn json(rows: &impl serde::Serialize) -> Result<String, String> {
    Ok(serde_json::to_string_pretty(rows).map_err(|error| error.to_string())? + "\n")
}

/// The command line, without the folder.
fn command(args: &DemoArgs) -> String {
    let mut words = "nearhead demo".to_owned();
    if args.quick {
        words += " --quick";
    } else {
        let _ = write!(words, " --seconds {}", args.seconds);
    }
    if args.in_virtual_time {
        words += " --virtual";
    }
    words
}

/// Every row, one point after the other, with progress.
fn measure(args: &DemoArgs, span: Span) -> Result<(Vec<Row>, Axes), String> {
    let started = Instant::now();
    let points = 2 + PRESETS.len() * POINTS_PER_S.len();
    let all = BulkKind::ALL.len() * (points + axes::DRIVES.len());
    let mut done = 0;
    let mut progress = |what: String| {
        done += 1;
        let passed_s = started.elapsed().as_secs_f64();
        eprintln!("[{done:>2}/{all}, {passed_s:>3.0} s] {what}");
    };
    let mut rows: Vec<Row> = Vec::new();
    for kind in BulkKind::ALL {
        let bulk = kind.name();
        let alone = || {
            if args.in_virtual_time {
                in_virtual_time::alone(kind, span)
            } else {
                in_real_time::alone(&args.out, kind, span)
            }
        };
        progress(format!("the disk alone: big {bulk}s"));
        let before = alone()?;
        let mut points = Vec::new();
        for name in PRESETS {
            let preset = NamedPreset::by_name(name).map_err(|error| error.to_string())?;
            for rate in POINTS_PER_S {
                progress(format!("{name}: big {bulk}s beside {rate} durable points a second"));
                let (results, machine) = if args.in_virtual_time {
                    (in_virtual_time::point(preset, kind, rate, span)?, None)
                } else {
                    let watch = Watch::beside();
                    let results = in_real_time::point(&args.out, preset, kind, rate, span)?;
                    (results, Some(watch.end()))
                };
                points.push((name, rate, results, machine));
            }
        }
        progress(format!("the disk alone again: big {bulk}s"));
        let after = alone()?;
        let bare = Bare {
            what: format!("big {bulk}s on the bare disk, MB/s"),
            before: before / 1e6,
            after: after / 1e6,
            in_virtual_time: Some(in_virtual_time::alone(kind, span)? / 1e6),
        };
        // Whatever else the machine does can only slow the disk down: the faster run is the disk.
        let alone = before.max(after);
        for (name, rate, results, machine) in points {
            let row = Row::new(name, Setting::usual(kind), rate, &results, alone)?;
            rows.push(match machine {
                Some(machine) => row.on(machine.with_bare(bare.clone())),
                None => row,
            });
        }
    }
    let axes = Axes::measured(span, progress)?;
    Ok((rows, axes))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| cannot("write", path, &error))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("demo: cannot {what} {}: {error}", path.display())
}
