//! Reading a record header from bytes that may be anything.
//!
//! Order: length of the input, magic, version, sizes and counts against their limits and each
//! other, checksum, and only then the items. Nothing is allocated before the checksum is right.

use super::encode::{
    CRC_AT, FIELDS_END, FRAGMENT_BYTES_AT, FRAGMENTS_AT, MOVES_AT, ZERO_RUN_BIT, header_crc,
};
use super::fragment::from_item;
use super::{
    CLAIMS_MAX, Claim, ECHO_MAX, Fragment, HEADER_BYTES_MAX, HEADER_FIXED_BYTES, INVALIDATIONS_MAX,
    ITEM_BYTES, MOVE_BYTES, MOVES_MAX, PAYLOAD_SECTORS_MAX, RECORD_MAGIC, RECORD_VERSION,
    RecordError, RecordHeader, SectorRange, WRITES_MAX, WriteItem, check_flags, check_fragments,
    check_limit, header_bytes_for,
};
use crate::block::check_zero;
use crate::bytes::FieldError;
use crate::{ENTRY_BYTES, Entry, SECTORS_MAX, VolumeId};
use nearhead_basics::little_endian::{array_at, u16_at, u32_at, u64_at};

/// What the first 512 bytes of a record say about the rest. Nothing of it is verified by the
/// checksum yet; sizes and counts are within their limits and agree with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Size of the header, a multiple of 512.
    pub header_bytes: u32,
    /// Sectors of payload after it, before padding.
    pub payload_sectors: u32,
    /// Place in the global order.
    pub sequence: u64,
    /// The volume it claims to belong to.
    pub volume_id: VolumeId,
    /// The log it claims to be in.
    pub log_index: u32,
    /// The position it claims.
    pub position: u32,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    writes: usize,
    invalidations: usize,
    claims: usize,
    echo: usize,
    moves: usize,
    fragments: usize,
    fragment_bytes: usize,
}

/// Looks at the start of a record, at least 96 bytes (512 in practice), to learn how much to read.
pub fn peek(bytes: &[u8]) -> Result<Peek, RecordError> {
    if bytes.len() < HEADER_FIXED_BYTES {
        return Err(RecordError::Length { expected: HEADER_FIXED_BYTES, found: bytes.len() });
    }
    let bytes = &bytes[..HEADER_FIXED_BYTES];
    let magic: [u8; 4] = array_at(bytes, 0);
    if magic != RECORD_MAGIC {
        return Err(RecordError::NoMagic { found: magic });
    }
    let version = u16_at(bytes, 4);
    if version != RECORD_VERSION {
        return Err(RecordError::Version { expected: RECORD_VERSION, found: version });
    }
    let peek = Peek {
        header_bytes: u32_at(bytes, 52),
        payload_sectors: u32_at(bytes, 56),
        sequence: u64_at(bytes, 24),
        volume_id: array_at(bytes, 8),
        log_index: u32_at(bytes, 32),
        position: u32_at(bytes, 40),
        counts: Counts {
            writes: usize::from(u16_at(bytes, 60)),
            invalidations: usize::from(u16_at(bytes, 62)),
            claims: usize::from(u16_at(bytes, 64)),
            echo: usize::from(u16_at(bytes, 66)),
            moves: usize::from(u16_at(bytes, MOVES_AT)),
            fragments: usize::from(u16_at(bytes, FRAGMENTS_AT)),
            fragment_bytes: u32_at(bytes, FRAGMENT_BYTES_AT) as usize,
        },
    };
    peek.check_sizes(u16_at(bytes, 6))?;
    Ok(peek)
}

impl Peek {
    /// Size of the whole record on disk, in bytes.
    pub fn record_bytes(&self, log_block_bytes: usize) -> usize {
        super::record_bytes(self.header_bytes as usize, self.payload_sectors, log_block_bytes)
    }

    fn check_sizes(&self, flags: u16) -> Result<(), FieldError> {
        let counts = self.counts;
        check_limit("write_count", counts.writes, WRITES_MAX)?;
        check_limit("invalidate_count", counts.invalidations, INVALIDATIONS_MAX)?;
        check_limit("claim_count", counts.claims, CLAIMS_MAX)?;
        check_limit("echo_count", counts.echo, ECHO_MAX)?;
        check_limit("move_count", counts.moves, MOVES_MAX)?;
        check_fragments(flags, [counts.fragments, counts.fragment_bytes], counts.moves)?;
        check_limit(
            "payload_sectors",
            self.payload_sectors as usize,
            PAYLOAD_SECTORS_MAX as usize,
        )?;
        let header_bytes = self.header_bytes as usize;
        let item_count = counts.writes
            + counts.invalidations
            + counts.claims
            + counts.echo
            + counts.moves * (MOVE_BYTES / ITEM_BYTES)
            + counts.fragments;
        let expected =
            [512, 4096].map(|block| header_bytes_for(item_count, counts.fragment_bytes, block));
        if expected.contains(&header_bytes) && header_bytes <= HEADER_BYTES_MAX {
            return Ok(());
        }
        Err(FieldError::new(
            "header_bytes",
            format_args!(
                "{} or {} for {item_count} items and {} bytes of fragments",
                expected[0], expected[1], counts.fragment_bytes
            ),
            header_bytes,
        ))
    }
}

