//! What `status --watch` draws: one frame of text, and a terminal that it is drawn on in place.
//!
//! A frame is made of what is known alone, so that it can be tested without a terminal. On the terminal nothing scrolls; the screen that was
//! there comes back at the end, and the last frame stays below it.

use super::lasting;
use crate::report::LogMap;
use crate::report::{Rates, Spread, bytes};
use crate::units::ByteSize;
use nearhead_output::{plain, tell};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

/// Fill by eighths; empty cells are dots, so that the strip has an end.
const EIGHTHS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Left of everything.
const MARGIN: usize = 10;
/// Columns from which rates and latencies stand side by side: the margin, 23 columns of rates, two between and 45 of latencies.
const WIDE_COLUMNS: usize = MARGIN + 23 + 2 + 45;
/// Of a terminal that does not say.
const COLUMNS_DEFAULT: usize = 80;
const ROWS_DEFAULT: usize = 24;
/// Other screen and no cursor; and back (xterm's control sequences, which every terminal of Linux knows).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A frame for a terminal of `columns` columns. No line is longer; a value that does not fit goes on below its beginning.
pub(super) fn frame(rates: &Rates, columns: usize) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let rows = wrapped(value, columns.saturating_sub(MARGIN));
        for (row, name) in rows.iter().zip(std::iter::once(name).chain(std::iter::repeat(""))) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", format!("{name:<MARGIN$}{row}").trim_end());
        }
    };
    let reasons = rates.reasons.join("; ");
    let colon = if reasons.is_empty() { "" } else { ": " };
    let Rates { target, preset, phase, .. } = rates;
    let (size, up) = (ByteSize(rates.size_bytes), lasting(rates.uptime_s));
    line("volume", &format!("{} ({preset}, {size}), {phase}, up {up}", plain(target)));
    line("health", &format!("{}{colon}{reasons}", rates.health));
    line("", "");
    table(rates, columns, &mut line);
    line("", "");
    for (name, row) in strip(&rates.log_map, columns) {
        line(name, &row);
    }
    line("", &format!("{} % of the log space in use", rates.log_fill_pct));
    line("cleaning", &rates.cleaning());
    line(
        "per s",
        &format!(
            "{} to the logs, {} in place, {} written back; {} in memory",
            bytes(rates.logged_bytes_per_s),
            bytes(rates.in_place_bytes_per_s),
            bytes(rates.home_bytes_per_s),
            ByteSize(rates.staged_bytes)
        ),
    );
    line(
        "clients",
        &format!(
            "{} connected; {:.1} requests failed per s; {} disk errors since it was opened",
            rates.connections_open, rates.errors_per_s, rates.disk_errors
        ),
    );
    text
}

/// Rates and latencies, side by side where there is room and else one below the other.
fn table(rates: &Rates, columns: usize, line: &mut impl FnMut(&str, &str)) {
    let amount =
        |per_s: Option<f64>| per_s.map_or_else(String::new, |per_s| bytes(per_s).to_string());
    let of_requests = [
        ("reads", rates.reads_per_s, amount(Some(rates.read_bytes_per_s))),
        ("writes", rates.writes_per_s, amount(Some(rates.written_bytes_per_s))),
        ("flushes", rates.flushes_per_s, amount(None)),
    ]
    .map(|(kind, per_s, amount)| (kind, format!("{per_s:>8.1}{amount:>15}")));
    let of_latencies =
        [("reads", &rates.read), ("durable", &rates.durable), ("other writes", &rates.write)]
            .map(|(timed, spread)| format!("{timed:<14}{}", spread_in_words(spread)));
    let requests_head = format!("{:>8}{:>15}", "per s", "bytes/s");
    let latencies_head = format!("{:<14}{:>9}{:>11}{:>11}", "", "per s", "p50 ms", "p99 ms");
    if columns >= WIDE_COLUMNS {
        line("", &format!("{requests_head}  {latencies_head}"));
        for ((kind, request), latency) in of_requests.iter().zip(&of_latencies) {
            line(kind, &format!("{request}  {latency}"));
        }
        return;
    }
    line("", &requests_head);
    for (kind, request) in &of_requests {
        line(kind, request);
    }
    line("answered", &latencies_head);
    for latency in &of_latencies {
        line("", latency);
    }
}

/// The rows of `value` at `width` columns, broken between words; a word that is longer is cut. Spaces inside a row stay.
fn wrapped(value: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut rows = Vec::new();
    let mut left: Vec<char> = value.trim_end().chars().collect();
    while left.len() > width {
        // A row may be followed by the space that it is broken at.
        let space = left[..=width].iter().rposition(|c| *c == ' ').filter(|at| *at > 0);
        let rest = left.split_off(space.unwrap_or(width));
        rows.push(left.iter().collect::<String>().trim_end().to_owned());
        left = rest.into_iter().skip_while(|c| *c == ' ').collect();
    }
    rows.push(left.into_iter().collect());
    rows
}

