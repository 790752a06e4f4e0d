//! Manylogs' figures 2a and 2b: a sequential reader or writer beside a file system's syncs.
//!
//! Five ways to make the same 20 scattered changes durable share one 15,000-rpm disk with a client
//! that reads or writes 2 GB over and over. Three are journaling modes on the bare disk, one is
//! Manylogs as published (near-head logs, first come first served), one is this project's (the
//! same logs, durable writes first, bulk transfers cut into pieces).
//!
//! The paper ran a file system on a machine with 8 GB of memory; here the file system is the
//! pattern of writes of its journaling mode (`journal.rs`). What that leaves out is said with the
//! figure.

use crate::chart::BarChart;
use crate::contention::{self, BulkKind, Client, FILES, Method, Point};
use crate::error::FigureError;
use crate::journal::{BLOCK_BYTES, Mode};
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CHEETAH, FigureDisk, Queue, System};
use nearhead_format::AckMode;
use std::rc::Rc;

/// Which of the four figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) kind: BulkKind,
    pub(crate) disks: u32,
}

impl Setting {
    pub(crate) fn client(self) -> Client {
        Client { kind: self.kind, disks: self.disks }
    }
}

pub(crate) const FIG2A: Setting = Setting { name: "fig2a", kind: BulkKind::Read, disks: 1 };
pub(crate) const FIG2B: Setting = Setting { name: "fig2b", kind: BulkKind::Write, disks: 1 };

/// Everything measured for one of the figures.
pub(crate) struct ContentionRuns {
    pub(crate) alone_bytes_per_s: f64,
    /// Writes a second for each disk.
    pub(crate) rates: Vec<u32>,
    /// By method, then by rate.
    pub(crate) methods: Vec<(&'static str, Vec<Point>)>,
}

impl ContentionRuns {
    /// The points of `method`.
    pub(crate) fn of(&self, method: &str) -> &[Point] {
        let found = self.methods.iter().find(|(name, _)| *name == method);
        found.map_or(&[], |(_, points)| points)
    }

    /// Bandwidth of a point, in % of the disk alone.
    pub(crate) fn bandwidth_pct(&self, point: &Point) -> f64 {
        100.0 * point.bytes_per_s / self.alone_bytes_per_s
    }
}

/// Manylogs, durable writes first.
pub(crate) const OURS: &str = "mlb";
/// The project's own way.
pub(crate) const NEARHEAD: &str = "nearhead";
/// Manylogs as published.
pub(crate) const PUBLISHED: &str = "manylogs";

pub(crate) fn methods() -> Result<Vec<Method>, FigureError> {
    let on_disk =
        |mode: Mode| Method { name: mode.name(), mode, system: System::bare(mode.name()) };
    let mlb = System { ack: AckMode::Flush, ..System::of_preset("mlb")? };
    let nearhead = System { ack: AckMode::Flush, ..System::of_preset(NEARHEAD)? };
    let published = System { configure: rig::off_hours_first_come, ..mlb.clone() };
    Ok(vec![
        on_disk(Mode::Ordered),
        on_disk(Mode::Data),
        on_disk(Mode::Adaptive),
        Method { name: PUBLISHED, mode: Mode::Manylogs, system: published },
        Method { name: OURS, mode: Mode::Manylogs, system: mlb },
        Method { name: NEARHEAD, mode: Mode::Manylogs, system: nearhead },
    ])
}

/// A fresh disk, or array, for `setting`.
pub(crate) fn disk(setting: Setting) -> Result<FigureDisk, FigureError> {
    if setting.disks == 1 {
        rig::hard_disk(CHEETAH, Queue::InOrder)
    } else {
        rig::striped(CHEETAH, setting.disks, Queue::InOrder, false)
    }
}

/// Runs the experiment, or returns what it came to earlier.
pub(crate) fn runs(lab: &mut Lab<'_>, setting: Setting) -> Result<Rc<ContentionRuns>, FigureError> {
    if let Some(done) = lab.contention.get(setting.name) {
        return Ok(Rc::clone(done));
    }
    let rates = lab.effort.pick(vec![40, 80, 160, 320], vec![40, 160, 320], vec![320]);
    let methods = methods()?;
    let mut steps = vec![("the disk alone".to_owned(), None)];
    for method in &methods {
        for rate in &rates {
            let what = format!("{} at {rate} writes/s", method.name);
            steps.push((what, Some((method.clone(), *rate))));
        }
    }
    let points = lab.each(setting.name, steps, |lab, step| {
        let span = lab.contention_span();
        let Some((method, rate)) = step else {
            let bytes_per_s = contention::alone(disk(setting)?, setting.client(), span)?;
            return Ok(Point { bytes_per_s, ..Point::default() });
        };
        let syncs_per_s = f64::from(rate * setting.disks) / f64::from(FILES);
        contention::point(disk(setting)?, &method, setting.client(), syncs_per_s, span)
    })?;
    let mut by_method = points[1..].chunks(rates.len()).map(<[Point]>::to_vec);
    let named = methods.iter().map(|method| method.name);
    let methods = named.map(|name| (name, by_method.next().unwrap_or_default())).collect();
    let done = Rc::new(ContentionRuns { alone_bytes_per_s: points[0].bytes_per_s, rates, methods });
    lab.contention.insert(setting.name, Rc::clone(&done));
    Ok(done)
}

/// Figure 2a.
pub(crate) fn fig2a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG2A, "a sequential reader beside a random writer's syncs, one disk")
}

