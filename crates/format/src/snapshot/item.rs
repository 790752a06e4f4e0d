//! What the body of a snapshot lists, and the order it must be in.

use super::cell::{FRAGMENT_CELL_BYTES, FragmentCell};
use crate::block::check_zero;
use crate::bytes::FieldError;
use crate::{ENTRY_BYTES, Entry, SECTORS_MAX};
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};

/// Size of the largest item.
pub(super) const ITEM_BYTES_MAX: usize = FRAGMENT_CELL_BYTES;
/// Number of sections.
pub(super) const SECTIONS: usize = 5;
/// Sizes of the items of each: entries, log states, claims, hints, cells of fragments.
pub(super) const ITEM_BYTES: [usize; SECTIONS] = [ENTRY_BYTES, 12, 4, 16, FRAGMENT_CELL_BYTES];
/// The body is padded to this, so that any device can write it.
pub(super) const BODY_ALIGN: u64 = 4096;

/// Where a log stood when the snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogState {
    /// Which log.
    pub log_index: u32,
    /// Log block where its next record goes.
    pub position: u32,
}

/// Home sectors needed only after a crash (durability-only hint).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HintRange {
    /// First sector.
    pub start_sector: u64,
    /// Number of sectors, at least 1.
    pub len_sectors: u64,
}

/// One item of a body. Items come in the order of these variants, and within each sorted by their
/// first field, without overlaps or repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyItem {
    /// A line of the map.
    Entry(Entry),
    /// State of a log that holds live data or is claimed.
    Log(LogState),
    /// Index of a log that recovery must scan from its position on.
    Claim(u32),
    /// A durability-only range.
    Hint(HintRange),
    /// Bytes that a fragment brought and that lie over the map's entries.
    Fragment(FragmentCell),
}

/// How long each list of a body is, and what the body adds up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BodySummary {
    /// Number of entries.
    pub entry_count: u64,
    /// Number of log states.
    pub log_count: u32,
    /// Number of claims.
    pub claim_count: u32,
    /// Number of hints.
    pub hint_count: u32,
    /// Number of cells of fragments.
    pub fragment_count: u32,
    /// Size of the body with its padding: a multiple of 4096.
    pub body_bytes: u64,
    /// CRC32C over all of it.
    pub body_crc: u32,
}

impl BodySummary {
    /// Size of a body with these counts, in bytes; `None` if no number holds it.
    pub fn expected_body_bytes(&self) -> Option<u64> {
        let mut bytes = 0_u64;
        for (count, size) in self.counts().into_iter().zip(ITEM_BYTES) {
            bytes = bytes.checked_add(count.checked_mul(size as u64)?)?;
        }
        bytes.checked_next_multiple_of(BODY_ALIGN)
    }

    pub(super) fn counts(&self) -> [u64; SECTIONS] {
        let lists = [self.log_count, self.claim_count, self.hint_count, self.fragment_count];
        let [logs, claims, hints, fragments] = lists.map(u64::from);
        [self.entry_count, logs, claims, hints, fragments]
    }
}

impl BodyItem {
    /// Writes the item into `target` and says how many bytes it took.
    #[inline]
    pub(super) fn encode(&self, target: &mut [u8; ITEM_BYTES_MAX]) -> usize {
        match self {
            Self::Entry(entry) => put(target, 0, &entry.encode()),
            Self::Log(log) => {
                put(target, 0, &log.log_index.to_le_bytes());
                put(target, 4, &log.position.to_le_bytes());
                put(target, 8, &[0; 4]);
            }
            Self::Claim(log_index) => put(target, 0, &log_index.to_le_bytes()),
            Self::Hint(hint) => {
                put(target, 0, &hint.start_sector.to_le_bytes());
                put(target, 8, &hint.len_sectors.to_le_bytes());
            }
            Self::Fragment(cell) => *target = cell.encode(),
        }
        ITEM_BYTES[self.section()]
    }

    /// Reads an item of `section` from exactly as many bytes as it has.
    #[inline]
    pub(super) fn decode(section: usize, bytes: &[u8]) -> Result<Self, FieldError> {
        Ok(match section {
            0 => Self::Entry(Entry::decode(&array_at(bytes, 0))?),
            1 => {
                check_zero("reserved", &bytes[8..12])?;
                Self::Log(LogState { log_index: u32_at(bytes, 0), position: u32_at(bytes, 4) })
            }
            2 => Self::Claim(u32_at(bytes, 0)),
            3 => Self::Hint(HintRange {
                start_sector: u64_at(bytes, 0),
                len_sectors: u64_at(bytes, 8),
            }),
            _ => Self::Fragment(FragmentCell::decode(&array_at(bytes, 0))?),
        })
    }

    #[inline]
    pub(super) fn section(&self) -> usize {
        match self {
            Self::Entry(_) => 0,
            Self::Log(_) => 1,
            Self::Claim(_) => 2,
            Self::Hint(_) => 3,
            Self::Fragment(_) => 4,
        }
    }
}

/// Watches that items come in order, for the writer and the reader alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    section: usize,
    /// The lowest sector or index that may come next in the section.
    floor: u64,
}

impl Order {
    /// The same for an entry, which comes only before everything else.
    #[inline]
    pub(super) fn check_entry(&mut self, entry: &Entry) -> Result<(), FieldError> {
        entry.validate()?;
        if self.section > 0 || entry.home_sector < self.floor {
            return Err(self.refuse("entry", entry.home_sector));
        }
        self.floor = entry.end_sector();
        Ok(())
    }

    #[cold]
    fn refuse(&self, name: &'static str, found: u64) -> FieldError {
        FieldError::new(name, format_args!("in order: at least {}", self.floor), found)
    }

    /// Checks that `item` is sound and may follow what came before.
    #[inline]
    pub(super) fn check(&mut self, item: &BodyItem) -> Result<(), FieldError> {
        let section = item.section();
        if section > self.section {
            *self = Self { section, floor: 0 };
        }
        let (name, start, len) = match item {
            BodyItem::Entry(entry) => {
                entry.validate()?;
                ("entry", entry.home_sector, u64::from(entry.len_sectors))
            }
            BodyItem::Log(log) => ("log state", u64::from(log.log_index), 1),
            BodyItem::Claim(log_index) => ("claim", u64::from(*log_index), 1),
            BodyItem::Hint(hint) => {
                check_hint(hint)?;
                ("hint", hint.start_sector, hint.len_sectors)
            }
            BodyItem::Fragment(cell) => {
                cell.validate()?;
                ("cell", cell.home_byte, u64::from(cell.len))
            }
        };
        if section < self.section || start < self.floor {
            return Err(self.refuse(name, start));
        }
        self.floor = start + len;
        Ok(())
    }
}

fn check_hint(hint: &HintRange) -> Result<(), FieldError> {
    let end = hint.start_sector.checked_add(hint.len_sectors);
    if hint.len_sectors >= 1 && end.is_some_and(|end| end <= SECTORS_MAX) {
        return Ok(());
    }
    Err(FieldError::new(
        "hint",
        "at least 1 sector, all below 2^48",
        format_args!("{} sectors at {}", hint.len_sectors, hint.start_sector),
    ))
}
