//! Gecko's figures 3, 5 and 6: what cleaning costs clients who write 4 KB at random, on a log over a RAID-0 of two drives and on chains of
//! the same two.
//!
//! The first drive of the chain is full when the measurement begins, as in the paper, and the tail is on the second; half of the log over
//! the RAID-0 is written then. Cleaning may begin 30 s later. What a drive takes by itself, written from its start in large transfers, is
//! measured beside them.

use crate::chart::LineChart;
use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, FigureDisk, SATA, System};
use nearhead_disk::Nanos;
use nearhead_engine::Config;
use nearhead_engine::cleaner::{Cleaner, CleaningView, CompactInBody, Move, MoveToTail, WhenFull};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Bulk, BulkOptions, Content, RandomMix, RandomMixOptions};
use nearhead_volume::Volume;

/// A drive of 120 MB/s at its outer edge, as the paper's.
const DRIVE: &str = rig::CHEETAH;
/// So much of each is used.
const DRIVE_BYTES: u64 = 8 << 30;
/// Writes outstanding: two records full of them.
const OUTSTANDING: u32 = 2048;
/// Before cleaning may begin.
pub(crate) const BEFORE: Nanos = Nanos::from_secs(30);
/// While the log has room that was never written, behind that: what the paper shows.
const SHOWN_S: usize = 60;
/// At the end cleaning has to make all the room.
const LAST_S: usize = 30;
/// The mean of so many seconds before and after counts, from so many after either began.
const SETTLED_S: usize = 5;

/// Cleaning that begins by itself some time after half of the logs are written.
#[derive(Clone, Debug)]
struct Later {
    cleaner: Box<dyn Cleaner>,
    half_at: Option<Nanos>,
}

impl Later {
    fn new(cleaner: impl Cleaner + 'static) -> Self {
        Self { cleaner: Box::new(cleaner), half_at: None }
    }
}

impl Cleaner for Later {
    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        if self.half_at.is_none() && view.last_log < view.logs.count() / 2 {
            return None;
        }
        let half_at = *self.half_at.get_or_insert(view.now);
        if view.now < half_at + BEFORE {
            return None;
        }
        self.cleaner.relocate(view)
    }

    fn when_full(&self) -> WhenFull {
        self.cleaner.when_full()
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(self.clone())
    }
}

/// Cleaning begins as soon as it may.
fn eager(config: &mut Config) {
    rig::off_hours(config);
    config.cleaning.watermark_pct = Some(1);
}

fn to_tail(config: &mut Config) {
    eager(config);
    config.cleaner = Box::new(Later::new(MoveToTail::default()));
}

pub(crate) fn in_body(config: &mut Config) {
    eager(config);
    config.cleaner = Box::new(Later::new(CompactInBody::default()));
}

/// Who cleans, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// One log over a RAID-0.
    Raid0,
    /// A chain, cleaned to its tail.
    Tail,
    /// A chain, compacted in its body.
    Body,
}

impl Case {
    const ALL: [Self; 3] = [Self::Raid0, Self::Tail, Self::Body];

    fn name(self) -> &'static str {
        match self {
            Self::Raid0 => "log on RAID-0, to its tail",
            Self::Tail => "chain, move to tail",
            Self::Body => "chain, compact in body",
        }
    }

    fn volume(self) -> Result<Volume<FigureDisk>, FigureError> {
        let configure = if self == Self::Body { in_body } else { to_tail };
        let system = System { configure, ..System::of_preset("gecko")? };
        let disk = || rig::hard_disk(DRIVE, SATA);
        match self {
            Self::Raid0 => {
                let array = rig::striped(DRIVE, 2, SATA, false)?;
                rig::chain(vec![array], &system, 2 * DRIVE_BYTES)
            }
            Self::Tail | Self::Body => rig::chain(vec![disk()?, disk()?], &system, DRIVE_BYTES),
        }
    }
}

/// Megabytes of each second, from when half of the logs were written.
#[derive(Clone, Debug, Default)]
struct Seconds {
    clients: Vec<f64>,
    cleaning: Vec<f64>,
}

impl Seconds {
    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len().max(1) as f64
    }

    fn before(values: &[f64]) -> f64 {
        let end = (BEFORE.as_secs_f64() as usize).min(values.len());
        Self::mean(&values[SETTLED_S.min(end)..end])
    }

    fn after(values: &[f64]) -> f64 {
        let from = BEFORE.as_secs_f64() as usize + SETTLED_S;
        Self::mean(&values[from.min(values.len())..SHOWN_S.min(values.len())])
    }

    fn at_last(values: &[f64]) -> f64 {
        Self::mean(&values[values.len().saturating_sub(LAST_S)..])
    }
}

fn run(case: Case, seconds: u64) -> Result<Seconds, FigureError> {
    let stuck = |problem| FigureError::Stuck { what: case.name().to_owned(), problem };
    let mut volume = case.volume()?;
    let mut writer = RandomMix::new(RandomMixOptions {
        span: 0..volume.info().size_bytes,
        request_bytes: 4096,
        reads: 0.0,
        fua: true,
        outstanding_max: OUTSTANDING,
        requests_max: None,
        content: Content::Phantom,
        seed: 1,
    });
    let mut time = VirtualTime::default();
    let half = volume.engine().log_count() / 2;
    while volume.engine().newest_log() < half {
        let until = time.now() + Nanos::from_millis(100);
        time.run(&mut volume, &mut [&mut writer], until).map_err(stuck)?;
    }
    let mut found = Seconds::default();
    let sample = |volume: &Volume<FigureDisk>, writer: &RandomMix| {
        let stats = volume.status().stats;
        (writer.writes().bytes, stats.compacted_bytes + stats.swapped_bytes)
    };
    let (from, mut last) = (time.now(), sample(&volume, &writer));
    for second in 1..=seconds {
        let until = from + Nanos::from_secs(second);
        time.run(&mut volume, &mut [&mut writer], until).map_err(stuck)?;
        let now = sample(&volume, &writer);
        found.clients.push((now.0 - last.0) as f64 / 1e6);
        found.cleaning.push((now.1 - last.1) as f64 / 1e6);
        last = now;
    }
    succeeded(case.name(), &[&writer.writes().summary(time.now())])?;
    Ok(found)
}

