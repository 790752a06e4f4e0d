//! The demo's second experiment: other drives, and any number of bulk requests outstanding, at the highest rate of durable points.
//!
//! The first experiment has one drive and one depth, so a policy that holds there alone would show nothing. This one is always in
//! virtual time, whatever the rest of the demo runs in: it takes a moment, and each row compares with the bare drive in the same
//! setting. It never uses a profile that is not embedded.

use super::experiment::{BulkKind, DISK, POINTS_PER_S, Row, Setting, Span};
use super::in_virtual_time;
use nearhead_basics::{Column, Table};
use nearhead_figures::chart::BarChart;
use nearhead_volume::NamedPreset;
use std::fmt::Write;

/// Profiles of the drives: 15,000 rpm and 146 GB, 7,200 rpm and 1 TB, 7,200 rpm and 20 TB.
pub(crate) const DRIVES: [&str; 3] = [DISK, "constellation-es3-1tb", "exos-x20-20tb"];
/// Requests that the bulk client keeps outstanding.
pub(crate) const OUTSTANDING: [u32; 4] = [1, 2, 4, 8];
/// Presets compared: writes in place, logs near the head, and those on a drive whose tracks are known.
pub(crate) const PRESETS: [&str; 3] = ["nolog", "mlb", "nearhead"];

/// Small durable writes a second in each row.
pub(crate) fn writes_per_s() -> u32 {
    points_per_s() * 20
}

fn points_per_s() -> u32 {
    POINTS_PER_S[POINTS_PER_S.len() - 1]
}

/// All rows of one drive, one kind of bulk and one preset, by outstanding requests.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    rows: Vec<Row>,
}

/// The result.
#[derive(Clone, Debug)]
pub(crate) struct Axes {
    /// By drive, then by kind of bulk, then by preset.
    lines: Vec<Line>,
}

impl Axes {
    /// Runs every point; `progress` gets the next drive and kind of bulk.
    pub(crate) fn measured(span: Span, mut progress: impl FnMut(String)) -> Result<Self, String> {
        let mut lines = Vec::new();
        for drive in DRIVES {
            for kind in BulkKind::ALL {
                progress(format!(
                    "{drive} in virtual time: big {}s, 1 to 8 outstanding",
                    kind.name()
                ));
                let settings = OUTSTANDING.map(|outstanding| Setting { drive, kind, outstanding });
                let alone = settings.map(|setting| in_virtual_time::alone_on(setting, span));
                let alone = alone.into_iter().collect::<Result<Vec<f64>, String>>()?;
                for preset in PRESETS {
                    lines.push(Line::measured(&settings, &alone, preset, span)?);
                }
            }
        }
        Ok(Self { lines })
    }

    /// Every row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lines.iter().flat_map(|line| &line.rows)
    }

    /// Table for a terminal: a line for each drive, kind of bulk and preset.
    pub(crate) fn text(&self) -> String {
        let headings = OUTSTANDING.map(|count| format!("{count} outstanding"));
        let fixed = ["drive", "bulk", "preset"].map(Column::left);
        let by_count = headings.iter().map(|heading| Column::right(heading).width(14).gap(2));
        let mut table = Table::new(fixed.into_iter().chain(by_count));
        for line in &self.lines {
            let names = line.names().map(str::to_owned);
            table.row(names.into_iter().chain(line.rows.iter().map(|row| cell(row, " "))));
        }
        format!(
            "{} writes/s on each drive, in virtual time: % of the disk, mean and p99 ms\n{}",
            writes_per_s(),
            table.text()
        )
    }

    /// Section of the page: charts and the table.
    pub(crate) fn section(&self) -> Result<String, String> {
        let mut page = format!(
            "<h2>On other drives, and with more outstanding</h2>\n<p>The same clients at {} writes/s in virtual time, write caches off. \
             The big client keeps 1, 2, 4 or 8 requests of 1 MiB outstanding.</p>\n<div class=\"charts\">\n",
            writes_per_s()
        );
        for kind in BulkKind::ALL {
            for drive in DRIVES {
                page.push_str(&self.chart(drive, kind)?);
            }
        }
        page.push_str("</div>\n<table><tr><th>drive</th><th>big I/O</th><th>preset</th>");
        for count in OUTSTANDING {
            let _ = write!(page, "<th>{count} outstanding: %, mean, p99 ms</th>");
        }
        page.push_str("</tr>\n");
        for line in &self.lines {
            page.push_str("<tr>");
            for name in line.names() {
                let _ = write!(page, "<td>{name}");
            }
            for row in &line.rows {
                let _ = write!(page, "<td>{}", cell(row, ", "));
            }
            page.push('\n');
        }
        page.push_str("</table>\n");
        Ok(page)
    }

    fn chart(&self, drive: &str, kind: BulkKind) -> Result<String, String> {
        let lines = self.lines.iter().filter(|line| line.names()[..2] == [drive, kind.name()]);
        let series = lines.map(|line| {
            let means = line.rows.iter().map(|row| row.durable_ms_mean).collect();
            (line.names()[2].to_owned(), means)
        });
        BarChart {
            title: &format!("Durable writes under bulk {}s: {drive}", kind.name()),
            unit: "ms, logarithmic",
            groups: OUTSTANDING.iter().map(|count| format!("{count} outstanding")).collect(),
            series: series.collect(),
            limit: None,
            decades: true,
        }
        .render()
    }
}

