//! Gecko's figure 2: sequential writers on a RAID-0 of four, then one random writer among them.
//!
//! Each sequential writer has a part of the array and writes 256 KB after 256 KB, one at a time; the
//! random writer writes 4 KB anywhere, one at a time. Caches of the drives are on, nobody asks for
//! durability, as on a raw volume without flushes. On the bare array one random writer takes the
//! arms away from everybody; a volume with logs over the same array puts its writes beside the
//! streams.
//!
//! A writer without a cap writes more on a system that is faster for it, which hides what it costs
//! the others. So the random writer also runs capped at the rate it reached on the bare array.

use crate::chart::LineChart;
use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::paced::Paced;
use crate::paper::PAPERS;
use crate::report::{Data, Drawing, Report, Row, Value};
use crate::rig::{self, CONSTELLATION, Queue, System};
use nearhead_disk::Nanos;
use nearhead_format::AckMode;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{
    Bulk, BulkOptions, Content, RandomMix, RandomMixOptions, TallySummary, Workload,
};

const DISKS: u32 = 4;
const SEQUENTIAL_BYTES: u32 = 256 << 10;
const RANDOM_BYTES: u32 = 4 << 10;
const DRAIN_LIMIT: Nanos = Nanos::from_secs(3600);

/// Who else writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Other {
    Nobody,
    /// One random writer, as fast as it can.
    Random,
    /// The same, at most so many writes a second.
    Capped(f64),
}

/// What a point came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) sequential_bytes_per_s: f64,
    pub(crate) random_per_s: f64,
}

/// The points of one number of sequential writers.
struct Writers {
    count: u32,
    bare: Point,
    bare_random: Point,
    ours: Point,
    ours_random: Point,
    ours_capped: Point,
}

/// The figure.
pub(crate) fn gecko2(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let counts = lab.effort.pick(vec![1, 2, 4, 8], vec![1, 2, 4, 8], vec![2]);
    let measured = Nanos::from_secs(lab.effort.pick(60, 20, 2));
    let steps = counts.iter().map(|count| (format!("{count} sequential writers"), *count));
    let done = lab.each("gecko2", steps.collect(), |_, count| writers(count, measured))?;
    let series = |name: &str, value: &dyn Fn(&Writers) -> f64| {
        let points = done.iter().map(|at| (f64::from(at.count), value(at) / 1e6)).collect();
        (name.to_owned(), points)
    };
    let chart = LineChart {
        title: "Sequential writers on a RAID-0 of four",
        x_label: "sequential writers",
        y_label: "MB/s of them all, logarithmic",
        x_decades: false,
        y_decades: true,
        series: vec![
            series("bare", &|at| at.bare.sequential_bytes_per_s),
            series("bare + random", &|at| at.bare_random.sequential_bytes_per_s),
            series("mlb", &|at| at.ours.sequential_bytes_per_s),
            series("mlb + random", &|at| at.ours_random.sequential_bytes_per_s),
            series("mlb + same random rate", &|at| at.ours_capped.sequential_bytes_per_s),
        ],
    };
    Ok(Report {
        name: "gecko2",
        title: "Gecko 2: sequential writers on RAID-0, and one random writer".to_owned(),
        ran: format!(
            "{DISKS} {CONSTELLATION} as RAID-0 in chunks of 64 KiB, write caches on, queues \
             served in order. Every sequential writer has its part of the array and one \
             write of {} KiB outstanding; the random writer has one of 4 KiB, anywhere. No flushes. \
             'baseline' is the bare array, 'ours' a volume with preset mlb over it. {} s each.",
            SEQUENTIAL_BYTES >> 10,
            measured.as_secs_f64()
        ),
        differs: differs(),
        findings: findings(&done),
        rows: rows(&done)?,
        data: vec![data(&done)],
        drawings: vec![Drawing::new("throughput", chart.render())?],
    })
}

