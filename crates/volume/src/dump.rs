//! What is on a device, read as it is: superblock copies, snapshot slots, the records of a log.
//!
//! It shows damaged and outdated things too, each with what is wrong, and decides nothing. It only
//! ever reads, and holds a bounded window of a log in memory.

use crate::map_device;
use crate::sync_io::SyncIo;
use nearhead_disk::{At, DiskError};
use nearhead_engine::MapPlace;
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{HEADER_BYTES_MAX, PAYLOAD_SECTORS_MAX, RECORD_MAGIC, peek};
use nearhead_format::snapshot::{BodyItem, BodyReader, SNAPSHOT_HEADER_BYTES};
use nearhead_format::{RecordHeader, SECTOR_BYTES, SnapshotHeader, Superblock, VolumeId};

/// Bytes of one read.
const PIECE_BYTES: u64 = 1 << 20;
/// No record is longer than this, in bytes.
const RECORD_BYTES_LIMIT: u64 =
    HEADER_BYTES_MAX as u64 + PAYLOAD_SECTORS_MAX as u64 * SECTOR_BYTES + 4096;
/// Bytes of a log looked at together: room for the largest record and some more.
const WINDOW_BYTES: u64 = 2 * RECORD_BYTES_LIMIT;

/// A snapshot slot as it is.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Which.
    pub slot: u32,
    /// Where it starts.
    pub at: At,
    /// Nothing but zeros where its header would be: never used.
    pub is_unused: bool,
    /// Its header, from the start of the slot or the copy at its end, or what is wrong with it.
    pub header: Result<SnapshotHeader, String>,
    /// What is wrong with the header at the start, if the copy counts.
    pub header_problem: Option<String>,
    /// What is wrong with its body, if anything is. Not read without a sound header.
    pub body_problem: Option<String>,
}

impl Slot {
    /// Whether header and body are sound.
    pub fn is_sound(&self) -> bool {
        self.header.is_ok() && self.body_problem.is_none()
    }
}

/// Reads `len` bytes in pieces that any disk takes.
pub fn read_long(io: &mut SyncIo<'_>, at: impl Into<At>, len: u64) -> Result<Vec<u8>, DiskError> {
    let at = at.into();
    let piece = PIECE_BYTES.min(io.transfer_bytes_max(at.lane));
    let mut bytes = Vec::with_capacity(len as usize);
    while (bytes.len() as u64) < len {
        let done = bytes.len() as u64;
        bytes.extend_from_slice(&io.read(at + done, piece.min(len - done) as usize)?);
    }
    Ok(bytes)
}

/// Reads both snapshot slots whole.
pub fn read_slots(io: &mut SyncIo<'_>, superblock: &Superblock) -> [Slot; 2] {
    // Without its map device a volume shows the slots of its own disk, which hold nothing.
    let place = map_device::find(io, superblock);
    let place = place.unwrap_or_else(|_| MapPlace::of_layout(&superblock.layout));
    [0, 1].map(|slot| read_slot(io, &superblock.volume_id, &place, slot))
}

fn read_slot(io: &mut SyncIo<'_>, volume_id: &VolumeId, place: &MapPlace, slot: u32) -> Slot {
    let at = place.header(slot as usize);
    let mut read = |at: At| {
        let bytes = io.read(at, SNAPSHOT_HEADER_BYTES as usize);
        let bytes = bytes.map_err(|error| (error.to_string(), false))?;
        let body_bytes_max = place.slots.body_bytes_max();
        SnapshotHeader::decode(&bytes, volume_id, slot, body_bytes_max)
            .map_err(|error| (error.to_string(), bytes.iter().all(|byte| *byte == 0)))
    };
    let (front, copy) = (read(at), read(place.copy(slot as usize)));
    let is_unused = front.as_ref().is_err_and(|(_, is_zero)| *is_zero) && copy.is_err();
    let front = front.map_err(|(problem, _)| problem);
    let (header, header_problem) = match SnapshotHeader::newer(front.clone().ok(), copy.ok()) {
        Some(newer) if front.as_ref() != Ok(&newer) => (Ok(newer), Some(why_not(&front, &newer))),
        _ => (front, None),
    };
    let body_problem =
        header.as_ref().ok().and_then(|header| read_body(io, at, header, &mut |_| ()).err());
    Slot { slot, at, is_unused, header, header_problem, body_problem }
}

