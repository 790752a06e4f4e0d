//! Manylogs' figures 4 and 5 over the real file system: a sequential reader beside Filebench's mixes, and beside the commit logs of
//! key-value stores.

use crate::charted::Charted;
use crate::contention::{Point, Span};
use crate::error::FigureError;
use crate::fig2::{ContentionRuns, NEARHEAD, OURS, PUBLISHED};
use crate::files::{
    Bench, BulkFile, BulkFileOptions, Counted, FileMethod, FileSet, Personality, StoreOptions,
    prepare_log, start_store,
};
use crate::lab::Lab;
use crate::mlfs;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CHEETAH, System};
use nearhead_disk::Nanos;
use nearhead_engine::Config;
use nearhead_engine::admission::WithShare;
use nearhead_ext4::{Ino, ROOT};
use nearhead_format::AckMode;
use std::rc::Rc;

/// Calls a second of an instance (Manylogs V-A.3: "rate limited to 20 OPS").
const CALLS_PER_S: f64 = 20.0;
/// Updates a second of a store (V-A.4: 4,000 from four).
const UPDATES_PER_S: f64 = 1000.0;
/// What HDFS reads (V-A.4: a file of 3 GB, 1 MB a call).
const HDFS_FILE_BYTES: u64 = 3_000 << 20;

/// `nearhead` with `--bulk-share`.
const SHARES: [Share; 2] = [
    Share { name: "nearhead, share 90", configure: with_share::<90> },
    Share { name: "nearhead, share 95", configure: with_share::<95> },
];

struct Share {
    name: &'static str,
    configure: fn(&mut Config),
}

/// What runs beside the reader.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    Mix(Personality, u32),
    Stores { count: u32, flush_every: Nanos },
}

impl Beside {
    fn name(self) -> String {
        match self {
            Self::Nothing => "the disk alone".to_owned(),
            Self::Mix(_, count) => format!("{count} instances"),
            Self::Stores { count, flush_every } => {
                let ms = flush_every.as_secs_f64() * 1e3;
                format!("{count} stores, flush every {ms:.0} ms")
            }
        }
    }

    /// How many there are, and how often a store flushes.
    fn numbers(self) -> [String; 2] {
        match self {
            Self::Nothing => ["0", ""].map(str::to_owned),
            Self::Mix(_, count) => [count.to_string(), String::new()],
            Self::Stores { count, flush_every } => {
                [count.to_string(), (flush_every.0 / 1_000_000).to_string()]
            }
        }
    }
}

/// What is on the file system for whoever runs beside the reader.
enum Prepared {
    Nothing,
    Sets(Vec<FileSet>),
    Logs(Vec<Ino>),
}

fn point(
    lab: &Lab<'_>,
    method: &FileMethod,
    beside: Beside,
    reader: (u64, u32),
) -> Result<Point, FigureError> {
    let (file_bytes, call_bytes) = reader;
    let one_in = lab.effort.pick(1, 4, 20);
    let (mut bench, (bulk, prepared)) = mlfs::bench(method, 1, |image| {
        let bulk = image.file(ROOT, "bulk", file_bytes)?;
        let prepared = match beside {
            Beside::Nothing => Prepared::Nothing,
            Beside::Mix(what, count) => Prepared::Sets(
                (0..count)
                    .map(|number| FileSet::prepare(image, what, number, one_in, CALLS_PER_S))
                    .collect::<Result<_, _>>()?,
            ),
            Beside::Stores { count, .. } => Prepared::Logs(
                // Only Manylogs has files for durability alone.
                (0..count)
                    .map(|number| prepare_log(image, number, method.mode.is_near_head()))
                    .collect::<Result<_, _>>()?,
            ),
        };
        Ok((bulk, prepared))
    })?;
    let options = BulkFileOptions { ino: bulk, file_bytes, call_bytes, threads: 2, writes: false };
    let bulk = BulkFile::start(&mut bench, options);
    let counted = Counted::default();
    start(&mut bench, prepared, beside, &counted);
    bench.restart_when_measuring(&counted);
    let spent = mlfs::measured(&mut bench, span(lab))?;
    let calls = counted.borrow().summary(bench.now());
    Ok(Point {
        bytes_per_s: bulk.bytes_per_s(bench.now()),
        sync_ms_mean: calls.latency.mean_ms,
        sync_ms_p99: calls.latency.p99_ms,
        syncs_per_s: calls.requests_per_s,
        late: 0,
        spent,
    })
}

