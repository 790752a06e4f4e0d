//! The files of a write-ahead log, changed anywhere, opened whole.
//!
//! The laws: no content of the files makes opening panic or run on; what is read has numbers without a gap and
//! is the same when it is read again, and when the log is opened for writing; what is appended then is found
//! behind it. As long as no checksum was made right, every record read is as it was written.

use crate::input::Input;
use nearhead_format::crc::crc32c;
use nearhead_wal::log::read_only;
use nearhead_wal::storage::{Memory, Storage};
use nearhead_wal::{Geometry, LogOptions, Lsn, SerialLog, Tail};
use std::cell::LazyCell;
use std::sync::Arc;

/// Control blocks and headers of segments, and what a checksum of theirs covers.
const BLOCK_BYTES: usize = 4096;
const BLOCK_CRC_AT: usize = 8;
const RECORD_HEADER_BYTES: usize = 32;
const CONTROL: &str = "wal.control";
const LOG_ID: [u8; 16] = *b"a hostile log id";
/// Records of the log before it is changed.
const RECORDS: u64 = 90;
/// The first of them that was not truncated.
const FIRST: u64 = 20;
/// Changes made to one image.
const PATCHES_MAX: u32 = 16;

type Records = Vec<(u64, Vec<u8>)>;

/// A log as it was left: its storage, its files, and where records begin in each segment.
struct Base {
    storage: Memory,
    names: Vec<String>,
    /// Name, sequence, offset, bytes of payload.
    records: Vec<(String, u64, usize, usize)>,
}

thread_local! {
    /// Closed in order and killed, with either treatment of the tail.
    static BASES: [LazyCell<Base>; 4] = [
        LazyCell::new(|| Base::new(false, Tail::Rewritten)),
        LazyCell::new(|| Base::new(true, Tail::Rewritten)),
        LazyCell::new(|| Base::new(false, Tail::LeftAlone)),
        LazyCell::new(|| Base::new(true, Tail::LeftAlone)),
    ];
}

fn options(tail: Tail) -> LogOptions {
    LogOptions {
        geometry: Geometry { segment_bytes: 16384, block_bytes: 512, tail },
        batch_bytes_max: 4096,
        record_bytes_max: 6000,
        waiting_bytes_max: 64 << 10,
        segments_max: 8,
    }
}

fn payload(lsn: u64) -> Vec<u8> {
    let len = usize::try_from(lsn * 97 % 900).unwrap_or(0);
    (0..len).map(|at| (at as u8).wrapping_mul(7).wrapping_add(lsn as u8)).collect()
}

impl Base {
    fn new(is_closed: bool, tail: Tail) -> Self {
        let storage = Memory::new();
        SerialLog::create(&storage, &options(tail), LOG_ID).expect("an empty directory");
        let opened = SerialLog::open(Arc::new(storage.clone()), &options(tail), |_, _| {});
        let (mut log, _) = opened.expect("a new log");
        for lsn in 1..=RECORDS {
            log.prepare().expect("memory has room");
            log.append(&payload(lsn)).expect("a record that fits");
            if lsn % 3 == 0 {
                log.commit().expect("memory does not fail");
            }
            if lsn == FIRST + 10 {
                log.truncate_prefix(Lsn(FIRST)).expect("a record that is there");
            }
        }
        if is_closed {
            log.close().expect("memory does not fail");
        } else {
            drop(log);
        }
        let mut names = storage.names().expect("memory does not fail");
        names.sort();
        let mut base = Self { storage, names, records: Vec::new() };
        base.find_records();
        base
    }

    /// Follows the lengths in the headers of each segment.
    fn find_records(&mut self) {
        for name in &self.names {
            let Some(hex) = name.strip_suffix(".wal") else { continue };
            let Ok(sequence) = u64::from_str_radix(hex, 16) else { continue };
            let (records, mut at) = (&mut self.records, BLOCK_BYTES);
            self.storage.killed().damage(name, |bytes| {
                while let Some(header) = bytes.get(at..at + RECORD_HEADER_BYTES) {
                    if header[..4] == [0; 4] {
                        // The rest of a block, where the tail is left alone.
                        at = (at + 1).next_multiple_of(512);
                        continue;
                    }
                    let len = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
                    records.push((name.clone(), sequence, at, len as usize));
                    at += RECORD_HEADER_BYTES + (len as usize).next_multiple_of(8);
                }
            });
        }
    }

