//! Block traces of other systems, read line by line in constant memory.
//!
//! A trace is a file, plain or compressed, in one of thirteen published forms (one file each in
//! this folder), twelve of which are text. [`TraceReader`] finds the form out from the first lines and the file's name,
//! unless told, and yields [`TraceRequest`]s in order of arrival, with times counted from the first
//! one. Three things hold:
//!
//! - memory does not depend on the length of the trace or of a line;
//! - a line is never guessed at: it parses, or it is an error with its number, what was expected
//!   and what was found (strict), or it is skipped and counted (the default);
//! - every request yielded fits the disk it was asked for, or the reader says which line does not.
//!
//! ```text
//! bytes -> decompressed -> lines -> one form's parser -> (actions ->) requests -> device filter -> addresses -> times
//!          input.rs        lines.rs                       actions.rs                               address.rs   timeline.rs
//! ```

mod actions;
mod address;
mod alibaba;
mod blkparse;
mod blktrace;
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
mod source;
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
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
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
    /// A flush goes before it: what was written and answered until then is to be durable. Of no length it is that flush alone.
    pub flush: bool,
    /// It is to be durable when it is answered.
    pub fua: bool,
    /// Nobody waits for it, as far as the trace says.
    pub in_background: bool,
    /// Process, or thread, that asked for it; 0 where the trace does not say.
    pub process: u32,
    /// How long the traced system took, where the trace says.
    pub response: Option<Nanos>,
    /// Time between the completion of this request and the issue of the next, where the trace says
    /// (then it was taken with one request at a time).
    pub think: Option<Nanos>,
}

impl TraceRequest {
    /// Whether it says that something is to be durable when it is answered.
    pub fn asks_durability(&self) -> bool {
        self.flush || self.fua
    }

    /// First byte behind the request.
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(u64::from(self.len_bytes))
    }
}
