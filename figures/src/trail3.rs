//! Trail's figure 3 without its log disk: how long a small synchronous write takes on the very disk that holds the data.
//!
//! Trail gives a whole disk to the log and writes where its head will be. Here the log lies between the data of the same disk, so
//! the arm has to go there and the records must find a place; what is compared is the paper's own axis, the plain disk in place.

use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CONSTELLATION, Queue, System};
use crate::spent::Spent;
use crate::trail_writes::{Case, Mode, SPARSE_PER_S, Times, cases, chart, speedup_row};
use nearhead_disk::Nanos;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::Workload;

/// The slowest of the disks that are part of the program.
const DISK: &str = CONSTELLATION;
/// Sizes of a write, in bytes.
const SIZES: [u32; 6] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// In place first: what the others are compared with.
const SYSTEMS: [&str; 4] = ["nolog", "singlelog", "mlb", "nearhead"];
const IN_PLACE: usize = 0;
const NEARHEAD: usize = 3;
const DRAIN_LIMIT: Nanos = Nanos::from_secs(30);

fn outcome(case: Case, name: &str, measured: Nanos) -> Result<Times, FigureError> {
    let disk = rig::hard_disk(DISK, Queue::InOrder)?;
    let mut volume = rig::volume(disk, &System::of_preset(name)?)?;
    let stuck = |problem| FigureError::Stuck { what: format!("{case:?} on {name}"), problem };
    let mut writer = case.writer(&volume);
    let mut time = VirtualTime::default();
    let warm_up = Nanos::from_secs(4);
    time.run(&mut volume, &mut [&mut writer], warm_up).map_err(stuck)?;
    writer.start_measuring(warm_up);
    let before = volume.disk().disk().spent();
    let ends = warm_up + measured;
    time.run(&mut volume, &mut [&mut writer], ends).map_err(stuck)?;
    let after = volume.disk().disk().spent();
    let summary = writer.inner.writes().summary(ends);
    time.drain(&mut volume, &mut [&mut writer], DRAIN_LIMIT).map_err(stuck)?;
    succeeded(name, &[&summary])?;
    let spent: Option<Spent> =
        before.zip(after).map(|(before, after)| after.since(&before, measured));
    let rotation_ms = spent.map_or(f64::NAN, |spent| spent.rotation_ms);
    Ok(Times {
        mean_ms: summary.latency.mean_ms,
        rotation_ms: rotation_ms / summary.requests.max(1) as f64,
    })
}

/// The figure.
pub(crate) fn trail3(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let measured = Nanos::from_secs(lab.effort.pick(20, 10, 2));
    let cases = cases(&SIZES);
    let steps = cases.iter().map(|case| (case.step(), *case));
    let done = lab.each("trail3", steps.collect(), |_, case| {
        SYSTEMS.iter().map(|name| outcome(case, name, measured)).collect::<Result<Vec<_>, _>>()
    })?;
    let pairs: Vec<_> = done.iter().map(|times| (times[IN_PLACE], times[NEARHEAD])).collect();
    let told = cases.iter().zip(&pairs);
    let mut all: Vec<Row> =
        told.flat_map(|(case, (in_place, ours))| case.rows(*in_place, *ours)).collect();
    all.push(speedup_row("in place", pairs.into_iter()));
    let columns = ["mode", "processes", "bytes", "system", "mean_ms", "rotation_ms"];
    let mut data = Data::new("latencies", &columns);
    for (case, outcomes) in cases.iter().zip(&done) {
        for (name, outcome) in SYSTEMS.iter().zip(outcomes) {
            let [mode, processes, bytes] = case.columns();
            data.push([
                mode,
                processes,
                bytes,
                (*name).to_owned(),
                format!("{:.4}", outcome.mean_ms),
                format!("{:.4}", outcome.rotation_ms),
            ]);
        }
    }
    let clustered =
        chart(&cases, Mode::Clustered, &SYSTEMS, |case, system| done[case][system].mean_ms);
    Ok(Report {
        name: "trail3",
        title: "Trail 3 on one disk: synchronous writes without a disk for the log".to_owned(),
        ran: format!(
            "Synchronous writes to random places of one {DISK}, in order, its write cache off, {} s each after 4 s: \
             clustered, the next write of a process as soon as the last one is durable, and sparse, {SPARSE_PER_S} a second \
             of each process. Baseline: in place; ours: the preset nearhead, whose logs lie between the data of the same disk. \
             Nothing is brought home meanwhile.",
            measured.as_secs_f64()
        ),
        differs: vec![
            "The paper's numbers are those of a disk that nothing but the log uses: its head is never away, and a \
             write is answered before its data's own disk has moved. It compares with IDE disks of which nothing more \
             is known; here both sides are the same disk."
                .to_owned(),
            "Its log disk, an ST41601N, turns 5,400 times a minute (11.1 ms), this one 7,200 times (8.3 ms); its data lie on disks \
             of 10 GB, here all over a TB."
                .to_owned(),
            "Its figure shows 1 KiB and more; the 4 KiB that it gives in words stand beside one process.".to_owned(),
        ],
        findings: Vec::new(),
        rows: all,
        data: vec![data],
        drawings: vec![Drawing::new("clustered", clustered.render())?],
    })
}
