//! Where a volume's map lives: in the slots of its own disk, or on a map device joined to it.

use crate::create::{CreateError, write_empty_snapshots};
use crate::open::OpenError;
use crate::sync_io::SyncIo;
use nearhead_disk::{DiskError, DiskErrorKind};
use nearhead_engine::JournalPlace;
use nearhead_format::{Layout, MapDevice, Superblock, VolumeId};

/// Where snapshots and journal are, in the joined disk's addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapPlace {
    slot_offsets: [u64; 2],
    slot_bytes: u64,
    pub(crate) journal: JournalPlace,
}

impl MapPlace {
    fn new(base: u64, header: &MapDevice) -> Self {
        Self {
            slot_offsets: header.slot_offsets.map(|offset| base + offset),
            slot_bytes: header.slot_bytes,
            journal: JournalPlace {
                offset: base + header.journal_offset,
                bytes: header.journal_bytes,
            },
        }
    }

    /// The volume's layout with the slots on the map device.
    pub(crate) fn apply(&self, layout: Layout) -> Layout {
        Layout { slot_offsets: self.slot_offsets, slot_bytes: self.slot_bytes, ..layout }
    }
}

/// Names the map device of a volume: its id backwards, so that neither is taken for the other.
fn device_id(volume_id: VolumeId) -> VolumeId {
    let mut id = volume_id;
    id.reverse();
    id[0] ^= 0x80;
    id
}

/// Prepares the joined map device, if there is one, and notes it in the superblock.
pub(crate) fn create(
    io: &mut SyncIo<'_>,
    superblock: &mut Superblock,
) -> Result<bool, CreateError> {
    let Some((base, bytes)) = io.disk().map_region() else { return Ok(false) };
    let id = device_id(superblock.volume_id);
    let header = MapDevice::plan(bytes, superblock.volume_id, id).ok_or_else(|| DiskError {
        kind: DiskErrorKind::Invalid,
        detail: format!(
            "map device: expected at least {} bytes, found {bytes}; use a larger one",
            nearhead_format::map_device::MAP_DEVICE_BYTES_MIN
        ),
    })?;
    superblock.map_device_id = Some(id);
    let place = MapPlace::new(base, &header);
    let on_map = Superblock { layout: place.apply(superblock.layout), ..superblock.clone() };
    write_empty_snapshots(io, &on_map)?;
    io.write(base, &header.encode())?;
    io.flush()?;
    Ok(true)
}

/// The superblock as the engine sees it: with the slots where the map really is. Never to be written.
pub(crate) fn on_map(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
) -> Result<Superblock, DiskError> {
    let place = find(io, superblock)
        .map_err(|error| DiskError { kind: DiskErrorKind::Invalid, detail: error.to_string() })?;
    let layout = place.map_or(superblock.layout, |place| place.apply(superblock.layout));
    Ok(Superblock { layout, ..superblock.clone() })
}

/// The map device that is joined: whose it is, its own identity, and bytes of a slot. None if none is joined.
pub(crate) fn joined(io: &mut SyncIo<'_>) -> Result<Option<Joined>, DiskError> {
    let Some((base, bytes)) = io.disk().map_region() else { return Ok(None) };
    let header = MapDevice::decode(&io.read(base, 4096)?, bytes).map_err(|error| DiskError {
        kind: DiskErrorKind::Invalid,
        detail: format!("{error}; this is no map device of a volume"),
    })?;
    let (volume_id, id) = (header.volume_id, header.map_device_id);
    Ok(Some(Joined { volume_id, id, slot_bytes: header.slot_bytes }))
}

/// What a map device says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    pub(crate) volume_id: VolumeId,
    pub(crate) id: VolumeId,
    pub(crate) slot_bytes: u64,
}

/// Finds the map device a superblock names.
pub(crate) fn find(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
) -> Result<Option<MapPlace>, OpenError> {
    let device = io.disk().properties().name.clone();
    let refuse = |problem: String| Err(OpenError::Recovery { device: device.clone(), problem });
    let (id, base, bytes) = match (superblock.map_device_id, io.disk().map_region()) {
        (None, None) => return Ok(None),
        (Some(_), None) => {
            return refuse(
                "the volume's map is on a map device, and none was given; \
                 name it with --map-device"
                    .to_owned(),
            );
        }
        (None, Some(_)) => {
            return refuse(
                "the volume was created without a map device; leave --map-device out".to_owned(),
            );
        }
        (Some(id), Some((base, bytes))) => (id, base, bytes),
    };
    let header = match MapDevice::decode(&io.read(base, 4096)?, bytes) {
        Ok(header) => header,
        Err(error) => return refuse(format!("{error}; this is not the volume's map device")),
    };
    if header.volume_id != superblock.volume_id || header.map_device_id != id {
        let hex = |id: &VolumeId| format!("{:032x}", u128::from_be_bytes(*id));
        return refuse(format!(
            "expected the map device of volume {}, found that of volume {}; name the right one",
            hex(&superblock.volume_id),
            hex(&header.volume_id)
        ));
    }
    Ok(Some(MapPlace::new(base, &header)))
}
