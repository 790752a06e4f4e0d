//! The handshake: one answer to each option a client sends.
//!
//! A pure function of the option's bytes and what was negotiated before. What it keeps true:
//!
//! - every option gets a final reply, except `EXPORT_NAME`, for which the protocol has none;
//! - an unknown option is answered with `ERR_UNSUP`, a malformed one with `ERR_INVALID` and words
//!   that say which field;
//! - before TLS is on, a server that requires it answers nothing but `ERR_TLS_REQD`;
//! - answers are bounded by the export list and [`CONTEXT_QUERIES_MAX`], not by what was asked.

use super::constants::{OPTION_REPLY_MAGIC, STRING_BYTES_MAX, info, option, option_reply as reply};
use super::export::Export;
use super::meta;
use super::reply::Form;
use super::wire::{Fields, Truncated};

/// Most metadata context queries in one option.
pub(crate) const CONTEXT_QUERIES_MAX: u32 = 64;

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// TLS is not offered.
    #[default]
    Off,
    /// A client may encrypt.
    Optional,
    /// A client must encrypt before anything else.
    Required,
}

/// What was agreed with one client so far.
#[derive(Debug, Default)]
pub(crate) struct Negotiation {
    pub(crate) tls: TlsMode,
    pub(crate) tls_active: bool,
    /// The client speaks fixed newstyle: it may send more than `EXPORT_NAME`.
    pub(crate) fixed_newstyle: bool,
    /// The client does not want 124 zeros after `EXPORT_NAME`.
    pub(crate) no_zeroes: bool,
    /// What replies of the transmission phase look like.
    pub(crate) form: Form,
    /// The canonical name of the export for which `base:allocation` was chosen.
    pub(crate) allocation_of: Option<String>,
    /// The canonical name of the export that the client chose.
    pub(crate) chosen: Option<String>,
    /// Every client is turned away with these words.
    pub(crate) refusal: Option<String>,
}

impl Negotiation {
    /// TLS forgets what was agreed in the clear (proto.md, "STARTTLS").
    pub(crate) fn restart_under_tls(&mut self) {
        self.tls_active = true;
        self.form = Form::Simple;
        self.allocation_of = None;
    }
}

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// More options.
    Continue,
    /// The transmission phase of the export with this canonical name.
    Transmission {
        /// Whether `base:allocation` was chosen for it.
        allocation: bool,
    },
    /// The TLS handshake, once the answer was sent.
    StartTls,
    /// The end, once the answer was sent; with what the client did wrong, if anything.
    Close(Option<&'static str>),
}

/// Appends a reply to `option`.
pub(crate) fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Answers `option` with `data` into `out`.
pub(crate) fn answer(
    negotiation: &mut Negotiation,
    export: &Export,
    option: u32,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Outcome {
    if let Some(outcome) = turn_away(negotiation, option, out) {
        return outcome;
    }
    match option {
        option::EXPORT_NAME => export_name(negotiation, export, data, out),
        option::ABORT => {
            put_reply(out, option, reply::ACK, &[]);
            Outcome::Close(None)
        }
        option::LIST => list(export, data, out),
        option::STARTTLS => start_tls(negotiation, data, out),
        option::INFO | option::GO => info_or_go(negotiation, export, option, data, out),
        option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => {
            reply_form(negotiation, option, data, out)
        }
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
            meta::answer(negotiation, export, option, data, out);
            Outcome::Continue
        }
        _ => {
            let words = format!("option {option} is not known here");
            put_reply(out, option, reply::ERR_UNSUP, words.as_bytes());
            Outcome::Continue
        }
    }
}

/// Answers an option whose data is too long to be looked at.
pub(crate) fn answer_too_big(
    negotiation: &Negotiation,
    option: u32,
    found: u32,
    limit: usize,
    out: &mut Vec<u8>,
) -> Outcome {
    if let Some(outcome) = turn_away(negotiation, option, out) {
        return outcome;
    }
    if option == option::EXPORT_NAME {
        return Outcome::Close(Some("an export name longer than any string of the protocol"));
    }
    let words = format!("option {option}: expected at most {limit} bytes, found {found}");
    put_reply(out, option, reply::ERR_TOO_BIG, words.as_bytes());
    Outcome::Continue
}

