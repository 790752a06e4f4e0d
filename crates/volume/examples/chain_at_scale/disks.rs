//! The chain's drives: models in virtual time whose content is in files beside each other, as small as it can be kept.

use crate::Problem;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_format::AckMode;
use nearhead_models::{
    FileStore, FirstBytes, HddModel, HddOptions, PatternStore, Profile, QueuePolicy,
};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume, create};
use std::path::Path;

/// A drive, of which the first bytes are used.
pub(crate) type Drive = FirstBytes<HddModel>;

/// Which drives, and how much of each.
#[derive(Clone, Debug)]
pub(crate) struct Drives {
    pub(crate) profile: String,
    pub(crate) count: usize,
    pub(crate) bytes_of_each: u64,
}

impl Drives {
    fn drive(&self, folder: &Path, number: usize) -> Result<Drive, Problem> {
        let store = |what: &str| {
            FileStore::open(&folder.join(format!("{number}.{what}")), self.bytes_of_each)
        };
        let store = PatternStore::new(store("kept")?, store("words")?);
        // What was answered is on the medium, as in the figures of chains: write caches are off, and the queue is served as SATA drives do.
        let options = HddOptions {
            write_cache: Some(false),
            policy: Some(QueuePolicy::Sptf),
            queue_depth: Some(32),
            ..HddOptions::default()
        };
        let profile = Profile::named(&self.profile)?;
        let model = HddModel::new(&profile, Box::new(store), options)?;
        Ok(FirstBytes::new(model, self.bytes_of_each))
    }

    /// All of them, with what the files hold.
    pub(crate) fn open(&self, folder: &Path) -> Result<Lanes<Drive>, Problem> {
        let first = self.drive(folder, 0)?;
        let others: Result<Vec<Drive>, Problem> =
            (1..self.count).map(|number| self.drive(folder, number)).collect();
        Ok(Lanes::from(first).with_data(others?)?)
    }

    /// Makes an empty chain of them.
    pub(crate) fn create(&self, folder: &Path) -> Result<(), Problem> {
        let options = CreateOptions {
            ack: AckMode::Durable,
            force: true,
            ..CreateOptions::new(*b"nearhead scale  ", NamedPreset::by_name("gecko")?)
        };
        create(&mut self.open(folder)?.in_virtual_time(Nanos::ZERO), &options)?;
        Ok(())
    }
}

/// Ends everything at once, as a power cut does; the files have what the medium has then.
pub(crate) fn cut(volume: Volume<Drive>, now: Nanos) -> Result<(), Problem> {
    let random = &mut SplitMix::new(now.0);
    let (mut first, _, mut others) = volume.into_lanes().into_all();
    for drive in std::iter::once(&mut first).chain(&mut others) {
        drive.whole_mut().power_cut(now, random)?;
    }
    Ok(())
}
