//! The trace reader: lines in, requests that fit the disk out.
//!
//! Nothing of the trace is kept but the reordering window, the first few bad lines and the counts.

use super::address::AddressMap;
use super::detect::{self, SAMPLE_LINES, detect};
use super::error::printable;
use super::fields::{ParseResult, Parsed};
use super::lines::Lines;
use super::timeline::Timeline;
use super::{AddressOptions, Format, Input, LineProblem, TraceError, TraceRequest};
use nearhead_disk::Nanos;
use std::path::Path;

/// Bad lines remembered for the report.
const PROBLEMS_MAX: usize = 5;

/// This many bad lines before the first good one mean that the format is wrong.
const HOPELESS_LINES: u64 = 10_000;

/// How to read a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceOptions {
    /// The format; `None` to find out.
    pub format: Option<Format>,
    /// Stop at the first line that does not parse, instead of skipping it.
    pub strict: bool,
    /// Only requests to this device of the trace.
    pub device: Option<u32>,
    /// Times are multiplied by this: 0.5 replays twice as fast.
    pub time_scale: f64,
    /// The disk that requests must fit.
    pub address: AddressOptions,
    /// Requests held back to sort them by arrival.
    pub reorder_requests_max: usize,
    /// Stop after this many requests.
    pub requests_max: Option<u64>,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            format: None,
            strict: false,
            device: None,
            time_scale: 1.0,
            address: AddressOptions::default(),
            reorder_requests_max: 1024,
            requests_max: None,
        }
    }
}

/// What became of the lines read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Lines read.
    pub lines: u64,
    /// Requests yielded.
    pub requests: u64,
    /// Lines that did not parse.
    pub skipped: u64,
    /// Well-formed lines about something else: column titles, other commands, blank lines.
    pub not_transfers: u64,
    /// Requests of no length.
    pub empty: u64,
    /// Requests to devices that were not asked for.
    pub other_devices: u64,
    /// Requests whose address was wrapped or scaled.
    pub moved: u64,
    /// Requests too far out of order to sort: they arrive later than the trace says.
    pub late: u64,
}

/// A trace being read: an iterator over its requests, in order of arrival.
///
/// After an error the iterator ends.
pub struct TraceReader {
    name: String,
    lines: Lines,
    format: Format,
    reason: &'static str,
    parse: fn(&[u8]) -> ParseResult,
    options: TraceOptions,
    addresses: AddressMap,
    timeline: Timeline,
    /// When the next request is issued, in a trace that has response and think times only.
    next_issue: Nanos,
    counts: Counts,
    problems: Vec<LineProblem>,
    parsed: u64,
    done: bool,
}

impl TraceReader {
    /// Opens the file at `path`.
    pub fn open(path: impl AsRef<Path>, options: TraceOptions) -> Result<Self, TraceError> {
        Self::new(Input::open(path)?, options)
    }

    /// Reads `input`.
    pub fn new(input: Input, options: TraceOptions) -> Result<Self, TraceError> {
        if !options.time_scale.is_finite() || options.time_scale < 0.0 {
            let found = options.time_scale;
            let problem = format!("expected a time scale of 0 or more, found {found}");
            return Err(TraceError::Options { problem });
        }
        let addresses = AddressMap::new(&options.address)?;
        let Input { name, bytes } = input;
        let mut lines = Lines::new(bytes);
        let (format, reason) = match options.format {
            Some(format) => (format, "told so"),
            None => find_out(&name, &mut lines)?,
        };
        Ok(Self {
            name,
            lines,
            format,
            reason,
            parse: format.parser(),
            addresses,
            timeline: Timeline::new(options.reorder_requests_max, options.time_scale),
            options,
            next_issue: Nanos::ZERO,
            counts: Counts::default(),
            problems: Vec::new(),
            parsed: 0,
            done: false,
        })
    }

