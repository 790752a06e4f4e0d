//! What is found damaged while a volume opens or is used: what kind of thing it is, for programs, and a sentence for people.

use std::fmt;

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A copy of the superblock.
    Superblock,
    /// A snapshot of the map, or a header of one.
    Snapshot,
    /// A record: it is missing where the ones after it are there, or its remains are in the way.
    Record,
    /// A log that cannot be read.
    Log,
    /// A logged copy that is not what the map says.
    Copy,
    /// A home that could not be written.
    Home,
    /// The map of what was never written.
    BlankMap,
    /// More than is kept: what was left out.
    More,
}

impl DamageKind {
    /// One word for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Snapshot => "snapshot",
            Self::Record => "record",
            Self::Log => "log",
            Self::Copy => "copy",
            Self::Home => "home",
            Self::BlankMap => "blank-map",
            Self::More => "more",
        }
    }

    /// Damage of this kind, in a sentence that says where, what was expected and what was found.
    pub fn told(self, text: impl Into<String>) -> Damage {
        Damage { kind: self, text: text.into() }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What is damaged.
    pub kind: DamageKind,
    /// Where, and how.
    pub text: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