/// The answers that do not depend on the option: the server is full, or TLS must come first.
fn turn_away(negotiation: &Negotiation, option: u32, out: &mut Vec<u8>) -> Option<Outcome> {
    let has_replies = option != option::EXPORT_NAME;
    if has_replies && !negotiation.fixed_newstyle {
        return Some(Outcome::Close(Some("an option beyond EXPORT_NAME without fixed newstyle")));
    }
    if let Some(words) = &negotiation.refusal {
        if has_replies {
            put_reply(out, option, reply::ERR_POLICY, words.as_bytes());
        }
        return Some(Outcome::Close(None));
    }
    let allowed = matches!(option, option::STARTTLS | option::ABORT);
    if negotiation.tls == TlsMode::Required && !negotiation.tls_active && !allowed {
        if !has_replies {
            return Some(Outcome::Close(Some("the name of an export ahead of the required TLS")));
        }
        put_reply(out, option, reply::ERR_TLS_REQD, b"this server requires TLS; send STARTTLS");
        return Some(Outcome::Continue);
    }
    None
}

fn export_name(
    negotiation: &mut Negotiation,
    export: &Export,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Outcome {
    let Some(name) = export.find(data) else {
        return Outcome::Close(Some("the name of an export that does not exist"));
    };
    out.extend_from_slice(&export.info().size_bytes.to_be_bytes());
    let flags = export.transmission_flags(negotiation.form.is_structured());
    out.extend_from_slice(&flags.to_be_bytes());
    if !negotiation.no_zeroes {
        out.extend_from_slice(&[0; 124]);
    }
    transmission(negotiation, name)
}

fn transmission(negotiation: &mut Negotiation, name: &str) -> Outcome {
    negotiation.chosen = Some(name.to_owned());
    Outcome::Transmission { allocation: negotiation.allocation_of.as_deref() == Some(name) }
}

fn list(export: &Export, data: &[u8], out: &mut Vec<u8>) -> Outcome {
    if refuse_data(option::LIST, data, out) {
        return Outcome::Continue;
    }
    for name in export.names() {
        let mut body = (name.len() as u32).to_be_bytes().to_vec();
        body.extend_from_slice(name.as_bytes());
        put_reply(out, option::LIST, reply::SERVER, &body);
    }
    put_reply(out, option::LIST, reply::ACK, &[]);
    Outcome::Continue
}

fn start_tls(negotiation: &Negotiation, data: &[u8], out: &mut Vec<u8>) -> Outcome {
    let option = option::STARTTLS;
    if refuse_data(option, data, out) {
        return Outcome::Continue;
    }
    if negotiation.tls_active {
        put_reply(out, option, reply::ERR_INVALID, b"TLS is already on");
        return Outcome::Continue;
    }
    if negotiation.tls == TlsMode::Off {
        put_reply(out, option, reply::ERR_POLICY, b"this server has no TLS certificate");
        return Outcome::Continue;
    }
    put_reply(out, option, reply::ACK, &[]);
    Outcome::StartTls
}

/// Structured replies, or extended headers, which have them in them. There is no way back.
fn reply_form(
    negotiation: &mut Negotiation,
    option: u32,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Outcome {
    if refuse_data(option, data, out) {
        return Outcome::Continue;
    }
    if negotiation.form == Form::Extended {
        let (kind, words) = if option == option::EXTENDED_HEADERS {
            (reply::ERR_INVALID, "extended headers are on already")
        } else {
            (reply::ERR_EXT_HEADER_REQD, "extended headers are on, and have structured replies")
        };
        put_reply(out, option, kind, words.as_bytes());
        return Outcome::Continue;
    }
    let is_extended = option == option::EXTENDED_HEADERS;
    negotiation.form = if is_extended { Form::Extended } else { Form::Structured };
    put_reply(out, option, reply::ACK, &[]);
    Outcome::Continue
}

/// Answers an option that takes no data and got some.
fn refuse_data(option: u32, data: &[u8], out: &mut Vec<u8>) -> bool {
    if data.is_empty() {
        return false;
    }
    let words = format!("option {option}: expected no data, found {} bytes", data.len());
    put_reply(out, option, reply::ERR_INVALID, words.as_bytes());
    true
}

/// Which export, and which facts beyond the size, a client asks for.
struct InfoQuery<'a> {
    name: &'a [u8],
    facts: Vec<u16>,
}

fn parse_info(data: &[u8]) -> Result<InfoQuery<'_>, String> {
    let parse = || -> Result<InfoQuery<'_>, Truncated> {
        let mut fields = Fields::new(data);
        let name = fields.counted("export name")?;
        let count = fields.u16("number of information requests")?;
        let mut types = Fields::new(fields.bytes(usize::from(count) * 2, "information requests")?);
        let mut facts = Vec::with_capacity(usize::from(count));
        while types.remaining() > 0 {
            facts.push(types.u16("information request")?);
        }
        fields.end("nothing after the information requests")?;
        Ok(InfoQuery { name, facts })
    };
    parse().map_err(|truncated| truncated.to_string())
}

