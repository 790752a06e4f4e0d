//! The decoders of everything on disk, one after the other.
//!
//! The laws are the same for all: no input makes one panic, and what one accepts says exactly what
//! it was read from: encoded again it gives the same bytes, so no two encodings mean the same and
//! nothing that was read is ignored. The first byte of an input chooses; its lowest bit says
//! whether the checksum is made right.

use crate::input::{Input, resized};
use nearhead_arrays::{Label, MemberLabel};
use nearhead_disk::Nanos;
use nearhead_format::blank_map::{BLANK_UNIT_BYTES, decode_unit, encode_unit};
use nearhead_format::crc::crc32c;
use nearhead_format::record::{HEADER_BYTES_MAX, HEADER_FIXED_BYTES, peek};
use nearhead_format::snapshot::{BodyItem, BodyReader, BodySummary, BodyWriter};
use nearhead_format::{
    BlankMapHeader, Layout, MapDevice, RecordHeader, SnapshotHeader, Superblock,
};
use nearhead_models::plain_properties;
use nearhead_volume::Presets;
use nearhead_volume::backup::Backup;

/// Size of a superblock copy and of every header but a record's.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// The volume that headers belong to.
pub(crate) const VOLUME_ID: [u8; 16] = [7; 16];
/// Size of the device that a map device's header is looked for on.
pub(crate) const MAP_DEVICE_BYTES: u64 = 64 << 20;
/// Room for the body of a snapshot.
pub(crate) const BODY_BYTES_MAX: u64 = 1 << 30;
/// Bytes of an input that say how long each list of a body is.
pub(crate) const COUNT_BYTES: usize = 5;

/// Puts the checksum over a block at its end.
pub(crate) fn seal(block: &mut [u8]) {
    let at = block.len() - 4;
    let crc = crc32c(&block[..at]);
    block[at..].copy_from_slice(&crc.to_le_bytes());
}

/// The checksum of a record's header, made right in place.
pub(crate) fn seal_record(header: &mut [u8]) {
    header[68..72].fill(0);
    let crc = crc32c(header);
    header[68..72].copy_from_slice(&crc.to_le_bytes());
}

fn block_of(input: &mut Input<'_>, is_sealed: bool) -> Vec<u8> {
    let mut block = resized(input.rest(), BLOCK_BYTES);
    if is_sealed {
        seal(&mut block);
    }
    block
}

/// A copy of the superblock; what it says of the device leads nowhere outside of it.
pub(crate) fn superblock(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let copy = u32::from(choice >> 1 & 3);
    let block = block_of(&mut input, choice & 1 == 1);
    let Ok(superblock) = Superblock::decode(&block, copy) else { return };
    if !superblock.must_be_read_only() {
        assert_eq!(superblock.encode(copy)[..], block[..], "not what was read");
    }
    check_layout(&superblock.layout);
    let layout = &superblock.layout;
    let properties = plain_properties(layout.device_bytes, 512);
    let Ok(preset) = Presets::default().of(&superblock) else { return };
    let config = preset.config(&superblock, &properties);
    assert!(config.snapshot_period > Nanos::ZERO);
}

/// Places that are asked for lie on the device and not in each other.
fn check_layout(layout: &Layout) {
    let copies = layout.superblock_offsets();
    assert!(copies.iter().all(|at| at + BLOCK_BYTES as u64 <= layout.device_bytes), "{layout:?}");
    let logs = layout.log_count();
    let devices = layout.end_bytes();
    for log in [0, logs / 2, logs.saturating_sub(1), logs, u32::MAX] {
        let Some(start) = layout.log_offset(log) else { continue };
        assert!(log < logs, "{layout:?}");
        assert!(start.checked_add(layout.log_bytes).is_some_and(|end| end <= devices));
        let last = layout.log_blocks().saturating_sub(1);
        let block = layout.log_block_offset(log, last);
        assert!(block.is_some_and(|at| at < devices), "{layout:?}");
    }
    let bytes = layout.client_bytes();
    for offset in [0, bytes / 2, bytes.saturating_sub(4096), bytes, u64::MAX] {
        let Some(piece) = layout.home(offset) else { continue };
        assert!(offset < bytes, "{layout:?}");
        // Where there are no homes they are behind all devices.
        assert!(layout.is_chain() == (piece.device_offset >= devices), "{layout:?}");
    }
}

