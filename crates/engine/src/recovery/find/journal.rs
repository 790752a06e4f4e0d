//! Finding records by the map's journal: every header on it that is newer than the snapshot.
//!
//! The journal is small and on a fast device, so all of it is read; then order and position in it do
//! not matter. A header on the journal does not say that its record's payload is whole: the newest
//! record was perhaps never finished, and of two with the same sequence one was torn before an
//! earlier crash. Those, and only those, are checked in their logs. Where the entry behind the newest one could not be
//! read, that place is reported as hidden.

use super::found::judge_chunks;
use super::{Finder, Findings, Found, Hidden, ScanContext};
use crate::recovery::bounds::{record_past_volume, sequence_fits};
use crate::recovery::careful::Piece;
use crate::recovery::load::BODY_READ_BYTES;
use crate::state::journal::JournalPlace;
use crate::state::journal::entry_blocks;
use nearhead_disk::{At, Lane, RangeSet};
use nearhead_format::map_device::JOURNAL_BLOCK_BYTES;
use nearhead_format::record::{HEADER_BYTES_MAX, RECORD_MAGIC, RecordHeader, peek};

/// Blocks of the largest entry.
const ENTRY_BLOCKS_MAX: u64 = HEADER_BYTES_MAX as u64 / JOURNAL_BLOCK_BYTES;
/// Hidden places reported: of more than these no more need be known.
const HIDDEN_MAX: usize = 64;

/// The journal's records, as far as they were read and looked at.
pub(in crate::recovery) struct ByJournal {
    lane: Lane,
    place: JournalPlace,
    /// The snapshot ended an orderly stop.
    is_clean: bool,
    scan: JournalScan,
    /// All of it was read.
    is_parsed: bool,
    /// The record whose payload was asked for.
    verifying: Option<usize>,
    /// Bytes of the journal that could not be read, from its start, and the device's words.
    unread: RangeSet,
    why: String,
}

impl ByJournal {
    pub(in crate::recovery) fn at(lane: Lane, place: JournalPlace, is_clean: bool) -> Self {
        let scan = JournalScan::default();
        let (unread, why) = (RangeSet::new(), String::new());
        Self { lane, place, is_clean, scan, is_parsed: false, verifying: None, unread, why }
    }

    /// Places that could not be read, where the entry of a record newer than all that were found may be, and how many others hold
    /// entries that were not found. The next entry is behind the newest one, or at the start of the journal if the largest does
    /// not fit there. The first one of a volume that was opened with nothing newer than its snapshot is at the start.
    fn hidden(&self) -> (Vec<Hidden>, usize) {
        let blocks = self.place.bytes / JOURNAL_BLOCK_BYTES;
        let (newest, is_newer) = self.scan.newest;
        let may_begin = |position: u64| {
            newest.is_none_or(|next| {
                let goes_round = !is_newer || next + ENTRY_BLOCKS_MAX > blocks;
                let goes_on = is_newer || !self.is_clean;
                position == next && goes_on || position == 0 && goes_round
            })
        };
        let mut hidden = Vec::new();
        let mut passed = 0;
        for (position, sequence) in &self.scan.unread {
            if sequence.is_none() && !may_begin(*position) {
                passed += 1;
                continue;
            }
            if hidden.len() == HIDDEN_MAX {
                break;
            }
            let offset = self.place.offset + position * JOURNAL_BLOCK_BYTES;
            let at = At { lane: self.lane, offset };
            let problem =
                format!("the journal of the map device at {at}: could not be read: {}", self.why);
            hidden.push(Hidden { offset, block: None, sequence: *sequence, problem });
        }
        (hidden, passed)
    }
}

impl Finder for ByJournal {
    fn next_read(&mut self, context: &ScanContext) -> Option<(At, u64)> {
        let left = self.place.bytes - self.scan.len();
        if !self.is_parsed && left > 0 {
            let offset = self.place.offset + self.scan.len();
            return Some((At { lane: self.lane, offset }, left.min(BODY_READ_BYTES)));
        }
        if !std::mem::replace(&mut self.is_parsed, true) {
            self.scan.parse(context, &self.unread);
        }
        while let Some(index) = self.scan.to_verify.pop() {
            if let Some((offset, len)) = self.scan.payload_of(index, context) {
                self.verifying = Some(index);
                return Some((offset.into(), len));
            }
        }
        None
    }

