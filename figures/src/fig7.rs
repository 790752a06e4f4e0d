//! Manylogs' figures 7a and 7b, and its mapping-table sizes: an hour of logging, one checkpoint.
//!
//! - 7a: how long the checkpoint takes, reads of logs and writes home apart;
//! - 7b: how much of the writing it saves to have waited;
//! - mapping: what the map of a whole hour takes.
//!
//! Figure 8, on shingled disks, is in `smr.rs`.

use crate::chart::BarChart;
use crate::error::FigureError;
use crate::hours::{HourRun, PRESET, differs, runs};
use crate::lab::Lab;
use crate::paper::{PAPERS, Spread};
use crate::report::{Data, Drawing, Report, Row, Value};
use crate::rig::{self, CONSTELLATION};
use nearhead_disk::Nanos;

/// Bytes of an entry in the paper's table: assumed, to compare with its sizes.
const PAPER_ENTRY_BYTES: u64 = 16;

fn ran(hours: &[HourRun]) -> String {
    let parts = hours.iter().map(|hour| {
        let (name, role, length) = (&hour.name, &hour.role, hour.length_s);
        format!("{name} ({role}; {length:.0} s, {} requests)", hour.requests)
    });
    format!(
        "Each trace alone on {CONSTELLATION} with preset {PRESET}, write cache off, checkpoints put off \
         while it lasts; then one checkpoint of everything, with the disk otherwise idle: {}.",
        parts.collect::<Vec<_>>().join("; ")
    )
}

fn data(hours: &[HourRun]) -> Data {
    let columns = [
        "trace",
        "length_s",
        "requests",
        "logged_writes",
        "logged_blocks",
        "distinct_blocks",
        "runs",
        "checkpoint_reading_s",
        "checkpoint_writing_s",
        "checkpoint_reads",
        "checkpoint_writes",
        "map_entries",
        "map_bytes",
        "swaps",
        "spills",
        "home_early_bytes",
    ];
    let mut data = Data::new("hours", &columns);
    for hour in hours {
        data.push([
            hour.name.clone(),
            format!("{:.1}", hour.length_s),
            hour.requests.to_string(),
            hour.saved.logged_writes.to_string(),
            hour.saved.logged_blocks.to_string(),
            hour.saved.distinct_blocks.to_string(),
            hour.saved.runs.to_string(),
            format!("{:.3}", hour.checkpoint.reading.as_secs_f64()),
            format!("{:.3}", hour.checkpoint.writing.as_secs_f64()),
            hour.checkpoint.reads.to_string(),
            hour.checkpoint.writes.to_string(),
            hour.map_entries.to_string(),
            hour.map_bytes.to_string(),
            hour.swaps.to_string(),
            hour.spills.to_string(),
            hour.home_early_bytes.to_string(),
        ]);
    }
    data
}

fn bars(
    title: &str,
    unit: &str,
    hours: &[HourRun],
    series: Vec<(String, Vec<f64>)>,
) -> Result<String, String> {
    // The id alone: names are too long under a bar.
    let short = |hour: &HourRun| {
        hour.name.split([' ', '-']).next().unwrap_or_default().chars().take(5).collect()
    };
    let groups = hours.iter().map(short).collect();
    BarChart { title, unit, groups, series, limit: None, decades: false }.render()
}

pub(crate) fn seconds(hour: &HourRun) -> f64 {
    (hour.checkpoint.reading + hour.checkpoint.writing).as_secs_f64()
}

/// What the disk needs at best: every block in the map read once and written once, at full speed.
fn seconds_at_best(hour: &HourRun) -> Result<f64, FigureError> {
    let blocks = hour.map_entries.min(hour.saved.distinct_blocks);
    let bytes = (blocks * 4096) as f64;
    Ok(2.0 * bytes / rig::mechanics(CONSTELLATION)?.bandwidth(0))
}

