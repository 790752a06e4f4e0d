//! Grouped bars as SVG: one group for each set of conditions, one bar for each system compared.
//!
//! Every bar carries its value as text, so that a chart can be read without its table.

use super::lines::label;
use super::{COLOURS, Legend, SIZE, SMALL_TEXT, drawn, failed};
use plotters::prelude::*;

/// Margins and labels beside the bars.
const PLOT_MARGIN: u32 = 80;
/// Height of a value over its bar, in pixels, with the space below it.
const VALUE_HEIGHT: i32 = 14;

/// What a chart shows.
pub struct BarChart<'a> {
    /// Its heading.
    pub title: &'a str,
    /// Unit of the values.
    pub unit: &'a str,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// Name and one value per group.
    pub series: Vec<(String, Vec<f64>)>,
    /// A mark over each group, and what it means.
    pub limit: Option<(String, Vec<f64>)>,
    /// A logarithmic scale, from 1 or the decade of the smallest value, for what spans decades.
    pub decades: bool,
}

impl BarChart<'_> {
    /// The chart as SVG text.
    pub fn render(&self) -> Result<String, String> {
        let legend = self.legend();
        let values = self.series.iter().flat_map(|(_, values)| values);
        let limits = self.limit.iter().flat_map(|(_, values)| values);
        let highest = values.chain(limits).copied().fold(1.0, f64::max);
        let width = self.groups.len() as f64;
        drawn(&legend, |area| {
            let mut builder = ChartBuilder::on(area);
            builder
                .caption(self.title, ("sans-serif", 17))
                .margin(12)
                .x_label_area_size(36)
                .y_label_area_size(56);
            if self.decades {
                let top = 10_f64.powf(highest.log10().ceil()).max(10.0);
                let base = 10_f64.powf(self.smallest().log10().floor()).min(1.0);
                let mut context = builder
                    .build_cartesian_2d(0.0..width, (base..top).log_scale())
                    .map_err(failed)?;
                self.fill(&mut context, base)
            } else {
                let mut context =
                    builder.build_cartesian_2d(0.0..width, 0.0..highest * 1.18).map_err(failed)?;
                self.fill(&mut context, 0.0)
            }
        })
    }

    /// The smallest value that has a place on a logarithmic scale.
    fn smallest(&self) -> f64 {
        let values = self.series.iter().flat_map(|(_, values)| values);
        values.copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min).min(1.0)
    }

    fn legend(&self) -> Legend {
        let names = self.series.iter().enumerate();
        let bars = names.map(|(index, (name, _))| (name.clone(), COLOURS[index % COLOURS.len()]));
        let limit = self.limit.iter().map(|(name, _)| (name.clone(), RGBColor(0, 0, 0)));
        Legend::new(bars.chain(limit))
    }

    fn fill<'a, 'b: 'a, Y>(&self, context: &mut Context<'a, 'b, Y>, base: f64) -> Result<(), String>
    where
        Y: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
    {
        let name_of_group = |x: &f64| {
            let index = x.floor();
            let is_middle = (x - index - 0.5).abs() < 0.01;
            let name = self.groups.get(index as usize).filter(|_| is_middle);
            name.cloned().unwrap_or_default()
        };
        context
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(2 * self.groups.len() + 1)
            .x_label_formatter(&name_of_group)
            .y_label_formatter(&|y| label(if self.decades { y.log10() } else { *y }, self.decades))
            .y_desc(self.unit)
            .label_style(("sans-serif", SMALL_TEXT))
            .draw()
            .map_err(failed)?;
        let bar = 0.8 / self.series.len() as f64;
        let bar_px = f64::from(SIZE.0 - PLOT_MARGIN) / self.groups.len().max(1) as f64 * bar;
        for (series, (_, values)) in self.series.iter().enumerate() {
            let colour = COLOURS[series % COLOURS.len()];
            let bars = values.iter().enumerate().map(|(group, value)| {
                let left = group as f64 + 0.1 + series as f64 * bar;
                Rectangle::new(
                    [(left, base), (left + bar * 0.92, value.max(base))],
                    colour.filled(),
                )
            });
            context.draw_series(bars).map_err(failed)?;
            let height = |value: f64| context.backend_coord(&(0.0, value)).1;
            let texts: Vec<_> = values
                .iter()
                .enumerate()
                .map(|(group, value)| {
                    let left = group as f64 + 0.1 + series as f64 * bar;
                    let top = self.free_of_limit(group, value.max(base), height);
                    let style = ("sans-serif", SMALL_TEXT).into_font();
                    EmptyElement::at((left, top))
                        + Text::new(shown(*value, bar_px), (2, -12), style)
                })
                .collect();
            context.draw_series(texts).map_err(failed)?;
        }
        if let Some((_, values)) = &self.limit {
            let marks = values.iter().enumerate().map(|(group, value)| {
                let left = group as f64 + 0.06;
                PathElement::new(vec![(left, *value), (left + 0.88, *value)], BLACK.stroke_width(2))
            });
            context.draw_series(marks).map_err(failed)?;
        }
        Ok(())
    }

    /// Where the value of a bar that ends at `top` stands: over the mark of its group if that would strike it through.
    fn free_of_limit(&self, group: usize, top: f64, height: impl Fn(f64) -> i32) -> f64 {
        let limit = self.limit.as_ref().and_then(|(_, limits)| limits.get(group));
        let strikes = |limit: &&f64| **limit > top && height(top) - height(**limit) <= VALUE_HEIGHT;
        limit.filter(strikes).copied().unwrap_or(top)
    }
}

type Context<'a, 'b, Y> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<plotters::coord::types::RangedCoordf64, Y>>;

/// Three figures are enough for a bar, fewer for a narrow one, none for one that has no room.
fn shown(value: f64, bar_px: f64) -> String {
    let full = if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    let short = format!("{value:.0}");
    let fits = |text: &str| text.len() as f64 * 7.0 <= bar_px;
    [full, short].into_iter().find(|text| fits(text)).unwrap_or_default()
}
