//! Records packed one behind the other into whole blocks: the next durable write.
//!
//! Okeanos (section 3) packs small records below the size of a block, and writes the last,
//! part-filled block again with what comes next. Invariant: the bytes before `durable_end` are
//! never changed, so a tear of the block that is written again leaves them as they were. Behind
//! `end` there are zeros. Nothing here writes anything.

use crate::codec::record::{
    BEGIN_PAYLOAD_BYTES, Kind, RECORD_HEADER_BYTES, RecordHeader, Seed, begin_payload, space_of,
};
use crate::codec::{Geometry, RECORDS_OFFSET, Tail};
use crate::log::Lsn;
use nearhead_disk::BufferMut;
use nearhead_format::crc::crc32c;

/// Where records go in a segment, known before they are written.
///
/// Where blocks are left alone the real place depends on how records fall into batches; then this
/// is the worst case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placer {
    geometry: Geometry,
    /// Offset of the next record; `None` without a segment.
    next: Option<u32>,
}

impl Placer {
    pub(crate) fn new(geometry: Geometry, next: Option<u32>) -> Self {
        Self { geometry, next }
    }

    /// Takes room for a payload in the present segment, or says that a new segment is needed.
    pub(crate) fn place(&mut self, payload_bytes: u32) -> bool {
        let Some(next) = self.next else { return false };
        let at = match self.geometry.tail {
            Tail::Rewritten => next,
            Tail::LeftAlone => self.geometry.block_up(next),
        };
        let room = self.geometry.segment_bytes.saturating_sub(at);
        if space_of(payload_bytes) > room {
            return false;
        }
        self.next = Some(at + space_of(payload_bytes));
        true
    }

    /// Goes on in a new segment.
    pub(crate) fn start_segment(&mut self) {
        self.next = Some(RECORDS_OFFSET + space_of(BEGIN_PAYLOAD_BYTES));
    }
}

/// The tail of the log in memory.
pub(crate) struct Batch {
    buffer: BufferMut,
    geometry: Geometry,
    seed: Seed,
    /// Offset in the segment of the first byte of the buffer; a multiple of the block.
    base: u32,
    /// Offset behind the last record.
    end: u32,
    /// Offset behind the last durable record.
    durable_end: u32,
    chain: u32,
    next_lsn: Lsn,
    staged: u32,
}

impl Batch {
    /// For a log whose next record is `next_lsn` and follows the record with checksum `chain`, with
    /// room for `buffer_bytes`. It needs [`Batch::start_segment`] or [`Batch::resume`] before use.
    pub(crate) fn new(geometry: Geometry, buffer_bytes: usize, next_lsn: Lsn, chain: u32) -> Self {
        Self {
            buffer: BufferMut::zeroed(buffer_bytes),
            geometry,
            seed: Seed::of(&[0; 16], 0),
            base: RECORDS_OFFSET,
            end: RECORDS_OFFSET,
            durable_end: RECORDS_OFFSET,
            chain,
            next_lsn,
            staged: 0,
        }
    }

    /// Goes on at `end` of a segment; `block` is what the block at `end` holds up to there.
    pub(crate) fn resume(&mut self, seed: Seed, end: u32, block: &[u8]) {
        self.seed = seed;
        self.end = end;
        self.durable_end = end;
        self.base = self.geometry.block_down(end);
        let kept = (end - self.base) as usize;
        self.buffer[..kept].copy_from_slice(&block[..kept]);
        if self.geometry.tail == Tail::LeftAlone {
            self.skip_block();
        }
    }

    /// Goes on in a new segment: stages its first record, which names the end of the one before.
    pub(crate) fn start_segment(&mut self, seed: Seed) {
        debug_assert_eq!(self.staged, 0, "what is staged belongs to the segment before");
        let payload = begin_payload(self.durable_end);
        let used = (self.end - self.base) as usize;
        self.buffer[..used].fill(0);
        self.seed = seed;
        self.base = RECORDS_OFFSET;
        self.end = RECORDS_OFFSET;
        self.durable_end = RECORDS_OFFSET;
        self.put(Kind::Begin, &payload, crc32c(&payload));
    }

    /// Number of the next record.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }

    /// Checksum of the last record.
    pub(crate) fn chain(&self) -> u32 {
        self.chain
    }

    /// Offset behind the last durable record.
    pub(crate) fn durable_end(&self) -> u32 {
        self.durable_end
    }

    /// Records of the program that wait for the write.
    pub(crate) fn staged(&self) -> u32 {
        self.staged
    }

    /// Bytes that wait for the write.
    pub(crate) fn staged_bytes(&self) -> u32 {
        self.end - self.base
    }

    /// Whether a payload fits into the memory of this write.
    pub(crate) fn has_room_for(&self, payload_bytes: u32) -> bool {
        let end = (self.end - self.base + space_of(payload_bytes)) as usize;
        end.next_multiple_of(self.geometry.block_bytes as usize) <= self.buffer.len()
    }

    /// Adds a record, for which there must be room here and in the segment.
    pub(crate) fn stage(&mut self, payload: &[u8], payload_crc: u32) -> Lsn {
        let lsn = self.next_lsn;
        self.put(Kind::Data, payload, payload_crc);
        self.next_lsn = lsn.next();
        self.staged += 1;
        lsn
    }

    fn put(&mut self, kind: Kind, payload: &[u8], payload_crc: u32) {
        let header = RecordHeader {
            kind,
            lsn: self.next_lsn,
            previous: self.chain,
            payload_crc,
            payload_bytes: payload.len() as u32,
            durable_offset: self.durable_end,
        };
        let at = (self.end - self.base) as usize;
        let data = at + RECORD_HEADER_BYTES as usize;
        self.chain = header.encode(self.seed, self.end, &mut self.buffer[at..data]);
        self.buffer[data..data + payload.len()].copy_from_slice(payload);
        self.end += space_of(header.payload_bytes);
        debug_assert!(self.end <= self.geometry.segment_bytes, "the placer found room");
    }

    /// The write: offset in the segment, and whole blocks.
    pub(crate) fn write(&self) -> (u32, &[u8]) {
        let len = self.geometry.block_up(self.end) - self.base;
        (self.base, &self.buffer[..len as usize])
    }

    /// The write is durable.
    pub(crate) fn written(&mut self) {
        let kept_from = self.geometry.block_down(self.end);
        let (from, to) = ((kept_from - self.base) as usize, (self.end - self.base) as usize);
        self.buffer.copy_within(from..to, 0);
        self.buffer[to - from..to].fill(0);
        self.base = kept_from;
        self.durable_end = self.end;
        self.staged = 0;
        if self.geometry.tail == Tail::LeftAlone {
            self.skip_block();
        }
    }

    /// The next record starts a block of its own.
    fn skip_block(&mut self) {
        let next = self.geometry.block_up(self.end);
        let used = (self.end - self.base) as usize;
        self.buffer[..used].fill(0);
        self.base = next;
        self.end = next;
    }
}
