//! How much log `nearhead` should have, and in how large groups: what small writes gain of much log, and everybody else loses.
//!
//! Log space between the data costs whoever reads it way of the arm; little of it is full soon, and then places under the head are
//! rare. The mixes of figure 6 hardly fill any, figure 2a's busiest point fills the logs beside its reader in a minute, as nothing is
//! cleaned in it.

use crate::contention::{self, FILES, Method};
use crate::error::FigureError;
use crate::fig2::{self, FIG2A};
use crate::fig6::{self, QUEUES};
use crate::journal::Mode;
use crate::lab::Lab;
use crate::report::{Report, Row};
use crate::rig::{CHEETAH, CONSTELLATION, System};
use crate::sweep::{MB, mean_over};
use nearhead_format::AckMode;

/// Group and log, in MiB and KiB.
const SIZES: [(&str, u64, u64); 6] = [
    ("2.5 MB in 25 MB", 25, 2560),
    ("5 MB in 50 MB", 50, 5 << 10),
    ("10 MB in 100 MB", 100, 10 << 10),
    ("20 MB in 200 MB", 200, 20 << 10),
    ("5 MB in 100 MB", 100, 5 << 10),
    ("2.5 MB in 100 MB", 100, 2560),
];
/// What most volumes have.
const DEFAULT: usize = 2;
/// Writes a second beside the reader.
const RATES: [u32; 2] = [40, 320];

/// What one size comes to: bandwidth kept for each rate, in %, and speed-ups for each queue.
struct Outcome {
    name: &'static str,
    kept_pct: Vec<f64>,
    speed_ups: Vec<f64>,
}

/// The figure.
pub(crate) fn layout(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let (runs, span) = (fig6::runs(lab)?, lab.contention_span());
    let alone = contention::alone(fig2::disk(FIG2A)?, FIG2A.client(), span)?;
    let steps = SIZES.iter().map(|size| (size.0.to_owned(), *size)).collect();
    let outcomes = lab.each("layout", steps, |_, (name, group, log_kib)| {
        let group_and_log_bytes = Some((group * MB, log_kib << 10));
        let system = System { group_and_log_bytes, ..System::of_preset(fig2::NEARHEAD)? };
        let flushed = System { ack: AckMode::Flush, ..system.clone() };
        let method = Method { name, mode: Mode::Manylogs, system: flushed };
        let kept = RATES.iter().map(|rate| {
            let syncs_per_s = f64::from(*rate) / f64::from(FILES);
            let disk = fig2::disk(FIG2A)?;
            let point = contention::point(disk, &method, FIG2A.client(), syncs_per_s, span)?;
            Ok(100.0 * point.bytes_per_s / alone.bytes_per_s)
        });
        let kept_pct = kept.collect::<Result<_, FigureError>>()?;
        Ok(Outcome { name, kept_pct, speed_ups: mean_over(&runs, &system)? })
    })?;
    let rows = outcomes.iter().flat_map(|outcome| rows(outcome, &outcomes[DEFAULT]));
    Ok(Report {
        name: "layout",
        title: "how much log, in how large groups".to_owned(),
        ran: format!(
            "The preset {} with other logs: beside figure 2a's reader on {CHEETAH}, {} s, nothing cleaned; and the mixes of \
             figure 6 on {CONSTELLATION}. Baseline: {}, the default.",
            fig2::NEARHEAD,
            span.measured.as_secs_f64(),
            SIZES[DEFAULT].0
        ),
        differs: fig6::differs(runs.prepared()),
        findings: Vec::new(),
        rows: rows.collect(),
        data: Vec::new(),
        drawings: Vec::new(),
    })
}

fn rows(of: &Outcome, default: &Outcome) -> Vec<Row> {
    let kept = RATES.iter().zip(of.kept_pct.iter().zip(&default.kept_pct));
    let kept = kept.map(|(rate, (ours, default))| {
        let case = format!("bandwidth kept beside {rate} writes/s, {}", of.name);
        Row::new(case, "%").baseline(*default).ours(*ours)
    });
    let faster = QUEUES.iter().zip(of.speed_ups.iter().zip(&default.speed_ups));
    let faster = faster.map(|(queue, (ours, default))| {
        let case = format!("mean of W1 to W5 over nolog, {}, {}", queue.name(), of.name);
        Row::new(case, "x").baseline(*default).ours(*ours)
    });
    kept.chain(faster).collect()
}
