//! Whole recovery of an arbitrary image: a small used volume with patches wherever the input says.
//!
//! A patch changes a superblock copy, a snapshot, a record or anything else where the engine keeps
//! its own; the input chooses for each whether the checksum is made right. The laws:
//!
//! - opening comes to an end within a bound of commands, writes nothing, and never panics;
//! - what a read of a logged sector returns matches the checksum of the map's entry; a poisoned one
//!   gives an error;
//! - recovering twice is recovering once, and a clean stop in between changes no content;
//! - as long as no checksum was made right: every sector reads as some version that a client wrote
//!   there, or as an error; and a write acknowledged after recovery survives the next one.

use crate::base::{BLOCKS, Base, KINDS, Session, block_sector, version_of};
use crate::decoders::{BLOCK_BYTES, seal, seal_record};
use crate::image::{bytes_at, put};
use crate::input::Input;
use nearhead_format::crc::{chunk_crc, crc32c};
use nearhead_format::{Entry, Place, SECTOR_BYTES};
use nearhead_models::MemoryStore;
use nearhead_volume::OpenError;
use std::sync::OnceLock;

/// Patches of one input, at most.
const PATCHES_MAX: usize = 16;
/// Entries of the map that are read, at most.
const ENTRIES_MAX: usize = 64;
/// Longest patch in bytes.
const PATCH_BYTES_MAX: usize = 64;

static BASES: [OnceLock<Base>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];

/// Recovers the image that the input makes.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = usize::from(input.byte()) % KINDS.len();
    let base = BASES[kind].get_or_init(|| Base::make(kind));
    let mut store = base.store.clone();
    let mut is_sealed = false;
    for _ in 0..PATCHES_MAX {
        if input.is_empty() {
            break;
        }
        is_sealed |= patch(&mut store, base, &mut input);
    }
    store.consolidate();
    let Ok(first) = open(&store) else { return };
    check(base, &store, first, is_sealed);
}

