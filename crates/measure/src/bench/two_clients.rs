//! The demo's hardest point in virtual time: 16 durable points a second beside big reads.

use super::Effort;
use super::row::{Row, Target};
use crate::demo::experiment::{self, BulkKind, Setting, Span};
use crate::demo::in_virtual_time;
use nearhead_volume::NamedPreset;
use std::path::Path;

pub(super) fn measure(effort: Effort, _folder: &Path) -> Result<Vec<Row>, String> {
    let span = Span::of_seconds(effort.pick(120.0, 15.0));
    let point = |name: &str| -> Result<experiment::Row, String> {
        let preset = NamedPreset::by_name(name).map_err(|error| error.to_string())?;
        let kind = BulkKind::Read;
        let rate = experiment::POINTS_PER_S[experiment::POINTS_PER_S.len() - 1];
        let results = in_virtual_time::point(preset, kind, rate, span)?;
        let alone = in_virtual_time::alone(kind, span)?;
        experiment::Row::new(name, Setting::usual(kind), rate, &results, alone)
    };
    let (nolog, mlb) = (point("nolog")?, point("mlb")?);
    let detail = |row: &experiment::Row| {
        format!(
            "{} in virtual time: {:.1} MB/s, p99 {:.1} ms, limit {:.1} %",
            row.preset, row.bulk_mb_per_s, row.durable_ms_p99, row.limit_bandwidth_pct
        )
    };
    let row = |name, target, measured, of| Row::new(name, target, measured, detail(of));
    Ok(vec![
        row("demo_mlb_bandwidth_pct", Target::AtLeast(85.0), mlb.bandwidth_pct, &mlb),
        row("demo_mlb_durable_mean_ms", Target::AtMost(8.0), mlb.durable_ms_mean, &mlb),
        row("demo_nolog_bandwidth_pct", Target::Informative, nolog.bandwidth_pct, &nolog),
        row("demo_nolog_durable_mean_ms", Target::Informative, nolog.durable_ms_mean, &nolog),
    ])
}