fn start(bench: &mut Bench, prepared: Prepared, beside: Beside, counted: &Counted) {
    match (prepared, beside) {
        (Prepared::Sets(sets), _) => {
            for set in sets {
                set.start(bench, counted);
            }
        }
        (Prepared::Logs(logs), Beside::Stores { flush_every, .. }) => {
            for (nth, log) in (0..).zip(logs) {
                let first_after = Nanos(flush_every.0 * nth / 4);
                let updates_per_s = UPDATES_PER_S;
                let options = StoreOptions { log, flush_every, updates_per_s, first_after };
                start_store(bench, options, counted);
            }
        }
        _ => {}
    }
}

/// Long enough for commits that come every five seconds.
fn span(lab: &Lab<'_>) -> Span {
    let measured = lab.effort.pick(60, 20, 6);
    Span { warm_up: Nanos::from_secs(6), measured: Nanos::from_secs(measured) }
}

/// One of the figures.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    title: &'static str,
    latency_of: &'static str,
    /// Length of the reader's file, and of a call.
    reader: (u64, u32),
    beside: fn(&Lab<'_>) -> Vec<Beside>,
}

const FIG4A: Setting = Setting {
    name: "fig4a",
    title: "a sequential reader beside Filebench's fileserver, the real file system",
    latency_of: "writes and appends",
    reader: (mlfs::BULK_FILE_BYTES, 128 << 10),
    beside: |lab| mixes(lab, Personality::Fileserver),
};
const FIG4B: Setting = Setting {
    name: "fig4b",
    title: "a sequential reader beside Filebench's varmail, the real file system",
    latency_of: "fsyncs",
    beside: |lab| mixes(lab, Personality::Varmail),
    ..FIG4A
};
const FIG5: Setting = Setting {
    name: "fig5",
    title: "a sequential reader beside commit logs of key-value stores, the real file system",
    latency_of: "updates until durable",
    reader: (HDFS_FILE_BYTES, 1 << 20),
    beside: stores,
};

fn mixes(lab: &Lab<'_>, what: Personality) -> Vec<Beside> {
    let counts: &[u32] = lab.effort.pick(&[2, 4, 8], &[2, 8], &[2]);
    counts.iter().map(|count| Beside::Mix(what, *count)).collect()
}

fn stores(lab: &Lab<'_>) -> Vec<Beside> {
    let counts: &[u32] = lab.effort.pick(&[1, 2, 4], &[1, 4], &[1]);
    let every = [33, 1].map(Nanos::from_millis);
    let of = |count: &u32| every.map(|flush_every| Beside::Stores { count: *count, flush_every });
    counts.iter().flat_map(of).collect()
}

/// Beside key-value stores also with a share of the disk for bulk.
fn methods(setting: Setting) -> Result<Vec<FileMethod>, FigureError> {
    let mut methods = mlfs::methods()?;
    if setting.name == FIG5.name {
        for Share { name, configure } in SHARES {
            let system = System { ack: AckMode::Flush, ..System::of_preset(NEARHEAD)? };
            methods.push(mlfs::of_mode(name, "manylogs", System { configure, ..system })?);
        }
    }
    Ok(methods)
}

fn with_share<const PCT: u8>(config: &mut Config) {
    rig::off_hours(config);
    config.admission = Box::new(WithShare::new(config.admission.boxed(), PCT));
}

