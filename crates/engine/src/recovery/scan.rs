//! Reading one log: from its claimed position to its last record.
//!
//! A record counts if it says that it belongs exactly there (volume, log, generation, position), is
//! newer than everything before it in this log, and its checksums hold. After the last one the scan
//! looks ahead as far as one record can reach: if a newer sound record stands there, what is
//! between was complete once and is damaged now; if not, it is a torn write that nobody was
//! promised. It does so where the last one ended and at the start of the log, where the next one is
//! if it did not fit any more. That is how torn is told from corrupt inside one log; gaps between
//! logs are the chain's business.

use super::bounds::{record_past_volume, sequence_fits};
use crate::RECORD_BYTES_MAX;
use crate::config::Setup;
use nearhead_disk::{Buffer, BufferMut};
use nearhead_format::Layout;
use nearhead_format::crc::chunk_crc;
use nearhead_format::planted::{Mistake, is_made};
use nearhead_format::record::{
    Claim, HEADER_BYTES_MAX, Peek, RECORD_MAGIC, RecordHeader, RecordIdentity, peek,
};

/// No record is longer than this, in bytes.
const REACH_BYTES: u64 = RECORD_BYTES_MAX as u64 + HEADER_BYTES_MAX as u64 + 4096;

/// What every scan needs to know.
pub(super) struct ScanContext {
    pub(super) layout: Layout,
    pub(super) volume_id: [u8; 16],
    /// Records up to this sequence are in the snapshot.
    pub(super) floor_sequence: u64,
}

impl ScanContext {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { layout: setup.layout, volume_id: setup.volume_id, floor_sequence: 0 }
    }

    fn block(&self) -> usize {
        self.layout.log_block_bytes as usize
    }
}

/// A record found in a log.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) header: RecordHeader,
    pub(super) blocks: u32,
    /// Device sector of the first payload byte.
    pub(super) payload_sector: u64,
    /// For each chunk in order, whether its checksum holds.
    pub(super) chunks_sound: Vec<bool>,
    /// Block and blocks of its header's copy, if it was found on the map's journal.
    pub(super) journal: Option<(u32, u32)>,
    /// What it names that does not lie on the volume.
    pub(super) past_volume: Option<String>,
}

impl Found {
    pub(super) fn is_sound(&self) -> bool {
        self.chunks_sound.iter().all(|sound| *sound) || is_made(Mistake::TornRecordAccepted)
    }
}

/// What the next bytes are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// The record that should stand at the cursor.
    Record,
    /// Anything newer within one record's reach of it.
    LookAhead,
    /// The record there may have gone to the start of the log instead: it, or anything newer within
    /// one record's reach.
    Wrapped,
    Done,
}

/// The scan of one log.
pub(super) struct LogScan {
    claim: Claim,
    goal: Goal,
    /// Log block where the next record is looked for.
    cursor: u32,
    newest_sequence: u64,
    scanned_blocks: u64,
    /// Whether the start of the log was looked at, or need not be: a lap passes it once.
    has_wrapped: bool,
    /// Bytes read already that a later look may want again, and the block they start at.
    window: Option<Buffer>,
    window_block: u64,
    pub(super) found: Vec<Found>,
    pub(super) problems: Vec<(u64, String)>,
    /// Part of the log could not be read: what it says is unknown.
    pub(super) unreadable: Option<String>,
}

impl LogScan {
    pub(super) fn new(claim: Claim, floor_sequence: u64) -> Self {
        Self {
            cursor: claim.position,
            has_wrapped: claim.position == 0,
            claim,
            goal: Goal::Record,
            newest_sequence: floor_sequence,
            scanned_blocks: 0,
            window: None,
            window_block: 0,
            found: Vec::new(),
            problems: Vec::new(),
            unreadable: None,
        }
    }

    /// The next bytes to read, as device offset and length; `None` at the end of the scan. No byte
    /// is asked for twice.
    pub(super) fn next_read(&mut self, context: &ScanContext) -> Option<(u64, u64)> {
        let block = context.block() as u64;
        loop {
            let (from, len) = self.wanted(context)?;
            self.keep_from(from, block);
            let held = self.held_bytes() as u64;
            if held < len {
                let next = (from + held / block) as u32;
                let offset = context.layout.log_block_offset(self.claim.log_index, next)?;
                return Some((offset, len - held));
            }
            self.look(context);
        }
    }

    /// What is looked at next: block and length in bytes.
    fn wanted(&self, context: &ScanContext) -> Option<(u64, u64)> {
        let block = context.block() as u64;
        let capacity = u64::from(context.layout.log_blocks());
        let from = match self.goal {
            Goal::Done => return None,
            Goal::Record | Goal::LookAhead => u64::from(self.cursor),
            Goal::Wrapped => 0,
        };
        if self.scanned_blocks > 2 * capacity || from >= capacity {
            return None;
        }
        Some((from, ((capacity - from) * block).min(REACH_BYTES.next_multiple_of(block))))
    }

