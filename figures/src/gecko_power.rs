//! Gecko's powered-down mirrors (its section 4): how many drives of three mirrored pairs sleep over one pass of a chain, and what energy
//! that saves.
//!
//! A pass is the time in which clients write as much as the logs of all three links hold. In the first one the chain is filled, and
//! nothing is cleaned before the last link; over the second one the body is cleaned as it has to be, and what that copies is
//! written to both sides of its link. Clients read the body now and then, all the time.

use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::metered::Metered;
use crate::paced::Paced;
use crate::paper::PAPERS;
use crate::report::{Data, Report, Row, Value};
use crate::rig::{self, FigureDisk, System};
use nearhead_disk::Nanos;
use nearhead_models::{PowerSpec, PowerTimes};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions, Workload};
use nearhead_volume::Volume;

const DRIVE: &str = rig::CONSTELLATION;
const LINKS: usize = 3;
const DRIVES: usize = 2 * LINKS;
/// Of each drive so much is used. A pass takes three and a half hours, as one of 160 GiB drives at ten times the load.
const DRIVE_BYTES: u64 = 16 << 30;
const WRITE_BYTES: u32 = 64 << 10;
/// About 4 MB/s.
const WRITES_PER_S: f64 = 64.0;
const READS_PER_S: f64 = 1.0;
/// Sides rest after so long without writes, and a drive goes to standby after the same time with nothing to do.
const AFTER: Nanos = Nanos::from_secs(30);

/// How many hundredths of the volume are written over.
type Pct = u64;

/// What a pass took.
#[derive(Clone, Debug, Default)]
struct Pass {
    drives: Vec<PowerTimes>,
    seconds: f64,
    compacted_mb: f64,
    read_p99_ms: f64,
    write_max_ms: f64,
}

impl Pass {
    fn resting(&self) -> f64 {
        self.drives.iter().map(|times| times.standby.as_secs_f64()).sum::<f64>() / self.seconds
    }

    fn joules(&self) -> f64 {
        self.drives.iter().map(|times| times.joules(&PowerSpec::CONSTELLATION)).sum()
    }

    fn spin_ups(&self) -> f64 {
        self.drives.iter().map(|times| times.spin_ups as f64).sum()
    }
}

fn volume(rests: bool) -> Result<Volume<FigureDisk>, FigureError> {
    let system = System::of_preset("gecko")?;
    let pair = || -> Result<FigureDisk, FigureError> {
        Ok(Metered::new(Box::new(rig::mirrored_to_sleep(DRIVE, rests.then_some(AFTER))?)))
    };
    let pairs: Result<Vec<FigureDisk>, FigureError> = (0..LINKS).map(|_| pair()).collect();
    let mut volume = rig::chain(pairs?, &system, DRIVE_BYTES, |_| ())?;
    volume.let_mirrors_rest(rests.then_some(AFTER));
    Ok(volume)
}

fn power(volume: &Volume<FigureDisk>, now: Nanos) -> Vec<PowerTimes> {
    let lanes = volume.lanes();
    let links = std::iter::once(lanes.main()).chain(lanes.data());
    links.flat_map(|link| link.disk().power(now)).collect()
}

fn mix(size_bytes: u64, (request_bytes, reads): (u32, f64), seed: u64) -> RandomMix {
    RandomMix::new(RandomMixOptions {
        span: 0..size_bytes,
        request_bytes,
        reads,
        fua: true,
        outstanding_max: 64,
        requests_max: None,
        content: Content::Phantom,
        seed,
    })
}

fn run(pct: Pct, rests: bool, passes: u32, pass_bytes: u64) -> Result<Vec<Pass>, FigureError> {
    let what = format!("{pct} % of the volume, {}", if rests { "resting" } else { "always awake" });
    let stuck = |problem| FigureError::Stuck { what: what.clone(), problem };
    let mut volume = volume(rests)?;
    let span =
        volume.info().size_bytes / 100 * pct / u64::from(WRITE_BYTES) * u64::from(WRITE_BYTES);
    let mut writer = Paced::new(mix(span, (WRITE_BYTES, 0.0), 1), Some(WRITES_PER_S));
    let mut reader = Paced::new(mix(span, (4096, 1.0), 2), Some(READS_PER_S));
    let mut time = VirtualTime::default();
    let mut done = Vec::new();
    for _ in 0..passes {
        let (from, before) = (time.now(), power(&volume, time.now()));
        let compacted = volume.status().stats.compacted_bytes;
        writer.start_measuring(from);
        reader.start_measuring(from);
        while writer.inner.writes().bytes < pass_bytes {
            let until = time.now() + Nanos::from_secs(10);
            time.run(&mut volume, &mut [&mut writer, &mut reader], until).map_err(stuck)?;
        }
        let now = time.now();
        let (written, read) =
            (writer.inner.writes().summary(now), reader.inner.reads().summary(now));
        succeeded(&what, &[&written, &read])?;
        let drives = power(&volume, now).into_iter().zip(before);
        done.push(Pass {
            drives: drives.map(|(times, before)| times.since(before)).collect(),
            seconds: now.since(from).as_secs_f64(),
            compacted_mb: (volume.status().stats.compacted_bytes - compacted) as f64 / 1e6,
            read_p99_ms: read.latency.p99_ms,
            write_max_ms: written.latency.max_ms,
        });
    }
    Ok(done)
}

