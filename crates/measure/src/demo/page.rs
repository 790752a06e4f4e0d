//! The demo's result as one self-contained page: charts, table, and what the figures mean.

use super::axes::Axes;
use super::experiment::{BulkKind, DISK, POINTS_PER_S, PRESETS, Row};
use super::head_path::HeadPath;
use super::{table as words, verdict};
use crate::busy;
use nearhead_figures::chart::BarChart;
use std::fmt::Write;

/// The page for `rows`, of points of `seconds` each, `axes` and the head's ways; `made_by` names command, time and machine.
pub(crate) fn render(
    rows: &[Row],
    axes: &Axes,
    ways: &[HeadPath],
    seconds: f64,
    in_virtual_time: bool,
    made_by: &str,
) -> Result<String, String> {
    let mut page = nearhead_figures::head("Nearhead demo");
    page.push_str("<h1>Small durable writes beside big I/O on one disk</h1>\n");
    for sentence in [verdict::of_axes(axes), verdict::sentence(rows)].into_iter().flatten() {
        let _ = writeln!(page, "<p><strong>{}</strong></p>", nearhead_figures::escaped(&sentence));
    }
    let _ = writeln!(page, "<p>Made by {}.</p>", nearhead_figures::escaped(made_by));
    let how = if in_virtual_time {
        "engine and disk model in virtual time, without sockets"
    } else {
        "in real time, every client through an NBD Unix socket"
    };
    let _ = writeln!(
        page,
        "<p>An emulated 15,000-rpm disk (profile <code>{DISK}</code>, write cache off), {how}; \
         {seconds} s a point. A <em>durable point</em> is 20 writes of 4 KiB scattered over the \
         disk, then a flush; its time runs from the first write's issue until all are durable.</p>"
    );
    let _ = writeln!(page, "<p>{}</p>", machine(rows));
    head(&mut page, ways)?;
    for kind in BulkKind::ALL {
        let _ = writeln!(page, "<h2>Beside big {}s</h2>\n<div class=\"charts\">", kind.name());
        for chart in charts(rows, kind) {
            page.push_str(&chart.render()?);
        }
        page.push_str("</div>\n");
    }
    page.push_str(&table(rows));
    page.push_str(&axes.section()?);
    page.push_str(
        "<p><strong>% of the disk</strong>: the bulk client's bandwidth, against what the same \
         client got from the same bare disk alone, over the same bytes, in this run. \
         <strong>Limit</strong>: what it could keep if a durable point cost the disk the transfer of \
         its bytes and nothing else (no seek, no rotation, no header). No disk with one arm can \
         reach it: the head must leave the stream and come back.</p>\n\
         <p><code>nolog</code> writes every block in place; <code>singlelog</code> writes one record \
         per durable point to a log in the middle of the disk; <code>mlb</code> writes it to the log \
         nearest the head; <code>nearhead</code> writes it where the head arrives, in the log that costs \
         least there and back.</p>\n</html>\n",
    );
    Ok(page)
}

/// Where the head was over time.
fn head(page: &mut String, ways: &[HeadPath]) -> Result<(), String> {
    page.push_str(
        "<h2>Where the head goes</h2>\n<p>Half a second of it beside a big read and 160 small durable writes a second, in virtual time: \
         the line goes from each transfer to the next, so each time it rises the stream waits for the arm to go there and back.</p>\n\
         <div class=\"charts\">\n",
    );
    for way in ways {
        page.push_str(&way.chart()?);
    }
    page.push_str("</div>\n");
    Ok(())
}

/// Whether the numbers can be believed.
fn machine(rows: &[Row]) -> String {
    let told = nearhead_figures::escaped(words::machine(rows).trim());
    if told.is_empty() {
        return "Time is virtual, so nothing else that the machine did can have changed a number."
            .to_owned();
    }
    if rows.iter().any(|row| row.machine_was_busy) {
        format!("<strong>{told}</strong>")
    } else {
        told
    }
}

fn charts(rows: &[Row], kind: BulkKind) -> [BarChart<'static>; 3] {
    let of = |preset: &str, value: fn(&Row) -> f64| -> Vec<f64> {
        let chosen = rows.iter().filter(|row| row.bulk == kind && row.preset == preset);
        chosen.map(value).collect()
    };
    let series = |value: fn(&Row) -> f64| {
        PRESETS.iter().map(|preset| ((*preset).to_owned(), of(preset, value))).collect()
    };
    let groups = || POINTS_PER_S.iter().map(|rate| format!("{} writes/s", rate * 20)).collect();
    [
        BarChart {
            title: "Bandwidth of the big I/O",
            unit: "% of the disk alone",
            groups: groups(),
            series: with_bare(series(|row| row.bandwidth_pct)),
            limit: Some(("limit".to_owned(), of(PRESETS[0], |row| row.limit_bandwidth_pct))),
            decades: false,
        },
        BarChart {
            title: "Until 20 small writes are durable (mean)",
            unit: "ms, logarithmic",
            groups: groups(),
            series: series(|row| row.durable_ms_mean),
            limit: None,
            decades: true,
        },
        BarChart {
            title: "The same, 99 of 100 times at most",
            unit: "ms, logarithmic",
            groups: groups(),
            series: series(|row| row.durable_ms_p99),
            limit: None,
            decades: true,
        },
    ]
}

/// The disk without small writes, and without any of us, is what all others are measured by.
fn with_bare(mut series: Vec<(String, Vec<f64>)>) -> Vec<(String, Vec<f64>)> {
    series.push(("the bare disk, nobody beside".to_owned(), vec![100.0; POINTS_PER_S.len()]));
    series
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "<table><tr><th>big I/O</th><th>preset</th><th>writes/s</th><th>MB/s</th>\
         <th>% of the disk</th><th>limit %</th><th>durable mean, ms</th><th>p99, ms</th>\
         <th>durable points/s</th><th>machine</th></tr>\n",
    );
    for row in rows {
        let _ = writeln!(
            text,
            "<tr><td>{}<td>{}<td>{}<td>{:.1}<td>{:.1}<td>{:.1}<td>{:.1}<td>{:.1}<td>{:.1}<td>{}",
            row.bulk.name(),
            row.preset,
            row.writes_per_s,
            row.bulk_mb_per_s,
            row.bandwidth_pct,
            row.limit_bandwidth_pct,
            row.durable_ms_mean,
            row.durable_ms_p99,
            row.durable_points_per_s,
            match &row.machine {
                Some(_) if row.machine_was_busy => busy::BUSY,
                Some(_) => "quiet",
                None => "virtual time",
            }
        );
    }
    text + "</table>\n"
}
