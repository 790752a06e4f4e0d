//! The track table of a volume: where the tracks of its drive are, kept so that records can go where the head will be.
//!
//! Nothing depends on it: what cannot be read, or makes no sense, is none, and a volume without one puts its records where they
//! would go anyway. It is written by whoever calibrated the drive, and by nobody else.

use crate::sync_io::SyncIo;
use nearhead_disk::{DiskError, TrackZone, Tracks, Turn};
use nearhead_format::track_table::{
    TRACK_TABLE_BYTES, TRACK_TABLE_OFFSET, TRACK_ZONES_MAX, TrackTable, ZoneRow,
};
use nearhead_format::{FieldError, Superblock};
use std::fmt;

/// Why it was not written.
#[derive(Debug)]
pub enum TracksNotWritten {
    /// It does not fit.
    Table(FieldError),
    /// The disk.
    Disk(DiskError),
}

impl fmt::Display for TracksNotWritten {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(error) => write!(formatter, "the track table: {error}"),
            Self::Disk(error) => write!(formatter, "the track table: {error}"),
        }
    }
}

impl std::error::Error for TracksNotWritten {}

/// Where its drive's tracks are, if the volume knows.
pub fn read(io: &mut SyncIo<'_>, superblock: &Superblock) -> Option<Tracks> {
    let bytes = io.read(TRACK_TABLE_OFFSET, TRACK_TABLE_BYTES).ok()?;
    let table = TrackTable::decode(&bytes, &superblock.volume_id).ok()?;
    let zones = table.zones.iter().map(|row| TrackZone {
        first_byte: row.first_byte,
        track_bytes: row.track_bytes,
        skew: Turn(row.skew),
        group_tracks: row.group_tracks,
        group_skew: Turn(row.group_skew),
    });
    Tracks::of_units(table.period, zones.collect()).ok()
}

/// Keeps them, durably. Of more zones than there is room for the first count.
///
/// # Errors
/// The disk's.
pub fn write(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    tracks: &Tracks,
) -> Result<(), TracksNotWritten> {
    let zones = tracks.zones().iter().take(TRACK_ZONES_MAX).map(|zone| ZoneRow {
        first_byte: zone.first_byte,
        track_bytes: zone.track_bytes,
        skew: zone.skew.0,
        group_tracks: zone.group_tracks,
        group_skew: zone.group_skew.0,
    });
    let table = TrackTable {
        volume_id: superblock.volume_id,
        device_bytes: io.disk().properties().capacity_bytes,
        period: tracks.period_units(),
        zones: zones.collect(),
    };
    let block = table.encode().map_err(TracksNotWritten::Table)?;
    io.write(TRACK_TABLE_OFFSET, &block).map_err(TracksNotWritten::Disk)?;
    io.flush().map_err(TracksNotWritten::Disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{CreateOptions, create};
    use crate::presets::NamedPreset;
    use nearhead_disk::Nanos;
    use nearhead_models::{InstantDisk, MemoryStore, plain_properties};

    fn tracks() -> Tracks {
        let zone = |first_byte, track_bytes| TrackZone {
            first_byte,
            track_bytes,
            skew: Turn(12_345),
            group_tracks: 3,
            group_skew: Turn(99),
        };
        Tracks::new(8_333_333.25, vec![zone(0, 1 << 20), zone(40 << 20, 512 << 10)]).unwrap()
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
        assert_eq!(read(&mut io, &superblock), None);
        write(&mut io, &superblock, &tracks()).unwrap();
        assert_eq!(read(&mut io, &superblock), Some(tracks()));
        let other = Superblock { volume_id: [8; 16], ..superblock.clone() };
        assert_eq!(read(&mut io, &other), None, "another volume's");
        io.write(TRACK_TABLE_OFFSET, &[0; 512]).unwrap();
        assert_eq!(read(&mut io, &superblock), None);
    }
}
