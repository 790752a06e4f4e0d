//! Manylogs' figures 2 and 3 over the real file system: the same clients as at block level, as programs that call it.
//!
//! Each mode runs on a volume of the same disks: those with one journal keep it in the logs around the middle and bring it home every five
//! seconds, Manylogs uses all logs. What the stand-ins at block level (`fig2.rs`) say of the same mode stands beside each value.

use crate::contention::{BulkKind, FILES, Point, Span};
use crate::error::FigureError;
use crate::fig2::{self, ContentionRuns, FIG2A, FIG2B, NEARHEAD, OURS, PUBLISHED, Setting};
use crate::fig3::{FIG3A, FIG3B};
use crate::files::{
    Bench, BulkFile, BulkFileOptions, Durable, FileMethod, Image, SmallFiles, SmallFilesOptions,
    mounted, with_one_journal,
};
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Report, Row, Value};
use crate::rig::{self, CHEETAH, System};
use crate::spent::Spent;
use nearhead_format::AckMode;
use nearhead_journal::mode_named;
use nearhead_service::Service;
use std::rc::Rc;

/// The large file (Manylogs V-A.1).
pub(crate) const BULK_FILE_BYTES: u64 = 2 << 30;
/// Directories and generations of an image follow from it.
const IMAGE_SEED: u64 = 11;
/// The modes with one journal.
pub(crate) const JOURNALS: [&str; 3] = ["ordered", "data", "adaptive"];

/// Every way to keep files that is compared.
pub(crate) fn methods() -> Result<Vec<FileMethod>, FigureError> {
    let mlb = System { ack: AckMode::Flush, ..System::of_preset("mlb")? };
    let nearhead = System { ack: AckMode::Flush, ..System::of_preset(NEARHEAD)? };
    let mut methods = Vec::new();
    for name in JOURNALS {
        let system = System { configure: with_one_journal, ..mlb.clone() };
        methods.push(of_mode(name, name, system)?);
    }
    let published = System { configure: rig::off_hours_first_come, ..mlb.clone() };
    methods.push(of_mode(PUBLISHED, "manylogs", published)?);
    methods.push(of_mode(OURS, "manylogs", mlb)?);
    methods.push(of_mode(NEARHEAD, "manylogs", nearhead)?);
    Ok(methods)
}

/// A method with the mode of this name.
pub(crate) fn of_mode(
    name: &'static str,
    mode: &str,
    system: System,
) -> Result<FileMethod, FigureError> {
    let mode = mode_named(mode).map_err(|error| FigureError::setup("a journaling mode", &error))?;
    Ok(FileMethod { name, mode, system })
}

/// A file system of `method` on new disks, with what `prepare` puts on it.
pub(crate) fn bench<T>(
    method: &FileMethod,
    disks: u32,
    prepare: impl FnOnce(&mut Image) -> Result<T, FigureError>,
) -> Result<(Bench, T), FigureError> {
    let disk = rig::kept_disk_for(&method.system, CHEETAH, disks)?;
    let volume = rig::volume(disk, &method.system)?;
    let mut image = Image::blank(volume.info().size_bytes, IMAGE_SEED)?;
    let prepared = prepare(&mut image)?;
    Ok((mounted(volume, method, image)?, prepared))
}

/// Runs `bench` through a warm-up and a measured time; says where its disk's time went in the latter, if it tells.
pub(crate) fn measured(bench: &mut Bench, span: Span) -> Result<Option<Spent>, FigureError> {
    let begins = bench.now() + span.warm_up;
    bench.run(begins)?;
    bench.start_measuring();
    let before = spent(bench);
    bench.run(begins + span.measured)?;
    let spent = before.zip(spent(bench));
    Ok(spent.map(|(before, after)| after.since(&before, span.measured)))
}

fn spent(bench: &Bench) -> Option<Spent> {
    bench.ground().disk().disk().spent()
}

