//! What can go wrong with a trace, said so that the reader can act on it.

use super::Format;
use std::fmt;
use std::io;

/// Longest piece of a bad line that a message repeats.
const SHOWN_BYTES_MAX: usize = 100;

/// Why a line, or its request, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What should be there.
    pub expected: String,
    /// What is there, shortened and printable.
    pub found: String,
}

impl Problem {
    /// `found` is taken from the trace and made printable.
    pub(super) fn new(expected: impl Into<String>, found: &[u8]) -> Self {
        Self { expected: expected.into(), found: printable(found) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "expected {}, found {}", self.expected, self.found)
    }
}

/// A problem and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProblem {
    /// Counted from 1, after decompression.
    pub line: u64,
    /// What is wrong there.
    pub problem: Problem,
}

impl fmt::Display for LineProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.problem)
    }
}

/// Why a trace cannot be read on.
#[derive(Debug)]
pub enum TraceError {
    /// The file cannot be opened, read or decompressed.
    Io {
        /// File name.
        trace: String,
        /// Line it was read up to.
        line: u64,
        /// The system's or the decoder's word on it.
        source: io::Error,
    },
    /// Strict mode, and a line does not parse.
    Line {
        /// File name.
        trace: String,
        /// What the lines were taken for.
        format: Format,
        /// Where and what.
        at: LineProblem,
    },
    /// A request does not fit the disk.
    Address {
        /// File name.
        trace: String,
        /// Where and what.
        at: LineProblem,
    },
    /// The first lines are in none of the known forms.
    Unrecognised {
        /// File name.
        trace: String,
        /// First line that is not blank, shortened.
        found: String,
    },
    /// Line after line does not parse: surely not this form.
    NothingParsed {
        /// File name.
        trace: String,
        /// What the lines were taken for.
        format: Format,
        /// How many lines were tried.
        skipped: u64,
        /// First line that did not parse.
        first: LineProblem,
    },
    /// The options contradict themselves.
    Options {
        /// What is wrong with them.
        problem: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { trace, line: 0, source } => {
                write!(out, "trace {trace}: cannot read it: {source}")
            }
            Self::Io { trace, line, source } => {
                write!(out, "trace {trace}: cannot read on after line {line}: {source}")
            }
            Self::Line { trace, format, at } => write!(
                out,
                "trace {trace}, line {}, read as {format}: {}; \
                 name another format, or leave strict mode to skip such lines",
                at.line, at.problem
            ),
            Self::Address { trace, at } => write!(
                out,
                "trace {trace}, line {}: {}; wrap or scale the addresses, \
                 choose one device of the trace, or use a larger disk",
                at.line, at.problem
            ),
            Self::Unrecognised { trace, found } => {
                write!(out, "trace {trace}: expected one of the forms")?;
                for format in Format::ALL {
                    write!(out, " {format},")?;
                }
                write!(out, " found a first line {found}; name the format if it is one of these")
            }
            Self::NothingParsed { trace, format, skipped, first } => write!(
                out,
                "trace {trace}: none of the first {skipped} lines parses as {format}; \
                 the first bad one is {first}; name another format"
            ),
            Self::Options { problem } => write!(out, "trace options: {problem}"),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Bytes from outside as quoted ASCII of bounded length.
pub(super) fn printable(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let dots = if shown.len() < bytes.len() { "..." } else { "" };
    format!("\"{}{dots}\"", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_bytes_are_shortened_and_harmless_in_messages() {
        assert_eq!(printable(b"a\x1b[2J\xff"), "\"a\\x1b[2J\\xff\"");
        assert!(printable(&vec![b'x'; 100_000]).len() < 120);
    }

    #[test]
    fn a_bad_line_says_where_what_and_what_to_do() {
        let error = TraceError::Line {
            trace: "t.csv".into(),
            format: Format::Msr,
            at: LineProblem { line: 7, problem: Problem::new("Read or Write", b"Rad") },
        };
        let text = error.to_string();
        for part in ["t.csv", "line 7", "msr", "expected Read or Write", "found \"Rad\"", "strict"]
        {
            assert!(text.contains(part), "{part} in: {text}");
        }
    }
}
