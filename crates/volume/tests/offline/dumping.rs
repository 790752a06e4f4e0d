//! What is on a device, as it is: every record of a log wherever it begins, which of its chunks are sound, and snapshot slots
//! in every state they may be in.

use crate::medium::{MIB, Medium, spoil};
use crate::support::options;
use crate::watched::Watched;
use nearhead_disk::{Nanos, Properties};
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{SectorRange, WRITES_MAX, WriteItem};
use nearhead_format::snapshot::{BodyItem, BodyWriter};
use nearhead_format::{Entry, Place, RecordHeader, SnapshotHeader, Superblock};
use nearhead_models::{CrashDisk, MemoryStore, Store, plain_properties};
use nearhead_volume::dump::{LogRecord, Slot, read_body, read_long, read_slots, scan_log};
use nearhead_volume::{CreateOptions, SyncIo};

/// Larger than what is looked at together three times over.
const LOG_BYTES: u64 = 24 * MIB;
const LOG: u32 = 1;
/// What is looked at together has room for two of the largest records, and the second half of it is looked at once more.
const HALF_BYTES: u64 = 64 * 1024 + 4 * MIB + 4096;

fn volume() -> Medium {
    let options = CreateOptions { log_bytes: Some(LOG_BYTES), ..options("mlb", 7, 100 * MIB) };
    Medium::made_on(Medium::empty(512 * MIB, false), &options)
}

/// A record at a place of the log, with chunks of these sectors.
fn record(superblock: &Superblock, position: u32, chunks: &[u8]) -> RecordHeader {
    let mut home_sector = 0;
    let mut write = |&len_sectors: &u8| {
        home_sector += 8;
        let crc = chunk_crc(home_sector, &content(home_sector, len_sectors));
        WriteItem::Chunk { home_sector, len_sectors, crc }
    };
    RecordHeader {
        volume_id: superblock.volume_id,
        sequence: u64::from(position) + 1,
        log_index: LOG,
        position,
        writes: chunks.iter().map(&mut write).collect(),
        ..RecordHeader::default()
    }
}

fn content(home_sector: u64, len_sectors: u8) -> Vec<u8> {
    (0..usize::from(len_sectors) * 512).map(|at| (at as u64 / 8 + home_sector) as u8 | 1).collect()
}

/// The record's bytes.
fn encoded(header: &RecordHeader) -> Vec<u8> {
    let mut bytes = vec![0; header.encoded_bytes(512)];
    header.encode_into(&mut bytes);
    for chunk in header.chunks() {
        bytes.extend_from_slice(&content(chunk.home_sector, chunk.len_sectors));
    }
    bytes
}

fn scan(medium: &mut Medium, superblock: &Superblock, log: u32) -> Vec<LogRecord> {
    let mut found = Vec::new();
    medium.with(|io| scan_log(io, superblock, log, &mut |record| found.push(record))).unwrap();
    found
}

#[test]
fn every_record_is_found_once_wherever_it_begins_and_however_long_it_is() {
    let mut medium = volume();
    let superblock = medium.superblock();
    let layout = superblock.layout;
    let (half, last) = ((HALF_BYTES / 512) as u32, layout.log_blocks() - 1);
    // The first and the last block of the log, either side of where one look ends and the next begins, and the largest
    // record across both.
    let mut expected = vec![
        record(&superblock, 0, &[8]),
        record(&superblock, 500, &[1, 8, 3]),
        record(&superblock, half - 10, &[8]),
        record(&superblock, half - 1, &[8; WRITES_MAX]),
        record(&superblock, 3 * half - 5, &[8; 9]),
        record(&superblock, 4 * half, &[8, 8]),
        record(&superblock, last - 10, &[2]),
        record(&superblock, last, &[]),
    ];
    expected[1].invalidations.push(SectorRange { start_sector: 80, len_sectors: 5 });
    for header in &expected {
        let at = layout.log_block_offset(LOG, header.position).unwrap();
        medium.main.write(at, &encoded(header)).unwrap();
    }
    let found = scan(&mut medium, &superblock, LOG);
    let headers: Vec<_> = found.iter().map(|record| record.header.clone()).collect();
    assert_eq!(headers.len(), expected.len());
    assert!(headers == expected, "{:?}", found.iter().map(|f| f.position).collect::<Vec<_>>());
    for (found, header) in found.iter().zip(&expected) {
        assert_eq!(found.position, header.position);
        assert_eq!(Some(found.offset), layout.log_block_offset(LOG, header.position));
        assert_eq!(found.bytes, header.record_bytes(512) as u64);
        let chunks = header.chunks().count();
        assert_eq!(found.chunks_sound, vec![true; chunks], "position {}", header.position);
    }
    // No other log has any, and one that is not there holds none.
    for log in (0..=layout.log_count()).filter(|log| *log != LOG) {
        assert!(scan(&mut medium, &superblock, log).is_empty(), "log {log}");
    }
}

