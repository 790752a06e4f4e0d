//! The modelled disk of an experiment: made anew for each run, of whichever kind it is, without content.

use crate::dataless;
use crate::measured::find_profile;
use nearhead_arrays::ArraySpec;
use nearhead_disk::{Disk, Tracks};
use nearhead_models::{Content, Drive, HddModel, Model, ModelSpec, Report};
use nearhead_volume::{GatheredDisk, NamedPreset};
use std::path::Path;
use std::sync::Arc;

/// A disk that tells what it did, as models do.
pub trait Modelled: Disk + 'static {
    /// Since it was made.
    fn told(&self) -> Report;
}

impl Modelled for HddModel {
    fn told(&self) -> Report {
        self.report()
    }
}

impl Modelled for Box<dyn Model> {
    fn told(&self) -> Report {
        self.report()
    }
}

impl Modelled for GatheredDisk<Box<dyn Model>> {
    fn told(&self) -> Report {
        self.disk().report()
    }
}

/// What is done on a disk, of whichever kind.
pub trait OnDisk {
    /// What it comes to.
    type Outcome;

    /// Does it, on a disk whose tracks may be known.
    ///
    /// # Errors
    /// What is to be told to people.
    fn run<D: Modelled>(self, disk: D, tracks: Vec<Arc<Tracks>>) -> Result<Self::Outcome, String>;
}

/// A disk, or several as one.
#[derive(Clone, Debug)]
pub struct Disks {
    asked: String,
    array: Option<ArraySpec>,
    specs: Vec<ModelSpec>,
    warnings: Vec<String>,
}

impl Disks {
    /// By what was typed: `PROFILE[,option=value...]`, where a profile is a name, a `.toml` file or the package `FOLDER/NAME` of a measured drive,
    /// or an array of such (`raid0:model:A,model:B`).
    ///
    /// # Errors
    /// What is wrong with it, expected and found.
    pub fn parse(text: &str) -> Result<Self, String> {
        let array = ArraySpec::is_array(text).then(|| ArraySpec::parse(text));
        let array = array.transpose().map_err(|error| error.to_string())?;
        let own = [text.to_owned()];
        let texts = array.as_ref().map_or(&own[..], |array| &array.members);
        let mut warnings = Vec::new();
        let specs: Result<Vec<_>, _> =
            texts.iter().map(|text| dataless_spec(text, &mut warnings)).collect();
        Ok(Self { asked: text.to_owned(), array, specs: specs?, warnings })
    }

    /// What was typed.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// What an import of a package found to be doubtful.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether nothing of it is a file of the user's: its names are those that the models know.
    pub fn are_built_in(&self) -> bool {
        !self.asked.contains(['/']) && !self.asked.contains(".toml")
    }

    /// Its drives, or the one that it is.
    pub fn drives(&self) -> impl Iterator<Item = &Drive> {
        self.specs.iter().map(|spec| &spec.drive)
    }

    /// Switches write caches where nothing was said of them.
    pub fn set_write_cache(&mut self, on: bool) {
        for spec in &mut self.specs {
            spec.options.write_cache.get_or_insert(on);
        }
    }

    /// Does something on a fresh disk; what `preset` makes use of is found out before.
    ///
    /// # Errors
    /// Those of making the disk, and of what is done.
    pub fn with<T: OnDisk>(
        &self,
        preset: Option<&NamedPreset>,
        what: T,
    ) -> Result<T::Outcome, String> {
        match (&self.array, self.specs.as_slice()) {
            (Some(array), specs) => {
                let disks: Result<Vec<_>, _> = specs.iter().map(ModelSpec::build_any).collect();
                what.run(array.build_model(disks.map_err(told)?).map_err(told)?, Vec::new())
            }
            // Most experiments are on one hard disk: nothing stands between it and the engine.
            (None, [spec @ ModelSpec { drive: Drive::HardDisk(_), .. }]) => {
                let mut twin = spec.build().map_err(told)?;
                let tracks = preset.map(|preset| dataless::tracks(preset, &mut twin));
                what.run(spec.build().map_err(told)?, tracks.transpose()?.unwrap_or_default())
            }
            (None, specs) => {
                let disk: Box<dyn Model> = specs[0].build_any().map_err(told)?;
                if GatheredDisk::is_needed(&disk) {
                    what.run(GatheredDisk::new(disk).map_err(told)?, Vec::new())
                } else {
                    what.run(disk, Vec::new())
                }
            }
        }
    }
}

/// A disk without content.
fn dataless_spec(text: &str, warnings: &mut Vec<String>) -> Result<ModelSpec, String> {
    let (name, options) = text.split_once(',').unwrap_or((text, ""));
    let is_package =
        name.contains('/') && Path::new(name).extension().is_none_or(|ending| ending != "toml");
    let spec = if is_package {
        let (profile, found) = find_profile(name)?;
        warnings.extend(found);
        ModelSpec::of(Drive::HardDisk(profile), text, options)
    } else {
        ModelSpec::parse(text)
    };
    let mut spec = spec.map_err(told)?;
    if matches!(spec.content, Content::File(_)) {
        return Err(format!("disk {text:?}: a simulation keeps no data; leave out file=PATH"));
    }
    spec.content = Content::None;
    Ok(spec)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_disk_is_refused_with_what_would_be_one() {
        for (text, expected) in [
            ("cheetah", "st3146855fc"),
            ("st3146855fc,file=/tmp/x", "keeps no data"),
            ("st3146855fc,color=red", "unknown option"),
            ("/no/such/package", "/no/such"),
            ("raid0:st3146855fc", "expected 2 to"),
        ] {
            let error = Disks::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_cache_that_was_spoken_of_stays_as_it_was_said() {
        let cache = |text: &str| {
            let mut disks = Disks::parse(text).unwrap();
            disks.set_write_cache(true);
            disks.specs[0].options.write_cache
        };
        assert_eq!(cache("st3146855fc"), Some(true));
        assert_eq!(cache("st3146855fc,cache=off"), Some(false));
    }
}
