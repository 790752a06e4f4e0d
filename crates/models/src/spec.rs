//! Modelled disks by a line of text: `model:PROFILE[,option=value...]`.
//!
//! | option | value | default |
//! |---|---|---|
//! | `file` | path of a sparse file that keeps the content (to the end of the text if it holds commas) | none |
//! | `content` | without a file: `memory` or `none` (data-less) | `memory` |
//! | `cache` | write cache `on` or `off` | the profile's |
//! | `ncq` | `fifo`, `clook` or `sptf` | the profile's |
//! | `depth` | most commands outstanding, 1 to 1024 | the profile's |
//!
//! `PROFILE` is the name of an embedded profile or the path of a `.toml` file.

use crate::profile::QueuePolicy;
use crate::store::{Dataless, FileStore, MemoryStore, Store};
use crate::{Drive, HddModel, HddOptions, Model};
use nearhead_disk::{DiskError, DiskErrorKind};
use std::fmt;
use std::path::PathBuf;

/// How such a text begins.
pub const PREFIX: &str = "model:";

/// Keys of the options, as they stand before their `=`.
pub const MODEL_OPTIONS: [&str; 5] = ["file", "content", "cache", "ncq", "depth"];

/// What the value of an option may be; nothing of one that is a path or a number.
pub fn model_option_values(key: &str) -> &'static [&'static str] {
    match key {
        "content" => &["memory", "none"],
        "cache" => &["on", "off"],
        "ncq" => &["fifo", "clook", "sptf"],
        _ => &[],
    }
}

/// Where a modelled disk keeps its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// In memory, gone with the process.
    Memory,
    /// Nowhere.
    None,
    /// In a sparse file.
    File(PathBuf),
}

/// A modelled disk as described by a text.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// Which disk, of whatever kind.
    pub drive: Drive,
    /// Where its bytes are.
    pub content: Content,
    /// Departures from the profile.
    pub options: HddOptions,
}

/// A text that does not describe a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// What is wrong, expected and found.
    pub problem: String,
}

impl SpecError {
    fn of(text: &str, problem: impl fmt::Display) -> Self {
        Self { problem: format!("disk {text:?}: {problem}") }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.problem)
    }
}

impl std::error::Error for SpecError {}

impl ModelSpec {
    /// Whether `text` means a model rather than a path.
    pub fn is_model(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Reads `model:PROFILE[,option=value...]`; the prefix may be left out.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut rest = text.strip_prefix(PREFIX).unwrap_or(text);
        let name = take_until_comma(&mut rest);
        let drive = Drive::find(name).map_err(|error| SpecError::of(text, error))?;
        Self::of(drive, text, rest)
    }

    /// This drive with `options`, as they stand behind the comma in `text`, which errors name.
    pub fn of(drive: Drive, text: &str, options: &str) -> Result<Self, SpecError> {
        let failed = |problem: String| SpecError::of(text, problem);
        let mut rest = options;
        let mut spec = Self { drive, content: Content::Memory, options: HddOptions::default() };
        while !rest.is_empty() {
            if let Some(path) = rest.strip_prefix("file=") {
                // A path may hold commas: it ends only where another option begins.
                let path = take_path(path, &mut rest);
                if path.is_empty() {
                    return Err(failed("expected file=PATH, found no path".to_owned()));
                }
                spec.content = Content::File(PathBuf::from(path));
                continue;
            }
            let option = take_until_comma(&mut rest);
            spec.set(option).map_err(failed)?;
        }
        Ok(spec)
    }

