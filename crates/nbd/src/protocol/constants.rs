//! The numbers of the NBD protocol, as its specification gives them.
//!
//! Source: the `NetworkBlockDevice` project's `doc/proto.md`, sections "Values" and "Transmission
//! phase"; every number on the wire is big-endian. Only what this server speaks is listed. Extended
//! headers are those of its `NBD_OPT_EXTENDED_HEADERS`.

/// First eight bytes of the server's greeting, `NBDMAGIC`.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Starts the second half of the greeting and every option, `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Starts every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Starts every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Starts a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Starts a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Starts every request under extended headers.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Starts every chunk of a reply under extended headers.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Length of a request's header, in bytes.
pub const REQUEST_HEADER_BYTES: usize = 28;
/// Length of a request's header under extended headers, in bytes.
pub const EXTENDED_REQUEST_HEADER_BYTES: usize = 32;
/// Length of an option's header, in bytes.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Longest string (export name, context name, error message), in bytes.
pub const STRING_BYTES_MAX: usize = 4096;

/// Handshake flags, both ways: fixed newstyle, and no 124 zeros after an export name.
pub mod handshake {
    /// The fixed newstyle negotiation.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// `EXPORT_NAME` is answered without the 124 reserved bytes.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options a client may send before the transmission phase.
pub mod option {
    /// Choose an export without any further word.
    pub const EXPORT_NAME: u32 = 1;
    /// Leave.
    pub const ABORT: u32 = 2;
    /// Name all exports.
    pub const LIST: u32 = 3;
    /// Encrypt from here on.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and use it.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Name the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts for `BLOCK_STATUS`.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use extended headers: 64-bit lengths, and structured replies to everything.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of replies to options.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One fact about an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Set in all types that say no.
    pub const ERRORS: u32 = 1 << 31;
    /// The option is not known here.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// Forbidden by this server's configuration.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option is malformed, or out of place.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// TLS must come first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The client must ask for the block sizes first.
    pub const ERR_BLOCK_SIZE_REQD: u32 = (1 << 31) + 8;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    /// Extended headers are in the way: what was asked for is part of them, or needs them.
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// Facts that `INFO` and `GO` can tell.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's canonical name.
    pub const NAME: u16 = 1;
    /// Words for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export offers.
pub mod flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Nothing may be written.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` is offered.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is offered.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The medium is mechanical.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `TRIM` is offered.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is offered.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Reads may ask for one chunk.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes answered on every other.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `CACHE` is offered.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `WRITE_ZEROES` may ask to be fast or to fail.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Types of requests.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the payload follows the header.
    pub const WRITE: u16 = 1;
    /// Leave; there is no reply.
    pub const DISC: u16 = 2;
    /// Make what was answered durable.
    pub const FLUSH: u16 = 3;
    /// Forget content.
    pub const TRIM: u16 = 4;
    /// Prefetch.
    pub const CACHE: u16 = 5;
    /// Write zeros that are not sent.
    pub const WRITE_ZEROES: u16 = 6;
    /// Tell what is allocated.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod command_flag {
    /// Reply only once durable.
    pub const FUA: u16 = 1 << 0;
    /// Zeros must stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Answer a read in one chunk.
    pub const DF: u16 = 1 << 2;
    /// Tell one extent only.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail rather than zero slowly.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length counts a payload that follows; extended headers only.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of chunks in a structured reply, and the flag of the last one.
pub mod chunk {
    /// The last chunk of its reply.
    pub const DONE: u16 = 1 << 0;
    /// Nothing but the end.
    pub const NONE: u16 = 0;
    /// Bytes at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeros at an offset.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents of a metadata context.
    pub const BLOCK_STATUS: u16 = 5;
    /// The same with 64-bit lengths, under extended headers.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// The request failed.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// Set in the types of all chunks that tell of a failure.
    pub const ERRORS: u16 = 1 << 15;
}

/// Error numbers in replies.
pub mod errno {
    /// Not permitted: the export is read-only.
    pub const PERM: u32 = 1;
    /// The disk failed.
    pub const IO: u32 = 5;
    /// Malformed, misaligned, or outside of the export.
    pub const INVAL: u32 = 22;
    /// No room, or a write past the end.
    pub const NOSPC: u32 = 28;
    /// Not offered, or not fast.
    pub const NOTSUP: u32 = 95;
    /// The server is stopping.
    pub const SHUTDOWN: u32 = 108;
}

/// Status flags of the context `base:allocation`.
pub mod allocation {
    /// Nothing was ever stored.
    pub const HOLE: u32 = 1 << 0;
    /// It reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}
