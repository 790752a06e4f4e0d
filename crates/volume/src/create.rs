//! Creating a volume: the snapshots first, the superblock last.
//!
//! Until the last superblock copy is durable the device holds no volume; what it held before is
//! refused unless the caller insists, naming what was found.

use crate::blanks;
use crate::data_devices;
use crate::generations;
use crate::map_device;
use crate::presets::NamedPreset;
use crate::probe::{Contents, Finding, look_for_remains, look_for_remains_on, probe_device};
use crate::sizes;
use crate::sync_io::SyncIo;
use crate::without_log;
use nearhead_disk::{At, DiskError, Lane, Properties, Zones};
use nearhead_engine::MapPlace;
use nearhead_format::snapshot::{BodyItem, BodyWriter, LogState, SnapshotHeader};
use nearhead_format::superblock::{
    self, COPIES, FEATURE_BLANK_MAP, FEATURE_GENERATIONS, FEATURE_LOGS_TELL_ALL,
};
use nearhead_format::{
    AckMode, BlankMapHeader, FieldError, Label, Layout, LayoutError, LayoutOptions, Superblock,
    VolumeId, layout::DataParts, layout::LayoutField,
};
use std::fmt;

/// What to create.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Random and unique.
    pub volume_id: VolumeId,
    /// Seconds since 1970 UTC.
    pub created_unix_s: u64,
    /// Which logs, and what is to run on them.
    pub preset: NamedPreset,
    /// Writes up to this many bytes are logged.
    pub logged_write_bytes_max: u32,
    /// Size of a group, if not the default.
    pub group_bytes: Option<u64>,
    /// Size of each log, if not the default.
    pub log_bytes: Option<u64>,
    /// When writes are answered.
    pub ack: AckMode,
    /// For people.
    pub label: Label,
    /// Bytes of the device to use, if not all.
    pub device_bytes: Option<u64>,
    /// What data devices add, in the order in which they are named; whoever creates it on devices has them there.
    pub data_parts: DataParts,
    /// Records may bring bytes smaller than a sector: both slots of the map get room for them, and programs that do not know them refuse the
    /// volume.
    pub fragments: bool,
    /// Overwrite whatever is there.
    pub force: bool,
}

impl CreateOptions {
    /// What `named` says, on the whole of an empty device: default sizes, early replies, no label, made in 1970.
    pub fn new(volume_id: VolumeId, named: NamedPreset) -> Self {
        Self {
            volume_id,
            created_unix_s: 0,
            preset: named,
            logged_write_bytes_max: named.logged_write_bytes_max,
            group_bytes: None,
            log_bytes: None,
            ack: AckMode::Flush,
            label: Label::default(),
            device_bytes: None,
            data_parts: DataParts::NONE,
            fragments: named.fragments,
            force: false,
        }
    }
}

/// Why no volume was created.
#[derive(Debug)]
pub enum CreateError {
    /// The device holds something.
    InUse {
        /// The device.
        device: String,
        /// What was found.
        found: String,
    },
    /// The device holds a volume of ours, or what is left of one.
    Volume {
        /// The device.
        device: String,
        /// What was found.
        found: String,
    },
    /// The sizes do not fit.
    Layout(LayoutError),
    /// A field does not fit.
    Field(FieldError),
    /// The device failed.
    Disk(DiskError),
}

impl fmt::Display for CreateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { device, found } => write!(
                formatter,
                "create on {device}: expected an empty device, found {found}; \
                 use another device, or --force to overwrite what is there"
            ),
            Self::Volume { device, found } => write!(
                formatter,
                "create on {device}: expected an empty device, found {found}; if the volume is still needed, see \
                 `nearhead check`, then `nearhead repair --dry-run` (with --lost-superblocks if no superblock is left) or \
                 `nearhead restore-metadata`; --force destroys it"
            ),
            Self::Layout(LayoutError { field, expected, found, advice }) => write!(
                formatter,
                "create: {}: expected {expected}, found {found}; {advice}",
                sizes::in_words(*field)
            ),
            Self::Field(error) => write!(formatter, "create: {error}"),
            Self::Disk(error) => write!(formatter, "create: {error}"),
        }
    }
}