/// Figure 7a.
pub(crate) fn fig7a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let hours = runs(lab)?;
    let paper = PAPERS.hours.checkpoint_s;
    let mut rows = Vec::new();
    for hour in hours.iter() {
        let mut row = Row::new(format!("checkpoint after {}", hour.name), "s")
            .ours(seconds(hour))
            .limit(seconds_at_best(hour)?);
        if hour.of_paper {
            row = row.paper(paper).goal(Value::Words(format!("at most {:.0}", paper.max)));
        }
        rows.push(row);
    }
    let of_paper = || hours.iter().filter(|hour| hour.of_paper);
    let longest = of_paper().max_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let mut findings = told_of_all(of_paper(), paper.max);
    findings.extend(longest.into_iter().flat_map(told_of_longest));
    findings.extend(home_early(&hours));
    let of = |part: &dyn Fn(&HourRun) -> f64| hours.iter().map(part).collect::<Vec<f64>>();
    let series = vec![
        ("log reads".to_owned(), of(&|hour| hour.checkpoint.reading.as_secs_f64())),
        ("checkpoint writes".to_owned(), of(&|hour| hour.checkpoint.writing.as_secs_f64())),
    ];
    Ok(Report {
        name: "fig7a",
        title: "duration of one checkpoint after an hour of logging".to_owned(),
        ran: ran(&hours),
        differs: differs(&hours, false),
        findings,
        rows,
        data: vec![data(&hours)],
        drawings: vec![Drawing::new("duration", bars("Checkpoint", "s", &hours, series))?],
    })
}

/// Where the engine could not put a checkpoint off.
fn home_early(hours: &[HourRun]) -> impl Iterator<Item = String> {
    let early = hours.iter().filter(|hour| hour.home_early_bytes > 0);
    early.map(|hour| {
        format!(
            "{}: {:.0} MB came home while the hour lasted, although checkpoints were put off: at some \
             moment no log that was ready took a record, and the engine began a checkpoint ({} writes \
             spilled). Its last checkpoint is shorter for it, and so is the limit beside it.",
            hour.name,
            hour.home_early_bytes as f64 / 1e6,
            hour.spills
        )
    })
}

/// Which hours go home within the paper's time and which do not.
fn told_of_all<'a>(hours: impl Iterator<Item = &'a HourRun>, paper_s: f64) -> Vec<String> {
    let (within, beyond): (Vec<f64>, Vec<String>) = {
        let (within, beyond): (Vec<_>, Vec<_>) = hours.partition(|hour| seconds(hour) <= paper_s);
        let named = |hour: &HourRun| format!("{} ({:.0} s)", hour.name, seconds(hour));
        (within.into_iter().map(seconds).collect(), beyond.into_iter().map(named).collect())
    };
    let mut told = Vec::new();
    if let Some(spread) = Spread::of(&within) {
        told.push(format!(
            "{} of the paper's {} traces go home within its {paper_s:.0} s: in {:.1} to {:.0} s.",
            within.len(),
            within.len() + beyond.len(),
            spread.min,
            spread.max
        ));
    }
    if !beyond.is_empty() {
        told.push(format!("Beyond the paper's {paper_s:.0} s: {}.", beyond.join(", ")));
    }
    told
}

/// What the longest checkpoint spent its time on.
fn told_of_longest(hour: &HourRun) -> Vec<String> {
    let passed = &hour.checkpoint;
    let longest_s = seconds(hour);
    let each_ms = |span: Nanos, count: u64| span.as_millis_f64() / count.max(1) as f64;
    let each_kib = |bytes: u64, count: u64| bytes as f64 / 1024.0 / count.max(1) as f64;
    vec![
        format!(
            "The longest checkpoint takes {longest_s:.0} s ({}: {:.1} GB of distinct blocks in {} runs).",
            hour.name,
            hour.saved.distinct_blocks as f64 * 4096.0 / 1e9,
            hour.saved.runs,
        ),
        format!(
            "It reads the logs for {:.0} s ({} reads of {:.0} KiB, {:.1} ms each) and writes home for {:.0} s \
             ({} writes of {:.0} KiB, {:.1} ms each). A pass goes through the map in home order, one window \
             at a time, which bounds its memory; it reads what a window holds in the order of the logs and \
             writes it in home order. What lies together at home was logged at different times in \
             different places: the shorter the reads, the more of the time is the way between logs. \
             Manylogs reads whole logs first (VI, \"reading the active logs\").",
            passed.reading.as_secs_f64(),
            passed.reads,
            each_kib(passed.read_bytes, passed.reads),
            each_ms(passed.reading, passed.reads),
            passed.writing.as_secs_f64(),
            passed.writes,
            each_kib(passed.write_bytes, passed.writes),
            each_ms(passed.writing, passed.writes),
        ),
    ]
}

