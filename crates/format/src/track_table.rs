//! The track table: where the tracks of a volume's drive are, as a calibration found out.
//!
//! One block in the unused space between the second superblock copy and the blank map, at the same place on every volume. Nothing says
//! that it is there but itself: a program that does not know it loses nothing, one that does takes what is damaged, missing or of
//! another volume for none. It is a guess about a drive, also where a copy of the volume lies on another one: whoever follows it
//! compares with what happens. A volume on a striped array has a table for each member, one after the other, each with addresses
//! of that member.
//!
//! ```text
//! 96 KiB
//! | magic 8 | version 4 | zones 4 | volume 16 | device 8 | period 8 | zone 0: 32 | zone 1 | ... | zeros | crc 4 |
//!   a zone:   first byte 8, track bytes 8, skew 4, group tracks 4, group skew 4, group's missing sectors 4
//! ```

use crate::VolumeId;
use crate::blank_map::BLANK_MAP_OFFSET;
use crate::block::{SEALED_BYTES, SealError, check_rest_zero, open, seal};
use crate::bytes::FieldError;
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};

/// Where it is on the device, in bytes.
pub const TRACK_TABLE_OFFSET: u64 = 96 << 10;
/// Its size.
pub const TRACK_TABLE_BYTES: usize = SEALED_BYTES;
/// Most tables: of the first members of an array.
pub const TRACK_TABLES_MAX: u32 = 8;
/// Its first eight bytes.
pub const TRACK_TABLE_MAGIC: [u8; 8] = *b"NHTRACKS";
/// Its version.
pub const TRACK_TABLE_VERSION: u32 = 1;
/// Most zones.
pub const TRACK_ZONES_MAX: usize = (SEALED_BYTES - ZONES_AT - 4) / ZONE_BYTES;

const ZONES_AT: usize = 48;
const ZONE_BYTES: usize = 32;

const _: () = assert!(TRACK_ZONES_MAX == 126, "as docs/format.md says");
const _: () = assert!(
    TRACK_TABLE_OFFSET + TRACK_TABLES_MAX as u64 * TRACK_TABLE_BYTES as u64 <= BLANK_MAP_OFFSET,
    "what is behind them is the blank map's"
);

/// Where the table of a member is, if there is room for it.
pub fn track_table_at(member: u32) -> Option<u64> {
    let has_room = member < TRACK_TABLES_MAX;
    has_room.then(|| TRACK_TABLE_OFFSET + u64::from(member) * TRACK_TABLE_BYTES as u64)
}

/// Tracks that are alike; turns are in units of 2^-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRow {
    /// First device byte.
    pub first_byte: u64,
    /// Bytes of a track.
    pub track_bytes: u64,
    /// By how much a track is turned against the one before.
    pub skew: u32,
    /// Tracks of a group; 0 if there are no groups.
    pub group_tracks: u32,
    /// By how much the first track of a group is turned against the one before.
    pub group_skew: u32,
    /// By how many sectors of 512 bytes a group is shorter than its tracks are together.
    pub group_missing_sectors: u32,
}

/// What the table says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackTable {
    /// The volume.
    pub volume_id: VolumeId,
    /// Size of the device on which it was found out.
    pub device_bytes: u64,
    /// Length of a revolution, in units of 2^-16 ns.
    pub period: u64,
    /// The zones.
    pub zones: Vec<ZoneRow>,
}

impl TrackTable {
    /// Its 4096 bytes, if all zones fit.
    pub fn encode(&self) -> Result<[u8; SEALED_BYTES], FieldError> {
        if self.zones.len() > TRACK_ZONES_MAX {
            let expected = format_args!("at most {TRACK_ZONES_MAX}").to_string();
            return Err(FieldError::new("track table zones", expected, self.zones.len()));
        }
        let mut block = [0; SEALED_BYTES];
        put(&mut block, 0, &TRACK_TABLE_MAGIC);
        put(&mut block, 8, &TRACK_TABLE_VERSION.to_le_bytes());
        put(&mut block, 12, &(self.zones.len() as u32).to_le_bytes());
        put(&mut block, 16, &self.volume_id);
        put(&mut block, 32, &self.device_bytes.to_le_bytes());
        put(&mut block, 40, &self.period.to_le_bytes());
        for (index, zone) in self.zones.iter().enumerate() {
            let at = ZONES_AT + index * ZONE_BYTES;
            put(&mut block, at, &zone.first_byte.to_le_bytes());
            put(&mut block, at + 8, &zone.track_bytes.to_le_bytes());
            put(&mut block, at + 16, &zone.skew.to_le_bytes());
            put(&mut block, at + 20, &zone.group_tracks.to_le_bytes());
            put(&mut block, at + 24, &zone.group_skew.to_le_bytes());
            put(&mut block, at + 28, &zone.group_missing_sectors.to_le_bytes());
        }
        seal(&mut block);
        Ok(block)
    }

