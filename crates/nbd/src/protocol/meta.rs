//! Metadata contexts: `base:allocation` and nothing else.
//!
//! A client asks for contexts by exact name or by a namespace (`base:`); what is not known is left
//! out of the answer, as the protocol wants it. Choosing always replaces the former choice, also
//! when the new one fails.

use super::constants::{option, option_reply as reply};
use super::export::Export;
use super::options::{CONTEXT_QUERIES_MAX, Negotiation, put_reply};
use super::wire::{Fields, Truncated};

/// The one context there is.
const ALLOCATION: &[u8] = b"base:allocation";

/// The number by which replies to `BLOCK_STATUS` name `base:allocation`.
pub(crate) const ALLOCATION_ID: u32 = 1;

/// Answers `LIST_META_CONTEXT` or `SET_META_CONTEXT`.
pub(crate) fn answer(
    negotiation: &mut Negotiation,
    export: &Export,
    option: u32,
    data: &[u8],
    out: &mut Vec<u8>,
) {
    let choosing = option == option::SET_META_CONTEXT;
    if choosing {
        negotiation.allocation_of = None;
        if !negotiation.form.is_structured() {
            let words = b"metadata contexts need structured replies; negotiate those first";
            return put_reply(out, option, reply::ERR_INVALID, words);
        }
    }
    let query = match parse(data) {
        Ok(query) => query,
        Err(words) => return put_reply(out, option, reply::ERR_INVALID, words.as_bytes()),
    };
    let Some(name) = export.find(query.name) else {
        return put_reply(out, option, reply::ERR_UNKNOWN, b"no export has this name");
    };
    let wanted =
        if choosing { query.exact } else { query.exact || query.namespace || query.count == 0 };
    if wanted {
        // Only a choice gives the context a number.
        let id = if choosing { ALLOCATION_ID } else { 0 };
        let mut body = id.to_be_bytes().to_vec();
        body.extend_from_slice(ALLOCATION);
        put_reply(out, option, reply::META_CONTEXT, &body);
        if choosing {
            negotiation.allocation_of = Some(name.to_owned());
        }
    }
    put_reply(out, option, reply::ACK, &[]);
}

struct ContextQuery<'a> {
    name: &'a [u8],
    count: u32,
    /// `base:allocation` is among the queries.
    exact: bool,
    /// `base:` is among the queries.
    namespace: bool,
}

fn parse(data: &[u8]) -> Result<ContextQuery<'_>, String> {
    let mut fields = Fields::new(data);
    let words = |truncated: Truncated| truncated.to_string();
    let name = fields.counted("export name").map_err(words)?;
    let count = fields.u32("number of queries").map_err(words)?;
    if count > CONTEXT_QUERIES_MAX {
        return Err(format!("expected at most {CONTEXT_QUERIES_MAX} queries, found {count}"));
    }
    let mut query = ContextQuery { name, count, exact: false, namespace: false };
    for _ in 0..count {
        let asked = fields.counted("query").map_err(words)?;
        query.exact |= asked == ALLOCATION;
        query.namespace |= asked == b"base:";
    }
    fields.end("nothing after the queries").map_err(words)?;
    Ok(query)
}
