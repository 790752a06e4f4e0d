//! The disks and volumes that figures run on: data-less models, volumes as `create` plans them.
//!
//! A volume here starts in the state right after `create`: an empty map and empty logs. Nothing is
//! written to make it, so a disk need not keep any content. A model and its options are the same
//! for every system compared on it.

mod behind;
mod kept;

pub(crate) use behind::{made_behind, open_behind, several, volume_behind, volume_behind_several};
pub(crate) use kept::{kept_disk_for, kept_several};

use crate::error::FigureError;
use crate::metered::Metered;
use crate::spent::Modelled;
use crate::tracks;
use nearhead_arrays::{Mirror, ReadPolicy, Stripe};
use nearhead_disk::{Disk, Nanos, Tracks};
use nearhead_engine::Config;
use nearhead_engine::admission::Fifo;
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, DataDevice, Label};
use nearhead_models::{
    Content, Dataless, FirstBytes, HddModel, HddOptions, Mechanics, MemoryStore, ModelSpec,
    PowerSpec, Powered, Profile, QueuePolicy, Store,
};
use nearhead_volume::create::{CreateOptions, describe};
use nearhead_volume::{BareDisk, GatheredDisk, Lanes, NamedPreset, Volume, whole_logs};
use std::sync::Arc;

/// The disk of Manylogs' file-system experiments (V-A).
pub(crate) const CHEETAH: &str = "st3146855fc";
/// The disk of Manylogs' trace replays (V-B).
pub(crate) const CONSTELLATION: &str = "constellation-es3-1tb";

/// A drive of today: 20 TB, filled with helium.
pub(crate) const EXOS: &str = "exos-x20-20tb";

/// Chunk of a RAID-0 (Manylogs V-A).
const CHUNK_BYTES: u64 = 64 << 10;

/// Between the profile's name and the number of a member of an array.
const MEMBER_MARK: char = '#';
/// By one in so many the spindles of two members that follow one another differ.
const SPINDLES_DIFFER_ONE_IN: u64 = 10_000;

/// A disk as figures have it.
pub(crate) type FigureDisk = Metered<Box<dyn Modelled>>;

/// A volume or a bare disk under test.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// As it is called in tables.
    pub name: String,
    /// The preset; `None` for the bare disk.
    pub preset: Option<NamedPreset>,
    /// When writes are answered.
    pub ack: AckMode,
    /// Sizes of group and log, if not the defaults.
    pub group_and_log_bytes: Option<(u64, u64)>,
    /// Largest logged write, if not the preset's.
    pub logged_write_bytes_max: Option<u32>,
    /// Whether records may bring bytes smaller than a sector.
    pub fragments: bool,
    /// Departures from the default configuration.
    pub configure: fn(&mut Config),
}

impl System {
    /// The disk without any engine.
    pub(crate) fn bare(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            preset: None,
            ack: AckMode::Durable,
            group_and_log_bytes: None,
            logged_write_bytes_max: None,
            fragments: false,
            configure: |_| {},
        }
    }

    /// A volume with the preset of that name, checkpointed off-hours only (Manylogs III-F).
    pub(crate) fn of_preset(name: &str) -> Result<Self, FigureError> {
        let preset = NamedPreset::by_name(name)
            .map_err(|error| FigureError::setup(format!("a volume with preset {name}"), &error))?;
        let fragments = preset.fragments;
        Ok(Self { preset: Some(preset), fragments, configure: off_hours, ..Self::bare(name) })
    }
}

/// Up to which size the preset of that name logs writes; 0 if it logs none.
pub(crate) fn logged_bytes_max(name: &str) -> Result<u32, FigureError> {
    Ok(System::of_preset(name)?.preset.map_or(0, |preset| preset.logged_write_bytes_max))
}

/// No checkpoint while clients work: the papers' experiments put it off to quiet hours.
pub(crate) fn off_hours(config: &mut Config) {
    config.cleaning.period = None;
    config.cleaning.idle_after = None;
    config.cleaning.watermark_pct = None;
}

