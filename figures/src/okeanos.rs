//! Okeanos' figures 1, 4 and 5c-d over the real file system: what journal and file-system device write, and how long synchronous writes
//! take, of many threads that each append to a file of their own.
//!
//! The journal has a disk of its own, as in the paper: a volume whose logs are on one disk and whose data is on another (preset `trail`).
//! Every mode that `nearhead-journal` has is run, so a new one shows here by itself.

mod log_replay;
mod postmark;
mod recovery;

pub(crate) use log_replay::okeanos5b;
pub(crate) use postmark::okeanos5a;
pub(crate) use recovery::okeanos_recovery;

use crate::charted::Charted;
use crate::error::FigureError;
use crate::files::{
    AppendOptions, Bench, Counted, FileMethod, Image, mounted, prepare_files, start_appenders,
};
use crate::lab::Lab;
use crate::metered::Passed;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CHEETAH, FigureDisk, System};
use nearhead_disk::Nanos;
use nearhead_journal::{MODES, Mode, mode_named};
use nearhead_service::Service;
use std::collections::BTreeMap;

/// Writes of the checkpoint, and their size (Okeanos, section 6).
const CHECKPOINT_WRITES: u64 = 65_000;
const CHECKPOINT_BYTES: u32 = 1024;
/// A second's bytes of a stream of 1 kbit/s and of 1 Mbit/s.
const SLOW_BYTES: u32 = 125;
const FAST_BYTES: u32 = 125_000;
const IMAGE_SEED: u64 = 11;
/// How much less wasteless journaling is to bring to the journal than data journaling, of streams of 1 kbit/s.
const TRAFFIC_GOAL: f64 = 6.0;

/// A load.
#[derive(Clone, Debug)]
struct Load {
    case: String,
    threads: u32,
    append: AppendOptions,
}

/// What a mode made of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// What the journal's disk and the other one wrote, in MB, and in how many seconds.
    journal_mb: f64,
    files_mb: f64,
    seconds: f64,
    write_ms: f64,
    bytes_per_s: f64,
}

fn periodic(threads: u32, bytes: u32) -> Load {
    let append = AppendOptions { bytes, every: Some(Nanos::from_secs(1)), writes_max: u64::MAX };
    Load { case: format!("{threads} threads, {bytes} bytes a second"), threads, append }
}

/// The modes of the paper, and ours. The others of `nearhead-journal` are as `data` here, as all logs are on one disk and all writes small.
const COMPARED: [&str; 5] = ["ordered", "data", "wasteless", "selective", "nearhead"];

fn method(mode: &'static dyn Mode) -> Result<FileMethod, FigureError> {
    let system = System { configure: |_| {}, fragments: true, ..System::of_preset("trail")? };
    Ok(FileMethod { name: mode.name(), mode, system })
}

/// The same where nobody knows where the tracks of the log's disk are: a record begins where the last one ended.
fn method_without_tracks(mode: &'static dyn Mode) -> Result<FileMethod, FigureError> {
    let plain = method(mode)?;
    let system = System { configure: |config| config.tracks.clear(), ..plain.system };
    Ok(FileMethod { system, ..plain })
}

/// The disk of the logs, and that of the data.
fn disks() -> Result<(FigureDisk, Vec<FigureDisk>), FigureError> {
    let mut disks = rig::kept_several(CHEETAH, 2)?;
    let data = disks.split_off(1);
    let log = disks.pop();
    let log = log.ok_or_else(|| FigureError::setup("a log disk", &"there is none"))?;
    Ok((log, data))
}

/// A file system of `method` on new disks, with what `prepare` puts on it.
fn bench<T>(
    method: &FileMethod,
    prepare: impl FnOnce(&mut Image) -> Result<T, FigureError>,
) -> Result<(Bench, T), FigureError> {
    let (log, data) = disks()?;
    let volume = rig::volume_behind(log, data, &method.system)?;
    let mut image = Image::blank(volume.info().size_bytes, IMAGE_SEED)?;
    let prepared = prepare(&mut image)?;
    Ok((mounted(volume, method, image)?, prepared))
}

fn mode_of(name: &str) -> Result<&'static dyn Mode, FigureError> {
    mode_named(name).map_err(|error| FigureError::setup("a journaling mode", &error))
}

