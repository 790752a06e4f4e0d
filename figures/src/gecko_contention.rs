//! Gecko's figure 2 for a log over the array and for a chain of its drives: sequential writers, without and with one random writer.
//!
//! The clients are those of `gecko2`; nothing is cleaned. The bare array is the paper's *raw disk*; of a file system and of virtual machines
//! nothing is modelled. A chain gives one drive's bandwidth to everybody, so it is to be compared with what the array keeps beside a random
//! writer, not with what it has without.

use crate::chart::LineChart;
use crate::error::FigureError;
use crate::gecko2::{Other, Point, run_on};
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row, Value};
use crate::rig::{self, CONSTELLATION, Queue, System};
use nearhead_disk::Nanos;
use nearhead_format::AckMode;

const DISKS: u32 = 4;
/// Of each drive so much is used, by all systems: nothing is written twice in any run.
const DRIVE_BYTES: u64 = 16 << 30;
const WRITERS: [u32; 5] = [1, 2, 4, 6, 8];

/// What the clients write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    /// The bare array.
    Raw,
    /// One log over the array.
    Log,
    /// A chain of its drives.
    Chain,
}

impl Stack {
    const ALL: [Self; 3] = [Self::Raw, Self::Log, Self::Chain];

    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw RAID-0",
            Self::Log => "log on RAID-0",
            Self::Chain => "chain",
        }
    }

    fn point(self, count: u32, other: Other, measured: Nanos) -> Result<Point, FigureError> {
        let array = || rig::striped(CONSTELLATION, DISKS, Queue::InOrder, true);
        let system = System { ack: AckMode::Flush, ..System::of_preset("gecko")? };
        let (all, what) = (DRIVE_BYTES * u64::from(DISKS), self.name());
        match self {
            Self::Raw => run_on(&mut rig::bare(array()?), all, count, other, measured, what),
            Self::Log => {
                let mut volume = rig::chain(vec![array()?], &system, all, |_| {})?;
                let span = volume_bytes(&volume);
                run_on(&mut volume, span, count, other, measured, what)
            }
            Self::Chain => {
                let disk = |_| rig::cached_hard_disk(CONSTELLATION, Queue::InOrder);
                let disks: Result<Vec<_>, _> = (0..DISKS).map(disk).collect();
                let mut volume = rig::chain(disks?, &system, DRIVE_BYTES, |_| {})?;
                let span = volume_bytes(&volume);
                run_on(&mut volume, span, count, other, measured, what)
            }
        }
    }
}

fn volume_bytes(service: &impl nearhead_service::Service) -> u64 {
    service.info().size_bytes
}

/// Alone, and beside the random writer, of each stack.
type Points = [(Point, Point); 3];

fn points(count: u32, measured: Nanos) -> Result<Points, FigureError> {
    let mut points = Points::default();
    for (stack, point) in Stack::ALL.into_iter().zip(&mut points) {
        let alone = stack.point(count, Other::Nobody, measured)?;
        *point = (alone, stack.point(count, Other::Random, measured)?);
    }
    Ok(points)
}

fn mb(point: Point) -> f64 {
    point.sequential_bytes_per_s / 1e6
}

fn rows(counts: &[u32], done: &[Points]) -> Result<Vec<Row>, FigureError> {
    let paper = &PAPERS.gecko;
    let one = rig::mechanics(CONSTELLATION)?.bandwidth(0) / 1e6;
    let limit = one * f64::from(DISKS);
    let mut rows = Vec::new();
    for (count, [raw, others @ ..]) in counts.iter().zip(done) {
        for (stack, ours) in Stack::ALL[1..].iter().zip(others) {
            let row = |told: &str, raw: Point, ours: Point| {
                let case = format!("bandwidth, {}, {count} sequential {told}", stack.name());
                Row::new(case, "MB/s").baseline(mb(raw)).ours(mb(ours)).limit(limit)
            };
            rows.push(row("alone", raw.0, ours.0));
            rows.push(row("+ 1 random", raw.1, ours.1));
            let collapse = |(alone, mixed): (Point, Point)| mb(alone) / mb(mixed).max(1e-3);
            let most = format!("over {:.0}", paper.random_writer_collapse_factor);
            let case = format!("collapse by 1 random writer, {}, {count} sequential", stack.name());
            let row = Row::new(case, "x").paper(Value::Words(most));
            rows.push(row.baseline(collapse(*raw)).ours(collapse(*ours)).limit(1.0));
        }
    }
    if let ([first, .., last], [few, .., many]) = (done, counts) {
        for (index, stack) in Stack::ALL.iter().enumerate().skip(1) {
            let drop = |index: usize| 100.0 * (1.0 - mb(last[index].0) / mb(first[index].0));
            let case = format!("drop from {few} to {many} sequential writers, {}", stack.name());
            let most = format!("over {:.0} (VMs)", paper.sequential_drop_pct_min);
            let row = Row::new(case, "%").paper(Value::Words(most));
            rows.push(row.baseline(drop(0)).ours(drop(index)));
        }
    }
    Ok(rows)
}

