//! Bytes as they go to a disk and stand on it: the content of a transfer, and which records begin where.

use nearhead_disk::{Payload, total_len};
use nearhead_format::Layout;
use nearhead_format::record::peek;
use nearhead_models::{MemoryStore, Store};

/// The content of a transfer in one piece.
pub fn bytes_of(parts: &[Payload]) -> Vec<u8> {
    let mut bytes = vec![0; total_len(parts)];
    let mut at = 0;
    for part in parts {
        part.copy_to(&mut bytes[at..at + part.len()]);
        at += part.len();
    }
    bytes
}

/// Sequence, log and device byte of every record whose beginning stands in a log.
pub fn records(layout: &Layout, image: &MemoryStore) -> Vec<(u64, u32, u64)> {
    let places = (0..layout.log_count())
        .flat_map(|log| (0..layout.log_blocks()).map(move |position| (log, position)));
    let found = places.filter_map(|(log, position)| {
        let offset = layout.log_block_offset(log, position)?;
        let mut bytes = [0; 512];
        image.read(offset, &mut bytes).unwrap();
        peek(&bytes).ok().map(|found| (found.sequence, log, offset))
    });
    found.collect()
}

/// The log and device byte of the newest one.
pub fn newest_record(layout: &Layout, image: &MemoryStore) -> (u32, u64) {
    let (_, log, offset) = records(layout, image).into_iter().max().expect("a record was written");
    (log, offset)
}
