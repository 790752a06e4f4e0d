//! The answer as one self-contained page: the sentence, charts, the table, and what all that rests on.

use super::{Answer, Side, table};
use crate::demo::made_by;
use nearhead_basics::Histogram;
use nearhead_figures::chart::LineChart;
use nearhead_figures::{escaped, head};
use nearhead_sim::latency::percentile_ms;
use std::fmt::Write;

/// The page; `command` made it.
pub(super) fn render(answer: &Answer, command: &str) -> Result<String, String> {
    let mut page = head("Will Nearhead help?");
    page.push_str("<h1>Will Nearhead help?</h1>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(page, "<p><strong>{}</strong></p>", escaped(&answer.verdict().sentence));
    let _ = writeln!(page, "<p>Made by {}.</p>", escaped(&made_by(command)));
    page.push_str("<div class=\"charts\">\n");
    for chart in charts(answer) {
        page.push_str(&chart.render()?);
    }
    page.push_str("</div>\n");
    rows(&mut page, answer);
    page.push_str("<h2>What this rests on</h2>\n<ul>\n");
    for line in answer.rests_on() {
        let _ = writeln!(page, "<li>{}", escaped(&line));
    }
    page.push_str(
        "</ul>\n<p>A <strong>durable point</strong> is a flush or a write with FUA, and the small writes that its process waited for just before; \
         it takes as long as something of it is under way. <strong>% of the disk</strong>: bulk's bandwidth while any of it is under way, against what \
         the same bulk gets alone on the bare disk.</p>\n</html>\n",
    );
    Ok(page)
}

fn charts(answer: &Answer) -> Vec<LineChart<'static>> {
    let recorded = answer.recorded();
    let sides = || std::iter::once(&answer.bare).chain(&answer.presets);
    // The recorded one last, so that colours are the same in both charts.
    let with_points: Vec<(String, Vec<(f64, f64)>)> = sides()
        .chain(recorded.iter())
        .filter(|side| side.points.count() > 0)
        .map(|side| (side.name.clone(), distribution(&side.points)))
        .collect();
    let with_bulk: Vec<(String, Vec<(f64, f64)>)> = sides()
        .filter(|side| !side.bulk_over_time.is_empty())
        .map(|side| (side.name.clone(), megabytes(side)))
        .collect();
    let mut charts = Vec::new();
    if !with_points.is_empty() {
        charts.push(LineChart {
            title: "How long durable points take",
            x_label: "ms at most, logarithmic",
            y_label: "% of all",
            x_decades: true,
            y_decades: false,
            series: with_points,
        });
    }
    if !with_bulk.is_empty() {
        charts.push(LineChart {
            title: "Bandwidth of bulk",
            x_label: "seconds from the start",
            y_label: "MB/s",
            x_decades: false,
            y_decades: false,
            series: with_bulk,
        });
    }
    charts
}

/// Less is no time of a disk: a flush with nothing to do. A logarithmic axis begins there.
const NO_TIME_MS: f64 = 0.01;

/// Time in milliseconds, and how many of a hundred take no longer.
fn distribution(points: &Histogram) -> Vec<(f64, f64)> {
    const STEPS: u32 = 200;
    let percents = (0..=STEPS).map(|step| 100.0 * f64::from(step) / f64::from(STEPS));
    percents.map(|percent| (percentile_ms(points, percent).max(NO_TIME_MS), percent)).collect()
}

fn megabytes(side: &Side) -> Vec<(f64, f64)> {
    side.bulk_over_time.iter().map(|(second, rate)| (*second, rate / 1e6)).collect()
}

fn rows(page: &mut String, answer: &Answer) {
    page.push_str(
        "<table><tr><th><th>durable points<th>mean, ms<th>p50, ms<th>p99, ms<th>bulk, MB/s<th>% of the disk<th>ends so many s late</tr>\n",
    );
    let recorded = answer.recorded();
    for side in recorded.iter().chain([&answer.bare]).chain(&answer.presets) {
        page.push_str("<tr>");
        for cell in table::cells(answer, side) {
            let _ = write!(page, "<td>{}", escaped(&cell));
        }
        page.push('\n');
    }
    page.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::super::verdict::tests::answer;

    #[test]
    fn the_page_has_the_sentence_a_line_for_each_and_fetches_nothing() {
        let answer = answer(1000, 30.0, (190.0, 31.0), (6.0, 94.0));
        let page = answer.page("nearhead replay a<b.trace").unwrap();
        for part in [
            "your fsyncs would take 6.0 ms instead of 190",
            "nearhead replay a&lt;b.trace",
            "How long durable points take",
            "Bandwidth of bulk",
            "<td>bare disk<td>1000<td>190.00",
            "not fitted to yours",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        // What names the language of the charts is no address to fetch from.
        let links = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!links.contains("http") && !links.contains("src="), "something is fetched");
    }

    #[test]
    fn without_bulk_there_is_no_chart_of_it() {
        let answer = answer(1000, 0.0, (190.0, 0.0), (6.0, 0.0));
        let mut answer = answer;
        answer.bare.bulk_over_time.clear();
        answer.presets.iter_mut().for_each(|side| side.bulk_over_time.clear());
        let page = answer.page("nearhead replay a").unwrap();
        assert!(
            page.contains("How long durable points take") && !page.contains("Bandwidth of bulk")
        );
    }
}