fn outcome(mode: usize, load: &Load, measured: Nanos) -> Result<Outcome, FigureError> {
    let (mut bench, files) =
        bench(&method(MODES[mode])?, |image| prepare_files(image, load.threads))?;
    let counted = Counted::default();
    start_appenders(&mut bench, &files, load.append, &counted);
    bench.restart_when_measuring(&counted);
    let is_endless = load.append.writes_max == u64::MAX;
    let begins = bench.now() + if is_endless { Nanos::from_secs(6) } else { Nanos::ZERO };
    bench.run(begins)?;
    bench.start_measuring();
    let before = bench.passed();
    bench.run(begins + measured)?;
    let ends = bench.now();
    let calls = counted.borrow().summary(ends);
    let mb = |nth: usize, after: &[Passed]| after[nth].since(before[nth]).write_bytes as f64 / 1e6;
    let after = bench.passed();
    told(&bench, load, is_endless)?;
    Ok(Outcome {
        journal_mb: mb(0, &after),
        files_mb: mb(1, &after),
        seconds: (ends - begins).as_secs_f64(),
        write_ms: calls.latency.mean_ms,
        bytes_per_s: calls.bytes_per_s,
    })
}

/// A load that has an end came to it.
fn told(bench: &Bench, load: &Load, is_endless: bool) -> Result<(), FigureError> {
    if is_endless || bench.is_finished() {
        return Ok(());
    }
    Err(FigureError::setup(&load.case, &"its writes were not all done in the time for them"))
}

type Outcomes = BTreeMap<(usize, usize), Outcome>;

fn outcomes(
    lab: &mut Lab<'_>,
    name: &'static str,
    loads: &[Load],
    measured: Nanos,
) -> Result<Outcomes, FigureError> {
    let mut steps = Vec::new();
    for (nth, load) in loads.iter().enumerate() {
        for (at, mode) in MODES.iter().enumerate() {
            steps.push((format!("{}, {}", mode.name(), load.case), (nth, at)));
        }
    }
    let all = lab.each(name, steps, |_, (nth, mode)| {
        Ok(((nth, mode), outcome(mode, &loads[nth], measured)?))
    })?;
    Ok(all.into_iter().collect())
}

/// Okeanos' figure 1: what goes to the journal by the size of a write.
pub(crate) fn okeanos1(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let sizes: &[u32] = lab.effort.pick(&[128, 512, 1024, 2048, 4096], &[128, 4096], &[128]);
    let threads = lab.effort.pick(100, 100, 20);
    let loads: Vec<Load> = sizes.iter().map(|bytes| periodic(threads, *bytes)).collect();
    let measured = Nanos::from_secs(lab.effort.pick(60, 20, 3));
    let title = "what goes to the journal, by the size of a synchronous write";
    report(lab, "okeanos1", title, &loads, measured)
}

/// Okeanos' figure 4a to c: streams.
pub(crate) fn okeanos4(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let slow: &[u32] = lab.effort.pick(&[100, 400, 800], &[100, 400], &[20]);
    let fast: &[u32] = lab.effort.pick(&[10, 50, 100], &[10, 50], &[5]);
    let slow = slow.iter().map(|threads| periodic(*threads, SLOW_BYTES));
    let fast = fast.iter().map(|threads| periodic(*threads, FAST_BYTES));
    let loads: Vec<Load> = slow.chain(fast).collect();
    let measured = Nanos::from_secs(lab.effort.pick(60, 20, 3));
    report(lab, "okeanos4", "streams of synchronous writes", &loads, measured)
}

/// Okeanos' figure 5c and d: a parallel checkpoint.
pub(crate) fn okeanos5(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let counts: &[u32] = lab.effort.pick(&[52, 208, 520], &[52, 520], &[52]);
    let writes = lab.effort.pick(CHECKPOINT_WRITES, CHECKPOINT_WRITES / 4, 1040);
    let load = |threads: &u32| Load {
        case: format!("{threads} writers"),
        threads: *threads,
        append: AppendOptions {
            bytes: CHECKPOINT_BYTES,
            every: None,
            writes_max: writes / u64::from(*threads),
        },
    };
    let loads: Vec<Load> = counts.iter().map(load).collect();
    let title = "a checkpoint of many processes, each to a file of its own";
    report(lab, "okeanos5", title, &loads, Nanos::from_secs(3600))
}

