//! Volumes on disks that keep no content: planned as `create` plans them, but nothing is written.
//!
//! Only a simulation may start like this. What it gets is the state right after `create`: an empty
//! map, empty logs.

use nearhead_calibrate::tracks_in_virtual_time;
use nearhead_disk::{Disk, Tracks};
use nearhead_engine::Config;
use nearhead_format::layout::DataParts;
use nearhead_format::superblock::features_of;
use nearhead_format::{AckMode, Label, Superblock};
use nearhead_volume::create::{CreateOptions, plan};
use nearhead_volume::{NamedPreset, Volume};
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

/// A volume just created on `disk`, which knows where its tracks are, or does not.
pub fn volume<D: Disk>(
    disk: D,
    preset: NamedPreset,
    answers: Answers,
    tracks: Vec<Arc<Tracks>>,
) -> Result<Volume<D>, String> {
    volume_with(disk, &create_options(preset, answers), tracks, |_| ())
}

/// A volume just created as `options` say, with what `configure` changes of its configuration.
pub fn volume_with<D: Disk>(
    disk: D,
    options: &CreateOptions,
    tracks: Vec<Arc<Tracks>>,
    configure: impl FnOnce(&mut Config),
) -> Result<Volume<D>, String> {
    let preset = options.preset;
    let layout =
        plan(disk.properties(), disk.zones(), options).map_err(|error| error.to_string())?;
    let superblock = Superblock {
        volume_id: options.volume_id,
        generation: 1,
        created_unix_s: options.created_unix_s,
        layout,
        preset: preset.number,
        ack: options.ack,
        logged_write_bytes_max: options.logged_write_bytes_max,
        feature_incompat: features_of(&layout),
        feature_ro_compat: 0,
        label: options.label.clone(),
        map_device_id: None,
    };
    Ok(Volume::start_empty(disk, superblock, preset, |_, config| {
        config.tracks = tracks;
        configure(config);
    }))
}
