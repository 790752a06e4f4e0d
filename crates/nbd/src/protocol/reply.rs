//! Replies of the transmission phase, in both forms.
//!
//! A client that negotiated structured replies gets them for reads, block status and every error
//! (with words); all else is a simple reply of 16 bytes. A reply to a read always covers exactly
//! the bytes asked for: a service that returned another number would shift the stream, so that
//! becomes an I/O error instead.

use super::constants::{SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, allocation, chunk, errno};
use super::export::floor_char_boundary;
use super::meta::ALLOCATION_ID;
use super::outbox::Outbox;
use nearhead_disk::{Payload, total_len};
use nearhead_engine::ErrorKind;
use nearhead_volume::Extent;

/// Longest error message sent, in bytes.
const WORDS_BYTES_MAX: usize = 512;

/// A read as its reply needs it.
#[derive(Clone, Copy, Debug)]
pub struct ReadAsked {
    /// The request's cookie.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
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

/// A reply without content: success, or an error without words.
pub(crate) fn put_simple(outbox: &mut Outbox, cookie: u64, errno: u32) {
    outbox.put_header(|out| {
        out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        out.extend_from_slice(&errno.to_be_bytes());
        out.extend_from_slice(&cookie.to_be_bytes());
    });
}

fn put_chunk_header(out: &mut Vec<u8>, flags: u16, kind: u16, cookie: u64, len: u32) {
    out.extend_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// An error, with words where the client can take them.
pub(crate) fn put_error(
    outbox: &mut Outbox,
    structured: bool,
    cookie: u64,
    errno: u32,
    words: &str,
) {
    if !structured {
        return put_simple(outbox, cookie, errno);
    }
    let words = &words[..floor_char_boundary(words, WORDS_BYTES_MAX)];
    outbox.put_header(|out| {
        put_chunk_header(out, chunk::DONE, chunk::ERROR, cookie, 6 + words.len() as u32);
        out.extend_from_slice(&errno.to_be_bytes());
        out.extend_from_slice(&(words.len() as u16).to_be_bytes());
        out.extend_from_slice(words.as_bytes());
    });
}

/// The bytes of a read.
pub(crate) fn put_read(
    outbox: &mut Outbox,
    structured: bool,
    asked: ReadAsked,
    parts: Vec<Payload>,
) {
    let found = total_len(&parts);
    if found != asked.len as usize {
        let words = format!("the service returned {found} of {} bytes", asked.len);
        return put_error(outbox, structured, asked.cookie, errno::IO, &words);
    }
    if !structured {
        put_simple(outbox, asked.cookie, 0);
        for part in parts {
            outbox.put_payload(part);
        }
    } else if asked.one_chunk || !parts.iter().any(is_hole) {
        put_data_chunk(outbox, asked.cookie, chunk::DONE, asked.offset, parts);
    } else {
        put_sparse_read(outbox, asked, parts);
    }
}

fn is_hole(part: &Payload) -> bool {
    matches!(part, Payload::Zeros(len) | Payload::Phantom(len) if *len > 0)
}

fn put_data_chunk(outbox: &mut Outbox, cookie: u64, flags: u16, offset: u64, parts: Vec<Payload>) {
    let len = 8 + total_len(&parts) as u32;
    outbox.put_header(|out| {
        put_chunk_header(out, flags, chunk::OFFSET_DATA, cookie, len);
        out.extend_from_slice(&offset.to_be_bytes());
    });
    for part in parts {
        outbox.put_payload(part);
    }
}

/// Runs of data and runs of zeros, each as one chunk.
fn put_sparse_read(outbox: &mut Outbox, asked: ReadAsked, parts: Vec<Payload>) {
    let mut offset = asked.offset;
    let end = asked.offset + u64::from(asked.len);
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
            outbox.put_header(|out| {
                put_chunk_header(out, flags, chunk::OFFSET_HOLE, asked.cookie, 12);
                out.extend_from_slice(&offset.to_be_bytes());
                out.extend_from_slice(&(len as u32).to_be_bytes());
            });
        } else {
            put_data_chunk(outbox, asked.cookie, flags, offset, run);
        }
        offset += len as u64;
    }
}

/// The extents of `base:allocation`; at least one.
pub(crate) fn put_block_status(outbox: &mut Outbox, cookie: u64, extents: &[Extent]) {
    outbox.put_header(|out| {
        let len = 4 + 8 * extents.len() as u32;
        put_chunk_header(out, chunk::DONE, chunk::BLOCK_STATUS, cookie, len);
        out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
        for extent in extents {
            let mut state = 0;
            if extent.hole {
                state |= allocation::HOLE;
            }
            if extent.zero {
                state |= allocation::ZERO;
            }
            out.extend_from_slice(&(extent.len as u32).to_be_bytes());
            out.extend_from_slice(&u32::to_be_bytes(state));
        }
    });
}

/// Cuts, merges and counts extents as the protocol wants them: none empty, none past `len`,
/// neighbours different, at least one.
pub(crate) fn tidy_extents(extents: Vec<Extent>, len: u32, extents_max: usize) -> Vec<Extent> {
    let mut left = u64::from(len);
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
        tidy.push(Extent { len: u64::from(len), hole: false, zero: false });
    }
    tidy
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
