//! The map entry: where the newest copy of up to eight home sectors is.
//!
//! An [`Entry`] is 20 bytes on disk and `(u64, u64, u32)` ([`PackedEntry`]) in the engine's memory.
//! It never crosses a 4 KiB home block, and a logged one lies inside one *chunk*: what was written
//! at once, at most one home block, with one checksum. An entry that a later, smaller write has cut
//! keeps naming its whole chunk, because only the whole chunk can be verified.
//!
//! ```text
//! word0   63        57 56     54 53   51 50  48 47                                0
//!         | zero (7) | chunk-1  | offset | len-1 |         home_sector             |
//! word1   | chunk_sector; 2^64 - 1 = Zero, 2^64 - 2 = Poisoned, 2^64 - 3 = Home    |
//! crc     | CRC32C of the whole chunk with its home address; 0 unless logged       |
//! ```

use crate::bytes::FieldError;
use crate::{BLOCK_SECTORS, SECTORS_MAX};
use nearhead_basics::little_endian::{put, u32_at, u64_at};

/// Size of an entry on disk.
pub const ENTRY_BYTES: usize = 20;

const SECTOR_MASK: u64 = SECTORS_MAX - 1;
const LEN_SHIFT: u32 = 48;
const OFFSET_SHIFT: u32 = 51;
const CHUNK_LEN_SHIFT: u32 = 54;
const UNUSED_SHIFT: u32 = 57;
const ZERO_WORD: u64 = u64::MAX;
const POISONED_WORD: u64 = u64::MAX - 1;
const HOME_WORD: u64 = u64::MAX - 2;

/// Where the newest copy of an entry's sectors is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a log.
    Log {
        /// Device sector where the chunk starts.
        chunk_sector: u64,
        /// Sectors in the whole chunk, 1 to 8.
        chunk_len: u8,
        /// The entry's first sector inside the chunk.
        offset: u8,
    },
    /// Nowhere: the sectors read as zeros.
    Zero,
    /// Nowhere: the newest copy was lost, and an older one must not be served (EIO).
    Poisoned,
    /// At home, below bytes of them that [fragments](crate::record::Fragment) brought.
    Home,
}

/// One line of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// First sector of the client's address space it describes, below 2^48.
    pub home_sector: u64,
    /// Number of sectors, 1 to 8, all in one 4 KiB home block.
    pub len_sectors: u8,
    /// Where they are.
    pub place: Place,
    /// [`chunk_crc`](crate::crc::chunk_crc) of the whole chunk; 0 unless logged.
    pub crc: u32,
}

/// An entry as the engine keeps it: the on-disk words, not yet unfolded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PackedEntry {
    /// Home sector and the three small fields.
    pub word0: u64,
    /// Chunk sector or a mark.
    pub word1: u64,
    /// Checksum of the chunk.
    pub crc: u32,
}

const _: () = assert!(size_of::<PackedEntry>() == 24, "a logged block costs 24 bytes of memory");
const _: () = assert!(ENTRY_BYTES == 8 + 8 + 4, "no padding on disk");

impl Entry {
    /// The sector after the last one it describes.
    #[inline]
    pub fn end_sector(&self) -> u64 {
        self.home_sector + u64::from(self.len_sectors)
    }

    /// The home sector of the first sector of its chunk, which the checksum covers, and the chunk's
    /// length in sectors; `None` unless logged.
    #[inline]
    pub fn chunk_home(&self) -> Option<(u64, u8)> {
        match self.place {
            Place::Log { chunk_len, offset, .. } => {
                Some((self.home_sector.saturating_sub(u64::from(offset)), chunk_len))
            }
            Place::Zero | Place::Poisoned | Place::Home => None,
        }
    }

    /// Folds the entry into words.
    ///
    /// The entry must be valid ([`Entry::validate`]); debug builds check that.
    #[inline]
    pub fn pack(&self) -> PackedEntry {
        debug_assert_eq!(self.validate(), Ok(()), "{self:?}");
        let (word1, chunk_len, offset) = match self.place {
            Place::Log { chunk_sector, chunk_len, offset } => (chunk_sector, chunk_len, offset),
            Place::Zero => (ZERO_WORD, 1, 0),
            Place::Poisoned => (POISONED_WORD, 1, 0),
            Place::Home => (HOME_WORD, 1, 0),
        };
        let word0 = self.home_sector
            | u64::from(self.len_sectors - 1) << LEN_SHIFT
            | u64::from(offset) << OFFSET_SHIFT
            | u64::from(chunk_len - 1) << CHUNK_LEN_SHIFT;
        PackedEntry { word0, word1, crc: self.crc }
    }