    fn set(&mut self, option: &str) -> Result<(), String> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let wrong = |expected: &str| Err(format!("expected {key}={expected}, found {value:?}"));
        match (key, value) {
            ("content", "memory") => self.content = Content::Memory,
            ("content", "none") => self.content = Content::None,
            ("content", _) => return wrong("memory|none"),
            ("cache", "on") => self.options.write_cache = Some(true),
            ("cache", "off") => self.options.write_cache = Some(false),
            ("cache", _) => return wrong("on|off"),
            ("ncq", name) => match QueuePolicy::from_name(name) {
                Some(policy) => self.options.policy = Some(policy),
                None => return wrong("fifo|clook|sptf"),
            },
            ("depth", number) => match number.parse() {
                Ok(depth @ 1..=1024) => self.options.queue_depth = Some(depth),
                _ => return wrong("1..1024"),
            },
            _ => {
                return Err(format!(
                    "unknown option {key:?}, expected one of file, content, cache, ncq, depth"
                ));
            }
        }
        Ok(())
    }

    /// Makes a hard disk, opening or creating its file. Fails for another kind of disk.
    pub fn build(&self) -> Result<HddModel, DiskError> {
        let Drive::HardDisk(profile) = &self.drive else {
            return Err(invalid(format!(
                "model:{}: expected a hard disk here, found {}",
                self.drive.name(),
                self.drive.description()
            )));
        };
        HddModel::new(profile, self.store()?, self.options)
            .map_err(|error| invalid(error.to_string()))
    }

    /// Makes a disk of any kind, opening or creating its file.
    pub fn build_any(&self) -> Result<Box<dyn Model>, DiskError> {
        let store = self.store()?;
        self.drive.build(store, self.options).map_err(|error| invalid(error.to_string()))
    }

    /// Bytes of the disk.
    pub fn capacity_bytes(&self) -> Result<u64, DiskError> {
        self.drive.capacity_bytes().map_err(|error| invalid(error.to_string()))
    }

    fn store(&self) -> Result<Box<dyn Store>, DiskError> {
        Ok(match &self.content {
            Content::Memory => Box::new(MemoryStore::new()),
            Content::None => Box::new(Dataless),
            Content::File(path) => Box::new(FileStore::open(path, self.capacity_bytes()?)?),
        })
    }
}

fn invalid(detail: String) -> DiskError {
    DiskError { kind: DiskErrorKind::Invalid, detail }
}

fn take_until_comma<'a>(rest: &mut &'a str) -> &'a str {
    let (taken, left) = rest.split_once(',').unwrap_or((rest, ""));
    *rest = left;
    taken
}

fn take_path<'a>(text: &'a str, rest: &mut &'a str) -> &'a str {
    let begins = |option: &&str| text.find(&format!(",{option}="));
    let end = MODEL_OPTIONS[1..].iter().filter_map(begins).min().unwrap_or(text.len());
    *rest = text.get(end + 1..).unwrap_or("");
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_change_what_the_profile_says() {
        let text = "model:st3146855fc,cache=on,ncq=fifo,depth=7,content=none";
        let spec = ModelSpec::parse(text).unwrap();
        let disk = spec.build().unwrap();
        let properties = nearhead_disk::Disk::properties(&disk);
        assert!(properties.volatile_cache);
        assert_eq!(properties.queue_depth_max, 7);
        assert_eq!(disk.profile().queue.policy, QueuePolicy::Fifo);
        assert_eq!(spec.content, Content::None);
    }

    #[test]
    fn every_kind_of_disk_is_made_from_a_text() {
        for name in Drive::known_names() {
            let spec = ModelSpec::parse(&format!("model:{name},content=none")).unwrap();
            let disk = spec.build_any().unwrap();
            assert_eq!(disk.properties().capacity_bytes, spec.capacity_bytes().unwrap(), "{name}");
            assert_eq!(disk.properties().name, format!("model:{name}"));
        }
        let error = ModelSpec::parse("st8000as0002").unwrap().build().err().unwrap();
        assert!(error.detail.contains("expected a hard disk here"), "{error}");
    }

    #[test]
    fn every_value_that_is_listed_for_an_option_is_taken() {
        for key in MODEL_OPTIONS {
            for value in model_option_values(key) {
                ModelSpec::parse(&format!("model:st3146855fc,{key}={value}")).unwrap();
            }
        }
        assert!(model_option_values("file").is_empty() && model_option_values("none").is_empty());
    }

    #[test]
    fn a_path_may_hold_commas() {
        let spec = ModelSpec::parse("model:st3146855fc,file=/tmp/a,b.img,cache=off").unwrap();
        assert_eq!(spec.content, Content::File(PathBuf::from("/tmp/a,b.img")));
        assert_eq!(spec.options.write_cache, Some(false));
    }

    #[test]
    fn mistakes_are_named_with_what_was_expected() {
        let cases = [
            ("model:cheetah", "st3146855fc, constellation-es3-1tb"),
            ("model:st3146855fc,cache=maybe", "expected cache=on|off, found \"maybe\""),
            ("model:st3146855fc,ncq=best", "fifo|clook|sptf"),
            ("model:st3146855fc,depth=0", "1..1024"),
            ("model:st3146855fc,color=red", "unknown option \"color\""),
            ("model:st3146855fc,file=", "no path"),
            ("model:/no/such.toml", "cannot read the file"),
        ];
        for (text, expected) in cases {
            let error = ModelSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(text), "{error}");
        }
    }
}
