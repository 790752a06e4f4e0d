//! Okeanos' figure 5b over the real file system: how long flushes of databases' logs take, by how many databases there are.

use super::{COMPARED, bench, method, mode_of};
use crate::charted::Charted;
use crate::error::FigureError;
use crate::files::{Flushes, LogCall, LogTrace, prepare_logs, start_replay};
use crate::innodb_log::{self, Flushing, LOG_BYTES};
use crate::lab::Lab;
use crate::report::{Data, Drawing, Report, Row, Value};
use crate::rig::CHEETAH;
use nearhead_basics::Random;
use nearhead_disk::Nanos;
use std::collections::BTreeMap;

const NAME: &str = "okeanos5b";
const SEED: u64 = 5;
/// Programs start within this time.
const STARTS_WITHIN: Nanos = Nanos::from_secs(1);
const TIME_MAX: Nanos = Nanos::from_secs(100_000);
/// From so many on the paper tells how long a flush takes.
const TOLD_INSTANCES: u32 = 64;
const TOLD: &str = "hundreds of seconds over tens";

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    instances: u32,
    flushing: Flushing,
    /// The log file is there and as long as it gets, or it is new.
    is_there: bool,
}

impl Case {
    fn name(self) -> String {
        let what = if self.is_there { "" } else { ", new files" };
        format!("{}, {} instances{what}", self.flushing.name(), self.instances)
    }
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    flushes: u64,
    /// From when it was due: mean and 99 of 100; and from when it was begun.
    flush_ms: f64,
    flush_ms_p99: f64,
    call_ms: f64,
    /// Until the last one is done.
    seconds: f64,
    journal_mb: f64,
    files_mb: f64,
    files_read_mb: f64,
}

fn outcome(mode: &str, case: Case, trace: &LogTrace) -> Result<Outcome, FigureError> {
    let bytes = if case.is_there { LOG_BYTES } else { 0 };
    let method = method(mode_of(mode)?)?;
    let (mut bench, logs) = bench(&method, |image| prepare_logs(image, case.instances, bytes))?;
    let mut random = Random::new(SEED);
    let starts = logs.into_iter().map(|ino| (ino, Nanos(random.below(STARTS_WITHIN.0))));
    let starts: Vec<_> = starts.collect();
    let (begins, before, flushes) = (bench.now(), bench.passed(), Flushes::default());
    start_replay(&mut bench, &starts, trace, &flushes);
    bench.run(begins + TIME_MAX)?;
    if !bench.is_finished() {
        return Err(FigureError::setup(NAME, &"not all was replayed in the time for it"));
    }
    let (ends, after) = (bench.now(), bench.passed());
    let from_due = flushes.from_due.borrow().summary(ends);
    let from_begun = flushes.from_begun.borrow().summary(ends);
    let (journal, files) = (after[0].since(before[0]), after[1].since(before[1]));
    Ok(Outcome {
        flushes: from_due.requests,
        flush_ms: from_due.latency.mean_ms,
        flush_ms_p99: from_due.latency.p99_ms,
        call_ms: from_begun.latency.mean_ms,
        seconds: ends.since(begins).as_secs_f64(),
        journal_mb: journal.write_bytes as f64 / 1e6,
        files_mb: files.write_bytes as f64 / 1e6,
        files_read_mb: files.read_bytes as f64 / 1e6,
    })
}

fn cases(counts: &[u32]) -> Vec<Case> {
    let mut cases = Vec::new();
    for instances in counts {
        for flushing in Flushing::ALL {
            cases.push(Case { instances: *instances, flushing, is_there: true });
        }
        let flushing = Flushing::CommitDisk;
        cases.push(Case { instances: *instances, flushing, is_there: false });
    }
    cases
}

type Outcomes = BTreeMap<(Case, usize), Outcome>;

