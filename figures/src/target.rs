//! `serve --durable-p99`: what a target for durable writes costs a sequential client, on figure 2a's disk at its busiest point.

use crate::contention::{self, FILES, Method, Point};
use crate::error::FigureError;
use crate::fig2::{self, FIG2A, FIG2A_LARGE, Setting};
use crate::journal::Mode;
use crate::lab::Lab;
use crate::report::{Report, Row};
use crate::rig::{self, CHEETAH, System};
use nearhead_disk::Nanos;
use nearhead_engine::Config;
use nearhead_engine::admission::WithTarget;
use nearhead_format::AckMode;

/// Writes a second beside the sequential client.
const WRITES_PER_S: u32 = 320;
/// Both clients.
const SETTINGS: [Setting; 2] = [FIG2A, FIG2A_LARGE];

/// A target.
struct Target {
    name: &'static str,
    p99_ms: Option<f64>,
    configure: fn(&mut Config),
}

const TARGETS: [Target; 5] = [
    Target { name: "no target", p99_ms: None, configure: rig::off_hours },
    Target { name: "8 ms", p99_ms: Some(8.0), configure: within::<8> },
    Target { name: "7 ms", p99_ms: Some(7.0), configure: within::<7> },
    Target { name: "6 ms", p99_ms: Some(6.0), configure: within::<6> },
    Target { name: "1 ms", p99_ms: Some(1.0), configure: within::<1> },
];

fn within<const MS: u64>(config: &mut Config) {
    rig::off_hours(config);
    let below = config.admission.boxed();
    config.admission = Box::new(WithTarget::new(below, Nanos::from_millis(MS)));
}

fn point(lab: &Lab<'_>, target: &Target, setting: Setting) -> Result<Point, FigureError> {
    let system = System { ack: AckMode::Flush, ..System::of_preset(fig2::NEARHEAD)? };
    let system = System { configure: target.configure, ..system };
    let method = Method { name: target.name, mode: Mode::Manylogs, system };
    let syncs_per_s = f64::from(WRITES_PER_S) / f64::from(FILES);
    let (client, span) = (setting.client(), lab.contention_span());
    contention::point(fig2::disk_for(&method.system, setting)?, &method, client, syncs_per_s, span)
}

fn rows(
    target: &Target,
    setting: Setting,
    point: &Point,
    alone: &Point,
    without: &Point,
) -> [Row; 3] {
    let pct = |point: &Point| 100.0 * point.bytes_per_s / alone.bytes_per_s;
    let case =
        |what| format!("{what}, reads of {} KiB, {}", setting.read_bytes / 1024, target.name);
    [
        Row::new(case("bandwidth kept"), "%").baseline(pct(without)).ours(pct(point)),
        Row::new(case("a sync, mean"), "ms")
            .baseline(without.sync_ms_mean)
            .ours(point.sync_ms_mean),
        Row::new(case("a sync, p99"), "ms")
            .goal(target.p99_ms)
            .baseline(without.sync_ms_p99)
            .ours(point.sync_ms_p99),
    ]
}

/// The figure.
pub(crate) fn target(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let span = lab.contention_span();
    let steps = TARGETS.iter().map(|target| (target.name.to_owned(), target)).collect();
    let points = lab.each("target", steps, |lab, target| {
        SETTINGS.iter().map(|setting| point(lab, target, *setting)).collect::<Result<Vec<_>, _>>()
    })?;
    let mut all = Vec::new();
    for (index, setting) in SETTINGS.iter().enumerate() {
        let alone = contention::alone(fig2::disk(*setting)?, setting.client(), span)?;
        for (target, of_target) in TARGETS.iter().zip(&points) {
            all.extend(rows(target, *setting, &of_target[index], &alone, &points[0][index]));
        }
    }
    Ok(Report {
        name: "target",
        title: "what a target for durable writes costs a sequential client".to_owned(),
        ran: format!(
            "Figure 2a's disk ({CHEETAH}, in order) and writer at {WRITES_PER_S} writes/s, the preset {}, beside reads of \
             128 KiB and of 1 MiB, {} s measured after {} s in which the target finds its step. Baseline: no target; ours: \
             `--durable-p99` as named. A target that the disk cannot keep is one too: bulk gives way as far as it can.",
            fig2::NEARHEAD,
            span.measured.as_secs_f64(),
            span.warm_up.as_secs_f64(),
        ),
        differs: Vec::new(),
        findings: Vec::new(),
        rows: all,
        data: Vec::new(),
        drawings: Vec::new(),
    })
}
