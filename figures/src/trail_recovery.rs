//! Trail's figure 4: how long a volume with a log device takes to come back after a crash, by how many writes are not yet at home.
//!
//! The paper scans tracks of the log disk by halves for the youngest record, follows its records back to the oldest that is pending, and then
//! writes them home, or serves at once. Here the newest snapshot of the map, on the data disk, says in which log the youngest record is, so
//! that nothing is searched; what a recovery reads are that log, the next one and those used since.

use crate::error::FigureError;
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Report, Row, Value};
use crate::rig::{self, CONSTELLATION, FigureDisk, Queue, System};
use crate::tracks;
use nearhead_disk::Nanos;
use nearhead_engine::Config;
use nearhead_engine::cleaner::AsNeeded;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions};
use nearhead_volume::{Lanes, Volume};

const LOG_DISK: &str = "st41601n";
const DATA_DISK: &str = CONSTELLATION;
/// Writes that are not yet at home when the power goes (the paper's Q).
const PENDING: [u64; 4] = [32, 64, 128, 256];
/// Writes before them, which are: so that logs and snapshots are as after some time.
const BEFORE: u64 = 3000;
const BEFORE_TINY: u64 = 200;
const WRITE_BYTES: u32 = 4 << 10;
const TIME_MAX: Nanos = Nanos::from_secs(3600);

/// What one crash cost.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Until requests are answered.
    serves_ms: f64,
    /// Until all that was pending is at home, counted from the same moment.
    at_home_ms: f64,
    read_bytes: u64,
    logs: u32,
    records: u64,
}

fn as_it_is(_: &mut Config) {}

fn not_written_behind(config: &mut Config) {
    config.cleaner = Box::new(AsNeeded);
}

fn write(
    volume: &mut Volume<FigureDisk>,
    time: &mut VirtualTime,
    count: u64,
    seed: u64,
) -> Result<(), FigureError> {
    let stuck = |problem| FigureError::Stuck { what: "trail4".to_owned(), problem };
    let mut writer = RandomMix::new(RandomMixOptions {
        span: 0..volume.info().size_bytes,
        request_bytes: WRITE_BYTES,
        reads: 0.0,
        fua: true,
        outstanding_max: 1,
        requests_max: Some(count),
        content: Content::random(seed, WRITE_BYTES as usize),
        seed,
    });
    time.run(volume, &mut [&mut writer], TIME_MAX).map_err(stuck)?;
    Ok(())
}

fn until_home(volume: &mut Volume<FigureDisk>, mut now: Nanos) -> Nanos {
    volume.start_checkpoint(true, now);
    loop {
        volume.drive(now);
        let status = volume.status();
        if !status.checkpointing && status.map_entries == 0 {
            return now;
        }
        let Some(wake) = volume.wake_at() else { return now };
        now = wake.max(now);
    }
}

/// The disks, once nothing is on them: what the program had not written is lost with it.
fn crash(mut volume: Volume<FigureDisk>, now: &mut Nanos) -> Lanes<FigureDisk> {
    while !volume.is_quiet() {
        volume.drive(*now);
        let Some(wake) = volume.wake_at() else { break };
        *now = wake.max(*now);
    }
    volume.into_lanes()
}

fn outcome(pending: u64, before: u64) -> Result<Outcome, FigureError> {
    let disk = |name| rig::hard_disk_with_content(name, Queue::InOrder);
    let plain = System { configure: as_it_is, ..System::of_preset("trail")? };
    let (log, data) = (disk(LOG_DISK)?, disk(DATA_DISK)?);
    let known = tracks::of(&log)?;
    let (mut volume, now) = rig::made_behind(log, vec![data], &plain)?;
    let mut time = VirtualTime::starting_at(now);
    write(&mut volume, &mut time, before, 1)?;
    let mut now = until_home(&mut volume, time.now());
    // From here on nothing goes home until the power does.
    let system = System { configure: not_written_behind, ..plain };
    let (mut volume, now) = rig::open_behind(crash(volume, &mut now), &known, &system, now)?;
    let mut time = VirtualTime::starting_at(now);
    write(&mut volume, &mut time, pending, 2)?;
    let mut cut_at = time.now();
    let lanes = crash(volume, &mut cut_at);
    let (mut volume, serves_at) = rig::open_behind(lanes, &known, &system, cut_at)?;
    let status = volume.status();
    let at_home = until_home(&mut volume, serves_at);
    let ms = |at: Nanos| at.since(cut_at).as_secs_f64() * 1e3;
    Ok(Outcome {
        serves_ms: ms(serves_at),
        at_home_ms: ms(at_home),
        read_bytes: status.recovery_read_bytes,
        logs: status.recovery_logs,
        records: status.recovery_records,
    })
}

/// The figure.
pub(crate) fn trail4(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let before = lab.effort.pick(BEFORE, BEFORE, BEFORE_TINY);
    let steps = PENDING.map(|pending| (format!("{pending} pending"), pending));
    let done = lab.each("trail4", steps.to_vec(), |_, pending| outcome(pending, before))?;
    let mut rows = Vec::new();
    let columns = ["pending", "serves_ms", "at_home_ms", "read_bytes", "logs_read", "records"];
    let mut data = Data::new("recovery", &columns);
    for (pending, outcome) in PENDING.iter().zip(&done) {
        rows.push(
            Row::new(format!("until requests are answered, {pending} writes pending"), "ms")
                .ours(outcome.serves_ms),
        );
        let factor = outcome.at_home_ms / outcome.serves_ms;
        let paper = (*pending == 256).then_some(PAPERS.trail.recovery_writeback_factor);
        rows.push(
            Row::new(format!("the same with all of it written home first, {pending}"), "x")
                .paper(paper)
                .ours(factor),
        );
        data.push([
            pending.to_string(),
            format!("{:.1}", outcome.serves_ms),
            format!("{:.1}", outcome.at_home_ms),
            outcome.read_bytes.to_string(),
            outcome.logs.to_string(),
            outcome.records.to_string(),
        ]);
    }
    rows.push(
        Row::new("finding the youngest record on the log disk", "ms")
            .paper(PAPERS.trail.recovery_locate_ms)
            .ours(Value::Words("not searched: a snapshot names its log".to_owned())),
    );
    Ok(Report {
        name: "trail4",
        title: "Trail 4: recovery with a log disk".to_owned(),
        ran: format!(
            "{before} synchronous writes of 4 KiB to random places, written behind, then so many more that are not, then a crash: an {LOG_DISK} \
             before one {DATA_DISK}. Serving begins once the map is there; nothing is written before it."
        ),
        differs: vec![
            "The paper's log disk has to be searched, by halves, for its youngest record. A snapshot of the map on the data disk names its log \
             here, which takes the place of the search; it costs the data disk a few writes after each pass of writing behind."
                .to_owned(),
            "The paper reads pending records one by one, from the youngest back; here the logs they are in are read whole.".to_owned(),
        ],
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: Vec::new(),
    })
}
