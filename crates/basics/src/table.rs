//! Tables of text: for a terminal, with columns as wide as what stands in them, or as Markdown has them.
//!
//! A row may have fewer cells than there are columns; what it lacks stays empty. Width is counted in characters, and no
//! line ends in blanks. The last column may hold whole sentences: nothing is cut or wrapped.

/// To which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// How a column stands in a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    heading: &'a str,
    side: Side,
    width_min: usize,
    gap: usize,
}

impl<'a> Column<'a> {
    /// Of words.
    pub fn left(heading: &'a str) -> Self {
        Self { heading, side: Side::Left, width_min: 0, gap: 1 }
    }

    /// Of numbers.
    pub fn right(heading: &'a str) -> Self {
        Self { side: Side::Right, ..Self::left(heading) }
    }

    /// At least so wide.
    #[must_use]
    pub fn width(self, width_min: usize) -> Self {
        Self { width_min, ..self }
    }

    /// So many blanks between it and the column before; one, unless told.
    #[must_use]
    pub fn gap(self, gap: usize) -> Self {
        Self { gap, ..self }
    }
}

/// A table that grows.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    columns: Vec<Column<'a>>,
    indent: usize,
    rows: Vec<Vec<String>>,
}

impl<'a> Table<'a> {
    /// With these columns.
    pub fn new(columns: impl IntoIterator<Item = Column<'a>>) -> Self {
        Self { columns: columns.into_iter().collect(), indent: 0, rows: Vec::new() }
    }

    /// With these headings.
    pub fn with_headings(headings: &[&'a str]) -> Self {
        Self::new(headings.iter().map(|heading| Column::left(heading)))
    }

    /// So many blanks before each line of text.
    #[must_use]
    pub fn indented(self, indent: usize) -> Self {
        Self { indent, ..self }
    }

    /// One more row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// For a terminal: a line of headings, then one for each row.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for cells in self.lines() {
            let mut line = String::new();
            for (number, ((column, cell), width)) in
                self.columns.iter().zip(cells).zip(&widths).enumerate()
            {
                let gap = if number == 0 { self.indent } else { column.gap };
                line.extend(std::iter::repeat_n(' ', gap));
                pad(&mut line, cell, (*width).max(column.width_min), column.side);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// With lines as Markdown has them, so that it can be put into a document. Cells that begin with a digit, and the
    /// headings but the first, stand to the right.
    pub fn markdown(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for (line, cells) in self.lines().enumerate() {
            for (column, (cell, width)) in cells.zip(&widths).enumerate() {
                let is_number = cell.starts_with(|first: char| first.is_ascii_digit());
                let to_right = is_number || line == 0 && column > 0;
                text.push_str("| ");
                pad(&mut text, cell, *width, if to_right { Side::Right } else { Side::Left });
                text.push(' ');
            }
            text.push_str("|\n");
            if line == 0 {
                for width in &widths {
                    text.push('|');
                    text.extend(std::iter::repeat_n('-', width + 2));
                }
                text.push_str("|\n");
            }
        }
        text
    }

    /// The headings, then the rows, each with a cell for every column.
    fn lines(&self) -> impl Iterator<Item = Box<dyn Iterator<Item = &str> + '_>> {
        let headings = || self.columns.iter().map(|column| column.heading);
        let count = self.columns.len();
        let rows = self.rows.iter().map(move |row| {
            let cells = row.iter().map(String::as_str).chain(std::iter::repeat(""));
            Box::new(cells.take(count)) as Box<dyn Iterator<Item = &str>>
        });
        std::iter::once(Box::new(headings()) as Box<dyn Iterator<Item = &str>>).chain(rows)
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        for cells in self.lines() {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

fn pad(line: &mut String, cell: &str, width: usize, side: Side) {
    let blanks = || std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count()));
    if side == Side::Right {
        line.extend(blanks());
    }
    line.push_str(cell);
    if side == Side::Left {
        line.extend(blanks());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_or_as_they_must_be() {
        let columns =
            [Column::left("who"), Column::right("ms").width(5), Column::left("of").gap(2)];
        let mut table = Table::new(columns);
        table.row(cells(&["thread", "0.5", "two of them"]));
        table.row(cells(&["é"]));
        assert_eq!(table.text(), "who       ms  of\nthread   0.5  two of them\né\n");
    }

    #[test]
    fn a_table_may_be_set_in() {
        let mut table = Table::new([Column::left("a"), Column::right("b").gap(2)]).indented(2);
        table.row(cells(&["x", "10"]));
        assert_eq!(table.text(), "  a   b\n  x  10\n");
    }

    #[test]
    fn in_markdown_numbers_stand_to_the_right() {
        let mut table = Table::with_headings(&["who", "ms"]);
        table.row(cells(&["thread", "0.5"]));
        table.row(cells(&["x"]));
        let expected = "| who    |  ms |\n|--------|-----|\n| thread | 0.5 |\n| x      |     |\n";
        assert_eq!(table.markdown(), expected);
    }
}
