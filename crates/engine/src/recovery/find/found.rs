//! A record that was found: what its header says, and which of its chunks are what they were.
//!
//! What stands where a record could be is believed only if it says that it belongs exactly there, and its checksums hold.

use crate::config::Setup;
use crate::recovery::bounds::{record_past_volume, sequence_fits};
use crate::recovery::careful::Piece;
use nearhead_disk::RangeSet;
use nearhead_format::Layout;
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{Claim, Peek, RecordHeader, RecordIdentity, peek};

/// What every scan needs to know.
#[derive(Clone)]
pub(in crate::recovery) struct ScanContext {
    pub(in crate::recovery) layout: Layout,
    pub(in crate::recovery) volume_id: [u8; 16],
    /// Records up to this sequence are in the snapshot.
    pub(in crate::recovery) floor_sequence: u64,
    /// Bytes that the placement may leave out between two records of a log.
    pub(in crate::recovery) gap_bytes_max: u64,
}

impl ScanContext {
    pub(in crate::recovery) fn new(setup: &Setup) -> Self {
        let config = &setup.config;
        let mut of_drives = config.log_device_tracks.iter().chain(std::iter::once(&config.tracks));
        let knows_tracks = setup.tracks_are_doubtful || of_drives.any(|tracks| !tracks.is_empty());
        let gap_bytes_max = config.placement.leaves_out_bytes_max(knows_tracks);
        let (layout, volume_id) = (setup.layout, setup.volume_id);
        Self { layout, volume_id, floor_sequence: 0, gap_bytes_max }
    }

    /// The smallest piece of a device that is read by itself.
    pub(in crate::recovery) fn sector_bytes(&self) -> u64 {
        u64::from(self.layout.sector_bytes)
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
    /// Whether each chunk that is not sound has a part that could not be read: the record may have been whole.
    pub(in crate::recovery) is_only_unread: bool,
    /// Block and blocks of its header's copy, if it was found on the map's journal.
    pub(in crate::recovery) journal: Option<(u32, u32)>,
    /// What it names that does not lie on the volume.
    pub(in crate::recovery) past_volume: Option<String>,
}

impl Found {
    pub(in crate::recovery) fn is_sound(&self) -> bool {
        self.chunks_sound.iter().all(|sound| *sound)
    }

    /// Whether it may have been acknowledged: it is whole, or was as far as it can be read.
    pub(in crate::recovery) fn may_be_whole(&self) -> bool {
        self.is_sound() || self.is_only_unread
    }
}

/// A place that cannot be read and where the header of a record may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::recovery) struct Hidden {
    /// Address of the place.
    pub(in crate::recovery) offset: u64,
    /// Log and log block; none on the map's journal.
    pub(in crate::recovery) block: Option<(u32, u32)>,
    /// The sequence that the first sector of the header names, if that can be read.
    pub(in crate::recovery) sequence: Option<u64>,
    /// Where it is, and the device's words.
    pub(in crate::recovery) problem: String,
}

impl Hidden {
    /// Whether the record there may be newer than `newest`: it names no sequence, or a higher one.
    pub(in crate::recovery) fn may_be_newer_than(&self, newest: u64) -> bool {
        self.sequence.is_none_or(|sequence| sequence > newest)
    }
}

/// Compares the chunks of a record with their checksums. `payload` begins at address `offset`, of which `unread` could not
/// be read. Returns which are sound, and whether each of the others has an unread part.
pub(super) fn judge_chunks(
    header: &RecordHeader,
    payload: &[u8],
    offset: u64,
    unread: &RangeSet,
) -> (Vec<bool>, bool) {
    let mut is_only_unread = true;
    let is_sound = |chunk: nearhead_format::record::PlacedChunk| {
        let from = chunk.payload_sector as usize * 512;
        let to = from + usize::from(chunk.len_sectors) * 512;
        let bytes = payload.get(from..to);
        let is_sound = bytes.is_some_and(|bytes| chunk_crc(chunk.home_sector, bytes) == chunk.crc);
        let has_unread = unread.overlaps(offset + from as u64..offset + to as u64);
        is_only_unread &= is_sound || has_unread;
        is_sound
    };
    let chunks_sound: Vec<bool> = header.chunks().map(is_sound).collect();
    let is_only_unread = is_only_unread && chunks_sound.contains(&false);
    (chunks_sound, is_only_unread)
}

/// A record that says that it belongs where it stands, and was not sound when that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recovery) struct Remains {
    /// Which record it says it is.
    pub(in crate::recovery) sequence: u64,
    /// Device byte where it begins.
    pub(in crate::recovery) offset: u64,
}

/// Whether a record newer than the snapshot begins with `piece`, where the log of `claim` begins, or may begin there because
/// it cannot be read.
pub(super) fn names_newer(piece: &Piece, claim: Claim, context: &ScanContext) -> bool {
    let peeked = piece.bytes.get(..512).and_then(|bytes| peek(bytes).ok());
    !piece.unread.is_empty()
        || peeked.is_some_and(|peeked| {
            peeked.volume_id == context.volume_id
                && (peeked.log_index, peeked.position) == (claim.log_index, claim.position)
                && peeked.sequence > context.floor_sequence
        })
}

/// The record at the start of `bytes` that says what `peeked` says, whatever its chunks are; `None` if its
/// header does not hold or `bytes` end before it. Zeros are in `bytes` for the addresses in `unread`.
pub(super) fn found_at(
    bytes: &[u8],
    peeked: &Peek,
    unread: &RangeSet,
    context: &ScanContext,
) -> Option<Found> {
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
    let start = context.layout.log_block_offset(peeked.log_index, peeked.position)?;
    let offset = start + u64::from(peeked.header_bytes);
    let (chunks_sound, is_only_unread) = judge_chunks(&header, payload, offset, unread);
    Some(Found {
        blocks: (record_bytes / context.block()) as u32,
        header,
        journal: None,
        chunks_sound,
        is_only_unread,
        past_volume,
    })
}
