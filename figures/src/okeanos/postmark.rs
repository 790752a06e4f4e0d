//! Okeanos' figure 5a over the real file system: transactions a second of Postmark's load, by the size of its requests.

use super::{COMPARED, bench, method, method_without_tracks, mode_of};
use crate::charted::Charted;
use crate::error::FigureError;
use crate::files::{Bench, Postmark, PostmarkOptions};
use crate::lab::Lab;
use crate::metered::Passed;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::CHEETAH;
use nearhead_disk::Nanos;
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "okeanos5a";
const WASTELESS: &str = "wasteless";
const OURS: &str = "nearhead";
const SEED: u64 = 5;
const TIME_MAX: Nanos = Nanos::from_secs(100_000);

/// What is run of it.
#[derive(Clone, Copy, Debug)]
struct Size {
    files: u64,
    threads: u32,
    transactions: u64,
}

/// What is not as it is otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Variant {
    Plain,
    /// Where the tracks of the log's disk are is not known.
    TracksUnknown,
    /// Reads are answered by a cache in front of the file system, as the kernel's would.
    ReadsInMemory,
}

impl Variant {
    const ALL: [Self; 3] = [Self::Plain, Self::TracksUnknown, Self::ReadsInMemory];

    /// As it is called in tables.
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::TracksUnknown => "tracks unknown",
            Self::ReadsInMemory => "reads in memory",
        }
    }
}

/// What a mode made of the transactions, the pool not counted.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    transactions: u64,
    seconds: f64,
    writes: u64,
    write_ms: f64,
    /// Of the volume: one for each commit that brings anything, and those in which it says what is at home.
    records: u64,
    journal: Passed,
    files: Passed,
    /// Until all that was logged is at home, from the first transaction on.
    home_seconds: f64,
}

impl Outcome {
    fn per_second(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    fn mb_per_second(&self, passed: Passed) -> f64 {
        passed.write_bytes as f64 / 1e6 / self.seconds
    }

    fn busy_pct(&self, passed: Passed) -> f64 {
        100.0 * (passed.reading + passed.writing).as_secs_f64() / self.seconds
    }
}

fn run_to_its_end(bench: &mut Bench) -> Result<(), FigureError> {
    bench.run(bench.now() + TIME_MAX)?;
    if bench.is_finished() {
        return Ok(());
    }
    Err(FigureError::setup(NAME, &"its transactions were not all done in the time for them"))
}

fn outcome(
    mode: &str,
    variant: Variant,
    size: Size,
    request_bytes: u32,
) -> Result<Outcome, FigureError> {
    let mode = mode_of(mode)?;
    let known = variant != Variant::TracksUnknown;
    let method = if known { method(mode)? } else { method_without_tracks(mode)? };
    let (mut bench, folder) = bench(&method, |image| image.folder("mail"))?;
    let postmark = Postmark::new(PostmarkOptions {
        folder,
        files: size.files,
        threads: size.threads,
        transactions: size.transactions,
        request_bytes,
        reads: variant != Variant::ReadsInMemory,
        seed: SEED,
    });
    postmark.start_creating(&mut bench);
    run_to_its_end(&mut bench)?;
    let (begins, before) = (bench.now(), bench.passed());
    let records_before = bench.ground().status().stats.records;
    postmark.start_transactions(&mut bench);
    run_to_its_end(&mut bench)?;
    let ((transactions, ends), after) = (postmark.done(), bench.passed());
    let (writes, write_ms) = postmark.writes(ends);
    let records = bench.ground().status().stats.records - records_before;
    let home = bench.bring_home()?;
    Ok(Outcome {
        transactions,
        seconds: ends.since(begins).as_secs_f64(),
        writes,
        write_ms,
        records,
        journal: after[0].since(before[0]),
        files: after[1].since(before[1]),
        home_seconds: home.since(begins).as_secs_f64(),
    })
}

type Outcomes = BTreeMap<(u32, Variant, usize), Outcome>;

/// The figure.
pub(crate) fn okeanos5a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let full: &[u32] = &[128, 512, 2048, 8192, 128 << 10];
    let sizes = lab.effort.pick(full, &[512, 128 << 10], &[512, 128 << 10]);
    let size = Size {
        files: lab.effort.pick(500, 500, 100),
        threads: lab.effort.pick(100, 100, 20),
        transactions: lab.effort.pick(10_000, 4_000, 300),
    };
    let mut steps = Vec::new();
    for bytes in sizes {
        for variant in Variant::ALL {
            let each = COMPARED.iter().enumerate();
            let what = |mode| format!("{mode}, {bytes} bytes, {}", variant.name());
            steps.extend(each.map(|(at, mode)| (what(mode), (*bytes, variant, at))));
        }
    }
    let done = lab.each(NAME, steps, |_, (bytes, variant, at)| {
        Ok(((bytes, variant, at), outcome(COMPARED[at], variant, size, bytes)?))
    })?;
    let outcomes: Outcomes = done.into_iter().collect();
    report(size, &outcomes)
}

