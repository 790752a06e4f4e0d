//! Gecko's figures 3, 5 and 6: what cleaning costs clients who write 4 KB at random, on a log over a RAID-0 of two drives and on chains of
//! the same two; cleaned as the program does it, and in the order of the log, chunk by chunk, as the paper describes its simplest way.
//!
//! The first drive of the chain is full when the measurement begins, as in the paper, and the tail is on the second; half of the log over
//! the RAID-0 is written then. Cleaning may begin 30 s later. What a drive takes by itself, written from its start in large transfers, is
//! measured beside them.

use crate::chart::LineChart;
use crate::contention::succeeded;
use crate::error::FigureError;
use crate::in_log_order::InLogOrder;
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, FigureDisk, SATA, System};
use nearhead_disk::Nanos;
use nearhead_engine::Config;
use nearhead_engine::cleaner::{
    Cleaner, CleaningView, CompactInBody, Move, MoveToTail, Reading, WhenFull,
};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Bulk, BulkOptions, Content, RandomMix, RandomMixOptions};
use nearhead_volume::Volume;
use std::ops::Range;

/// A drive of 120 MB/s at its outer edge, as the paper's.
const DRIVE: &str = rig::CHEETAH;
/// Writes outstanding: two records full of them.
const OUTSTANDING: u32 = 2048;
/// How much is used, and when what is measured, from when half of the logs were written.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Of each drive.
    drive_bytes: u64,
    /// Before cleaning may begin.
    before_s: usize,
    /// While the log has room that was never written, behind that: what the paper shows of its chains.
    shown_s: usize,
    /// All of it.
    seconds: usize,
    /// At the end cleaning has to make all the room.
    last_s: usize,
    /// The mean of so many seconds before and after counts, from so many after either began.
    settled_s: usize,
}

impl Scale {
    const PAPER: Self = Self {
        drive_bytes: 8 << 30,
        before_s: 30,
        shown_s: 60,
        seconds: 180,
        last_s: 30,
        settled_s: 5,
    };
    const TINY: Self = Self {
        drive_bytes: 1 << 30,
        before_s: 3,
        shown_s: 6,
        seconds: 20,
        last_s: 8,
        settled_s: 1,
    };

    fn mean(values: &[f64], range: Range<usize>) -> f64 {
        let end = range.end.min(values.len());
        let chosen = &values[range.start.min(end)..end];
        chosen.iter().sum::<f64>() / chosen.len().max(1) as f64
    }

    fn before(&self, values: &[f64]) -> f64 {
        Self::mean(values, self.settled_s..self.before_s)
    }

    fn after(&self, values: &[f64]) -> f64 {
        Self::mean(values, self.before_s + self.settled_s..self.shown_s)
    }

    fn at_last(&self, values: &[f64]) -> f64 {
        Self::mean(values, self.seconds - self.last_s..self.seconds)
    }
}

/// Cleaning that begins by itself some time after half of the logs are written.
#[derive(Clone, Debug)]
struct Later {
    cleaner: Box<dyn Cleaner>,
    before: Nanos,
    half_at: Option<Nanos>,
}

impl Cleaner for Later {
    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        if self.half_at.is_none() && view.last_log < view.logs.count() / 2 {
            return None;
        }
        let half_at = *self.half_at.get_or_insert(view.now);
        if view.now < half_at + self.before {
            return None;
        }
        self.cleaner.relocate(view)
    }

    fn reading(&self) -> Reading {
        self.cleaner.reading()
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

/// Cleaning begins so long after half of the logs are written.
pub(crate) const BEFORE: Nanos = Nanos::from_secs(Scale::PAPER.before_s as u64);

/// Cleaning within the body of a chain, from then on.
pub(crate) fn in_body(config: &mut Config) {
    eager(config);
    let cleaner = Box::new(CompactInBody::default());
    config.cleaner = Box::new(Later { cleaner, before: BEFORE, half_at: None });
}

/// Who cleans, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// One log over a RAID-0, cleaned as the paper describes its simplest way.
    Raid0InOrder,
    /// The same as the program cleans.
    Raid0,
    /// A chain, cleaned in that simplest way.
    TailInOrder,
    /// A chain, cleaned to its tail as the program does it.
    Tail,
    /// A chain, compacted in its body.
    Body,
}

