//! Charts as SVG text: grouped bars, lines, and a head's way over a disk.
//!
//! They need nothing from elsewhere, neither fonts nor scripts, so a page that holds them can be
//! kept as one file. A chart shows values it is given and computes none of its own.

mod bars;
mod lines;
mod path;

pub use bars::BarChart;
pub use lines::LineChart;
pub use path::PathChart;

use plotters::coord::Shift;
use plotters::prelude::*;
use std::fmt::Display;

/// Width and height of every chart, without the names of its series.
const SIZE: (u32, u32) = (560, 310);
/// Size of every text but the caption, as `plotters` counts: it writes four fifths of that into the SVG, here 11.3 px, which a phone shows
/// as they are (`page.rs`).
const SMALL_TEXT: i32 = 14;
/// Height of a line of names.
const LINE: i32 = 18;
/// Where lines of names begin, and the width of a letter on average.
const NAMES_FROM: i32 = 56;
const LETTER: i32 = 7;

/// Told apart in any kind of colour vision (Okabe and Ito's palette).
const COLOURS: [RGBColor; 8] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
    RGBColor(240, 228, 66),
];

/// The names of series below a chart, where they hide nothing: name, colour, and place.
struct Legend {
    entries: Vec<(String, RGBColor, (i32, i32))>,
    lines: i32,
}

impl Legend {
    fn new(names: impl Iterator<Item = (String, RGBColor)>) -> Self {
        let (mut x, mut line) = (NAMES_FROM, 0);
        let mut entries = Vec::new();
        for (name, colour) in names {
            let width = name.chars().count() as i32 * LETTER + 34;
            if x > NAMES_FROM && x + width > SIZE.0 as i32 {
                (x, line) = (NAMES_FROM, line + 1);
            }
            entries.push((name, colour, (x, line * LINE)));
            x += width;
        }
        Self { entries, lines: line + 1 }
    }

    /// Size of the whole picture.
    fn size(&self) -> (u32, u32) {
        (SIZE.0, SIZE.1 + (self.lines * LINE) as u32 + 6)
    }

    /// Draws it at the foot of `area` and returns what is left for the chart.
    fn draw<'a>(
        &self,
        area: &DrawingArea<SVGBackend<'a>, Shift>,
    ) -> Result<DrawingArea<SVGBackend<'a>, Shift>, String> {
        let (chart, foot) = area.split_vertically(SIZE.1);
        for (name, colour, (x, y)) in &self.entries {
            let mark = Rectangle::new([(*x, y + 2), (x + 12, y + 12)], colour.filled());
            foot.draw(&mark).map_err(failed)?;
            let text =
                Text::new(name.clone(), (x + 17, *y), ("sans-serif", SMALL_TEXT).into_font());
            foot.draw(&text).map_err(failed)?;
        }
        Ok(chart)
    }
}

/// A picture with its legend: `draw` has what is left for the chart.
fn drawn(
    legend: &Legend,
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), String>,
) -> Result<String, String> {
    let mut svg = String::new();
    let whole = SVGBackend::with_string(&mut svg, legend.size()).into_drawing_area();
    whole.fill(&WHITE).map_err(failed)?;
    let area = legend.draw(&whole)?;
    draw(&area)?;
    whole.present().map_err(failed)?;
    drop(area);
    drop(whole);
    Ok(svg)
}

fn failed(error: impl Display) -> String {
    format!("drawing the chart failed: {error}")
}
