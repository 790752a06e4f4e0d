//! The blank map of a volume as it lies on the disk: made at creation, read when a volume opens, enlarged when it
//! grows.
//!
//! A region is called blank only if the disk knows without reading that every byte of its home is zero: holes of an
//! image file, what was never written on an emulated disk. Of a device that does not know, nothing is blank until a
//! client zeroes it. What cannot be read is never taken for blank, and counts as promised all the same: a disk
//! that reads it tomorrow must not bring back a promise that is not true any more.

use crate::dump::read_long;
use crate::sync_io::SyncIo;
use nearhead_disk::{Disk, DiskError, Run};
use nearhead_engine::BlanksFound;
use nearhead_format::blank_map::{
    BLANK_MAP_END, BLANK_MAP_OFFSET, BLANK_UNIT_BYTES, BLANK_UNIT_REGIONS, BLANK_UNIT_WORDS,
    BLANK_UNITS_OFFSET, BlankMapHeader, REGION_BYTES_MAX, UnitBits, decode_unit, encode_unit,
};
use nearhead_format::{Layout, Superblock};
use std::ops::Range;

/// Units written together, since a disk's sector may be as large.
const BLOCK_UNITS: u64 = 8;
const BLOCK_BYTES: usize = BLOCK_UNITS as usize * BLANK_UNIT_BYTES;

/// A blank map as it was found.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What the engine needs of it; none if the volume has no blank map, or gave it up.
    pub found: Option<BlanksFound>,
    /// What is wrong with it, for people.
    pub findings: Vec<String>,
}

/// Whether the layout leaves the map's place free.
pub fn has_room(layout: &Layout) -> bool {
    layout.slot_offsets.iter().chain([&layout.groups_offset]).all(|at| *at >= BLANK_MAP_END)
}

/// Blocks of units for `regions`.
fn block_count(regions: u64) -> u64 {
    regions.div_ceil(BLANK_UNIT_REGIONS * BLOCK_UNITS)
}

/// Looks where the disk knows of zeros, and remembers the last run it told of.
struct Looker<'a> {
    disk: &'a dyn Disk,
    last: Range<u64>,
    is_zero: bool,
}

impl Looker<'_> {
    fn is_zero(&mut self, from: u64, len: u64) -> bool {
        let (mut at, end) = (from, from + len);
        while at < end {
            if !self.last.contains(&at) {
                let Run { len, zero } = self.disk.run_at(at);
                (self.last, self.is_zero) = (at..at.saturating_add(len.max(1)), zero);
            }
            if !self.is_zero {
                return false;
            }
            at = self.last.end;
        }
        true
    }
}

/// Sets the bits of those of `regions` whose whole home the disk knows to be zeros, and clears the others.
fn look(
    disk: &dyn Disk,
    layout: &Layout,
    header: &BlankMapHeader,
    regions: Range<u64>,
    words: &mut [u64],
) {
    let client_bytes = layout.client_bytes();
    let mut looker = Looker { disk, last: 0..0, is_zero: false };
    for region in regions {
        let start = region * header.region_bytes;
        let len = header.region_bytes.min(client_bytes - start);
        let mut pieces = layout.home_pieces(start, len);
        let blank = pieces.all(|piece| looker.is_zero(piece.device_offset, piece.len));
        let (word, bit) = ((region / 64) as usize, 1 << (region % 64));
        words[word] = if blank { words[word] | bit } else { words[word] & !bit };
    }
}

fn write_blocks(
    io: &mut SyncIo<'_>,
    header: &BlankMapHeader,
    blocks: Range<u64>,
    words: &[u64],
) -> Result<(), DiskError> {
    for block in blocks {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        for unit in block * BLOCK_UNITS..(block + 1) * BLOCK_UNITS {
            let from = unit as usize * BLANK_UNIT_WORDS;
            let bits: UnitBits = std::array::from_fn(|word| words[from + word]);
            bytes.extend_from_slice(&encode_unit(&header.volume_id, unit as u32, &bits));
        }
        io.write(BLANK_UNITS_OFFSET + block * BLOCK_BYTES as u64, &bytes)?;
    }
    Ok(())
}

/// Makes the blank map of a new volume, in regions of `region_bytes`.
pub(crate) fn create(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    region_bytes: u64,
) -> Result<(), DiskError> {
    let header = BlankMapHeader { volume_id: superblock.volume_id, region_bytes };
    let count = header.region_count(superblock.layout.client_bytes());
    let mut words = vec![0; words_for(count)];
    // What was written or punched before may still be on its way to the medium.
    io.flush()?;
    look(io.disk(), &superblock.layout, &header, 0..count, &mut words);
    write_blocks(io, &header, 0..block_count(count), &words)?;
    io.write(BLANK_MAP_OFFSET, &header.encode())?;
    io.flush()
}

