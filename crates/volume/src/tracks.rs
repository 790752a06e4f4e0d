//! The track tables of a volume: where the tracks of its drive are, or those of each member of a striped array, kept so that records
//! can go where the head will be.
//!
//! No data depends on it: a table that cannot be read, or makes no sense, is none, and a volume without one puts its records where
//! they would go anyway. But a recovery must know that there may have been one ([`are_doubtful`]): records placed by it leave gaps.
//! It is written by `nearhead calibrate` alone.

use crate::sync_io::SyncIo;
use nearhead_disk::{
    At, DiskError, Lane, Properties, SECTOR_BYTES, Striping, TrackZone, Tracks, Turn,
};
use nearhead_format::data_device::{DATA_DEVICE_COPIES, DATA_HEADER_BYTES};
use nearhead_format::track_table::{
    TRACK_TABLE_BYTES, TRACK_TABLE_MAGIC, TRACK_TABLES_MAX, TRACK_ZONES_MAX, TrackTable, ZoneRow,
    track_table_at,
};
use nearhead_format::{DataDevice, FieldError, Superblock, VolumeId};
use std::fmt;
use std::sync::Arc;

/// Why it was not written.
#[derive(Debug)]
pub enum TracksNotWritten {
    /// Not one for each drive, or of more drives than there is room for.
    Count {
        /// How many there are.
        found: usize,
        /// How many drives the volume is on.
        drives: u32,
    },
    /// It does not fit.
    Table(FieldError),
    /// The disk.
    Disk(DiskError),
}

impl fmt::Display for TracksNotWritten {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { found, drives } if *drives > TRACK_TABLES_MAX => write!(
                formatter,
                "the track tables: expected at most {TRACK_TABLES_MAX} members, as there is room for no more, found {drives} (and \
                 {found} calibrations); name them when it is served, with `serve --calibration FILE` for each"
            ),
            Self::Count { found, drives } => write!(
                formatter,
                "the track tables: expected a calibration for each of {drives} drives, in their order, found {found}"
            ),
            Self::Table(error) => write!(formatter, "the track table: {error}"),
            Self::Disk(error) => write!(formatter, "the track table: {error}"),
        }
    }
}

impl std::error::Error for TracksNotWritten {}

/// The same of each further log device, in their order.
pub(crate) fn read_of_log_devices(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
) -> Vec<Vec<Arc<Tracks>>> {
    let parts = &superblock.layout.data_parts;
    let lanes = (parts.with_homes()..parts.bytes().len()).map(|at| Lane::data(at as u8));
    lanes
        .filter(|_| !superblock.layout.is_chain())
        .map(|lane| read_on(io, superblock, lane))
        .collect()
}

/// How many drives are behind a disk that each turn on their own.
fn drives(properties: &Properties) -> u32 {
    properties.striping.map_or(1, Striping::members)
}

/// Where the tracks of its drive are, or those of each member in their order, if the volume knows; those of some members alone are none.
pub fn read(io: &mut SyncIo<'_>, superblock: &Superblock) -> Vec<Arc<Tracks>> {
    read_on(io, superblock, Lane::MAIN)
}

fn read_on(io: &mut SyncIo<'_>, superblock: &Superblock, lane: Lane) -> Vec<Arc<Tracks>> {
    let members = 0..io.lane(lane).map_or(0, |disk| drives(disk.properties()));
    let found: Option<Vec<_>> = members
        .map(|member| {
            let at = At { lane, offset: track_table_at(member)? };
            read_one(io, superblock, at)
        })
        .collect();
    found.unwrap_or_default()
}

