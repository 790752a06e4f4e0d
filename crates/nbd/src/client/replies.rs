//! What comes from the server, understood piece by piece: simple replies, chunks of structured ones, and chunks
//! under extended headers.
//!
//! Pure: bytes in, facts out. It keeps one fixed part at a time and never takes memory for what a length claims; what
//! a fact means for the command it answers is for [`super::awaited`] to judge.

use crate::protocol::Form;
use crate::protocol::constants::{
    EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
};
use crate::protocol::wire::{Fields, Truncated};

/// Longest fixed part of a reply, in bytes.
const FIXED_BYTES_MAX: usize = 32;
/// Bytes of a simple reply, and those that all headers have at least.
const HEADER_BYTES: usize = 16;
/// Longest chunk that tells of an error, in bytes: words have no more than a string may.
const ERROR_BYTES_MAX: u64 = 8192;
/// Longest answer about blocks that is listened to, in bytes: a million extents of the longer kind, and to spare.
const STATUS_BYTES_MAX: u64 = 32 << 20;
/// Bytes of what is not kept that are received at once.
pub(super) const DROPPED_BYTES: usize = 4096;

/// The header of a reply, or of a chunk of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    cookie: u64,
    kind: u16,
    is_last: bool,
    len: u64,
}

/// What was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// A simple reply; if it is one to a read that went well, its data follows: see [`Replies::data_follows`].
    Simple { cookie: u64, error: u32 },
    /// So many bytes from this place on follow; the [`Replies::data_follows`] of a chunk.
    Data { cookie: u64, offset: u64, len: u64 },
    /// Zeros from this place on.
    Hole { cookie: u64, offset: u64, len: u64 },
    /// What the next bytes of a block status are.
    Extent { cookie: u64, context: u32, len: u64, flags: u64 },
    /// A chunk says that the command failed.
    Error { cookie: u64, error: u32 },
    /// That was the last chunk.
    Done { cookie: u64 },
}

/// What is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A header, or the beginning of one.
    Header,
    /// The fixed part of a chunk.
    Start(Header),
    /// An extent of a block status, and bytes of it that follow.
    Extent { header: Header, context: u32, left: u64 },
    /// Data for a read.
    Data { cookie: u64, is_last: bool, left: u64 },
    /// Words for people.
    Words { header: Header, left: u64 },
}

/// Where received bytes belong.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// Here, and then to [`Replies::take`].
    Own(&'a mut [u8]),
    /// Into the buffer of this read, at most so many; then [`Replies::take_data`].
    Data(u64, u64),
    /// Nowhere, at most so many; then [`Replies::take_data`].
    Nowhere(u64),
}

/// The replies of one connection.
#[derive(Debug)]
pub(super) struct Replies {
    form: Form,
    part: Part,
    fixed: [u8; FIXED_BYTES_MAX],
    filled: usize,
    needed: usize,
}

impl Replies {
    pub(super) fn new(form: Form) -> Self {
        let mut replies =
            Self { form, part: Part::Header, fixed: [0; FIXED_BYTES_MAX], filled: 0, needed: 0 };
        replies.expect(Part::Header);
        replies
    }