impl RecordHeader {
    /// Reads a header from `bytes`, which may be longer than it.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let peek = peek(bytes)?;
        let Some(header) = bytes.get(..peek.header_bytes as usize) else {
            let expected = peek.header_bytes as usize;
            return Err(RecordError::Length { expected, found: bytes.len() });
        };
        let (expected, found) = (header_crc(header), u32_at(header, CRC_AT));
        if expected != found {
            return Err(RecordError::HeaderChecksum { expected, found });
        }
        let decoded = Self {
            flags: u16_at(header, 6),
            volume_id: peek.volume_id,
            sequence: peek.sequence,
            log_index: peek.log_index,
            position: peek.position,
            previous_position: u32_at(header, 44),
            oldest_live_position: u32_at(header, 48),
            ..Self::default()
        };
        check_flags(decoded.flags)?;
        check_zero("reserved", &header[36..40])?;
        check_zero("reserved", &header[FIELDS_END..HEADER_FIXED_BYTES])?;
        let decoded = decoded.with_items(&header[HEADER_FIXED_BYTES..], peek.counts)?;
        let found = decoded.payload_sectors();
        if found != peek.payload_sectors {
            let expected = format_args!("{found}, the sum of the writes");
            return Err(FieldError::new("payload_sectors", expected, peek.payload_sectors).into());
        }
        Ok(decoded)
    }

    fn with_items(mut self, items: &[u8], counts: Counts) -> Result<Self, FieldError> {
        let mut slots = items.chunks_exact(ITEM_BYTES);
        self.writes = collect(&mut slots, counts.writes, decode_write)?;
        self.invalidations =
            collect(&mut slots, counts.invalidations, |slot| decode_range("invalidation", slot))?;
        self.claims = collect(&mut slots, counts.claims, decode_claim)?;
        self.echo = collect(&mut slots, counts.echo, |slot| decode_range("echo", slot))?;
        self.moves = collect_moves(items, self.item_count(), counts.moves)?;
        let fragments = &items[self.item_count() * ITEM_BYTES..];
        let (fragments, rest) = fragments.split_at(counts.fragments * ITEM_BYTES);
        let (content, padding) = rest.split_at(counts.fragment_bytes);
        self.fragments = collect_fragments(fragments, content)?;
        check_zero("header padding", padding)?;
        Ok(self)
    }
}

/// The last `count` of them, which take two items each, behind `before` items; `peek` has checked that they are there.
fn collect_moves(items: &[u8], before: usize, count: usize) -> Result<Vec<Entry>, FieldError> {
    let slots = items[before * ITEM_BYTES..].chunks_exact(MOVE_BYTES).take(count);
    let mut moves = Vec::with_capacity(count);
    for slot in slots {
        check_zero("reserved", &slot[ENTRY_BYTES..])?;
        let entry = Entry::decode(&array_at(slot, 0))?;
        super::check_move(&entry)?;
        moves.push(entry);
    }
    Ok(moves)
}

/// What `items` say of the bytes of all fragments, which must be all of `content`.
fn collect_fragments(items: &[u8], mut content: &[u8]) -> Result<Vec<Fragment>, FieldError> {
    let found = content.len();
    let mut fragments = Vec::with_capacity(items.len() / ITEM_BYTES);
    for slot in items.chunks_exact(ITEM_BYTES) {
        let (home_sector, offset, len) = from_item(u64_at(slot, 0), u32_at(slot, 8))?;
        let Some((bytes, rest)) = content.split_at_checked(len) else {
            return Err(FieldError::new("fragment_bytes", "the sum of the fragments", found));
        };
        fragments.push(Fragment { home_sector, offset, bytes: bytes.into() });
        content = rest;
    }
    if content.is_empty() {
        return Ok(fragments);
    }
    let expected = format_args!("{}, the sum of the fragments", found - content.len()).to_string();
    Err(FieldError::new("fragment_bytes", expected, found))
}

/// The next `count` items; `peek` has checked that they are there.
fn collect<'a, T>(
    slots: &mut impl Iterator<Item = &'a [u8]>,
    count: usize,
    decode: impl Fn(&[u8]) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let mut items = Vec::with_capacity(count);
    for slot in slots.take(count) {
        items.push(decode(slot)?);
    }
    Ok(items)
}

fn decode_write(slot: &[u8]) -> Result<WriteItem, FieldError> {
    let (word, last) = (u64_at(slot, 0), u32_at(slot, 8));
    let home_sector = word & (SECTORS_MAX - 1);
    let len_field = (word >> 48) & 7;
    let zeros = word & ZERO_RUN_BIT != 0;
    if word >> 52 != 0 || (zeros && len_field != 0) {
        return Err(FieldError::new(
            "write",
            "unused bits zero",
            format_args!("word {word:#018x}"),
        ));
    }
    let item = if zeros {
        WriteItem::Zeros { home_sector, run_sectors: last }
    } else {
        WriteItem::Chunk { home_sector, len_sectors: len_field as u8 + 1, crc: last }
    };
    item.validate()?;
    Ok(item)
}

fn decode_range(name: &'static str, slot: &[u8]) -> Result<SectorRange, FieldError> {
    let range = SectorRange { start_sector: u64_at(slot, 0), len_sectors: u32_at(slot, 8) };
    range.validate(name)?;
    Ok(range)
}

fn decode_claim(slot: &[u8]) -> Result<Claim, FieldError> {
    check_zero("reserved", &slot[8..12])?;
    Ok(Claim { log_index: u32_at(slot, 0), position: u32_at(slot, 4) })
}