/// What each method came to beside each load, in the order of the setting's loads.
fn runs(lab: &mut Lab<'_>, setting: Setting) -> Result<Rc<ContentionRuns>, FigureError> {
    if let Some(done) = lab.files.get(setting.name) {
        return Ok(Rc::clone(done));
    }
    let (methods, loads) = (methods(setting)?, (setting.beside)(lab));
    let alone = methods[0].clone();
    let mut steps = vec![(Beside::Nothing.name(), (alone, Beside::Nothing))];
    for method in &methods {
        for beside in &loads {
            let what = format!("{} beside {}", method.name, beside.name());
            steps.push((what, (method.clone(), *beside)));
        }
    }
    let points = lab.each(setting.name, steps, |lab, (method, beside)| {
        point(lab, &method, beside, setting.reader)
    })?;
    let mut by_method = points[1..].chunks(loads.len()).map(<[Point]>::to_vec);
    let named = methods.iter().map(|method| method.name);
    let methods = named.map(|name| (name, by_method.next().unwrap_or_default())).collect();
    let rates = (0..loads.len() as u32).collect();
    let done = Rc::new(ContentionRuns { alone: points[0], rates, methods });
    lab.files.insert(setting.name, Rc::clone(&done));
    Ok(done)
}

/// Everything that table II takes of these figures.
pub(crate) fn all_runs(lab: &mut Lab<'_>) -> Result<Vec<Rc<ContentionRuns>>, FigureError> {
    [FIG4A, FIG4B, FIG5].into_iter().map(|setting| runs(lab, setting)).collect()
}

/// Figure 4a.
pub(crate) fn fig4a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG4A)
}

/// Figure 4b.
pub(crate) fn fig4b(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG4B)
}

/// Figure 5.
pub(crate) fn fig5(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG5)
}

fn report(lab: &mut Lab<'_>, setting: Setting) -> Result<Report, FigureError> {
    let (runs, loads) = (runs(lab, setting)?, (setting.beside)(lab));
    let what = if setting.name == FIG5.name {
        "Stores of which only the commit log writes: 1,000 updates of 1 KiB a second each, sections of 8 KiB, fdatasync"
    } else {
        "Generators with the numbers of the personalities: files, mean sizes, appends, threads (figures/src/files/filebench.rs)"
    };
    let data = data(&runs, &loads);
    Ok(Report {
        name: setting.name,
        title: setting.title.to_owned(),
        ran: format!(
            "A program reads a file of {} MiB over and over in calls of {} KiB, two under way, on one {CHEETAH}, write cache off, queue in order; alone it \
             gets {:.1} MB/s. {what}. {} s measured after {} s. 'baseline' is ordered journaling, 'ours' each mode.",
            setting.reader.0 >> 20,
            setting.reader.1 >> 10,
            runs.alone.bytes_per_s / 1e6,
            span(lab).measured.as_secs_f64(),
            span(lab).warm_up.as_secs_f64(),
        ),
        differs: differs(setting),
        findings: findings(&runs, &loads, setting),
        rows: rows(&runs, &loads, setting),
        drawings: drawings(&data, setting)?,
        data: vec![data],
    })
}

fn rows(runs: &ContentionRuns, loads: &[Beside], setting: Setting) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, beside) in loads.iter().enumerate() {
        let ordered = &runs.of("ordered")[index];
        for (name, points) in runs.methods.iter().filter(|(name, _)| *name != "ordered") {
            let (point, case) = (&points[index], format!("{name}, {}", beside.name()));
            let (paper, goal) = of_paper(setting, name, *beside);
            rows.push(
                Row::new(format!("bandwidth, {case}"), "% of alone")
                    .paper(paper)
                    .goal(goal)
                    .baseline(runs.bandwidth_pct(ordered))
                    .ours(runs.bandwidth_pct(point)),
            );
            rows.push(
                Row::new(format!("latency of {}, {case}", setting.latency_of), "ms")
                    .baseline(ordered.sync_ms_mean)
                    .ours(point.sync_ms_mean),
            );
        }
    }
    rows
}

/// The paper's bandwidth and the goal, where the text tells them.
fn of_paper(setting: Setting, name: &str, beside: Beside) -> (Option<f64>, Option<f64>) {
    let Beside::Stores { count, flush_every } = beside else { return (None, None) };
    let shares = SHARES.iter().map(|share| share.name);
    if setting.name != FIG5.name
        || ![PUBLISHED, OURS, NEARHEAD].into_iter().chain(shares).any(|ours| ours == name)
    {
        return (None, None);
    }
    let paper = &PAPERS.stores;
    match (count, flush_every.0 / 1_000_000) {
        (1, 33) => (Some(paper.one_33ms_pct), None),
        (1, 1) => (Some(paper.one_1ms_pct), None),
        (4, 1) => (None, Some(paper.goal_four_1ms_pct)),
        _ => (None, None),
    }
}

