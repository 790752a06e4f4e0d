//! Bytes as they go to a disk and stand on it: the content of a transfer, and which records begin where.

pub use nearhead_disk::bytes_of;
use nearhead_format::Layout;
use nearhead_format::record::peek;
use nearhead_models::{MemoryStore, Store};

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
