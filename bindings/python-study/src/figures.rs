//! The papers' figures, as data: what was compared, the numbers behind it, the charts.

use crate::told;
use nearhead_figures::{
    Data, Drawing, Effort, FIGURES, FigureError, Lab, Report, Row, Silent, Traces, Value, choose,
};
use pyo3::prelude::*;
use serde_json::{Map, json};
use std::path::PathBuf;

/// Name and summary of each figure.
#[pyfunction]
pub(crate) fn figure_names() -> Vec<(&'static str, &'static str)> {
    FIGURES.iter().map(|figure| (figure.name, figure.summary)).collect()
}

/// Makes the figures `names`, and writes their report to the folder `out` if there is one; each as JSON. A signal is heard between two figures.
#[pyfunction]
#[pyo3(signature = (names, effort, traces, out))]
#[expect(clippy::needless_pass_by_value, reason = "as the interpreter hands it over")]
pub(crate) fn figures(
    py: Python<'_>,
    names: Vec<String>,
    effort: &str,
    traces: Option<PathBuf>,
    out: Option<PathBuf>,
) -> PyResult<Vec<String>> {
    let effort = match effort {
        "full" => Effort::Full,
        "quick" => Effort::Quick,
        "tiny" => Effort::Tiny,
        found => {
            return Err(told(format!(
                "figures: expected effort \"full\", \"quick\" or \"tiny\", found {found:?}"
            )));
        }
    };
    let failed = |error: FigureError| told(format!("figures: {error}"));
    let chosen = choose(&names).map_err(failed)?;
    if let Some(folder) = &out {
        nearhead_figures::prepare(folder).map_err(failed)?;
    }
    let mut found = Traces::beside_the_project();
    if let Some(folder) = traces {
        if !folder.is_dir() {
            let shown = folder.display();
            return Err(told(format!("figures: expected traces to be a folder, found {shown}")));
        }
        found.folder = Some(folder);
    }
    let reports = py.detach(|| {
        let mut silent = Silent;
        let mut lab = Lab::new(effort, found, &mut silent);
        let mut reports: Vec<Report> = Vec::new();
        for figure in chosen {
            crate::signals::check()?;
            reports.push((figure.run)(&mut lab).map_err(failed)?);
        }
        Ok::<_, PyErr>(reports)
    })?;
    if let Some(folder) = &out {
        let how = format!("nearhead.figures({names:?})");
        nearhead_figures::write(&reports, &how, folder).map_err(failed)?;
    }
    Ok(reports.iter().map(told_of).collect())
}

fn told_of(report: &Report) -> String {
    let figure = json!({
        "name": report.name,
        "title": report.title,
        "ran": report.ran,
        "differs": report.differs,
        "findings": report.findings,
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "data": report.data.iter().map(table).collect::<Map<_, _>>(),
        "drawings": report.drawings.iter().map(drawing).collect::<Map<_, _>>(),
    });
    figure.to_string()
}

fn row(row: &Row) -> serde_json::Value {
    json!({
        "case": row.case,
        "unit": row.unit,
        "paper": value(&row.paper),
        "goal": value(&row.goal),
        "baseline": value(&row.baseline),
        "ours": value(&row.ours),
        "limit": value(&row.limit),
    })
}

fn value(value: &Value) -> serde_json::Value {
    match value {
        Value::Nothing => json!(null),
        Value::Number(number) => json!(number),
        Value::Range(low, high) => json!([low, high]),
        Value::Words(_) | Value::NotRun(_) => json!(value.shown()),
    }
}

fn table(data: &Data) -> (String, serde_json::Value) {
    (data.name.clone(), json!({ "columns": data.columns, "rows": data.rows }))
}

fn drawing(drawing: &Drawing) -> (String, serde_json::Value) {
    (drawing.name.clone(), json!(drawing.svg))
}
