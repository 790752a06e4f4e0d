//! Replies of the transmission phase, in the three forms of the protocol.
//!
//! A client that negotiated structured replies gets them for reads, block status and every error
//! (with words); all else is a simple reply of 16 bytes. Under extended headers every reply is made
//! of chunks with a header of 32 bytes, which also repeats the request's offset. A reply to a read
//! always covers exactly the bytes asked for: a service that returned another number would shift
//! the stream, so that becomes an I/O error instead.

use super::constants::{
    EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, allocation, chunk, errno,
};
use super::export::floor_char_boundary;
use super::meta::ALLOCATION_ID;
use super::outbox::Outbox;
use nearhead_disk::{Payload, total_len};
use nearhead_service::{ErrorKind, Extent};

/// Longest error message sent, in bytes.
const WORDS_BYTES_MAX: usize = 512;

/// What replies look like, as the client negotiated it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// 16 bytes, and the bytes of a read behind them.
    #[default]
    Simple,
    /// Chunks with 32-bit lengths, where a simple reply does not do.
    Structured,
    /// Chunks with 64-bit lengths, always.
    Extended,
}

impl Form {
    /// Whether replies may have several chunks, and errors words.
    pub(crate) fn is_structured(self) -> bool {
        self != Self::Simple
    }
}

/// By what a reply names its request: both come back as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The client's own number for it.
    pub cookie: u64,
    /// The offset as it came; only extended headers repeat it.
    pub offset: u64,
}

/// A read as its reply needs it; it begins at the handle's offset.
#[derive(Clone, Copy, Debug)]
pub struct ReadAsked {
    /// Whose reply it is.
    pub handle: Handle,
    /// Number of bytes.
    pub len: u32,
    /// All in one chunk.
    pub one_chunk: bool,
}

/// The error number for a kind of failure.
pub(crate) fn errno_of(kind: ErrorKind) -> u32 {
    match kind {
        ErrorKind::Io => errno::IO,
        ErrorKind::NoSpace => errno::NOSPC,
        ErrorKind::Invalid => errno::INVAL,
        ErrorKind::NotSupported => errno::NOTSUP,
        ErrorKind::ReadOnly => errno::PERM,
        ErrorKind::ShuttingDown => errno::SHUTDOWN,
    }
}

/// Replies of one form, on their way to one client.
pub(crate) struct Replies<'a> {
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) form: Form,
}