fn words_for(count: u64) -> usize {
    (block_count(count) * BLOCK_UNITS) as usize * BLANK_UNIT_WORDS
}

/// Reads the blank map of a volume. Never fails: what cannot be read promises nothing.
pub fn load(io: &mut SyncIo<'_>, superblock: &Superblock) -> Loaded {
    let mut loaded = Loaded::default();
    if !superblock.has_blank_map() || !has_room(&superblock.layout) {
        return loaded;
    }
    let header = match io.read(BLANK_MAP_OFFSET, 4096) {
        Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => return loaded,
        Ok(bytes) => {
            BlankMapHeader::decode(&bytes, &superblock.volume_id).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let client_bytes = superblock.layout.client_bytes();
    match header {
        Ok(header) => load_units(io, &header, client_bytes, &mut loaded),
        Err(problem) => {
            loaded.findings.push(format!(
                "blank map at device byte {BLANK_MAP_OFFSET}: {problem}; everything counts as data"
            ));
            let (region_bytes, is_header_doubtful) = (REGION_BYTES_MAX, true);
            let words = Vec::new();
            let promised = vec![u64::MAX; client_bytes.div_ceil(REGION_BYTES_MAX * 64) as usize];
            loaded.found = Some(BlanksFound { region_bytes, words, promised, is_header_doubtful });
        }
    }
    loaded
}

fn load_units(
    io: &mut SyncIo<'_>,
    header: &BlankMapHeader,
    client_bytes: u64,
    loaded: &mut Loaded,
) {
    let count = header.region_count(client_bytes);
    let (mut words, mut promised) = (vec![0; words_for(count)], vec![0; words_for(count)]);
    let mut problems = Vec::new();
    for block in 0..block_count(count) {
        let offset = BLANK_UNITS_OFFSET + block * BLOCK_BYTES as u64;
        let bytes = read_long(io, offset, BLOCK_BYTES as u64);
        for index in 0..BLOCK_UNITS as usize {
            let unit = block as usize * BLOCK_UNITS as usize + index;
            let bits = bytes.as_ref().map_err(ToString::to_string).and_then(|bytes| {
                decode_unit(&bytes[index * BLANK_UNIT_BYTES..], &header.volume_id, unit as u32)
                    .map_err(|error| error.to_string())
            });
            let range = unit * BLANK_UNIT_WORDS..(unit + 1) * BLANK_UNIT_WORDS;
            match bits {
                Ok(bits) => {
                    words[range.clone()].copy_from_slice(&bits);
                    promised[range].copy_from_slice(&bits);
                }
                Err(problem) => {
                    promised[range].fill(u64::MAX);
                    let at = offset + (index * BLANK_UNIT_BYTES) as u64;
                    problems.push(format!("unit {unit} at device byte {at}: {problem}"));
                }
            }
        }
    }
    if let Some(first) = problems.first() {
        let of = block_count(count) * BLOCK_UNITS;
        loaded.findings.push(format!(
            "blank map: {} of {of} units are not sound, the first {first}; what they are about counts as data",
            problems.len()
        ));
    }
    let (region_bytes, is_header_doubtful) = (header.region_bytes, false);
    loaded.found = Some(BlanksFound { region_bytes, words, promised, is_header_doubtful });
}

/// Before a volume grows from `before` to `after`: what the disk knows of the new part. Every step leaves a map that
/// is true of both.
pub(crate) fn grow(
    io: &mut SyncIo<'_>,
    before: &Superblock,
    after: &Superblock,
) -> Result<(), DiskError> {
    let Some(found) = load(io, before).found.filter(|found| !found.is_header_doubtful) else {
        return Ok(());
    };
    let header = BlankMapHeader { volume_id: before.volume_id, region_bytes: found.region_bytes };
    let first = before.layout.client_bytes() / header.region_bytes;
    let count = header.region_count(after.layout.client_bytes());
    if first >= count {
        return Ok(());
    }
    let mut words = found.words;
    words.resize(words_for(count), 0);
    io.flush()?;
    look(io.disk(), &after.layout, &header, first..count, &mut words);
    let first_block = first / (BLANK_UNIT_REGIONS * BLOCK_UNITS);
    write_blocks(io, &header, first_block..block_count(count), &words)?;
    io.flush()
}
