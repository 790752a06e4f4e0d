//! How often Manylogs moves a full log to a cold place, in W1 to W5 (V-B), and what a move costs.

use crate::error::FigureError;
use crate::fig6;
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Report, Row};
use crate::rig::{self, CONSTELLATION, SATA};
use crate::smr;

/// Size of a log (Manylogs III-B).
const LOG_BYTES: f64 = 10e6;
/// What the paper says a move of a full log takes (III-G).
const PAPER_SWAP_MS: f64 = 80.0;

/// The counts.
pub(crate) fn swaps(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let runs = fig6::runs(lab)?;
    let mut rows = Vec::new();
    let mut data = Data::new(
        "counts",
        &["mix", "swaps", "swapped_bytes", "logged_bytes", "records", "records_far", "spills"],
    );
    for (index, mix) in runs.mixes.iter().enumerate() {
        let name = mix.prepared.name;
        let Some(run) = mix.of("mlb-256", SATA) else { continue };
        let stats = &run.status.stats;
        rows.push(
            Row::new(format!("swaps, mlb-256, {name}"), "")
                .paper(f64::from(PAPERS.mixes.swaps_mlb256[index]))
                .ours(stats.swaps as f64),
        );
        data.push([
            name.to_owned(),
            stats.swaps.to_string(),
            stats.swapped_bytes.to_string(),
            stats.logged_bytes.to_string(),
            stats.records.to_string(),
            stats.records_far.to_string(),
            stats.spills.to_string(),
        ]);
    }
    let shingled = smr::runs(lab)?;
    let shingled = shingled.swaps(SATA);
    for (index, (paper, ours)) in PAPERS.mixes.swaps_mlsmr.iter().zip(shingled).enumerate() {
        let case = format!("swaps, mlsmr, W{}", index + 1);
        rows.push(Row::new(case, "").paper(f64::from(*paper)).ours(ours as f64));
    }
    let disk = rig::mechanics(CONSTELLATION)?;
    let at_best_ms = 2.0 * LOG_BYTES / disk.bandwidth(0) * 1e3;
    rows.push(Row::new("moving one full 10 MB log", "ms").paper(PAPER_SWAP_MS).limit(at_best_ms));
    let logged: Vec<f64> =
        runs.mixes.iter().filter_map(|mix| mix.of("mlb-256", SATA)).map(logged_mb).collect();
    Ok(Report {
        name: "swaps",
        title: "log swaps during a mix".to_owned(),
        ran: "The replays of figure 6, preset mlb-256.".to_owned(),
        differs: fig6::differs(runs.prepared()),
        findings: vec![
            format!(
                "The mixes log {} MB; a log is moved when it is four fifths full, so there can be \
                 one move for each 8 MB at most, and only where writes gather near one place.",
                logged.iter().map(|mb| format!("{mb:.0}")).collect::<Vec<_>>().join(", ")
            ),
            format!(
                "The paper's {PAPER_SWAP_MS:.0} ms for a move are {} than this model's disk needs \
                 to read and write 10 MB at its outer edge ({at_best_ms:.0} ms).",
                if PAPER_SWAP_MS < at_best_ms { "less" } else { "more" }
            ),
        ],
        rows,
        data: vec![data],
        drawings: Vec::new(),
    })
}

fn logged_mb(run: &fig6::MixRun) -> f64 {
    run.status.stats.logged_bytes as f64 / 1e6
}