    /// Makes one change to `storage`; says whether a checksum was made right.
    fn patch(&self, storage: &Memory, input: &mut Input<'_>) -> bool {
        let choice = input.byte();
        let is_sealed = choice & 0x80 != 0;
        let pick = usize::from(input.byte());
        let at = usize::from(input.half());
        let bytes = input.take(usize::from(choice >> 2 & 15) + 1).to_vec();
        match choice & 3 {
            0 => storage.damage(CONTROL, |file| {
                overwrite(file, at % (2 * BLOCK_BYTES), &bytes);
                if is_sealed {
                    seal_block(file, at % (2 * BLOCK_BYTES) / BLOCK_BYTES * BLOCK_BYTES);
                }
            }),
            1 => storage.damage(&self.names[pick % self.names.len()], |file| {
                overwrite(file, at % 64, &bytes);
                if is_sealed {
                    seal_block(file, 0);
                }
            }),
            2 => {
                let (name, sequence, offset, len) = &self.records[pick % self.records.len()];
                storage.damage(name, |file| {
                    overwrite(file, offset + at % (RECORD_HEADER_BYTES + len), &bytes);
                    if is_sealed {
                        seal_record(file, *sequence, *offset, *len);
                    }
                });
            }
            _ => storage.damage(&self.names[pick % self.names.len()], |file| {
                if at % 8 == 0 {
                    file.truncate(at);
                } else {
                    overwrite(file, at, &bytes);
                }
            }),
        }
        is_sealed
    }
}

fn overwrite(file: &mut [u8], at: usize, bytes: &[u8]) {
    let end = (at + bytes.len()).min(file.len());
    if at < end {
        file[at..end].copy_from_slice(&bytes[..end - at]);
    }
}

fn seal_block(file: &mut [u8], at: usize) {
    let Some(block) = file.get_mut(at..at + BLOCK_BYTES) else { return };
    block[BLOCK_CRC_AT..BLOCK_CRC_AT + 4].fill(0);
    let crc = crc32c(block).to_le_bytes();
    block[BLOCK_CRC_AT..BLOCK_CRC_AT + 4].copy_from_slice(&crc);
}

/// Makes both checksums of a record right, as docs/wal.md says; of the payload as long as it was.
fn seal_record(file: &mut [u8], sequence: u64, offset: usize, len: usize) {
    let Some(record) = file.get_mut(offset..offset + RECORD_HEADER_BYTES + len) else { return };
    let payload_crc = crc32c(&record[RECORD_HEADER_BYTES..]).to_le_bytes();
    record[8..12].copy_from_slice(&payload_crc);
    let mut covered = LOG_ID.to_vec();
    covered.extend_from_slice(&sequence.to_le_bytes());
    covered.extend_from_slice(&(offset as u32).to_le_bytes());
    covered.extend_from_slice(&record[4..RECORD_HEADER_BYTES]);
    record[..4].copy_from_slice(&crc32c(&covered).to_le_bytes());
}

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = usize::from(input.byte()) % 4;
    BASES.with(|bases| try_image(&bases[choice], choice, &mut input));
}

fn try_image(base: &Base, choice: usize, input: &mut Input<'_>) {
    let storage = base.storage.killed();
    let mut any_sealed = false;
    for _ in 0..PATCHES_MAX {
        if input.is_empty() {
            break;
        }
        any_sealed |= base.patch(&storage, input);
    }
    let read = read(&storage);
    assert_eq!(read, self::read(&storage), "the same files, read twice");
    if let (Ok(records), false) = (&read, any_sealed) {
        for (lsn, bytes) in records {
            assert!((1..=RECORDS).contains(lsn), "record {lsn} was never there");
            assert_eq!(*bytes, payload(*lsn), "record {lsn}");
        }
    }
    let tail = if choice < 2 { Tail::Rewritten } else { Tail::LeftAlone };
    go_on(&storage, &options(tail), read.as_ref().ok());
}

/// Every record, or that there is damage.
fn read(storage: &Memory) -> Result<Records, String> {
    let mut records = Records::new();
    let outcome = read_only(storage, |lsn, bytes| records.push((lsn.0, bytes.to_vec())));
    outcome.map_err(|error| error.to_string())?;
    assert!(records.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0), "a gap in the numbers");
    Ok(records)
}

/// Opens for writing, appends, and reads all of it again.
fn go_on(storage: &Memory, options: &LogOptions, read: Option<&Records>) {
    let mut records = Records::new();
    let opened = SerialLog::open(Arc::new(storage.clone()), options, |lsn, bytes| {
        records.push((lsn.0, bytes.to_vec()));
    });
    let Ok((mut log, _)) = opened else { return };
    assert_eq!(Some(&records), read, "opened for writing, and read only");
    let appended = log.prepare().and_then(|()| {
        log.append(b"after all").and_then(|lsn| {
            log.commit()?;
            Ok(lsn)
        })
    });
    drop(log);
    if let Ok(lsn) = appended {
        records.push((lsn.0, b"after all".to_vec()));
        assert_eq!(self::read(storage), Ok(records), "what was appended follows what was found");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..4).map(|choice| vec![choice]).collect();
    for kind in [0_u8, 1, 2, 3, 0x80, 0x81, 0x82] {
        for choice in 0..4 {
            seeds.push(vec![choice, kind | 3 << 2, 5, 12, 0, 0xff, 0, 0, 0x10]);
        }
    }
    seeds
}