    /// The format being read.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Why that format, for people: "told so", "its name", ...
    pub fn format_reason(&self) -> &'static str {
        self.reason
    }

    /// The trace's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What became of the lines so far.
    pub fn counts(&self) -> Counts {
        Counts {
            lines: self.lines.number,
            moved: self.addresses.moved,
            late: self.timeline.late,
            ..self.counts
        }
    }

    /// The first few of the lines that did not parse.
    pub fn problems(&self) -> &[LineProblem] {
        &self.problems
    }

    fn next_request(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        if self.options.requests_max.is_some_and(|max| self.counts.requests >= max) {
            return Ok(None);
        }
        while !self.done && !self.timeline.is_full() {
            self.read_line()?;
        }
        let request = self.timeline.pop();
        self.counts.requests += u64::from(request.is_some());
        Ok(request)
    }

    fn read_line(&mut self) -> Result<(), TraceError> {
        let line = match self.lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => return self.end(),
            Err(source) => {
                let (trace, line) = (self.name.clone(), self.lines.number);
                return Err(TraceError::Io { trace, line, source });
            }
        };
        match (self.parse)(line) {
            Ok(Parsed::Request(request)) => self.accept(request),
            Ok(Parsed::NotATransfer) => {
                self.counts.not_transfers += 1;
                Ok(())
            }
            Err(_) if detect::is_blank(line) => {
                self.counts.not_transfers += 1;
                Ok(())
            }
            Err(problem) => self.refuse(LineProblem { line: self.lines.number, problem }),
        }
    }

    fn accept(&mut self, mut request: TraceRequest) -> Result<(), TraceError> {
        self.parsed += 1;
        if let (Some(response), Some(think)) = (request.response, request.think) {
            request.at = self.next_issue;
            self.next_issue += response + think;
        }
        if self.options.device.is_some_and(|device| device != request.device) {
            self.counts.other_devices += 1;
        } else if request.len_bytes == 0 {
            self.counts.empty += 1;
        } else {
            let placed = self.addresses.place(request).map_err(|problem| TraceError::Address {
                trace: self.name.clone(),
                at: LineProblem { line: self.lines.number, problem },
            })?;
            self.timeline.push(placed);
        }
        Ok(())
    }

    fn refuse(&mut self, at: LineProblem) -> Result<(), TraceError> {
        if self.options.strict {
            let (trace, format) = (self.name.clone(), self.format);
            return Err(TraceError::Line { trace, format, at });
        }
        self.counts.skipped += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(at);
        }
        if self.parsed == 0 && self.counts.skipped >= HOPELESS_LINES {
            return self.end();
        }
        Ok(())
    }

    /// No line is left, or none is worth reading.
    fn end(&mut self) -> Result<(), TraceError> {
        self.done = true;
        match self.problems.first() {
            Some(first) if self.parsed == 0 => Err(TraceError::NothingParsed {
                trace: self.name.clone(),
                format: self.format,
                skipped: self.counts.skipped,
                first: first.clone(),
            }),
            _ => Ok(()),
        }
    }
}

fn find_out(name: &str, lines: &mut Lines) -> Result<(Format, &'static str), TraceError> {
    let sample = lines.peek(SAMPLE_LINES).map_err(|source| TraceError::Io {
        trace: name.to_owned(),
        line: 0,
        source,
    })?;
    if let Some(detected) = detect(name, &sample) {
        return Ok((detected.format, detected.reason));
    }
    let first = sample.iter().find(|line| !detect::is_blank(line));
    let found = first.map_or_else(|| "nothing: it is empty".to_owned(), |line| printable(line));
    Err(TraceError::Unrecognised { trace: name.to_owned(), found })
}

impl Iterator for TraceReader {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_request() {
            Ok(request) => request.map(Ok),
            Err(error) => {
                self.done = true;
                self.timeline = Timeline::new(0, 1.0);
                Some(Err(error))
            }
        }
    }
}
