//! The entries of a trace, one after the other: lines of text through a form's parser, events of the binary form, or requests that a program has.

use super::blktrace::{self, Events};
use super::detect::{self, SAMPLE_LINES, detect};
use super::error::printable;
use super::fields::{ParseResult, Parsed};
use super::input::decompressed;
use super::lines::Lines;
use super::{Format, Input, Problem, TraceError, TraceRequest};
use std::fs::File;
use std::io::{self, Cursor, Read};

/// Longest part of a note that is kept.
const NOTE_BYTES_MAX: usize = 400;

/// An entry.
pub(super) enum Entry {
    Parsed(Parsed),
    /// A line that says something about the trace.
    Note(String),
    /// A line with nothing on it.
    Blank,
    Bad(Problem),
}

/// Where entries come from.
pub(super) enum Source {
    Lines { lines: Lines, parse: fn(&[u8]) -> ParseResult },
    Events(Events),
    Requests { requests: Box<dyn Iterator<Item = TraceRequest> + Send>, number: u64 },
}

/// A source, its form, and why it was taken for that.
pub(super) struct Opened {
    pub(super) source: Source,
    pub(super) format: Format,
    pub(super) reason: &'static str,
}

impl Source {
    /// The entries of `input`, in the form that is told or that it seems to have.
    pub(super) fn open(input: Input, told: Option<Format>) -> Result<Opened, TraceError> {
        let Input { name, mut bytes, others } = input;
        let failed = |source| TraceError::Io { trace: name.clone(), line: 0, source };
        let mut head = Vec::with_capacity(4);
        bytes.by_ref().take(4).read_to_end(&mut head).map_err(failed)?;
        let is_binary = blktrace::is_magic(&head);
        let bytes: Box<dyn Read + Send> = Box::new(Cursor::new(head).chain(bytes));
        let mut lines = match told {
            Some(format) => match format.parser() {
                Some(parse) => {
                    let source = Self::Lines { lines: Lines::new(bytes), parse };
                    return Ok(Opened { source, format, reason: "told so" });
                }
                None => return Self::events(bytes, &others, "told so").map_err(failed),
            },
            None if is_binary => {
                return Self::events(bytes, &others, "the mark of its first event").map_err(failed);
            }
            None => Lines::new(bytes),
        };
        let sample = lines.peek(SAMPLE_LINES).map_err(failed)?;
        if let Some(found) = detect(&name, &sample)
            && let Some(parse) = found.format.parser()
        {
            let source = Self::Lines { lines, parse };
            return Ok(Opened { source, format: found.format, reason: found.reason });
        }
        let first = sample.iter().find(|line| !detect::is_blank(line));
        let found = first.map_or_else(|| "nothing: it is empty".to_owned(), |line| printable(line));
        Err(TraceError::Unrecognised { trace: name, found })
    }

    fn events(
        first: Box<dyn Read + Send>,
        others: &[std::path::PathBuf],
        reason: &'static str,
    ) -> io::Result<Opened> {
        let mut files = vec![first];
        for other in others {
            files.push(decompressed(File::open(other)?)?);
        }
        let source = Self::Events(Events::new(files));
        Ok(Opened { source, format: Format::Blktrace, reason })
    }

    /// The number of the entry that came last, from 1.
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Lines { lines, .. } => lines.number,
            Self::Events(events) => events.number,
            Self::Requests { number, .. } => *number,
        }
    }

    /// The next entry; `None` behind the last.
    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        let (line, parsed) = match self {
            Self::Lines { lines, parse } => {
                let Some(line) = lines.next_line()? else { return Ok(None) };
                (line, parse(line))
            }
            Self::Events(events) => {
                let Some(parsed) = events.next()? else { return Ok(None) };
                (&b"event"[..], parsed)
            }
            Self::Requests { requests, number } => {
                let request = requests.next();
                *number += u64::from(request.is_some());
                return Ok(request.map(|request| Entry::Parsed(Parsed::Request(request))));
            }
        };
        Ok(Some(match parsed {
            Ok(Parsed::NotATransfer) if line.starts_with(b"#") => Entry::Note(note(line)),
            Ok(parsed) => Entry::Parsed(parsed),
            Err(_) if detect::is_blank(line) => Entry::Blank,
            Err(problem) => Entry::Bad(problem),
        }))
    }
}

/// What a line says behind its mark.
fn note(line: &[u8]) -> String {
    let line = &line[..line.len().min(NOTE_BYTES_MAX)];
    String::from_utf8_lossy(line).trim_start_matches('#').trim().to_owned()
}
