//! How long a file system takes to come back after a power cut, by its journaling mode (Okeanos, section 6): streams of appends, then a cut.
//!
//! ext3 serves once its journal is replayed and all of it is at home. Here the volume serves once it knows what its logs hold, and brings it
//! home afterwards; both moments are told. The cut comes while writes are under way.

use super::{COMPARED, FAST_BYTES, IMAGE_SEED, Load, SLOW_BYTES, disks, method, mode_of, periodic};
use crate::charted::Charted;
use crate::error::FigureError;
use crate::files::{
    Bench, Counted, FileMethod, Ground, Image, bytes_of, mounted_again, mounted_at, prepare_files,
    start_appenders,
};
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CHEETAH, FigureDisk, System};
use crate::tracks;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_engine::Config;
use nearhead_engine::cleaner::AsNeeded;
use nearhead_ext4::Ino;
use nearhead_service::Service;
use nearhead_volume::Lanes;
use std::collections::BTreeMap;

const NAME: &str = "okeanos-recovery";
const SEED: u64 = 5;
/// The power goes this long after a whole second.
const CUT_AFTER: Nanos = Nanos::from_millis(503);
const NEVER: Nanos = Nanos::from_secs(1_000_000);

/// How the volume keeps its logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Keeping {
    /// As ext3 keeps a journal that has room: one record after the other, nothing brought home, no snapshot that would spare a recovery any.
    Journal,
    /// As the preset does.
    Preset,
}

impl Keeping {
    const ALL: [Self; 2] = [Self::Journal, Self::Preset];

    /// As it is called in tables.
    fn name(self) -> &'static str {
        match self {
            Self::Journal => "as a journal",
            Self::Preset => "as the preset",
        }
    }

    fn configure(self) -> fn(&mut Config) {
        match self {
            Self::Journal => as_a_journal,
            Self::Preset => |_| {},
        }
    }
}

fn as_a_journal(config: &mut Config) {
    config.tracks.clear();
    config.cleaner = Box::new(AsNeeded);
    config.snapshot_after_bytes = u64::MAX;
    config.snapshot_period = NEVER;
}

/// What one cut cost.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// From the cut until the volume is open; the file system is mounted; and all that was logged is at home, as ext3 recovers.
    opens_ms: f64,
    serves_ms: f64,
    at_home_ms: f64,
    read_mb: f64,
    records: f64,
    logs: f64,
}

/// The disks after a cut at `now`.
fn cut(ground: Ground, now: Nanos) -> Result<Lanes<FigureDisk>, FigureError> {
    let (mut lanes, mut random) = (ground.into_lanes(), SplitMix::new(SEED));
    let failed = |error| FigureError::setup("a power cut", &error);
    let mut one = |disk: &mut FigureDisk| {
        disk.interrupt(now, |disk| disk.power_cut(now, &mut random)).map_err(failed)
    };
    one(lanes.main_mut())?;
    lanes.data_mut().iter_mut().try_for_each(one)?;
    Ok(lanes)
}

fn outcome(
    mode: &str,
    load: &Load,
    keeping: Keeping,
    length: Nanos,
) -> Result<Outcome, FigureError> {
    let plain = method(mode_of(mode)?)?;
    let system = System { configure: keeping.configure(), ..plain.system };
    let method = FileMethod { system, ..plain };
    let (log, data) = disks()?;
    let known = tracks::of(&log)?;
    let (volume, now) = rig::made_behind(log, data, &method.system)?;
    let mut image = Image::blank(volume.info().size_bytes, IMAGE_SEED)?;
    let files = prepare_files(&mut image, load.threads)?;
    let mut bench = mounted_at(volume, &method, image, now)?;
    let counted = Counted::default();
    start_appenders(&mut bench, &files, load.append, &counted);
    bench.run(bench.now() + length + CUT_AFTER)?;
    let cut_at = bench.now();
    let answered = counted.borrow().summary(cut_at).bytes;
    let lanes = cut(bench.into_ground(), cut_at)?;
    let (volume, opens_at) = rig::open_behind(lanes, &known, &method.system, cut_at)?;
    let status = volume.status();
    let mut bench = mounted_again(volume, &method, opens_at)?;
    let serves_at = bench.now();
    let at_home = bench.bring_home()?;
    is_all_there(&mut bench, &files, answered)?;
    let ms = |at: Nanos| at.since(cut_at).as_secs_f64() * 1e3;
    Ok(Outcome {
        opens_ms: ms(opens_at),
        serves_ms: ms(serves_at),
        at_home_ms: ms(at_home),
        read_mb: status.recovery_read_bytes as f64 / 1e6,
        records: status.recovery_records as f64,
        logs: f64::from(status.recovery_logs),
    })
}

