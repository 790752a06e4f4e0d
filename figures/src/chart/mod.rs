//! Charts as SVG text: grouped bars and lines.
//!
//! They need nothing from elsewhere, neither fonts nor scripts, so a page that holds them can be
//! kept as one file. A chart shows values it is given and computes none of its own.

mod bars;
mod lines;

pub use bars::BarChart;
pub use lines::LineChart;

use plotters::style::RGBColor;
use std::fmt::Display;

/// Width and height of every chart.
const SIZE: (u32, u32) = (560, 330);

/// Told apart in any kind of colour vision (Okabe and Ito's palette).
const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
];

fn failed(error: impl Display) -> String {
    format!("drawing the chart failed: {error}")
}
