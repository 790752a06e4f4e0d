//! The outcomes as tables for a terminal.

use super::outcome::Outcome;
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
    let _ = writeln!(
        text,
        "\n{:<10} {:<6} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "preset", "kind", "requests", "mean ms", "p50", "p90", "p99", "p99.9", "max", "MB/s"
    );
    for outcome in outcomes {
        let results = &outcome.results;
        for (kind, share) in
            [("reads", &results.reads), ("writes", &results.writes), ("all", &results.all)]
        {
            line(&mut text, &outcome.preset, kind, share, results.simulated_s);
        }
    }
    let _ = writeln!(
        text,
        "\n{:<10} {:>8} {:>9} {:>6} {:>7} {:>8} {:>11} {:>8} {:>12} {:>9}",
        "preset",
        "speed-up",
        "records",
        "swaps",
        "spills",
        "log fill",
        "simulated s",
        "wall s",
        "requests/s",
        "delayed"
    );
    for outcome in outcomes {
        let results = &outcome.results;
        let speed_up = outcome.speed_up.map_or("-".to_owned(), |times| format!("{times:.2}x"));
        let _ = writeln!(
            text,
            "{:<10} {:>8} {:>9} {:>6} {:>7} {:>7}% {:>11.1} {:>8.2} {:>12.0} {:>9}",
            outcome.preset,
            speed_up,
            outcome.records,
            outcome.swaps,
            outcome.spills,
            outcome.log_fill_pct,
            results.simulated_s,
            results.wall_s,
            results.requests_per_wall_s,
            results.delayed_requests
        );
    }
    text.push_str(
        "\nspeed-up: mean over p50, p90, p95, p99 and p99.9 of all requests; delayed: arrivals that \
         found the queue full\n",
    );
    text
}

fn line(text: &mut String, preset: &str, kind: &str, share: &Share, simulated_s: f64) {
    let latency = &share.latency;
    let _ = writeln!(
        text,
        "{preset:<10} {kind:<6} {:>8} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>8.1}",
        share.requests,
        latency.mean_ms,
        latency.p50_ms,
        latency.p90_ms,
        latency.p99_ms,
        latency.p999_ms,
        latency.max_ms,
        share.bytes as f64 / 1e6 / simulated_s.max(1e-9)
    );
}
