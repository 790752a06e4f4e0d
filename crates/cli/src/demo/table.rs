//! The demo's result as a table for a terminal.

use super::experiment::Row;
use std::fmt::Write;

/// One line per row, in their order.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = String::new();
    let head =
        ["bulk", "preset", "writes/s", "bulk MB/s", "% of disk", "limit %", "mean ms", "p99 ms"];
    let _ = writeln!(
        text,
        "{:<6} {:<10} {:>8} {:>10} {:>10} {:>8} {:>9} {:>9}  durable points/s",
        head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:<6} {:<10} {:>8} {:>10.1} {:>10.1} {:>8.1} {:>9.1} {:>9.1}  {:.1}",
            row.bulk.name(),
            row.preset,
            row.writes_per_s,
            row.bulk_mb_per_s,
            row.bandwidth_pct,
            row.limit_bandwidth_pct,
            row.durable_ms_mean,
            row.durable_ms_p99,
            row.durable_points_per_s,
        );
    }
    text
}
