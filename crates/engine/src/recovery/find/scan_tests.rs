//! The scan of one log: what it asks for, what it finds, and that it ends.

use super::*;
use crate::RECORD_BYTES_MAX;
use crate::recovery::find::ByClaims;
use crate::state::logs::GAP_BYTES_MAX;
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{
    CLAIMS_MAX, ECHO_MAX, HEADER_BYTES_MAX, INVALIDATIONS_MAX, SectorRange, WRITES_MAX, WriteItem,
};
use nearhead_format::{Layout, LayoutKind, LayoutOptions};

#[test]
fn a_record_that_belongs_elsewhere_or_is_not_newer_is_none_of_this_log() {
    let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
    let context = ScanContext { layout, volume_id: [7; 16], floor_sequence: 0, gap_bytes_max: 0 };
    let scan = LogScan::new(Claim { log_index: 2, position: 5 }, 10);
    let here = RecordHeader {
        volume_id: [7; 16],
        log_index: 2,
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
        RecordHeader { position: 5, ..here.clone() },
        RecordHeader { sequence: 10, ..here.clone() },
    ] {
        assert!(!accepts(&elsewhere), "{elsewhere:?}");
    }
}

#[test]
fn the_first_look_holds_the_longest_record_and_little_more() {
    let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
    let context = ScanContext { layout, volume_id: [7; 16], floor_sequence: 0, gap_bytes_max: 0 };
    let mut scan = LogScan::new(Claim { log_index: 2, position: 5 }, 10);
    let (offset, len) = scan.next_read(&context).unwrap();
    assert_eq!(Some(offset), layout.log_block_offset(2, 5));
    // Each of header and payload may end inside a block.
    let longest = RECORD_BYTES_MAX as u64 + HEADER_BYTES_MAX as u64;
    assert!((longest..=longest + 2 * 4096).contains(&len), "{len} for {longest}");
}

/// A claim may say that the log is full to its last block: nothing can stand behind that.
#[test]
fn a_claim_at_the_end_of_a_log_asks_for_nothing() {
    let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
    let context = ScanContext { layout, volume_id: [7; 16], floor_sequence: 0, gap_bytes_max: 0 };
    let claim = |position| Claim { log_index: 2, position };
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
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
        let context =
            ScanContext { layout, volume_id: [7; 16], floor_sequence: 0, gap_bytes_max: 0 };
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
            let before = self.positions[(number + count - 1) % count];
            let writes = (0..u64::from(end - position - 1)).map(|chunk| {
                let crc = chunk_crc(chunk * 8, &[0; 4096]);
                WriteItem::Chunk { home_sector: chunk * 8, len_sectors: 8, crc }
            });
            let header = RecordHeader {
                volume_id: [7; 16],
                log_index: 2,
                position,
                previous_position: before,
                sequence: ((number + count - self.first) % count) as u64 + 1,
                writes: writes.collect(),
                ..RecordHeader::default()
            };
            let at = position as usize * block;
            header.encode_into(&mut self.bytes[at..at + block]);
        }
    }

    /// Scans from the oldest record on; the number of each found. No read goes past the log.
    fn scan(&self, asked: impl FnMut(usize, usize)) -> LogScan {
        self.scan_from(self.positions[self.first], 0, asked)
    }

    fn scan_from(
        &self,
        position: u32,
        floor_sequence: u64,
        mut asked: impl FnMut(usize, usize),
    ) -> LogScan {
        let claim = Claim { log_index: 2, position };
        let mut scan = LogScan::new(claim, floor_sequence);
        let start = self.context.layout.log_offset(2).unwrap();
        while let Some((offset, len)) = scan.next_read(&self.context) {
            let (from, len) = ((offset - start) as usize, len as usize);
            assert!(from + len <= self.bytes.len(), "{len} bytes at {from}");
            asked(from, len);
            let bytes = &self.bytes[from..from + len];
            scan.take(Piece::of(bytes), &self.context);
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
        assert_eq!(scan.problems.len(), usize::from(lost != count - 1), "record {lost} is lost");
    }
}