    /// Lets go of what stands before block `from`.
    fn keep_from(&mut self, from: u64, block: u64) {
        let passed = from.checked_sub(self.window_block).map(|blocks| (blocks * block) as usize);
        self.window = self.window.take().and_then(|window| {
            let passed = passed.filter(|passed| *passed < window.len())?;
            Some(window.slice(passed..window.len()))
        });
        self.window_block = from;
    }

    fn held_bytes(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.len())
    }

    /// Takes the bytes asked for. They are copied only behind what is held already.
    pub(super) fn take(&mut self, bytes: Buffer, context: &ScanContext) {
        self.window = Some(match self.window.take() {
            None => bytes,
            Some(held) => {
                let mut both = BufferMut::zeroed(held.len() + bytes.len());
                both[..held.len()].copy_from_slice(&held);
                both[held.len()..].copy_from_slice(&bytes);
                both.freeze()
            }
        });
        self.look(context);
    }

    /// Looks at the bytes wanted, all of which are there.
    fn look(&mut self, context: &ScanContext) {
        let Some(window) = self.window.clone() else { return };
        match self.goal {
            Goal::Record => {
                if !self.take_records(&window, self.cursor, context) {
                    self.goal = Goal::LookAhead;
                }
            }
            Goal::LookAhead => {
                let any = self.look_ahead(&window, self.cursor, context);
                self.goal = if any { Goal::Record } else { self.after_the_last() };
            }
            Goal::Wrapped => {
                self.has_wrapped = true;
                let any =
                    self.take_records(&window, 0, context) || self.look_ahead(&window, 0, context);
                self.goal = if any { Goal::Record } else { Goal::Done };
            }
            Goal::Done => {}
        }
        if u64::from(self.cursor) >= u64::from(context.layout.log_blocks())
            && self.goal == Goal::Record
        {
            self.goal = self.after_the_last();
        }
    }

    /// Where the record after the last one in a row may be, if not there. What stands at the start of the
    /// log is seen once: so that a scan ends whatever is there, and nothing newer than what was found since.
    fn after_the_last(&self) -> Goal {
        if self.has_wrapped { Goal::Done } else { Goal::Wrapped }
    }

    /// The log cannot be read here.
    pub(super) fn unreadable(&mut self, problem: &str, context: &ScanContext) {
        let (log, at) = (self.claim.log_index, self.cursor);
        let offset = context.layout.log_block_offset(log, at).unwrap_or(0);
        self.unreadable =
            Some(format!("log {log} at device byte {offset}: could not be read: {problem}"));
        self.goal = Goal::Done;
    }

    /// Takes records from `bytes`, which stand at log block `start`; says whether there was one.
    fn take_records(&mut self, bytes: &[u8], start: u32, context: &ScanContext) -> bool {
        let (mut position, mut at, mut any) = (start, 0, false);
        while let Some(found) = self.record_at(&bytes[at..], position, context) {
            any = true;
            // One that is not sound may be the remains of a write torn before an earlier crash;
            // then a record of the same sequence stands at the start of the log.
            if found.is_sound() {
                self.newest_sequence = found.header.sequence;
            }
            self.scanned_blocks += u64::from(found.blocks);
            position += found.blocks;
            at += found.blocks as usize * context.block();
            self.found.push(found);
        }
        if any {
            self.cursor = position;
        }
        any
    }

    fn accepts(&self, peeked: &Peek, position: u32, context: &ScanContext) -> bool {
        peeked.volume_id == context.volume_id
            && peeked.log_index == self.claim.log_index
            && peeked.generation == self.claim.generation
            && peeked.position == position
            && peeked.sequence > self.newest_sequence
    }

    fn record_at(&self, bytes: &[u8], position: u32, context: &ScanContext) -> Option<Found> {
        let peeked = peek(bytes.get(..512)?).ok()?;
        if !self.accepts(&peeked, position, context) {
            return None;
        }
        let record_bytes = peeked.record_bytes(context.block());
        let bytes = bytes.get(..record_bytes)?;
        let header = RecordHeader::decode(bytes.get(..peeked.header_bytes as usize)?).ok()?;
        let identity = RecordIdentity {
            volume_id: context.volume_id,
            log_index: self.claim.log_index,
            generation: self.claim.generation,
            position,
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
        let start = context.layout.log_block_offset(self.claim.log_index, position)?;
        Some(Found {
            blocks: (record_bytes / context.block()) as u32,
            payload_sector: super::sector_of(start + u64::from(peeked.header_bytes)),
            header,
            journal: None,
            chunks_sound,
            past_volume,
        })
    }

    /// Looks in `bytes`, which stand at log block `start`, for a newer record behind one there whose header
    /// does not hold; says whether there was one.
    fn look_ahead(&mut self, bytes: &[u8], start: u32, context: &ScanContext) -> bool {
        let block = context.block();
        for step in 1..bytes.len() / block {
            let at = &bytes[step * block..];
            if at[..4] != RECORD_MAGIC {
                continue;
            }
            let position = start + step as u32;
            let sound = peek(&at[..512.min(at.len())])
                .ok()
                .filter(|peeked| self.accepts(peeked, position, context))
                .and_then(|peeked| {
                    RecordHeader::decode(at.get(..peeked.header_bytes as usize)?).ok()
                });
            if let Some(newer) = sound {
                let log = self.claim.log_index;
                let offset = context.layout.log_block_offset(log, start).unwrap_or(0);
                let problem = format!(
                    "log {log} at device byte {offset}: expected a record, found none that is sound, \
                     but record {} stands behind it",
                    newer.sequence
                );
                self.problems.push((newer.sequence, problem));
                self.cursor = position;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_format::{LayoutOptions, Preset};

    #[test]
    fn a_record_that_belongs_elsewhere_or_is_not_newer_is_none_of_this_log() {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(Preset::Mlb)).unwrap();
        let context = ScanContext { layout, volume_id: [7; 16], floor_sequence: 0 };
        let scan = LogScan::new(Claim { log_index: 2, position: 5, generation: 3 }, 10);
        let here = RecordHeader {
            volume_id: [7; 16],
            log_index: 2,
            generation: 3,
            position: 6,
            sequence: 11,
            ..RecordHeader::default()
        };
        let accepts = |header: &RecordHeader| {
            let mut bytes = vec![0; header.encoded_bytes(512)];
            header.encode_into(&mut bytes);
            scan.accepts(&peek(&bytes).unwrap(), 6, &context)
        };
        assert!(accepts(&here));
        for elsewhere in [
            RecordHeader { volume_id: [8; 16], ..here.clone() },
            RecordHeader { log_index: 1, ..here.clone() },
            RecordHeader { generation: 2, ..here.clone() },
            RecordHeader { position: 5, ..here.clone() },
            RecordHeader { sequence: 10, ..here.clone() },
        ] {
            assert!(!accepts(&elsewhere), "{elsewhere:?}");
        }
    }

    #[test]
    fn the_first_look_holds_the_longest_record_and_little_more() {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(Preset::Mlb)).unwrap();
        let context = ScanContext { layout, volume_id: [7; 16], floor_sequence: 0 };
        let mut scan = LogScan::new(Claim { log_index: 2, position: 5, generation: 3 }, 10);
        let (offset, len) = scan.next_read(&context).unwrap();
        assert_eq!(Some(offset), layout.log_block_offset(2, 5));
        // Each of header and payload may end inside a block.
        let longest = RECORD_BYTES_MAX as u64 + HEADER_BYTES_MAX as u64;
        assert!((longest..=longest + 2 * 4096).contains(&len), "{len} for {longest}");
    }

    /// A claim may say that the log is full to its last block: nothing can stand behind that.
    #[test]
    fn a_claim_at_the_end_of_a_log_asks_for_nothing() {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(Preset::Mlb)).unwrap();
        let context = ScanContext { layout, volume_id: [7; 16], floor_sequence: 0 };
        let claim = |position| Claim { log_index: 2, position, generation: 3 };
        let end = layout.log_blocks();
        assert_eq!(LogScan::new(claim(end), 10).next_read(&context), None);
        let last = layout.log_block_offset(2, end - 1).unwrap();
        let read = LogScan::new(claim(end - 1), 10).next_read(&context);
        assert_eq!(read, Some((last, u64::from(layout.log_block_bytes))));
    }

    /// A log of more records than one read holds, of one, two and three blocks, full to its last block. The
    /// oldest is number `first`; those before it are of the next lap.
    struct LongLog {
        context: ScanContext,
        bytes: Vec<u8>,
        positions: Vec<u32>,
        first: usize,
    }

    impl LongLog {
        fn new(first: usize) -> Self {
            let layout = Layout::plan(1 << 30, &LayoutOptions::new(Preset::Mlb)).unwrap();
            let context = ScanContext { layout, volume_id: [7; 16], floor_sequence: 0 };
            let (mut position, mut positions) = (0, Vec::new());
            while position < layout.log_blocks() {
                let left = layout.log_blocks() - position;
                positions.push(position);
                position += (positions.len() as u32 % 3 + 1).min(left);
            }
            let bytes = vec![0; layout.log_bytes as usize];
            let mut log = Self { context, bytes, positions, first };
            log.fill();
            assert!(log.bytes.len() as u64 > 2 * REACH_BYTES, "one read is enough");
            log
        }

        fn fill(&mut self) {
            let (block, count) = (self.context.block(), self.positions.len());
            let ends = self.positions[1..].iter().copied();
            let ends: Vec<u32> = ends.chain([self.context.layout.log_blocks()]).collect();
            for (number, (&position, end)) in self.positions.iter().zip(ends).enumerate() {
                let writes = (0..u64::from(end - position - 1)).map(|chunk| {
                    let crc = chunk_crc(chunk * 8, &[0; 4096]);
                    nearhead_format::record::WriteItem::Chunk {
                        home_sector: chunk * 8,
                        len_sectors: 8,
                        crc,
                    }
                });
                let header = RecordHeader {
                    volume_id: [7; 16],
                    log_index: 2,
                    generation: 3,
                    position,
                    sequence: ((number + count - self.first) % count) as u64 + 1,
                    writes: writes.collect(),
                    ..RecordHeader::default()
                };
                let at = position as usize * block;
                header.encode_into(&mut self.bytes[at..at + block]);
            }
        }

        /// Scans from the oldest record on; the number of each found. No read goes past the log.
        fn scan(&self, mut asked: impl FnMut(usize, usize)) -> LogScan {
            let position = self.positions[self.first];
            let mut scan = LogScan::new(Claim { log_index: 2, position, generation: 3 }, 0);
            let start = self.context.layout.log_offset(2).unwrap();
            while let Some((offset, len)) = scan.next_read(&self.context) {
                let (from, len) = ((offset - start) as usize, len as usize);
                assert!(from + len <= self.bytes.len(), "{len} bytes at {from}");
                asked(from, len);
                let bytes = &self.bytes[from..from + len];
                scan.take(BufferMut::copy_of(bytes).freeze(), &self.context);
            }
            scan
        }

        /// Positions in the order of sequences.
        fn in_order(&self) -> Vec<u32> {
            let (next_lap, this_lap) = self.positions.split_at(self.first);
            [this_lap, next_lap].concat()
        }
    }

    #[test]
    fn a_log_longer_than_one_read_is_read_once_and_found_whole_wherever_its_lap_began() {
        // From each of the first records on, so that a read ends inside another one each time, and from
        // the middle.
        for first in [0, 1, 2, 3, 500] {
            let log = LongLog::new(first);
            let block = log.context.block();
            let mut read = vec![false; log.bytes.len() / block];
            let scan = log.scan(|from, len| {
                if from == 0 && first > 0 {
                    // What may have gone to the start of the log is looked for whatever was read there.
                    read.fill(false);
                }
                for block in &mut read[from / block..(from + len) / block] {
                    assert!(!std::mem::replace(block, true), "asked for twice: {from}");
                }
            });
            let found: Vec<u32> = scan.found.iter().map(|found| found.header.position).collect();
            assert_eq!(found, log.in_order(), "from record {first}");
            assert!(scan.found.iter().all(Found::is_sound) && scan.problems.is_empty());
        }
    }

    /// A header with a sequence that leaves no room to go on counts as something that stands behind a lost
    /// record, and is none where one is expected: the scan must not go back and forth between the two.
    #[test]
    fn a_scan_ends_whatever_stands_at_the_start_of_the_log() {
        let mut log = LongLog::new(500);
        let (block, at) = (log.context.block(), log.positions[1] as usize * log.context.block());
        log.bytes[..512].fill(0);
        let mut header = RecordHeader::decode(&log.bytes[at..at + block]).unwrap();
        header.sequence = u64::MAX;
        header.encode_into(&mut log.bytes[at..at + block]);
        let mut reads = 0;
        let scan = log.scan(|_, _| {
            reads += 1;
            assert!(reads < 100, "it does not end");
        });
        assert_eq!(scan.found.len(), log.positions.len() - 2, "all but the lost one and that one");
    }

    #[test]
    fn what_stands_behind_a_lost_record_is_found_also_at_the_start_of_the_log() {
        let first = 500;
        // In the middle of a lap, its last record, the first of the next lap, and one behind that.
        let count = LongLog::new(first).positions.len();
        for lost in [first + 1, count - 1, 0, 1] {
            let mut log = LongLog::new(first);
            let (position, block) = (log.positions[lost], log.context.block());
            log.bytes[position as usize * block..][..512].fill(0);
            let scan = log.scan(|_, _| ());
            let mut expected = log.in_order();
            expected.retain(|other| *other != position);
            let found: Vec<u32> = scan.found.iter().map(|found| found.header.position).collect();
            assert_eq!(found, expected, "record {lost} is lost");
            assert_eq!(
                scan.problems.len(),
                usize::from(lost != count - 1),
                "record {lost} is lost"
            );
        }
    }
}
