//! The reports as one self-contained page that reads like a chapter on results.
//!
//! It fetches nothing: style and charts stand in the page. All words but the frame come from the
//! reports.

use crate::output;
use crate::report::{Report, Row};
use std::fmt::Write;

/// The style shared by every page this project makes.
///
/// Charts are drawn for white, so that a file of its own is read on any page; in one that follows a dark scheme their ground, words and axes,
/// and the one colour of a series that is too dark for it, are changed from here.
pub(crate) const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;\
padding:0 1em;color:#222;overflow-wrap:anywhere}table{overflow-wrap:normal;border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;\
text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child,td:nth-child(2),\
th:nth-child(2){text-align:left}table{display:block;overflow-x:auto}.charts{display:flex;flex-wrap:wrap;gap:8px}\
svg{max-width:100%;height:auto;background:#fff;border-radius:6px}@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}\
td,th{border-color:#3d444d}a{color:#58a6ff}svg{background:#161b22}svg [fill=\"#FFFFFF\"]{fill:#161b22}\
svg [fill=\"#000000\"]{fill:#e6edf3}svg [stroke=\"#000000\"]{stroke:#e6edf3}svg [fill=\"#5A5A5A\"]{fill:#a0a0a0}\
svg [stroke=\"#5A5A5A\"]{stroke:#a0a0a0}}@media(max-width:40em){body{margin:1em auto;padding:0 .5em}.charts{overflow-x:auto}.charts svg{max-width:none;flex:none}}";

/// The start of a page called `title`: everything before its first heading.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n",
        escaped(title)
    )
}

/// Text as it may stand in a page.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The page; `how` tells what command made it.
pub(crate) fn render(reports: &[Report], how: &str) -> String {
    let mut page = head("Nearhead: the papers' figures");
    let _ = writeln!(
        page,
        "<h1>The papers' figures on modelled disks</h1>\n<p>Made by <code>{}</code>, in virtual \
         time: the engine that serves volumes runs on disk models, and no clock of this machine \
         plays a part, so that other work on it cannot change a number. Every number under <em>baseline</em> and <em>ours</em> was computed in this \
         run; <em>paper</em> is what the paper reports and <em>goal</em> what the project aims at. \
         <em>Physical limit</em> is what the model allows if small writes cost the transfer of \
         their bytes and nothing else, where a figure does not say otherwise.</p>",
        escaped(how)
    );
    contents(&mut page, reports);
    for report in reports {
        section(&mut page, report);
    }
    page.push_str("</html>\n");
    page
}

fn contents(page: &mut String, reports: &[Report]) {
    page.push_str("<ul>\n");
    for report in reports {
        let title = escaped(&report.title);
        let _ = writeln!(page, "<li><a href=\"#{0}\">{0}</a>: {title}", report.name);
    }
    page.push_str("</ul>\n");
}

fn section(page: &mut String, report: &Report) {
    let title = escaped(&report.title);
    let _ = writeln!(page, "<h2 id=\"{0}\">{0}: {title}</h2>", report.name);
    list(page, "What came out", &report.findings);
    if !report.drawings.is_empty() {
        page.push_str("<div class=\"charts\">\n");
        for drawing in &report.drawings {
            page.push_str(&drawing.svg);
        }
        page.push_str("</div>\n");
    }
    comparison(page, &report.rows);
    let _ = writeln!(page, "<p><strong>What was run.</strong> {}</p>", escaped(&report.ran));
    list(page, "What differs from the paper, and why", &report.differs);
    let compared = std::iter::once(output::comparison_file(report));
    let behind = report.data.iter().map(|data| output::data_file(report, data));
    let files: Vec<String> =
        compared.chain(behind).map(|file| format!("<a href=\"{file}\">{file}</a>")).collect();
    let _ = writeln!(page, "<p>The data: {}.</p>", files.join(", "));
}

fn comparison(page: &mut String, rows: &[Row]) {
    page.push_str("<table><tr>");
    for column in Row::COLUMNS {
        let _ = write!(page, "<th>{column}</th>");
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row.cells() {
            let _ = write!(page, "<td>{}", escaped(&cell));
        }
        page.push('\n');
    }
    page.push_str("</table>\n");
}

fn list(page: &mut String, heading: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h3>{heading}</h3>\n<ul>");
    for item in items {
        let _ = writeln!(page, "<li>{}", escaped(item));
    }
    page.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_row_and_fetches_nothing() {
        let rows = vec![Row::new("a < b", "ms").ours(1.25)];
        let report = Report { name: "fig0", title: "T".into(), rows, ..Report::default() };
        let page = render(&[report], "nearhead figures");
        assert!(page.contains("<td>a &lt; b<td>ms") && page.contains("<td>1.25"), "{page}");
        assert!(!page.contains("http") && !page.contains("src="));
    }

    #[test]
    fn what_came_out_stands_before_the_table_and_the_data_are_a_click_away() {
        let report = Report {
            name: "fig0",
            findings: vec!["found".into()],
            rows: vec![Row::new("a", "ms").ours(1.25)],
            data: vec![crate::report::Data::new("cdf", &["ms"])],
            ..Report::default()
        };
        let page = render(&[report], "nearhead figures");
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("no {part} in {page}"));
        assert!(at("<li>found") < at("<table>"));
        at("<a href=\"fig0.csv\">");
        at("<a href=\"fig0-cdf.csv\">");
    }
}