impl Case {
    const ALL: [Self; 5] =
        [Self::Raid0InOrder, Self::Raid0, Self::TailInOrder, Self::Tail, Self::Body];

    fn name(self) -> &'static str {
        match self {
            Self::Raid0InOrder => "log on RAID-0, in log order",
            Self::Raid0 => "log on RAID-0, emptiest first",
            Self::TailInOrder => "chain, to its tail in log order",
            Self::Tail => "chain, move to tail",
            Self::Body => "chain, compact in body",
        }
    }

    fn cleaner(self) -> Box<dyn Cleaner> {
        match self {
            Self::Raid0InOrder | Self::TailInOrder => Box::new(InLogOrder),
            Self::Raid0 | Self::Tail => Box::new(MoveToTail::default()),
            Self::Body => Box::new(CompactInBody::default()),
        }
    }

    fn volume(self, scale: Scale) -> Result<Volume<FigureDisk>, FigureError> {
        let before = Nanos::from_secs(scale.before_s as u64);
        let configure = |config: &mut Config| {
            eager(config);
            config.cleaner = Box::new(Later { cleaner: self.cleaner(), before, half_at: None });
        };
        let system = System::of_preset("gecko")?;
        let disk = || rig::hard_disk(DRIVE, SATA);
        match self {
            Self::Raid0InOrder | Self::Raid0 => {
                let array = rig::striped(DRIVE, 2, SATA, false)?;
                rig::chain(vec![array], &system, 2 * scale.drive_bytes, configure)
            }
            Self::TailInOrder | Self::Tail | Self::Body => {
                rig::chain(vec![disk()?, disk()?], &system, scale.drive_bytes, configure)
            }
        }
    }
}

/// Megabytes of each second, from when half of the logs were written.
#[derive(Clone, Debug, Default)]
struct Seconds {
    clients: Vec<f64>,
    cleaning: Vec<f64>,
}

