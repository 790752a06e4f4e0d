//! Lines as SVG: cumulative distributions, speed-ups over percentiles, throughput over a count.

use super::{COLOURS, Legend, SMALL_TEXT, drawn, failed};
use plotters::prelude::*;

/// Names on a linear axis, at most.
const LABELS: usize = 9;

/// Points of one line, in order of x.
pub(super) type Points = Vec<(f64, f64)>;

/// What a chart of lines shows.
pub struct LineChart<'a> {
    /// Its heading.
    pub title: &'a str,
    /// What x is, with its unit.
    pub x_label: &'a str,
    /// What y is, with its unit.
    pub y_label: &'a str,
    /// A logarithmic x axis; points with x of 0 or less are left out.
    pub x_decades: bool,
    /// The same for y.
    pub y_decades: bool,
    /// Name and points of each line.
    pub series: Vec<(String, Points)>,
}

impl LineChart<'_> {
    /// The chart as SVG text.
    pub fn render(&self) -> Result<String, String> {
        let scaled: Vec<(&str, Points)> =
            self.series.iter().map(|(name, points)| (name.as_str(), self.scale(points))).collect();
        let all = || scaled.iter().flat_map(|(_, points)| points);
        let x = bounds(all().map(|point| point.0), self.x_decades);
        let y = bounds(all().map(|point| point.1), self.y_decades);
        let names = self.series.iter().enumerate();
        let legend = Legend::new(
            names.map(|(index, (name, _))| (name.clone(), COLOURS[index % COLOURS.len()])),
        );
        drawn(&legend, |area| {
            let mut context = ChartBuilder::on(area)
                .caption(self.title, ("sans-serif", 17))
                .margin(12)
                // Half of the last label stands outside.
                .margin_right(28)
                .x_label_area_size(40)
                .y_label_area_size(58)
                .build_cartesian_2d(x.0..x.1, y.0..y.1)
                .map_err(failed)?;
            // Of a logarithmic axis the decades are named, and nothing between them.
            let labels = |ends: (f64, f64), decades: bool| {
                if decades { (ends.1 - ends.0) as usize + 1 } else { LABELS }
            };
            context
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_labels(labels(x, self.x_decades))
                .y_labels(labels(y, self.y_decades))
                .x_label_formatter(&|value| label(*value, self.x_decades))
                .y_label_formatter(&|value| label(*value, self.y_decades))
                .x_desc(self.x_label)
                .y_desc(self.y_label)
                .label_style(("sans-serif", SMALL_TEXT))
                .draw()
                .map_err(failed)?;
            for (index, (_, points)) in scaled.into_iter().enumerate() {
                let colour = COLOURS[index % COLOURS.len()];
                let line = PathElement::new(points, colour.stroke_width(2));
                context.draw_series([line]).map_err(failed)?;
            }
            Ok(())
        })
    }

    fn scale(&self, points: &[(f64, f64)]) -> Points {
        let on = |value: f64, decades: bool| if decades { value.log10() } else { value };
        let scaled = points.iter().map(|(x, y)| (on(*x, self.x_decades), on(*y, self.y_decades)));
        scaled.filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    }
}

/// The ends of an axis: from zero on a linear one, whole decades on a logarithmic one.
fn bounds(values: impl Iterator<Item = f64>, decades: bool) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return (0.0, 1.0);
    }
    if decades {
        let low = low.floor();
        return (low, high.ceil().max(low + 1.0));
    }
    let low = low.min(0.0);
    (low, if high > low { high + (high - low) * 0.05 } else { low + 1.0 })
}

/// A value on an axis; on a logarithmic one, the power of ten that it is.
pub(super) fn label(value: f64, decades: bool) -> String {
    let value = if decades { 10_f64.powf(value) } else { value };
    let is_whole = value == 0.0 || (value - value.round()).abs() < 1e-9 && value.abs() >= 1.0;
    if is_whole || value.abs() >= 10.0 {
        format!("{value:.0}")
    } else {
        let digits_max = if decades { 12.0 } else { 4.0 };
        let digits = (1.0 - value.abs().log10().floor()).clamp(1.0, digits_max) as usize;
        let text = format!("{value:.digits$}");
        // A decade has one figure; between others on one axis, equally many digits are easier to read.
        if decades { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<(String, Points)>) -> LineChart<'static> {
        LineChart {
            title: "t",
            x_label: "x",
            y_label: "y",
            x_decades: true,
            y_decades: false,
            series,
        }
    }

    #[test]
    fn every_line_is_in_the_legend_and_zero_has_no_place_on_a_logarithmic_axis() {
        let lines = vec![
            ("first".to_owned(), vec![(0.0, 1.0), (1.0, 2.0), (100.0, 3.0)]),
            ("second".to_owned(), vec![(10.0, 2.0)]),
        ];
        let svg = chart(lines).render().unwrap();
        assert!(svg.contains("first") && svg.contains("second"));
        assert!(!svg.contains("inf") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_logarithmic_axis_names_its_decades_and_nothing_between_them() {
        let svg = chart(vec![("a".to_owned(), vec![(1.0, 2.0), (1000.0, 3.0)])]).render().unwrap();
        let is_there = |name: &str| svg.contains(&format!(">\n{name}\n<"));
        assert!(["1", "10", "100", "1000"].into_iter().all(is_there), "{svg}");
        assert!(!["3.2", "32", "316"].into_iter().any(is_there), "{svg}");
    }

    #[test]
    fn a_decade_below_one_is_named_without_zeros_behind_it() {
        let named: Vec<String> = (-6..2).map(|power| label(f64::from(power), true)).collect();
        assert_eq!(named, ["0.000001", "0.00001", "0.0001", "0.001", "0.01", "0.1", "1", "10"]);
    }

    #[test]
    fn a_chart_of_nothing_is_still_a_chart() {
        assert!(chart(Vec::new()).render().unwrap().starts_with("<svg"));
    }
}
