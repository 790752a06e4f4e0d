//! The modelled disk of a replay: made anew for each run, of whichever kind it is, without content.

use nearhead_arrays::ArraySpec;
use nearhead_disk::{Disk, Tracks};
use nearhead_measure::demo::dataless;
use nearhead_measure::will_it_help::DiskFacts;
use nearhead_models::{Content, Drive, Model, ModelSpec};
use nearhead_volume::{GatheredDisk, NamedPreset};
use std::sync::Arc;

/// What is done on a disk, of whichever kind.
pub(super) trait OnDisk {
    type Outcome;

    /// Does it, on a disk whose tracks may be known.
    fn run<D: Disk>(self, disk: D, tracks: Vec<Arc<Tracks>>) -> Result<Self::Outcome, String>;
}

/// A disk, or several as one.
pub(super) struct Disks {
    asked: String,
    array: Option<ArraySpec>,
    specs: Vec<ModelSpec>,
}

impl Disks {
    /// By what was typed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let array = ArraySpec::is_array(text).then(|| ArraySpec::parse(text));
        let array = array.transpose().map_err(|error| error.to_string())?;
        let own = [text.to_owned()];
        let texts = array.as_ref().map_or(&own[..], |array| &array.members);
        let specs: Result<Vec<_>, _> = texts.iter().map(|text| spec(text)).collect();
        Ok(Self { asked: text.to_owned(), array, specs: specs? })
    }

    /// Switches write caches where nothing was said of them.
    pub(super) fn set_write_cache(&mut self, on: bool) {
        for spec in &mut self.specs {
            spec.options.write_cache.get_or_insert(on);
        }
    }

    /// What is to be said of it; whether its cache is on, as one of them says.
    pub(super) fn facts(&self, write_cache: bool) -> DiskFacts {
        let mut descriptions: Vec<&str> =
            self.specs.iter().map(|spec| spec.drive.description()).collect();
        descriptions.dedup();
        DiskFacts {
            asked: self.asked.clone(),
            description: descriptions.join(", "),
            // Anything else is a name that the models know.
            is_built_in: !self.asked.contains(".toml"),
            write_cache,
            demerit_pct: None,
        }
    }

    /// Does something on a fresh disk; what `preset` makes use of is found out before.
    pub(super) fn with<T: OnDisk>(
        &self,
        preset: Option<&NamedPreset>,
        what: T,
    ) -> Result<T::Outcome, String> {
        match (&self.array, self.specs.as_slice()) {
            (Some(array), specs) => {
                let disks: Result<Vec<_>, _> = specs.iter().map(ModelSpec::build_any).collect();
                what.run(array.build_model(disks.map_err(told)?).map_err(told)?, Vec::new())
            }
            // Most replays are on one hard disk: nothing stands between it and the engine.
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
fn spec(text: &str) -> Result<ModelSpec, String> {
    let mut spec = ModelSpec::parse(text).map_err(|error| error.to_string())?;
    if matches!(spec.content, Content::File(_)) {
        return Err("replay: a replay keeps no data; leave out file=PATH".to_owned());
    }
    spec.content = Content::None;
    Ok(spec)
}

fn told(error: impl std::fmt::Display) -> String {
    format!("replay: {error}")
}
