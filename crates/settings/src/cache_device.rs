//! The file or device for a read cache, as people type it.

use crate::units::ByteSize;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::str::FromStr;

/// A path, and a size behind a colon if a file of that size may be made: `/flash/cache:34GiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDevice {
    /// Where it is.
    pub path: PathBuf,
    /// How large, if that was said.
    pub size: Option<ByteSize>,
}

impl FromStr for CacheDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let with_size = text.rsplit_once(':').and_then(|(path, size)| {
            let size: ByteSize = size.parse().ok()?;
            Some((path, Some(size)))
        });
        let (path, size) = with_size.unwrap_or((text, None));
        if path.is_empty() {
            return Err(format!(
                "expected a file or device, and a size behind a colon if the file is to be made, such as \
                 /flash/cache:34GiB, found {text:?}"
            ));
        }
        Ok(Self { path: path.into(), size })
    }
}

impl<'de> Deserialize<'de> for CacheDevice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_stands_behind_the_last_colon_and_what_is_none_belongs_to_the_path() {
        for (text, path, bytes) in [
            ("/flash/cache", "/flash/cache", None),
            ("/flash/cache:1GiB", "/flash/cache", Some(1 << 30)),
            ("cache:0", "cache", Some(0)),
            ("/dev/disk/by-id/a:b", "/dev/disk/by-id/a:b", None),
            ("a:b:10M", "a:b", Some(10 << 20)),
            ("cache:", "cache:", None),
            ("cache:-1", "cache:-1", None),
        ] {
            let size = bytes.map(ByteSize);
            assert_eq!(text.parse(), Ok(CacheDevice { path: path.into(), size }), "{text}");
        }
        for text in ["", ":1G"] {
            let error = text.parse::<CacheDevice>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