/// What one drive takes where the logs are, in MB/s: 1 MiB after the other, four outstanding.
fn one_drive(seconds: u64) -> Result<f64, FigureError> {
    let stuck = |problem| FigureError::Stuck { what: "one drive".to_owned(), problem };
    let mut bare = rig::bare(rig::hard_disk(DRIVE, SATA)?);
    let options = BulkOptions::writer(0..DRIVE_BYTES, Content::Phantom);
    let mut writer =
        Bulk::new(BulkOptions { request_bytes: 1 << 20, outstanding_max: 4, ..options });
    let mut time = VirtualTime::default();
    time.run(&mut bare, &mut [&mut writer], Nanos::from_secs(seconds)).map_err(stuck)?;
    Ok(writer.tally().summary(time.now()).bytes_per_s / 1e6)
}

/// The figure.
pub(crate) fn gecko_cleaning(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let seconds = lab.effort.pick(180, 180, 40);
    let steps = Case::ALL.map(|case| (case.name().to_owned(), case));
    let done = lab.each("gecko-cleaning", steps.to_vec(), |_, case| run(case, seconds))?;
    let one = one_drive(lab.effort.pick(20, 10, 2))?;
    let paper = &PAPERS.gecko;
    let [raid0, tail, body] = [0, 1, 2].map(|case| &done[case]);
    let all = |found: &Seconds| Seconds::after(&found.clients) + Seconds::after(&found.cleaning);
    let row = |told: &str| Row::new(told.to_owned(), "MB/s").baseline(one);
    let rows = vec![
        row("log on RAID-0: clients, before cleaning")
            .paper(paper.lfs_before_mb_s)
            .ours(Seconds::before(&raid0.clients)),
        row("log on RAID-0: clients, while cleaning")
            .paper(paper.lfs_during_mb_s)
            .ours(Seconds::after(&raid0.clients)),
        row("chain, move to tail: clients, before cleaning")
            .paper(paper.tail_before_mb_s)
            .ours(Seconds::before(&tail.clients)),
        row("chain, move to tail: clients, while cleaning")
            .paper(paper.tail_app_mb_s)
            .ours(Seconds::after(&tail.clients)),
        row("chain, move to tail: clients and cleaning together").ours(all(tail)),
        row("chain, compact in body: clients, before cleaning")
            .paper(paper.body_mb_s)
            .ours(Seconds::before(&body.clients)),
        row("chain, compact in body: clients, while cleaning")
            .paper(paper.body_mb_s)
            .ours(Seconds::after(&body.clients)),
        row("chain, compact in body: copied").ours(Seconds::after(&body.cleaning)),
        row("log on RAID-0: clients, at the end").ours(Seconds::at_last(&raid0.clients)),
        row("chain, move to tail: clients, at the end").ours(Seconds::at_last(&tail.clients)),
        row("chain, compact in body: clients, at the end").ours(Seconds::at_last(&body.clients)),
    ];
    let mut data = Data::new("seconds", &["case", "second", "clients_mb_s", "cleaning_mb_s"]);
    for (case, found) in Case::ALL.iter().zip(&done) {
        for (second, (clients, cleaning)) in found.clients.iter().zip(&found.cleaning).enumerate() {
            data.push([
                case.name().to_owned(),
                (second + 1).to_string(),
                format!("{clients:.1}"),
                format!("{cleaning:.1}"),
            ]);
        }
    }
    let series = Case::ALL.iter().zip(&done).map(|(case, found)| {
        let points = found.clients.iter().enumerate();
        let points = points.map(|(second, value)| (second as f64 + 1.0, *value)).collect();
        (case.name().to_owned(), points)
    });
    let chart = LineChart {
        title: "Random 4 KB writes before and while the log is cleaned",
        x_label: "seconds; cleaning may begin after 30",
        y_label: "MB/s of the clients",
        x_decades: false,
        y_decades: false,
        series: series.collect(),
    };
    Ok(Report {
        name: "gecko-cleaning",
        title: "Gecko 3, 5 and 6: random writes while the log is cleaned".to_owned(),
        ran: format!(
            "4 KiB writes to random places, {OUTSTANDING} outstanding, each answered once it is durable, on the first {} GiB of two {DRIVE}, write \
             caches off: preset gecko over a RAID-0 of them in chunks of 64 KiB, and over a chain of them. 'baseline' is one drive by itself, \
             written from its start, 1 MiB after the other, four outstanding. While cleaning: means from {SETTLED_S} s after it may begin to {SHOWN_S} s, while there still is room that was never written; at the end: of the last \
             {LAST_S} of {seconds} s, when all room is what cleaning makes.",
            DRIVE_BYTES >> 30
        ),
        differs: vec![
            "Every write is durable when it is answered; in the paper nobody asks for that.".to_owned(),
            "Cleaning reads a log in pieces of 128 KiB over what is not needed, and cleans the log first of which least is needed.".to_owned(),
        ],
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: vec![Drawing::new("cleaning", chart.render())?],
    })
}
