//! Where a volume's map lives: in the slots of its own disk, or on a map device beside it.
//!
//! The superblock says which map device is the volume's, and the map device says whose it is. One without the other, or
//! with another's, is refused before anything else on it is believed.

use crate::create::{CreateError, write_empty_snapshots};
use crate::data_devices;
use crate::open::OpenError;
use crate::sync_io::SyncIo;
use nearhead_disk::{At, DiskError, DiskErrorKind, Lane};
use nearhead_engine::MapPlace;
use nearhead_format::layout::SLOT_BYTES_MIN;
use nearhead_format::{MapDevice, Superblock, VolumeId};

/// Which of a volume's devices is the one for its map.
pub(crate) const LANE: Lane = Lane::MAP;

/// Where the header of a map device stands.
const HEADER: At = At { lane: LANE, offset: 0 };
const HEADER_BYTES: usize = 4096;

/// Names the map device of a volume: its id backwards, so that neither is taken for the other.
fn device_id(volume_id: VolumeId) -> VolumeId {
    let mut id = volume_id;
    id.reverse();
    id[0] ^= 0x80;
    id
}

/// Size of the map device, if there is one.
pub(crate) fn bytes(io: &SyncIo<'_>) -> Option<u64> {
    io.lane(LANE).map(|disk| disk.properties().capacity_bytes)
}

/// Prepares the map device, if there is one, and notes it in the superblock; says whether there is.
pub(crate) fn create(
    io: &mut SyncIo<'_>,
    superblock: &mut Superblock,
) -> Result<bool, CreateError> {
    let Some(bytes) = bytes(io) else { return Ok(false) };
    let id = device_id(superblock.volume_id);
    let header = MapDevice::plan(bytes, superblock.volume_id, id).ok_or_else(|| DiskError {
        kind: DiskErrorKind::Invalid,
        detail: format!(
            "map device: expected at least {} bytes, found {bytes}; use a larger one",
            nearhead_format::map_device::MAP_DEVICE_BYTES_MIN
        ),
    })?;
    let least = SLOT_BYTES_MIN + superblock.layout.fragment_room_bytes();
    if superblock.layout.fragments && header.slot_bytes < least {
        return Err(CreateError::Disk(DiskError {
            kind: DiskErrorKind::Invalid,
            detail: format!(
                "map device: expected room for two snapshots of {least} bytes, found {} for each; use a larger one, or a volume without fragments",
                header.slot_bytes
            ),
        }));
    }
    superblock.map_device_id = Some(id);
    write_empty_snapshots(io, superblock, &MapPlace::of_device(LANE, &header))?;
    io.write(HEADER, &header.encode())?;
    io.flush()?;
    Ok(true)
}

/// Reads the header's block. Where that fails each of its sectors is read on its own, as one of the two copies in it is enough:
/// sectors that cannot be read are zeros. The generation of the older copy is one that the volume's own device accepts.
pub(crate) fn read_header(io: &mut SyncIo<'_>) -> Result<Vec<u8>, DiskError> {
    let error = match io.read(HEADER, HEADER_BYTES) {
        Ok(bytes) => return Ok(bytes.to_vec()),
        Err(error) => error,
    };
    let sector = io.lane(LANE).map_or(HEADER_BYTES, |disk| disk.properties().sector_bytes as usize);
    let mut block = vec![0; HEADER_BYTES];
    let mut is_any_read = false;
    for (number, bytes) in block.chunks_exact_mut(sector.clamp(512, HEADER_BYTES)).enumerate() {
        let at = HEADER + (number * bytes.len()) as u64;
        if let Ok(found) = io.read(at, bytes.len()) {
            bytes.copy_from_slice(&found);
            is_any_read = true;
        }
    }
    let has_copy = block.iter().any(|byte| *byte != 0);
    if is_any_read && has_copy { Ok(block) } else { Err(error) }
}

/// The map device that is there, whoever it belongs to. None if there is none.
pub(crate) fn joined(io: &mut SyncIo<'_>) -> Result<Option<Joined>, DiskError> {
    let Some(bytes) = bytes(io) else { return Ok(None) };
    let header = MapDevice::decode(&read_header(io)?, bytes).map_err(|error| DiskError {
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

/// Finds the map of a volume, on the map device that its superblock names if it names one. Where the volume has data devices it is on
/// those, so whoever comes with a superblock and has not looked for them has them joined.
pub(crate) fn find(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<MapPlace, OpenError> {
    if io.order().len() < superblock.layout.data_parts.bytes().len() {
        data_devices::join(io, superblock)?;
    }
    let device = io.disk().properties().name.clone();
    let refuse = |problem: String| Err(OpenError::Recovery { device: device.clone(), problem });
    let (id, bytes) = match (superblock.map_device_id, bytes(io)) {
        (None, None) => return Ok(MapPlace::of_layout(&superblock.layout)),
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
        (Some(id), Some(bytes)) => (id, bytes),
    };
    let header = match MapDevice::decode(&read_header(io)?, bytes) {
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
    Ok(MapPlace::of_device(LANE, &header))
}

/// The same for commands that know no other error than that of a disk.
pub(crate) fn place(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<MapPlace, DiskError> {
    find(io, superblock)
        .map_err(|error| DiskError { kind: DiskErrorKind::Invalid, detail: error.to_string() })
}
