//! Profiles from parameter packages of DiskSim: `.diskspecs`, `.model`, `.seek`, `.layout`, `.parv`.
//!
//! A package is a few text files that name each other. They are read into sections (`syntax`), the
//! section of the drive is looked for, and its layout, mechanics, cache and command times become a
//! [`Profile`]. What the files contradict each other in is derived from the more detailed one and
//! told as a warning; what is missing is an error that says which file, where it was named, and
//! what to do. No file outside of the package's folder is read.

mod drive;
mod files;
#[cfg(test)]
mod form_tests;
mod layout;
mod mappings;
mod mechanics;
mod overheads;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod track_list;

pub use text::to_toml;

use files::Folder;
use nearhead_models::Profile;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use syntax::{Section, Sections};

/// A package as a profile.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The profile; its text is [`to_toml`].
    pub profile: Profile,
    /// Where the numbers of each table of the profile come from, by the table's name.
    pub sources: BTreeMap<&'static str, String>,
    /// Contradictions, and what was taken instead.
    pub warnings: Vec<String>,
}

/// A package that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// File and line, or the package.
    pub place: String,
    /// What is wrong, expected and found, and what to do.
    pub problem: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.problem)
    }
}

impl std::error::Error for ImportError {}

impl ImportError {
    fn new(place: impl fmt::Display, problem: impl Into<String>) -> Self {
        Self { place: place.to_string(), problem: problem.into() }
    }
}

/// What the parts of an import write down on the way.
#[derive(Default)]
struct Notes {
    warnings: Vec<String>,
    sources: BTreeMap<&'static str, String>,
}

impl Notes {
    fn warn(&mut self, place: impl fmt::Display, problem: impl fmt::Display) {
        self.warnings.push(format!("{place}: {problem}"));
    }
}

/// Imports the package `DIR/NAME`: `NAME` is that of its files without ending, or one of the files.
/// Files may be compressed (`.zst`).
pub fn import(package: &Path) -> Result<Imported, ImportError> {
    let folder = Folder::of(package)?;
    let sections = entry_sections(&folder)?;
    let disk = drive::find_disk(&sections, &folder)?;
    let model = drive::find_model(&sections, disk, &folder)?;
    let mut notes = Notes::default();
    for (place, problem) in sections.missing() {
        notes.warn(place, format!("{problem}, if anything of the drive is in it"));
    }
    let name = folder.name().to_ascii_lowercase().replace(['_', ' '], "-");
    let mechanics = mechanics::read(model, &folder, &mut notes)?;
    let layout = layout::read(model, &folder, &mut notes)?;
    let exchange = drive::read(&sections, disk, &mut notes)?;
    let mut seek = mechanics.seek;
    // Drives that answer writes early are of the time when heads got elements of their own to read and to write with. No
    // package says how far apart these are: five of the six such drives that were measured for us need about their shortest
    // seek. The sixth reads whatever passes as soon as it is near the track, and needs a quarter of it.
    if exchange.cache.write_cache
        && !exchange.cache.zero_latency_reads
        && let Some((_, shortest_ms)) = seek.points_ms.first()
    {
        seek.read_after_write_ms = *shortest_ms;
    }
    let profile = Profile {
        description: drive::description(model, disk),
        name,
        sector_bytes: 512,
        physical_sector_bytes: 512,
        blocks: layout.blocks,
        heads: layout.heads,
        cylinders: layout.cylinders,
        period_ns: mechanics.period_ns,
        turns: Vec::new(),
        layout: layout.spec,
        skew: nearhead_models::SkewSpec::default(),
        zones: Vec::new(),
        seek,
        command: exchange.command,
        interface: exchange.interface,
        cache: exchange.cache,
        queue: exchange.queue,
        datasheet: None,
    };
    profile.validate().map_err(|problem| {
        let place = format!("package {}", folder.name());
        ImportError::new(place, format!("its files contradict each other: {problem}"))
    })?;
    Ok(Imported { profile, sources: notes.sources, warnings: notes.warnings })
}

/// The sections of the package's files, from the most complete file on.
fn entry_sections(folder: &Folder) -> Result<Sections, ImportError> {
    let mut sections = Sections::default();
    let mut found = false;
    for ending in ["", ".parv", ".diskspecs", ".model", "_validate.diskspecs", "_validate.model"] {
        let file = format!("{}{ending}", folder.name());
        let wanted =
            |section: &Section| ["disksim_disk", "dm_disk"].contains(&section.kind.as_str());
        if sections.all().any(|section| section.kind == "disksim_disk")
            || (ending.ends_with("model") && sections.all().any(wanted))
        {
            break;
        }
        if let Some(text) = folder.read(&file)? {
            found = true;
            syntax::parse_into(&mut sections, folder, &file, &text, 0)?;
        }
    }
    if found {
        let is_drive = |section: &Section| section.kind == "disksim_disk";
        let missing = sections.missing().next();
        let missing = missing.map(|(place, problem)| ImportError::new(place, problem));
        return match missing {
            Some(error) if !sections.all().any(is_drive) => Err(error),
            _ => Ok(sections),
        };
    }
    Err(ImportError::new(
        folder.path().display(),
        format!(
            "expected {name}.parv, {name}.diskspecs or {name}.model (also with .zst), found none; \
             the folder has {}",
            folder.listing(),
            name = folder.name()
        ),
    ))
}