#[test]
fn each_chunk_is_sound_or_not_by_itself_up_to_its_first_and_last_byte() {
    let medium = volume();
    let superblock = medium.superblock();
    let header = record(&superblock, 9, &[1, 8, 3]);
    let at = superblock.layout.log_block_offset(LOG, 9).unwrap();
    let payload = at + header.encoded_bytes(512) as u64;
    for (number, from, to) in [(0, 0, 512), (1, 512, 4608), (2, 4608, 6144)] {
        for byte in [from, to - 8] {
            let mut medium = medium.clone();
            medium.main.write(at, &encoded(&header)).unwrap();
            spoil(&mut medium.main, payload + byte);
            let found = scan(&mut medium, &superblock, LOG);
            let expected = [0, 1, 2].map(|chunk| chunk != number);
            assert_eq!(found[0].chunks_sound, expected, "byte {byte}");
        }
    }
}

#[test]
fn a_record_that_is_cut_off_by_the_end_of_the_log_has_chunks_that_are_not_sound() {
    let mut medium = volume();
    let superblock = medium.superblock();
    let last = superblock.layout.log_blocks() - 1;
    let header = record(&superblock, last, &[8]);
    let at = superblock.layout.log_block_offset(LOG, last).unwrap();
    medium.main.write(at, &encoded(&header)).unwrap();
    let found = scan(&mut medium, &superblock, LOG);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].chunks_sound, [false]);
}

#[test]
fn no_record_of_another_volume_log_or_place_is_told_nor_one_inside_another() {
    let mut medium = volume();
    let superblock = medium.superblock();
    let layout = superblock.layout;
    let own = record(&superblock, 100, &[8]);
    let mut others = [
        RecordHeader { volume_id: [9; 16], ..record(&superblock, 200, &[8]) },
        RecordHeader { log_index: LOG + 1, ..record(&superblock, 300, &[8]) },
        RecordHeader { position: 401, ..record(&superblock, 400, &[8]) },
        record(&superblock, 500, &[8]),
        record(&superblock, 600, &[8]),
    ]
    .map(|header| encoded(&header));
    // A bit of the header, which the checksum covers, and of its mark.
    others[3][97] ^= 1;
    others[4][1] ^= 1;
    for (number, bytes) in others.iter().enumerate() {
        let at = layout.log_block_offset(LOG, 200 + 100 * number as u32).unwrap();
        medium.main.write(at, bytes).unwrap();
    }
    // A client's bytes may look like a record of just that place.
    let at = layout.log_block_offset(LOG, 100).unwrap();
    let (mut bytes, inside) = (encoded(&own), encoded(&record(&superblock, 102, &[])));
    bytes[1024..1024 + inside.len()].copy_from_slice(&inside);
    medium.main.write(at, &bytes).unwrap();
    let found = scan(&mut medium, &superblock, LOG);
    assert_eq!(found.iter().map(|record| record.position).collect::<Vec<_>>(), [100]);
}

#[test]
fn a_long_read_is_made_of_pieces_that_the_disk_takes_each_byte_once() {
    let bytes: Vec<u8> = (0..300_u64 << 10).map(|at| (at / 512) as u8).collect();
    let mut image = MemoryStore::new();
    image.write(4096, &bytes).unwrap();
    for (transfer_bytes_max, len) in
        [(64 << 10, 300 << 10), (64 << 10, 128 << 10), (16 << 20, 300 << 10)]
    {
        let properties = Properties { transfer_bytes_max, ..plain_properties(4 * MIB, 512) };
        let mut disk = Watched::new(CrashDisk::with_image(properties, image.clone()), Vec::new());
        let asked = disk.asked();
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        let read = read_long(&mut io, 4096, len).unwrap();
        assert!(read == bytes[..len as usize]);
        let mut at = 4096;
        for read in asked.reads() {
            assert_eq!(read.start, at);
            assert!(read.end - read.start <= u64::from(transfer_bytes_max));
            at = read.end;
        }
        assert_eq!(at, 4096 + len);
    }
}

fn stopped(times: u64) -> Medium {
    let mut medium = Medium::made(&options("mlb", 7, 4 << 20));
    for version in 1..=times {
        medium = medium.used(|run| {
            let id = run.write(3..4, version);
            run.wait(id);
        });
    }
    medium
}