/// Figure 2b.
pub(crate) fn fig2b(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG2B, "a sequential writer beside a random writer's syncs, one disk")
}

pub(crate) fn report(
    lab: &mut Lab<'_>,
    setting: Setting,
    title: &str,
) -> Result<Report, FigureError> {
    let runs = runs(lab, setting)?;
    let span = lab.contention_span();
    let (disks, bulk) = match (setting.disks, setting.kind) {
        (1, kind) => (format!("one {CHEETAH}"), kind),
        (disks, kind) => (format!("{disks} {CHEETAH} as RAID-0, 64 KiB chunks"), kind),
    };
    let bulk = if bulk == BulkKind::Read {
        format!("reads 2 GiB over and over in requests of {} KiB", 128 * setting.disks)
    } else {
        "writes 2 GiB over and over in requests of 1 MiB".to_owned()
    };
    let ran = format!(
        "A client {bulk}, two outstanding, beside a writer that changes a 4 KiB block in each of \
         {FILES} files spread over the disk and syncs, at a capped rate (writes/s are for each \
         disk). Model: {disks}, write cache off, queue served in order; alone it gives the client \
         {:.1} MB/s. {} s measured after {} s to warm up.",
        runs.alone_bytes_per_s / 1e6,
        span.measured.as_secs_f64(),
        span.warm_up.as_secs_f64(),
    );
    Ok(Report {
        name: setting.name,
        title: title.to_owned(),
        ran,
        differs: differs(setting),
        findings: findings(&runs),
        rows: rows(&runs, setting)?,
        data: vec![data(&runs)],
        drawings: drawings(&runs)?,
    })
}

fn rows(runs: &ContentionRuns, setting: Setting) -> Result<Vec<Row>, FigureError> {
    let mut rows = Vec::new();
    for (index, rate) in runs.rates.iter().enumerate() {
        let limit_pct = bandwidth_limit_pct(runs, *rate * setting.disks);
        let limit_ms = sync_limit_ms()?;
        let paper = |mode: &str| PAPERS.contention(setting.name, mode, *rate);
        for mode in [Mode::Ordered, Mode::Data, Mode::Adaptive] {
            let point = &runs.of(mode.name())[index];
            let (case, paper) = (format!("{}, {rate} writes/s", mode.name()), paper(mode.name()));
            rows.push(
                Row::new(format!("bandwidth, {case}"), "% of alone")
                    .paper(paper.bandwidth_pct)
                    .baseline(runs.bandwidth_pct(point))
                    .limit(limit_pct),
            );
            rows.push(
                Row::new(format!("sync, {case}"), "ms")
                    .paper(paper.sync_ms)
                    .baseline(point.sync_ms_mean)
                    .limit(limit_ms),
            );
        }
        let (published, paper) = (&runs.of(PUBLISHED)[index], paper(PUBLISHED));
        let ours = &runs.of(OURS)[index];
        let case = format!("manylogs, {rate} writes/s");
        rows.push(
            Row::new(format!("bandwidth, {case}"), "% of alone")
                .paper(paper.bandwidth_pct)
                .goal(paper.goal_bandwidth_pct)
                .baseline(runs.bandwidth_pct(published))
                .ours(runs.bandwidth_pct(ours))
                .limit(limit_pct),
        );
        rows.push(
            Row::new(format!("sync, {case}"), "ms")
                .paper(paper.sync_ms)
                .goal(paper.goal_sync_ms)
                .baseline(published.sync_ms_mean)
                .ours(ours.sync_ms_mean)
                .limit(limit_ms),
        );
        let nearhead = &runs.of(NEARHEAD)[index];
        let case = format!("{NEARHEAD} beside {OURS}, {rate} writes/s");
        rows.push(
            Row::new(format!("bandwidth, {case}"), "% of alone")
                .baseline(runs.bandwidth_pct(ours))
                .ours(runs.bandwidth_pct(nearhead))
                .limit(limit_pct),
        );
        rows.push(
            Row::new(format!("sync, {case}"), "ms")
                .baseline(ours.sync_ms_mean)
                .ours(nearhead.sync_ms_mean)
                .limit(limit_ms),
        );
    }
    Ok(rows)
}

/// What the client could keep if a sync cost the disks the transfer of its bytes and nothing else.
fn bandwidth_limit_pct(runs: &ContentionRuns, writes_per_s: u32) -> f64 {
    let bytes_per_s = f64::from(writes_per_s) * BLOCK_BYTES as f64;
    100.0 * (1.0 - bytes_per_s / runs.alone_bytes_per_s).max(0.0)
}

/// The transfer of a sync's data, at the outer edge of one disk, without seek or rotation.
fn sync_limit_ms() -> Result<f64, FigureError> {
    let bytes = f64::from(FILES) * BLOCK_BYTES as f64;
    Ok(bytes / rig::mechanics(CHEETAH)?.bandwidth(0) * 1e3)
}