fn spread_in_words(spread: &Spread) -> String {
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}"));
    format!("{:>9.1}{:>11}{:>11}", spread.per_s, ms(spread.p50_ms), ms(spread.p99_ms))
}

/// How full the logs are, from the first byte of the disk to the last, and below where the head is taken to be.
fn strip(map: &LogMap, columns: usize) -> Vec<(&'static str, String)> {
    let cells = map.cells.len();
    if cells == 0 {
        return Vec::new();
    }
    let width = columns.saturating_sub(MARGIN + 1).clamp(1, cells);
    // Where cells share a column, the fullest shows.
    let fill = |column: usize| {
        let of_column = column * cells / width..((column + 1) * cells / width).max(1);
        let shown = map.cells.get(of_column).unwrap_or_default();
        shown.iter().map(|cell| cell.fill_pct).fold(0.0, f64::max)
    };
    let glyph = |pct: f64| EIGHTHS[((pct / 12.5).ceil() as usize).min(8)];
    let mut rows = vec![("logs", (0..width).map(|column| glyph(fill(column))).collect())];
    if let Some(head) = map.head_cell {
        let column = (head as usize * width / cells).min(width - 1);
        rows.push(("", format!("{}^ head", " ".repeat(column))));
    }
    rows
}

/// A terminal that is drawn on, until this is dropped.
pub(super) struct Screen {
    last: String,
}

impl Screen {
    /// Of standard output, if that is a terminal that can be drawn on.
    pub(super) fn take() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !io::stdout().is_terminal() {
            return None;
        }
        put(ENTER).ok()?;
        Some(Self { last: String::new() })
    }

    /// Columns and rows now.
    pub(super) fn size() -> (usize, usize) {
        let told = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let told = told.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        told.map_or((COLUMNS_DEFAULT, ROWS_DEFAULT), |size| {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        })
    }

    /// Draws a frame over the one before; whether there is still somebody to see it.
    pub(super) fn draw(&mut self, frame: &str) -> bool {
        let (columns, rows) = Self::size();
        let lines = frame.lines().take(rows.saturating_sub(1));
        let mut text = "\x1b[H".to_owned();
        for line in lines {
            text.extend(line.chars().take(columns));
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        frame.clone_into(&mut self.last);
        put(&text).is_ok()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = put(LEAVE);
        tell(self.last.trim_end());
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::LogCell;

    fn map(fills: &[f64], head_cell: Option<u32>) -> LogMap {
        let cell = |(first_log, fill_pct): (u32, &f64)| LogCell {
            first_log,
            logs: 1,
            fill_pct: *fill_pct,
            needed_pct: 0.0,
        };
        LogMap { cells: (0..).zip(fills).map(cell).collect(), head_cell }
    }

    #[test]
    fn a_value_is_broken_between_words_and_never_wider_than_its_room() {
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 5), ["one", "two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("  a    b", 20), ["  a    b"], "columns of a table stay");
        for width in 0..30 {
            let rows =
                wrapped("0 bytes to the logs, 12 MiB in place; a-very-long-word-indeed", width);
            assert!(
                rows.iter().all(|row| row.chars().count() <= width.max(1)),
                "{width}: {rows:?}"
            );
        }
    }

    #[test]
    fn a_frame_is_never_wider_than_its_terminal() {
        let rates = Rates {
            target: "/dev/disk/by-id/ata-ST20000NM007D-3DJ103_ZVT0ABCD-part3".to_owned(),
            reasons: vec!["14 sectors of log 3 cannot be read".to_owned(); 3],
            log_map: map(&[40.0; 128], Some(70)),
            read: Spread { p99_ms: Some(123_456.78), ..Spread::default() },
            ..Rates::default()
        };
        for columns in [200, 120, 80, 79, 60, 56] {
            let frame = frame(&rates, columns);
            let widest = frame.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns, "{columns}: {frame}");
            for word in ["p99 ms", "123456.78", "memory", "opened"] {
                assert!(frame.contains(word), "{columns}: {word}: {frame}");
            }
        }
    }

    #[test]
    fn the_strip_shows_every_log_that_holds_something_and_the_head_below_its_place() {
        let rows = strip(&map(&[0.0, 1.0, 50.0, 100.0], Some(2)), 80);
        assert_eq!(rows, [("logs", "·▁▄█".to_owned()), ("", "  ^ head".to_owned())]);
        // Where several share a column nothing is averaged away.
        let mut many = vec![0.0; 100];
        many[37] = 100.0;
        let rows = strip(&map(&many, Some(99)), MARGIN + 1 + 10);
        assert_eq!(rows[0].1, "···█······");
        assert_eq!(rows[1].1, "         ^ head");
        assert!(strip(&map(&[], None), 80).is_empty());
        assert_eq!(strip(&map(&[100.0; 128], None), 5)[0].1, "█");
    }
}
