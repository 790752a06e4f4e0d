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
use crate::contention::{self, BulkKind, Client, FILES, Method, Point, READ_AHEAD_BYTES, Span};
use crate::error::FigureError;
use crate::journal::{BLOCK_BYTES, Mode};
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CHEETAH, FigureDisk, Queue, System};
use crate::spent::Spent;
use nearhead_format::AckMode;
use std::rc::Rc;

/// Which of the four figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) kind: BulkKind,
    pub(crate) disks: u32,
    /// A read, for each disk.
    pub(crate) read_bytes: u32,
}

impl Setting {
    pub(crate) fn client(self) -> Client {
        let Self { kind, disks, read_bytes, .. } = self;
        Client { kind, disks, read_bytes, outstanding: contention::OUTSTANDING }
    }
}

pub(crate) const FIG2A: Setting =
    Setting { name: "fig2a", kind: BulkKind::Read, disks: 1, read_bytes: READ_AHEAD_BYTES };
pub(crate) const FIG2B: Setting = Setting { name: "fig2b", kind: BulkKind::Write, ..FIG2A };
/// Reads that are cut into pieces, so that admission shows: the paper's are no larger than a piece.
pub(crate) const FIG2A_LARGE: Setting = Setting { name: "fig2a-1m", read_bytes: 1 << 20, ..FIG2A };

