//! A table for a terminal: columns as wide as what stands in them, numbers to the right.

use std::fmt::Write as _;

/// A table that grows.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings.
    pub(super) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()] }
    }

    /// One more row; missing cells stay empty.
    pub(super) fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.to_vec());
    }

    /// Everything, with lines as Markdown has them, so that it can be put into a document.
    pub(super) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let width = |column: usize| {
            self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            for (column, width) in widths.iter().enumerate() {
                let cell = cell(row, column);
                let is_number = cell.starts_with(|first: char| first.is_ascii_digit());
                // Writing to a string does not fail.
                let _ = if is_number || number == 0 && column > 0 {
                    write!(text, "| {cell:>width$} ")
                } else {
                    write!(text, "| {cell:<width$} ")
                };
            }
            text += "|\n";
            if number == 0 {
                for width in &widths {
                    text += "|";
                    text += &"-".repeat(width + 2);
                }
                text += "|\n";
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["who", "ms"]);
        table.row(&["thread".to_owned(), "0.5".to_owned()]);
        table.row(&["x".to_owned()]);
        let expected = "| who    |  ms |\n|--------|-----|\n| thread | 0.5 |\n| x      |     |\n";
        assert_eq!(table.text(), expected);
    }
}
