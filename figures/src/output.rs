//! Reports as text: a table for a terminal, CSV files, SVG files, and the folder that holds them.
//!
//! Existing files of the same names are replaced; nothing else in the folder is touched.

use crate::error::FigureError;
use crate::page;
use crate::report::{Data, Report, Row};
use nearhead_basics::{Column, Table};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The comparison of `report` for a terminal.
pub fn table(report: &Report) -> String {
    let column = |(number, heading)| {
        let column = if number < 2 { Column::left(heading) } else { Column::right(heading) };
        column.gap(2)
    };
    let mut table = Table::new(Row::COLUMNS.into_iter().enumerate().map(column)).indented(2);
    report.rows.iter().for_each(|row| table.row(row.cells()));
    format!("{}: {}\n{}", report.name, report.title, table.text())
}

/// The CSV text of columns and rows (RFC 4180, lines end in a line feed).
pub(crate) fn csv<R: AsRef<[String]>>(columns: &[String], rows: &[R]) -> String {
    let mut text = String::new();
    let mut line = |cells: &[String]| {
        let quoted: Vec<String> = cells.iter().map(|cell| quote(cell)).collect();
        let _ = writeln!(text, "{}", quoted.join(","));
    };
    line(columns);
    for row in rows {
        line(row.as_ref());
    }
    text
}

fn quote(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Name of the file that has the comparison of `report`.
pub(crate) fn comparison_file(report: &Report) -> String {
    format!("{}.csv", report.name)
}

/// Name of the file that has `data` of `report`.
pub(crate) fn data_file(report: &Report, data: &Data) -> String {
    format!("{}-{}.csv", report.name, data.name)
}

/// Makes sure that results can be written to `folder`, before anything is computed.
pub fn prepare(folder: &Path) -> Result<(), FigureError> {
    fs::create_dir_all(folder)
        .map_err(|problem| failed("make the folder", folder.to_owned(), problem))?;
    let trial = folder.join(".nearhead-figures");
    write_file(&trial, "")?;
    fs::remove_file(&trial).map_err(|problem| failed("remove", trial, problem))
}

/// Writes CSV and SVG files and the page; returns the page's path.
pub fn write(reports: &[Report], how: &str, folder: &Path) -> Result<PathBuf, FigureError> {
    prepare(folder)?;
    for report in reports {
        let columns = Row::COLUMNS.map(str::to_owned);
        let rows: Vec<[String; 7]> = report.rows.iter().map(Row::cells).collect();
        write_file(&folder.join(comparison_file(report)), &csv(&columns, &rows))?;
        for data in &report.data {
            write_file(&folder.join(data_file(report, data)), &csv(&data.columns, &data.rows))?;
        }
        for drawing in &report.drawings {
            let path = folder.join(format!("{}-{}.svg", report.name, drawing.name));
            write_file(&path, &drawing.svg)?;
        }
    }
    let path = folder.join("report.html");
    write_file(&path, &page::render(reports, how))?;
    Ok(path)
}

fn write_file(path: &Path, text: &str) -> Result<(), FigureError> {
    fs::write(path, text).map_err(|problem| failed("write", path.to_owned(), problem))
}

fn failed(action: &'static str, path: PathBuf, problem: std::io::Error) -> FigureError {
    FigureError::Output { action, path, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_survive_csv() {
        let columns = ["a".to_owned(), "b".to_owned()];
        let rows = [["1,5".to_owned(), "say \"x\"".to_owned()]];
        assert_eq!(csv(&columns, &rows), "a,b\n\"1,5\",\"say \"\"x\"\"\"\n");
    }

    #[test]
    fn the_table_names_its_columns_and_lines_them_up() {
        let rows = vec![Row::new("a case", "ms").paper(1.0), Row::new("b", "%").ours(12.5)];
        let report = Report { name: "fig0", title: "T".into(), rows, ..Report::default() };
        let text = table(&report);
        assert_eq!(text.lines().count(), 4);
        for column in Row::COLUMNS {
            assert!(text.contains(column), "{text}");
        }
    }
}
