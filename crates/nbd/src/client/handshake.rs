//! The client's half of the handshake: which export, how large, what it offers.
//!
//! Blocking, with a bound on each read and write. Only `GO` is spoken, so that the server tells its
//! block sizes; one that does not know it (before 2016) is refused. Source: the NBD project's
//! `doc/proto.md`, "Newstyle negotiation".

use crate::protocol::constants::{
    GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, STRING_BYTES_MAX, flag, handshake, info,
    option, option_reply,
};
use crate::protocol::wire::{Fields, Truncated};
use std::io::{self, Read, Write};

/// Longest reply to an option that is listened to, in bytes: what a string may have, and to spare.
const REPLY_BYTES_MAX: u32 = 2 * STRING_BYTES_MAX as u32;

/// Most replies to one option.
const REPLIES_MAX: usize = 64;

/// Largest request where a server tells no bound ("Block size constraints": 32 MiB).
const REQUEST_BYTES_DEFAULT: u32 = 32 << 20;

/// What a server tells of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of the export.
    pub size_bytes: u64,
    /// Transmission flags, `constants::flag`.
    pub flags: u16,
    /// Smallest unit of a request; 1 if any byte may be addressed.
    pub block_bytes_min: u32,
    /// Requests of this size are served best.
    pub block_bytes_preferred: u32,
    /// Largest read or write.
    pub request_bytes_max: u32,
}

impl Facts {
    /// Whether `flag` is set.
    pub fn offers(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Chooses `export` of the server behind `stream`.
pub(super) fn choose<S: Read + Write>(stream: &mut S, export: &str) -> Result<Facts, String> {
    if export.len() > STRING_BYTES_MAX {
        return Err(format!("expected an export's name of at most {STRING_BYTES_MAX} bytes"));
    }
    greet(stream).map_err(|error| format!("greeting: {error}"))?;
    ask(stream, export).map_err(|error| format!("GO: {error}"))?;
    let mut facts = None;
    let mut blocks = (1, 4096, REQUEST_BYTES_DEFAULT);
    for _ in 0..REPLIES_MAX {
        let (kind, data) = reply(stream)?;
        match kind {
            option_reply::INFO => learn(&data, &mut facts, &mut blocks)
                .map_err(|problem| format!("reply to GO: {problem}"))?,
            option_reply::ACK => {
                let (size_bytes, flags) =
                    facts.ok_or("reply to GO: expected a size, found none")?;
                let (block_bytes_min, block_bytes_preferred, request_bytes_max) = blocks;
                let found = Facts {
                    size_bytes,
                    flags,
                    block_bytes_min,
                    block_bytes_preferred,
                    request_bytes_max,
                };
                return Ok(found);
            }
            _ => return Err(refusal(kind, export, &data)),
        }
    }
    Err(format!("reply to GO: expected an end, found {REPLIES_MAX} replies"))
}

fn greet<S: Read + Write>(stream: &mut S) -> io::Result<()> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    let mut fields = Fields::new(&greeting);
    let magic = fields.u64("magic").map_err(cut_short)?;
    let second = fields.u64("second magic").map_err(cut_short)?;
    let flags = fields.u16("flags").map_err(cut_short)?;
    if magic != GREETING_MAGIC || second != OPTION_MAGIC || flags & handshake::FIXED_NEWSTYLE == 0 {
        return Err(io::Error::other(format!(
            "expected fixed newstyle NBD, found {magic:#x} {second:#x} {flags:#x}"
        )));
    }
    let own = u32::from(flags & (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES));
    stream.write_all(&own.to_be_bytes())
}

fn cut_short(error: Truncated) -> io::Error {
    io::Error::other(error.to_string())
}

fn ask<S: Write>(stream: &mut S, export: &str) -> io::Result<()> {
    let mut message = Vec::new();
    message.extend(OPTION_MAGIC.to_be_bytes());
    message.extend(option::GO.to_be_bytes());
    message.extend((export.len() as u32 + 8).to_be_bytes());
    message.extend((export.len() as u32).to_be_bytes());
    message.extend(export.as_bytes());
    message.extend(1_u16.to_be_bytes());
    message.extend(info::BLOCK_SIZE.to_be_bytes());
    stream.write_all(&message)
}

fn reply<S: Read>(stream: &mut S) -> Result<(u32, Vec<u8>), String> {
    let mut header = [0; 20];
    stream.read_exact(&mut header).map_err(|error| format!("reply to GO: {error}"))?;
    let mut fields = Fields::new(&header);
    let mut read = || -> Result<_, Truncated> {
        Ok((
            fields.u64("magic")?,
            fields.u32("option")?,
            fields.u32("type")?,
            fields.u32("length")?,
        ))
    };
    let (magic, asked, kind, len) = read().map_err(|error| error.to_string())?;
    if magic != OPTION_REPLY_MAGIC || asked != option::GO || len > REPLY_BYTES_MAX {
        return Err(format!(
            "expected a reply to GO of at most {REPLY_BYTES_MAX} bytes, found magic {magic:#x}, \
             option {asked}, {len} bytes"
        ));
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data).map_err(|error| format!("reply to GO: {error}"))?;
    Ok((kind, data))
}

fn learn(
    data: &[u8],
    facts: &mut Option<(u64, u16)>,
    blocks: &mut (u32, u32, u32),
) -> Result<(), String> {
    let told = |error: Truncated| error.to_string();
    let mut fields = Fields::new(data);
    match fields.u16("information").map_err(told)? {
        info::EXPORT => {
            let size = fields.u64("size").map_err(told)?;
            *facts = Some((size, fields.u16("flags").map_err(told)?));
        }
        info::BLOCK_SIZE => {
            let mut next = || fields.u32("block size").map_err(told);
            let found @ (least, preferred, most) = (next()?, next()?, next()?);
            if !least.is_power_of_two() || !preferred.is_power_of_two() || most < least {
                return Err(format!("expected block sizes in order, found {found:?}"));
            }
            *blocks = found;
        }
        _ => {}
    }
    Ok(())
}

fn refusal(kind: u32, export: &str, words: &[u8]) -> String {
    let why = match kind {
        option_reply::ERR_UNKNOWN => "there is no such export",
        option_reply::ERR_TLS_REQD => "it wants TLS, which is not spoken here",
        option_reply::ERR_UNSUP => "it does not know GO, its protocol is too old",
        option_reply::ERR_POLICY => "it is not allowed",
        _ => "it says no",
    };
    let words = String::from_utf8_lossy(words);
    format!("the server refuses export {export:?}: {why} (reply {kind:#x}) {words}")
        .trim_end()
        .to_owned()
}

/// What a volume needs of an export, and this one lacks.
pub(super) fn what_is_missing(facts: &Facts) -> Option<String> {
    if facts.block_bytes_min > 4096 || facts.request_bytes_max < 64 * 1024 {
        return Some(format!(
            "expected requests of 4096 bytes to 64 KiB to be taken, found {} to {}",
            facts.block_bytes_min, facts.request_bytes_max
        ));
    }
    if facts.offers(flag::READ_ONLY) {
        return None;
    }
    if !facts.offers(flag::SEND_WRITE_ZEROES) {
        return Some(
            "expected an export that takes WRITE_ZEROES, found one that does not".to_owned(),
        );
    }
    (facts.offers(flag::SEND_FLUSH) && !facts.offers(flag::SEND_FUA)).then(|| {
        "expected an export that takes FUA beside FLUSH, found one that does not".to_owned()
    })
}
