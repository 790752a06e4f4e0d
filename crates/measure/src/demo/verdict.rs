//! What the demo came to, in words: one sentence, and what it rests on.

use super::axes::{self, Axes};
use super::experiment::{BulkKind, Row};

/// What is told of: in the middle of the rates, and what everybody would do without logs beside what the default preset does.
const WRITES_PER_S: u32 = 160;
const BASELINE: &str = "nolog";
const OURS: &str = nearhead_volume::DEFAULT_PRESET;

/// The result in a sentence; none if the rows that it is about are not all there.
pub(crate) fn sentence(rows: &[Row]) -> Option<String> {
    let row = |preset: &str| {
        rows.iter().find(|row| {
            row.preset == preset && row.bulk == BulkKind::Read && row.writes_per_s == WRITES_PER_S
        })
    };
    let (in_place, ours) = (row(BASELINE)?, row(OURS)?);
    Some(format!(
        "Beside {WRITES_PER_S} small durable writes a second a big read keeps {:.0} % of the disk with {OURS}, and {:.0} % where they are \
         written in place; twenty of them are durable in {:.1} ms instead of {:.0} (99 of 100 times in {:.1} instead of {:.0}).",
        ours.bandwidth_pct,
        in_place.bandwidth_pct,
        ours.durable_ms_mean,
        in_place.durable_ms_mean,
        ours.durable_ms_p99,
        in_place.durable_ms_p99,
    ))
}

/// The same of the newest drive with most big reads outstanding, and the range over all drives and depths.
pub(crate) fn of_axes(axes: &Axes) -> Option<String> {
    let drive = axes::DRIVES[axes::DRIVES.len() - 1];
    let outstanding = axes::OUTSTANDING[axes::OUTSTANDING.len() - 1];
    let row = |preset: &str| {
        axes.rows().find(|row| {
            let is_setting = row.drive == drive && row.outstanding == outstanding;
            is_setting && row.bulk == BulkKind::Read && row.preset == preset
        })
    };
    let (in_place, newest) = (row(BASELINE)?, row(OURS)?);
    let ours: Vec<&Row> = axes.rows().filter(|row| row.preset == OURS).collect();
    let ends = |value: fn(&Row) -> f64| {
        let values = || ours.iter().map(|row| value(row));
        Some((values().reduce(f64::min)?, values().reduce(f64::max)?))
    };
    let (kept, mean) = (ends(|row| row.bandwidth_pct)?, ends(|row| row.durable_ms_mean)?);
    Some(format!(
        "With {outstanding} big reads outstanding on {drive} and {} small durable writes a second, the reads keep {:.0} % of the disk with \
         {OURS}, and {:.0} % where the writes go in place; twenty of them are durable in {:.1} ms instead of {:.0} (99 of 100 times in \
         {:.1} instead of {:.0}). On {} drives with 1 to {outstanding} big requests outstanding it is {:.0} to {:.0} % and {:.1} to {:.1} ms.",
        axes::writes_per_s(),
        newest.bandwidth_pct,
        in_place.bandwidth_pct,
        newest.durable_ms_mean,
        in_place.durable_ms_mean,
        newest.durable_ms_p99,
        in_place.durable_ms_p99,
        axes::DRIVES.len(),
        kept.0,
        kept.1,
        mean.0,
        mean.1,
    ))
}

/// What made it: command, version, when, and on what machine.
pub(crate) fn made_by(command: &str) -> String {
    let machine = crate::bench::machine::Described::this();
    format!(
        "{command}, version {}, {}, {} processors ({})",
        env!("CARGO_PKG_VERSION"),
        chrono::Utc::now().format("%-d %B %Y, %H:%M UTC"),
        machine.processors,
        machine.processor,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(preset: &str, bulk: BulkKind, writes_per_s: u32, bandwidth_pct: f64) -> Row {
        Row {
            preset: preset.to_owned(),
            drive: "st3146855fc".to_owned(),
            bulk,
            outstanding: 2,
            writes_per_s,
            bandwidth_pct,
            durable_ms_mean: bandwidth_pct / 10.0,
            durable_ms_p99: bandwidth_pct / 5.0,
            limit_bandwidth_pct: 99.0,
            durable_points_per_s: 8.0,
            bulk_mb_per_s: 100.0,
            machine_was_busy: false,
            machine: None,
        }
    }

    #[test]
    fn the_sentence_is_of_the_rows_that_it_names_and_of_no_others() {
        let mut rows = vec![
            row("nolog", BulkKind::Read, 40, 1.0),
            row("nolog", BulkKind::Write, 160, 2.0),
            row("nolog", BulkKind::Read, 160, 30.0),
            row("mlb", BulkKind::Read, 160, 3.0),
        ];
        assert_eq!(sentence(&rows), None);
        rows.push(row("nearhead", BulkKind::Read, 160, 90.0));
        let told = sentence(&rows).unwrap();
        assert!(told.contains("keeps 90 % of the disk with nearhead, and 30 %"), "{told}");
        assert!(
            told.contains("in 9.0 ms instead of 3 (99 of 100 times in 18.0 instead of 6)"),
            "{told}"
        );
    }
}
