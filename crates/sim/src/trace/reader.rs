//! The trace reader: lines in, requests that fit the disk out.
//!
//! Nothing of the trace is kept but what waits for its place or its end, the first few notes and bad lines, and the counts.

use super::actions::{Assembly, Leaving};
use super::address::AddressMap;
use super::fields::Parsed;
use super::source::{Entry, Opened, Source};
use super::timeline::Timeline;
use super::{AddressOptions, Format, Input, LineProblem, TraceError, TraceRequest};
use nearhead_disk::Nanos;
use std::path::Path;

/// Bad lines remembered for the report.
const PROBLEMS_MAX: usize = 5;

/// Notes remembered: the first, and the last.
const NOTES_MAX: usize = 16;

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
    /// Lines read, or events of a binary trace.
    pub lines: u64,
    /// Requests yielded.
    pub requests: u64,
    /// Lines that did not parse.
    pub skipped: u64,
    /// Well-formed lines about something else: column titles, other commands, blank lines, and those that say more of a request that is counted.
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
    source: Source,
    format: Format,
    reason: &'static str,
    options: TraceOptions,
    /// Requests of which more will be said.
    assembly: Assembly,
    addresses: AddressMap,
    timeline: Timeline,
    /// When the next request is issued, in a trace that has response and think times only.
    next_issue: Nanos,
    counts: Counts,
    notes: Vec<String>,
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
        let name = input.name.clone();
        let opened = Source::open(input, options.format)?;
        Self::over(name, opened, options)
    }

    /// Requests that a program has, called `name` in messages and numbered from 1 there, treated as those of a file: in order of arrival, fitted to the
    /// disk, and one at a time where they say response and think times.
    pub fn of_requests(
        name: &str,
        requests: impl Iterator<Item = TraceRequest> + Send + 'static,
        options: TraceOptions,
    ) -> Result<Self, TraceError> {
        let source = Source::Requests { requests: Box::new(requests), number: 0 };
        let opened = Opened { source, format: Format::Requests, reason: "told so" };
        Self::over(name.to_owned(), opened, options)
    }

    fn over(name: String, opened: Opened, options: TraceOptions) -> Result<Self, TraceError> {
        if !options.time_scale.is_finite() || options.time_scale < 0.0 {
            let found = options.time_scale;
            let problem = format!("expected a time scale of 0 or more, found {found}");
            return Err(TraceError::Options { problem });
        }
        let addresses = AddressMap::new(&options.address)?;
        let Opened { source, format, reason } = opened;
        Ok(Self {
            name,
            source,
            format,
            reason,
            assembly: Assembly::default(),
            addresses,
            timeline: Timeline::new(options.reorder_requests_max, options.time_scale),
            options,
            next_issue: Nanos::ZERO,
            counts: Counts::default(),
            notes: Vec::new(),
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
            lines: self.source.number(),
            moved: self.addresses.moved,
            late: self.timeline.late,
            ..self.counts
        }
    }

    /// The first few lines so far that say something about the trace, and the last one, in forms that have such.
    pub fn notes(&self) -> &[String] {
        &self.notes
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
        let entry = match self.source.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => return self.end(),
            Err(source) => {
                let (trace, line) = (self.name.clone(), self.source.number());
                return Err(TraceError::Io { trace, line, source });
            }
        };
        let line = self.source.number();
        match entry {
            Entry::Parsed(Parsed::Request(request)) => self.accept(request, line),
            Entry::Parsed(Parsed::Action(action)) => {
                self.parsed += 1;
                self.counts.not_transfers += u64::from(!self.assembly.take(action, line));
                self.accept_assembled(false)
            }
            Entry::Note(note) => {
                self.counts.not_transfers += 1;
                self.notes.truncate(NOTES_MAX - 1);
                self.notes.push(note);
                Ok(())
            }
            Entry::Parsed(Parsed::NotATransfer) | Entry::Blank => {
                self.counts.not_transfers += 1;
                Ok(())
            }
            Entry::Bad(problem) => self.refuse(LineProblem { line, problem }),
        }
    }

    /// Accepts the requests of which all was said.
    fn accept_assembled(&mut self, is_over: bool) -> Result<(), TraceError> {
        while let Some(leaving) = self.assembly.pop(is_over) {
            match leaving {
                Leaving::Request(request, line) => self.accept(request, line)?,
                Leaving::Part => self.counts.not_transfers += 1,
            }
        }
        Ok(())
    }

    fn accept(&mut self, mut request: TraceRequest, line: u64) -> Result<(), TraceError> {
        self.parsed += 1;
        if let (Some(response), Some(think)) = (request.response, request.think) {
            request.at = self.next_issue;
            self.next_issue += response + think;
        }
        if self.options.device.is_some_and(|device| device != request.device) {
            self.counts.other_devices += 1;
        } else if request.len_bytes == 0 && request.flush {
            // A flush is of everything, whatever the trace says of where.
            self.timeline.push(TraceRequest { offset_bytes: 0, ..request });
        } else if request.len_bytes == 0 {
            self.counts.empty += 1;
        } else {
            let placed = self.addresses.place(request).map_err(|problem| TraceError::Address {
                trace: self.name.clone(),
                at: LineProblem { line, problem },
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
        self.accept_assembled(true)?;
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