fn report(size: Size, outcomes: &Outcomes) -> Result<Report, FigureError> {
    let Size { files, threads, transactions } = size;
    let data = data(outcomes);
    Ok(Report {
        name: NAME,
        title: "Postmark with synchronous writes, the real file system".to_owned(),
        ran: format!(
            "{threads} threads run {transactions} transactions on a pool of {files} files in one folder, made before: read or append, then create or delete. Files of 500 to \
             10,000 bytes, each write durable before the next. A volume of the preset trail: logs on one {CHEETAH}, data on another, write caches off. 'baseline' is ordered \
             journaling, 'ours' each mode. Also with the tracks of the log's disk unknown, so that a record begins where the last one ended; and with reads answered by a \
             cache in front of the file system, as a kernel with 3 GB of memory would."
        ),
        differs: vec![
            format!(
                "The paper's disks are Cheetah 15K SAS of 300 GB; here stand two {CHEETAH}, of the same family. Where the tracks of the log's disk are is known, but where said otherwise."
            ),
            "The load is a generator written from what Postmark says of itself. Nothing is computed: processor, system calls and locks take no time, which the paper's 738 have in them."
                .to_owned(),
            "The paper says one number, the most; its figure's other values are not in the text.".to_owned(),
            "All that is logged fits the memory of what is written behind (128 MiB), so most of it goes home after the last transaction; 'until all is at home' counts that time too."
                .to_owned(),
        ],
        findings: findings(outcomes),
        rows: rows(outcomes),
        drawings: drawings(&data)?,
        data: vec![data],
    })
}

fn rows(outcomes: &Outcomes) -> Vec<Row> {
    let largest = outcomes.keys().map(|(bytes, ..)| *bytes).max();
    let mut rows = Vec::new();
    for ((bytes, variant, at), done) in outcomes {
        let mode = COMPARED[*at];
        let ordered = &outcomes[&(*bytes, *variant, 0)];
        let plain = *variant == Variant::Plain;
        let suffix = if plain { String::new() } else { format!(", {}", variant.name()) };
        let case = |what: &str| format!("{what}, {mode}, requests of {bytes} bytes{suffix}");
        let paper = PAPERS.okeanos.postmark_tps.get(mode).copied();
        let paper = paper.filter(|_| plain && Some(*bytes) == largest);
        let row = |what: &str, unit, of: &dyn Fn(&Outcome) -> f64| {
            Row::new(case(what), unit).baseline(of(ordered)).ours(of(done))
        };
        rows.push(row("transactions", "1/s", &Outcome::per_second).paper(paper));
        if !plain {
            continue;
        }
        let until_home = |done: &Outcome| done.transactions as f64 / done.home_seconds;
        let journal = |done: &Outcome| done.mb_per_second(done.journal);
        let files = |done: &Outcome| done.mb_per_second(done.files);
        let written = |done: &Outcome| done.journal.write_bytes as f64 / 1e6;
        rows.extend([
            row("transactions until all is at home", "1/s", &until_home),
            row("journal device", "MB/s", &journal),
            row("written to the journal", "MB", &written),
            row("file-system device", "MB/s", &files),
            row("latency of a write", "ms", &|done| done.write_ms),
        ]);
        if mode == WASTELESS {
            let others = published().filter(|other| other != at);
            let others = others.map(|other| outcomes[&(*bytes, *variant, other)].per_second());
            let most = others.fold(0.0, f64::max);
            let what = format!(
                "wasteless over the fastest other mode of the paper, requests of {bytes} bytes"
            );
            rows.push(Row::new(what, "x").goal(Some(1.0)).ours(done.per_second() / most));
        }
    }
    rows
}

