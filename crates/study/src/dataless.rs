//! Volumes on disks that keep no content: planned as `create` plans them, but nothing is written.
//!
//! Only a simulation may start like this. What it gets is the state right after `create`: an empty
//! map, empty logs.

use crate::disks::Made;
use nearhead_calibrate::tracks_in_virtual_time;
use nearhead_disk::{Disk, Nanos, Tracks};
use nearhead_engine::Config;
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, Label, Superblock};
use nearhead_volume::create::{CreateOptions, describe_on};
use nearhead_volume::{Lanes, NamedPreset, Volume};
use std::sync::Arc;

/// When writes are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Answers {
    /// Each reply means durable.
    #[cfg_attr(feature = "clap", value(name = "durable"))]
    Durable,
    /// Replies are early; flush and FUA make durable.
    #[cfg_attr(feature = "clap", value(name = "flush"))]
    OnFlush,
}

impl Answers {
    /// The same in the words of the format.
    pub fn mode(self) -> AckMode {
        match self {
            Self::Durable => AckMode::Durable,
            Self::OnFlush => AckMode::Flush,
        }
    }
}

/// What to create for `preset`, with an identity that is the same in every run.
pub fn create_options(preset: NamedPreset, answers: Answers) -> CreateOptions {
    CreateOptions {
        volume_id: *b"nearhead measure",
        created_unix_s: 0,
        preset,
        logged_write_bytes_max: preset.logged_write_bytes_max,
        group_bytes: None,
        log_bytes: None,
        ack: answers.mode(),
        label: Label::default(),
        device_bytes: None,
        data_parts: DataParts::NONE,
        fragments: preset.fragments,
        force: true,
    }
}

/// What `preset` can make use of is found out on `twin`, a disk like the one that it will run on: where its tracks are.
pub fn tracks(preset: &NamedPreset, twin: &mut dyn Disk) -> Result<Vec<Arc<Tracks>>, String> {
    if !preset.layout.has_records_anywhere() {
        return Ok(Vec::new());
    }
    Ok(tracks_in_virtual_time(twin)?.map(Arc::new).into_iter().collect())
}

/// A volume just created on these disks, which know where their tracks are, or do not.
pub fn volume<D: Disk>(
    disks: impl Into<Made<D>>,
    preset: NamedPreset,
    answers: Answers,
) -> Result<Volume<D>, String> {
    volume_with(disks, &create_options(preset, answers), |_| ())
}

/// A volume just created as `options` say, with what `configure` changes of its configuration.
pub fn volume_with<D: Disk>(
    disks: impl Into<Made<D>>,
    options: &CreateOptions,
    configure: impl FnOnce(&mut Config),
) -> Result<Volume<D>, String> {
    let Made { disk, data, logs, tracks, log_tracks } = disks.into();
    let mut lanes = Lanes::from(disk)
        .with_data(data)
        .and_then(|lanes| lanes.with_log_devices(logs))
        .map_err(|error| error.to_string())?;
    let described = describe_on(&lanes.in_virtual_time(Nanos::ZERO), options);
    // What lies where nothing was written is told by nobody here: it would be all that such a volume keeps.
    let superblock =
        Superblock { feature_ro_compat: 0, ..described.map_err(|error| error.to_string())? };
    Ok(Volume::start_empty(lanes, superblock, options.preset, |_, config| {
        config.tracks = tracks;
        config.log_device_tracks = log_tracks;
        configure(config);
    }))
}
