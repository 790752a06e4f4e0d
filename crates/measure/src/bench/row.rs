//! A number that was measured, beside the number it should be.

use crate::busy;
use nearhead_basics::{Column, Table};
use serde::Serialize;
use std::borrow::Cow;

/// What a number must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// Nothing is claimed; it helps to understand the others.
    Informative,
}

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// Unit last.
    pub(super) name: Cow<'static, str>,
    pub(super) target: Target,
    /// `None` if it was not measured; `detail` says why.
    pub(super) measured: Option<f64>,
    /// `None` if it was not measured or nothing is claimed.
    pub(super) met: Option<bool>,
    /// Whether the machine did so much else meanwhile that the number says little.
    pub(super) machine_was_busy: bool,
    /// What it was made of.
    pub(super) detail: String,
}

impl Row {
    pub(super) fn new(
        name: impl Into<Cow<'static, str>>,
        target: Target,
        measured: f64,
        detail: String,
    ) -> Self {
        let met = match target {
            Target::AtLeast(least) => Some(measured >= least),
            Target::AtMost(most) => Some(measured <= most),
            Target::Informative => None,
        };
        Self {
            name: name.into(),
            target,
            measured: Some(measured),
            met,
            machine_was_busy: false,
            detail,
        }
    }

    /// A number that could not be measured here, and what would help.
    pub(super) fn skipped(name: impl Into<Cow<'static, str>>, target: Target, why: &str) -> Self {
        Self {
            name: name.into(),
            target,
            measured: None,
            met: None,
            machine_was_busy: false,
            detail: format!("skipped: {why}"),
        }
    }
}

/// The middle one of `values`, or the mean of the middle two; 0 for none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The rows for a terminal.
pub(super) fn table(rows: &[Row]) -> String {
    let mut table = Table::new([
        Column::left("name"),
        Column::right("target").width(12),
        Column::right("measured").width(12),
        Column::left("met").width(4).gap(2),
        Column::left("of"),
    ]);
    for row in rows {
        let target = match row.target {
            Target::AtLeast(least) => format!(">= {}", shown(least)),
            Target::AtMost(most) => format!("<= {}", shown(most)),
            Target::Informative => "-".to_owned(),
        };
        let measured = row.measured.map_or("-".to_owned(), shown);
        let met = match row.met {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        let busy = if row.machine_was_busy { format!("{}: ", busy::BUSY) } else { String::new() };
        let detail = format!("{busy}{}", row.detail);
        table.row([row.name.to_string(), target, measured, met.to_owned(), detail]);
    }
    table.text()
}

fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.2}e6", value / 1e6),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(&[9.0, 1.0, 3.0]).to_bits(), 3.0_f64.to_bits());
        assert_eq!(median(&[9.0, 1.0, 3.0, 4.0]).to_bits(), 3.5_f64.to_bits());
        assert_eq!(median(&[]).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn a_row_knows_whether_its_target_is_met() {
        let met = |target| Row::new("x", target, 5.0, String::new()).met;
        assert_eq!(met(Target::AtLeast(5.0)), Some(true));
        assert_eq!(met(Target::AtLeast(5.1)), Some(false));
        assert_eq!(met(Target::AtMost(4.9)), Some(false));
        assert_eq!(met(Target::Informative), None);
        assert_eq!(Row::skipped("x", Target::AtMost(1.0), "no").met, None);
    }

    #[test]
    fn a_row_of_a_busy_machine_says_so_in_the_table() {
        let row = |machine_was_busy| Row {
            machine_was_busy,
            ..Row::new("x", Target::AtLeast(1.0), 2.0, "two of them".to_owned())
        };
        assert!(table(&[row(true)]).contains("BUSY: two of them"));
        assert!(!table(&[row(false)]).contains("BUSY"));
    }
}