fn report(
    lab: &mut Lab<'_>,
    name: &'static str,
    title: &str,
    loads: &[Load],
    measured: Nanos,
) -> Result<Report, FigureError> {
    let outcomes = outcomes(lab, name, loads, measured)?;
    let modes: Vec<&str> = MODES.iter().map(|mode| mode.name()).collect();
    let first = &loads[0].append;
    let data = data(loads, &outcomes);
    let pace = if first.every.is_some() { "one a second" } else { "one after the other" };
    Ok(Report {
        name,
        title: format!("{title}, the real file system"),
        ran: format!(
            "Threads that each append to a file of their own with durable writes, {pace}. A volume of the preset trail: logs on one {CHEETAH}, \
             data on another, write caches off. Modes: {}. 'baseline' is ordered journaling, 'ours' each mode.",
            modes.join(", ")
        ),
        differs: vec![format!(
            "The paper's disks are Cheetah 15K SAS of 300 GB; here stand two {CHEETAH}, of the same family."
        )],
        findings: findings(loads, &outcomes),
        rows: rows(loads, &outcomes, name),
        drawings: drawings(name, &data)?,
        data: vec![data],
    })
}

fn rows(loads: &[Load], outcomes: &Outcomes, name: &str) -> Vec<Row> {
    let ordered = MODES.iter().position(|mode| mode.name() == "ordered").unwrap_or(0);
    let mut rows = Vec::new();
    for (nth, load) in loads.iter().enumerate() {
        rows.extend(data_over_wasteless(nth, load, outcomes));
        for (at, mode) in MODES.iter().enumerate().filter(|(at, _)| *at != ordered) {
            let (theirs, ours) = (&outcomes[&(nth, ordered)], &outcomes[&(nth, at)]);
            let case = |what: &str| format!("{what}, {}, {}", mode.name(), load.case);
            let is_slow = name == "okeanos4" && load.append.bytes == SLOW_BYTES;
            let of_paper = |all: &BTreeMap<String, f64>| all.get(mode.name()).copied();
            let paper = of_paper(&PAPERS.okeanos.journal_mb_s).filter(|_| is_slow);
            rows.push(
                Row::new(case("journal device"), "MB/s")
                    .paper(paper)
                    .baseline(theirs.journal_mb / theirs.seconds)
                    .ours(ours.journal_mb / ours.seconds),
            );
            rows.push(
                Row::new(case("file-system device"), "MB/s")
                    .baseline(theirs.files_mb / theirs.seconds)
                    .ours(ours.files_mb / ours.seconds),
            );
            rows.push(
                Row::new(case("latency of a write"), "ms")
                    .baseline(theirs.write_ms)
                    .ours(ours.write_ms),
            );
            if load.append.every.is_none() {
                rows.push(
                    Row::new(case("throughput"), "x of ordered")
                        .paper(of_paper(&PAPERS.okeanos.checkpoint_factor))
                        .ours(ours.bytes_per_s / theirs.bytes_per_s.max(1.0)),
                );
                rows.push(
                    Row::new(case("written to the journal"), "MB")
                        .baseline(theirs.journal_mb)
                        .ours(ours.journal_mb),
                );
            }
        }
    }
    rows
}

/// How many times as much data journaling brings to the journal as wasteless journaling does.
fn data_over_wasteless(nth: usize, load: &Load, outcomes: &Outcomes) -> Option<Row> {
    let of = |name: &str| {
        let at = MODES.iter().position(|mode| mode.name() == name)?;
        outcomes.get(&(nth, at)).map(|done| done.journal_mb)
    };
    let (data, wasteless) = (of("data")?, of("wasteless")?);
    let is_slow = load.append.bytes == SLOW_BYTES && load.append.every.is_some();
    let papers = &PAPERS.okeanos.journal_mb_s;
    let paper = papers.get("data").zip(papers.get("wasteless")).map(|(data, less)| data / less);
    let case = format!("data journaling's journal traffic over wasteless, {}", load.case);
    let row = Row::new(case, "x").paper(paper.filter(|_| is_slow)).ours(data / wasteless);
    Some(row.goal(is_slow.then_some(TRAFFIC_GOAL)))
}