    fn take(&mut self, piece: Piece, context: &ScanContext) {
        if let Some(index) = self.verifying.take() {
            self.scan.verify(index, &piece, context);
            return;
        }
        for range in piece.unread.iter() {
            let start = self.place.offset;
            self.unread.insert(range.start - start..range.end - start);
        }
        if self.why.is_empty() {
            self.why = piece.why;
        }
        self.scan.push(&piece.bytes);
    }

    fn findings(self: Box<Self>) -> Findings {
        let (hidden, passed) = self.hidden();
        let mut findings = Findings { hidden, passed, ..Findings::default() };
        for found in self.scan.found {
            findings.take(found);
        }
        findings
    }
}

/// The journal as read so far.
#[derive(Default)]
struct JournalScan {
    bytes: Vec<u8>,
    read_bytes: u64,
    found: Vec<Found>,
    /// Indices in `found` whose payload must be looked at.
    to_verify: Vec<usize>,
    /// Block behind the newest entry of this volume, if there is one, and whether that is newer than the snapshot.
    newest: (Option<u64>, bool),
    /// Blocks where an entry may begin that could not be read, and which sequence their first sector names if that could.
    unread: Vec<(u64, Option<u64>)>,
}

impl JournalScan {
    fn len(&self) -> u64 {
        self.read_bytes
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.read_bytes += bytes.len() as u64;
    }

    /// All of it is read, but for `unread`: finds the headers.
    fn parse(&mut self, context: &ScanContext, unread: &RangeSet) {
        let block = JOURNAL_BLOCK_BYTES as usize;
        let bytes = std::mem::take(&mut self.bytes);
        let mut newest = None;
        for (position, start) in (0..bytes.len()).step_by(block).enumerate() {
            if bytes[start..].starts_with(&RECORD_MAGIC) {
                self.found.extend(header_at(&bytes[start..], position as u32, context));
                newest = newest.max(end_of_entry(&bytes[start..], position, context));
            }
        }
        self.newest = newest.map_or((None, false), |(sequence, end)| {
            (Some(end), sequence > context.floor_sequence)
        });
        self.note_unread(&bytes, context, unread);
        self.found.sort_by_key(|found| found.header.sequence);
        let newest = self.found.last().map(|found| found.header.sequence);
        let sequence = |index: usize| self.found.get(index).map(|found| found.header.sequence);
        let outside = self.found.iter().any(|found| found.past_volume.is_some());
        // With one that names what the volume does not have nothing is served.
        let looked_at = if outside { 0 } else { self.found.len() };
        self.to_verify = (0..looked_at)
            .filter(|&index| {
                let own = sequence(index);
                let twin = own == sequence(index + 1)
                    || index.checked_sub(1).is_some_and(|before| own == sequence(before));
                twin || own == newest
            })
            .collect();
    }

    /// Remembers the blocks where an entry may begin that could not be read.
    fn note_unread(&mut self, bytes: &[u8], context: &ScanContext, unread: &RangeSet) {
        let block = JOURNAL_BLOCK_BYTES;
        let covered = |position: u64| {
            self.found.iter().filter_map(|found| found.journal).any(|(start, blocks)| {
                (u64::from(start)..u64::from(start) + u64::from(blocks)).contains(&position)
            })
        };
        let sequence_at = |position: u64| {
            let at = position * block;
            if unread.overlaps(at..at + 512) {
                return Some((position, None));
            }
            let peeked = peek(bytes.get(at as usize..at as usize + 512)?).ok()?;
            let is_newer = peeked.volume_id == context.volume_id
                && peeked.sequence > context.floor_sequence
                && unread.overlaps(at..at + u64::from(peeked.header_bytes));
            is_newer.then_some((position, Some(peeked.sequence)))
        };
        let positions = (0..bytes.len() as u64 / block).filter(|position| {
            unread.overlaps(position * block..(position + 1) * block) && !covered(*position)
        });
        self.unread = positions.filter_map(sequence_at).collect();
    }

    /// Device offset and length of the payload of `found[index]`; `None` if it has none.
    fn payload_of(&self, index: usize, context: &ScanContext) -> Option<(u64, u64)> {
        let header = &self.found[index].header;
        let start = context.layout.log_block_offset(header.log_index, header.position)?;
        let offset = start + header.encoded_bytes(context.block()) as u64;
        let sectors = u64::from(header.payload_sectors());
        (sectors > 0).then_some((offset, sectors * 512))
    }