/// The modes of the paper.
fn published() -> impl Iterator<Item = usize> {
    (0..COMPARED.len()).filter(|at| COMPARED[*at] != OURS)
}

/// The fastest of the paper's modes at each size, and where the time of each goes.
fn findings(outcomes: &Outcomes) -> Vec<String> {
    let points: BTreeSet<_> =
        outcomes.keys().map(|(bytes, variant, _)| (*bytes, *variant)).collect();
    points.into_iter().map(|point| finding(point, outcomes)).collect()
}

fn finding((bytes, variant): (u32, Variant), outcomes: &Outcomes) -> String {
    let of = |at: usize| &outcomes[&(bytes, variant, at)];
    let per_second = |at: usize| of(at).per_second();
    let most = published().map(per_second).fold(0.0, f64::max);
    let fastest = published().filter(|at| per_second(*at) >= most).map(|at| COMPARED[at]);
    let fastest: Vec<&str> = fastest.collect();
    let each = COMPARED.iter().enumerate().map(|(at, mode)| {
        let done = of(at);
        format!(
            "{mode} {:.0} ({:.1} and {:.1} MB, busy {:.0} and {:.0} %, {} records, {:.2} ms)",
            done.per_second(),
            done.journal.write_bytes as f64 / 1e6,
            done.files.write_bytes as f64 / 1e6,
            done.busy_pct(done.journal),
            done.busy_pct(done.files),
            done.records,
            done.write_ms
        )
    });
    let each: Vec<String> = each.collect();
    format!(
        "Requests of {bytes} bytes, {}: of the paper's modes the fastest is {}. Transactions a second (written to journal and file-system device, busy, records, a write): {}.",
        variant.name(),
        fastest.join(" and "),
        each.join("; ")
    )
}

/// Transactions a second by the size of a request, one chart for each variant.
fn drawings(data: &Data) -> Result<Vec<Drawing>, FigureError> {
    let one = |variant: Variant| {
        Charted {
            name: &variant.name().replace(' ', "-"),
            title: &format!("Transactions, {}", variant.name()),
            series: "mode",
            over: ("request_bytes", "bytes of a request"),
            value: ("per_second", "transactions a second"),
            only: &[("variant", variant.name())],
        }
        .lines(data)
    };
    Variant::ALL.into_iter().map(one).collect()
}

fn data(outcomes: &Outcomes) -> Data {
    let columns = [
        "mode",
        "request_bytes",
        "variant",
        "transactions",
        "seconds",
        "per_second",
        "home_seconds",
        "writes",
        "write_ms_mean",
        "records",
        "journal_bytes",
        "files_bytes",
        "files_read_bytes",
        "journal_busy_pct",
        "files_busy_pct",
    ];
    let mut data = Data::new("transactions", &columns);
    for ((bytes, variant, at), done) in outcomes {
        data.push([
            COMPARED[*at].to_owned(),
            bytes.to_string(),
            variant.name().to_owned(),
            done.transactions.to_string(),
            format!("{:.3}", done.seconds),
            format!("{:.1}", done.per_second()),
            format!("{:.3}", done.home_seconds),
            done.writes.to_string(),
            format!("{:.3}", done.write_ms),
            done.records.to_string(),
            done.journal.write_bytes.to_string(),
            done.files.write_bytes.to_string(),
            done.files.read_bytes.to_string(),
            format!("{:.1}", done.busy_pct(done.journal)),
            format!("{:.1}", done.busy_pct(done.files)),
        ]);
    }
    data
}
