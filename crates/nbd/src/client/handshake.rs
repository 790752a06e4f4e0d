//! The client's half of the handshake: which export, how large, what it offers, and in which form it talks.
//!
//! Blocking, with a bound on each read and write. The export is chosen by `GO`, so that the server tells its
//! block sizes; one that does not know it (before 2016) is refused. Extended headers are asked for first, then
//! structured replies, and with either of them what `base:allocation` says; a server may refuse all of it. Source: the NBD project's
//! `doc/proto.md`, "Newstyle negotiation".

use crate::protocol::Form;
use crate::protocol::constants::{
    GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, STRING_BYTES_MAX, flag, handshake, info,
    option, option_reply,
};
use crate::protocol::wire::{Fields, Truncated};
use std::io::{self, Read, Write};

/// Longest reply to an option that is listened to, in bytes: what a string may have, and to spare.
const REPLY_BYTES_MAX: u32 = 2 * STRING_BYTES_MAX as u32;

/// The context that tells what reads as zero.
const ALLOCATION: &str = "base:allocation";

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
    /// How replies come.
    pub(super) form: Form,
    /// What the server calls the context `base:allocation`, if it has it.
    pub(super) allocation: Option<u32>,
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
    let form = choose_form(stream)?;
    let allocation = if form == Form::Simple { None } else { choose_context(stream, export)? };
    ask_to_go(stream, export).map_err(|error| format!("GO: {error}"))?;
    let mut facts = None;
    let mut blocks = (1, 4096, REQUEST_BYTES_DEFAULT);
    for _ in 0..REPLIES_MAX {
        let (kind, data) = reply(stream, "GO", option::GO)?;
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
                    form,
                    allocation,
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

fn ask<S: Write>(stream: &mut S, number: u32, data: &[u8]) -> io::Result<()> {
    let mut message = Vec::new();
    message.extend(OPTION_MAGIC.to_be_bytes());
    message.extend(number.to_be_bytes());
    message.extend((data.len() as u32).to_be_bytes());
    message.extend(data);
    stream.write_all(&message)
}

fn ask_to_go<S: Write>(stream: &mut S, export: &str) -> io::Result<()> {
    let mut data = counted(export);
    data.extend(1_u16.to_be_bytes());
    data.extend(info::BLOCK_SIZE.to_be_bytes());
    ask(stream, option::GO, &data)
}

fn counted(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// The best form of replies that the server agrees to.
fn choose_form<S: Read + Write>(stream: &mut S) -> Result<Form, String> {
    for (name, number, form) in [
        ("EXTENDED_HEADERS", option::EXTENDED_HEADERS, Form::Extended),
        ("STRUCTURED_REPLY", option::STRUCTURED_REPLY, Form::Structured),
    ] {
        ask(stream, number, &[]).map_err(|error| format!("{name}: {error}"))?;
        match reply(stream, name, number)?.0 {
            option_reply::ACK => return Ok(form),
            kind if kind & option_reply::ERRORS != 0 => {}
            kind => {
                return Err(format!("reply to {name}: expected a yes or a no, found {kind:#x}"));
            }
        }
    }
    Ok(Form::Simple)
}

/// What the server calls the context that tells of blanks; none if it has none.
fn choose_context<S: Read + Write>(stream: &mut S, export: &str) -> Result<Option<u32>, String> {
    let name = "SET_META_CONTEXT";
    let mut data = counted(export);
    data.extend(1_u32.to_be_bytes());
    data.extend(counted(ALLOCATION));
    ask(stream, option::SET_META_CONTEXT, &data).map_err(|error| format!("{name}: {error}"))?;
    let mut found = None;
    for _ in 0..REPLIES_MAX {
        let (kind, data) = reply(stream, name, option::SET_META_CONTEXT)?;
        match (kind, data.split_first_chunk()) {
            (option_reply::META_CONTEXT, Some((number, words)))
                if words == ALLOCATION.as_bytes() =>
            {
                found = Some(u32::from_be_bytes(*number));
            }
            (option_reply::META_CONTEXT, _) => {}
            (option_reply::ACK, _) => return Ok(found),
            (kind, _) if kind & option_reply::ERRORS != 0 => return Ok(None),
            (kind, _) => {
                return Err(format!(
                    "reply to {name}: expected a context or an end, found {kind:#x}"
                ));
            }
        }
    }
    Err(format!("reply to {name}: expected an end, found {REPLIES_MAX} replies"))
}

/// The next reply to the option `number`, called `name`.
fn reply<S: Read>(stream: &mut S, name: &str, number: u32) -> Result<(u32, Vec<u8>), String> {
    let mut header = [0; 20];
    let failed = |error: io::Error| format!("reply to {name}: {error}");
    stream.read_exact(&mut header).map_err(failed)?;
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
    if magic != OPTION_REPLY_MAGIC || asked != number || len > REPLY_BYTES_MAX {
        return Err(format!(
            "expected a reply to {name} of at most {REPLY_BYTES_MAX} bytes, found magic {magic:#x}, \
             option {asked}, {len} bytes"
        ));
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data).map_err(failed)?;
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