/// The same, and first come, first served: nothing of a bulk transfer is held back for small
/// writes, as in the published systems.
pub(crate) fn off_hours_first_come(config: &mut Config) {
    off_hours(config);
    config.admission = Box::new(Fifo { piece_bytes: 1 << 20 });
}

/// The profile called `name`.
pub(crate) fn profile(name: &str) -> Result<Profile, FigureError> {
    Profile::named(name).map_err(|error| FigureError::setup("a disk", &error))
}

/// What the disk `name` can do at best.
pub(crate) fn mechanics(name: &str) -> Result<Mechanics, FigureError> {
    Mechanics::new(&profile(name)?).map_err(|error| FigureError::setup("a disk", &error))
}

/// In which order a disk serves what is queued at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// The request it can reach soonest, of as many as it takes at once.
    SoonestOf(u16),
    /// First come, first served: no command queuing, or one that the host does not use.
    InOrder,
}

/// The queue of the SATA drive in Manylogs' replays (V-B): the standard's 32 commands.
pub(crate) const SATA: Queue = Queue::SoonestOf(32);

impl Queue {
    /// As it is called in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Self::SoonestOf(depth) => format!("soonest of {depth}"),
            Self::InOrder => "in order".to_owned(),
        }
    }

    fn options(self) -> HddOptions {
        let (policy, queue_depth) = match self {
            Self::SoonestOf(depth) => (QueuePolicy::Sptf, Some(depth)),
            Self::InOrder => (QueuePolicy::Fifo, None),
        };
        HddOptions { policy: Some(policy), queue_depth, ..HddOptions::default() }
    }
}

/// The modelled disk `name`, data-less, its write cache off.
pub(crate) fn hard_disk(name: &str, queue: Queue) -> Result<FigureDisk, FigureError> {
    Ok(Metered::new(Box::new(model(name, queue)?)))
}

/// The same with its write cache on.
pub(crate) fn cached_hard_disk(name: &str, queue: Queue) -> Result<FigureDisk, FigureError> {
    let options = HddOptions { write_cache: Some(true), ..queue.options() };
    let made = HddModel::new(&profile(name)?, Box::new(Dataless), options)
        .map_err(|error| FigureError::setup(format!("disk {name}"), &error))?;
    Ok(Metered::new(Box::new(made)))
}

/// The same that keeps what is written to it.
pub(crate) fn hard_disk_with_content(name: &str, queue: Queue) -> Result<FigureDisk, FigureError> {
    let store: Box<dyn Store> = Box::new(MemoryStore::new());
    Ok(Metered::new(Box::new(model_on(name, queue, store)?)))
}

fn model(name: &str, queue: Queue) -> Result<HddModel, FigureError> {
    model_on(name, queue, Box::new(Dataless))
}

fn model_on(name: &str, queue: Queue, store: Box<dyn Store>) -> Result<HddModel, FigureError> {
    // The papers' set-up: a reply means durable because nothing volatile is in between.
    let options = HddOptions { write_cache: Some(false), ..queue.options() };
    HddModel::new(&profile(name)?, store, options)
        .map_err(|error| FigureError::setup(format!("disk {name}"), &error))
}

/// `disk` without any engine.
pub(crate) fn bare(disk: FigureDisk) -> BareDisk<FigureDisk> {
    BareDisk::new(disk)
}

/// A volume just created on `disk`; for the bare disk, one that logs nothing.
pub(crate) fn volume(disk: FigureDisk, system: &System) -> Result<Volume<FigureDisk>, FigureError> {
    let tracks = tracks::of(&disk)?;
    let made = plan_and_start(disk, Vec::new(), system, tracks);
    made.map_err(|error| FigureError::setup(format!("a volume for {}", system.name), &error))
}