impl Line {
    /// Runs the points of one drive and preset; `alone` is the bandwidth of the bare drive in each of the settings.
    fn measured(
        settings: &[Setting],
        alone: &[f64],
        name: &str,
        span: Span,
    ) -> Result<Self, String> {
        let preset = NamedPreset::by_name(name).map_err(|error| error.to_string())?;
        let drive = settings.first().map_or(DISK, |setting| setting.drive);
        let tracks = in_virtual_time::tracks(drive, preset)?;
        let row = |(setting, alone): (&Setting, &f64)| {
            let rate = points_per_s();
            let results = in_virtual_time::point_on(*setting, preset, &tracks, rate, span)?;
            Row::new(name, *setting, rate, &results, *alone)
        };
        let rows = settings.iter().zip(alone).map(row).collect::<Result<_, String>>()?;
        Ok(Self { rows })
    }

    /// Drive, kind of bulk and preset.
    fn names(&self) -> [&str; 3] {
        self.rows.first().map_or([""; 3], |row| [&row.drive, row.bulk.name(), &row.preset])
    }
}

/// Bandwidth kept, mean and p99 until durable.
fn cell(row: &Row, between: &str) -> String {
    let [kept, mean, p99] = [row.bandwidth_pct, row.durable_ms_mean, row.durable_ms_p99];
    format!("{kept:.1}{between}{mean:.1}{between}{p99:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(drive: &'static str, kind: BulkKind, outstanding: u32, preset: &str) -> Row {
        let span = Span::of_seconds(6.0);
        let preset = NamedPreset::by_name(preset).unwrap();
        let setting = Setting { drive, kind, outstanding };
        let tracks = in_virtual_time::tracks(drive, preset).unwrap();
        let results = in_virtual_time::point_on(setting, preset, &tracks, 16, span).unwrap();
        let alone = in_virtual_time::alone_on(setting, span).unwrap();
        Row::new(preset.name, setting, 16, &results, alone).unwrap()
    }

    /// A record that bulk passes waits for a queue of 1 MiB requests: 15 times as long as here at eight outstanding, four times as
    /// long on the drive of 20 TB.
    #[test]
    fn durable_writes_do_not_wait_behind_bulk_on_any_drive() {
        for drive in DRIVES {
            for (kind, outstanding) in [(BulkKind::Read, 2), (BulkKind::Write, 8)] {
                for preset in ["mlb", "nearhead"] {
                    let row = row(drive, kind, outstanding, preset);
                    assert!(row.durable_ms_mean < 10.0, "{row:?}");
                    assert!(row.durable_ms_p99 < 25.0 && row.bandwidth_pct > 75.0, "{row:?}");
                }
            }
        }
    }
}
