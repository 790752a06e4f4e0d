//! Logs read without a map: what is asked for, which records are found, and what is told of what cannot be read.

#![expect(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]

use super::*;
use nearhead_disk::Lane;
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{RecordHeader, WriteItem};
use nearhead_format::{Layout, LayoutKind, LayoutOptions};
use std::collections::BTreeMap;
use std::ops::Range;

const VOLUME_ID: [u8; 16] = [7; 16];
/// Of each of the logs: longer than a window, and no multiple of a read.
const LOG_BYTES: u64 = (5 << 20) + (64 << 10);
/// Every byte of every payload.
const PAYLOAD: u8 = 0x5a;

/// Device bytes.
type Ranges<'a> = &'a [Range<u64>];

/// The logs of a device, and what of it cannot be read.
struct Logs {
    context: ScanContext,
    /// Content of each log.
    content: Vec<Vec<u8>>,
    /// Device bytes.
    bad: Vec<Range<u64>>,
}

/// What was asked for, as device bytes, and what came of it.
struct Swept {
    reads: Vec<Range<u64>>,
    findings: Findings,
}

impl Logs {
    fn of_blocks(log_block_bytes: u32) -> Self {
        let options = LayoutOptions {
            log_block_bytes,
            group_bytes: Some(16 << 20),
            log_bytes: Some(LOG_BYTES),
            ..LayoutOptions::new(LayoutKind::ManyLogs)
        };
        let layout = Layout::plan(64 << 20, &options).unwrap();
        assert!(layout.log_count() >= 2 && LOG_BYTES > WINDOW_BYTES);
        let context =
            ScanContext { layout, volume_id: VOLUME_ID, floor_sequence: 0, gap_bytes_max: 1 << 20 };
        let all = vec![vec![0; LOG_BYTES as usize]; layout.log_count() as usize];
        Self { context, content: all, bad: Vec::new() }
    }

    fn start(&self, log: u32) -> u64 {
        self.context.layout.log_offset(log).unwrap()
    }

    fn block_offset(&self, log: u32, position: u32) -> u64 {
        self.context.layout.log_block_offset(log, position).unwrap()
    }

    /// A record of that many chunks of 4 KiB.
    fn record(log: u32, position: u32, sequence: u64, chunks: u64) -> RecordHeader {
        let chunks = (0..chunks).map(|chunk| {
            let crc = chunk_crc(chunk * 8, &[PAYLOAD; 4096]);
            WriteItem::Chunk { home_sector: chunk * 8, len_sectors: 8, crc }
        });
        RecordHeader {
            volume_id: VOLUME_ID,
            log_index: log,
            position,
            sequence,
            writes: chunks.collect(),
            ..RecordHeader::default()
        }
    }

    /// Writes the record at that place, whatever place it names; gives the log block behind it.
    fn put(&mut self, log: u32, position: u32, header: &RecordHeader) -> u32 {
        let block = self.context.block();
        let from = position as usize * block;
        let bytes = &mut self.content[log as usize][from..];
        let (header_bytes, payload) = bytes.split_at_mut(header.encoded_bytes(block));
        header.encode_into(header_bytes);
        payload[..header.payload_sectors() as usize * 512].fill(PAYLOAD);
        position + (header.record_bytes(block) / block) as u32
    }

    /// Flips a byte of that log block.
    fn damage(&mut self, log: u32, position: u32, byte: usize) {
        let from = position as usize * self.context.block();
        self.content[log as usize][from + byte] ^= 1;
    }

    /// Reads everything that is asked for.
    fn swept(&self) -> Swept {
        let mut finder = Box::<BySweep>::default();
        let mut reads = Vec::new();
        while let Some((at, len)) = finder.next_read(&self.context) {
            assert_eq!(at.lane, Lane::MAIN);
            reads.push(at.offset..at.offset + len);
            assert!(reads.len() < 10_000, "it does not end: {:?}", &reads[9_990..]);
            finder.take(self.read(at.offset, len), &self.context);
        }
        Swept { reads, findings: finder.findings() }
    }

