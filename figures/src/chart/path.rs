//! Where a disk's head was over time, as SVG: a thin line from each place to the next, and marks for what was done there.

use super::lines::Points;
use super::{COLOURS, Legend, SMALL_TEXT, drawn, failed};
use plotters::prelude::*;

/// What a chart of a head's way shows.
pub struct PathChart<'a> {
    /// Its heading.
    pub title: &'a str,
    /// What x is, with its unit.
    pub x_label: &'a str,
    /// What y is, with its unit.
    pub y_label: &'a str,
    /// The ends of both axes: the same in charts that are to be compared.
    pub ends: (f64, f64),
    /// The way, in order of x.
    pub path: (String, Points),
    /// Name and places of each kind of mark.
    pub marks: Vec<(String, Points)>,
}

/// The way is behind everything, and pale.
const WAY: RGBColor = RGBColor(150, 150, 150);

impl PathChart<'_> {
    /// The chart as SVG text.
    pub fn render(&self) -> Result<String, String> {
        // The first two colours are much like each other as dots.
        let colour = |index: usize| COLOURS[(2 + index) % COLOURS.len()];
        let names = self.marks.iter().enumerate().map(|(index, (name, _))| (name, index));
        let all = names.map(|(name, index)| (name.clone(), colour(index)));
        let legend = Legend::new(std::iter::once((self.path.0.clone(), WAY)).chain(all));
        drawn(&legend, |area| {
            let mut context = ChartBuilder::on(area)
                .caption(self.title, ("sans-serif", 17))
                .margin(12)
                .x_label_area_size(40)
                .y_label_area_size(58)
                .build_cartesian_2d(0.0..self.ends.0, 0.0..self.ends.1)
                .map_err(failed)?;
            context
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_label_formatter(&|value| format!("{value:.0}"))
                .y_label_formatter(&|value| format!("{value:.0}"))
                .x_desc(self.x_label)
                .y_desc(self.y_label)
                .label_style(("sans-serif", SMALL_TEXT))
                .draw()
                .map_err(failed)?;
            let way = PathElement::new(self.path.1.clone(), WAY.stroke_width(1));
            context.draw_series([way]).map_err(failed)?;
            for (index, (_, places)) in self.marks.iter().enumerate() {
                let dots =
                    places.iter().map(|place| Circle::new(*place, 2, colour(index).filled()));
                context.draw_series(dots).map_err(failed)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_drawn_and_every_kind_is_in_the_legend() {
        let chart = PathChart {
            title: "t",
            x_label: "x",
            y_label: "y",
            ends: (10.0, 100.0),
            path: ("way".to_owned(), vec![(0.0, 0.0), (1.0, 50.0), (2.0, 3.0)]),
            marks: vec![
                ("one".to_owned(), vec![(1.0, 50.0), (2.0, 3.0)]),
                ("none".to_owned(), Vec::new()),
            ],
        };
        let svg = chart.render().unwrap();
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(["way", "one", "none"].iter().all(|name| svg.contains(name)), "{svg}");
    }
}
