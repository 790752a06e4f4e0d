//! What is printed: reports to standard output, everything on the way to standard error.
//!
//! A reader that goes away (`nearhead dump ... | head`) ends the program quietly, not with a panic. A report that cannot be
//! written otherwise (`> /dev/full`) ends it with a message and exit code 1: half a report is none.

mod failing;
mod journal;

pub use failing::{fail, tell_failures_as_json};
pub use journal::{alarm, blame, inform, note, tell_times, warn, without_time};

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a line of a report is printed as a JSON object.
static LINES_AS_JSON: AtomicBool = AtomicBool::new(false);

/// Lets [`say`] and [`tell`] print each line of a report as `{"line": "..."}`: for commands whose report has no JSON of its own.
pub fn say_lines_as_json(are_json: bool) {
    LINES_AS_JSON.store(are_json, Ordering::Relaxed);
}

/// A line of a report as it is printed.
fn presented(line: &str) -> Cow<'_, str> {
    if !LINES_AS_JSON.load(Ordering::Relaxed) {
        return shown(line, true);
    }
    Cow::Owned(as_object(line))
}

fn as_object(line: &str) -> String {
    json_shown(&serde_json::json!({ "line": line }).to_string())
}

/// Prints a line of a report.
pub fn say(line: &str) {
    print_or_end(&presented(line));
}

fn print_or_end(text: &str) {
    let Err(error) = print(text) else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    fail(&format!("standard output: expected to write the report there, found {error}"), 1);
    std::process::exit(1);
}

/// Prints a line of a program that goes on if its output cannot be written.
pub fn tell(line: &str) {
    // No reader is no reason to end.
    let _ = print(&presented(line));
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush())
}

/// Text from elsewhere (a disk, a client) on one line, with what would change how a terminal shows
/// the rest written as `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    shown(text, false)
}

/// The same for text that is ours, and may have lines and tabs.
fn shown(text: &str, with_lines: bool) -> Cow<'_, str> {
    let is_shown = |c: char| with_lines && matches!(c, '\n' | '\t');
    if !text.chars().any(|c| changes_a_terminal(c) && !is_shown(c)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::new();
    for c in text.chars() {
        if changes_a_terminal(c) && !is_shown(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character ends a line, begins a command to a terminal, or turns the direction of what
/// follows (Unicode's bidirectional controls).
pub fn changes_a_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// So many of something.
pub fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A word as a shell takes it back.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:,+@%=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")))
}

/// Prints a report for programs.
pub fn say_json(report: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(report)
        .map_err(|error| format!("internal: the report cannot be written as JSON: {error}"))?;
    print_or_end(&json_shown(&text));
    Ok(())
}

/// JSON in which those characters stand as JSON escapes them; it does so by itself only for some.
fn json_shown(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, c| {
        if changes_a_terminal(c) && c != '\n' {
            // Writing to a string cannot fail; all of them have one unit in UTF-16.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
        shown
    })
}

/// Prints a line of JSON that another process of this program wrote.
pub fn pass_on_json(line: &str) {
    print_or_end(&json_shown(line));
}

/// Prints a report for programs on one line.
pub fn say_json_line(report: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(report)
        .map_err(|error| format!("internal: the report cannot be written as JSON: {error}"))?;
    // No reader is no reason to end.
    let _ = print(&json_shown(&text));
    Ok(())
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_stays_on_its_line_and_changes_no_terminal() {
        assert_eq!(plain("mail 1"), "mail 1");
        assert_eq!(plain("a\nb\u{1b}[31m\u{9b}0m\u{202e}"), "a\\nb\\u{1b}[31m\\u{9b}0m\\u{202e}");
        assert_eq!(shown("one\ntwo\u{7}", true), "one\ntwo\\u{7}");
        assert_eq!(json_shown("{\n\"\u{9b}\"}"), "{\n\"\\u009b\"}");
    }

    #[test]
    fn a_line_as_an_object_is_one_line_whatever_is_in_it() {
        let text = as_object("a\n\"b\"\u{9b}");
        assert_eq!(text, r#"{"line":"a\n\"b\"\u009b"}"#);
    }

    #[test]
    fn a_quoted_word_is_one_word_to_a_shell() {
        for (word, expected) in [
            ("/dev/sdb", "/dev/sdb"),
            ("raid0:a,b?chunk=64k", "'raid0:a,b?chunk=64k'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