    fn read(&self, offset: u64, len: u64) -> Piece {
        let asked = offset..offset + len;
        let log = self.context.layout.group_of(offset);
        let start = self.start(log);
        let is_inside = start <= asked.start && asked.end <= start + LOG_BYTES && len > 0;
        assert!(is_inside, "asked for {asked:?}, log {log} is {start} to {}", start + LOG_BYTES);
        let from = (offset - start) as usize;
        let mut bytes = self.content[log as usize][from..from + len as usize].to_vec();
        let mut unread = RangeSet::new();
        for bad in &self.bad {
            let bad = bad.start.max(asked.start)..bad.end.min(asked.end);
            if bad.start < bad.end {
                bytes[(bad.start - offset) as usize..(bad.end - offset) as usize].fill(0);
                unread.insert(bad);
            }
        }
        Piece { unread, why: "a bad sector".to_owned(), ..Piece::of(&bytes) }
    }

    /// The reads that there should be: each log in large pieces.
    fn reads_expected(&self) -> Vec<Range<u64>> {
        let mut reads = Vec::new();
        for log in 0..self.content.len() as u32 {
            let end = self.start(log) + LOG_BYTES;
            for from in (self.start(log)..end).step_by(1 << 20) {
                reads.push(from..end.min(from + (1 << 20)));
            }
        }
        reads
    }
}

/// Whether each record of a log was found, by its position: sequence and soundness.
fn found(findings: &Findings, log: u32) -> BTreeMap<u32, (u64, bool)> {
    let records = findings.records.iter().filter(|found| found.header.log_index == log);
    records
        .map(|found| (found.header.position, (found.header.sequence, found.is_sound())))
        .collect()
}

#[test]
fn every_log_is_read_from_its_start_to_its_end_and_nothing_else() {
    for block in [512, 4096] {
        let logs = Logs::of_blocks(block);
        let Swept { reads, findings } = logs.swept();
        assert_eq!(reads, logs.reads_expected(), "log blocks of {block}");
        assert!(findings.records.is_empty() && findings.remains.is_empty());
        assert_eq!(findings.unknown, [], "all of it could be read");
    }
}

/// Bad sectors where pieces, windows and logs begin and end: the first sector of a log block may be that of a record.
#[test]
fn an_unread_first_sector_of_a_log_block_may_hide_a_record_and_no_other() {
    let start = Logs::of_blocks(4096).start(1);
    let end = start + LOG_BYTES;
    let sector = |from: u64| from..from + 512;
    let bad: [(Ranges<'_>, Ranges<'_>); 6] = [
        (&[sector(start)], &[sector(start)]),
        (&[sector(end - 512)], &[]),
        (&[sector(end - 4096)], &[sector(end - 4096)]),
        (&[sector(start + 8704)], &[]),
        (
            &[start + 0x1f_fe00..start + 0x20_0200, sector(start + 0x30_0000)],
            &[sector(start + 0x20_0000), sector(start + 0x30_0000)],
        ),
        (&[start + 512..start + 3 * 4096], &[sector(start + 4096), sector(start + 8192)]),
    ];
    for (bad, unknown) in &bad {
        let mut logs = Logs::of_blocks(4096);
        logs.bad = bad.to_vec();
        let Swept { reads, findings } = logs.swept();
        assert_eq!(findings.unknown, *unknown, "{bad:?} cannot be read, log 1 is {start} to {end}");
        assert_eq!(reads, logs.reads_expected(), "{bad:?} cannot be read");
    }
}

