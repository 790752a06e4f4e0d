//! Both distributions of response times: as SVG, or as letters on a terminal.

use nearhead_figures::chart::LineChart;
use nearhead_models::measured::MeasuredRequest;
use std::fmt::Write as _;

/// Points of a curve: more cannot be seen.
const POINTS: usize = 500;
const COLUMNS: usize = 72;
const ROWS: usize = 20;

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Points `(ms, share of requests at most that long)` of sorted times.
fn curve(sorted: &[f64]) -> Vec<(f64, f64)> {
    let last = sorted.len().saturating_sub(1);
    (0..=POINTS)
        .filter_map(|point| {
            let index = last * point / POINTS;
            sorted.get(index).map(|ms| (*ms, (index + 1) as f64 / sorted.len() as f64))
        })
        .collect()
}

/// The SVG.
pub(super) fn svg(
    title: &str,
    requests: &[MeasuredRequest],
    modelled: &[f64],
) -> Result<String, String> {
    let measured = sorted(requests.iter().map(|request| request.response_ms));
    let modelled = sorted(modelled.iter().copied());
    // The few slowest requests would squeeze all others into a corner.
    let slow = |times: &[f64]| times.get(times.len() * 999 / 1000).copied().unwrap_or(1.0);
    let right = slow(&measured).max(slow(&modelled)).max(0.001) * 1.05;
    let within = |times: &[f64]| -> Vec<(f64, f64)> {
        curve(times).into_iter().filter(|(ms, _)| *ms <= right).collect()
    };
    let chart = LineChart {
        title: &format!("{title}: response times, drive and model"),
        x_label: "response time, ms",
        y_label: "share of requests",
        x_decades: false,
        y_decades: false,
        series: vec![
            ("measured".to_owned(), within(&measured)),
            ("modelled".to_owned(), within(&modelled)),
        ],
    };
    chart.render()
}

/// The same in letters: `o` measured, `x` modelled, `*` both.
pub(super) fn terminal(requests: &[MeasuredRequest], modelled: &[f64]) -> String {
    let measured = sorted(requests.iter().map(|request| request.response_ms));
    let modelled = sorted(modelled.iter().copied());
    let slow = |times: &[f64]| times.get(times.len() * 999 / 1000).copied().unwrap_or(1.0);
    let right = slow(&measured).max(slow(&modelled)).max(0.001);
    let mut grid = vec![[b' '; COLUMNS]; ROWS];
    for (mark, times) in [(b'o', &measured), (b'x', &modelled)] {
        let row_of = |column: usize| {
            let limit = right * (column + 1) as f64 / COLUMNS as f64;
            let share = times.partition_point(|ms| *ms <= limit) as f64 / times.len().max(1) as f64;
            ROWS - 1 - ((share * ROWS as f64) as usize).min(ROWS - 1)
        };
        for (column, row) in (0..COLUMNS).map(row_of).enumerate() {
            let cell = &mut grid[row][column];
            *cell = if matches!(*cell, b' ') || *cell == mark { mark } else { b'*' };
        }
    }
    let mut text = String::from("share of requests (o measured, x modelled, * both)\n");
    for (index, row) in grid.iter().enumerate() {
        let percent = 100 * (ROWS - index) / ROWS;
        let _ = writeln!(text, "{percent:>4}% |{}", String::from_utf8_lossy(row).trim_end());
    }
    let _ = writeln!(text, "      +{}", "-".repeat(COLUMNS));
    let _ = write!(text, "       0 ms {right:>width$.1} ms", width = COLUMNS - 10);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;

    fn requests() -> Vec<MeasuredRequest> {
        (0..100)
            .map(|index| MeasuredRequest {
                write: false,
                lbn: index,
                sectors: 1,
                response_ms: index as f64 / 10.0,
                think: Nanos::ZERO,
            })
            .collect()
    }

    #[test]
    fn equal_distributions_lie_on_each_other() {
        let requests = requests();
        let same: Vec<f64> = requests.iter().map(|request| request.response_ms).collect();
        let text = terminal(&requests, &same);
        let drawn: String = text.lines().skip(1).collect();
        assert!(drawn.contains('*') && !drawn.contains('o') && !drawn.contains('x'), "{text}");
    }

    #[test]
    fn a_slower_model_lies_to_the_right() {
        let requests = requests();
        let slower: Vec<f64> = requests.iter().map(|request| request.response_ms + 3.0).collect();
        let text = terminal(&requests, &slower);
        let row = text.lines().nth(10).unwrap_or("");
        assert!(row.find('o') < row.find('x'), "{text}");
        assert!(svg("a drive", &requests, &slower).is_ok_and(|svg| svg.contains("modelled")));
    }
}