/// The header of a record.
pub(crate) fn record_header(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let mut bytes = input.rest().to_vec();
    if choice & 1 == 1 {
        bytes = resized(&bytes, bytes.len().max(HEADER_FIXED_BYTES));
        if let Ok(peeked) = peek(&bytes) {
            bytes = resized(&bytes, peeked.header_bytes as usize);
            seal_record(&mut bytes);
        }
    }
    let Ok(header) = RecordHeader::decode(&bytes) else { return };
    assert_eq!(header.validate(), Ok(()), "accepted, but not what an encoder would take");
    let len = peek(&bytes).map_or(0, |peeked| peeked.header_bytes as usize);
    assert!((HEADER_FIXED_BYTES..=HEADER_BYTES_MAX).contains(&len), "{len}");
    let mut again = vec![0xa5; len];
    header.encode_into(&mut again);
    assert_eq!(again, bytes[..len], "not what was read");
    let sectors: u32 = header.chunks().map(|chunk| u32::from(chunk.len_sectors)).sum();
    assert_eq!(sectors, header.payload_sectors());
}

/// The header of a snapshot slot.
pub(crate) fn snapshot_header(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let slot = u32::from(choice >> 1 & 1);
    let block = block_of(&mut input, choice & 1 == 1);
    let Ok(header) = SnapshotHeader::decode(&block, &VOLUME_ID, slot, BODY_BYTES_MAX) else {
        return;
    };
    assert_eq!(header.encode()[..], block[..], "not what was read");
    assert!(header.body.body_bytes <= BODY_BYTES_MAX, "{header:?}");
    assert_eq!((header.slot(), header.volume_id), (slot, VOLUME_ID));
}

/// The body of a snapshot, in one piece and in many.
pub(crate) fn snapshot_body(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let counts = resized(input.take(COUNT_BYTES), COUNT_BYTES);
    let mut summary = BodySummary {
        entry_count: u64::from(counts[0]),
        log_count: u32::from(counts[1]),
        claim_count: u32::from(counts[2]),
        hint_count: u32::from(counts[3]),
        fragment_count: u32::from(counts[4]),
        ..BodySummary::default()
    };
    summary.body_bytes = summary.expected_body_bytes().unwrap_or(0);
    let body = resized(input.rest(), summary.body_bytes as usize);
    summary.body_crc = if choice & 1 == 1 { crc32c(&body) } else { 0 };
    let step = 1 + usize::from(choice >> 1);
    let whole = body_items(summary, &body, body.len().max(1));
    assert_eq!(body_items(summary, &body, step), whole, "pieces of {step} bytes matter");
    let Some(items) = whole else { return };
    let mut writer = BodyWriter::new();
    let mut again = vec![0xa5; body.len() + BLOCK_BYTES];
    let filled = writer.fill(&mut again, &mut items.into_iter());
    assert_eq!(filled, Ok(body.len()), "accepted, but not what a writer would take");
    assert_eq!(again[..body.len()], body[..], "not what was read");
    assert_eq!(writer.summary(), Some(summary));
}

/// The items of a body fed in steps, if it is sound as a whole.
fn body_items(summary: BodySummary, body: &[u8], step: usize) -> Option<Vec<BodyItem>> {
    let mut reader = BodyReader::new(summary);
    let mut items = Vec::new();
    for piece in body.chunks(step) {
        reader.feed(piece, &mut |item| items.push(item)).ok()?;
    }
    reader.finish().ok().map(|()| items)
}

/// The header of a map device.
pub(crate) fn map_device(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let block = block_of(&mut input, choice & 1 == 1);
    let Ok(device) = MapDevice::decode(&block, MAP_DEVICE_BYTES) else { return };
    assert_eq!(device.encode()[..], block[..], "not what was read");
    let end = device.journal_offset.checked_add(device.journal_bytes);
    assert!(end.is_some_and(|end| end <= MAP_DEVICE_BYTES), "{device:?}");
}