fn options(system: &System) -> CreateOptions {
    let preset = system.preset.unwrap_or(nearhead_volume::PRESETS[0]);
    let logged = system.logged_write_bytes_max.unwrap_or(preset.logged_write_bytes_max);
    CreateOptions {
        volume_id: *b"nearhead figures",
        created_unix_s: 0,
        preset,
        logged_write_bytes_max: logged,
        group_bytes: system.group_and_log_bytes.map(|sizes| sizes.0),
        log_bytes: system.group_and_log_bytes.map(|sizes| sizes.1),
        ack: system.ack,
        label: Label::default(),
        device_bytes: None,
        data_parts: DataParts::NONE,
        fragments: system.fragments,
        force: true,
    }
}

/// So many bytes of the flash device `name`.
pub(crate) fn part_of_flash(name: &str, bytes: u64) -> Result<FigureDisk, FigureError> {
    let disk = any_disk(name, Queue::InOrder)?;
    Ok(Metered::new(Box::new(FirstBytes::new(disk, bytes))))
}

/// A chain of these disks, of each of which so many bytes are used, with these departures from the system's configuration.
pub(crate) fn chain(
    disks: Vec<FigureDisk>,
    system: &System,
    bytes_of_each: u64,
    configure: impl FnOnce(&mut Config),
) -> Result<Volume<FigureDisk>, FigureError> {
    chain_with(disks, system, bytes_of_each, None, configure)
}

/// The same with a device for the read cache, if one is given.
pub(crate) fn chain_with(
    disks: Vec<FigureDisk>,
    system: &System,
    bytes_of_each: u64,
    cache: Option<FigureDisk>,
    configure: impl FnOnce(&mut Config),
) -> Result<Volume<FigureDisk>, FigureError> {
    let failed = |error: &dyn ToString| {
        FigureError::setup(format!("a chain for {}", system.name), &error.to_string())
    };
    let mut disks = disks.into_iter();
    let Some(first) = disks.next() else { return Err(failed(&"no disk")) };
    let others: Vec<FigureDisk> = disks.collect();
    let parts = vec![DataDevice::part_bytes(bytes_of_each); others.len()];
    let data_parts = DataParts::of(&parts).ok_or_else(|| failed(&"more disks than it can have"))?;
    let options =
        CreateOptions { data_parts, device_bytes: Some(bytes_of_each), ..options(system) };
    let superblock =
        describe(first.properties(), first.zones(), &options).map_err(|error| failed(&error))?;
    let mut lanes = Lanes::from(first).with_data(others).map_err(|error| failed(&error))?;
    if let Some(cache) = cache {
        lanes = lanes.with_cache(cache).map_err(|error| failed(&error))?;
    }
    Ok(Volume::start_empty(lanes, superblock, options.preset, |_, config| {
        (system.configure)(config);
        configure(config);
    }))
}

fn plan_and_start(
    disk: FigureDisk,
    data: Vec<FigureDisk>,
    system: &System,
    tracks: Vec<Arc<Tracks>>,
) -> Result<Volume<FigureDisk>, Box<dyn std::error::Error>> {
    plan_and_start_on(disk, (data, Vec::new()), system, (tracks, Vec::new()))
}

fn plan_and_start_on(
    disk: FigureDisk,
    (data, logs): (Vec<FigureDisk>, Vec<FigureDisk>),
    system: &System,
    (tracks, log_device_tracks): (Vec<Arc<Tracks>>, Vec<Vec<Arc<Tracks>>>),
) -> Result<Volume<FigureDisk>, Box<dyn std::error::Error>> {
    let part = |disk: &FigureDisk| DataDevice::part_bytes(disk.properties().capacity_bytes);
    let parts: Vec<u64> = data.iter().chain(&logs).map(part).collect();
    let data_parts = DataParts::of(&parts)
        .and_then(|parts| parts.with_log_devices(logs.len() as u32))
        .ok_or("more data devices than a volume can have")?;
    let options = CreateOptions { data_parts, ..options(system) };
    let superblock = describe(disk.properties(), disk.zones(), &options)?;
    let lanes = Lanes::from(disk).with_data(data)?.with_log_devices(logs)?;
    Ok(Volume::start_empty(lanes, superblock, options.preset, |_, config| {
        config.tracks = tracks;
        config.log_device_tracks = log_device_tracks;
        (system.configure)(config);
    }))
}