/// What was answered before the cut is there: files are no shorter.
fn is_all_there(bench: &mut Bench, files: &[Ino], answered: u64) -> Result<(), FigureError> {
    let found = bytes_of(bench, files)?;
    if found >= answered {
        return Ok(());
    }
    let problem = format!("expected at least {answered} bytes in its files, found {found}");
    Err(FigureError::setup("a file system after a power cut", &problem))
}

/// How logs are kept, which load, which mode.
type Key = (Keeping, usize, usize);
type Outcomes = BTreeMap<Key, Outcome>;

/// The mean of several cuts.
fn mean(all: &[Outcome]) -> Outcome {
    let count = all.len().max(1) as f64;
    let of = |one: fn(&Outcome) -> f64| all.iter().map(one).sum::<f64>() / count;
    Outcome {
        opens_ms: of(|one| one.opens_ms),
        serves_ms: of(|one| one.serves_ms),
        at_home_ms: of(|one| one.at_home_ms),
        read_mb: of(|one| one.read_mb),
        records: of(|one| one.records),
        logs: of(|one| one.logs),
    }
}

/// The figure.
pub(crate) fn okeanos_recovery(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let slow: &[u32] = lab.effort.pick(&[100, 400, 800], &[100, 400], &[400]);
    let fast: &[u32] = lab.effort.pick(&[10, 50], &[10], &[]);
    let lengths: &[u64] = lab.effort.pick(&[20, 40, 60], &[10, 20], &[10]);
    let slow = slow.iter().map(|threads| periodic(*threads, SLOW_BYTES));
    let loads: Vec<Load> =
        slow.chain(fast.iter().map(|threads| periodic(*threads, FAST_BYTES))).collect();
    let mut steps = Vec::new();
    for (nth, load) in loads.iter().enumerate() {
        for keeping in Keeping::ALL {
            let each = COMPARED.iter().enumerate();
            let what = |mode| format!("{mode}, {}, {}", load.case, keeping.name());
            steps.extend(each.map(|(at, mode)| (what(mode), (keeping, nth, at))));
        }
    }
    let done = lab.each(NAME, steps, |_, key| {
        let (keeping, nth, at) = key;
        let cut =
            |length: &u64| outcome(COMPARED[at], &loads[nth], keeping, Nanos::from_secs(*length));
        let cuts: Result<Vec<Outcome>, FigureError> = lengths.iter().map(cut).collect();
        Ok((key, mean(&cuts?)))
    })?;
    let outcomes: Outcomes = done.into_iter().collect();
    report(lengths, &loads, &outcomes)
}

fn report(lengths: &[u64], loads: &[Load], outcomes: &Outcomes) -> Result<Report, FigureError> {
    let lengths: Vec<String> = lengths.iter().map(u64::to_string).collect();
    let data = data(loads, outcomes);
    Ok(Report {
        name: NAME,
        title: "recovery after a power cut, the real file system".to_owned(),
        ran: format!(
            "Threads that each append to a file of their own with durable writes, one a second; then the power of both disks is cut while writes are under way (mean of cuts \
             after {} s and a half), the volume is opened and its file system mounted, in virtual time of the disks; files are then as long as was answered. Logs on one {CHEETAH}, \
             data on another, write caches off. 'As a journal': one record after the other and nothing brought home before the cut, as ext3 has it while its \
             journal has room. 'As the preset': preset trail, which writes behind and keeps snapshots of its map. 'baseline' is data journaling, 'ours' each mode.",
            lengths.join(", ")
        ),
        differs: vec![
            format!(
                "The paper's disks are Cheetah 15K SAS of 300 GB; here stand two {CHEETAH}, of the same family. It does not say which loads it crashed, nor for how long they ran."
            ),
            "ext3 serves once all is at home, so the rows 'until all is at home' stand beside the paper's. Here files are served once the volume knows what its logs hold; that \
             reads whole logs, of 10 MB here, however little of one a mode has written."
                .to_owned(),
        ],
        findings: findings(loads, outcomes),
        rows: rows(loads, outcomes),
        drawings: drawings(&data)?,
        data: vec![data],
    })
}

/// How much shorter than data journaling's.
fn cut_pct(data: f64, ours: f64) -> f64 {
    100.0 * (1.0 - ours / data)
}

/// Data journaling on the same load.
fn data_of((keeping, nth, _): Key, outcomes: &Outcomes) -> &Outcome {
    let data = COMPARED.iter().position(|mode| *mode == "data").unwrap_or(0);
    &outcomes[&(keeping, nth, data)]
}