impl std::error::Error for CreateError {}

impl From<DiskError> for CreateError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl From<LayoutError> for CreateError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl From<FieldError> for CreateError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

/// The layout `options` ask for on a disk; `zones` are the disk's ([`nearhead_disk::Disk::zones`]).
pub fn plan(
    properties: &Properties,
    zones: Option<&Zones>,
    options: &CreateOptions,
) -> Result<Layout, LayoutError> {
    let layout_options = LayoutOptions {
        kind: options.preset.layout,
        sector_bytes: properties.sector_bytes,
        log_block_bytes: properties.physical_sector_bytes.clamp(512, 4096),
        group_bytes: options.group_bytes,
        log_bytes: options.log_bytes,
        non_shingled_bytes: zones.map(Zones::non_shingled_start_bytes),
        data_parts: options.data_parts,
        fragments: options.fragments,
    };
    let device_bytes = options.device_bytes.unwrap_or(properties.capacity_bytes);
    Layout::plan(device_bytes.min(properties.capacity_bytes), &layout_options)
        .map_err(|error| sizes::by_preset(error, options))
}

/// The superblock of the volume that `options` ask for, without touching any disk.
pub fn describe(
    properties: &Properties,
    zones: Option<&Zones>,
    options: &CreateOptions,
) -> Result<Superblock, LayoutError> {
    let layout = plan(properties, zones, options)?;
    Ok(Superblock {
        volume_id: options.volume_id,
        generation: 1,
        created_unix_s: options.created_unix_s,
        layout,
        preset: options.preset.number,
        ack: options.ack,
        logged_write_bytes_max: options.logged_write_bytes_max,
        feature_incompat: superblock::features_of(&layout),
        // Of homes that are nowhere there is nothing to be told.
        feature_ro_compat: if layout.is_chain() { 0 } else { FEATURE_BLANK_MAP }
            | FEATURE_LOGS_TELL_ALL,
        label: options.label.clone(),
        map_device_id: None,
    })
}

/// The same on the devices at hand, with what their sectors must be.
///
/// # Errors
/// What [`create`] would refuse of them.
pub fn describe_on(io: &SyncIo<'_>, options: &CreateOptions) -> Result<Superblock, CreateError> {
    let options = on_devices(io, options)?;
    let superblock = describe(io.disk().properties(), io.disk().zones(), &options)?;
    data_devices::check_sectors(io, &superblock)?;
    Ok(superblock)
}

/// Creates a volume on the disk.
pub fn create(io: &mut SyncIo<'_>, options: &CreateOptions) -> Result<Superblock, CreateError> {
    let options = &on_devices(io, options)?;
    let superblock = describe(io.disk().properties(), io.disk().zones(), options)?;
    write_new(io, options, superblock, None)
}

/// The same with regions of the blank map of `region_bytes`, a power of two from 4096 on, instead of what suits the
/// size: for tests, in which a few kilobytes should have many, and for the demo, whose disk is to be no new one.
pub fn create_with_regions(
    io: &mut SyncIo<'_>,
    options: &CreateOptions,
    region_bytes: u64,
) -> Result<Superblock, CreateError> {
    let options = &on_devices(io, options)?;
    let superblock = describe(io.disk().properties(), io.disk().zones(), options)?;
    write_new(io, options, superblock, Some(region_bytes))
}

/// The same, with the data devices that are at hand.
fn on_devices(io: &SyncIo<'_>, options: &CreateOptions) -> Result<CreateOptions, CreateError> {
    Ok(CreateOptions { data_parts: data_devices::parts(io)?, ..options.clone() })
}

/// Creates a volume that may later grow to a device of `grow_to_bytes`: its snapshot slots have
/// room for the logs that it will have then. `region_bytes` as for [`create_with_regions`].
pub fn create_to_grow(
    io: &mut SyncIo<'_>,
    options: &CreateOptions,
    grow_to_bytes: u64,
    region_bytes: Option<u64>,
) -> Result<Superblock, CreateError> {
    let options = &on_devices(io, options)?;
    let superblock =
        describe_to_grow(io.disk().properties(), io.disk().zones(), options, Some(grow_to_bytes))?;
    write_new(io, options, superblock, region_bytes)
}

