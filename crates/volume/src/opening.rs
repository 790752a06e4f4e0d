//! What opening a volume needs before its engine starts: the clock, what is read of the devices, and the engine's setup.
//!
//! Nothing here writes to a device, and nothing here decides what is stored where.

use crate::blanks::{self, Loaded};
use crate::lanes::Lanes;
use crate::map_device;
use crate::open::OpenError;
use crate::presets::NamedPreset;
use crate::sync_io::SyncIo;
use crate::tracks;
use nearhead_disk::{Disk, Nanos, Tracks, Zones};
use nearhead_engine::{Config, Damage, DamageKind, MapPlace, Setup};
use nearhead_format::{Layout, Superblock};
use std::sync::Arc;
use std::time::Instant;

/// The bands of the client's address space, if its data is apart from the logs in the bands of a
/// shingled disk.
pub(crate) fn bands_of(layout: &Layout, zones: Option<&Zones>) -> Option<Zones> {
    let data = layout.data_offset..layout.data_offset + layout.client_bytes();
    let is_shingled = layout.logs_are_apart() && layout.data_parts.is_empty() && !layout.is_chain();
    zones.filter(|_| is_shingled).and_then(|zones| zones.part(data).ok())
}

/// What of a volume was read beside its superblock, before its engine starts.
pub(crate) struct Beside {
    pub(crate) map: MapPlace,
    pub(crate) blanks: Loaded,
    pub(crate) tracks: Vec<Arc<Tracks>>,
    pub(crate) log_device_tracks: Vec<Vec<Arc<Tracks>>>,
    /// A track table may say more than could be read.
    pub(crate) tracks_are_doubtful: bool,
}

impl Beside {
    pub(crate) fn read(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<Self, OpenError> {
        let map = map_device::find(io, superblock)?;
        let blanks = blanks::load(io, superblock);
        // Where records stand in their order nobody could follow it far.
        let anywhere = superblock.layout.records_anywhere;
        let tracks = if anywhere { tracks::read(io, superblock) } else { Vec::new() };
        let log_device_tracks = tracks::read_of_log_devices(io, superblock);
        let tracks_are_doubtful = anywhere && tracks::are_doubtful(io, superblock);
        Ok(Self { map, blanks, tracks, log_device_tracks, tracks_are_doubtful })
    }
}

pub(crate) fn setup<D: Disk>(
    lanes: &Lanes<D>,
    (superblock, preset): (&Superblock, &NamedPreset),
    beside: Beside,
    configure: impl FnOnce(&Superblock, &mut Config),
) -> Setup {
    let disk = lanes.main();
    let mut config = preset.config(superblock, disk.properties());
    config.tracks = beside.tracks;
    config.log_device_tracks = beside.log_device_tracks;
    configure(superblock, &mut config);
    Setup {
        config,
        layout: superblock.layout,
        map: beside.map,
        blanks: beside.blanks.found,
        volume_id: superblock.volume_id,
        properties: disk.properties().clone(),
        data_devices: lanes.data_properties(),
        absent_devices: lanes.absent_data(),
        map_device: lanes.map().map(|map| map.properties().clone()),
        cache_device: lanes.cache().map(|cache| cache.properties().clone()),
        bands: bands_of(&superblock.layout, disk.zones()),
        tracks_are_doubtful: beside.tracks_are_doubtful,
    }
}

/// By which time a volume is opened again.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// That of the machine, counted from `start`.
    Real {
        /// The instant of `Nanos::ZERO`.
        start: Instant,
    },
    /// That of a model, at `now`.
    Virtual {
        /// When.
        now: Nanos,
    },
}

impl Clock {
    /// The same at `now`, if it is a model's.
    pub(crate) fn at(self, now: Nanos) -> Self {
        match self {
            Self::Real { .. } => self,
            Self::Virtual { .. } => Self::Virtual { now },
        }
    }

    pub(crate) fn io<D: Disk>(self, lanes: &mut Lanes<D>) -> SyncIo<'_> {
        match self {
            Self::Real { start } => lanes.in_real_time(start),
            Self::Virtual { now } => lanes.in_virtual_time(now),
        }
    }
}

/// What was found before the engine looked: copies of the superblock, and what is wrong with the blank map.
pub(crate) fn damage_of(superblocks: Vec<String>, blanks: Vec<String>) -> Vec<Damage> {
    let superblocks = superblocks.into_iter().map(|text| DamageKind::Superblock.told(text));
    superblocks.chain(blanks.into_iter().map(|text| DamageKind::BlankMap.told(text))).collect()
}