fn rows(loads: &[Load], outcomes: &Outcomes) -> Vec<Row> {
    let mut rows = Vec::new();
    for (key, done) in outcomes {
        let (keeping, nth, at) = *key;
        let data = data_of(*key, outcomes);
        let case = |what: &str| {
            format!("{what}, {}, {}, {}", COMPARED[at], loads[nth].case, keeping.name())
        };
        let row = |what: &str, of: &dyn Fn(&Outcome) -> f64| {
            Row::new(case(what), "ms").baseline(of(data)).ours(of(done))
        };
        rows.push(row("until files are served", &|done| done.serves_ms));
        rows.push(row("until all is at home", &|done| done.at_home_ms));
        if COMPARED[at] == "wasteless" {
            let papers = PAPERS.okeanos.recovery_cut_pct;
            rows.push(
                Row::new(case("recovery shorter than data journaling's, all at home"), "%")
                    .paper(Some(papers))
                    .ours(cut_pct(data.at_home_ms, done.at_home_ms)),
            );
            rows.push(
                Row::new(case("recovery shorter than data journaling's, files served"), "%")
                    .ours(cut_pct(data.serves_ms, done.serves_ms)),
            );
        }
    }
    rows
}

/// How much shorter wasteless makes it on each load.
fn shorter(loads: &[Load], outcomes: &Outcomes, keeping: Keeping) -> String {
    let wasteless = COMPARED.iter().position(|mode| *mode == "wasteless").unwrap_or(0);
    let each = loads.iter().enumerate().map(|(nth, load)| {
        let key = (keeping, nth, wasteless);
        let pct = cut_pct(data_of(key, outcomes).at_home_ms, outcomes[&key].at_home_ms);
        format!("{pct:.0} % ({})", load.case)
    });
    let each: Vec<String> = each.collect();
    format!(
        "With logs {} a recovery with wasteless is shorter than with data journaling, until all is at home, by {}; paper: by more than {:.0} % in some cases.",
        keeping.name(),
        each.join(", "),
        PAPERS.okeanos.recovery_cut_pct
    )
}

fn findings(loads: &[Load], outcomes: &Outcomes) -> Vec<String> {
    let mut findings: Vec<String> =
        Keeping::ALL.into_iter().map(|keeping| shorter(loads, outcomes, keeping)).collect();
    for keeping in Keeping::ALL {
        for (nth, load) in loads.iter().enumerate() {
            let each = COMPARED.iter().enumerate().map(|(at, mode)| {
                let done = &outcomes[&(keeping, nth, at)];
                format!(
                    "{mode} {:.0} and {:.0} ms ({:.1} MB of {:.1} logs read, {:.0} records)",
                    done.serves_ms, done.at_home_ms, done.read_mb, done.logs, done.records
                )
            });
            let each: Vec<String> = each.collect();
            findings.push(format!(
                "{}, {} (until files are served, until all is at home): {}.",
                load.case,
                keeping.name(),
                each.join("; ")
            ));
        }
    }
    findings
}

/// A load in few words.
fn streams(load: &Load) -> String {
    format!("{} of {} kbit/s", load.threads, load.append.bytes / 125)
}

/// How long a recovery takes, for each way to keep logs.
fn drawings(data: &Data) -> Result<Vec<Drawing>, FigureError> {
    let mut drawings = Vec::new();
    for keeping in Keeping::ALL {
        let kept = keeping.name().replace(' ', "-");
        for (value, what) in
            [("serves_ms", "Until files are served"), ("at_home_ms", "Until all is at home")]
        {
            let chart = Charted {
                name: &format!("{value}-{kept}"),
                title: &format!("{what}, logs {}", keeping.name()),
                series: "mode",
                over: ("streams", ""),
                value: (value, "ms"),
                only: &[("kept", keeping.name())],
            };
            drawings.push(chart.bars(data)?);
        }
    }
    Ok(drawings)
}

fn data(loads: &[Load], outcomes: &Outcomes) -> Data {
    let columns = [
        "mode",
        "load",
        "streams",
        "kept",
        "opens_ms",
        "serves_ms",
        "at_home_ms",
        "read_mb",
        "logs_read",
        "records",
    ];
    let mut data = Data::new("recovery", &columns);
    for ((keeping, nth, at), done) in outcomes {
        data.push([
            COMPARED[*at].to_owned(),
            loads[*nth].case.clone(),
            streams(&loads[*nth]),
            keeping.name().to_owned(),
            format!("{:.1}", done.opens_ms),
            format!("{:.1}", done.serves_ms),
            format!("{:.1}", done.at_home_ms),
            format!("{:.3}", done.read_mb),
            format!("{:.1}", done.logs),
            format!("{:.0}", done.records),
        ]);
    }
    data
}