#[test]
fn of_a_log_that_cannot_be_read_at_all_a_bounded_list_is_kept_and_the_others_are_read() {
    let mut logs = Logs::of_blocks(4096);
    logs.bad = vec![logs.start(1)..logs.start(1) + LOG_BYTES];
    logs.put(0, 3, &Logs::record(0, 3, 1, 1));
    logs.put(2, 4, &Logs::record(2, 4, 2, 1));
    let Swept { reads, findings } = logs.swept();
    assert_eq!(findings.unknown.len(), HIDDEN_MAX);
    assert_eq!(reads, logs.reads_expected());
    assert_eq!(found(&findings, 0), [(3, (1, true))].into());
    assert_eq!(found(&findings, 2), [(4, (2, true))].into());
}

/// Where placement leaves out nothing, a record begins behind another one, at the start of a log, or where a claim says.
#[test]
fn an_unread_sector_where_nothing_was_ever_written_hides_nothing() {
    let mut logs = Logs::of_blocks(4096);
    let end = logs.put(1, 300, &Logs::record(1, 300, 9, 2));
    for (position, claimed, in_order, hidden) in [
        (0, 100, true, true),
        (100, 100, true, true),
        (200, 100, true, false),
        (200, 100, false, true),
        (end, 100, true, true),
        (end + 1, 100, true, false),
        (end + 1, 100, false, true),
    ] {
        logs.context.gap_bytes_max = if in_order { 0 } else { 1 << 20 };
        let from = logs.block_offset(1, position);
        logs.bad = vec![from..from + 512];
        let claim = nearhead_format::record::Claim { log_index: 1, position: claimed };
        let mut finder = Box::new(super::super::ByWholeLogs::of(&[claim]));
        while let Some((at, len)) = finder.next_read(&logs.context) {
            finder.take(logs.read(at.offset, len), &logs.context);
        }
        let found = finder.findings().hidden;
        assert_eq!(!found.is_empty(), hidden, "block {position}, in order: {in_order}");
    }
}

/// A record of two chunks, each sector of which cannot be read in turn: its header, or one of its chunks.
#[test]
fn a_bad_sector_in_a_record_hides_it_or_costs_one_chunk() {
    let position = 300;
    for sector in 0..3 * 8 {
        let mut logs = Logs::of_blocks(4096);
        let end = logs.put(1, position, &Logs::record(1, position, 9, 2));
        assert_eq!(end, position + 3);
        let from = logs.block_offset(1, position) + sector * 512;
        logs.bad = vec![from..from + 512];
        let findings = logs.swept().findings;
        let header_sectors = Logs::record(1, position, 9, 2).encoded_bytes(4096) as u64 / 512;
        // The rest of it is padding.
        let is_hidden = sector == 0;
        assert_eq!(findings.unknown.len(), usize::from(is_hidden), "sector {sector}");
        let records = findings.records.iter().filter(|found| found.header.log_index == 1);
        let records: Vec<&Found> = records.collect();
        assert_eq!(records.len(), usize::from(!is_hidden), "sector {sector}");
        for found in records {
            let is_payload = (header_sectors..header_sectors + 16).contains(&sector);
            let unsound = found.chunks_sound.iter().filter(|sound| !**sound).count();
            assert_eq!((unsound, found.is_only_unread), (usize::from(is_payload), is_payload));
        }
    }
}

/// Records of one to four chunks with gaps of none to two blocks, all through the log to its last block: also where
/// reads and windows end.
#[test]
fn every_record_is_found_wherever_it_begins_and_once() {
    for block in [512, 4096] {
        let mut logs = Logs::of_blocks(block);
        let blocks = logs.context.layout.log_blocks();
        let (mut position, mut expected) = (0, BTreeMap::new());
        let last = Logs::record(1, 0, 0, 1).record_bytes(block as usize) as u32 / block;
        while position + 5 * 4096 / block + 2 + last < blocks {
            let sequence = expected.len() as u64 + 1;
            let record = Logs::record(1, position, sequence, sequence % 4 + 1);
            expected.insert(position, (sequence, true));
            position = logs.put(1, position, &record) + sequence as u32 % 3;
        }
        let (position, sequence) = (blocks - last, expected.len() as u64 + 1);
        assert_eq!(logs.put(1, position, &Logs::record(1, position, sequence, 1)), blocks);
        expected.insert(position, (sequence, true));
        let findings = logs.swept().findings;
        assert_eq!(found(&findings, 1), expected, "log blocks of {block}");
        assert_eq!(findings.records.len(), expected.len(), "each of them once");
        assert_eq!((findings.remains, findings.unknown), (Vec::new(), Vec::new()));
    }
}