fn findings(loads: &[Load], outcomes: &Outcomes) -> Vec<String> {
    let told = |(nth, load): (usize, &Load)| {
        let each = MODES.iter().enumerate().map(|(at, mode)| {
            let done = &outcomes[&(nth, at)];
            let (journal, files) = (done.journal_mb / done.seconds, done.files_mb / done.seconds);
            format!("{} {journal:.2} and {files:.2} MB/s, {:.1} ms", mode.name(), done.write_ms)
        });
        let each: Vec<String> = each.collect();
        format!("{} (journal and file-system device, a write): {}.", load.case, each.join("; "))
    };
    loads.iter().enumerate().map(told).collect()
}

/// What both devices write and how long a write takes, by the size of a write or by how many write.
fn drawings(name: &str, data: &Data) -> Result<Vec<Drawing>, FigureError> {
    let journal = Charted {
        name: "journal",
        title: "Written to the journal's device",
        series: "mode",
        over: ("append_bytes", "bytes of a write"),
        value: ("journal_mb_per_s", "MB/s"),
        only: &[],
    };
    if name == "okeanos1" {
        let files = Charted {
            name: "files",
            title: "Written to the file system's device",
            value: ("files_mb_per_s", "MB/s"),
            ..journal
        };
        let latency = in_ms("latency", "Mean latency of a write", journal);
        return [journal, files, latency].iter().map(|chart| chart.lines(data)).collect();
    }
    if name == "okeanos5" {
        let over = ("threads", "writers");
        let throughput = Charted {
            name: "throughput",
            title: "Throughput of a checkpoint",
            value: ("mb_per_s", "MB/s"),
            over,
            ..journal
        };
        let written = Charted { value: ("journal_mb", "MB"), over, ..journal };
        return [throughput, written].iter().map(|chart| chart.bars(data)).collect();
    }
    let mut drawings = Vec::new();
    for (kind, bytes) in [("1 kbit/s", SLOW_BYTES), ("1 Mbit/s", FAST_BYTES)] {
        let bytes = bytes.to_string();
        let short = kind.replace([' ', '/'], "");
        let of = |what: &str| (format!("{what}-{short}"), format!(", streams of {kind}"));
        let ((journal_name, title), (files_name, _), (latency_name, _)) =
            (of("journal"), of("files"), of("latency"));
        let journal = Charted {
            name: &journal_name,
            title: &format!("{}{title}", journal.title),
            over: ("threads", "streams"),
            only: &[("append_bytes", &bytes)],
            ..journal
        };
        let files = Charted {
            name: &files_name,
            title: &format!("Written to the file system's device{title}"),
            value: ("files_mb_per_s", "MB/s"),
            ..journal
        };
        let heading = format!("Mean latency of a write{title}");
        let latency = in_ms(&latency_name, &heading, journal);
        for chart in [journal, files, latency] {
            drawings.push(chart.lines(data)?);
        }
    }
    Ok(drawings)
}

fn in_ms<'a>(name: &'a str, title: &'a str, like: Charted<'a>) -> Charted<'a> {
    Charted { name, title, value: ("write_ms_mean", "ms"), ..like }
}

fn data(loads: &[Load], outcomes: &Outcomes) -> Data {
    let columns = [
        "mode",
        "load",
        "threads",
        "append_bytes",
        "journal_mb",
        "files_mb",
        "seconds",
        "journal_mb_per_s",
        "files_mb_per_s",
        "write_ms_mean",
        "mb_per_s",
    ];
    let mut data = Data::new("points", &columns);
    for ((nth, at), done) in outcomes {
        data.push([
            MODES[*at].name().to_owned(),
            loads[*nth].case.clone(),
            loads[*nth].threads.to_string(),
            loads[*nth].append.bytes.to_string(),
            format!("{:.3}", done.journal_mb),
            format!("{:.3}", done.files_mb),
            format!("{:.3}", done.seconds),
            format!("{:.4}", done.journal_mb / done.seconds),
            format!("{:.4}", done.files_mb / done.seconds),
            format!("{:.3}", done.write_ms),
            format!("{:.4}", done.bytes_per_s / 1e6),
        ]);
    }
    data
}
