//! The program that hears when a side of a mirror rests, as people name it.

use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A program by its whole path: a daemon looks for none in directories that others may have chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestCommand(PathBuf);

impl RestCommand {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for RestCommand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        if path.is_absolute() {
            return Ok(Self(path));
        }
        Err(format!(
            "expected the whole path of a program such as /usr/local/sbin/drive-rests, which is run with two arguments, \
             rest or wake and the device, by no shell; found {text:?}"
        ))
    }
}

impl<'de> Deserialize<'de> for RestCommand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_by_its_whole_path() {
        let program: RestCommand = "/sbin/rest drives".parse().unwrap();
        assert_eq!(program.path(), Path::new("/sbin/rest drives"));
        for text in ["", "hdparm", "./rest", "hdparm -y"] {
            let error = text.parse::<RestCommand>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