fn run(case: Case, scale: Scale) -> Result<Seconds, FigureError> {
    let stuck = |problem| FigureError::Stuck { what: case.name().to_owned(), problem };
    let mut volume = case.volume(scale)?;
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
    for second in 1..=scale.seconds as u64 {
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

/// What a disk takes by itself in MB/s, written from its start in such requests, four outstanding.
pub(crate) fn written_through(
    disk: FigureDisk,
    bytes: u64,
    request_bytes: u32,
    measured: Nanos,
) -> Result<f64, FigureError> {
    let stuck = |problem| FigureError::Stuck { what: "one link".to_owned(), problem };
    let mut bare = rig::bare(disk);
    let options = BulkOptions::writer(0..bytes, Content::Phantom);
    let mut writer = Bulk::new(BulkOptions { request_bytes, outstanding_max: 4, ..options });
    let mut time = VirtualTime::default();
    time.run(&mut bare, &mut [&mut writer], measured).map_err(stuck)?;
    Ok(writer.tally().summary(time.now()).bytes_per_s / 1e6)
}

/// Compared with the paper: what its figures 3, 5 and 6 show, each where it was measured.
fn rows(scale: Scale, done: &[Seconds], one: f64) -> Vec<Row> {
    let paper = &PAPERS.gecko;
    let mut rows = Vec::new();
    for (case, found) in Case::ALL.into_iter().zip(done) {
        let (clients, cleaning) = (&found.clients, &found.cleaning);
        let row = |told: &str| Row::new(format!("{}: {told}", case.name()), "MB/s").baseline(one);
        let (before, after, at_last) =
            (scale.before(clients), scale.after(clients), scale.at_last(clients));
        let (first, during) = ("clients, before cleaning", "clients, while cleaning");
        match case {
            Case::Raid0InOrder => {
                rows.push(row(first).paper(paper.lfs_before_mb_s).ours(before));
                let full = row("clients, cleaning and the log full");
                rows.push(full.paper(paper.lfs_during_mb_s).ours(at_last));
                continue;
            }
            Case::Raid0 => {
                rows.push(row(first).paper(paper.lfs_before_mb_s).ours(before));
                rows.push(row(during).ours(after));
            }
            Case::TailInOrder | Case::Tail => {
                rows.push(row(first).paper(paper.tail_before_mb_s).ours(before));
                rows.push(row(during).paper(paper.tail_app_mb_s).ours(after));
                let together = after + scale.after(cleaning);
                let told = row("clients and cleaning together, while cleaning");
                rows.push(told.paper(paper.tail_before_mb_s).ours(together));
            }
            Case::Body => {
                rows.push(row(first).paper(paper.body_mb_s).ours(before));
                rows.push(row(during).paper(paper.body_mb_s).ours(after));
                rows.push(row("copied, while cleaning").ours(scale.after(cleaning)));
            }
        }
        rows.push(row("clients, at the end").ours(at_last));
    }
    rows
}

fn data(done: &[Seconds]) -> Data {
    let mut data = Data::new("seconds", &["case", "second", "clients_mb_s", "cleaning_mb_s"]);
    for (case, found) in Case::ALL.iter().zip(done) {
        for (second, (clients, cleaning)) in found.clients.iter().zip(&found.cleaning).enumerate() {
            data.push([
                case.name().to_owned(),
                (second + 1).to_string(),
                format!("{clients:.1}"),
                format!("{cleaning:.1}"),
            ]);
        }
    }
    data
}

fn chart(scale: Scale, done: &[Seconds]) -> Result<Drawing, FigureError> {
    let series = Case::ALL.iter().zip(done).map(|(case, found)| {
        let points = found.clients.iter().enumerate();
        let points = points.map(|(second, value)| (second as f64 + 1.0, *value)).collect();
        (case.name().to_owned(), points)
    });
    let x_label = format!("seconds; cleaning may begin after {}", scale.before_s);
    let chart = LineChart {
        title: "Random 4 KB writes before and while the log is cleaned",
        x_label: &x_label,
        y_label: "MB/s of the clients",
        x_decades: false,
        y_decades: false,
        series: series.collect(),
    };
    Drawing::new("cleaning", chart.render())
}

/// The figure.
pub(crate) fn gecko_cleaning(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let scale = lab.effort.pick(Scale::PAPER, Scale::PAPER, Scale::TINY);
    let steps = Case::ALL.map(|case| (case.name().to_owned(), case));
    let done = lab.each("gecko-cleaning", steps.to_vec(), |_, case| run(case, scale))?;
    let measured = Nanos::from_secs(lab.effort.pick(20, 10, 2));
    let drive_bytes = Scale::PAPER.drive_bytes;
    let one = written_through(rig::hard_disk(DRIVE, SATA)?, drive_bytes, 1 << 20, measured)?;
    let Scale { drive_bytes, before_s, shown_s, seconds, last_s, settled_s } = scale;
    Ok(Report {
        name: "gecko-cleaning",
        title: "Gecko 3, 5 and 6: random writes while the log is cleaned".to_owned(),
        ran: format!(
            "4 KiB writes to random places, {OUTSTANDING} outstanding, each answered once it is durable, on the first {} GiB of two {DRIVE}, write \
             caches off: preset gecko over a RAID-0 of them in chunks of 64 KiB, and over a chain of them. Cleaning may begin {before_s} s after half of the logs were \
             written. 'baseline' is one drive by itself, written from its start, 1 MiB after the other, four outstanding. While cleaning: means from {settled_s} s after it \
             may begin to {shown_s} s, while there still is room that was never written; at the end, and full: of the last {last_s} of {seconds} s, when all room is what \
             cleaning makes. In log order is the paper's simplest way: of the log that was written first each chunk that is needed is read by itself, one after the other, \
             and appended at the tail.",
            drive_bytes >> 30
        ),
        differs: vec![
            "Every write is durable when it is answered; in the paper nobody asks for that.".to_owned(),
            "The paper's RAID-0 is filled before it begins, so that its clients get what cleaning makes; that is where 'cleaning and the log full' is taken. Its \
             chain has the whole second drive to write, and so has ours while it is cleaned."
                .to_owned(),
            "But in log order cleaning reads a log in pieces of up to 1 MiB over what is not needed, and takes the log first of which least is needed.".to_owned(),
            "In log order what was read is appended once it is 2 MiB: a record for each chunk would take as much room as it makes.".to_owned(),
        ],
        findings: Vec::new(),
        rows: rows(scale, &done, one),
        data: vec![data(&done)],
        drawings: vec![chart(scale, &done)?],
    })
}