/// Whether a table of any drive of the volume is there and gives no tracks: it cannot be read, or is not sound.
pub(crate) fn are_doubtful(io: &mut SyncIo<'_>, superblock: &Superblock) -> bool {
    let parts = &superblock.layout.data_parts;
    let of_logs = parts.with_homes()..parts.bytes().len();
    let lanes: Vec<Lane> =
        std::iter::once(Lane::MAIN).chain(of_logs.map(|at| Lane::data(at as u8))).collect();
    lanes.into_iter().any(|lane| {
        let members = 0..io.lane(lane).map_or(0, |disk| drives(disk.properties()));
        let mut places = members.filter_map(track_table_at);
        places.any(|offset| {
            let bytes = io.read(At { lane, offset }, TRACK_TABLE_BYTES);
            bytes.map_or(true, |bytes| {
                let is_its_own = bytes.starts_with(&TRACK_TABLE_MAGIC)
                    && bytes.get(16..32) == Some(&superblock.volume_id[..]);
                is_its_own && tracks_of(&bytes, superblock).is_none()
            })
        })
    })
}

fn read_one(io: &mut SyncIo<'_>, superblock: &Superblock, at: At) -> Option<Arc<Tracks>> {
    let bytes = io.read(at, TRACK_TABLE_BYTES).ok()?;
    tracks_of(&bytes, superblock).map(Arc::new)
}

fn tracks_of(bytes: &[u8], superblock: &Superblock) -> Option<Tracks> {
    let table = TrackTable::decode(bytes, &superblock.volume_id).ok()?;
    let zones: Option<Vec<_>> = table.zones.iter().map(zone_of_row).collect();
    Tracks::of_units(table.period, zones?).ok()
}

/// What a row says, unless no group can be as short.
fn zone_of_row(row: &ZoneRow) -> Option<TrackZone> {
    let missing = u64::from(row.group_missing_sectors) * SECTOR_BYTES;
    let tracks_bytes = row.track_bytes.checked_mul(u64::from(row.group_tracks))?;
    Some(TrackZone {
        first_byte: row.first_byte,
        track_bytes: row.track_bytes,
        skew: Turn(row.skew),
        group_tracks: row.group_tracks,
        group_skew: Turn(row.group_skew),
        group_bytes: tracks_bytes.checked_sub(missing)?,
    })
}

fn row_of_zone(zone: &TrackZone) -> ZoneRow {
    // Both hold of all zones of `Tracks`: a group has the bytes of its tracks or fewer, by less than a track.
    let tracks_bytes = zone.track_bytes.saturating_mul(u64::from(zone.group_tracks));
    let missing = tracks_bytes.saturating_sub(zone.group_bytes) / SECTOR_BYTES;
    ZoneRow {
        first_byte: zone.first_byte,
        track_bytes: zone.track_bytes,
        skew: zone.skew.0,
        group_tracks: zone.group_tracks,
        group_skew: zone.group_skew.0,
        group_missing_sectors: missing as u32,
    }
}

/// Keeps them, durably, one for each drive. Of more zones than there is room for the first count.
///
/// # Errors
/// They are not as many as there are drives, or more than there is room for; the disk's.
pub fn write(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    tracks: &[Arc<Tracks>],
) -> Result<(), TracksNotWritten> {
    write_of(io, &superblock.volume_id, tracks)
}

/// The same on a further log device of a volume, by itself, whichever volume's it is; false if it is none.
///
/// # Errors
/// As [`write()`].
pub fn write_on_log_device(
    io: &mut SyncIo<'_>,
    tracks: &[Arc<Tracks>],
) -> Result<bool, TracksNotWritten> {
    let copies = (0..).zip(DATA_DEVICE_COPIES);
    let mut headers = copies.filter_map(|(copy, offset)| {
        let bytes = io.read(offset, DATA_HEADER_BYTES).ok()?;
        DataDevice::decode(&bytes, copy).ok()
    });
    let Some(header) = headers.next() else { return Ok(false) };
    write_of(io, &header.volume_id, tracks).map(|()| true)
}

