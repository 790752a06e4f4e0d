//! Real traces on emulated hard disks whose queue takes 1, 8, 32 or 128 commands: `nearhead` beside writing in place, in virtual time.
//!
//! The traces are those of `../shared/traces`, or of `$NEARHEAD_SHARED/traces`; whatever is no trace there is told and left
//! out. Every write is durable when answered, addresses past the end are wrapped, and the disk was calibrated first, as
//! anybody can. A row has the mean latency over that of `nolog`; where either did not follow the trace it says so, since then it
//! is one backlog over another.

use super::Effort;
use super::row::{Row, Target};
use nearhead_disk::Nanos;
use nearhead_models::{Content, ModelSpec};
use nearhead_sim::VirtualTime;
use nearhead_sim::replay::{ReplayOptions, ReplayResults, replay};
use nearhead_sim::trace::{AddressFit, TraceOptions, TraceReader};
use nearhead_study::Made;
use nearhead_study::dataless::{Answers, tracks, volume};
use nearhead_volume::NamedPreset;
use std::path::{Path, PathBuf};

/// Never slower than in place by more than that.
const GOAL: Target = Target::AtMost(1.05);
const BASELINE: &str = "nolog";
/// What is compared, the one with the goal last.
const COMPARED: [&str; 2] = ["mlb-256", "nearhead"];
const DISKS: [&str; 2] = ["constellation-es3-1tb", "st3146855fc"];
const DEPTHS: [u32; 4] = [1, 8, 32, 128];
/// Of a trace so many requests are replayed in a quick run.
const QUICK_REQUESTS: u64 = 2000;

pub(super) fn measure(effort: Effort<'_>, _: &Path) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let folder = std::env::var_os("NEARHEAD_SHARED").map_or("../shared".into(), PathBuf::from);
    let folder = folder.join("traces");
    let found = files_below(&folder);
    if found.is_empty() {
        let why = format!("no real traces in {}, nor another $NEARHEAD_SHARED", folder.display());
        return Ok(vec![Row::skipped("trace_mean_vs_in_place_ratio", GOAL, &why)]);
    }
    for path in found {
        let named = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = named.unwrap_or_default().split('.').next().unwrap_or_default().to_lowercase();
        if let Err(why) = of_trace(effort, &path) {
            eprintln!("bench traces: {} is left out: {why}", path.display());
            continue;
        }
        for disk in effort.pick(&DISKS[..], &DISKS[..1]) {
            for depth in effort.pick(&DEPTHS[..], &DEPTHS[1..2]) {
                rows.push(compared(effort, (&path, &name), disk, *depth)?);
            }
        }
    }
    Ok(rows)
}

/// Compressed files there, in the order of their names: traces lie beside what is told of them.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut files: Vec<PathBuf> =
        inside(folder).iter().filter(|path| path.is_dir()).flat_map(|path| inside(path)).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|ending| ["zst", "gz", "bz2"].iter().any(|known| ending == *known))
    });
    files.sort();
    files
}

fn options(effort: Effort<'_>) -> TraceOptions {
    let mut options = TraceOptions {
        requests_max: effort.pick(None, Some(QUICK_REQUESTS)),
        ..TraceOptions::default()
    };
    options.address.fit = AddressFit::Wrap;
    options
}

/// Whether it is a trace: its first request can be read.
fn of_trace(effort: Effort<'_>, path: &Path) -> Result<(), String> {
    let mut reader = TraceReader::open(path, options(effort)).map_err(|error| error.to_string())?;
    match reader.next() {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("it has no request".to_owned()),
    }
}

fn compared(
    effort: Effort<'_>,
    (path, name): (&Path, &str),
    disk: &str,
    depth: u32,
) -> Result<Row, String> {
    let baseline = replayed(effort, path, disk, depth, BASELINE)?;
    let (mut details, mut ratio) = (Vec::new(), f64::NAN);
    details.push(told(BASELINE, &baseline));
    for preset in COMPARED {
        let results = replayed(effort, path, disk, depth, preset)?;
        ratio = results.all.latency.mean_ms / baseline.all.latency.mean_ms;
        details.push(told(preset, &results));
    }
    let row = format!("trace_{name}_{disk}_depth_{depth}_mean_vs_in_place_ratio");
    Ok(Row::new(row, GOAL, ratio, details.join(", ")))
}

fn told(preset: &str, results: &ReplayResults) -> String {
    let latency = &results.all.latency;
    let late = if results.kept_up() { "" } else { " (did not follow)" };
    format!("{preset} {:.3} ms, p99 {:.1}{late}", latency.mean_ms, latency.p99_ms)
}

fn replayed(
    effort: Effort<'_>,
    path: &Path,
    disk: &str,
    depth: u32,
    preset: &str,
) -> Result<ReplayResults, String> {
    let preset = NamedPreset::by_name(preset).map_err(|error| error.to_string())?;
    let mut spec =
        ModelSpec::parse(&format!("{disk},depth={depth}")).map_err(|error| error.to_string())?;
    spec.content = Content::None;
    spec.options.write_cache = Some(false);
    let build = || spec.build().map_err(|error| error.to_string());
    let tracks = tracks(&preset, &mut build()?)?;
    let mut volume = volume(Made { tracks, ..Made::from(build()?) }, preset, Answers::Durable)?;
    let options = options(effort).for_service(&nearhead_service::Service::info(&volume));
    let mut trace = TraceReader::open(path, options).map_err(|error| error.to_string())?;
    let mut time = VirtualTime::starting_at(Nanos::ZERO);
    let durable = ReplayOptions { durable_writes: true, ..ReplayOptions::default() };
    replay(&mut volume, &mut time, &mut trace, durable).map_err(|error| error.to_string())
}
