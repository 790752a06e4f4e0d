//! Reading the records of one segment that verify, in order, with bounded memory.
//!
//! A record counts if its header was written for exactly this place, follows the record before it
//! in number and chain, and its payload has the checksum it says. What does not count is no error
//! here: recovery decides whether it is the end of the log, a tear, or damage.

use crate::codec::record::{Kind, RECORD_HEADER_BYTES, RecordHeader, Seed, space_of};
use crate::codec::{Geometry, RECORD_ALIGN, Tail};
use crate::error::Result;
use crate::log::Lsn;
use crate::storage::StoredFile;
use nearhead_disk::BufferMut;
use nearhead_format::crc::crc32c;
use std::sync::Arc;

/// What is read at once.
const WINDOW_BYTES: usize = 256 << 10;

/// A place in the chain: what the next record must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Where the next record starts, or the record before it ends.
    pub(crate) offset: u32,
    /// The number of the next record.
    pub(crate) lsn: Lsn,
    /// The checksum of the record before.
    pub(crate) chain: u32,
}

/// A record that counts. Its payload is in [`Scanner::payload`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) header: RecordHeader,
    /// The place behind it.
    pub(crate) next: Position,
}

/// What lies behind the end of a log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remains {
    /// Offset behind the last header that was written for its place.
    pub(crate) end: Option<u32>,
    /// Offset of a record that says that more was durable before it was written.
    pub(crate) evidence: Option<u32>,
}

/// A reader of one segment.
pub(crate) struct Scanner {
    file: Arc<dyn StoredFile>,
    seed: Seed,
    geometry: Geometry,
    window: BufferMut,
    window_offset: u32,
    window_len: usize,
    payload: Vec<u8>,
}

impl Scanner {
    pub(crate) fn new(file: Arc<dyn StoredFile>, seed: Seed, geometry: Geometry) -> Self {
        let window_bytes = WINDOW_BYTES.min(geometry.segment_bytes as usize);
        Self {
            file,
            seed,
            geometry,
            window: BufferMut::zeroed(window_bytes),
            window_offset: 0,
            window_len: 0,
            payload: Vec::new(),
        }
    }

    /// The payload of the record found last.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The record at `position`, whose offset the caller has bounded by `end`.
    pub(crate) fn next(&mut self, position: Position, end: u32) -> Result<Option<Found>> {
        if let Some(found) = self.record_at(position.offset, Some(position), end)? {
            return Ok(Some(found));
        }
        let block = self.geometry.block_up(position.offset);
        if self.geometry.tail == Tail::LeftAlone && block != position.offset {
            return self.record_at(block, Some(position), end);
        }
        Ok(None)
    }

    /// The record at `offset` that ends before `end`; it must follow `after` if that is given.
    pub(crate) fn record_at(
        &mut self,
        offset: u32,
        after: Option<Position>,
        end: u32,
    ) -> Result<Option<Found>> {
        let Some((header, crc)) = self.header_at(offset)? else { return Ok(None) };
        let follows =
            after.is_none_or(|after| header.lsn == after.lsn && header.previous == after.chain);
        let next_offset = u64::from(offset) + u64::from(space_of(header.payload_bytes));
        if !follows || next_offset > u64::from(end) {
            return Ok(None);
        }
        self.load_payload(offset + RECORD_HEADER_BYTES, header.payload_bytes)?;
        let is_whole = self.payload.len() == header.payload_bytes as usize
            && crc32c(&self.payload) == header.payload_crc;
        let lsn = if header.kind == Kind::Data { header.lsn.next() } else { header.lsn };
        let next = Position { offset: next_offset as u32, lsn, chain: crc };
        Ok(is_whole.then_some(Found { header, next }))
    }

    /// The header at `offset`, if there is one that was written for exactly this place.
    pub(crate) fn header_at(&mut self, offset: u32) -> Result<Option<(RecordHeader, u32)>> {
        let segment_bytes = self.geometry.segment_bytes;
        let seed = self.seed;
        let bytes = self.bytes_at(offset, RECORD_HEADER_BYTES as usize)?;
        Ok(RecordHeader::decode(seed, offset, segment_bytes, bytes))
    }

    /// Looks through all that lies from `offset` on for headers written for their places.
    pub(crate) fn look_ahead(&mut self, offset: u32) -> Result<Remains> {
        let mut remains = Remains::default();
        let (seed, segment_bytes) = (self.seed, self.geometry.segment_bytes);
        let header_bytes = RECORD_HEADER_BYTES as usize;
        let mut at = offset.next_multiple_of(RECORD_ALIGN);
        while at + RECORD_HEADER_BYTES <= segment_bytes {
            // As much as the window has, which is far more than a header but at the file's end.
            self.bytes_at(at, header_bytes)?;
            let start = (at - self.window_offset) as usize;
            let bytes = &self.window[start.min(self.window_len)..self.window_len];
            let mut places = 0;
            for place in bytes.windows(header_bytes).step_by(RECORD_ALIGN as usize) {
                let here = at + places * RECORD_ALIGN;
                places += 1;
                let Some((header, _)) = RecordHeader::decode(seed, here, segment_bytes, place)
                else {
                    continue;
                };
                remains.end = Some(here + space_of(header.payload_bytes));
                if header.durable_offset > offset && remains.evidence.is_none() {
                    remains.evidence = Some(here);
                }
            }
            if places == 0 {
                break;
            }
            at += places * RECORD_ALIGN;
        }
        Ok(remains)
    }

    fn load_payload(&mut self, offset: u32, len: u32) -> Result<()> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(RECORD_ALIGN * 4096) as usize;
            let bytes = self.bytes_at(offset + done, piece)?;
            if bytes.is_empty() {
                break;
            }
            payload.extend_from_slice(bytes);
            done += bytes.len() as u32;
        }
        self.payload = payload;
        Ok(())
    }

    /// Up to `len` bytes at `offset`, fewer only at the end of the file.
    fn bytes_at(&mut self, offset: u32, len: usize) -> Result<&[u8]> {
        let start = offset.wrapping_sub(self.window_offset) as usize;
        if offset < self.window_offset || start + len > self.window_len {
            self.window_offset = offset / 4096 * 4096;
            self.window_len = 0;
            self.window_len = self.file.read(u64::from(self.window_offset), &mut self.window)?;
        }
        let start = (offset - self.window_offset) as usize;
        let end = (start + len).min(self.window_len);
        Ok(&self.window[start.min(end)..end])
    }
}
