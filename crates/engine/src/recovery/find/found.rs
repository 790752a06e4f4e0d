//! A record that was found: what its header says, and which of its chunks are what they were.
//!
//! What stands where a record could be is believed only if it says that it belongs exactly there, and its checksums hold.

use crate::config::Setup;
use crate::recovery::bounds::{record_past_volume, sequence_fits};
use nearhead_format::Layout;
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{Peek, RecordHeader, RecordIdentity};

/// What every scan needs to know.
#[derive(Clone)]
pub(in crate::recovery) struct ScanContext {
    pub(in crate::recovery) layout: Layout,
    pub(in crate::recovery) volume_id: [u8; 16],
    /// Records up to this sequence are in the snapshot.
    pub(in crate::recovery) floor_sequence: u64,
}

impl ScanContext {
    pub(in crate::recovery) fn new(setup: &Setup) -> Self {
        Self { layout: setup.layout, volume_id: setup.volume_id, floor_sequence: 0 }
    }

    pub(in crate::recovery) fn block(&self) -> usize {
        self.layout.log_block_bytes as usize
    }
}

/// A record found in a log.
#[derive(Clone, Debug)]
pub(in crate::recovery) struct Found {
    pub(in crate::recovery) header: RecordHeader,
    pub(in crate::recovery) blocks: u32,
    /// For each chunk in order, whether its checksum holds.
    pub(in crate::recovery) chunks_sound: Vec<bool>,
    /// Block and blocks of its header's copy, if it was found on the map's journal.
    pub(in crate::recovery) journal: Option<(u32, u32)>,
    /// What it names that does not lie on the volume.
    pub(in crate::recovery) past_volume: Option<String>,
}

impl Found {
    pub(in crate::recovery) fn is_sound(&self) -> bool {
        self.chunks_sound.iter().all(|sound| *sound)
    }
}

/// A record that says that it belongs where it stands, and was not sound when that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recovery) struct Remains {
    /// Which record it says it is.
    pub(in crate::recovery) sequence: u64,
    /// Device byte where it begins.
    pub(in crate::recovery) offset: u64,
}

/// The record at the start of `bytes` that says what `peeked` says, whatever its chunks are; `None` if its
/// header does not hold or `bytes` end before it.
pub(super) fn found_at(bytes: &[u8], peeked: &Peek, context: &ScanContext) -> Option<Found> {
    let record_bytes = peeked.record_bytes(context.block());
    let bytes = bytes.get(..record_bytes)?;
    let header = RecordHeader::decode(bytes.get(..peeked.header_bytes as usize)?).ok()?;
    let identity = RecordIdentity {
        volume_id: context.volume_id,
        log_index: peeked.log_index,
        position: peeked.position,
    };
    header.verify_identity(&identity).ok()?;
    if !sequence_fits(&header) {
        return None;
    }
    let past_volume = record_past_volume(&header, &context.layout);
    let payload = &bytes[peeked.header_bytes as usize..];
    let chunks_sound = header
        .chunks()
        .map(|chunk| {
            let from = chunk.payload_sector as usize * 512;
            let to = from + usize::from(chunk.len_sectors) * 512;
            payload
                .get(from..to)
                .is_some_and(|bytes| chunk_crc(chunk.home_sector, bytes) == chunk.crc)
        })
        .collect();
    Some(Found {
        blocks: (record_bytes / context.block()) as u32,
        header,
        journal: None,
        chunks_sound,
        past_volume,
    })
}