/// The profile of a member of an array: no two spindles turn alike, though by far less than a datasheet allows (0.1 to 0.5 %).
fn member_profile(name: &str, index: u32) -> Result<Profile, FigureError> {
    let one = profile(name)?;
    let period_ns = one.period_ns + one.period_ns * u64::from(index) / SPINDLES_DIFFER_ONE_IN;
    Ok(Profile { name: format!("{name}{MEMBER_MARK}{index}"), period_ns, ..one })
}

fn member(name: &str, index: u32, options: HddOptions) -> Result<HddModel, FigureError> {
    member_on(name, index, options, Box::new(Dataless))
}

fn member_on(
    name: &str,
    index: u32,
    options: HddOptions,
    store: Box<dyn Store>,
) -> Result<HddModel, FigureError> {
    HddModel::new(&member_profile(name, index)?, store, options)
        .map_err(|error| FigureError::setup(format!("disk {name}"), &error))
}

/// A disk like the one of this name, alone and idle; of a member of an array, too.
pub(crate) fn twin_of(name: &str) -> Result<FigureDisk, FigureError> {
    let of_member = name.split_once(MEMBER_MARK);
    match of_member.and_then(|(name, index)| Some((name, index.parse().ok()?))) {
        Some((name, index)) => {
            let options = HddOptions { write_cache: Some(false), ..Queue::InOrder.options() };
            Ok(Metered::new(Box::new(member(name, index, options)?)))
        }
        None => any_disk(name, Queue::InOrder),
    }
}

/// Several of the disk `name` as one RAID-0 in chunks of 64 KiB (Manylogs V-A).
pub(crate) fn striped(
    name: &str,
    disks: u32,
    queue: Queue,
    write_cache: bool,
) -> Result<FigureDisk, FigureError> {
    Ok(Metered::new(Box::new(stripe(name, disks, queue, write_cache)?)))
}

fn stripe(
    name: &str,
    disks: u32,
    queue: Queue,
    write_cache: bool,
) -> Result<Stripe<HddModel>, FigureError> {
    let options = HddOptions { write_cache: Some(write_cache), ..queue.options() };
    let members = (0..disks).map(|index| member(name, index, options));
    striped_over(name, members.collect::<Result<_, _>>()?)
}

fn striped_over(name: &str, members: Vec<HddModel>) -> Result<Stripe<HddModel>, FigureError> {
    let what = format!("a RAID-0 of {} {name}", members.len());
    Stripe::new(members, CHUNK_BYTES).map_err(|error| FigureError::setup(what, &error))
}

/// Two of the disk `name` with the same content, write caches off; reads that nobody waits for go to one of them if they are
/// to be kept `apart`.
pub(crate) fn mirrored(
    name: &str,
    policy: ReadPolicy,
    apart: bool,
) -> Result<Mirror<HddModel>, FigureError> {
    let mirror = Mirror::new(pair(name)?, policy)
        .map_err(|error| FigureError::setup(format!("a mirror of two {name}"), &error))?;
    Ok(mirror.with_reads_apart(apart))
}

/// The same of drives that go to standby after so long with nothing to do, or never; reads go to the first.
pub(crate) fn mirrored_to_sleep(
    name: &str,
    standby_after: Option<Nanos>,
) -> Result<Mirror<Powered<HddModel>>, FigureError> {
    let powered = |disk| Powered::new(disk, PowerSpec::CONSTELLATION, standby_after);
    let mirror = Mirror::new(pair(name)?.into_iter().map(powered).collect(), ReadPolicy::First)
        .map_err(|error| FigureError::setup(format!("a mirror of two {name}"), &error))?;
    Ok(mirror.with_reads_apart(true))
}