/// The superblock of the volume that `options` ask for, with room to grow if that is asked for, without touching any disk.
pub(crate) fn describe_to_grow(
    properties: &Properties,
    zones: Option<&Zones>,
    options: &CreateOptions,
    grow_to_bytes: Option<u64>,
) -> Result<Superblock, LayoutError> {
    let mut superblock = describe(properties, zones, options)?;
    let Some(grow_to_bytes) = grow_to_bytes else { return Ok(superblock) };
    let layout = &mut superblock.layout;
    if grow_to_bytes < layout.device_bytes {
        return Err(LayoutError {
            field: LayoutField::DeviceBytes,
            expected: format!("at most the {grow_to_bytes} that it is to grow to (--grow-to)"),
            found: layout.device_bytes,
            advice: "name a larger size to grow to, or leave it out".into(),
        });
    }
    if options.preset.layout.has_groups_of_any_size() {
        let as_grown = CreateOptions {
            group_bytes: Some(layout.group_bytes),
            log_bytes: Some(layout.log_bytes),
            device_bytes: None,
            ..options.clone()
        };
        let enlarged = Properties { capacity_bytes: grow_to_bytes, ..properties.clone() };
        let slot_bytes = plan(&enlarged, None, &as_grown)?.slot_bytes.max(layout.slot_bytes);
        layout.slot_bytes = slot_bytes;
        layout.slot_offsets[1] = layout.superblock_offsets()[2].saturating_sub(slot_bytes);
        layout.groups_offset = (layout.slot_offsets[0] + slot_bytes).next_multiple_of(1 << 20);
        let room = layout.slot_offsets[1].saturating_sub(layout.groups_offset);
        layout.group_count = u32::try_from(room / layout.group_bytes).unwrap_or(u32::MAX);
        layout.validate()?;
    }
    Ok(superblock)
}

fn write_new(
    io: &mut SyncIo<'_>,
    options: &CreateOptions,
    mut superblock: Superblock,
    region_bytes: Option<u64>,
) -> Result<Superblock, CreateError> {
    if !options.force {
        refuse_what_is_used(io)?;
    }
    data_devices::create(io, &superblock)?;
    if !map_device::create(io, &mut superblock)? {
        let place = MapPlace::of_layout(&superblock.layout);
        write_empty_snapshots(io, &superblock, &place)?;
    }
    if superblock.has_several_devices() {
        superblock.feature_ro_compat |= FEATURE_GENERATIONS;
    }
    if superblock.has_blank_map() {
        let fitting = BlankMapHeader::region_bytes_for(superblock.layout.client_bytes());
        blanks::create(io, &superblock, region_bytes.unwrap_or(fitting))?;
    }
    generations::begin(io, &superblock)?;
    without_log::keep_superblock(io, &superblock);
    write_superblocks(io, &superblock)?;
    Ok(superblock)
}

/// Looks at both ends of the device for anything somebody may still need, and all over it for what is left of a volume
/// of ours. What cannot be read may be anything.
fn refuse_what_is_used(io: &mut SyncIo<'_>) -> Result<(), CreateError> {
    let properties = io.disk().properties();
    let (device, bytes) = (properties.name.clone(), properties.capacity_bytes);
    // Our own first: their ends may be what was lost of them.
    let remains = look_for_remains(io)?;
    refuse(io, &device, (Lane::MAIN, bytes), remains)?;
    // Other devices are written to as well, and nobody may lose what is on them any sooner.
    if let Some(bytes) = map_device::bytes(io) {
        let remains = look_for_remains_on(io, map_device::LANE, bytes)?;
        let of = format!("the map device of {device}");
        refuse(io, &of, (map_device::LANE, bytes), remains)?;
    }
    let data: Vec<(String, u64)> = io
        .data_disks()
        .map(|disk| (disk.properties().name.clone(), disk.properties().capacity_bytes))
        .collect();
    for (position, (name, bytes)) in (0..).zip(data) {
        let remains = look_for_remains_on(io, Lane::data(position), bytes)?;
        refuse(io, &name, (Lane::data(position), bytes), remains)?;
    }
    Ok(())
}

