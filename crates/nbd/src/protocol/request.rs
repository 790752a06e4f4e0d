//! Requests of the transmission phase, compact or extended, and the one gate they pass.
//!
//! [`Header::decode`] only takes bytes apart; [`validate_request`] is the only place that decides
//! whether a service may see a request. What passes lies inside the export, is a whole number of
//! blocks, is not larger than the largest request, writes only where writing is allowed, and uses
//! only what was negotiated.

use super::constants::{
    EXTENDED_REQUEST_HEADER_BYTES, EXTENDED_REQUEST_MAGIC, REQUEST_HEADER_BYTES, REQUEST_MAGIC,
    command, command_flag, errno,
};
use super::export::Export;
use super::reply::{Form, Handle};
use super::wire::{Fields, Truncated};
use nearhead_disk::Payload;

/// A request's header as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flags: u16,
    pub(crate) kind: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Header {
    /// Bytes of a request's header.
    pub(crate) fn len_in(form: Form) -> usize {
        if form == Form::Extended { EXTENDED_REQUEST_HEADER_BYTES } else { REQUEST_HEADER_BYTES }
    }

    /// Takes the first [`Header::len_in`] of `bytes` apart; `None` if the magic is wrong, after
    /// which the stream is lost.
    pub(crate) fn decode(bytes: &[u8], form: Form) -> Option<Self> {
        let is_extended = form == Form::Extended;
        let expected = if is_extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        let parse = || -> Result<(u32, Self), Truncated> {
            let mut fields = Fields::new(bytes);
            let magic = fields.u32("magic")?;
            let flags = fields.u16("flags")?;
            let kind = fields.u16("type")?;
            let cookie = fields.u64("cookie")?;
            let offset = fields.u64("offset")?;
            let len =
                if is_extended { fields.u64("length")? } else { fields.u32("length")?.into() };
            Ok((magic, Self { flags, kind, cookie, offset, len }))
        };
        parse().ok().filter(|(magic, _)| *magic == expected).map(|(_, header)| header)
    }

    /// Whether a payload of `len` bytes follows. Of a write always, also where extended headers
    /// want the flag for it and the client forgot it; of anything else if the flag says so.
    pub(crate) fn carries_payload(&self, form: Form) -> bool {
        let is_told = form == Form::Extended && self.flags & command_flag::PAYLOAD_LEN != 0;
        self.kind == command::WRITE || is_told
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle { cookie: self.cookie, offset: self.offset }
    }
}

/// What a client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// Read.
    Read {
        /// In one chunk.
        one_chunk: bool,
    },
    /// Write the payload.
    Write,
    /// Make answered writes durable.
    Flush,
    /// Forget content.
    Trim,
    /// Prefetch.
    Cache,
    /// Zero.
    WriteZeroes {
        /// The zeros must stay allocated.
        no_hole: bool,
        /// Fail rather than be as slow as a write.
        fast_only: bool,
    },
    /// Tell what is allocated.
    BlockStatus {
        /// Only the first extent.
        one_extent: bool,
    },
}

/// A request that passed the gate.
#[derive(Debug)]
pub struct ClientRequest {
    /// Comes back in the reply.
    pub handle: Handle,
    /// What to do.
    pub command: ClientCommand,
    /// Reply only once durable.
    pub fua: bool,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Number of bytes; 0 for a flush. Reads and writes are no longer than the largest request,
    /// which 32 bits count.
    pub len: u64,
    /// The bytes of a write.
    pub payload: Payload,
}

/// Why a request did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// One of [`errno`].
    pub(crate) errno: u32,
    /// What, where, expected, found.
    pub(crate) words: String,
}

fn refuse<T>(errno: u32, words: String) -> Result<T, Refusal> {
    Err(Refusal { errno, words })
}

/// What this connection agreed on, as far as requests depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agreed {
    pub(crate) form: Form,
    pub(crate) allocation: bool,
}

