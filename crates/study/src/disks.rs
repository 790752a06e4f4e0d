//! The modelled disks of an experiment: made anew for each run, of whichever kind they are, without content.

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

    /// Does it, on these disks.
    ///
    /// # Errors
    /// What is to be told to people.
    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Self::Outcome, String>;
}

/// Disks that were made: that of a volume, and those behind and beside it.
#[derive(Clone, Debug)]
pub struct Made<D> {
    /// The volume's own.
    pub disk: D,
    /// Data devices, in order.
    pub data: Vec<D>,
    /// Further log devices, in order.
    pub logs: Vec<D>,
    /// Where the tracks of the volume's own are, if that is of use and known.
    pub tracks: Vec<Arc<Tracks>>,
    /// The same of each further log device.
    pub log_tracks: Vec<Vec<Arc<Tracks>>>,
}

impl<D: Disk> From<D> for Made<D> {
    fn from(disk: D) -> Self {
        let (data, logs) = (Vec::new(), Vec::new());
        Self { disk, data, logs, tracks: Vec::new(), log_tracks: Vec::new() }
    }
}

impl<D> Made<D> {
    /// The same, each of them as `change` has it.
    pub fn map<E>(self, mut change: impl FnMut(D) -> E) -> Made<E> {
        Made {
            disk: change(self.disk),
            data: self.data.into_iter().map(&mut change).collect(),
            logs: self.logs.into_iter().map(&mut change).collect(),
            tracks: self.tracks,
            log_tracks: self.log_tracks,
        }
    }

    /// The only one that there is.
    ///
    /// # Errors
    /// There are others.
    pub fn only(self) -> Result<D, String> {
        match self.data.len() + self.logs.len() {
            0 => Ok(self.disk),
            others => Err(format!(
                "expected one disk where no volume spreads over several, found {}; name a preset that does, or make an array of them",
                others + 1
            )),
        }
    }
}

/// What separates the devices of a volume in a text, and what stands before each but the first.
const BETWEEN: char = ';';
const OF_DATA: &str = "data=";
const OF_LOGS: &str = "log=";

/// A disk, or several as one; and what else a volume on it lies on.
#[derive(Clone, Debug)]
pub struct Disks {
    asked: String,
    own: One,
    data: Vec<One>,
    logs: Vec<One>,
    warnings: Vec<String>,
}

/// A device of a volume.
#[derive(Clone, Debug)]
struct One {
    array: Option<ArraySpec>,
    specs: Vec<ModelSpec>,
}