    /// Checks everything the format demands of an entry.
    #[inline]
    pub fn validate(&self) -> Result<(), FieldError> {
        if self.is_valid() { Ok(()) } else { self.find_fault() }
    }

    /// The same as a yes or no, for those who check millions.
    #[inline]
    fn is_valid(&self) -> bool {
        let in_block = self.home_sector % BLOCK_SECTORS;
        let len = u64::from(self.len_sectors);
        let home_is_valid =
            self.home_sector < SECTORS_MAX && len >= 1 && in_block + len <= BLOCK_SECTORS;
        let Place::Log { chunk_sector, chunk_len, offset } = self.place else {
            return home_is_valid && self.crc == 0;
        };
        let (chunk_len, offset) = (u64::from(chunk_len), u64::from(offset));
        home_is_valid
            && (1..=BLOCK_SECTORS).contains(&chunk_len)
            && offset + len <= chunk_len
            && offset <= in_block
            && in_block - offset + chunk_len <= BLOCK_SECTORS
            && chunk_sector <= SECTORS_MAX - chunk_len
    }

    #[cold]
    fn find_fault(&self) -> Result<(), FieldError> {
        check_block_range("entry home_sector and len", self.home_sector, self.len_sectors)?;
        let Place::Log { chunk_sector, chunk_len, offset } = self.place else {
            if self.crc != 0 {
                return Err(FieldError::new(
                    "entry crc",
                    "0 for an entry without a chunk",
                    self.crc,
                ));
            }
            return Ok(());
        };
        if !(1..=BLOCK_SECTORS as u8).contains(&chunk_len) {
            return Err(FieldError::new("entry chunk_len", "1 to 8 sectors", chunk_len));
        }
        if u16::from(offset) + u16::from(self.len_sectors) > u16::from(chunk_len) {
            return Err(FieldError::new(
                "entry offset",
                format_args!("{} sectors inside a chunk of {chunk_len}", self.len_sectors),
                offset,
            ));
        }
        let in_block = self.home_sector % BLOCK_SECTORS;
        let fits = u64::from(offset) <= in_block
            && in_block - u64::from(offset) + u64::from(chunk_len) <= BLOCK_SECTORS;
        if !fits {
            return Err(FieldError::new(
                "entry chunk",
                "a chunk inside one 4 KiB home block",
                format_args!(
                    "home sector {} at offset {offset} of a chunk of {chunk_len}",
                    self.home_sector
                ),
            ));
        }
        if chunk_sector > SECTORS_MAX - u64::from(chunk_len) {
            return Err(FieldError::new("entry chunk_sector", "a sector below 2^48", chunk_sector));
        }
        Ok(())
    }

    /// The 20 bytes on disk.
    #[inline]
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        self.pack().encode()
    }

    /// Reads 20 bytes from a disk, trusting none of them.
    #[inline]
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Result<Self, FieldError> {
        PackedEntry::decode(bytes).unpack()
    }
}

impl PackedEntry {
    /// First home sector.
    #[inline]
    pub fn home_sector(&self) -> u64 {
        self.word0 & SECTOR_MASK
    }

    /// Number of sectors, 1 to 8.
    #[inline]
    pub fn len_sectors(&self) -> u8 {
        ((self.word0 >> LEN_SHIFT) & 7) as u8 + 1
    }

    /// The sector after the last.
    #[inline]
    pub fn end_sector(&self) -> u64 {
        self.home_sector() + u64::from(self.len_sectors())
    }

    /// Where the sectors are.
    #[inline]
    pub fn place(&self) -> Place {
        match self.word1 {
            ZERO_WORD => Place::Zero,
            POISONED_WORD => Place::Poisoned,
            HOME_WORD => Place::Home,
            chunk_sector => Place::Log {
                chunk_sector,
                chunk_len: ((self.word0 >> CHUNK_LEN_SHIFT) & 7) as u8 + 1,
                offset: ((self.word0 >> OFFSET_SHIFT) & 7) as u8,
            },
        }
    }

    /// Unfolds words that [`Entry::pack`] made; for anything else use [`PackedEntry::unpack`].
    #[inline]
    pub fn entry(&self) -> Entry {
        Entry {
            home_sector: self.home_sector(),
            len_sectors: self.len_sectors(),
            place: self.place(),
            crc: self.crc,
        }
    }