fn writers(count: u32, measured: Nanos) -> Result<Writers, FigureError> {
    let disk = || rig::striped(CONSTELLATION, DISKS, Queue::InOrder, true);
    let bare = |other| run(&mut rig::bare(disk()?), count, other, measured, "the bare array");
    let system = System { ack: AckMode::Flush, ..System::of_preset("mlb")? };
    let ours = |other| run(&mut rig::volume(disk()?, &system)?, count, other, measured, "mlb");
    let bare_random = bare(Other::Random)?;
    Ok(Writers {
        count,
        bare: bare(Other::Nobody)?,
        bare_random,
        ours: ours(Other::Nobody)?,
        ours_random: ours(Other::Random)?,
        ours_capped: ours(Other::Capped(bare_random.random_per_s))?,
    })
}

fn run<S: Service>(
    service: &mut S,
    count: u32,
    other: Other,
    measured: Nanos,
    what: &str,
) -> Result<Point, FigureError> {
    let span_bytes = service.info().size_bytes;
    run_on(service, span_bytes, count, other, measured, what)
}

/// One point on the first so many bytes of a service.
pub(crate) fn run_on<S: Service>(
    service: &mut S,
    span_bytes: u64,
    count: u32,
    other: Other,
    measured: Nanos,
    what: &str,
) -> Result<Point, FigureError> {
    let stuck =
        |problem| FigureError::Stuck { what: format!("{count} writers on {what}"), problem };
    let part = span_bytes / u64::from(count) / (1 << 20) * (1 << 20);
    let mut sequential: Vec<Bulk> = (0..u64::from(count))
        .map(|index| {
            let span = index * part..(index + 1) * part;
            let options = BulkOptions::writer(span, Content::Phantom);
            Bulk::new(BulkOptions {
                request_bytes: SEQUENTIAL_BYTES,
                outstanding_max: 1,
                ..options
            })
        })
        .collect();
    let random = RandomMix::new(RandomMixOptions {
        span: 0..span_bytes,
        request_bytes: RANDOM_BYTES,
        reads: 0.0,
        fua: false,
        outstanding_max: 1,
        requests_max: (other == Other::Nobody).then_some(0),
        content: Content::Phantom,
        seed: 1,
    });
    let rate = if let Other::Capped(rate) = other { Some(rate) } else { None };
    let mut random = Paced::new(random, rate);
    let warm_up = Nanos::from_secs(2);
    let ends = warm_up + measured;
    let mut time = VirtualTime::default();
    let mut all = everybody(&mut sequential, &mut random);
    time.run(service, &mut all, warm_up).map_err(stuck)?;
    for workload in &mut all {
        workload.start_measuring(warm_up);
    }
    time.run(service, &mut all, ends).map_err(stuck)?;
    drop(all);
    let tallies: Vec<TallySummary> =
        sequential.iter().map(|bulk| bulk.tally().summary(ends)).collect();
    let of_random = random.inner.writes().summary(ends);
    let mut all = everybody(&mut sequential, &mut random);
    time.drain(service, &mut all, DRAIN_LIMIT).map_err(stuck)?;
    let every: Vec<&TallySummary> = tallies.iter().chain([&of_random]).collect();
    succeeded(what, &every)?;
    Ok(Point {
        sequential_bytes_per_s: tallies.iter().map(|tally| tally.bytes_per_s).sum(),
        random_per_s: of_random.requests_per_s,
    })
}

fn everybody<'all>(
    sequential: &'all mut [Bulk],
    random: &'all mut Paced<RandomMix>,
) -> Vec<&'all mut dyn Workload> {
    let sequential = sequential.iter_mut().map(|bulk| bulk as &mut dyn Workload);
    sequential.chain([random as &mut dyn Workload]).collect()
}