fn data(counts: &[u32], done: &[Points]) -> Data {
    let columns = [
        "sequential_writers",
        "system",
        "random_writers",
        "sequential_mb_s",
        "random_writes_per_s",
    ];
    let mut data = Data::new("throughput", &columns);
    for (count, points) in counts.iter().zip(done) {
        for (stack, (alone, mixed)) in Stack::ALL.iter().zip(points) {
            for (others, point) in [("0", alone), ("1", mixed)] {
                data.push([
                    count.to_string(),
                    stack.name().to_owned(),
                    others.to_owned(),
                    format!("{:.2}", mb(*point)),
                    format!("{:.1}", point.random_per_s),
                ]);
            }
        }
    }
    data
}

fn chart(counts: &[u32], done: &[Points]) -> Result<Drawing, FigureError> {
    let mut series = Vec::new();
    for (index, stack) in Stack::ALL.iter().enumerate() {
        let line = |of: fn(&(Point, Point)) -> Point| {
            let at = counts.iter().zip(done);
            at.map(|(count, points)| (f64::from(*count), mb(of(&points[index])))).collect()
        };
        series.push((stack.name().to_owned(), line(|pair| pair.0)));
        series.push((format!("{} + random", stack.name()), line(|pair| pair.1)));
    }
    let chart = LineChart {
        title: "Sequential writers on four drives, and one random writer",
        x_label: "sequential writers",
        y_label: "MB/s of them all, logarithmic",
        x_decades: false,
        y_decades: true,
        series,
    };
    Drawing::new("throughput", chart.render())
}

/// The figure.
pub(crate) fn gecko_contention(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let counts = lab.effort.pick(WRITERS.to_vec(), WRITERS.to_vec(), vec![2]);
    let measured = Nanos::from_secs(lab.effort.pick(20, 10, 2));
    let steps = counts.iter().map(|count| (format!("{count} sequential writers"), *count));
    let done = lab.each("gecko-contention", steps.collect(), |_, count| points(count, measured))?;
    Ok(Report {
        name: "gecko-contention",
        title: "Gecko 2 with logs: an array, a log over it, and a chain of its drives".to_owned(),
        ran: format!(
            "The first {} GiB of {DISKS} {CONSTELLATION}, write caches on, queues served in order. Every sequential writer has its part of all \
             addresses and one write of 256 KiB outstanding; the random writer has one of 4 KiB, anywhere. No flushes. 'baseline' is the bare RAID-0 in \
             chunks of 64 KiB, 'ours' the preset gecko over it, and over a chain of the drives. Nothing is cleaned. {} s each.",
            DRIVE_BYTES >> 30,
            measured.as_secs_f64()
        ),
        differs: vec![
            "The paper's numbers are its text's: more than half lost by sequential writers in VMs on a file system, more than ten times by one random \
             writer in every layering. There is no file system, hypervisor or page cache here."
                .to_owned(),
            "The paper shows no chain and no log here. A chain writes to one drive at a time, so it has a quarter of the physical limit, which is that of all drives, at best.".to_owned(),
            "The random writer is not capped: where it costs the others little it writes more, which the data tell.".to_owned(),
        ],
        findings: Vec::new(),
        rows: rows(&counts, &done)?,
        data: vec![data(&counts, &done)],
        drawings: vec![chart(&counts, &done)?],
    })
}
