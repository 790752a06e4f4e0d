//! The outcomes as tables for a terminal.

use super::outcome::Outcome;
use nearhead_basics::{Column, Table};
use nearhead_sim::replay::Share;
use std::fmt::Write;

/// What was replayed, latencies, and what the engine did.
pub(super) fn render(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let Some(first) = outcomes.first() else { return text };
    let results = &first.results;
    let _ = writeln!(
        text,
        "{} ({}) on {}: {} requests, {:.1} s of trace, {}",
        results.trace,
        results.format,
        first.disk,
        results.requests,
        results.trace_s,
        if results.closed_loop { "one at a time" } else { "at their times" }
    );
    for table in [latencies(outcomes), engines(outcomes)] {
        text.push('\n');
        text.push_str(&table.text());
    }
    let late: Vec<String> = outcomes.iter().filter(|outcome| !outcome.kept_up).map(late).collect();
    if !late.is_empty() {
        let _ = writeln!(
            text,
            "\nnot followed: {}. Latencies are those of a backlog that grows with the length of the trace, and so is each \
             speed-up in brackets; --time-scale or a faster disk helps.",
            late.join("; ")
        );
    }
    text.push_str(
        "\nspeed-up: mean over p50, p90, p95, p99 and p99.9 of all requests; delayed: arrivals that \
         found the queue full\n",
    );
    text
}

/// How far it fell behind.
fn late(outcome: &Outcome) -> String {
    let late_s = outcome.results.simulated_s - outcome.results.trace_s;
    format!("{} answered last {late_s:.0} s after the last request came", outcome.preset)
}

/// Over the first; in brackets if one of both did not follow the trace.
fn speed_up(outcome: &Outcome, first: Option<&Outcome>) -> String {
    let Some(times) = outcome.speed_up else { return "-".to_owned() };
    let followed = outcome.kept_up && first.is_none_or(|first| first.kept_up);
    if followed { format!("{times:.2}x") } else { format!("({times:.2}x)") }
}

/// Reads, writes and all of each outcome.
fn latencies(outcomes: &[Outcome]) -> Table<'static> {
    let number = |heading| Column::right(heading).width(9);
    let mut table = Table::new([
        Column::left("preset").width(10),
        Column::left("kind").width(6),
        Column::right("requests").width(8),
        number("mean ms"),
        number("p50"),
        number("p90"),
        number("p99"),
        number("p99.9"),
        number("max"),
        Column::right("MB/s").width(8),
    ]);
    for outcome in outcomes {
        let results = &outcome.results;
        for (kind, share) in
            [("reads", &results.reads), ("writes", &results.writes), ("all", &results.all)]
        {
            table.row(cells(&outcome.preset, kind, share, results.simulated_s));
        }
    }
    table
}

fn cells(preset: &str, kind: &str, share: &Share, simulated_s: f64) -> [String; 10] {
    let latency = &share.latency;
    let ms = |value: f64| format!("{value:.2}");
    [
        preset.to_owned(),
        kind.to_owned(),
        share.requests.to_string(),
        ms(latency.mean_ms),
        ms(latency.p50_ms),
        ms(latency.p90_ms),
        ms(latency.p99_ms),
        ms(latency.p999_ms),
        ms(latency.max_ms),
        format!("{:.1}", share.bytes as f64 / 1e6 / simulated_s.max(1e-9)),
    ]
}

/// What each engine did.
fn engines(outcomes: &[Outcome]) -> Table<'static> {
    let mut table = Table::new([
        Column::left("preset").width(10),
        Column::right("speed-up").width(10),
        Column::right("records").width(9),
        Column::right("swaps").width(6),
        Column::right("spills").width(7),
        Column::right("log fill").width(8),
        Column::right("simulated s").width(11),
        Column::right("wall s").width(8),
        Column::right("requests/s").width(12),
        Column::right("delayed").width(9),
    ]);
    for outcome in outcomes {
        let results = &outcome.results;
        table.row([
            outcome.preset.clone(),
            speed_up(outcome, outcomes.first()),
            outcome.records.to_string(),
            outcome.swaps.to_string(),
            outcome.spills.to_string(),
            format!("{}%", outcome.log_fill_pct),
            format!("{:.1}", results.simulated_s),
            format!("{:.2}", results.wall_s),
            format!("{:.0}", results.requests_per_wall_s),
            results.delayed_requests.to_string(),
        ]);
    }
    table
}