    /// Where the next bytes belong.
    pub(super) fn target(&mut self) -> Target<'_> {
        match self.part {
            Part::Data { cookie, left, .. } => Target::Data(cookie, left),
            Part::Words { left, .. } => Target::Nowhere(left),
            _ => Target::Own(&mut self.fixed[self.filled..self.needed]),
        }
    }

    fn expect(&mut self, part: Part) {
        self.part = part;
        self.filled = 0;
        self.needed = match part {
            Part::Header if self.form == Form::Extended => 32,
            Part::Header => HEADER_BYTES,
            Part::Extent { .. } => self.extent_bytes(),
            Part::Start(header) => match header.kind {
                chunk::OFFSET_DATA | chunk::BLOCK_STATUS_EXT => 8,
                chunk::OFFSET_HOLE => 12,
                chunk::BLOCK_STATUS => 4,
                _ => 6,
            },
            Part::Data { .. } | Part::Words { .. } => 0,
        };
    }

    fn extent_bytes(&self) -> usize {
        if self.form == Form::Extended { 16 } else { 8 }
    }

    /// The simple reply that was just told of is followed by so many bytes of data.
    pub(super) fn data_follows(&mut self, cookie: u64, len: u64) {
        self.expect(Part::Data { cookie, is_last: true, left: len });
    }

    /// `count` bytes came into the own target; what was understood then, as often as there is something.
    pub(super) fn take(&mut self, count: usize, told: &mut Vec<Fact>) -> Result<(), String> {
        self.filled += count;
        if self.filled < self.needed {
            return Ok(());
        }
        self.understand(told).map_err(|error| match error {
            Wrong::Truncated(truncated) => truncated.to_string(),
            Wrong::Words(words) => words,
        })
    }

    /// `count` bytes of data or words came.
    pub(super) fn take_data(&mut self, count: u64, told: &mut Vec<Fact>) {
        match &mut self.part {
            Part::Data { cookie, is_last, left } => {
                *left = left.saturating_sub(count);
                let (cookie, is_last, left) = (*cookie, *is_last, *left);
                if left == 0 {
                    self.end_chunk(cookie, is_last, told);
                }
            }
            Part::Words { header, left } => {
                *left = left.saturating_sub(count);
                let (header, left) = (*header, *left);
                if left == 0 {
                    self.end_chunk(header.cookie, header.is_last, told);
                }
            }
            _ => {}
        }
    }

    fn end_chunk(&mut self, cookie: u64, is_last: bool, told: &mut Vec<Fact>) {
        if is_last {
            told.push(Fact::Done { cookie });
        }
        self.expect(Part::Header);
    }

    fn understand(&mut self, told: &mut Vec<Fact>) -> Result<(), Wrong> {
        let fixed = self.fixed;
        let mut fields = Fields::new(&fixed[..self.needed]);
        match self.part {
            Part::Header => self.understand_header(&mut fields, told),
            Part::Start(header) => self.understand_start(header, &mut fields, told),
            Part::Extent { header, context, left } => {
                let (len, flags) = if self.form == Form::Extended {
                    (fields.u64("length")?, fields.u64("flags")?)
                } else {
                    (u64::from(fields.u32("length")?), u64::from(fields.u32("flags")?))
                };
                if len == 0 {
                    return Err("expected an extent of at least one byte, found none".into());
                }
                told.push(Fact::Extent { cookie: header.cookie, context, len, flags });
                match left {
                    0 => self.end_chunk(header.cookie, header.is_last, told),
                    left => {
                        let left = left - self.extent_bytes() as u64;
                        self.expect(Part::Extent { header, context, left });
                    }
                }
                Ok(())
            }
            Part::Data { .. } | Part::Words { .. } => Ok(()),
        }
    }

    fn understand_header(
        &mut self,
        fields: &mut Fields<'_>,
        told: &mut Vec<Fact>,
    ) -> Result<(), Wrong> {
        let magic = fields.u32("magic")?;
        let header = match (magic, self.form) {
            (SIMPLE_REPLY_MAGIC, Form::Simple | Form::Structured) => {
                let (error, cookie) = (fields.u32("error")?, fields.u64("cookie")?);
                told.push(Fact::Simple { cookie, error });
                self.expect(Part::Header);
                return Ok(());
            }
            (STRUCTURED_REPLY_MAGIC, Form::Structured) if self.needed == HEADER_BYTES => {
                // Longer than a simple one.
                self.needed += 4;
                return Ok(());
            }
            (STRUCTURED_REPLY_MAGIC, Form::Structured) | (EXTENDED_REPLY_MAGIC, Form::Extended) => {
                let (flags, kind) = (fields.u16("flags")?, fields.u16("type")?);
                let cookie = fields.u64("cookie")?;
                let len = if self.form == Form::Extended {
                    fields.u64("offset")?;
                    fields.u64("length")?
                } else {
                    u64::from(fields.u32("length")?)
                };
                Header { cookie, kind, is_last: flags & chunk::DONE != 0, len }
            }
            (magic, form) => {
                let what =
                    if form == Form::Simple { "a simple reply" } else { "a reply in chunks" };
                return Err(format!("expected {what} to a request, found magic {magic:#x}").into());
            }
        };
        self.begin_chunk(header, told)
    }

    /// Judges a chunk by its header.
    fn begin_chunk(&mut self, header: Header, told: &mut Vec<Fact>) -> Result<(), Wrong> {
        let Header { cookie, kind, is_last, len } = header;
        let extent = self.extent_bytes() as u64;
        let of_status = |before: u64| {
            (before + extent..=STATUS_BYTES_MAX).contains(&len)
                && (len - before).is_multiple_of(extent)
        };
        let is_right = match kind {
            chunk::NONE => len == 0 && is_last,
            chunk::OFFSET_DATA => len > 8,
            chunk::OFFSET_HOLE => len == 12,
            chunk::BLOCK_STATUS => self.form == Form::Structured && of_status(4),
            chunk::BLOCK_STATUS_EXT => self.form == Form::Extended && of_status(8),
            kind => kind & chunk::ERRORS != 0 && (6..=ERROR_BYTES_MAX).contains(&len),
        };
        if !is_right {
            return Err(format!(
                "expected a chunk of a reply to {cookie}, found type {kind:#x} of {len} bytes{}",
                if is_last { "" } else { ", not the last one" }
            )
            .into());
        }
        if kind == chunk::NONE {
            self.end_chunk(cookie, is_last, told);
        } else {
            self.expect(Part::Start(header));
        }
        Ok(())
    }

    fn understand_start(
        &mut self,
        header: Header,
        fields: &mut Fields<'_>,
        told: &mut Vec<Fact>,
    ) -> Result<(), Wrong> {
        let Header { cookie, kind, is_last, len } = header;
        match kind {
            chunk::OFFSET_DATA => {
                let (offset, left) = (fields.u64("offset")?, len - 8);
                told.push(Fact::Data { cookie, offset, len: left });
                self.expect(Part::Data { cookie, is_last, left });
            }
            chunk::OFFSET_HOLE => {
                let (offset, len) = (fields.u64("offset")?, u64::from(fields.u32("length")?));
                told.push(Fact::Hole { cookie, offset, len });
                self.end_chunk(cookie, is_last, told);
            }
            chunk::BLOCK_STATUS | chunk::BLOCK_STATUS_EXT => {
                let context = fields.u32("context")?;
                let before = self.needed as u64 + self.extent_bytes() as u64;
                // Extended headers count the extents as well; the length says the same.
                self.expect(Part::Extent { header, context, left: len - before });
            }
            _ => {
                let error = fields.u32("error")?;
                if error == 0 {
                    return Err("expected an error's number, found 0".into());
                }
                told.push(Fact::Error { cookie, error });
                match len - 6 {
                    0 => self.end_chunk(cookie, is_last, told),
                    left => self.expect(Part::Words { header, left }),
                }
            }
        }
        Ok(())
    }
}

/// Why bytes cannot be understood.
enum Wrong {
    Truncated(Truncated),
    Words(String),
}

impl From<Truncated> for Wrong {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated(truncated)
    }
}

impl From<String> for Wrong {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<&str> for Wrong {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}