/// Opens the image; what it then holds, or why it cannot be opened.
fn open(store: &MemoryStore) -> Result<Session, OpenError> {
    let opened = Session::open(store.clone());
    match &opened {
        Ok(session) => assert_eq!(session.volume.disk().changes, 0, "recovery writes"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    opened
}

fn check(base: &Base, store: &MemoryStore, mut first: Session, is_sealed: bool) {
    let damage = first.volume.status().damage;
    let entries = entries_of(&first);
    let found = read_all(&mut first, &entries);
    check_entries(store, &entries, &found);
    if !is_sealed {
        check_versions(&mut first, base.versions);
    }
    let Ok(mut again) = open(store) else { panic!("what opened once does not open again") };
    assert_eq!(again.volume.status().damage, damage, "recovering twice finds other damage");
    assert_eq!(entries_of(&again), entries, "recovering twice finds another map");
    if !again.stop() {
        return;
    }
    // A log that looks full makes a checkpoint begin, and what it brought home is in the map no more.
    let went_home = again.volume.status().stats.checkpointed_bytes > 0;
    let closed = again.volume.into_disk().into_store();
    match open(&closed) {
        Ok(mut last) => {
            if !went_home {
                assert_eq!(entries_of(&last), entries, "a clean stop changed the map");
            }
            assert_eq!(read_all(&mut last, &entries), found, "a clean stop changed the content");
        }
        Err(error) => panic!("a volume that was closed in order does not open: {error}"),
    }
    if !is_sealed {
        check_next_write(first, base.versions);
    }
}

fn entries_of(session: &Session) -> Vec<Entry> {
    session.volume.engine().map().iter().take(ENTRIES_MAX).collect()
}

fn read_all(session: &mut Session, entries: &[Entry]) -> Vec<Option<Vec<u8>>> {
    let read = |entry: &Entry| session.read(entry.home_sector, u64::from(entry.len_sectors));
    entries.iter().map(read).collect()
}

/// Every read is what the entry's checksum stands for, or an error.
fn check_entries(store: &MemoryStore, entries: &[Entry], found: &[Option<Vec<u8>>]) {
    for (entry, bytes) in entries.iter().zip(found) {
        let Some(bytes) = bytes else { continue };
        match entry.place {
            // Home under what fragments brought: no checksum says what that is.
            Place::Home => {}
            Place::Poisoned => panic!("a lost sector reads as something: {entry:?}"),
            Place::Zero => assert!(bytes.iter().all(|byte| *byte == 0), "{entry:?}"),
            Place::Log { chunk_sector, chunk_len, offset } => {
                let chunk_bytes = usize::from(chunk_len) * 512;
                let chunk = bytes_at(store, chunk_sector * SECTOR_BYTES, chunk_bytes);
                let start = entry.chunk_home().map_or(0, |(start, _)| start);
                assert_eq!(chunk_crc(start, &chunk), entry.crc, "unsound and served: {entry:?}");
                let from = usize::from(offset) * 512;
                assert_eq!(*bytes, chunk[from..from + bytes.len()], "{entry:?}");
            }
        }
    }
}

/// Nothing is read that nobody wrote there.
fn check_versions(session: &mut Session, versions: u64) {
    for block in 0..BLOCKS + 2 {
        for sector in block_sector(block)..block_sector(block) + 8 {
            let Some(bytes) = session.read(sector, 1) else { continue };
            let version = version_of(sector, &bytes);
            assert!(
                version.is_some_and(|version| version < versions),
                "sector {sector} reads as what nobody wrote: {:02x?}",
                &bytes[..16]
            );
        }
    }
}

/// Whatever the damage was: what is acknowledged from now on stays.
fn check_next_write(mut session: Session, version: u64) {
    let blocks = [0, BLOCKS / 2, BLOCKS - 1];
    for block in blocks {
        if !session.write(block_sector(block), 8, version) {
            return;
        }
    }
    let store = session.volume.into_disk().into_store();
    let mut session = match Session::open(store) {
        Ok(session) => session,
        Err(error) => panic!("no recovery after a recovery and three writes: {error}"),
    };
    for block in blocks {
        let sector = block_sector(block);
        let Some(bytes) = session.read(sector, 1) else {
            panic!("block {block}, written after recovery, cannot be read after the next");
        };
        assert_eq!(version_of(sector, &bytes), Some(version), "block {block} fell back");
    }
}

/// Makes one change to the image; says whether a checksum was made right.
fn patch(store: &mut MemoryStore, base: &Base, input: &mut Input<'_>) -> bool {
    let choice = input.byte();
    let is_sealed = choice & 0x80 != 0;
    let layout = &base.superblock.layout;
    let slot = layout.slot_offsets[usize::from(choice >> 6 & 1)];
    match choice & 7 {
        0 => {
            let copy = usize::from(input.byte() % 3);
            let offset = layout.superblock_offsets()[copy];
            let at = place(input, choice, BLOCK_BYTES);
            patch_block(store, offset, at, input, is_sealed);
        }
        1 => {
            let at = place(input, choice, BLOCK_BYTES);
            patch_block(store, slot, at, input, is_sealed);
        }
        2 => {
            let at = place(input, choice, BLOCK_BYTES);
            patch_body(store, slot, at, input, is_sealed);
        }
        3 | 4 => {
            let Some(record) = record_of(base, input) else { return false };
            let at = place(input, choice, record.bytes);
            write_patch(store, record.offset + at, input);
            if is_sealed {
                seal_record_at(store, record.offset, record.header_bytes);
            }
        }
        5 => {
            copy_record(store, base, input, is_sealed);
        }
        6 => {
            // Anywhere in a slot or, with a high choice, in the log of a record.
            let inside = u64::from(input.half()) * 512;
            let room = if choice & 8 == 0 { layout.slot_bytes } else { layout.log_bytes };
            let start = if choice & 8 == 0 { Some(slot) } else { log_of(base, input) };
            let Some(start) = start.filter(|_| room > 0) else { return false };
            write_patch(store, start + inside % room / 512 * 512, input);
            return false;
        }
        _ => {
            let Some(record) = record_of(base, input) else { return false };
            let len = if choice & 8 == 0 { 512 } else { record.bytes };
            put(store, record.offset, &vec![0; len]);
            return false;
        }
    }
    is_sealed
}

fn record_of(base: &Base, input: &mut Input<'_>) -> Option<crate::base::RecordPlace> {
    let index = usize::from(input.byte());
    base.records.get(index % base.records.len().max(1)).copied()
}

/// Where a log begins.
fn log_of(base: &Base, input: &mut Input<'_>) -> Option<u64> {
    let layout = &base.superblock.layout;
    layout.log_offset(u32::from(input.byte()) % layout.log_count().max(1))
}

/// A length, then that many bytes over what is there.
fn write_patch(store: &mut MemoryStore, offset: u64, input: &mut Input<'_>) {
    let len = usize::from(input.byte()) % PATCH_BYTES_MAX;
    let bytes = input.take(len);
    put(store, offset, bytes);
}

/// Where in `len` bytes a patch goes: near their start, where what counts is, or anywhere.
fn place(input: &mut Input<'_>, choice: u8, len: usize) -> u64 {
    let at = if choice & 16 == 0 { usize::from(input.byte()) } else { usize::from(input.half()) };
    (at % (len - PATCH_BYTES_MAX)) as u64
}

fn patch_block(
    store: &mut MemoryStore,
    offset: u64,
    at: u64,
    input: &mut Input<'_>,
    is_sealed: bool,
) {
    write_patch(store, offset + at, input);
    if is_sealed {
        seal_block(store, offset);
    }
}

fn seal_block(store: &mut MemoryStore, offset: u64) {
    let mut block = bytes_at(store, offset, BLOCK_BYTES);
    seal(&mut block);
    put(store, offset, &block);
}

/// Changes the body of a snapshot; made right, the header says the new checksum and the lengths
/// stay.
fn patch_body(store: &mut MemoryStore, slot: u64, at: u64, input: &mut Input<'_>, is_sealed: bool) {
    write_patch(store, slot + BLOCK_BYTES as u64 + at, input);
    if !is_sealed {
        return;
    }
    let mut header = bytes_at(store, slot, BLOCK_BYTES);
    let body_bytes = u64::from_le_bytes(header[56..64].try_into().unwrap_or_default());
    let body = bytes_at(store, slot + BLOCK_BYTES as u64, body_bytes.min(1 << 16) as usize);
    header[80..84].copy_from_slice(&crc32c(&body).to_le_bytes());
    put(store, slot, &header);
    seal_block(store, slot);
}

fn seal_record_at(store: &mut MemoryStore, offset: u64, header_bytes: usize) {
    let mut header = bytes_at(store, offset, header_bytes);
    seal_record(&mut header);
    put(store, offset, &header);
}

/// One record also stands where another one was; made right, it says that it belongs there.
fn copy_record(store: &mut MemoryStore, base: &Base, input: &mut Input<'_>, is_sealed: bool) {
    let (Some(from), Some(to)) = (record_of(base, input), record_of(base, input)) else { return };
    let mut bytes = bytes_at(store, from.offset, from.bytes.min(to.bytes));
    if is_sealed {
        let identity = bytes_at(store, to.offset, 96);
        bytes[32..44].copy_from_slice(&identity[32..44]);
    }
    put(store, to.offset, &bytes);
    if is_sealed && from.header_bytes <= bytes.len() {
        seal_record_at(store, to.offset, from.header_bytes);
    }
}

/// Nothing at all, and patches of each sort.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let patches: [&[u8]; 10] = [
        &[0, 0, 8, 4, 1, 2, 3, 4, 0x80, 1, 32, 8, 9],
        &[0xc1, 40, 8, 20, 0, 0, 0, 0, 0, 0, 0],
        &[0xc2, 0, 20, 8, 0, 0, 0, 0, 0, 7, 1, 0, 32, 0, 0, 0, 0, 0, 0, 5],
        &[0x82, 8, 8, 0, 0, 1, 0, 0, 0, 0, 0],
        &[0x83, 4, 96, 8, 16, 0, 0, 0, 0, 0, 7, 0],
        &[0x83, 2, 24, 8, 60, 0, 0, 0, 0, 0, 0, 0],
        &[0x83, 17, 40, 4, 0xff, 0, 0, 0, 0x83, 16, 32, 4, 1, 0, 0, 0],
        &[3, 18, 12, 2, 1, 1, 0x13, 19, 0, 2, 3, 1, 1, 1, 5, 14, 15, 0x85, 3, 4],
        &[7, 200, 15, 3, 6, 4, 0, 2, 1, 1, 14, 9, 0, 1, 2, 1, 1],
        &[7, 17, 7, 19, 15, 20],
    ];
    let seed = |kind, patch: &[u8]| [&[kind], patch].concat();
    let kinds = 0..KINDS.len() as u8;
    let mut seeds: Vec<_> = kinds.flat_map(|kind| patches.map(|patch| seed(kind, patch))).collect();
    // The end of the first item of each record, as if it were a run of zeros or a claim.
    seeds.extend((0..21).map(|record| seed(0, &[0x83, record, 104, 4, 0xff, 0xff, 0xff, 0x7f])));
    seeds
}
