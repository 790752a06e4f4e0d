//! Where an export is, as a URI: `nbd+unix:///EXPORT?socket=PATH` or `nbd://HOST[:PORT]/EXPORT`.
//!
//! The two forms are those of the NBD project's `doc/uri.md` that need no TLS. Of names and paths `%20` means a
//! blank (RFC 3986, 2.1), as in what `serve` prints; a `%` without two hexadecimal digits behind it means itself.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use std::fmt;

/// All but what RFC 3986, 2.3 calls unreserved, and the slash.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

const UNIX: &str = "nbd+unix://";
const TCP: &str = "nbd://";
/// What IANA assigned to NBD.
const PORT: u16 = 10809;

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The socket.
    pub place: Place,
    /// Which of the server's exports; empty for its default.
    pub export: String,
}

/// A server's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket's path.
    Unix(String),
    /// `HOST:PORT`.
    Tcp(String),
}

/// A name or a path for a URI, with what has a meaning there written as `%20`.
pub fn uri_escaped(bytes: &[u8]) -> String {
    percent_encode(bytes, ESCAPED).to_string()
}

impl Address {
    /// Whether `text` means an export rather than a path.
    pub fn is_export(text: &str) -> bool {
        text.starts_with(UNIX) || text.starts_with(TCP)
    }

    /// Reads a URI; the error says what a URI looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |found: &str| {
            format!(
                "{text}: expected {UNIX}/EXPORT?socket=PATH or {TCP}HOST:PORT/EXPORT, found {found}"
            )
        };
        let decoded = |part: &str| {
            let text = percent_decode_str(part).decode_utf8();
            text.map(String::from).map_err(|_| wrong(&format!("bytes that are no UTF-8 in {part}")))
        };
        if let Some(rest) = text.strip_prefix(UNIX) {
            let (path, query) = rest.split_once('?').ok_or_else(|| wrong("no socket"))?;
            let socket = query.strip_prefix("socket=").ok_or_else(|| wrong(query))?;
            if socket.is_empty() {
                return Err(wrong("no socket"));
            }
            let export = decoded(path.strip_prefix('/').unwrap_or(path))?;
            return Ok(Self { place: Place::Unix(decoded(socket)?), export });
        }
        let rest = text.strip_prefix(TCP).ok_or_else(|| wrong("another beginning"))?;
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let bare = host.rsplit_once(':').is_none_or(|(_, port)| port.ends_with(']'));
        let host = if bare { format!("{host}:{PORT}") } else { host.to_owned() };
        if host.starts_with(':') {
            return Err(wrong("no host"));
        }
        Ok(Self { place: Place::Tcp(host), export: decoded(export)? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = uri_escaped(self.export.as_bytes());
        match &self.place {
            Place::Unix(socket) => {
                write!(formatter, "{UNIX}/{export}?socket={}", uri_escaped(socket.as_bytes()))
            }
            Place::Tcp(host) => write!(formatter, "{TCP}{host}/{export}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_that_was_shown_means_the_same_when_it_is_read() {
        for text in [
            "nbd+unix:///?socket=/run/disk.sock",
            "nbd+unix:///data?socket=disk.sock",
            "nbd+unix:///a%20b%0Ac?socket=/x%3Fy%23%26%25",
            "nbd://host:7/data",
            "nbd://[::1]:7/%C3%A9",
            "nbd://[::1]:7/",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
            assert!(Address::is_export(text), "{text}");
        }
        let escaped = Address::parse("nbd+unix:///a%20b?socket=/100%/%3f").unwrap();
        assert_eq!(
            (escaped.export.as_str(), escaped.place),
            ("a b", Place::Unix("/100%/?".into()))
        );
        let standard = Address::parse("nbd://[::1]").unwrap();
        assert_eq!(standard.place, Place::Tcp("[::1]:10809".to_owned()));
        assert!(!Address::is_export("/dev/nbd0"));
    }

    #[test]
    fn what_is_no_uri_is_told_how_one_looks() {
        for text in [
            "nbd+unix:///x",
            "nbd+unix:///?path=/a",
            "nbd+unix:///?socket=",
            "nbd+unix:///?socket=/%FF",
            "nbd://:7/",
            "/dev/sda",
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(error.contains("expected nbd+unix:///EXPORT?socket=PATH"), "{error}");
        }
    }
}