fn findings(runs: &ContentionRuns, loads: &[Beside], setting: Setting) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, beside) in loads.iter().enumerate() {
        let told = |name: &str| {
            let point = &runs.of(name)[index];
            format!("{:.1} % and {:.2} ms", runs.bandwidth_pct(point), point.sync_ms_mean)
        };
        findings.push(format!(
            "Beside {}: ordered keeps {} ({}), adaptive {}, manylogs {}, {NEARHEAD} {}.",
            beside.name(),
            told("ordered"),
            setting.latency_of,
            told("adaptive"),
            told(PUBLISHED),
            told(NEARHEAD),
        ));
        if setting.name == FIG5.name {
            let shares: Vec<String> = SHARES.iter().map(|share| told(share.name)).collect();
            findings.push(format!(
                "With `--bulk-share` 90 and 95, {}: {NEARHEAD} {}.",
                beside.name(),
                shares.join(" and ")
            ));
        }
    }
    findings
}

fn differs(setting: Setting) -> Vec<String> {
    let words: &[&str] = if setting.name == FIG5.name {
        &[
            "The paper ran HDFS and MongoDB under YCSB. Here a store is its commit log alone: memory-mapped data files, which MongoDB \
             writes every 60 s, and the servers themselves are left out. The paper's 16 threads of 1,000 requests a second each are taken \
             for 1,000 a second of each store, as its \"4000 requests/second from the 4 instances\" says.",
            "Only Manylogs has durability-only files; with the other modes the log is a file like any other whose blocks are there.",
        ]
    } else {
        &[
            "The mixes are generators and not Filebench. An instance makes 20 calls a second in all, each call but open and close being \
             one. Writes of the fileserver go to memory, so their latency is that of reading the page that an append changes in part.",
        ]
    };
    words.iter().map(|text| (*text).to_owned()).collect()
}

/// Bandwidth and latency of each method; of the stores for each time between flushes.
fn drawings(data: &Data, setting: Setting) -> Result<Vec<Drawing>, FigureError> {
    let is_stores = setting.name == FIG5.name;
    let (what, flushes): (_, &[&str]) =
        if is_stores { ("stores", &["33", "1"]) } else { ("instances", &[""]) };
    let mut drawings = Vec::new();
    for ms in flushes {
        let (name, title) = match *ms {
            "" => (String::new(), String::new()),
            _ => (format!("-{ms}ms"), format!(", flushed every {ms} ms")),
        };
        let bandwidth = Charted {
            name: &format!("bandwidth{name}"),
            title: &format!("Bandwidth of the reader{title}"),
            series: "method",
            over: ("count", what),
            value: ("bandwidth_pct", "% of alone"),
            only: &[("flush_every_ms", ms)],
        };
        let latency = Charted {
            name: &format!("latency{name}"),
            title: &format!("Mean latency of {}{title}", setting.latency_of),
            value: ("latency_ms_mean", "ms"),
            ..bandwidth
        };
        drawings.extend([bandwidth.bars(data)?, latency.bars(data)?]);
    }
    Ok(drawings)
}

fn data(runs: &ContentionRuns, loads: &[Beside]) -> Data {
    let columns = [
        "method",
        "beside",
        "count",
        "flush_every_ms",
        "bandwidth_mb_per_s",
        "bandwidth_pct",
        "latency_ms_mean",
        "latency_ms_p99",
        "calls_per_s",
    ];
    let mut data = Data::new("points", &columns);
    for (name, points) in &runs.methods {
        for (beside, point) in loads.iter().zip(points) {
            let [count, flush_every_ms] = beside.numbers();
            data.push([
                (*name).to_owned(),
                beside.name(),
                count,
                flush_every_ms,
                format!("{:.3}", point.bytes_per_s / 1e6),
                format!("{:.2}", runs.bandwidth_pct(point)),
                format!("{:.3}", point.sync_ms_mean),
                format!("{:.3}", point.sync_ms_p99),
                format!("{:.3}", point.syncs_per_s),
            ]);
        }
    }
    data
}
