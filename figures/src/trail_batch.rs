//! Trail's table 1: 32 writes of one sector, so many of them at a time, and how long they take together.

use crate::error::FigureError;
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Report, Row};
use crate::rig::{self, CONSTELLATION, FigureDisk, Queue, System};
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions};
use nearhead_volume::Volume;

const LOG_DISK: &str = "st41601n";
const DATA_DISK: &str = CONSTELLATION;
const WRITES: u64 = 32;
/// Writes at a time, as in the paper's table.
const BATCHES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Before what is measured, so that the drive is known.
const BEFORE: u64 = 3000;
const TIME_MAX: Nanos = Nanos::from_secs(3600);

fn write(
    volume: &mut Volume<FigureDisk>,
    time: &mut VirtualTime,
    (count, at_once): (u64, u32),
    seed: u64,
) -> Result<Nanos, FigureError> {
    let stuck = |problem| FigureError::Stuck { what: "trail1".to_owned(), problem };
    let mut writer = RandomMix::new(RandomMixOptions {
        span: 0..volume.info().size_bytes,
        request_bytes: 512,
        reads: 0.0,
        fua: true,
        outstanding_max: at_once,
        requests_max: Some(count),
        content: Content::Phantom,
        seed,
    });
    let from = time.now();
    time.run(volume, &mut [&mut writer], TIME_MAX).map_err(stuck)?;
    Ok(time.now().since(from))
}

/// The mean of so many runs, and writes in a record.
fn outcome(at_once: u32, runs: u64) -> Result<(f64, f64), FigureError> {
    let log = rig::hard_disk(LOG_DISK, Queue::InOrder)?;
    let data = rig::hard_disk(DATA_DISK, Queue::InOrder)?;
    let system = System { configure: |_| {}, ..System::of_preset("trail")? };
    let mut volume = rig::volume_behind(log, vec![data], &system)?;
    let mut time = VirtualTime::default();
    write(&mut volume, &mut time, (BEFORE, at_once), 1)?;
    let before = volume.status().stats.records;
    let mut elapsed = Nanos::ZERO;
    for run in 0..runs {
        elapsed += write(&mut volume, &mut time, (WRITES, at_once), 2 + run)?;
    }
    let records = volume.status().stats.records - before;
    let writes = (WRITES * runs) as f64;
    Ok((elapsed.as_secs_f64() * 1e3 / runs as f64, writes / records.max(1) as f64))
}

/// The table.
pub(crate) fn trail1(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = lab.effort.pick(100, 30, 3);
    let steps = BATCHES.map(|at_once| (format!("{at_once} at a time"), at_once));
    let done = lab.each("trail1", steps.to_vec(), |_, at_once| outcome(at_once, runs))?;
    let mut data = Data::new("batches", &["at_a_time", "elapsed_ms", "writes_per_record"]);
    let mut rows = Vec::new();
    for ((at_once, (elapsed_ms, batch)), paper) in
        BATCHES.iter().zip(&done).zip(PAPERS.trail.batch_elapsed_ms)
    {
        let told = format!("{WRITES} writes of a sector, {at_once} at a time");
        rows.push(Row::new(told, "ms").paper(paper).ours(*elapsed_ms));
        data.push([at_once.to_string(), format!("{elapsed_ms:.2}"), format!("{batch:.2}")]);
    }
    Ok(Report {
        name: "trail1",
        title: "Trail, table 1: writes in batches on a log disk".to_owned(),
        ran: format!(
            "{WRITES} synchronous writes of 512 B to random places, so many at a time, the next ones as soon as all are durable: an {LOG_DISK} \
             whose tracks are known before one {DATA_DISK}; the mean of {runs} runs behind {BEFORE} writes."
        ),
        differs: vec![
            "A record is a header of a sector and the data, as in the paper; what it takes to begin with a write is that of a drive of the same \
             kind that others measured."
                .to_owned(),
        ],
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: Vec::new(),
    })
}