fn pair(name: &str) -> Result<Vec<HddModel>, FigureError> {
    let options = HddOptions { write_cache: Some(false), ..SATA.options() };
    (0..2).map(|index| member(name, index, options)).collect()
}

/// The same, made for `system` as `nearhead create` would make it: each log on one member, if its records go anywhere. The presets
/// of papers have theirs over all members, as published.
pub(crate) fn striped_for(
    system: &System,
    name: &str,
    disks: u32,
    queue: Queue,
) -> Result<FigureDisk, FigureError> {
    made_for(system, stripe(name, disks, queue, false)?)
}

fn made_for(system: &System, array: Stripe<HddModel>) -> Result<FigureDisk, FigureError> {
    let options = options(system);
    let runs = whole_logs(array.properties(), &options, None);
    let Some(runs) = runs.filter(|_| options.preset.layout.has_records_anywhere()) else {
        return Ok(Metered::new(Box::new(array)));
    };
    let array = Stripe::with_whole_runs(array.into_disks(), CHUNK_BYTES, runs)
        .map_err(|error| FigureError::setup("a RAID-0 with whole logs on its members", &error))?;
    Ok(Metered::new(Box::new(array)))
}

/// As [`off_hours`], and nobody knows where the disk's tracks are.
pub(crate) fn without_tracks(config: &mut Config) {
    off_hours(config);
    config.tracks = Vec::new();
}

/// The shingled disk of which Manylogs takes the persistent cache (its reference 11).
pub(crate) const SHINGLED: &str = "st8000as0002";

/// Who keeps the log of a shingled disk, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shingled {
    /// The drive as it is sold: its firmware, in a persistent cache at the outer tracks.
    AsSold,
    /// The preset `slsmr`, in the same place.
    SingleLog,
    /// The preset `mlsmr`, on one surface that is not shingled, as Manylogs proposes (III-I.3).
    Manylogs,
    /// The same, told where the disk's tracks are.
    TracksKnown,
}

impl Shingled {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::AsSold, Self::SingleLog, Self::Manylogs, Self::TracksKnown];

    /// As it is called in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AsSold => "as sold",
            Self::SingleLog => "slsmr",
            Self::Manylogs => "mlsmr",
            Self::TracksKnown => "mlsmr, tracks known",
        }
    }

    /// Its disk, data-less, with its write cache off.
    pub(crate) fn disk(self, queue: Queue) -> Result<FigureDisk, FigureError> {
        match self {
            Self::AsSold => any_disk(SHINGLED, queue),
            Self::SingleLog => any_disk(&format!("{SHINGLED}-slsmr"), queue),
            Self::Manylogs | Self::TracksKnown => any_disk(&format!("{SHINGLED}-mlsmr"), queue),
        }
    }

    /// Its engine.
    pub(crate) fn system(self) -> Result<System, FigureError> {
        match self {
            Self::AsSold => Ok(System::bare(self.name())),
            Self::SingleLog => System::of_preset("slsmr"),
            // As published.
            Self::Manylogs => {
                Ok(System { configure: without_tracks, ..System::of_preset("mlsmr")? })
            }
            Self::TracksKnown => {
                Ok(System { name: self.name().to_owned(), ..System::of_preset("mlsmr")? })
            }
        }
    }
}

pub(crate) fn any_disk(name: &str, queue: Queue) -> Result<FigureDisk, FigureError> {
    let failed = |problem: String| FigureError::setup(format!("disk {name}"), &problem);
    let mut spec = ModelSpec::parse(name).map_err(|error| failed(error.to_string()))?;
    spec.content = Content::None;
    spec.options = HddOptions { write_cache: Some(false), ..queue.options() };
    let disk = spec.build_any().map_err(|error| failed(error.to_string()))?;
    if !GatheredDisk::is_needed(&disk) {
        return Ok(Metered::new(Box::new(disk)));
    }
    let disk = GatheredDisk::new(disk).map_err(|error| failed(error.to_string()))?;
    Ok(Metered::new(Box::new(disk)))
}
