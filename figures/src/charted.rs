//! Charts drawn from a figure's own table: what its CSV file says is what is drawn, and a table is described once.
//!
//! One column tells the series, one what they go over, one the values. An axis is logarithmic where one value would hide the rest.

use crate::chart::{BarChart, LineChart};
use crate::error::FigureError;
use crate::report::{Data, Drawing};

/// From so many times the smallest value on the largest one hides it on a linear axis.
const HIDES: f64 = 50.0;

/// What is drawn of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charted<'a> {
    /// Part of the file's name.
    pub(crate) name: &'a str,
    /// Heading.
    pub(crate) title: &'a str,
    /// The column whose entries are the series.
    pub(crate) series: &'a str,
    /// The column over which they go, and what it is, with its unit; of bars nothing if its entries say so.
    pub(crate) over: (&'a str, &'a str),
    /// The column of the values, and what they are, with their unit.
    pub(crate) value: (&'a str, &'a str),
    /// Only rows whose columns have these entries.
    pub(crate) only: &'a [(&'a str, &'a str)],
}

/// The entries of a chart, series and what they go over in the order in which they come.
struct Entries<'d> {
    series: Vec<&'d str>,
    over: Vec<&'d str>,
    /// Number of the series, number of what it goes over, value.
    values: Vec<(usize, usize, f64)>,
}

impl Charted<'_> {
    /// A group of bars for each entry of the column that the series go over.
    pub(crate) fn bars(&self, data: &Data) -> Result<Drawing, FigureError> {
        let entries = self.entries(data)?;
        let mut series: Vec<(String, Vec<f64>)> = Vec::new();
        for name in &entries.series {
            series.push(((*name).to_owned(), vec![0.0; entries.over.len()]));
        }
        for (nth, group, value) in &entries.values {
            series[*nth].1[*group] = *value;
        }
        let decades = spans_decades(entries.values.iter().map(|(_, _, value)| *value));
        let chart = BarChart {
            title: self.title,
            unit: &axis(self.value.1, decades),
            groups: entries.over.iter().map(|group| self.group(group)).collect(),
            series,
            limit: None,
            decades,
        };
        Drawing::new(self.name, chart.render())
    }

    /// A line for each series; the column that they go over has numbers.
    pub(crate) fn lines(&self, data: &Data) -> Result<Drawing, FigureError> {
        let entries = self.entries(data)?;
        let x: Vec<f64> =
            entries.over.iter().map(|entry| self.number(entry)).collect::<Result<_, _>>()?;
        let line = |(nth, name): (usize, &&str)| {
            let points = entries.values.iter().filter(|(of, _, _)| *of == nth);
            ((*name).to_owned(), points.map(|(_, at, value)| (x[*at], *value)).collect())
        };
        let x_decades = spans_decades(x.iter().copied());
        let y_decades = spans_decades(entries.values.iter().map(|(_, _, value)| *value));
        let chart = LineChart {
            title: self.title,
            x_label: &axis(self.over.1, x_decades),
            y_label: &axis(self.value.1, y_decades),
            x_decades,
            y_decades,
            series: entries.series.iter().enumerate().map(line).collect(),
        };
        Drawing::new(self.name, chart.render())
    }

    fn group(&self, entry: &str) -> String {
        if self.over.1.is_empty() { entry.to_owned() } else { format!("{}: {entry}", self.over.1) }
    }

    fn entries<'d>(&self, data: &'d Data) -> Result<Entries<'d>, FigureError> {
        let column = |name: &str| {
            let found = data.columns.iter().position(|column| column == name);
            found
                .ok_or_else(|| self.failed(&format!("no column {name} in the table {}", data.name)))
        };
        let (series, over, value) =
            (column(self.series)?, column(self.over.0)?, column(self.value.0)?);
        let only: Vec<(usize, &str)> = self
            .only
            .iter()
            .map(|(name, entry)| Ok((column(name)?, *entry)))
            .collect::<Result<_, FigureError>>()?;
        let mut entries = Entries { series: Vec::new(), over: Vec::new(), values: Vec::new() };
        for row in &data.rows {
            if only.iter().all(|(at, entry)| row[*at] == *entry) {
                let nth = number_of(&mut entries.series, &row[series]);
                let at = number_of(&mut entries.over, &row[over]);
                entries.values.push((nth, at, self.number(&row[value])?));
            }
        }
        Ok(entries)
    }

    fn number(&self, entry: &str) -> Result<f64, FigureError> {
        entry.parse().map_err(|_| self.failed(&format!("expected a number, found {entry:?}")))
    }

    fn failed(&self, what: &str) -> FigureError {
        FigureError::Chart(format!("{}: {what}", self.name))
    }
}