    /// Takes the payload of `found[index]`.
    fn verify(&mut self, index: usize, piece: &Piece, context: &ScanContext) {
        let offset = self.payload_of(index, context).map_or(0, |(offset, _)| offset);
        let found = &mut self.found[index];
        (found.chunks_sound, found.is_only_unread) =
            judge_chunks(&found.header, &piece.bytes, offset, &piece.unread);
    }
}

/// Sequence of the entry of this volume at the start of `bytes`, also one that the snapshot includes, and the block behind it.
fn end_of_entry(bytes: &[u8], position: usize, context: &ScanContext) -> Option<(u64, u64)> {
    let peeked = peek(bytes.get(..512)?).ok()?;
    let header = RecordHeader::decode(bytes.get(..peeked.header_bytes as usize)?).ok()?;
    let blocks = entry_blocks(peeked.header_bytes as usize);
    let is_its_own = peeked.volume_id == context.volume_id && sequence_fits(&header);
    is_its_own.then_some((peeked.sequence, position as u64 + u64::from(blocks)))
}

fn header_at(bytes: &[u8], position: u32, context: &ScanContext) -> Option<Found> {
    let peeked = peek(bytes.get(..512)?).ok()?;
    if peeked.volume_id != context.volume_id || peeked.sequence <= context.floor_sequence {
        return None;
    }
    let header = RecordHeader::decode(bytes.get(..peeked.header_bytes as usize)?).ok()?;
    if !sequence_fits(&header) {
        return None;
    }
    let past_volume = record_past_volume(&header, &context.layout);
    // A log that the superblock does not have is nowhere.
    let start = context.layout.log_block_offset(header.log_index, header.position);
    if start.is_none() && past_volume.is_none() {
        return None;
    }
    let block = context.block();
    Some(Found {
        blocks: (header.record_bytes(block) / block) as u32,
        chunks_sound: vec![true; header.chunks().count()],
        is_only_unread: false,
        journal: Some((position, entry_blocks(peeked.header_bytes as usize))),
        header,
        past_volume,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_format::record::WriteItem;
    use nearhead_format::{Layout, LayoutKind, LayoutOptions};

    fn header(sequence: u64) -> RecordHeader {
        let write = WriteItem::Chunk { home_sector: 8, len_sectors: 1, crc: 1 };
        RecordHeader {
            volume_id: [7; 16],
            sequence,
            writes: vec![write],
            ..RecordHeader::default()
        }
    }

    fn context() -> ScanContext {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
        ScanContext { layout, volume_id: [7; 16], floor_sequence: 10, gap_bytes_max: 0 }
    }

    /// A journal of these headers, one in each block, read by a volume whose snapshot includes record 10.
    fn scanned(headers: &[RecordHeader]) -> JournalScan {
        let context = context();
        let mut scan = JournalScan::default();
        for header in headers {
            let mut block = vec![0; JOURNAL_BLOCK_BYTES as usize];
            header.encode_into(&mut block[..512]);
            scan.push(&block);
        }
        assert_eq!(scan.len(), headers.len() as u64 * JOURNAL_BLOCK_BYTES);
        scan.parse(&context, &RangeSet::new());
        scan
    }

    #[test]
    fn headers_of_another_volume_or_from_before_the_snapshot_do_not_count() {
        let foreign = RecordHeader { volume_id: [8; 16], ..header(12) };
        let scan = scanned(&[header(11), foreign, header(10), header(9)]);
        let found: Vec<_> = scan.found.iter().map(|found| found.header.sequence).collect();
        assert_eq!(found, [11]);
        assert_eq!(scan.found[0].journal, Some((0, 1)));
    }

    #[test]
    fn payloads_of_the_newest_record_and_of_twins_are_looked_at_and_no_others() {
        let headers = [14, 11, 13, 12, 12].map(header);
        let mut scan = scanned(&headers);
        scan.to_verify.sort_unstable();
        let asked: Vec<_> =
            scan.to_verify.iter().map(|&index| scan.found[index].header.sequence).collect();
        assert_eq!(asked, [12, 12, 14]);
        let context = context();
        // Behind the one block of the header.
        let offset = context.layout.log_block_offset(0, 1).unwrap();
        assert_eq!(scan.payload_of(0, &context), Some((offset, 512)));
        let empty = RecordHeader { writes: Vec::new(), ..header(11) };
        let read = scanned(&[empty]).payload_of(0, &context);
        assert_eq!(read, None, "nothing is read for no payload");
    }
}