/// The figure.
pub(crate) fn gecko_power(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let loads = lab.effort.pick(vec![30, 60], vec![30], vec![30]);
    let (passes, pass_bytes) = lab.effort.pick(
        (2, LINKS as u64 * DRIVE_BYTES),
        (2, LINKS as u64 * DRIVE_BYTES),
        (1, DRIVE_BYTES / 8),
    );
    let cases: Vec<(Pct, bool)> =
        loads.iter().flat_map(|load| [(*load, false), (*load, true)]).collect();
    let told = |(pct, rests): &(Pct, bool)| {
        format!("{pct} % written over, {}", if *rests { "resting" } else { "awake" })
    };
    let steps = cases.iter().map(|case| (told(case), *case)).collect();
    let done =
        lab.each("gecko-power", steps, |_, (load, rests)| run(load, rests, passes, pass_bytes))?;
    let paper = PAPERS.gecko.drives_off;
    let mut rows = Vec::new();
    let mut data = Data::new(
        "drives",
        &["case", "pass", "drive", "active_s", "idle_s", "standby_s", "spin_up_s", "spin_ups"],
    );
    for (pct, pair) in loads.iter().zip(done.chunks(2)) {
        let [awake, resting] = pair else { continue };
        for (number, (awake, resting)) in awake.iter().zip(resting).enumerate() {
            let case = |what: &str| format!("{what}, pass {}, {pct} % written over", number + 1);
            let row = |what: &str, unit, of: fn(&Pass) -> f64| {
                Row::new(case(what), unit).baseline(of(awake)).ours(of(resting))
            };
            let saved = 100.0 * (1.0 - resting.joules() / awake.joules().max(1e-9));
            let share = Value::Number(100.0 * paper / DRIVES as f64);
            rows.push(row("drives asleep, mean", "of 6", Pass::resting).paper(paper));
            rows.push(row("energy of all drives", "kJ", |pass| pass.joules() / 1e3));
            rows.push(Row::new(case("energy saved"), "%").paper(share).ours(saved));
            rows.push(row("spin-ups of all drives", "", Pass::spin_ups));
            rows.push(row("copied in the body", "MB", |pass| pass.compacted_mb));
            rows.push(row("p99 of reads", "ms", |pass| pass.read_p99_ms));
            rows.push(row("longest write", "ms", |pass| pass.write_max_ms));
        }
    }
    for (case, passes) in cases.iter().zip(&done) {
        for (number, pass) in passes.iter().enumerate() {
            for (drive, times) in pass.drives.iter().enumerate() {
                let seconds = [times.active, times.idle, times.standby, times.spin_up];
                let mut row = vec![told(case), (number + 1).to_string(), drive.to_string()];
                row.extend(seconds.map(|span| format!("{:.1}", span.as_secs_f64())));
                row.push(times.spin_ups.to_string());
                data.rows.push(row);
            }
        }
    }
    Ok(Report {
        name: "gecko-power",
        title: "Gecko: drives of a chain of mirrored pairs that sleep".to_owned(),
        ran: format!(
            "A chain (preset gecko) of {LINKS} pairs of mirrored {DRIVE}, the first {} GiB of each, write caches off. {WRITES_PER_S:.0} writes/s of 64 KiB go to random places of a part of the volume, and \
             {READS_PER_S:.0} reads/s of 4 KiB; a pass is as many bytes as the three links have. 'baseline' never sleeps; 'ours' lets sides of mirrors rest that nothing was written to for {} s, and each drive \
             goes to standby after as long with nothing to do. Power: Seagate Constellation ES.3 product manual, rev. E, table 2 (9.95 W writing, 7.4 idle, 0.87 in standby, 28.5 at the peak of spinning up); 15 s to spin up (ES.2, rev. H, 2.7).",
            DRIVE_BYTES >> 30,
            AFTER.as_secs_f64(),
        ),
        differs: vec![
            "The paper says that two drives of six can be powered down, 33 %, and measures neither; energy counts what a drive draws in standby and while it begins to turn.".to_owned(),
            "What compaction writes goes to both sides of its link, and so do snapshots of the map to the first link: both wake them.".to_owned(),
        ],
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: Vec::new(),
    })
}