impl Replies<'_> {
    /// Success without content.
    pub(crate) fn put_done(&mut self, handle: Handle) {
        if self.form == Form::Extended {
            self.put_chunk(handle, chunk::DONE, chunk::NONE, 0, |_| ());
        } else {
            self.put_simple(handle, 0);
        }
    }

    fn put_simple(&mut self, handle: Handle, errno: u32) {
        self.outbox.put_header(|out| {
            out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
            out.extend_from_slice(&errno.to_be_bytes());
            out.extend_from_slice(&handle.cookie.to_be_bytes());
        });
    }

    /// A chunk with `len` bytes of content, of which `begin` appends the first and the caller the rest.
    fn put_chunk(
        &mut self,
        handle: Handle,
        flags: u16,
        kind: u16,
        len: usize,
        begin: impl FnOnce(&mut Vec<u8>),
    ) {
        let is_extended = self.form == Form::Extended;
        let magic = if is_extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
        self.outbox.put_header(|out| {
            out.extend_from_slice(&magic.to_be_bytes());
            out.extend_from_slice(&flags.to_be_bytes());
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&handle.cookie.to_be_bytes());
            if is_extended {
                out.extend_from_slice(&handle.offset.to_be_bytes());
                out.extend_from_slice(&(len as u64).to_be_bytes());
            } else {
                out.extend_from_slice(&(len as u32).to_be_bytes());
            }
            begin(out);
        });
    }

    /// An error, with words where the client can take them.
    pub(crate) fn put_error(&mut self, handle: Handle, errno: u32, words: &str) {
        if !self.form.is_structured() {
            return self.put_simple(handle, errno);
        }
        let words = &words[..floor_char_boundary(words, WORDS_BYTES_MAX)];
        self.put_chunk(handle, chunk::DONE, chunk::ERROR, 6 + words.len(), |out| {
            out.extend_from_slice(&errno.to_be_bytes());
            out.extend_from_slice(&(words.len() as u16).to_be_bytes());
            out.extend_from_slice(words.as_bytes());
        });
    }

    /// The bytes of a read.
    pub(crate) fn put_read(&mut self, asked: ReadAsked, parts: Vec<Payload>) {
        let found = total_len(&parts);
        if found != asked.len as usize {
            let words = format!("the service returned {found} of {} bytes", asked.len);
            return self.put_error(asked.handle, errno::IO, &words);
        }
        if !self.form.is_structured() {
            self.put_simple(asked.handle, 0);
            for part in parts {
                self.outbox.put_payload(part);
            }
        } else if asked.one_chunk || !parts.iter().any(is_hole) {
            self.put_data(asked.handle, chunk::DONE, asked.handle.offset, parts);
        } else {
            self.put_sparse_read(asked, parts);
        }
    }

    fn put_data(&mut self, handle: Handle, flags: u16, offset: u64, parts: Vec<Payload>) {
        let len = 8 + total_len(&parts);
        self.put_chunk(handle, flags, chunk::OFFSET_DATA, len, |out| {
            out.extend_from_slice(&offset.to_be_bytes());
        });
        for part in parts {
            self.outbox.put_payload(part);
        }
    }

    /// Runs of data and runs of zeros, each as one chunk.
    fn put_sparse_read(&mut self, asked: ReadAsked, parts: Vec<Payload>) {
        let mut offset = asked.handle.offset;
        let end = offset + u64::from(asked.len);
        let mut parts = parts.into_iter().filter(|part| !part.is_empty()).peekable();
        while let Some(first) = parts.next() {
            let hole = is_hole(&first);
            let mut run = vec![first];
            while let Some(next) = parts.next_if(|next| is_hole(next) == hole) {
                run.push(next);
            }
            let len = total_len(&run);
            let flags = if offset + len as u64 == end { chunk::DONE } else { 0 };
            if hole {
                self.put_chunk(asked.handle, flags, chunk::OFFSET_HOLE, 12, |out| {
                    out.extend_from_slice(&offset.to_be_bytes());
                    out.extend_from_slice(&(len as u32).to_be_bytes());
                });
            } else {
                self.put_data(asked.handle, flags, offset, run);
            }
            offset += len as u64;
        }
    }

    /// The extents of `base:allocation`; at least one.
    pub(crate) fn put_block_status(&mut self, handle: Handle, extents: &[Extent]) {
        if self.form == Form::Extended {
            let len = 8 + 16 * extents.len();
            self.put_chunk(handle, chunk::DONE, chunk::BLOCK_STATUS_EXT, len, |out| {
                out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
                out.extend_from_slice(&(extents.len() as u32).to_be_bytes());
                for extent in extents {
                    out.extend_from_slice(&extent.len.to_be_bytes());
                    out.extend_from_slice(&u64::from(state_of(extent)).to_be_bytes());
                }
            });
            return;
        }
        let len = 4 + 8 * extents.len();
        self.put_chunk(handle, chunk::DONE, chunk::BLOCK_STATUS, len, |out| {
            out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
            for extent in extents {
                // No extent is longer than the request, whose length had 32 bits.
                out.extend_from_slice(&(extent.len as u32).to_be_bytes());
                out.extend_from_slice(&state_of(extent).to_be_bytes());
            }
        });
    }
}

fn is_hole(part: &Payload) -> bool {
    matches!(part, Payload::Zeros(len) | Payload::Phantom(len) if *len > 0)
}

fn state_of(extent: &Extent) -> u32 {
    let hole = if extent.hole { allocation::HOLE } else { 0 };
    let zero = if extent.zero { allocation::ZERO } else { 0 };
    hole | zero
}

/// Cuts, merges and counts extents as the protocol wants them: none empty, none past `len`,
/// neighbours different, at least one.
pub(crate) fn tidy_extents(extents: Vec<Extent>, len: u64, extents_max: usize) -> Vec<Extent> {
    let mut left = len;
    let mut tidy: Vec<Extent> = Vec::new();
    for mut extent in extents {
        extent.len = extent.len.min(left);
        if extent.len == 0 {
            continue;
        }
        left -= extent.len;
        let last =
            tidy.last_mut().filter(|last| (last.hole, last.zero) == (extent.hole, extent.zero));
        if let Some(last) = last {
            last.len += extent.len;
        } else if tidy.len() == extents_max {
            break;
        } else {
            tidy.push(extent);
        }
    }
    if tidy.is_empty() {
        // Nothing known: all of it counts as data.
        tidy.push(Extent { len, hole: false, zero: false });
    }
    tidy
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