/// Figure 7b.
pub(crate) fn fig7b(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let hours = runs(lab)?;
    let paper = PAPERS.hours.overwrite_pct;
    let mut rows = Vec::new();
    for hour in hours.iter() {
        let mut row = Row::new(format!("block writes saved, {}", hour.name), "%")
            .ours(hour.saved.blocks_pct())
            .limit(100.0);
        if hour.of_paper {
            row = row.paper(paper);
        }
        rows.push(row);
        rows.push(
            Row::new(format!("I/Os saved by merging, {}", hour.name), "%")
                .ours(hour.saved.requests_pct())
                .limit(100.0),
        );
    }
    let of = |part: &dyn Fn(&HourRun) -> f64| hours.iter().map(part).collect::<Vec<f64>>();
    let series = vec![
        ("I/Os".to_owned(), of(&|hour| hour.saved.requests_pct())),
        ("block writes".to_owned(), of(&|hour| hour.saved.blocks_pct())),
    ];
    let note = "Overwrites of the synthetic traces are inputs (data/servers.toml), spread over the \
                paper's range; what is measured here is what the engine and the merging make of them.";
    Ok(Report {
        name: "fig7b",
        title: "writing that a checkpoint once an hour saves".to_owned(),
        ran: ran(&hours),
        differs: std::iter::once(note.to_owned()).chain(differs(&hours, false)).collect(),
        findings: Vec::new(),
        rows,
        data: vec![data(&hours)],
        drawings: vec![Drawing::new("saved", bars("Writing saved", "%", &hours, series))?],
    })
}

/// Sizes of the mapping table.
pub(crate) fn mapping(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let hours = runs(lab)?;
    let paper = PAPERS.hours.mapping_table_bytes;
    let mut rows = Vec::new();
    for hour in hours.iter() {
        let mut row = Row::new(format!("map after {}", hour.name), "bytes")
            .baseline((hour.saved.distinct_blocks * PAPER_ENTRY_BYTES) as f64)
            .ours(hour.map_bytes as f64);
        if hour.of_paper {
            row = row.paper(paper).goal(Value::Words("within 2 kB to 11 MB".to_owned()));
        }
        rows.push(row);
    }
    let of_paper = || hours.iter().filter(|hour| hour.of_paper);
    let largest = of_paper().map(|hour| hour.map_bytes).max().unwrap_or_default();
    let per_entry = of_paper()
        .max_by_key(|hour| hour.map_entries)
        .map(|hour| hour.map_bytes as f64 / hour.map_entries.max(1) as f64);
    Ok(Report {
        name: "mapping",
        title: "size of the mapping table after an hour of logging".to_owned(),
        ran: ran(&hours),
        differs: differs(&hours, false),
        findings: vec![format!(
            "The largest map takes {:.1} MB of memory, {:.1} bytes an entry. An entry of ours is a \
             run of sectors within a block of 4 KiB and holds its log, place and record; 'baseline' \
             is the number of distinct blocks times {PAPER_ENTRY_BYTES} bytes, an assumption about \
             the paper's table.",
            largest as f64 / 1e6,
            per_entry.unwrap_or_default()
        )],
        rows,
        data: vec![data(&hours)],
        drawings: Vec::new(),
    })
}