fn info_or_go(
    negotiation: &mut Negotiation,
    export: &Export,
    option: u32,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Outcome {
    let query = match parse_info(data) {
        Ok(query) => query,
        Err(words) => {
            put_reply(out, option, reply::ERR_INVALID, words.as_bytes());
            return Outcome::Continue;
        }
    };
    let Some(name) = export.find(query.name) else {
        let asked = String::from_utf8_lossy(&query.name[..query.name.len().min(STRING_BYTES_MAX)]);
        let words = format!("no export is called {asked:.256}");
        put_reply(out, option, reply::ERR_UNKNOWN, words.as_bytes());
        return Outcome::Continue;
    };
    // A client that did not ask may send 512-byte requests (proto.md, "Block size constraints").
    let asked_for_sizes = query.facts.contains(&info::BLOCK_SIZE);
    if option == option::GO && export.info().block_bytes_min > 512 && !asked_for_sizes {
        let words = b"this export has blocks larger than 512 bytes; ask for NBD_INFO_BLOCK_SIZE";
        put_reply(out, option, reply::ERR_BLOCK_SIZE_REQD, words);
        return Outcome::Continue;
    }
    put_facts(negotiation, export, name, option, &query.facts, out);
    put_reply(out, option, reply::ACK, &[]);
    if option == option::INFO {
        return Outcome::Continue;
    }
    transmission(negotiation, name)
}

fn put_facts(
    negotiation: &Negotiation,
    export: &Export,
    name: &str,
    option: u32,
    facts: &[u16],
    out: &mut Vec<u8>,
) {
    let about = export.info();
    let mut body = info::EXPORT.to_be_bytes().to_vec();
    body.extend_from_slice(&about.size_bytes.to_be_bytes());
    let flags = export.transmission_flags(negotiation.form.is_structured());
    body.extend_from_slice(&flags.to_be_bytes());
    put_reply(out, option, reply::INFO, &body);
    // Each fact once, however often it was asked for.
    for fact in [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE] {
        let mut body = fact.to_be_bytes().to_vec();
        match fact {
            info::NAME => body.extend_from_slice(name.as_bytes()),
            info::DESCRIPTION => body.extend_from_slice(about.description.as_bytes()),
            _ => {
                for size in
                    [about.block_bytes_min, about.block_bytes_preferred, about.request_bytes_max]
                {
                    body.extend_from_slice(&size.to_be_bytes());
                }
            }
        }
        if facts.contains(&fact) {
            put_reply(out, option, reply::INFO, &body);
        }
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