/// The longest that is written, in each place around where a window ends, the header in it and the end not.
#[test]
fn the_longest_record_is_found_whole_where_a_window_ends() {
    let longest = Logs::record(1, 0, 1, 512);
    assert_eq!(longest.payload_sectors(), crate::RECORD_BYTES_MAX / 512);
    // What is held when it is looked at for the first time.
    let held = WINDOW_BYTES.next_multiple_of(PIECE_BYTES) as u32 / 4096;
    let reach = REACH_BYTES as u32 / 4096;
    for position in (held - reach - 2..held - reach + 3).chain([held - 1]) {
        let mut logs = Logs::of_blocks(4096);
        let last = logs.context.layout.log_blocks() - 515;
        let position = position.min(last);
        let mut record = Logs::record(1, position, 1, 512);
        record.invalidations = (0..2).map(|_| record.writes[0].range()).collect();
        logs.put(1, position, &record);
        let findings = logs.swept().findings;
        assert_eq!(found(&findings, 1), [(position, (1, true))].into());
        assert_eq!((findings.remains, findings.unknown), (Vec::new(), Vec::new()));
    }
}

#[test]
fn after_a_look_no_more_is_held_than_one_record_can_need() {
    let logs = Logs::of_blocks(4096);
    let mut sweep = LogSweep::new(1);
    while sweep.read_end() < WINDOW_BYTES {
        let (offset, len) = sweep.next_read(&logs.context).unwrap();
        sweep.take(logs.read(offset, len), &logs.context);
    }
    sweep.look(&logs.context);
    let held = sweep.window.len() as u64;
    assert!(held <= REACH_BYTES, "expected at most {REACH_BYTES} bytes, found {held}");
}

#[test]
fn a_record_of_another_volume_log_or_place_is_none_and_leaves_no_remains() {
    let here = Logs::record(1, 20, 5, 1);
    for elsewhere in [
        RecordHeader { volume_id: [8; 16], ..here.clone() },
        RecordHeader { log_index: 2, ..here.clone() },
        RecordHeader { log_index: 0, ..here.clone() },
        RecordHeader { position: 19, ..here.clone() },
        RecordHeader { position: 21, ..here.clone() },
        RecordHeader { log_index: 0, position: 21, ..here.clone() },
    ] {
        for is_whole in [true, false] {
            let mut logs = Logs::of_blocks(4096);
            logs.put(1, 20, &elsewhere);
            if !is_whole {
                logs.damage(1, 21, 0);
            }
            logs.put(1, 30, &RecordHeader { position: 30, ..here.clone() });
            let findings = logs.swept().findings;
            assert_eq!(found(&findings, 1), [(30, (5, true))].into(), "{elsewhere:?}");
            assert_eq!(findings.records.len(), 1, "{elsewhere:?}");
            assert_eq!(findings.remains, [], "{elsewhere:?}");
        }
    }
}

#[test]
fn remains_are_told_with_sequence_and_place_and_what_is_whole_leaves_none() {
    let mut logs = Logs::of_blocks(4096);
    for (log, position, sequence) in [(0, 7, 3), (1, 10, 4), (1, 20, 5), (1, 30, 6), (2, 0, 7)] {
        logs.put(log, position, &Logs::record(log, position, sequence, 2));
    }
    logs.damage(0, 9, 100);
    // Of this one not even the header holds.
    logs.damage(1, 20, 90);
    logs.damage(2, 1, 0);
    let findings = logs.swept().findings;
    let remains =
        |log, position, sequence| Remains { sequence, offset: logs.block_offset(log, position) };
    assert_eq!(findings.remains, [remains(0, 7, 3), remains(1, 20, 5), remains(2, 0, 7)]);
    assert_eq!(found(&findings, 0), [(7, (3, false))].into());
    assert_eq!(found(&findings, 1), [(10, (4, true)), (30, (6, true))].into());
    assert_eq!(found(&findings, 2), [(0, (7, false))].into());
}