/// Everything measured for one of the figures.
pub(crate) struct ContentionRuns {
    /// The client without any syncs.
    pub(crate) alone: Point,
    /// Writes a second for each disk.
    pub(crate) rates: Vec<u32>,
    /// By method, then by rate.
    pub(crate) methods: Vec<(&'static str, Vec<Point>)>,
}

impl ContentionRuns {
    /// Runs the client alone, and beside each of the methods at each rate: `run` is told none, or the method and its syncs a second.
    pub(crate) fn measured<M>(
        lab: &mut Lab<'_>,
        setting: Setting,
        methods: &[(&'static str, M)],
        mut run: impl FnMut(&Lab<'_>, Option<(&M, f64)>) -> Result<Point, FigureError>,
    ) -> Result<Self, FigureError> {
        let rates = lab.effort.pick(vec![40, 80, 160, 320], vec![40, 160, 320], vec![320]);
        let mut steps = vec![("the disk alone".to_owned(), None)];
        for (name, method) in methods {
            steps.extend(rates.iter().map(|rate| {
                let syncs_per_s = f64::from(rate * setting.disks) / f64::from(FILES);
                (format!("{name} at {rate} writes/s"), Some((method, syncs_per_s)))
            }));
        }
        let points = lab.each(setting.name, steps, &mut run)?;
        let mut by_method = points[1..].chunks(rates.len()).map(<[Point]>::to_vec);
        let named = methods.iter().map(|(name, _)| *name);
        let methods = named.map(|name| (name, by_method.next().unwrap_or_default())).collect();
        Ok(Self { alone: points[0], rates, methods })
    }

    /// The points of `method`.
    pub(crate) fn of(&self, method: &str) -> &[Point] {
        let found = self.methods.iter().find(|(name, _)| *name == method);
        found.map_or(&[], |(_, points)| points)
    }

    /// Bandwidth of a point, in % of the disk alone.
    pub(crate) fn bandwidth_pct(&self, point: &Point) -> f64 {
        100.0 * point.bytes_per_s / self.alone.bytes_per_s
    }

    /// What each sync cost the disk, if it tells.
    pub(crate) fn loss(&self, point: &Point, span: Span) -> Option<Spent> {
        let (alone, share) = (self.alone.spent?, point.bytes_per_s / self.alone.bytes_per_s);
        let syncs = point.syncs_per_s * span.measured.as_secs_f64();
        Some(point.spent?.for_each_sync(&alone, share, syncs))
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

/// The same, made for `system`.
pub(crate) fn disk_for(system: &System, setting: Setting) -> Result<FigureDisk, FigureError> {
    if setting.disks == 1 {
        return disk(setting);
    }
    rig::striped_for(system, CHEETAH, setting.disks, Queue::InOrder)
}

/// Runs the experiment, or returns what it came to earlier.
pub(crate) fn runs(lab: &mut Lab<'_>, setting: Setting) -> Result<Rc<ContentionRuns>, FigureError> {
    if let Some(done) = lab.contention.get(setting.name) {
        return Ok(Rc::clone(done));
    }
    let methods: Vec<(&'static str, Method)> =
        methods()?.into_iter().map(|method| (method.name, method)).collect();
    let done = Rc::new(ContentionRuns::measured(lab, setting, &methods, |lab, step| {
        let span = lab.contention_span();
        let Some((method, syncs_per_s)) = step else {
            return contention::alone(disk(setting)?, setting.client(), span);
        };
        let disk = disk_for(&method.system, setting)?;
        contention::point(disk, method, setting.client(), syncs_per_s, span)
    })?);
    lab.contention.insert(setting.name, Rc::clone(&done));
    Ok(done)
}

/// Figure 2a.
pub(crate) fn fig2a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG2A, "a sequential reader beside a random writer's syncs, one disk")
}

/// The same with reads that are larger than a piece.
pub(crate) fn fig2a_large(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG2A_LARGE, "a sequential reader of 1 MiB beside a random writer's syncs")
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
        let kib = setting.read_bytes / 1024 * setting.disks;
        format!("reads 2 GiB over and over in requests of {kib} KiB")
    } else {
        "writes 2 GiB over and over in requests of 1 MiB".to_owned()
    };
    let ran = format!(
        "A client {bulk}, two outstanding, beside a writer that changes a 4 KiB block in each of \
         {FILES} files spread over the disk and syncs, at a capped rate (writes/s are for each \
         disk). Model: {disks}, write cache off, queue served in order; alone it gives the client \
         {:.1} MB/s. {} s measured after {} s to warm up.",
        runs.alone.bytes_per_s / 1e6,
        span.measured.as_secs_f64(),
        span.warm_up.as_secs_f64(),
    );
    Ok(Report {
        name: setting.name,
        title: title.to_owned(),
        ran,
        differs: differs(setting),
        findings: findings(&runs),
        rows: rows(&runs, setting, span)?,
        data: tables(&runs, span),
        drawings: drawings(&runs)?,
    })
}

fn rows(runs: &ContentionRuns, setting: Setting, span: Span) -> Result<Vec<Row>, FigureError> {
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
        rows.extend(nearhead_rows(runs, *rate, index, limit_ms)?);
    }
    rows.extend(loss_rows(runs, span));
    Ok(rows)
}

/// Nearhead beside Manylogs, and how far both are from what a stream that is resumed in order can keep.
fn nearhead_rows(
    runs: &ContentionRuns,
    rate: u32,
    index: usize,
    limit_ms: f64,
) -> Result<[Row; 3], FigureError> {
    let (ours, nearhead) = (&runs.of(OURS)[index], &runs.of(NEARHEAD)[index]);
    let [ours_pct, nearhead_pct] = [ours, nearhead].map(|point| runs.bandwidth_pct(point));
    let bound_pct = in_order_limit_pct(rate)?;
    let case = format!("{NEARHEAD} beside {OURS}, {rate} writes/s");
    Ok([
        Row::new(format!("bandwidth, resumed in order, {case}"), "% of alone")
            .baseline(ours_pct)
            .ours(nearhead_pct)
            .limit(bound_pct),
        Row::new(format!("share of that limit, {case}"), "%")
            .baseline(100.0 * ours_pct / bound_pct)
            .ours(100.0 * nearhead_pct / bound_pct),
        Row::new(format!("sync, {case}"), "ms")
            .baseline(ours.sync_ms_mean)
            .ours(nearhead.sync_ms_mean)
            .limit(limit_ms),
    ])
}

/// What each sync costs the disk at the highest rate.
fn loss_rows(runs: &ContentionRuns, span: Span) -> Vec<Row> {
    let last = |method: &str| runs.of(method).last().and_then(|point| runs.loss(point, span));
    let (ours, nearhead) = (last(OURS), last(NEARHEAD));
    let Some(rate) = runs.rates.last() else { return Vec::new() };
    if ours.is_none() {
        return Vec::new();
    }
    let part = |of: Option<Spent>, at: usize| of.map(|spent| spent.parts()[at]);
    let named = Spent::PARTS.iter().enumerate().map(|(at, name)| {
        let case = format!("lost for a sync, {name}, {NEARHEAD} beside {OURS}, {rate} writes/s");
        Row::new(case, "ms").baseline(part(ours, at)).ours(part(nearhead, at))
    });
    named.collect()
}

/// What a client keeps at most if its stream goes on where it was: it comes back to the angle where it left, so each sync
/// costs a disk a whole revolution. (On an array each disk has its own syncs, and this is each one's bound.)
fn in_order_limit_pct(writes_per_s: u32) -> Result<f64, FigureError> {
    let syncs_per_s = f64::from(writes_per_s) / f64::from(FILES);
    let period_s = rig::mechanics(CHEETAH)?.spindle().period().as_secs_f64();
    Ok(100.0 * (1.0 - syncs_per_s * period_s).max(0.0))
}

/// What the client could keep if a sync cost the disks the transfer of its bytes and nothing else.
pub(crate) fn bandwidth_limit_pct(runs: &ContentionRuns, writes_per_s: u32) -> f64 {
    let bytes_per_s = f64::from(writes_per_s) * BLOCK_BYTES as f64;
    100.0 * (1.0 - bytes_per_s / runs.alone.bytes_per_s).max(0.0)
}

/// The transfer of a sync's data, at the outer edge of one disk, without seek or rotation.
pub(crate) fn sync_limit_ms() -> Result<f64, FigureError> {
    sync_limit_ms_of(CHEETAH)
}

/// The same on any drive.
pub(crate) fn sync_limit_ms_of(drive: &str) -> Result<f64, FigureError> {
    let bytes = f64::from(FILES) * BLOCK_BYTES as f64;
    Ok(bytes / rig::mechanics(drive)?.bandwidth(0) * 1e3)
}

/// All that was measured.
pub(crate) fn tables(runs: &ContentionRuns, span: Span) -> Vec<Data> {
    std::iter::once(data(runs)).chain(losses(runs, span)).collect()
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

/// What each sync cost the disk, by method and rate, if the disk tells.
fn losses(runs: &ContentionRuns, span: Span) -> Option<Data> {
    runs.alone.spent?;
    let columns = ["method", "writes_per_s", "seek_ms", "rotation_ms", "transfer_ms", "idle_ms"];
    let mut data = Data::new("losses", &columns);
    for (name, points) in &runs.methods {
        for (rate, point) in runs.rates.iter().zip(points) {
            let Some(loss) = runs.loss(point, span) else { continue };
            let [seek, rotation, transfer, idle] = loss.parts().map(|ms| format!("{ms:.3}"));
            data.push([(*name).to_owned(), rate.to_string(), seek, rotation, transfer, idle]);
        }
    }
    Some(data)
}

/// Charts of both clients, by method and rate.
pub(crate) fn drawings(runs: &ContentionRuns) -> Result<Vec<Drawing>, FigureError> {
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
    let saturated = runs
        .rates
        .iter()
        .zip(runs.of("ordered"))
        .filter(|(rate, point)| point.syncs_per_s * f64::from(FILES) < 0.9 * f64::from(**rate));
    let rates: Vec<String> = saturated.map(|(rate, _)| rate.to_string()).collect();
    if !rates.is_empty() {
        findings.push(format!(
            "Ordered journaling does not manage {} writes/s: there it is one loop that syncs as fast as it can, \
             and its latencies are not those of the rate that they stand beside.",
            rates.join(" or ")
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