impl Disks {
    /// By what was typed: `PROFILE[,option=value...]`, where a profile is a name, a `.toml` file or the package `FOLDER/NAME` of a measured drive,
    /// or an array of such (`raid0:model:A,model:B`). Behind a disk may stand others, `;data=DISK` each, and `;log=DISK` for further logs.
    ///
    /// # Errors
    /// What is wrong with it, expected and found.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut warnings = Vec::new();
        let mut texts = text.split(BETWEEN);
        let own = One::parse(texts.next().unwrap_or_default(), &mut warnings)?;
        let (mut data, mut logs) = (Vec::new(), Vec::new());
        for other in texts {
            let (devices, text) = match (other.strip_prefix(OF_DATA), other.strip_prefix(OF_LOGS)) {
                (Some(text), _) => (&mut data, text),
                (None, Some(text)) => (&mut logs, text),
                (None, None) => {
                    return Err(format!(
                        "disk {text:?}: expected {OF_DATA}DISK or {OF_LOGS}DISK behind each {BETWEEN:?}, found {other:?}"
                    ));
                }
            };
            devices.push(One::parse(text, &mut warnings)?);
        }
        Ok(Self { asked: text.to_owned(), own, data, logs, warnings })
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
        self.devices().flat_map(|device| &device.specs).map(|spec| &spec.drive)
    }

    /// Whether a volume on it lies on several devices.
    pub fn are_several(&self) -> bool {
        !self.data.is_empty() || !self.logs.is_empty()
    }

    fn devices(&self) -> impl Iterator<Item = &One> {
        std::iter::once(&self.own).chain(&self.data).chain(&self.logs)
    }

    /// Switches write caches where nothing was said of them.
    pub fn set_write_cache(&mut self, on: bool) {
        let others = self.data.iter_mut().chain(&mut self.logs);
        for spec in std::iter::once(&mut self.own).chain(others).flat_map(|one| &mut one.specs) {
            spec.options.write_cache.get_or_insert(on);
        }
    }

    /// Does something on fresh disks; what `preset` makes use of is found out before.
    ///
    /// # Errors
    /// Those of making the disks, and of what is done.
    pub fn with<T: OnDisk>(
        &self,
        preset: Option<&NamedPreset>,
        what: T,
    ) -> Result<T::Outcome, String> {
        let is_alone = !self.are_several();
        // Most experiments are on one hard disk: nothing stands between it and the engine.
        if let [spec @ ModelSpec { drive: Drive::HardDisk(_), .. }] = self.own.specs.as_slice()
            && self.own.array.is_none()
            && is_alone
        {
            let tracks = self.own.tracks(preset)?;
            return what.run(Made { tracks, ..Made::from(spec.build().map_err(told)?) });
        }
        let disk = self.own.build()?;
        if is_alone && GatheredDisk::is_needed(&disk) {
            return what.run(Made::from(GatheredDisk::new(disk).map_err(told)?));
        }
        let built = |devices: &[One]| devices.iter().map(One::build).collect::<Result<_, _>>();
        let log_tracks = self.logs.iter().map(|device| device.tracks(preset));
        what.run(Made {
            disk,
            data: built(&self.data)?,
            logs: built(&self.logs)?,
            tracks: self.own.tracks(preset)?,
            log_tracks: log_tracks.collect::<Result<_, _>>()?,
        })
    }
}

impl One {
    fn parse(text: &str, warnings: &mut Vec<String>) -> Result<Self, String> {
        let array = ArraySpec::is_array(text).then(|| ArraySpec::parse(text));
        let array = array.transpose().map_err(|error| error.to_string())?;
        let own = [text.to_owned()];
        let texts = array.as_ref().map_or(&own[..], |array| &array.members);
        let specs: Result<Vec<_>, _> =
            texts.iter().map(|text| dataless_spec(text, warnings)).collect();
        Ok(Self { array, specs: specs? })
    }

    fn build(&self) -> Result<Box<dyn Model>, String> {
        let disks: Result<Vec<_>, _> = self.specs.iter().map(ModelSpec::build_any).collect();
        let mut disks = disks.map_err(told)?;
        match &self.array {
            Some(array) => Ok(Box::new(array.build_model(disks).map_err(told)?)),
            None => disks.pop().ok_or_else(|| "expected a disk, found none".to_owned()),
        }
    }

    /// Where the tracks of a hard disk are, as far as `preset` makes use of that: found out on another one like it.
    fn tracks(&self, preset: Option<&NamedPreset>) -> Result<Vec<Arc<Tracks>>, String> {
        match (preset, self.specs.as_slice()) {
            (Some(preset), [spec @ ModelSpec { drive: Drive::HardDisk(_), .. }])
                if self.array.is_none() =>
            {
                dataless::tracks(preset, &mut spec.build().map_err(told)?)
            }
            _ => Ok(Vec::new()),
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
            ("st41601n;st3146855fc", "expected data=DISK or log=DISK"),
            ("st41601n;data=cheetah", "st3146855fc"),
            ("st41601n;data=", "not known"),
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
            disks.own.specs[0].options.write_cache
        };
        assert_eq!(cache("st3146855fc"), Some(true));
        assert_eq!(cache("st3146855fc,cache=off"), Some(false));
    }
}
