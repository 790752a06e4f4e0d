//! The demo's result as a table for a terminal.

use super::experiment::Row;
use crate::busy;
use nearhead_basics::{Column, Table};

/// One line per row, in their order.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut table = Table::new([
        Column::left("bulk").width(6),
        Column::left("preset").width(10),
        Column::right("writes/s").width(8),
        Column::right("bulk MB/s").width(10),
        Column::right("% of disk").width(10),
        Column::right("limit %").width(8),
        Column::right("mean ms").width(9),
        Column::right("p99 ms").width(9),
        Column::left("durable points/s").gap(2),
    ]);
    for row in rows {
        let one = |value: f64| format!("{value:.1}");
        let busy = if row.machine_was_busy { format!("  {}", busy::BUSY) } else { String::new() };
        table.row([
            row.bulk.name().to_owned(),
            row.preset.clone(),
            row.writes_per_s.to_string(),
            one(row.bulk_mb_per_s),
            one(row.bandwidth_pct),
            one(row.limit_bandwidth_pct),
            one(row.durable_ms_mean),
            one(row.durable_ms_p99),
            format!("{:>4.1}{busy}", row.durable_points_per_s),
        ]);
    }
    table.text()
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