fn rows(done: &[Writers]) -> Result<Vec<Row>, FigureError> {
    let paper = &PAPERS.gecko;
    let limit = f64::from(DISKS) * rig::mechanics(CONSTELLATION)?.bandwidth(0) / 1e6;
    let mb = |point: Point| point.sequential_bytes_per_s / 1e6;
    let mut rows = Vec::new();
    for at in done {
        let count = at.count;
        let case = |what: &str| format!("bandwidth, {count} sequential {what}");
        let pairs = [
            (case("alone"), at.bare, at.ours),
            (case("+ 1 random"), at.bare_random, at.ours_random),
            (case("+ 1 random, same rate"), at.bare_random, at.ours_capped),
        ];
        for (case, bare, ours) in pairs {
            rows.push(Row::new(case, "MB/s").baseline(mb(bare)).ours(mb(ours)).limit(limit));
        }
        let collapse = |alone: Point, mixed: Point| mb(alone) / mb(mixed).max(1e-3);
        rows.push(
            Row::new(format!("collapse by 1 random writer, {count} sequential"), "x")
                .paper(Value::Words(format!("over {:.0}", paper.random_writer_collapse_factor)))
                .baseline(collapse(at.bare, at.bare_random))
                .ours(collapse(at.ours, at.ours_capped))
                .limit(1.0),
        );
    }
    if let (Some(first), Some(last)) = (done.first(), done.last())
        && done.len() > 1
    {
        let drop = |of: fn(&Writers) -> Point| 100.0 * (1.0 - mb(of(last)) / mb(of(first)));
        let case = format!("drop from {} to {} sequential writers", first.count, last.count);
        let most = Value::Words(format!("over {:.0} (VMs)", paper.sequential_drop_pct_min));
        rows.push(
            Row::new(case, "%").paper(most).baseline(drop(|at| at.bare)).ours(drop(|at| at.ours)),
        );
    }
    Ok(rows)
}

fn findings(done: &[Writers]) -> Vec<String> {
    let told = |at: &Writers| {
        format!(
            "With {} sequential writers the random one reaches {:.0} writes/s on the bare array and \
             leaves {:.1} of {:.1} MB/s; at the same rate the volume with logs leaves {:.1} of {:.1} \
             MB/s, and without a cap the random writer reaches {:.0} writes/s there.",
            at.count,
            at.bare_random.random_per_s,
            at.bare_random.sequential_bytes_per_s / 1e6,
            at.bare.sequential_bytes_per_s / 1e6,
            at.ours_capped.sequential_bytes_per_s / 1e6,
            at.ours.sequential_bytes_per_s / 1e6,
            at.ours_random.random_per_s
        )
    };
    done.iter().map(told).chain(collapse_by_writers(done)).collect()
}

/// Whether one random writer costs the bare array less the more sequential ones there are.
fn collapse_by_writers(done: &[Writers]) -> Option<String> {
    let of = |at: &Writers| {
        at.bare.sequential_bytes_per_s / at.bare_random.sequential_bytes_per_s.max(1.0)
    };
    let (first, last) = (done.first()?, done.last()?);
    (done.len() > 1 && of(last) < of(first)).then(|| {
        format!(
            "On the bare array the collapse shrinks from {:.1} times with {} sequential writers to {:.1} times \
             with {}, where the paper's does not: the modelled drives write their caches back in the best \
             order.",
            of(first),
            first.count,
            of(last),
            last.count
        )
    })
}

fn differs() -> Vec<String> {
    [
        "The paper's throughput is its text's: more than half lost by sequential writers in VMs on a \
         file system, more than ten times by one random writer in every layering. There is no file \
         system, hypervisor or page cache here, only the raw array.",
        "The paper does not name its drives; the array is of the ones of Manylogs' replays.",
    ]
    .map(str::to_owned)
    .into()
}

fn data(done: &[Writers]) -> Data {
    let columns = ["sequential_writers", "system", "sequential_mb_per_s", "random_writes_per_s"];
    let mut data = Data::new("throughput", &columns);
    for at in done {
        for (system, point) in [
            ("bare", at.bare),
            ("bare+random", at.bare_random),
            ("mlb", at.ours),
            ("mlb+random", at.ours_random),
            ("mlb+random capped", at.ours_capped),
        ] {
            data.push([
                at.count.to_string(),
                system.to_owned(),
                format!("{:.3}", point.sequential_bytes_per_s / 1e6),
                format!("{:.2}", point.random_per_s),
            ]);
        }
    }
    data
}