#[test]
fn a_slot_is_unused_only_if_there_is_nothing_in_front_and_nothing_in_its_copy() {
    let mut made = stopped(0);
    let superblock = made.superblock();
    let layout = superblock.layout;
    let slots = made.with(|io| read_slots(io, &superblock));
    assert_eq!(slots.each_ref().map(|slot| slot.is_unused), [false, true]);
    assert_eq!(slots.each_ref().map(Slot::is_sound), [true, false]);
    assert_eq!(
        slots.each_ref().map(|slot| (slot.slot, slot.at.offset)),
        [(0, layout.slot_offsets[0]), (1, layout.slot_offsets[1])]
    );
    // Something in front that is no header.
    spoil(&mut made.main, layout.slot_offsets[1]);
    assert!(!made.with(|io| read_slots(io, &superblock))[1].is_unused);
    // Nothing in front, but a copy; the copy counts.
    let mut used = stopped(2);
    for slot in 0..2 {
        used.main.zero(layout.slot_offsets[slot], 4096).unwrap();
        let read = used.with(|io| read_slots(io, &superblock));
        assert!(!read[slot].is_unused && read[slot].is_sound());
        assert!(read[slot].header_problem.is_some());
    }
}

#[test]
fn of_a_header_and_its_copy_the_newer_one_counts_and_the_older_is_told() {
    let mut medium = stopped(2);
    let superblock = medium.superblock();
    let layout = superblock.layout;
    for slot in 0..2 {
        let sound = medium.with(|io| read_slots(io, &superblock))[slot].clone();
        let header = sound.header.clone().unwrap();
        assert_eq!((sound.header_problem, sound.body_problem), (None, None));
        let other = |number| SnapshotHeader { snapshot_number: number, ..header };
        // The copy is two snapshots older, as while it is yet to be written.
        let number = header.snapshot_number;
        let mut older = medium.clone();
        older
            .main
            .write(layout.snapshot_copy_offset(slot), &other(number.saturating_sub(2)).encode())
            .unwrap();
        let read = older.with(|io| read_slots(io, &superblock))[slot].clone();
        assert_eq!((read.header, read.header_problem), (Ok(header), None));
        // The header in front is: what was written before it is gone.
        let mut newer = medium.clone();
        newer.main.write(layout.snapshot_copy_offset(slot), &other(number + 2).encode()).unwrap();
        let read = newer.with(|io| read_slots(io, &superblock))[slot].clone();
        assert_eq!(read.header, Ok(other(number + 2)));
        let told = format!(
            "expected the header of snapshot {}, found that of snapshot {number}",
            number + 2
        );
        assert_eq!(read.header_problem, Some(told));
    }
}

#[test]
fn a_body_longer_than_one_read_is_read_whole_and_damage_anywhere_in_it_is_found() {
    let mut medium = stopped(0);
    let superblock = medium.superblock();
    let slot = superblock.layout.slot_offsets[0];
    let entry =
        |block: u64| Entry { home_sector: block * 8, len_sectors: 8, place: Place::Zero, crc: 0 };
    let count = 90_000;
    let mut items = (0..count).map(|block| BodyItem::Entry(entry(block)));
    let (mut writer, mut body) = (BodyWriter::new(), vec![0; 4 << 20]);
    let filled = writer.fill(&mut body, &mut items).unwrap();
    writer.fill(&mut [0; 4096], &mut items).unwrap();
    let header = SnapshotHeader {
        volume_id: superblock.volume_id,
        snapshot_number: 2,
        record_sequence: 0,
        flags: 0,
        body: writer.summary().unwrap(),
    };
    assert!(filled as u64 > MIB && filled as u64 <= superblock.layout.snapshot_body_bytes_max());
    medium.main.write(slot + 4096, &body[..filled]).unwrap();
    medium.main.write(slot, &header.encode()).unwrap();
    assert!(medium.with(|io| read_slots(io, &superblock))[0].is_sound());
    let mut next = 0;
    let mut sink = |item| {
        assert_eq!(item, BodyItem::Entry(entry(next)));
        next += 1;
    };
    medium.with(|io| read_body(io, slot.into(), &header, &mut sink)).unwrap();
    assert_eq!(next, count);
    for at in [0, MIB - 8, MIB, count * 20 - 8] {
        let mut rotten = medium.clone();
        spoil(&mut rotten.main, slot + 4096 + at);
        let read = rotten.with(|io| read_slots(io, &superblock));
        assert!(read[0].body_problem.is_some() && !read[0].is_sound(), "byte {at}");
    }
}