/// The header of a blank map, or one of its units.
pub(crate) fn blank_map(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    if choice & 2 == 0 {
        let block = block_of(&mut input, choice & 1 == 1);
        let Ok(header) = BlankMapHeader::decode(&block, &VOLUME_ID) else { return };
        assert_eq!(header.encode()[..], block[..], "not what was read");
        let count = header.region_count(1 << 50);
        assert!((1..=7 << 20).contains(&count), "{count} regions");
        return;
    }
    let number = u32::from(choice >> 2);
    let mut unit = resized(input.rest(), BLANK_UNIT_BYTES);
    if choice & 1 == 1 {
        seal(&mut unit);
    }
    let Ok(bits) = decode_unit(&unit, &VOLUME_ID, number) else { return };
    assert_eq!(encode_unit(&VOLUME_ID, number, &bits)[..], unit[..], "not what was read");
}

/// A metadata backup: head, superblock, snapshot header and body in one file. The first byte also says which checksums
/// and sizes are made right.
pub(crate) fn metadata_backup(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let lengths = [input.half(), input.half(), input.half()].map(usize::from);
    let mut parts = lengths.map(|len| resized(input.take(len % (BLOCK_BYTES + 1)), BLOCK_BYTES));
    let body = input.rest();
    let body = resized(body, body.len().next_multiple_of(BLOCK_BYTES));
    if choice & 1 == 1 {
        let body_bytes = body.len() as u64;
        parts[0][48..56].copy_from_slice(&body_bytes.to_le_bytes());
        parts[0][56..64].copy_from_slice(&(body_bytes + 3 * BLOCK_BYTES as u64).to_le_bytes());
        parts[2][56..64].copy_from_slice(&body_bytes.to_le_bytes());
        parts[2][80..84].copy_from_slice(&crc32c(&body).to_le_bytes());
    }
    for (number, part) in parts.iter_mut().enumerate() {
        if choice >> (number + 1) & 1 == 1 {
            seal(part);
        }
    }
    let file = [parts.concat(), body].concat();
    let Ok(backup) = Backup::decode(&file, Presets::default()) else { return };
    // A superblock of a newer program may say more in bytes that are ignored.
    let may_say_more = backup.superblock.must_be_read_only();
    assert!(may_say_more || backup.encode() == file, "not what was read");
    assert_eq!(backup.superblock.volume_id, backup.snapshot.volume_id, "two volumes in one");
}

/// The label of an array's member: two slots, of which the newer sound one counts, with its notes if they are sound, too.
pub(crate) fn array_label(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let second = resized(input.take(if choice & 2 == 2 { 128 } else { 0 }), BLOCK_BYTES);
    let mut slots = resized(input.rest(), BLOCK_BYTES);
    slots.extend(second);
    if choice & 1 == 1 {
        for slot in slots.chunks_exact_mut(BLOCK_BYTES) {
            let covered = [&slot[..8], &slot[12..512]].concat();
            slot[8..12].copy_from_slice(&crc32c(&covered).to_le_bytes());
            let covered = [&slot[..520], &slot[524..]].concat();
            if choice & 4 == 4 {
                slot[520..524].copy_from_slice(&crc32c(&covered).to_le_bytes());
            }
        }
    }
    let Ok(Some(label)) = Label::decode(&slots) else { return };
    let again = label.encode();
    assert_eq!(Label::decode(&again), Ok(Some(label)), "it is not read as it was written");
    let is_there = slots.chunks_exact(BLOCK_BYTES).any(|slot| slot[..512] == again[..512]);
    assert!(is_there, "not what was read: {label:?}");
    let Ok(Some(found)) = MemberLabel::decode(&slots) else { panic!("a label with no member") };
    let slot = found.encode();
    let is_there = slots.chunks_exact(BLOCK_BYTES).any(|there| there == slot);
    assert!(is_there || !found.has_notes(), "not what was read: {found:?}");
    for member in [0, 1, 31, 32, u16::MAX] {
        let _ = label.counts(member);
    }
    assert_eq!(label.array_name().len(), 8);
}
