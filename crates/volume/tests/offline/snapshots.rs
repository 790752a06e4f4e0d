//! Snapshots of the map as a test wants them, larger than it would like to fill by writing.

use crate::medium::Medium;
use nearhead_format::snapshot::{BodyItem, BodyWriter};
use nearhead_format::{Entry, Place, SnapshotHeader, Superblock};
use nearhead_models::Store;
use nearhead_volume::dump::{read_body, read_slots};

/// The map's line of a block that reads as zeros.
pub(crate) fn zero(block: u64) -> Entry {
    Entry { home_sector: block * 8, len_sectors: 8, place: Place::Zero, crc: 0 }
}

/// Writes snapshot `number` with these items to its slot, header and copy.
pub(crate) fn put(
    medium: &mut Medium,
    superblock: &Superblock,
    (number, flags): (u64, u32),
    items: impl IntoIterator<Item = BodyItem>,
) -> SnapshotHeader {
    let place = medium.map_place();
    let mut items = items.into_iter();
    let mut writer = BodyWriter::new();
    let mut body = vec![0; place.slots.body_bytes_max() as usize];
    let filled = writer.fill(&mut body, &mut items).unwrap();
    writer.fill(&mut [0; 4096], &mut items).unwrap();
    let summary = writer.summary().expect("the slot has room for all items");
    let (volume_id, record_sequence) = (superblock.volume_id, 0);
    let header = SnapshotHeader {
        volume_id,
        snapshot_number: number,
        record_sequence,
        flags,
        body: summary,
    };
    let slot = header.slot() as usize;
    let image = medium.of_map();
    image.write(place.body(slot).offset, &body[..filled]).unwrap();
    for at in [place.header(slot), place.copy(slot)] {
        image.write(at.offset, &header.encode()).unwrap();
    }
    header
}

/// The snapshot in a slot, which is sound, with all its items.
pub(crate) fn items(
    medium: &Medium,
    superblock: &Superblock,
    slot: usize,
) -> (SnapshotHeader, Vec<BodyItem>) {
    let mut items = Vec::new();
    let header = medium.clone().with(|io| {
        let found = read_slots(io, superblock)[slot].clone();
        assert!(found.is_sound() && found.header_problem.is_none(), "{found:?}");
        let header = found.header.unwrap();
        read_body(io, found.at, &header, &mut |item| items.push(item)).unwrap();
        header
    });
    (header, items)
}
