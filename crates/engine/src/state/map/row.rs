//! One row of a leaf: an entry folded into 16 bytes.
//!
//! A leaf knows the first sector of its part of the address space, so a row keeps only the distance
//! from there (32 bits), and sector numbers below 2^48 leave room for the small fields beside them.
//! Folding loses nothing: what was folded unfolds to the same entry.
//!
//! ```text
//! key     | home_sector - base of the leaf (32)                                         |
//! word    63     59 58  57 56     54 53   51 50  48 47                                 0
//!         | zero   | kind | chunk-1 | offset | len-1 | chunk_sector; 0 unless logged    |
//! crc     | CRC32C of the chunk (32)                                                    |
//! ```

use nearhead_format::{BLOCK_SECTORS, Entry, Place, SECTORS_MAX};

const SECTOR_MASK: u64 = SECTORS_MAX - 1;
const LEN_SHIFT: u32 = 48;
const OFFSET_SHIFT: u32 = 51;
const CHUNK_LEN_SHIFT: u32 = 54;
const KIND_SHIFT: u32 = 57;
const KIND_LOG: u64 = 0;
const KIND_ZERO: u64 = 1;
const KIND_POISONED: u64 = 2;
const KIND_HOME: u64 = 3;

/// An entry relative to the base of its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: u32,
    pub(super) word: u64,
    pub(super) crc: u32,
}

/// Folds everything but the home sector and the checksum. The entry must be valid.
#[inline]
pub(super) fn fold(entry: &Entry) -> u64 {
    let len = u64::from(entry.len_sectors - 1) << LEN_SHIFT;
    match entry.place {
        Place::Log { chunk_sector, chunk_len, offset } => {
            chunk_sector
                | len
                | u64::from(offset) << OFFSET_SHIFT
                | u64::from(chunk_len - 1) << CHUNK_LEN_SHIFT
                | KIND_LOG << KIND_SHIFT
        }
        Place::Zero => len | KIND_ZERO << KIND_SHIFT,
        Place::Poisoned => len | KIND_POISONED << KIND_SHIFT,
        Place::Home => len | KIND_HOME << KIND_SHIFT,
    }
}

/// The entry that [`fold`] made `word` of.
#[inline]
pub(super) fn unfold(home_sector: u64, word: u64, crc: u32) -> Entry {
    let place = match word >> KIND_SHIFT {
        KIND_LOG => Place::Log {
            chunk_sector: word & SECTOR_MASK,
            chunk_len: small(word, CHUNK_LEN_SHIFT) + 1,
            offset: small(word, OFFSET_SHIFT),
        },
        KIND_ZERO => Place::Zero,
        KIND_HOME => Place::Home,
        _ => Place::Poisoned,
    };
    Entry { home_sector, len_sectors: small(word, LEN_SHIFT) + 1, place, crc }
}

/// What [`fold`] makes of a whole block that is a chunk of its own, but for where that is.
const WHOLE: u64 = ((BLOCK_SECTORS - 1) << LEN_SHIFT) | ((BLOCK_SECTORS - 1) << CHUNK_LEN_SHIFT);

/// The place of a folded entry in blocks, if it is a whole block logged as a chunk of its own, at a multiple of a block, and not too far away.
#[inline]
pub(super) fn pack(word: u64) -> Option<u32> {
    let sector = word & SECTOR_MASK;
    let is_whole = word & !SECTOR_MASK == WHOLE && sector.is_multiple_of(BLOCK_SECTORS);
    u32::try_from(sector / BLOCK_SECTORS).ok().filter(|_| is_whole)
}

/// The folded entry of which [`pack`] made this.
#[inline]
pub(super) fn unpack(block: u32) -> u64 {
    WHOLE | (u64::from(block) * BLOCK_SECTORS)
}

/// Length in sectors of a folded entry.
#[inline]
pub(super) fn len_of(word: u64) -> u64 {
    u64::from(small(word, LEN_SHIFT)) + 1
}

#[inline]
fn small(word: u64, shift: u32) -> u8 {
    ((word >> shift) & 7) as u8
}

/// The part of `entry` inside `from..to`, which must overlap it. The chunk stays whole, because
/// only the whole chunk can be verified.
#[inline]
pub(in crate::state) fn cut(entry: &Entry, from: u64, to: u64) -> Entry {
    let home_sector = entry.home_sector.max(from);
    let end_sector = entry.end_sector().min(to);
    debug_assert!(home_sector < end_sector, "{entry:?} is outside {from}..{to}");
    let skipped = (home_sector - entry.home_sector) as u8;
    let place = match entry.place {
        Place::Log { chunk_sector, chunk_len, offset } => {
            Place::Log { chunk_sector, chunk_len, offset: offset + skipped }
        }
        other => other,
    };
    Entry { home_sector, len_sectors: (end_sector - home_sector) as u8, place, crc: entry.crc }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_keeps_every_field_at_its_extremes() {
        for (len_sectors, chunk_len, offset) in [(1, 1, 0), (8, 8, 0), (1, 8, 7), (3, 7, 4)] {
            for chunk_sector in [0, 1, SECTOR_MASK - 8] {
                let place = Place::Log { chunk_sector, chunk_len, offset };
                let entry = Entry { home_sector: 7, len_sectors, place, crc: 0xdead_beef };
                assert_eq!(unfold(7, fold(&entry), entry.crc), entry);
                assert_eq!(len_of(fold(&entry)), u64::from(len_sectors));
            }
        }
        for place in [Place::Zero, Place::Poisoned, Place::Home] {
            let entry = Entry { home_sector: 9, len_sectors: 5, place, crc: 0 };
            assert_eq!(unfold(9, fold(&entry), 0), entry);
        }
    }

    #[test]
    fn what_is_packed_is_a_whole_block_in_a_chunk_of_its_own_and_unpacks_to_what_it_was() {
        let word = |len_sectors, chunk_len, offset, chunk_sector| {
            let place = Place::Log { chunk_sector, chunk_len, offset };
            fold(&Entry { home_sector: 0, len_sectors, place, crc: 0 })
        };
        let farthest = u64::from(u32::MAX) * 8;
        for chunk_sector in [0, 8, farthest] {
            let whole = word(8, 8, 0, chunk_sector);
            assert_eq!(pack(whole).map(unpack), Some(whole));
        }
        let zero = Entry { home_sector: 0, len_sectors: 8, place: Place::Zero, crc: 0 };
        for other in [
            word(7, 8, 0, 8),
            word(7, 7, 0, 8),
            word(7, 8, 1, 8),
            word(8, 8, 0, 9),
            word(8, 8, 0, farthest + 8),
            fold(&zero),
        ] {
            assert_eq!(pack(other), None, "{other:#x}");
        }
    }

    #[test]
    fn a_cut_keeps_the_chunk_and_moves_the_offset() {
        let place = Place::Log { chunk_sector: 100, chunk_len: 7, offset: 1 };
        let entry = Entry { home_sector: 18, len_sectors: 6, place, crc: 1 };
        let place = Place::Log { chunk_sector: 100, chunk_len: 7, offset: 3 };
        let middle = Entry { home_sector: 20, len_sectors: 2, place, crc: 1 };
        assert_eq!(cut(&entry, 20, 22), middle);
        assert_eq!(cut(&entry, 0, 1000), entry);
    }
}
