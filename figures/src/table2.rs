//! Manylogs' table II: the speed-ups of all experiments on one page.
//!
//! The rows of the file system are figures 2 to 5 over the real one, and figures 2 and 3 at block level; those of the block layer are
//! figure 6.

use crate::charted::Charted;
use crate::contention::Point;
use crate::error::FigureError;
use crate::fig2::{self, ContentionRuns, FIG2A, FIG2B, NEARHEAD, OURS, PUBLISHED};
use crate::fig3::{FIG3A, FIG3B};
use crate::fig6;
use crate::lab::Lab;
use crate::mlfs;
use crate::mlfs_mixes;
use crate::paper::{PAPERS, Spread};
use crate::report::{Data, Drawing, Report, Row, Value};
use crate::rig::Shingled;
use crate::smr;
use std::rc::Rc;

/// The table.
pub(crate) fn table2(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let mut contention = Vec::new();
    for setting in [FIG2A, FIG2B, FIG3A, FIG3B] {
        contention.push(fig2::runs(lab, setting)?);
    }
    let mut files = mlfs::all_runs(lab)?;
    files.extend(mlfs_mixes::all_runs(lab)?);
    let mixes = fig6::runs(lab)?;
    let paper = &PAPERS.table2;
    let mut rows = Vec::new();
    let mut means = Data::new("means", &["level", "over", "method", "speedup_mean"]);
    for (mode, bandwidth, latency, goals) in [
        (
            "ordered",
            paper.ordered_bandwidth,
            paper.ordered_latency,
            [Some(paper.goal_ordered_bandwidth), Some(paper.goal_ordered_latency)],
        ),
        ("adaptive", paper.adaptive_bandwidth, paper.adaptive_latency, [None, None]),
    ] {
        for (what, paper, goal, factor) in [
            ("bandwidth", bandwidth, goals[0], faster_bulk as Factor),
            ("latency", latency, goals[1], faster_sync as Factor),
        ] {
            let of = |method: &str| all_factors(&files, mode, method, factor);
            book(
                &mut means,
                FILE_SYSTEM,
                &format!("{what} over {mode}"),
                [PUBLISHED, NEARHEAD],
                &of,
            );
            rows.push(
                Row::new(format!("MLFS over {mode}, {what}"), "x, range (mean)")
                    .paper(paper.shown())
                    .goal(goal.map_or(Value::Nothing, |goal| Value::Words(format!("({goal:.0})"))))
                    .baseline(spread(&of(PUBLISHED)))
                    .ours(spread(&of(NEARHEAD))),
            );
            let of = |method: &str| all_factors(&contention, mode, method, factor);
            book(&mut means, BLOCK_LEVEL, &format!("{what} over {mode}"), [PUBLISHED, OURS], &of);
            rows.push(
                Row::new(format!("MLFS at block level over {mode}, {what}"), "x, range (mean)")
                    .paper(paper.shown())
                    .goal(goal.map_or(Value::Nothing, |goal| Value::Words(format!("({goal:.0})"))))
                    .baseline(spread(&of(PUBLISHED)))
                    .ours(spread(&of(OURS))),
            );
        }
    }
    for queue in fig6::QUEUES {
        let case = format!("MLB-256 over no logging, disk {}, latency", queue.name());
        rows.push(
            Row::new(case, "x, range (mean)")
                .paper(PAPERS.mixes.mlb256_speedup.shown())
                .goal(Value::Words(format!("({:.0})", PAPERS.mixes.goal_speedup)))
                .ours(spread(&mixes.speed_ups("mlb-256", queue))),
        );
    }
    let shingled = smr::runs(lab)?;
    for queue in fig6::QUEUES {
        let case = format!("MLSMR over SLSMR, disk {}, latency", queue.name());
        rows.push(
            Row::new(case, "x, range (mean)")
                .paper(PAPERS.mixes.mlsmr_speedup.shown())
                .goal(Value::Words(format!("({:.0})", PAPERS.mixes.goal_smr_speedup)))
                .ours(spread(&shingled.speed_ups(Shingled::Manylogs, Shingled::SingleLog, queue))),
        );
    }
    let columns = ["mix", "disk_queue", "mlb32_speedup", "mlb256_speedup"];
    let mut data = Data::new("mixes", &columns);
    for mix in &mixes.mixes {
        for queue in fig6::QUEUES {
            let factor = |name| format!("{:.4}", mix.speed_up(name, queue).unwrap_or(f64::NAN));
            let name = mix.prepared.name.to_owned();
            data.push([name, queue.name(), factor("mlb-32"), factor("mlb-256")]);
        }
    }
    Ok(Report {
        name: "table2",
        title: "speed-ups of all experiments".to_owned(),
        ran:
            "Figures 2 and 3 at every rate, and the replays of figure 6. 'baseline' is Manylogs as \
              published on the same model, 'ours' the project's presets as they are."
                .to_owned(),
        differs: vec![
            "The paper's MLFS rows cover its file-system benchmarks (figures 2 to 5), and so do ours over the real file system: \
             'baseline' is Manylogs as published, 'ours' the preset nearhead. Means are of ratios, as the paper's, and a mean is carried \
             by the points where ordered journaling stands still; a point where it makes no call durable in the measured time counts in \
             neither. Rows 'at block level' cover figures 2 and 3."
                .to_owned(),
        ],
        findings: Vec::new(),
        rows,
        drawings: drawings(&means)?,
        data: vec![data, means],
    })
}

/// The levels of the rows, as the table of means has them.
const FILE_SYSTEM: &str = "file system";
const BLOCK_LEVEL: &str = "block level";

fn book(
    means: &mut Data,
    level: &str,
    over: &str,
    methods: [&str; 2],
    of: &dyn Fn(&str) -> Vec<f64>,
) {
    for method in methods {
        let factors = of(method);
        if !factors.is_empty() {
            let mean = factors.iter().sum::<f64>() / factors.len() as f64;
            means.push([level, over, method, &format!("{mean:.4}")].map(str::to_owned));
        }
    }
}

fn drawings(means: &Data) -> Result<Vec<Drawing>, FigureError> {
    let of = |name, title, level| {
        Charted {
            name,
            title,
            series: "method",
            over: ("over", ""),
            value: ("speedup_mean", "times, mean"),
            only: &[("level", level)],
        }
        .bars(means)
    };
    Ok(vec![
        of("file-system", "Speed-ups, the real file system", FILE_SYSTEM)?,
        of("block-level", "Speed-ups at block level", BLOCK_LEVEL)?,
    ])
}

type Factor = fn(&Point, &Point) -> f64;

fn faster_bulk(theirs: &Point, ours: &Point) -> f64 {
    ours.bytes_per_s / theirs.bytes_per_s.max(1.0)
}

fn faster_sync(theirs: &Point, ours: &Point) -> f64 {
    theirs.sync_ms_mean / ours.sync_ms_mean.max(1e-6)
}

fn all_factors(
    contention: &[Rc<ContentionRuns>],
    mode: &str,
    method: &str,
    factor: Factor,
) -> Vec<f64> {
    let pairs = contention.iter().flat_map(|runs| runs.of(mode).iter().zip(runs.of(method)));
    // Who came to nothing at all is no measure.
    let told = pairs.filter(|(theirs, _)| theirs.syncs_per_s > 0.0 && theirs.bytes_per_s > 0.0);
    told.map(|(theirs, ours)| factor(theirs, ours)).collect()
}

fn spread(factors: &[f64]) -> Value {
    Spread::of(factors).map_or(Value::Nothing, Spread::shown)
}