fn data(runs: &ContentionRuns) -> Data {
    let columns = [
        "method",
        "writes_per_s_per_disk",
        "bandwidth_mb_per_s",
        "bandwidth_pct",
        "sync_ms_mean",
        "sync_ms_p99",
        "syncs_per_s",
        "late_syncs",
    ];
    let mut data = Data::new("points", &columns);
    for (name, points) in &runs.methods {
        for (rate, point) in runs.rates.iter().zip(points) {
            data.push([
                (*name).to_owned(),
                rate.to_string(),
                format!("{:.3}", point.bytes_per_s / 1e6),
                format!("{:.2}", runs.bandwidth_pct(point)),
                format!("{:.3}", point.sync_ms_mean),
                format!("{:.3}", point.sync_ms_p99),
                format!("{:.3}", point.syncs_per_s),
                point.late.to_string(),
            ]);
        }
    }
    data
}

fn drawings(runs: &ContentionRuns) -> Result<Vec<Drawing>, FigureError> {
    let groups = || runs.rates.iter().map(|rate| format!("{rate} writes/s")).collect();
    let series = |value: &dyn Fn(&Point) -> f64| -> Vec<(String, Vec<f64>)> {
        let of = |points: &[Point]| points.iter().map(value).collect();
        runs.methods.iter().map(|(name, points)| ((*name).to_owned(), of(points))).collect()
    };
    let bandwidth = BarChart {
        title: "Bandwidth of the sequential client",
        unit: "% of the disk alone",
        groups: groups(),
        series: series(&|point| runs.bandwidth_pct(point)),
        limit: None,
        decades: false,
    };
    let sync = BarChart {
        title: "Mean latency of a sync",
        unit: "ms, logarithmic",
        groups: groups(),
        series: series(&|point| point.sync_ms_mean),
        limit: None,
        decades: true,
    };
    Ok(vec![Drawing::new("bandwidth", bandwidth.render())?, Drawing::new("sync", sync.render())?])
}

fn findings(runs: &ContentionRuns) -> Vec<String> {
    let mut findings = Vec::new();
    let ends = [0, runs.rates.len().saturating_sub(1)];
    for index in ends.into_iter().collect::<std::collections::BTreeSet<_>>() {
        let (Some(ordered), Some(adaptive)) =
            (runs.of("ordered").get(index), runs.of("adaptive").get(index))
        else {
            continue;
        };
        let ours = &runs.of(OURS)[index];
        findings.push(format!(
            "At {} writes/s ordered journaling keeps {:.0} % of the bandwidth and syncs in {:.0} ms \
             (it manages {:.1} syncs/s), adaptive journaling {:.0} % and {:.1} ms, ours {:.1} % and \
             {:.1} ms.",
            runs.rates[index],
            runs.bandwidth_pct(ordered),
            ordered.sync_ms_mean,
            ordered.syncs_per_s,
            runs.bandwidth_pct(adaptive),
            adaptive.sync_ms_mean,
            runs.bandwidth_pct(ours),
            ours.sync_ms_mean,
        ));
    }
    findings
}

fn differs(setting: Setting) -> Vec<String> {
    let one = [
        "The file system is the pattern of writes of its journaling mode: data blocks, descriptor, \
         metadata and commit blocks, and the later writes in place every 5 s. Memory, the page cache \
         and the processor are left out; a sync does not wait for the sequential client's dirty \
         pages, as a real sync() would. All of that shortens syncs here.",
        "The paper's scheduler is \"the basic elevator\"; it is taken to be the kernel's noop, so \
         requests reach the disk in order, and the disk serves them in order. With a queue that the \
         drive may reorder (no part of this figure) the reader's next request is always the nearest, and a \
         sync in place can wait long behind it while the reader keeps most of its bandwidth.",
        "The journal is 5 GB around the middle of the disk; bulk data under data journaling has one \
         half of it, syncs have the other. Data journaling differs from adaptive journaling for \
         sequential writes only, so in figures with a reader both rows are the same experiment.",
        "'manylogs', baseline: the published policy, near-head logs and first come first served. \
         'manylogs', ours: the preset mlb, durable writes first, bulk transfers in pieces of 128 KiB, \
         two of them on the disk. In both, a sync's data and metadata are one atomic record (Manylogs \
         IV-C), and checkpoints wait for quiet hours.",
    ];
    let array = [
        "Bulk transfers are bounded by what one disk needs, times the number of disks: two pieces of \
         128 KiB would keep at most two chunks on each of two disks busy, and an array would idle as \
         soon as small writes come.",
        "A log of 10 MB over the aggregate gives each disk 2.5 MB, but a record of 160 KiB lies in \
         three chunks of 64 KiB, so every sync interrupts up to three disks; four at once are asked \
         for by the rate, which counts writes for each disk.",
    ];
    let own: &[&str] = if setting.disks > 1 { &array } else { &[] };
    one.iter().chain(own).map(|text| (*text).to_owned()).collect()
}