/// What is wrong with the header in front, since `copy` counts.
fn why_not(front: &Result<SnapshotHeader, String>, copy: &SnapshotHeader) -> String {
    match front {
        Ok(front) => format!(
            "expected the header of snapshot {}, found that of snapshot {}",
            copy.snapshot_number, front.snapshot_number
        ),
        Err(problem) => problem.clone(),
    }
}

/// Reads the body of the snapshot whose slot is at `slot`. Nothing that `sink` got may be
/// used unless the result is good.
pub fn read_body(
    io: &mut SyncIo<'_>,
    slot: At,
    header: &SnapshotHeader,
    sink: &mut impl FnMut(BodyItem),
) -> Result<(), String> {
    let mut reader = BodyReader::new(header.body);
    let mut at = slot + SNAPSHOT_HEADER_BYTES;
    let piece = PIECE_BYTES.min(io.transfer_bytes_max(at.lane));
    while reader.bytes_left() > 0 {
        let len = reader.bytes_left().min(piece);
        let bytes = io.read(at, len as usize).map_err(|error| error.to_string())?;
        reader.feed(&bytes, sink).map_err(|error| error.to_string())?;
        at = at + len;
    }
    reader.finish().map_err(|error| error.to_string())
}

/// A record as it lies in a log, current or not.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// Log block where it starts.
    pub position: u32,
    /// The same as a device offset.
    pub offset: u64,
    /// Its size with padding, in bytes.
    pub bytes: u64,
    /// What it says.
    pub header: RecordHeader,
    /// For each of its chunks, whether the checksum holds. A chunk that does not may be damaged,
    /// torn, or overwritten by a newer record.
    pub chunks_sound: Vec<bool>,
}

/// Finds every record of this volume in log `log_index`, wherever it starts, in order of position.
pub fn scan_log(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    log_index: u32,
    sink: &mut impl FnMut(LogRecord),
) -> Result<(), DiskError> {
    let layout = &superblock.layout;
    let block = u64::from(layout.log_block_bytes);
    let Some(log_offset) = layout.log_offset(log_index) else { return Ok(()) };
    let log_bytes = u64::from(layout.log_blocks()) * block;
    let mut at = 0;
    while at < log_bytes {
        let len = WINDOW_BYTES.min(log_bytes - at);
        let window = read_long(io, log_offset + at, len)?;
        // A record that starts in the last part may not end in this window.
        let is_last = at + len == log_bytes;
        let stop = if is_last { len } else { len - RECORD_BYTES_LIMIT };
        let mut cursor = 0;
        while cursor < stop {
            let position = ((at + cursor) / block) as u32;
            let found = record_at(&window[cursor as usize..], superblock, log_index, position);
            cursor += found.as_ref().map_or(block, |record| record.bytes);
            if let Some(record) = found {
                sink(record);
            }
        }
        at += cursor;
    }
    Ok(())
}

fn record_at(
    bytes: &[u8],
    superblock: &Superblock,
    log_index: u32,
    position: u32,
) -> Option<LogRecord> {
    if bytes.get(..4)? != RECORD_MAGIC {
        return None;
    }
    let layout = &superblock.layout;
    let peeked = peek(bytes).ok()?;
    let belongs = peeked.volume_id == superblock.volume_id
        && peeked.log_index == log_index
        && peeked.position == position;
    if !belongs {
        return None;
    }
    let header = RecordHeader::decode(bytes).ok()?;
    let payload = &bytes[peeked.header_bytes as usize..];
    let chunks_sound = header
        .chunks()
        .map(|chunk| {
            let from = chunk.payload_sector as usize * SECTOR_BYTES as usize;
            let to = from + usize::from(chunk.len_sectors) * SECTOR_BYTES as usize;
            payload
                .get(from..to)
                .is_some_and(|bytes| chunk_crc(chunk.home_sector, bytes) == chunk.crc)
        })
        .collect();
    Some(LogRecord {
        position,
        offset: layout.log_block_offset(log_index, position)?,
        bytes: peeked.record_bytes(layout.log_block_bytes as usize) as u64,
        header,
        chunks_sound,
    })
}
