//! Block traces of other systems, read line by line in constant memory.
//!
//! A trace is a text file, plain or compressed, in one of twelve published forms (one file each in
//! this folder). [`TraceReader`] finds the form out from the first lines and the file's name,
//! unless told, and yields [`TraceRequest`]s in order of arrival, with times counted from the first
//! one. Three things hold:
//!
//! - memory does not depend on the length of the trace or of a line;
//! - a line is never guessed at: it parses, or it is an error with its number, what was expected
//!   and what was found (strict), or it is skipped and counted (the default);
//! - every request yielded fits the disk it was asked for, or the reader says which line does not.
//!
//! ```text
//! bytes -> decompressed -> lines -> one form's parser -> device filter -> addresses -> times
//!          input.rs        lines.rs                                       address.rs   timeline.rs
//! ```

mod address;
mod alibaba;
mod blkparse;
mod cloudphysics;
mod detect;
mod disksim_ascii;
mod disksim_validation;
mod dtrs;
mod error;
mod fields;
mod fio_iolog;
mod format;
mod heimdall;
mod input;
mod lines;
mod mqsim;
mod msr;
mod reader;
mod summary;
mod systor17;
mod tencent;
mod timeline;

pub use address::{AddressFit, AddressOptions, SCALE_ZONES};
pub use error::{LineProblem, Problem, TraceError};
pub use format::{Format, UnknownFormat};
pub use input::{Input, text};
pub use reader::{Counts, TraceOptions, TraceReader};
pub use summary::{Summary, summarize};

use nearhead_disk::Nanos;

/// One request of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it arrives. From a [`TraceReader`]: since the first request of the trace.
    pub at: Nanos,
    /// Which disk of the traced system, as numbered in the trace; 0 where it does not say.
    pub device: u32,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub len_bytes: u32,
    /// Write or read.
    pub write: bool,
    /// How long the traced system took, where the trace says.
    pub response: Option<Nanos>,
    /// Time between the completion of this request and the issue of the next, where the trace says
    /// (then it was taken with one request at a time).
    pub think: Option<Nanos>,
}

impl TraceRequest {
    /// First byte behind the request.
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(u64::from(self.len_bytes))
    }
}