    /// Reads the table of the volume `volume_id`, trusting nothing. Whether its numbers make sense is for those to judge who compute
    /// with them.
    pub fn decode(bytes: &[u8], volume_id: &VolumeId) -> Result<Self, FieldError> {
        let block = open(bytes, TRACK_TABLE_MAGIC).map_err(|error| seal_field(&error))?;
        let version = u32_at(block, 8);
        if version != TRACK_TABLE_VERSION {
            return Err(FieldError::new("track table version", TRACK_TABLE_VERSION, version));
        }
        let found: VolumeId = array_at(block, 16);
        if found != *volume_id {
            let hex = |id: &VolumeId| format!("{:032x}", u128::from_be_bytes(*id));
            return Err(FieldError::new("track table volume_id", hex(volume_id), hex(&found)));
        }
        let count = u32_at(block, 12) as usize;
        if count > TRACK_ZONES_MAX {
            let expected = format_args!("at most {TRACK_ZONES_MAX}").to_string();
            return Err(FieldError::new("track table zones", expected, count));
        }
        let mut zones = Vec::with_capacity(count);
        for at in (0..count).map(|index| ZONES_AT + index * ZONE_BYTES) {
            zones.push(ZoneRow {
                first_byte: u64_at(block, at),
                track_bytes: u64_at(block, at + 8),
                skew: u32_at(block, at + 16),
                group_tracks: u32_at(block, at + 20),
                group_skew: u32_at(block, at + 24),
                group_missing_sectors: u32_at(block, at + 28),
            });
        }
        check_rest_zero(block, ZONES_AT + count * ZONE_BYTES)?;
        let (device_bytes, period) = (u64_at(block, 32), u64_at(block, 40));
        Ok(Self { volume_id: found, device_bytes, period, zones })
    }
}

fn seal_field(error: &SealError) -> FieldError {
    match error {
        SealError::Length { found } => FieldError::new("track table", SEALED_BYTES, found),
        SealError::Magic { found } => {
            FieldError::new("track table magic", "\"NHTRACKS\"", format_args!("bytes {found:02x?}"))
        }
        SealError::Checksum { expected, found } => FieldError::new(
            "track table checksum",
            format_args!("{expected:08x}"),
            format_args!("{found:08x}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::{assert_same_bytes, for_every_bit_flip, golden};

    const VOLUME: VolumeId = *b"\xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf";

    fn zone(first_byte: u64) -> ZoneRow {
        ZoneRow {
            first_byte,
            track_bytes: 614_400,
            skew: 0x2446_8ACE,
            group_tracks: 65,
            group_skew: 0x3000_0001,
            group_missing_sectors: 0,
        }
    }

    fn table() -> TrackTable {
        let zones = vec![
            zone(0),
            ZoneRow { group_tracks: 0, ..zone(19_142_246_400) },
            ZoneRow { group_missing_sectors: 0x0605, ..zone(1 << 35) },
        ];
        TrackTable { volume_id: VOLUME, device_bytes: 1 << 37, period: 3_995_340 << 16, zones }
    }

    #[test]
    fn it_has_the_bytes_that_an_independent_writer_gives_it_and_comes_back() {
        let block = table().encode().unwrap();
        assert_same_bytes(&block, &golden(include_str!("../golden/track_table.hex")));
        assert_eq!(TrackTable::decode(&block, &VOLUME), Ok(table()));
        let full = TrackTable { zones: vec![zone(7); TRACK_ZONES_MAX], ..table() };
        assert_eq!(TrackTable::decode(&full.encode().unwrap(), &VOLUME), Ok(full.clone()));
        let more = TrackTable { zones: vec![zone(7); TRACK_ZONES_MAX + 1], ..full };
        assert!(more.encode().unwrap_err().to_string().contains("at most 126, found 127"));
    }

    #[test]
    fn no_flipped_bit_goes_unnoticed_and_none_panics() {
        let block = table().encode().unwrap();
        for_every_bit_flip(&block, |damaged, at| {
            assert!(TrackTable::decode(damaged, &VOLUME).is_err(), "bit {at}");
        });
    }

    #[test]
    fn what_is_another_volumes_or_from_another_program_is_refused_with_the_reason() {
        let block = table().encode().unwrap();
        let why = |change: &dyn Fn(&mut [u8; SEALED_BYTES])| {
            let mut changed = block;
            change(&mut changed);
            seal(&mut changed);
            TrackTable::decode(&changed, &VOLUME).unwrap_err().to_string()
        };
        assert!(why(&|block| block[8] = 2).contains("version: expected 1, found 2"));
        assert!(why(&|block| block[16] = 0).contains("volume_id"));
        assert!(why(&|block| block[12] = 127).contains("at most 126, found 127"));
        assert!(why(&|block| block[12] = 1).contains("reserved"));
        assert!(TrackTable::decode(&block[1..], &VOLUME).is_err());
    }
}