/// Refuses a disk that is to become a part of another, if there is anything in its first `bytes`: as a part it would show
/// little of that. Changes nothing.
pub fn refuse_used_part(io: &mut SyncIo<'_>, bytes: u64) -> Result<(), CreateError> {
    let device = io.disk().properties().name.clone();
    let remains = look_for_remains(io)?;
    refuse(io, &device, (Lane::MAIN, bytes), remains)
}

/// Refuses one of the devices, which has `bytes`, if there is anything on it.
fn refuse(
    io: &mut SyncIo<'_>,
    device: &str,
    (lane, bytes): (Lane, u64),
    remains: Vec<Finding>,
) -> Result<(), CreateError> {
    let device = device.to_owned();
    if !remains.is_empty() {
        return Err(CreateError::Volume { device, found: Contents::Known(remains).to_string() });
    }
    match probe_device(bytes, |offset, len| io.read(At { lane, offset }, len))? {
        contents if contents.is_empty() => Ok(()),
        contents => Err(CreateError::InUse { device, found: contents.to_string() }),
    }
}

/// An empty map in slot 0, nothing in slot 1.
pub(crate) fn write_empty_snapshots(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    place: &MapPlace,
) -> Result<(), CreateError> {
    let layout = &superblock.layout;
    let mut items = Vec::new();
    if layout.log_count() > 0 {
        items.push(BodyItem::Log(LogState { log_index: 0, position: 0 }));
        items.push(BodyItem::Claim(0));
    }
    let mut writer = BodyWriter::new();
    let mut body = vec![0; 4096];
    let mut items = items.into_iter();
    let filled = writer.fill(&mut body, &mut items)?;
    writer.fill(&mut [0; 4096], &mut items)?;
    let summary = writer.summary().unwrap_or_default();
    let header = SnapshotHeader {
        volume_id: superblock.volume_id,
        snapshot_number: 0,
        record_sequence: 0,
        flags: SnapshotHeader::flags_of(layout),
        body: summary,
    };
    io.write(place.header(1), &[0; 4096])?;
    for slot in 0..2 {
        io.write(place.copy(slot), &[0; 4096])?;
    }
    if filled > 0 {
        io.write(place.body(0), &body[..filled])?;
    }
    io.flush()?;
    Ok(write_snapshot_header(io, place, &header)?)
}

/// Makes a snapshot whose body is durable the newest one: its header, and once that is durable the
/// copy, which says that the header was.
pub(crate) fn write_snapshot_header(
    io: &mut SyncIo<'_>,
    place: &MapPlace,
    header: &SnapshotHeader,
) -> Result<(), DiskError> {
    let slot = header.slot() as usize;
    for at in [place.header(slot), place.copy(slot)] {
        io.write(at, &header.encode())?;
        io.flush()?;
    }
    Ok(())
}

/// Writes every copy with a flush between, so that at any moment one is sound: first those that are damaged or
/// missing, the newest sound one last. A cut may tear the one being written, and until another one says the
/// same, nothing else may hold what it held.
pub(crate) fn write_superblocks(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
) -> Result<(), DiskError> {
    let offsets = superblock.layout.superblock_offsets();
    let mut copies: Vec<_> = (0..COPIES)
        .map(|copy| (generation_at(io, superblock, copy, offsets[copy as usize]), copy))
        .collect();
    // Of equals the first one comes last.
    copies.sort_by_key(|(generation, copy)| (*generation, COPIES - copy));
    for (_, copy) in copies {
        io.write(offsets[copy as usize], &superblock.encode(copy))?;
        io.flush()?;
    }
    Ok(())
}

/// The generation of this volume's sound copy there, if there is one.
fn generation_at(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    copy: u32,
    offset: u64,
) -> Option<u64> {
    let bytes = io.read(offset, 4096).ok()?;
    let found = Superblock::decode(&bytes, copy).ok()?;
    (found.volume_id == superblock.volume_id).then_some(found.generation)
}
