//! Profiles of every kind of disk, by one name.
//!
//! A name means an embedded profile; a path that ends in `.toml` means a file, whose kind shows in
//! its tables: `[shingled]` for a shingled disk, `[flash]` for a flash disk, neither for a hard disk. Errors name what was
//! looked for and every name that would have done.

use crate::flash::{self, FlashModel, FlashProfile};
use crate::model::Model;
use crate::profile_text::{self, Embedded, ProfileError};
use crate::smr::{self, SmrModel, SmrProfile};
use crate::store::Store;
use crate::{HddModel, HddOptions, Profile, profile};

/// The embedded profiles of every kind.
const EMBEDDED: [&Embedded; 3] = [profile::EMBEDDED, smr::EMBEDDED, flash::EMBEDDED];

/// A profile of some kind of disk.
#[derive(Clone, Debug)]
pub enum Drive {
    /// A hard disk.
    HardDisk(Profile),
    /// A shingled disk.
    Shingled(SmrProfile),
    /// A flash disk.
    Flash(FlashProfile),
}

impl Drive {
    /// Names of all embedded profiles, kind by kind.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.into_iter().flat_map(profile_text::names)
    }

    /// The embedded profile `name`; the error lists those that exist.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        Self::parse(name, profile_text::named(name, &EMBEDDED)?)
    }

    /// An embedded profile by name, or the file at a path that ends in `.toml`.
    pub fn find(name_or_path: &str) -> Result<Self, ProfileError> {
        Self::parse(name_or_path, &profile_text::find(name_or_path, &EMBEDDED)?)
    }

    /// Reads and checks the TOML `text` of the profile called `source` in errors.
    pub fn parse(source: &str, text: &str) -> Result<Self, ProfileError> {
        let table: toml::Table = profile_text::from_toml(source, text)?;
        if table.contains_key("shingled") {
            return SmrProfile::parse(source, text).map(Self::Shingled);
        }
        if table.contains_key("flash") {
            return FlashProfile::parse(source, text).map(Self::Flash);
        }
        Profile::parse(source, text).map(Self::HardDisk)
    }

    /// Short name.
    pub fn name(&self) -> &str {
        match self {
            Self::HardDisk(profile) => &profile.name,
            Self::Shingled(profile) => &profile.name,
            Self::Flash(profile) => &profile.name,
        }
    }

    /// Full name, for people.
    pub fn description(&self) -> &str {
        match self {
            Self::HardDisk(profile) => &profile.description,
            Self::Shingled(profile) => &profile.description,
            Self::Flash(profile) => &profile.description,
        }
    }

    /// The kind in one word: `hdd`, `smr` or `flash`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::HardDisk(_) => "hdd",
            Self::Shingled(_) => "smr",
            Self::Flash(_) => "flash",
        }
    }

    /// The moving parts, of a disk that has such.
    pub fn parts(&self) -> Option<&Profile> {
        match self {
            Self::HardDisk(profile) => Some(profile),
            Self::Shingled(profile) => Some(&profile.drive),
            Self::Flash(_) => None,
        }
    }

    /// Bytes that a host can address, and that a store must hold.
    pub fn capacity_bytes(&self) -> Result<u64, ProfileError> {
        match self {
            Self::HardDisk(profile) => Ok(profile.capacity_bytes()),
            Self::Shingled(profile) => profile.capacity_bytes(),
            Self::Flash(profile) => Ok(profile.capacity_bytes()),
        }
    }

    /// Makes the disk, with its content in `store`.
    pub fn build(
        &self,
        store: Box<dyn Store>,
        options: HddOptions,
    ) -> Result<Box<dyn Model>, ProfileError> {
        Ok(match self {
            Self::HardDisk(profile) => Box::new(HddModel::new(profile, store, options)?),
            Self::Shingled(profile) => Box::new(SmrModel::new(profile, store, options)?),
            Self::Flash(profile) => Box::new(FlashModel::new(profile, store, options)?),
        })
    }
}