/// The figure.
pub(crate) fn okeanos5b(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let counts: &[u32] = lab.effort.pick(&[16, 64, 128], &[16, 64], &[8]);
    let length = Nanos::from_secs(lab.effort.pick(120, 60, 10));
    let traces: BTreeMap<Flushing, LogTrace> =
        Flushing::ALL.map(|flushing| (flushing, innodb_log::trace(flushing, length, SEED))).into();
    let mut steps = Vec::new();
    for case in cases(counts) {
        let each = COMPARED.iter().enumerate();
        steps.extend(each.map(|(at, mode)| (format!("{mode}, {}", case.name()), (case, at))));
    }
    let done = lab.each(NAME, steps, |_, (case, at)| {
        Ok(((case, at), outcome(COMPARED[at], case, &traces[&case.flushing])?))
    })?;
    let outcomes: Outcomes = done.into_iter().collect();
    report(length, &traces[&Flushing::CommitDisk], &outcomes)
}

fn report(length: Nanos, trace: &LogTrace, outcomes: &Outcomes) -> Result<Report, FigureError> {
    let length_s = length.as_secs_f64();
    let flushes = trace.iter().filter(|(_, call)| *call == LogCall::Sync).count();
    let bytes: u64 = trace
        .iter()
        .map(
            |(_, call)| if let LogCall::Write { bytes, .. } = call { u64::from(*bytes) } else { 0 },
        )
        .sum();
    let data = data(outcomes);
    Ok(Report {
        name: NAME,
        title: "logs of databases under TPC-C, replayed, the real file system".to_owned(),
        ran: format!(
            "Programs that each replay the same trace of a database's log on a file of their own, started within a second: {length_s} s of 200 terminals, {:.1} commits a \
             second of {:.1} KB each in blocks of 512 bytes; flushed at each commit (Cmt/Disk), written and flushed each second (Prd/Disk), written at each commit and \
             flushed each second (Cmt/Cache). The log is a ring of 10 MiB that is there before, or a new file. A flush takes from when the trace has it until its fsync is answered, so one \
             that is late waits for those before it. A volume of the preset trail: logs on one {CHEETAH}, data on another, write caches off. 'baseline' is ordered journaling, \
             'ours' each mode.",
            flushes as f64 / length_s,
            bytes as f64 / 1e3 / flushes.max(1) as f64,
        ),
        differs: vec![
            format!(
                "The paper's disks are Cheetah 15K SAS of 300 GB; here stand two {CHEETAH}, of the same family. Where the tracks of the log's disk are is known."
            ),
            "The paper's trace of MySQL is not public. This one has TPC-C's mix and pauses for the paper's 20 warehouses with 10 terminals each, and of each transaction the log \
             bytes that the figures of Trail use, which are those of Berkeley DB's records; InnoDB's are other, and its checkpoints are left out."
                .to_owned(),
            "The paper replays 500 s; what is late grows with the time where a disk cannot keep up, so its numbers would be larger here too.".to_owned(),
            "The paper gives orders of size in words, and no numbers. It does not say whether a replayed file was there before, nor whether its times count what a replay is late by."
                .to_owned(),
        ],
        findings: findings(outcomes),
        rows: rows(outcomes),
        drawings: drawings(&data)?,
        data: vec![data],
    })
}

fn rows(outcomes: &Outcomes) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((at_case, at), done) in outcomes {
        let (mode, ordered) = (COMPARED[*at], &outcomes[&(*at_case, 0)]);
        let case = |what: &str| format!("{what}, {mode}, {}", at_case.name());
        let row = |what: &str, unit, of: &dyn Fn(&Outcome) -> f64| {
            Row::new(case(what), unit).baseline(of(ordered)).ours(of(done))
        };
        rows.extend([
            row("a flush", "ms", &|done| done.flush_ms),
            row("flushes", "1/s", &|done| done.flushes as f64 / done.seconds),
            row("written to the journal", "MB", &|done| done.journal_mb),
            row("written to the file-system device", "MB", &|done| done.files_mb),
        ]);
        if mode == "wasteless" {
            let is_told = at_case.instances >= TOLD_INSTANCES;
            let paper = if is_told { Value::Words(TOLD.to_owned()) } else { Value::Nothing };
            rows.push(
                Row::new(case("a flush with ordered journaling over one"), "x")
                    .paper(paper)
                    .ours(ordered.flush_ms / done.flush_ms),
            );
        }
    }
    rows
}