/// Where the entry stands among those that came so far.
fn number_of<'d>(entries: &mut Vec<&'d str>, entry: &'d str) -> usize {
    entries.iter().position(|one| *one == entry).unwrap_or_else(|| {
        entries.push(entry);
        entries.len() - 1
    })
}

/// How many times faster each of `series` is at every percentile: name, and percentile with factor.
pub(crate) fn speed_up_lines(
    title: &str,
    series: Vec<(String, Vec<(f64, f64)>)>,
) -> Result<Drawing, FigureError> {
    let factors = series.iter().flat_map(|(_, points)| points.iter().map(|(_, factor)| *factor));
    let y_decades = spans_decades(factors);
    let chart = LineChart {
        title,
        x_label: "percentile",
        y_label: &axis("times faster", y_decades),
        x_decades: false,
        y_decades,
        series,
    };
    Drawing::new("speedups", chart.render())
}

fn spans_decades(values: impl Iterator<Item = f64>) -> bool {
    let positive = values.filter(|value| *value > 0.0);
    let (least, most) = positive
        .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    most > least * HIDES
}

fn axis(label: &str, decades: bool) -> String {
    if decades { format!("{label}, logarithmic") } else { label.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 4]]) -> Data {
        let mut data = Data::new("points", &["mode", "threads", "kind", "ms"]);
        for row in rows {
            data.push(row.map(str::to_owned));
        }
        data
    }

    const CHART: Charted<'_> = Charted {
        name: "latency",
        title: "Latency",
        series: "mode",
        over: ("threads", "threads"),
        value: ("ms", "mean, ms"),
        only: &[("kind", "slow")],
    };

    #[test]
    fn a_chart_has_the_rows_that_it_is_of_and_a_logarithmic_axis_where_one_value_hides_the_rest() {
        let near = [["a", "1", "slow", "2.0"], ["b", "1", "slow", "3.0"], ["c", "1", "fast", "9"]];
        for drawn in [CHART.bars(&table(&near)).unwrap(), CHART.lines(&table(&near)).unwrap()] {
            assert!(drawn.svg.contains("mean, ms") && !drawn.svg.contains("logarithmic"));
            assert!(drawn.svg.contains(">\na\n<") && !drawn.svg.contains(">\nc\n<"));
        }
        let far = [["a", "1", "slow", "0.02"], ["b", "1", "slow", "3000.0"]];
        for drawn in [CHART.bars(&table(&far)).unwrap(), CHART.lines(&table(&far)).unwrap()] {
            assert!(drawn.svg.contains("mean, ms, logarithmic"), "{}", drawn.svg);
        }
    }

    #[test]
    fn a_spike_does_not_hide_the_other_percentiles_of_a_speed_up() {
        let near = vec![("W1".to_owned(), vec![(50.0, 1.0), (99.0, 7.0)])];
        assert!(!speed_up_lines("t", near).unwrap().svg.contains("logarithmic"));
        let spike = vec![("W1".to_owned(), vec![(50.0, 1.0), (99.0, 700.0)])];
        assert!(speed_up_lines("t", spike).unwrap().svg.contains("times faster, logarithmic"));
    }

    #[test]
    fn a_table_without_the_column_is_an_error_that_names_it() {
        let chart = Charted { series: "method", ..CHART };
        let problem = chart.bars(&table(&[])).unwrap_err();
        assert!(problem.to_string().contains("no column method"), "{problem}");
    }
}