    /// Unfolds words of unknown origin, checking everything.
    #[inline]
    pub fn unpack(&self) -> Result<Entry, FieldError> {
        if self.word0 >> UNUSED_SHIFT != 0 {
            return Err(FieldError::new(
                "entry word0",
                "bits 57 to 63 zero",
                format_args!("{:#018x}", self.word0),
            ));
        }
        let entry = self.entry();
        let bare = self.word0 >> OFFSET_SHIFT == 0;
        if !bare && !matches!(entry.place, Place::Log { .. }) {
            return Err(FieldError::new(
                "entry word0",
                "offset and chunk_len zero for an entry without a chunk",
                format_args!("{:#018x}", self.word0),
            ));
        }
        entry.validate()?;
        Ok(entry)
    }

    /// The 20 bytes on disk.
    #[inline]
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put(&mut bytes, 0, &self.word0.to_le_bytes());
        put(&mut bytes, 8, &self.word1.to_le_bytes());
        put(&mut bytes, 16, &self.crc.to_le_bytes());
        bytes
    }

    /// The words in 20 bytes, unchecked.
    #[inline]
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        Self { word0: u64_at(bytes, 0), word1: u64_at(bytes, 8), crc: u32_at(bytes, 16) }
    }
}

/// Checks that `len` sectors from `sector` on are 1 to 8, below 2^48, and in one 4 KiB block.
#[inline]
pub(crate) fn check_block_range(
    name: &'static str,
    sector: u64,
    len: u8,
) -> Result<(), FieldError> {
    let len = u64::from(len);
    let valid = sector < SECTORS_MAX && len >= 1 && sector % BLOCK_SECTORS + len <= BLOCK_SECTORS;
    if valid {
        return Ok(());
    }
    Err(FieldError::new(
        name,
        "1 to 8 sectors below 2^48 in one 4 KiB block",
        format_args!("{len} sectors at {sector}"),
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::damage::for_every_bit_flip;
    use proptest::prelude::*;

    /// Any valid entry in the home block `block`.
    pub(crate) fn entry_in(block: u64) -> impl Strategy<Value = Entry> {
        let shape =
            (0_u8..8, any::<[u8; 3]>()).prop_map(move |(chunk_start, [chunk, cut, len])| {
                let chunk_len = 1 + chunk % (8 - chunk_start);
                let offset = cut % chunk_len;
                let len_sectors = 1 + len % (chunk_len - offset);
                let home_sector = block * BLOCK_SECTORS + u64::from(chunk_start + offset);
                (home_sector, len_sectors, chunk_len, offset)
            });
        (shape, 0_u8..10, 0..SECTORS_MAX - 8, any::<u32>()).prop_map(
            |((home_sector, len_sectors, chunk_len, offset), kind, chunk_sector, crc)| {
                let (place, crc) = match kind {
                    0 => (Place::Zero, 0),
                    1 => (Place::Poisoned, 0),
                    2 => (Place::Home, 0),
                    _ => (Place::Log { chunk_sector, chunk_len, offset }, crc),
                };
                Entry { home_sector, len_sectors, place, crc }
            },
        )
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        (0..SECTORS_MAX / BLOCK_SECTORS).prop_flat_map(entry_in)
    }

    fn sample() -> Entry {
        let place = Place::Log { chunk_sector: 4096, chunk_len: 5, offset: 1 };
        Entry { home_sector: 17, len_sectors: 2, place, crc: 0xcafe_babe }
    }

    #[test]
    fn an_entry_has_exactly_the_bytes_of_the_format() {
        assert_eq!(sample().encode(), *b"\x11\0\0\0\0\0\x09\x01\0\x10\0\0\0\0\0\0\xbe\xba\xfe\xca");
        assert_eq!(sample().chunk_home(), Some((16, 5)));
        assert_eq!(sample().end_sector(), 19);
    }

    #[test]
    fn no_flipped_bit_leaves_an_entry_as_it_was() {
        for_every_bit_flip(&sample().encode(), |mutant, bit| {
            assert_ne!(Entry::decode(mutant.try_into().unwrap()), Ok(sample()), "bit {bit}");
        });
    }

    #[test]
    fn entries_that_the_format_does_not_allow_are_refused() {
        let log = |chunk_sector, chunk_len, offset| Place::Log { chunk_sector, chunk_len, offset };
        let bad = [
            Entry { len_sectors: 0, ..sample() },
            Entry { len_sectors: 9, place: Place::Zero, crc: 0, ..sample() },
            Entry { home_sector: 23, place: Place::Zero, crc: 0, ..sample() },
            Entry { home_sector: SECTORS_MAX, len_sectors: 1, ..sample() },
            Entry { home_sector: SECTORS_MAX, len_sectors: 1, place: Place::Zero, crc: 0 },
            Entry { home_sector: u64::MAX, len_sectors: 1, ..sample() },
            Entry { place: Place::Poisoned, ..sample() },
            Entry { place: Place::Home, ..sample() },
            Entry { place: log(4096, 0, 0), ..sample() },
            Entry { place: log(4096, 9, 0), ..sample() },
            Entry { place: log(4096, 5, 4), ..sample() },
            Entry { place: log(4096, 5, 255), ..sample() },
            Entry { place: log(4096, 5, 2), ..sample() },
            Entry { place: log(4096, 8, 1), home_sector: 18, ..sample() },
            Entry { place: log(SECTORS_MAX - 4, 5, 1), ..sample() },
            Entry { place: log(u64::MAX - 2, 5, 1), ..sample() },
            Entry { place: log(u64::MAX - 3, 5, 1), ..sample() },
        ];
        for entry in bad {
            assert!(entry.validate().is_err(), "{entry:?}");
        }
    }

    #[test]
    fn the_field_that_is_at_fault_is_the_one_that_is_named() {
        let place = Place::Log { chunk_sector: SECTORS_MAX - 4, chunk_len: 5, offset: 2 };
        let entry = Entry { home_sector: 19, len_sectors: 2, place, crc: 1 };
        let told = entry.validate().unwrap_err().to_string();
        assert!(told.contains("chunk_sector"), "{told}");
        let place = Place::Log { chunk_sector: 4096, chunk_len: 5, offset: 2 };
        let entry = Entry { place, ..entry };
        assert!(entry.is_valid() && entry.find_fault().is_ok(), "nothing is at fault");
    }

    #[test]
    fn a_chunk_may_end_at_the_last_sector_and_not_behind_it() {
        for chunk_len in 1..=8 {
            let place = |chunk_sector| Place::Log { chunk_sector, chunk_len, offset: 0 };
            let entry = |chunk_sector| Entry {
                home_sector: 16,
                len_sectors: 1,
                place: place(chunk_sector),
                crc: 7,
            };
            let last = SECTORS_MAX - u64::from(chunk_len);
            assert!(entry(last).is_valid() && entry(last).find_fault().is_ok(), "{chunk_len}");
            assert!(!entry(last + 1).is_valid() && entry(last + 1).find_fault().is_err());
        }
    }

    proptest! {
        #[test]
        fn any_entry_packs_and_encodes_and_comes_back(entry in any_entry()) {
            prop_assert_eq!(entry.validate(), Ok(()));
            prop_assert_eq!(entry.pack().entry(), entry);
            prop_assert_eq!(entry.pack().unpack(), Ok(entry));
            prop_assert_eq!(entry.pack().end_sector(), entry.end_sector());
            prop_assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
        }

        #[test]
        fn the_quick_check_and_the_one_with_reasons_agree(
            home_sector in prop_oneof![0..64_u64, SECTORS_MAX - 9..SECTORS_MAX + 9],
            len_sectors in 0..10_u8,
            chunk_sector in prop_oneof![0..64_u64, SECTORS_MAX - 9..SECTORS_MAX + 9],
            chunk_len in 0..10_u8,
            offset in 0..10_u8,
            kind in 0..4,
            crc in 0..2_u32,
        ) {
            let place = match kind {
                0 => Place::Zero,
                1 => Place::Poisoned,
                2 => Place::Home,
                _ => Place::Log { chunk_sector, chunk_len, offset },
            };
            let entry = Entry { home_sector, len_sectors, place, crc };
            prop_assert_eq!(entry.is_valid(), entry.find_fault().is_ok(), "{:?}", entry);
        }

        #[test]
        fn any_bytes_are_refused_or_are_the_bytes_of_what_they_decode_to(
            mut bytes in any::<[u8; ENTRY_BYTES]>(),
            keep in 0_usize..5,
        ) {
            // Random bytes hardly ever have their unused bits zero, so some are helped.
            if keep > 0 {
                bytes[7] &= 1;
                bytes[14] = 0;
                bytes[15] = 0;
            }
            if keep > 1 {
                bytes[8..16].fill(0xff);
                bytes[8] = [0xff, 0xfe, 0xfd][keep - 2];
            }
            let packed = PackedEntry::decode(&bytes);
            let _ = (packed.place(), packed.end_sector(), packed.entry().chunk_home());
            if let Ok(entry) = Entry::decode(&bytes) {
                prop_assert_eq!(entry.encode(), bytes);
            }
        }
    }
}
