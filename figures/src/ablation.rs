//! `nearhead`, each of its answers left out in turn: what each is worth, and whether the others need it.
//!
//! Figure 2a's busiest point, with the paper's reads and with reads of 1 MiB, and the mixes of figure 6. *Baseline* is the
//! preset whole, *ours* what is left of it. A variant is the same volume with another configuration, never other code.

use crate::contention::{self, FILES, Method, Point};
use crate::error::FigureError;
use crate::fig2::{self, FIG2A, FIG2A_LARGE, Setting};
use crate::fig6::{self, MixRuns, NO_LOGGING, QUEUES};
use crate::journal::Mode;
use crate::lab::Lab;
use crate::replayed::{mean_speed_up, replay};
use crate::report::{Report, Row};
use crate::rig::{self, CHEETAH, CONSTELLATION, Queue, System};
use nearhead_engine::admission::{DurableFirst, SoonestFirst};
use nearhead_engine::placement::NearHead;
use nearhead_engine::{Config, REQUEST_BYTES_MAX};
use nearhead_format::AckMode;
use nearhead_volume::Facts;

/// Writes a second beside the sequential client.
const WRITES_PER_S: u32 = 320;
/// Both clients.
const SETTINGS: [Setting; 2] = [FIG2A, FIG2A_LARGE];