/// One more than are told, so that it is told that there are more.
#[test]
fn of_a_log_full_of_gaps_a_bounded_number_is_remembered() {
    let mut log = LongLog::new(0);
    let block = log.context.block();
    for position in log.positions.iter().skip(1).step_by(2) {
        log.bytes[*position as usize * block..][..512].fill(0);
    }
    let scan = log.scan(|_, _| ());
    let found = scan.problems.len();
    let mut finder = ByClaims::default();
    finder.take_scan(scan);
    let told = crate::state::findings::DAMAGE_NOTES_MAX + 1;
    assert!(found > told, "only {found} gaps");
    assert_eq!(finder.problems[&2].len(), told);
}

/// A log that two records claimed may be met first through the later one, which says that it begins behind
/// what the earlier one's use of it left: read from there, that looks like what a lost record hid.
#[test]
fn what_was_said_of_a_log_does_not_count_once_it_turns_out_to_begin_earlier() {
    let mut log = LongLog::new(0);
    let (earlier, later) = (log.positions[1], log.positions[2]);
    log.bytes[later as usize * log.context.block()..].fill(0);
    let mut finder = ByClaims::default();
    for (begins, problems) in [(later, 1), (earlier, 0)] {
        finder.take_scan(log.scan_from(begins, 1, |_, _| ()));
        let said: usize = finder.problems.values().map(Vec::len).sum();
        assert_eq!(said, problems, "scanned from log block {begins}: {:?}", finder.problems);
        assert!(finder.findings.records.iter().all(|found| found.header.position == earlier));
        assert!(!finder.findings.records.is_empty());
    }
}

impl LongLog {
    /// Changes the header of record `number`; its place holds it no more if that is another one now.
    fn change(&mut self, number: usize, change: impl FnOnce(&mut RecordHeader)) {
        let (block, from) = (self.context.block(), self.positions[number] as usize);
        let bytes = from * block..(from + 1) * block;
        let mut header = RecordHeader::decode(&self.bytes[bytes.clone()]).unwrap();
        self.bytes[bytes].fill(0);
        change(&mut header);
        let at = header.position as usize * block;
        header.encode_into(&mut self.bytes[at..at + block]);
    }

    fn found(scan: &LogScan) -> Vec<u32> {
        scan.found.iter().map(|found| found.header.position).collect()
    }
}

#[test]
fn a_gap_before_a_record_that_names_the_one_before_it_is_no_damage() {
    for first in [0, 500] {
        for left_out in [100, 2] {
            let mut log = LongLog::new(first);
            let (position, before) = (log.positions[left_out], log.positions[left_out - 1]);
            log.bytes[position as usize * log.context.block()..][..512].fill(0);
            log.change(left_out + 1, |header| header.previous_position = before);
            let scan = log.scan(|_, _| ());
            let mut expected = log.in_order();
            expected.retain(|other| *other != position);
            assert_eq!(LongLog::found(&scan), expected);
            assert_eq!(scan.problems, [], "nothing stood in the gap");
        }
    }
}

#[test]
fn a_gap_at_the_end_of_the_log_and_one_at_its_start_are_no_damage() {
    let mut log = LongLog::new(500);
    let (block, count) = (log.context.block(), log.positions.len());
    let last = log.positions[count - 3];
    for lost in [count - 2, count - 1, 0, 1] {
        log.bytes[log.positions[lost] as usize * block..][..512].fill(0);
    }
    log.change(2, |header| header.previous_position = last);
    let scan = log.scan(|_, _| ());
    assert_eq!((scan.found.len(), scan.problems.len()), (count - 4, 0));
    // One of those that are left out stood there once.
    for lost in [count - 2, count - 1, 0, 1] {
        let previous = log.positions[lost];
        log.change(2, |header| header.previous_position = previous);
        let scan = log.scan(|_, _| ());
        assert_eq!((scan.found.len(), scan.problems.len()), (count - 4, 1), "record {lost}");
    }
}

