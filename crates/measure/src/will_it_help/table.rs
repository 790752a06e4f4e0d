//! The answer for a terminal: a line for each that is compared, the sentence, and what it rests on.

use super::{Answer, Side};
use nearhead_basics::{Column, Table};
use nearhead_sim::LatencySummary;
use std::fmt::Write;

pub(super) fn text(answer: &Answer) -> String {
    let mut table = Table::new([
        Column::left("").width(12),
        Column::right("durable points").width(14),
        Column::right("mean ms").width(9),
        Column::right("p50").width(9),
        Column::right("p99").width(9),
        Column::right("bulk MB/s").width(10),
        Column::right("% of disk").width(10),
        Column::right("ends s late").width(12),
    ]);
    let recorded = answer.recorded();
    for side in recorded.iter().chain([&answer.bare]).chain(&answer.presets) {
        table.row(cells(answer, side));
    }
    let mut text = String::from("Will it help?\n\n");
    text.push_str(&table.text());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{}\n\nThis rests on:", answer.verdict().sentence);
    for line in answer.rests_on() {
        let _ = writeln!(text, "- {line}");
    }
    text
}

/// What is told of one of them.
pub(super) fn cells(answer: &Answer, side: &Side) -> [String; 8] {
    let points = LatencySummary::of(&side.points);
    let of_points = |ms: f64| if points.count == 0 { "-".to_owned() } else { format!("{ms:.2}") };
    let of_bulk = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    [
        side.name.clone(),
        points.count.to_string(),
        of_points(points.mean_ms),
        of_points(points.p50_ms),
        of_points(points.p99_ms),
        of_bulk(side.bulk_bytes_per_s.map(|rate| rate / 1e6)),
        of_bulk(answer.pct_of_disk(side)),
        format!("{:.1}", side.late_s),
    ]
}
