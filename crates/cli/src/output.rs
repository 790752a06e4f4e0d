//! What is printed: reports to standard output, everything on the way to standard error.
//!
//! A reader that goes away (`nearhead dump ... | head`) ends the program quietly, not with a panic.

use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Prints a line for whoever reads the result.
pub fn say(line: &str) {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

/// Prints a line about how it is going.
pub fn note(line: &str) {
    // Nobody to tell: nothing to be done about it.
    let _ = writeln!(io::stderr().lock(), "nearhead: {line}");
}

/// Prints a report for programs.
pub fn say_json(report: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(report)
        .map_err(|error| format!("internal: the report cannot be written as JSON: {error}"))?;
    say(&text);
    Ok(())
}

/// Prints a report for programs on one line.
pub fn say_json_line(report: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(report)
        .map_err(|error| format!("internal: the report cannot be written as JSON: {error}"))?;
    say(&text);
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