/// The gate. `DISC` does not come here: it has no reply.
pub(crate) fn validate_request(
    header: &Header,
    export: &Export,
    agreed: Agreed,
) -> Result<ClientRequest, Refusal> {
    let command = validate_command(header, export, agreed)?;
    let mut request = ClientRequest {
        handle: header.handle(),
        command,
        fua: header.flags & command_flag::FUA != 0,
        offset: header.offset,
        len: header.len,
        payload: Payload::EMPTY,
    };
    if command == ClientCommand::Flush {
        (request.offset, request.len) = (0, 0);
    } else {
        validate_range(header, export, command)?;
    }
    Ok(request)
}

/// Type and flags: known, negotiated, and allowed on this export.
fn validate_command(
    header: &Header,
    export: &Export,
    agreed: Agreed,
) -> Result<ClientCommand, Refusal> {
    let has = |flag: u16| header.flags & flag != 0;
    // FUA is offered, and may come with any command; where nothing is written it has no effect.
    let mut allowed = command_flag::FUA;
    let command = match header.kind {
        command::READ => {
            if agreed.form.is_structured() {
                allowed |= command_flag::DF;
            }
            ClientCommand::Read { one_chunk: has(command_flag::DF) }
        }
        command::WRITE => {
            if agreed.form == Form::Extended {
                allowed |= command_flag::PAYLOAD_LEN;
            }
            ClientCommand::Write
        }
        command::FLUSH => ClientCommand::Flush,
        command::TRIM => ClientCommand::Trim,
        command::CACHE => ClientCommand::Cache,
        command::WRITE_ZEROES => {
            allowed |= command_flag::NO_HOLE;
            if export.info().fast_zero {
                allowed |= command_flag::FAST_ZERO;
            }
            let (no_hole, fast_only) = (has(command_flag::NO_HOLE), has(command_flag::FAST_ZERO));
            ClientCommand::WriteZeroes { no_hole, fast_only }
        }
        command::BLOCK_STATUS => {
            if !agreed.allocation {
                let words = "block status: no metadata context was negotiated".to_owned();
                return refuse(errno::INVAL, words);
            }
            allowed |= command_flag::REQ_ONE;
            ClientCommand::BlockStatus { one_extent: has(command_flag::REQ_ONE) }
        }
        other => return refuse(errno::INVAL, format!("request type {other} is not known here")),
    };
    if header.flags & !allowed != 0 {
        let words = format!(
            "request type {}: expected flags within {allowed:#06x}, found {:#06x}",
            header.kind, header.flags
        );
        return refuse(errno::INVAL, words);
    }
    let writes = matches!(
        command,
        ClientCommand::Write | ClientCommand::Trim | ClientCommand::WriteZeroes { .. }
    );
    if writes && export.info().read_only {
        return refuse(errno::PERM, "this export is read-only".to_owned());
    }
    Ok(command)
}

/// Offset and length: whole blocks, not too many, inside the export.
fn validate_range(header: &Header, export: &Export, command: ClientCommand) -> Result<(), Refusal> {
    let info = export.info();
    let Header { offset, len, .. } = *header;
    let transfers = matches!(command, ClientCommand::Read { .. } | ClientCommand::Write);
    if transfers && len > u64::from(info.request_bytes_max) {
        let words = format!("expected at most {} bytes, found {len}", info.request_bytes_max);
        return refuse(errno::INVAL, words);
    }
    let block = u64::from(info.block_bytes_min);
    if len == 0 || !len.is_multiple_of(block) || !offset.is_multiple_of(block) {
        let words =
            format!("expected whole blocks of {block} bytes, found {len} bytes at {offset}");
        return refuse(errno::INVAL, words);
    }
    let inside = offset.checked_add(len).is_some_and(|end| end <= info.size_bytes);
    if !inside {
        let words = format!(
            "expected a range inside {} bytes, found {len} bytes at {offset}",
            info.size_bytes
        );
        // proto.md: writing past the end has no space; everything else there is invalid.
        let grows = matches!(command, ClientCommand::Write | ClientCommand::WriteZeroes { .. });
        return refuse(if grows { errno::NOSPC } else { errno::INVAL }, words);
    }
    Ok(())
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