/// Wasteless beside ordered at the highest load.
fn headline(case: Case, outcomes: &Outcomes) -> String {
    let flush_s = |name: &str| {
        let at = COMPARED.iter().position(|mode| *mode == name).unwrap_or(0);
        outcomes[&(case, at)].flush_ms / 1e3
    };
    format!(
        "{}: a flush takes {:.3} s with wasteless, {:.3} s with data and {:.3} s with ordered; paper: tens of seconds with wasteless and hundreds with ordered at 64 instances \
         and more.",
        case.name(),
        flush_s("wasteless"),
        flush_s("data"),
        flush_s("ordered")
    )
}

/// What each mode comes to in each case, behind what the paper says of the most.
fn findings(outcomes: &Outcomes) -> Vec<String> {
    let mut cases: Vec<Case> = outcomes.keys().map(|(case, _)| *case).collect();
    cases.dedup();
    let told = |case: Case| {
        let each = COMPARED.iter().enumerate().map(|(at, mode)| {
            let done = &outcomes[&(case, at)];
            format!(
                "{mode} {:.2} ms (99 of 100 within {:.1} ms, {:.0} flushes a second, {:.0} MB to the journal, {:.0} to the file system's device and {:.0} from it)",
                done.flush_ms,
                done.flush_ms_p99,
                done.flushes as f64 / done.seconds,
                done.journal_mb,
                done.files_mb,
                done.files_read_mb
            )
        });
        let each: Vec<String> = each.collect();
        format!("{}, a flush: {}.", case.name(), each.join("; "))
    };
    let most = cases.iter().map(|case| case.instances).max();
    let at_most = cases.iter().filter(|case| Some(case.instances) == most);
    let headlines: Vec<String> = at_most.map(|case| headline(*case, outcomes)).collect();
    headlines.into_iter().chain(cases.iter().copied().map(told)).collect()
}

/// How long a flush takes by how many databases there are, for each way to flush.
fn drawings(data: &Data) -> Result<Vec<Drawing>, FigureError> {
    let of = |name: &str, flushing: Flushing, is_there: bool| {
        let what = if is_there { "" } else { ", new files" };
        Charted {
            name,
            title: &format!("Mean of a flush, {}{what}", flushing.name()),
            series: "mode",
            over: ("instances", "databases"),
            value: ("flush_ms_mean", "ms"),
            only: &[
                ("flushing", flushing.name()),
                ("file_is_there", if is_there { "true" } else { "false" }),
            ],
        }
        .lines(data)
    };
    Ok(vec![
        of("cmt-disk", Flushing::CommitDisk, true)?,
        of("cmt-disk-new", Flushing::CommitDisk, false)?,
        of("prd-disk", Flushing::PeriodDisk, true)?,
        of("cmt-cache", Flushing::CommitCache, true)?,
    ])
}

fn data(outcomes: &Outcomes) -> Data {
    let columns = [
        "mode",
        "flushing",
        "instances",
        "file_is_there",
        "flushes",
        "flush_ms_mean",
        "flush_ms_p99",
        "call_ms_mean",
        "seconds",
        "journal_mb",
        "files_mb",
        "files_read_mb",
    ];
    let mut data = Data::new("flushes", &columns);
    for ((case, at), done) in outcomes {
        data.push([
            COMPARED[*at].to_owned(),
            case.flushing.name().to_owned(),
            case.instances.to_string(),
            case.is_there.to_string(),
            done.flushes.to_string(),
            format!("{:.3}", done.flush_ms),
            format!("{:.3}", done.flush_ms_p99),
            format!("{:.3}", done.call_ms),
            format!("{:.3}", done.seconds),
            format!("{:.3}", done.journal_mb),
            format!("{:.3}", done.files_mb),
            format!("{:.3}", done.files_read_mb),
        ]);
    }
    data
}
