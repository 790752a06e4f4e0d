//! Figure 2a with two more axes: the drive, and the reads that the sequential client keeps outstanding.
//!
//! The paper has one drive and one depth of read-ahead. A policy that holds there may fail on a drive with other mechanics, or behind a
//! longer queue of bulk, and figure 2a would not show it. Clients and methods are those of figure 2a with reads of 1 MiB at its highest
//! rate; each row compares with the bare drive in the same setting.

use crate::chart::BarChart;
use crate::contention::{self, Client, FILES, Method, Point};
use crate::error::FigureError;
use crate::fig2::{self, FIG2A_LARGE, NEARHEAD, OURS, PUBLISHED};
use crate::lab::Lab;
use crate::report::{Data, Drawing, Report, Row};
use crate::rig::{self, CHEETAH, CONSTELLATION, EXOS, FigureDisk, Queue};

const NAME: &str = "fig2a-drives";
/// Writes a second beside the sequential client: figure 2a's highest rate.
const WRITES_PER_S: u32 = 320;
const DRIVES: [&str; 3] = [CHEETAH, CONSTELLATION, EXOS];
/// Methods compared; the first is the baseline of the others.
const METHODS: [&str; 3] = [PUBLISHED, OURS, NEARHEAD];

/// A drive and a depth.
#[derive(Clone, Copy)]
struct Setting {
    drive: &'static str,
    outstanding: u32,
}

/// Points of one setting.
struct Runs {
    setting: Setting,
    alone: Point,
    /// In the order of [`METHODS`].
    points: Vec<Point>,
}

impl Setting {
    fn client(self) -> Client {
        Client { outstanding: self.outstanding, ..FIG2A_LARGE.client() }
    }

    fn disk(self) -> Result<FigureDisk, FigureError> {
        rig::hard_disk(self.drive, Queue::InOrder)
    }
}

impl Runs {
    fn kept_pct(&self, point: &Point) -> f64 {
        100.0 * point.bytes_per_s / self.alone.bytes_per_s
    }

    /// Bandwidth and latency of each method but the baseline.
    fn rows(&self) -> Result<Vec<Row>, FigureError> {
        let Setting { drive, outstanding } = self.setting;
        let bytes_per_s = f64::from(WRITES_PER_S) * crate::journal::BLOCK_BYTES as f64;
        let limit_pct = 100.0 * (1.0 - bytes_per_s / self.alone.bytes_per_s).max(0.0);
        let limit_ms = fig2::sync_limit_ms_of(drive)?;
        let Some((published, others)) = self.points.split_first() else { return Ok(Vec::new()) };
        let rows = METHODS[1..].iter().zip(others).flat_map(|(method, point)| {
            let case = |what| format!("{what}, {method}, {drive}, {outstanding} outstanding");
            [
                Row::new(case("bandwidth"), "% of alone")
                    .baseline(self.kept_pct(published))
                    .ours(self.kept_pct(point))
                    .limit(limit_pct),
                Row::new(case("sync"), "ms")
                    .baseline(published.sync_ms_mean)
                    .ours(point.sync_ms_mean)
                    .limit(limit_ms),
                Row::new(case("p99 of a sync"), "ms")
                    .baseline(published.sync_ms_p99)
                    .ours(point.sync_ms_p99),
            ]
        });
        Ok(rows.collect())
    }
}

fn run(lab: &Lab<'_>, setting: Setting, methods: &[Method]) -> Result<Runs, FigureError> {
    let span = lab.contention_span();
    let syncs_per_s = f64::from(WRITES_PER_S) / f64::from(FILES);
    let point = |method: &Method| {
        contention::point(setting.disk()?, method, setting.client(), syncs_per_s, span)
    };
    Ok(Runs {
        setting,
        alone: contention::alone(setting.disk()?, setting.client(), span)?,
        points: methods.iter().map(point).collect::<Result<_, _>>()?,
    })
}

fn data(runs: &[Runs]) -> Data {
    let columns = [
        "drive",
        "outstanding",
        "method",
        "bandwidth_mb_per_s",
        "bandwidth_pct",
        "sync_ms_mean",
        "sync_ms_p99",
        "syncs_per_s",
    ];
    let mut data = Data::new("points", &columns);
    for of in runs {
        for (method, point) in METHODS.iter().zip(&of.points) {
            data.push([
                of.setting.drive.to_owned(),
                of.setting.outstanding.to_string(),
                (*method).to_owned(),
                format!("{:.3}", point.bytes_per_s / 1e6),
                format!("{:.2}", of.kept_pct(point)),
                format!("{:.3}", point.sync_ms_mean),
                format!("{:.3}", point.sync_ms_p99),
                format!("{:.3}", point.syncs_per_s),
            ]);
        }
    }
    data
}

/// Mean latencies of one drive.
fn drawing(drive: &'static str, runs: &[Runs]) -> Result<Drawing, FigureError> {
    let of_drive: Vec<&Runs> = runs.iter().filter(|runs| runs.setting.drive == drive).collect();
    let series = METHODS.iter().enumerate().map(|(index, method)| {
        let means = of_drive.iter().filter_map(|runs| Some(runs.points.get(index)?.sync_ms_mean));
        ((*method).to_owned(), means.collect())
    });
    let groups = of_drive.iter().map(|runs| format!("{} outstanding", runs.setting.outstanding));
    let chart = BarChart {
        title: &format!("Mean latency of a sync: {drive}"),
        unit: "ms, logarithmic",
        groups: groups.collect(),
        series: series.collect(),
        limit: None,
        decades: true,
    };
    Drawing::new(&format!("sync-{drive}"), chart.render())
}

/// The figure.
pub(crate) fn fig2a_drives(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let depths = lab.effort.pick(vec![1, 2, 4, 8], vec![1, 2, 4, 8], vec![8]);
    let all = fig2::methods()?;
    let named = |name: &str| all.iter().find(|method| method.name == name).cloned();
    let methods: Vec<Method> = METHODS.into_iter().filter_map(named).collect();
    let settings = DRIVES.into_iter().flat_map(|drive| {
        depths.iter().map(move |outstanding| Setting { drive, outstanding: *outstanding })
    });
    let steps = settings.map(|setting| {
        (format!("{}, {} outstanding", setting.drive, setting.outstanding), setting)
    });
    let runs = lab.each(NAME, steps.collect(), |lab, setting| run(lab, setting, &methods))?;
    let rows: Result<Vec<Vec<Row>>, _> = runs.iter().map(Runs::rows).collect();
    let span = lab.contention_span();
    Ok(Report {
        name: NAME,
        title: "a sequential reader of 1 MiB beside a random writer's syncs, by drive and depth"
            .to_owned(),
        ran: format!(
            "Figure 2a's clients at {WRITES_PER_S} writes/s, reads of 1 MiB, 1 to 8 outstanding, on {}, {} and {}, write caches off, \
             queues served in order. {} s measured after {} s to warm up. Baseline: {PUBLISHED}, near-head logs as published, first come \
             first served; ours: the preset that the row names.",
            DRIVES[0],
            DRIVES[1],
            DRIVES[2],
            span.measured.as_secs_f64(),
            span.warm_up.as_secs_f64(),
        ),
        differs: vec![
            "The paper has the first of these drives and two reads outstanding. The profile of the 20 TB drive is from a datasheet and \
             assumptions, not from measurements."
                .to_owned(),
        ],
        findings: Vec::new(),
        rows: rows?.into_iter().flatten().collect(),
        data: vec![data(&runs)],
        drawings: DRIVES.map(|drive| drawing(drive, &runs)).into_iter().collect::<Result<_, _>>()?,
    })
}