/// The sequential client on a file of 2 GiB.
fn bulk_options(setting: Setting, ino: nearhead_ext4::Ino) -> BulkFileOptions {
    let writes = setting.kind == BulkKind::Write;
    let call_bytes = if writes { 1 << 20 } else { setting.read_bytes * setting.disks };
    BulkFileOptions { ino, file_bytes: BULK_FILE_BYTES, call_bytes, threads: 2, writes }
}

fn point(
    method: &FileMethod,
    setting: Setting,
    syncs_per_s: Option<f64>,
    span: Span,
) -> Result<Point, FigureError> {
    let (mut bench, (bulk, files)) = bench(method, setting.disks, |image| {
        let bulk = image.file(nearhead_ext4::ROOT, "bulk", BULK_FILE_BYTES)?;
        Ok((bulk, SmallFiles::scattered(image, FILES)?))
    })?;
    let bulk = BulkFile::start(&mut bench, bulk_options(setting, bulk));
    let writer = syncs_per_s.map(|syncs_per_s| {
        // A sync() would wait for all that the other program wrote.
        let reads = setting.kind == BulkKind::Read;
        let ends_with = if reads { Durable::Sync } else { Durable::Fsyncs };
        SmallFiles::start(&mut bench, SmallFilesOptions { files, syncs_per_s, ends_with, seed: 1 })
    });
    let spent = measured(&mut bench, span)?;
    let syncs = writer.as_ref().map(|writer| writer.syncs(bench.now())).unwrap_or_default();
    Ok(Point {
        bytes_per_s: bulk.bytes_per_s(bench.now()),
        sync_ms_mean: syncs.latency.mean_ms,
        sync_ms_p99: syncs.latency.p99_ms,
        syncs_per_s: syncs.requests_per_s,
        late: writer.as_ref().map_or(0, SmallFiles::late),
        spent,
    })
}

/// Runs the experiment, or returns what it came to earlier.
pub(crate) fn runs(lab: &mut Lab<'_>, setting: Setting) -> Result<Rc<ContentionRuns>, FigureError> {
    if let Some(done) = lab.files.get(setting.name) {
        return Ok(Rc::clone(done));
    }
    let methods: Vec<(&'static str, FileMethod)> =
        methods()?.into_iter().map(|method| (method.name, method)).collect();
    let bare = methods[0].1.clone();
    let done = Rc::new(ContentionRuns::measured(lab, setting, &methods, |lab, step| {
        let (method, syncs_per_s) = step.unzip();
        point(method.unwrap_or(&bare), setting, syncs_per_s, lab.contention_span())
    })?);
    lab.files.insert(setting.name, Rc::clone(&done));
    Ok(done)
}

/// Figure 2a.
pub(crate) fn fig2a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG2A, "fig2a-fs")
}

/// Figure 2b.
pub(crate) fn fig2b(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG2B, "fig2b-fs")
}

/// Figure 3a.
pub(crate) fn fig3a(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG3A, "fig3a-fs")
}

/// Figure 3b.
pub(crate) fn fig3b(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    report(lab, FIG3B, "fig3b-fs")
}

fn report(lab: &mut Lab<'_>, setting: Setting, name: &'static str) -> Result<Report, FigureError> {
    let (runs, stand_ins) = (runs(lab, setting)?, fig2::runs(lab, setting)?);
    let span = lab.contention_span();
    let (does, durable) = match setting.kind {
        BulkKind::Read => ("reads", "calls sync()"),
        BulkKind::Write => ("writes", "calls fsync for all of them at once"),
    };
    Ok(Report {
        name,
        title: format!("{} over the real file system", setting.name),
        ran: format!(
            "A program {does} a file of 2 GiB over and over beside one that changes a block in each of {FILES} files, each in a folder of \
             its own somewhere on the disk, and {durable} at a capped rate. The file system is Nearhead's (ext4's format) on a volume on \
             {} {CHEETAH}, write caches off, queues in order; alone it gives the first program {:.1} MB/s. {} s measured after {} s. \
             'baseline' is the same mode's stand-in at block level, 'ours' the file system.",
            setting.disks,
            runs.alone.bytes_per_s / 1e6,
            span.measured.as_secs_f64(),
            span.warm_up.as_secs_f64(),
        ),
        differs: differs(setting),
        findings: findings(&runs, &stand_ins),
        rows: rows(&runs, &stand_ins, setting)?,
        data: fig2::tables(&runs, span),
        drawings: fig2::drawings(&runs)?,
    })
}