/// One way to leave something out.
struct Variant {
    name: &'static str,
    /// The preset's own configuration, changed.
    preset: Option<fn(&Facts<'_>) -> Config>,
    configure: fn(&mut Config),
    logged_write_bytes_max: Option<u32>,
}

const WHOLE: Variant = Variant {
    name: "whole",
    preset: None,
    configure: rig::off_hours,
    logged_write_bytes_max: None,
};

/// What is left out.
const VARIANTS: [Variant; 6] = [
    WHOLE,
    Variant { name: "without knowing tracks", configure: rig::without_tracks, ..WHOLE },
    Variant {
        name: "without records under the head",
        preset: Some(records_near_the_head),
        ..WHOLE
    },
    Variant { name: "without the arm's order", preset: Some(order_of_the_drive), ..WHOLE },
    Variant { name: "without bulk in pieces", preset: Some(whole_bulk), ..WHOLE },
    Variant {
        name: "without logging 32 to 256 KiB",
        logged_write_bytes_max: Some(32 << 10),
        ..WHOLE
    },
];

/// The preset's configuration; the table of presets has it, whatever it is called here.
fn of_preset(name: &str, facts: &Facts<'_>) -> Config {
    let named = nearhead_volume::PRESETS.iter().find(|preset| preset.name == name);
    let named = named.unwrap_or(&nearhead_volume::PRESETS[0]);
    (named.configure)(facts)
}

fn records_near_the_head(facts: &Facts<'_>) -> Config {
    let config = of_preset(fig2::NEARHEAD, facts);
    Config { placement: Box::new(NearHead::on(facts.properties, true)), ..config }
}

fn order_of_the_drive(facts: &Facts<'_>) -> Config {
    let admission = Box::new(facts.durable_first());
    Config { admission, ..of_preset(fig2::NEARHEAD, facts) }
}

/// As many bytes of bulk on the disk as come, as they come; durable writes pass all the same.
fn whole_bulk(facts: &Facts<'_>) -> Config {
    let others = DurableFirst {
        piece_bytes: REQUEST_BYTES_MAX as u32,
        bulk_bytes_max: u64::MAX,
        ..facts.durable_first()
    };
    let soonest = SoonestFirst { others, ..facts.soonest_first() };
    Config { admission: Box::new(soonest), ..of_preset(fig2::NEARHEAD, facts) }
}

impl Variant {
    fn system(&self) -> Result<System, FigureError> {
        let mut system = System::of_preset(fig2::NEARHEAD)?;
        if let (Some(preset), Some(configure)) = (&mut system.preset, self.preset) {
            preset.configure = configure;
        }
        self.name.clone_into(&mut system.name);
        let logged_write_bytes_max = self.logged_write_bytes_max;
        Ok(System { configure: self.configure, logged_write_bytes_max, ..system })
    }
}

/// What one variant came to.
struct Outcome {
    name: &'static str,
    /// For each of [`SETTINGS`].
    points: Vec<Point>,
    /// For each of [`QUEUES`].
    speed_ups: Vec<f64>,
}

fn point(lab: &Lab<'_>, variant: &Variant, setting: Setting) -> Result<Point, FigureError> {
    let system = System { ack: AckMode::Flush, ..variant.system()? };
    let method = Method { name: variant.name, mode: Mode::Manylogs, system };
    let syncs_per_s = f64::from(WRITES_PER_S) / f64::from(FILES);
    let (client, span) = (setting.client(), lab.contention_span());
    contention::point(fig2::disk_for(&method.system, setting)?, &method, client, syncs_per_s, span)
}

/// The mean over the mixes.
fn speed_up(runs: &MixRuns, queue: Queue, variant: &Variant) -> Result<f64, FigureError> {
    let system = variant.system()?;
    let mut factors = Vec::new();
    for mix in &runs.mixes {
        let Some(baseline) = mix.of(NO_LOGGING, queue) else { continue };
        let disk = rig::hard_disk(CONSTELLATION, queue)?;
        let requests = mix.prepared.requests.iter().copied();
        let done = replay(disk, &system, requests, mix.prepared.name)?;
        factors.push(mean_speed_up(&baseline.latency, &done.latency));
    }
    Ok(factors.iter().sum::<f64>() / factors.len() as f64)
}

/// All variants.
fn outcomes(lab: &mut Lab<'_>, runs: &MixRuns) -> Result<Vec<Outcome>, FigureError> {
    let steps = VARIANTS.iter().map(|variant| (variant.name.to_owned(), variant)).collect();
    lab.each("ablation", steps, |lab, variant| {
        let points = SETTINGS.iter().map(|setting| point(lab, variant, *setting));
        let speed_ups = QUEUES.iter().map(|queue| speed_up(runs, *queue, variant));
        Ok(Outcome {
            name: variant.name,
            points: points.collect::<Result<_, _>>()?,
            speed_ups: speed_ups.collect::<Result<_, _>>()?,
        })
    })
}

fn rows(whole: &Outcome, without: &Outcome, alone: &[Point]) -> Vec<Row> {
    let mut rows = Vec::new();
    let name = without.name;
    for ((setting, alone), (whole, point)) in
        SETTINGS.iter().zip(alone).zip(whole.points.iter().zip(&without.points))
    {
        let kib = setting.read_bytes / 1024;
        let pct = |point: &Point| 100.0 * point.bytes_per_s / alone.bytes_per_s;
        rows.push(
            Row::new(
                format!("kept beside {WRITES_PER_S} writes/s, reads of {kib} KiB, {name}"),
                "%",
            )
            .baseline(pct(whole))
            .ours(pct(point)),
        );
        rows.push(
            Row::new(format!("a sync beside reads of {kib} KiB, {name}"), "ms")
                .baseline(whole.sync_ms_mean)
                .ours(point.sync_ms_mean),
        );
    }
    for (queue, (whole, speed_up)) in
        QUEUES.iter().zip(whole.speed_ups.iter().zip(&without.speed_ups))
    {
        let case = format!("mean of W1 to W5 over {NO_LOGGING}, {}, {name}", queue.name());
        rows.push(Row::new(case, "x").baseline(*whole).ours(*speed_up));
    }
    rows
}

/// The figure.
pub(crate) fn ablation(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = fig6::runs(lab)?;
    let outcomes = outcomes(lab, &runs)?;
    let span = lab.contention_span();
    let alone = SETTINGS
        .iter()
        .map(|setting| contention::alone(fig2::disk(*setting)?, setting.client(), span));
    let alone: Vec<Point> = alone.collect::<Result<_, FigureError>>()?;
    let rows = outcomes.split_first().map(|(whole, others)| {
        others.iter().flat_map(|without| rows(whole, without, &alone)).collect()
    });
    Ok(Report {
        name: "ablation",
        title: "nearhead, each of its answers left out in turn".to_owned(),
        ran: format!(
            "Figure 2a's disk ({CHEETAH}, in order) and writer at {WRITES_PER_S} writes/s, beside reads of 128 KiB \
             and of 1 MiB, {} s each; and the mixes of figure 6 on {CONSTELLATION}. Baseline: the preset whole; ours: \
             what is left of it. Disks are calibrated in virtual time first.",
            span.measured.as_secs_f64()
        ),
        differs: fig6::differs(runs.prepared()),
        findings: Vec::new(),
        rows: rows.unwrap_or_default(),
        data: Vec::new(),
        drawings: Vec::new(),
    })
}
