//! The demo's result as a table for a terminal.

use super::experiment::Row;
use crate::busy;
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
            "{:<6} {:<10} {:>8} {:>10.1} {:>10.1} {:>8.1} {:>9.1} {:>9.1}  {:>4.1}{}",
            row.bulk.name(),
            row.preset,
            row.writes_per_s,
            row.bulk_mb_per_s,
            row.bandwidth_pct,
            row.limit_bandwidth_pct,
            row.durable_ms_mean,
            row.durable_ms_p99,
            row.durable_points_per_s,
            if row.machine_was_busy { format!("  {}", busy::BUSY) } else { String::new() },
        );
    }
    text
}

/// What the machine did beside, and whether the numbers can be believed; nothing in virtual time.
pub(crate) fn machine(rows: &[Row]) -> String {
    let watched = rows.iter().filter_map(|row| row.machine.as_ref()).count();
    if watched == 0 {
        return String::new();
    }
    let busy = || rows.iter().filter(|row| row.machine_was_busy);
    let elsewhere = |row: &&Row| row.machine.as_ref().map_or(0.0, busy::Machine::elsewhere_pct);
    let worst = |of: &mut dyn Iterator<Item = &Row>| -> Option<busy::Machine> {
        of.max_by(|a, b| elsewhere(a).total_cmp(&elsewhere(b)))?.machine.clone()
    };
    if let Some(told) = worst(&mut busy()).and_then(|machine| busy::repeat(&machine)) {
        let count = busy().count();
        return format!("\n{count} of {watched} rows are marked {}: {told}\n", busy::BUSY);
    }
    let at_worst = worst(&mut rows.iter()).map_or(String::new(), |machine| busy::seen(&machine));
    format!("\nThe machine was quiet; at its worst: {at_worst}\n")
}