/// The place of a record failed although it took the record, which so stands behind it once more.
#[test]
fn a_record_that_stands_in_two_places_is_found_in_both_and_what_comes_next_behind_the_second() {
    for gap in [0, 3] {
        let mut log = LongLog::new(0);
        let (number, block) = (100, log.context.block());
        let before = log.positions[number - 1];
        let twin = log.positions[number + 1 + gap] as usize;
        for lost in number + 1..=number + 1 + gap {
            log.bytes[log.positions[lost] as usize * block..][..512].fill(0);
        }
        let position = log.positions[number] as usize;
        let mut header = RecordHeader::decode(&log.bytes[position * block..][..block]).unwrap();
        header.position = twin as u32;
        // One block, so that it ends before the next record.
        header.writes.clear();
        header.encode_into(&mut log.bytes[twin * block..][..block]);
        log.change(number, |first| first.writes.clear());
        log.change(number + 2 + gap, |next| next.previous_position = twin as u32);
        let scan = log.scan(|_, _| ());
        let twins = scan.found.iter().filter(|found| found.header.sequence == header.sequence);
        let twins: Vec<u32> = twins.map(|found| found.header.position).collect();
        assert_eq!(twins, [position as u32, twin as u32], "named {before}");
        assert_eq!(scan.found.len(), log.positions.len() - gap);
        let damage: Vec<_> = scan.problems.iter().map(|(_, problem)| problem).collect();
        assert!(damage.is_empty(), "{damage:?}");
    }
}

/// The place of a record failed, so it went to another log; a placement that leaves out blocks then goes on in the middle of
/// what stands there.
#[test]
fn a_record_in_the_middle_of_what_a_failed_write_left_of_another_is_found() {
    let mut log = LongLog::new(0);
    let (failed, next) = (100, 101);
    let (before, position) = (log.positions[failed - 1], log.positions[failed]);
    assert_eq!(log.positions[next], position + 3);
    log.change(failed, |header| {
        let Some(WriteItem::Chunk { crc, .. }) = header.writes.first_mut() else { panic!() };
        *crc ^= 1;
    });
    log.change(next, |header| {
        header.position = position + 1;
        header.previous_position = before;
    });
    log.change(next + 1, |header| header.previous_position = position + 1);
    let scan = log.scan(|_, _| ());
    let mut expected = log.in_order();
    expected[next] = position + 1;
    assert_eq!((LongLog::found(&scan), &scan.problems), (expected, &Vec::new()));
    let damaged: Vec<u32> = scan
        .found
        .iter()
        .filter(|found| !found.is_sound())
        .map(|found| found.header.position)
        .collect();
    assert_eq!(damaged, [position]);
}

/// Whatever its header holds: all of it must be within the look ahead.
#[test]
fn a_record_behind_the_longest_gap_is_found() {
    let gap_blocks = |log: &LongLog| GAP_BYTES_MAX as u32 / log.context.block() as u32;
    for (further, found) in [(0, 2), (30, 1)] {
        let mut log = LongLog::new(0);
        let (before, gap_from, block) = (log.positions[0], log.positions[1], log.context.block());
        log.bytes[gap_from as usize * block..].fill(0);
        let range = |number| SectorRange { start_sector: number * 8, len_sectors: 1 };
        let zeros = |number| WriteItem::Zeros { home_sector: number * 8, run_sectors: 1 };
        let claim = |log_index| Claim { log_index, position: 0 };
        let header = RecordHeader {
            volume_id: [7; 16],
            log_index: 2,
            position: gap_from + gap_blocks(&log) + further,
            previous_position: before,
            sequence: 2,
            writes: (0..WRITES_MAX as u64).map(zeros).collect(),
            invalidations: (0..INVALIDATIONS_MAX as u64).map(range).collect(),
            claims: (0..CLAIMS_MAX as u32).map(claim).collect(),
            echo: (0..ECHO_MAX as u64).map(range).collect(),
            ..RecordHeader::default()
        };
        let from = header.position as usize * block;
        header.encode_into(&mut log.bytes[from..from + header.encoded_bytes(block)]);
        let scan = log.scan(|_, _| ());
        assert_eq!(scan.found.len(), found, "{further} blocks more");
        assert_eq!(scan.problems, []);
    }
}