fn write_of(
    io: &mut SyncIo<'_>,
    volume_id: &VolumeId,
    tracks: &[Arc<Tracks>],
) -> Result<(), TracksNotWritten> {
    let drives = drives(io.disk().properties());
    if tracks.len() != drives as usize || drives > TRACK_TABLES_MAX {
        return Err(TracksNotWritten::Count { found: tracks.len(), drives });
    }
    for (member, tracks) in (0..drives).zip(tracks) {
        write_one(io, volume_id, member, tracks)?;
    }
    io.flush().map_err(TracksNotWritten::Disk)
}

fn write_one(
    io: &mut SyncIo<'_>,
    volume_id: &VolumeId,
    member: u32,
    tracks: &Tracks,
) -> Result<(), TracksNotWritten> {
    let zones = tracks.zones().iter().take(TRACK_ZONES_MAX).map(row_of_zone);
    let properties = io.disk().properties();
    let table = TrackTable {
        volume_id: *volume_id,
        device_bytes: properties.capacity_bytes / u64::from(drives(properties)),
        period: tracks.period_units(),
        zones: zones.collect(),
    };
    let block = table.encode().map_err(TracksNotWritten::Table)?;
    let Some(at) = track_table_at(member) else { return Ok(()) };
    io.write(at, &block).map_err(TracksNotWritten::Disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{CreateOptions, create};
    use crate::presets::NamedPreset;
    use nearhead_disk::Nanos;
    use nearhead_models::{InstantDisk, MemoryStore, plain_properties};

    fn tracks() -> Arc<Tracks> {
        let zone = |first_byte, track_bytes| TrackZone {
            first_byte,
            track_bytes,
            skew: Turn(12_345),
            group_tracks: 3,
            group_skew: Turn(99),
            group_bytes: 0,
        };
        let shorter = TrackZone { group_bytes: (3 << 20) - 6 * 512, ..zone(50 << 20, 1 << 20) };
        let zones = vec![zone(0, 1 << 20), zone(40 << 20, 512 << 10), shorter];
        Tracks::new(8_333_333.25, zones).unwrap().into()
    }

    #[test]
    fn what_was_kept_is_read_again_and_what_is_damaged_is_none() {
        let mut disk = InstantDisk::new(
            plain_properties(64 << 20, 512),
            Box::new(MemoryStore::new()),
            Nanos::ZERO,
        );
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        let options = CreateOptions::new([7; 16], NamedPreset::by_name("nearhead").unwrap());
        let superblock = create(&mut io, &options).unwrap();
        assert_eq!(read(&mut io, &superblock), []);
        write(&mut io, &superblock, &[tracks()]).unwrap();
        assert_eq!(read(&mut io, &superblock), [tracks()]);
        let other = Superblock { volume_id: [8; 16], ..superblock.clone() };
        assert_eq!(read(&mut io, &other), [], "another volume's");
        io.write(track_table_at(0).unwrap(), &[0; 512]).unwrap();
        assert_eq!(read(&mut io, &superblock), []);
    }

    #[test]
    fn of_an_array_those_of_each_member_are_kept_and_those_of_some_are_none() {
        let striping = Striping::new(4, 64 << 10);
        let properties = Properties { striping, ..plain_properties(64 << 20, 512) };
        let mut disk = InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::ZERO);
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        let options = CreateOptions::new([7; 16], NamedPreset::by_name("nearhead").unwrap());
        let superblock = create(&mut io, &options).unwrap();
        let other = Arc::new(Tracks::new(8_333_444.0, tracks().zones().to_vec()).unwrap());
        let all = [tracks(), other, tracks(), tracks()];
        let refused = write(&mut io, &superblock, &all[..1]).unwrap_err().to_string();
        assert!(refused.contains("each of 4 drives") && refused.contains("found 1"), "{refused}");
        write(&mut io, &superblock, &all).unwrap();
        assert_eq!(read(&mut io, &superblock), all);
        io.write(track_table_at(3).unwrap(), &[0; 512]).unwrap();
        assert_eq!(read(&mut io, &superblock), []);
    }
}
