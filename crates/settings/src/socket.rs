//! Who may connect to a Unix socket, as people type it.

use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// Permission bits of a socket, typed in octal as `0660` or `660`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl FromStr for SocketMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
        mode.map(Self).ok_or_else(|| {
            format!("expected permissions in octal such as 0660, at most 0777, found {text:?}")
        })
    }
}

impl<'de> Deserialize<'de> for SocketMode {
    /// Only as text: a number would be read as decimal, or as octal, depending on how it is written.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_in_octal() {
        for (text, mode) in [("0660", 0o660), ("660", 0o660), ("0600", 0o600), ("0777", 0o777)] {
            assert_eq!(text.parse(), Ok(SocketMode(mode)), "{text}");
        }
        for text in ["", "60", "0888", "01777", "rw-rw----", "0o660", "-660", "+660", "00660"] {
            let error = text.parse::<SocketMode>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
