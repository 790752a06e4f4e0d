//! What a figure is made of: rows to compare, the data behind them, charts and words.
//!
//! Every figure comes in this one form, so that terminal, CSV, SVG and page show the same. A value
//! that was not measured says why; nothing is filled in.

use crate::error::FigureError;

/// One value of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Does not apply.
    Nothing,
    /// A number.
    Number(f64),
    /// From, to.
    Range(f64, f64),
    /// At least, or at most, as the words say: "at least 1.9".
    Words(String),
    /// It was to be measured and was not: why.
    NotRun(String),
}

impl Value {
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        if let Self::Number(value) = self { Some(*value) } else { None }
    }

    /// As people read it.
    pub fn shown(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Number(value) => shown(*value),
            Self::Range(low, high) => format!("{} to {}", shown(*low), shown(*high)),
            Self::Words(words) => words.clone(),
            Self::NotRun(why) => format!("not run: {why}"),
        }
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Number(value) } else { Self::Nothing }
    }
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Nothing, Self::from)
    }
}

/// Three or four significant figures.
pub(crate) fn shown(value: f64) -> String {
    let size = value.abs();
    if size >= 100_000.0 {
        format!("{value:.3e}")
    } else if size >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.01 {
        format!("{value:.2}")
    } else {
        format!("{value:.1e}")
    }
}

/// One comparison: the papers' figure, the goal, what was measured, and what the model allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Under which conditions, of which system.
    pub case: String,
    /// Unit of all values of the row.
    pub unit: &'static str,
    /// What the paper reports.
    pub paper: Value,
    /// What the project aims at.
    pub goal: Value,
    /// What the system compared with did in this run.
    pub baseline: Value,
    /// What Nearhead did in this run.
    pub ours: Value,
    /// What the modelled disk allows at best.
    pub limit: Value,
}

impl Row {
    /// A row without any value yet.
    pub fn new(case: impl Into<String>, unit: &'static str) -> Self {
        Self {
            case: case.into(),
            unit,
            paper: Value::Nothing,
            goal: Value::Nothing,
            baseline: Value::Nothing,
            ours: Value::Nothing,
            limit: Value::Nothing,
        }
    }

    /// With the paper's value.
    #[must_use]
    pub fn paper(self, value: impl Into<Value>) -> Self {
        Self { paper: value.into(), ..self }
    }

    /// With the goal.
    #[must_use]
    pub fn goal(self, value: impl Into<Value>) -> Self {
        Self { goal: value.into(), ..self }
    }

    /// With what the system compared with did.
    #[must_use]
    pub fn baseline(self, value: impl Into<Value>) -> Self {
        Self { baseline: value.into(), ..self }
    }

    /// With what Nearhead did.
    #[must_use]
    pub fn ours(self, value: impl Into<Value>) -> Self {
        Self { ours: value.into(), ..self }
    }

    /// With what the model allows.
    #[must_use]
    pub fn limit(self, value: impl Into<Value>) -> Self {
        Self { limit: value.into(), ..self }
    }

    /// Names of the columns, in the order of [`Row::cells`].
    pub const COLUMNS: [&'static str; 7] =
        ["case", "unit", "paper", "goal", "baseline", "ours", "physical limit"];

    /// The row as people read it.
    pub fn cells(&self) -> [String; 7] {
        [
            self.case.clone(),
            self.unit.to_owned(),
            self.paper.shown(),
            self.goal.shown(),
            self.baseline.shown(),
            self.ours.shown(),
            self.limit.shown(),
        ]
    }
}

/// The numbers behind a figure, as they go into a CSV file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// Part of the file's name.
    pub name: String,
    /// Names of the columns, units last.
    pub columns: Vec<String>,
    /// As many values in each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Data {
    /// An empty table.
    pub fn new(name: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { name: name.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push<const N: usize>(&mut self, row: [String; N]) {
        debug_assert_eq!(N, self.columns.len(), "{}", self.name);
        self.rows.push(row.into());
    }
}

/// A drawn chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Part of the file's name.
    pub name: String,
    /// The whole SVG file.
    pub svg: String,
}

impl Drawing {
    /// What a chart rendered to.
    pub(crate) fn new(name: &str, rendered: Result<String, String>) -> Result<Self, FigureError> {
        let svg = rendered.map_err(FigureError::Chart)?;
        Ok(Self { name: name.to_owned(), svg })
    }
}

/// A figure or table of a paper, reproduced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// As users name it.
    pub name: &'static str,
    /// Its heading.
    pub title: String,
    /// What was run, on which model.
    pub ran: String,
    /// What differs from the paper's set-up, and why.
    pub differs: Vec<String>,
    /// What came out, computed from this run.
    pub findings: Vec<String>,
    /// The comparison.
    pub rows: Vec<Row>,
    /// The numbers behind it.
    pub data: Vec<Data>,
    /// Charts.
    pub drawings: Vec<Drawing>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_was_not_measured_says_why() {
        let row = Row::new("a", "ms").paper(209.0).ours(Value::NotRun("no such model".into()));
        assert_eq!(row.cells()[5], "not run: no such model");
        assert_eq!(row.cells()[2], "209");
        assert_eq!(Value::from(f64::NAN), Value::Nothing);
    }

    #[test]
    fn numbers_are_shown_with_three_figures() {
        for (value, text) in
            [(0.0, "0"), (0.123, "0.12"), (5.678, "5.68"), (56.78, "56.8"), (5678.0, "5678")]
        {
            assert_eq!(shown(value), text);
        }
    }
}