#[test]
fn of_each_log_a_bounded_number_of_remains_is_told_and_every_record_found() {
    let mut logs = Logs::of_blocks(512);
    let count = REMAINS_MAX as u32 + 3;
    for log in [0, 1] {
        for number in 0..count {
            logs.put(log, number * 20, &Logs::record(log, number * 20, u64::from(number) + 1, 1));
            logs.damage(log, number * 20 + 1, 0);
        }
    }
    logs.put(1, count * 20, &Logs::record(1, count * 20, 1000, 1));
    let findings = logs.swept().findings;
    let first = |log| {
        let told = (0..REMAINS_MAX as u32).map(move |number| (log, number * 20, number));
        told.collect::<Vec<_>>()
    };
    let expected = first(0).into_iter().chain(first(1)).map(|(log, position, number)| Remains {
        sequence: u64::from(number) + 1,
        offset: logs.block_offset(log, position),
    });
    assert_eq!(findings.remains, expected.collect::<Vec<_>>());
    assert_eq!(found(&findings, 0).len(), count as usize);
    assert_eq!(found(&findings, 1).len(), count as usize + 1);
}

/// The place of a record failed, and the next one was written over the end of what it left.
#[test]
fn a_record_in_the_middle_of_one_that_is_not_whole_is_found_and_in_one_that_is_whole_it_is_data() {
    for is_whole in [false, true] {
        let mut logs = Logs::of_blocks(4096);
        let (mut outer, inner) = (Logs::record(1, 40, 8, 3), Logs::record(1, 42, 9, 1));
        if is_whole {
            let mut header = vec![0; 4096];
            inner.encode_into(&mut header);
            let crc = chunk_crc(8, &header);
            outer.writes[1] = WriteItem::Chunk { home_sector: 8, len_sectors: 8, crc };
        }
        logs.put(1, 40, &outer);
        logs.put(1, 42, &inner);
        let found = found(&logs.swept().findings, 1);
        let expected: &[_] =
            if is_whole { &[(40, (8, true))] } else { &[(40, (8, false)), (42, (9, true))] };
        assert_eq!(found, expected.iter().copied().collect());
    }
}

/// Nothing is written over a record that is newer than the snapshot. The space of one that the snapshot includes may have
/// been used again, unless a sound chunk is in that block.
#[test]
fn a_bad_place_in_a_record_found_hides_a_newer_one_only_if_it_may_be_written_over() {
    let mut logs = Logs::of_blocks(4096);
    let end = logs.put(0, 8, &Logs::record(0, 8, 9, 4));
    let last = logs.block_offset(0, end - 2);
    for (floor_sequence, bytes, hidden) in
        [(8, 512, 0), (9, 512, 1), (8, 4096, 0), (9, 4096, 1), (9, 0, 0)]
    {
        logs.context.floor_sequence = floor_sequence;
        logs.bad = vec![last..last + bytes];
        let claim = nearhead_format::record::Claim { log_index: 0, position: 0 };
        let mut finder = Box::new(super::super::ByWholeLogs::of(&[claim]));
        while let Some((at, len)) = finder.next_read(&logs.context) {
            finder.take(logs.read(at.offset, len), &logs.context);
        }
        let found = finder.findings().hidden;
        assert_eq!(found.len(), hidden, "snapshot up to {floor_sequence}, {bytes} bad: {found:?}");
        assert!(found.iter().all(|hidden| hidden.problem.contains(&last.to_string())));
    }
}