/// The runs of figures 2 and 3, for table II.
pub(crate) fn all_runs(lab: &mut Lab<'_>) -> Result<Vec<Rc<ContentionRuns>>, FigureError> {
    [FIG2A, FIG2B, FIG3A, FIG3B].into_iter().map(|setting| runs(lab, setting)).collect()
}

/// How far the stand-ins agree, and what the modes come to at the highest rate.
fn findings(runs: &ContentionRuns, stand_ins: &ContentionRuns) -> Vec<String> {
    let Some(rate) = runs.rates.last() else { return Vec::new() };
    let mut findings = Vec::new();
    for (name, points) in &runs.methods {
        let (Some(point), Some(block)) = (points.last(), stand_ins.of(name).last()) else {
            continue;
        };
        findings.push(format!(
            "{name} at {rate} writes/s: {:.1} % of the bandwidth and syncs in {:.1} ms; its stand-in at block level {:.1} % and {:.1} ms.",
            runs.bandwidth_pct(point),
            point.sync_ms_mean,
            stand_ins.bandwidth_pct(block),
            block.sync_ms_mean,
        ));
    }
    findings
}

fn differs(setting: Setting) -> Vec<String> {
    let mut differs = vec![
        "Memory is the file system's own: 64 MiB of what was written, and of metadata. The kernel's page cache and the processor are left \
         out."
            .to_owned(),
        "Modes with one journal log to the logs around the middle and bring what they hold home every 5 s, in order of address; their \
         metadata is one atomic record, without the barrier between descriptor and commit block that ext3 has."
            .to_owned(),
    ];
    if setting.kind == BulkKind::Write {
        differs.push(
            "The random writer calls fsync for its 20 files at once: sync() would wait for the 64 MiB that the other program wrote, and \
             does not reach a file system of FUSE. Where commands go first come, first served, an fsync stands behind those 64 MiB all the \
             same; the stand-ins have 2 MiB under way."
                .to_owned(),
        );
    }
    differs
}

fn rows(
    runs: &ContentionRuns,
    stand_ins: &ContentionRuns,
    setting: Setting,
) -> Result<Vec<Row>, FigureError> {
    let mut rows = Vec::new();
    let limit_ms = fig2::sync_limit_ms()?;
    for (index, rate) in runs.rates.iter().enumerate() {
        // A mode that does not manage the rate beside a writer loses less to it than the rate would cost.
        let limit_pct = fig2::bandwidth_limit_pct(runs, *rate * setting.disks);
        let limit_pct = (setting.kind == BulkKind::Read).then_some(limit_pct);
        for (name, points) in &runs.methods {
            let paper = PAPERS.contention(setting.name, name, *rate);
            let (point, case) = (&points[index], format!("{name}, {rate} writes/s"));
            let block = stand_ins.of(name).get(index);
            rows.push(
                Row::new(format!("bandwidth, {case}"), "% of alone")
                    .paper(paper.bandwidth_pct)
                    .goal(paper.goal_bandwidth_pct)
                    .baseline(block.map(|point| stand_ins.bandwidth_pct(point)))
                    .ours(runs.bandwidth_pct(point))
                    .limit(limit_pct),
            );
            rows.push(
                Row::new(format!("sync, {case}"), "ms")
                    .paper(paper.sync_ms)
                    .goal(paper.goal_sync_ms)
                    .baseline(block.map(|point| point.sync_ms_mean))
                    .ours(sync_ms(point))
                    .limit(limit_ms),
            );
        }
    }
    Ok(rows)
}

fn sync_ms(point: &Point) -> Value {
    if point.syncs_per_s > 0.0 {
        return Value::from(point.sync_ms_mean);
    }
    Value::NotRun("none was durable within the time measured".to_owned())
}
