//! The record: the one thing that is ever written to a log.
//!
//! A record is a header, then its payload chunks back to back, padded with zeros to whole log
//! blocks. It becomes true as a whole: one header checksum covers all it says, each data chunk
//! carries its own checksum. A reader first [`peek`]s at the first 512 bytes to learn how much to
//! read, then [`RecordHeader::decode`]s the header, then asks whether it is the record that
//! belongs at that address ([`RecordHeader::verify_identity`]).
//!
//! What a record says is applied in this order: its invalidations to everything older, then where
//! copies of older ones are (its moves), then its writes, then its fragments, each in its order, then its claims. Its echo is never applied; it names what the
//! record before it wrote, in case that one is lost.

mod decode;
mod encode;
mod error;
mod fragment;
#[cfg(test)]
mod fragment_tests;
#[cfg(test)]
mod tests;

pub use decode::{Peek, peek};
pub use error::RecordError;
pub use fragment::{FRAGMENT_LEN_MAX, Fragment};

use crate::bytes::FieldError;
use crate::entry::check_block_range;
use crate::{Entry, Place, SECTORS_MAX, VolumeId};

/// "NHRC": the first four bytes of every record.
pub const RECORD_MAGIC: [u8; 4] = *b"NHRC";
/// Version of the record format.
pub const RECORD_VERSION: u16 = 1;
/// Size of the fixed part of the header.
pub const HEADER_FIXED_BYTES: usize = 96;
/// Size of each item after it.
pub const ITEM_BYTES: usize = 12;
/// Most writes in one record.
pub const WRITES_MAX: usize = 1024;
/// Most invalidations in one record.
pub const INVALIDATIONS_MAX: usize = 2048;
/// Most claims in one record.
pub const CLAIMS_MAX: usize = 64;
/// Most chunks in one record that say where what was moved is now.
pub const MOVES_MAX: usize = 1024;
/// Size of such a one: two items.
pub(super) const MOVE_BYTES: usize = 2 * ITEM_BYTES;
/// Most fragments in one record. One that has any has no moves.
pub const FRAGMENTS_MAX: usize = 640;
/// Most bytes of all fragments of one record.
pub const FRAGMENT_BYTES_MAX: usize = 16 * 1024;
/// Most echoed ranges in one record.
pub const ECHO_MAX: usize = 256;
/// Largest header.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Largest payload.
pub const PAYLOAD_SECTORS_MAX: u32 = 8192;
/// `previous_position` of the first record of a log.
pub const NO_POSITION: u32 = u32::MAX;

/// Flag: the record moves data without changing what any sector reads as.
pub const FLAG_RELOCATION: u16 = 1;
/// Flag: the record is one atomic write of the client.
pub const FLAG_ATOMIC: u16 = 2;
/// A flag without a meaning: it was meant for the last record before an orderly stop, which a clean snapshot tells
/// already. No program ever set it; format 1 lets a record have it.
const FLAG_RESERVED: u16 = 4;
/// Flag: it says what stands behind it, and nothing of it counts: where its chunks are needed, another record [says so](RecordHeader::moves).
/// It has no place in the order of records (its sequence is 0), and a recovery passes it over.
pub const FLAG_BODY: u16 = 8;
/// Every flag that a record of this version may have.
pub const FLAGS_KNOWN: u16 = FLAG_RELOCATION | FLAG_ATOMIC | FLAG_RESERVED | FLAG_BODY;

const _: () = assert!(
    HEADER_FIXED_BYTES
        + ITEM_BYTES * (WRITES_MAX + INVALIDATIONS_MAX + CLAIMS_MAX + ECHO_MAX)
        + MOVE_BYTES * MOVES_MAX
        <= HEADER_BYTES_MAX,
    "every count at its limit still fits the largest header"
);
const _: () = assert!(
    ITEM_BYTES * FRAGMENTS_MAX + FRAGMENT_BYTES_MAX <= MOVE_BYTES * MOVES_MAX,
    "fragments take no more of a header than the moves that it has in their place"
);

/// A new value for some home sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteItem {
    /// Bytes, in the payload: one chunk.
    Chunk {
        /// First home sector.
        home_sector: u64,
        /// 1 to 8 sectors, all in one 4 KiB home block.
        len_sectors: u8,
        /// [`chunk_crc`](crate::crc::chunk_crc) of the bytes.
        crc: u32,
    },
    /// Zeros, without payload.
    Zeros {
        /// First home sector.
        home_sector: u64,
        /// Number of sectors, at least 1, across any blocks.
        run_sectors: u32,
    },
}

impl WriteItem {
    /// Sectors of payload it stands for.
    #[inline]
    pub fn payload_sectors(&self) -> u32 {
        match self {
            Self::Chunk { len_sectors, .. } => u32::from(*len_sectors),
            Self::Zeros { .. } => 0,
        }
    }

    /// The home sectors it writes.
    #[inline]
    pub fn range(&self) -> SectorRange {
        match *self {
            Self::Chunk { home_sector, len_sectors, .. } => {
                SectorRange { start_sector: home_sector, len_sectors: u32::from(len_sectors) }
            }
            Self::Zeros { home_sector, run_sectors } => {
                SectorRange { start_sector: home_sector, len_sectors: run_sectors }
            }
        }
    }

    fn validate(&self) -> Result<(), FieldError> {
        match *self {
            Self::Chunk { home_sector, len_sectors, .. } => {
                check_block_range("write home_sector and len", home_sector, len_sectors)
            }
            Self::Zeros { .. } => self.range().validate("write zero run"),
        }
    }
}

/// Home sectors `start_sector .. start_sector + len_sectors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectorRange {
    /// First sector.
    pub start_sector: u64,
    /// Number of sectors, at least 1.
    pub len_sectors: u32,
}

impl SectorRange {
    /// The sector after the last.
    #[inline]
    pub fn end_sector(&self) -> u64 {
        self.start_sector + u64::from(self.len_sectors)
    }

    #[inline]
    fn validate(&self, name: &'static str) -> Result<(), FieldError> {
        let len = u64::from(self.len_sectors);
        if len >= 1 && self.start_sector <= SECTORS_MAX - len {
            return Ok(());
        }
        Err(FieldError::new(
            name,
            "at least 1 sector, all below 2^48",
            format_args!("{len} sectors at {}", self.start_sector),
        ))
    }
}

/// Permission to use a log from some position on: recovery must scan it from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Which log.
    pub log_index: u32,
    /// Log block where its next record may start.
    pub position: u32,
}

/// Which record this must be: what the reader knows from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordIdentity {
    /// The volume.
    pub volume_id: VolumeId,
    /// The log it was read from.
    pub log_index: u32,
    /// The log block it was read from.
    pub position: u32,
}

/// Everything a record says. Lengths of the lists are bounded by the `*_MAX` constants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// `FLAG_*` bits.
    pub flags: u16,
    /// The volume the record belongs to.
    pub volume_id: VolumeId,
    /// Place in the one global order of records, without gaps.
    pub sequence: u64,
    /// The log it is in.
    pub log_index: u32,
    /// Log blocks from the log's start to this record.
    pub position: u32,
    /// Position of this log's previous record, or [`NO_POSITION`].
    pub previous_position: u32,
    /// Position of this log's oldest record that is still needed (Trail's `log_head`).
    pub oldest_live_position: u32,
    /// New values, in the order of their payload.
    pub writes: Vec<WriteItem>,
    /// Home sectors about which older records no longer count.
    pub invalidations: Vec<SectorRange>,
    /// Logs that may be used from now on.
    pub claims: Vec<Claim>,
    /// Home sectors the record `sequence - 1` wrote; may be merged and widened.
    pub echo: Vec<SectorRange>,
    /// Copies that were made before, of what reads the same: they are the ones that count from now on.
    pub moves: Vec<Entry>,
    /// New bytes of less than whole sectors, over all the above; of two with the same byte the later one counts.
    pub fragments: Vec<Fragment>,
}

/// A data chunk of a record and where it lies in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedChunk {
    /// First home sector.
    pub home_sector: u64,
    /// Number of sectors.
    pub len_sectors: u8,
    /// Checksum of the bytes and the home sector.
    pub crc: u32,
    /// Sectors from the start of the payload to the chunk.
    pub payload_sector: u32,
}

impl RecordHeader {
    /// Sectors of payload that follow the header, before padding.
    #[inline]
    pub fn payload_sectors(&self) -> u32 {
        self.writes.iter().map(WriteItem::payload_sectors).sum()
    }

    /// The data chunks in the order of the payload.
    pub fn chunks(&self) -> impl Iterator<Item = PlacedChunk> + '_ {
        let mut payload_sector = 0;
        self.writes.iter().filter_map(move |write| {
            let WriteItem::Chunk { home_sector, len_sectors, crc } = *write else { return None };
            let placed = PlacedChunk { home_sector, len_sectors, crc, payload_sector };
            payload_sector += u32::from(len_sectors);
            Some(placed)
        })
    }

    /// Size of the header on disk, in bytes, where log blocks have `log_block_bytes`.
    #[inline]
    pub fn encoded_bytes(&self, log_block_bytes: usize) -> usize {
        header_bytes_for(self.item_count(), self.fragment_bytes(), log_block_bytes)
    }

    /// Size of the whole record on disk, in bytes: header, payload and padding.
    #[inline]
    pub fn record_bytes(&self, log_block_bytes: usize) -> usize {
        record_bytes(self.encoded_bytes(log_block_bytes), self.payload_sectors(), log_block_bytes)
    }

    /// Bytes of all its fragments.
    #[inline]
    pub fn fragment_bytes(&self) -> usize {
        self.fragments.iter().map(|fragment| fragment.bytes.len()).sum()
    }

    fn item_count(&self) -> usize {
        let items =
            self.writes.len() + self.invalidations.len() + self.claims.len() + self.echo.len();
        items + self.moves.len() * (MOVE_BYTES / ITEM_BYTES) + self.fragments.len()
    }

    /// Checks every limit and range; what it accepts, `decode` accepts.
    pub fn validate(&self) -> Result<(), FieldError> {
        check_limit("write_count", self.writes.len(), WRITES_MAX)?;
        check_limit("invalidate_count", self.invalidations.len(), INVALIDATIONS_MAX)?;
        check_limit("claim_count", self.claims.len(), CLAIMS_MAX)?;
        check_limit("echo_count", self.echo.len(), ECHO_MAX)?;
        check_limit("move_count", self.moves.len(), MOVES_MAX)?;
        let sizes = [self.fragments.len(), self.fragment_bytes()];
        check_fragments(self.flags, sizes, self.moves.len())?;
        self.moves.iter().try_for_each(check_move)?;
        self.fragments.iter().try_for_each(Fragment::validate)?;
        check_flags(self.flags)?;
        self.writes.iter().try_for_each(WriteItem::validate)?;
        self.invalidations.iter().try_for_each(|range| range.validate("invalidation"))?;
        self.echo.iter().try_for_each(|range| range.validate("echo"))?;
        check_limit(
            "payload_sectors",
            self.payload_sectors() as usize,
            PAYLOAD_SECTORS_MAX as usize,
        )
    }

    /// Checks that this is the record that belongs where it was read.
    pub fn verify_identity(&self, identity: &RecordIdentity) -> Result<(), RecordError> {
        let found = RecordIdentity {
            volume_id: self.volume_id,
            log_index: self.log_index,
            position: self.position,
        };
        if found == *identity {
            return Ok(());
        }
        Err(RecordError::Identity { expected: *identity, found })
    }
}

/// Size of a header with that many items and bytes of fragments, in bytes: whole log blocks of `log_block_bytes`.
#[inline]
pub fn header_bytes_for(item_count: usize, fragment_bytes: usize, log_block_bytes: usize) -> usize {
    let bytes = HEADER_FIXED_BYTES + item_count * ITEM_BYTES + fragment_bytes;
    bytes.next_multiple_of(log_block_bytes)
}

/// Size of a record on disk, in bytes, from the size of its header and payload.
#[inline]
pub fn record_bytes(header_bytes: usize, payload_sectors: u32, log_block_bytes: usize) -> usize {
    header_bytes + (payload_sectors as usize * 512).next_multiple_of(log_block_bytes)
}

/// Checks how many `fragments` there are, and of how many bytes, and that they are beside nothing that they cannot be beside.
fn check_fragments(flags: u16, fragments: [usize; 2], moves: usize) -> Result<(), FieldError> {
    let [count, bytes] = fragments;
    check_limit("fragment_count", count, FRAGMENTS_MAX)?;
    check_limit("fragment_bytes", bytes, FRAGMENT_BYTES_MAX)?;
    if count > 0 && moves > 0 {
        let expected = "0 beside moves";
        return Err(FieldError::new("fragment_count", expected, count));
    }
    if count > 0 && flags & FLAG_BODY != 0 {
        let expected = "0 in a record of which nothing counts";
        return Err(FieldError::new("fragment_count", expected, count));
    }
    Ok(())
}

fn check_move(entry: &Entry) -> Result<(), FieldError> {
    entry.validate()?;
    if matches!(entry.place, Place::Log { .. }) {
        return Ok(());
    }
    Err(FieldError::new("move", "a copy in a log", format_args!("{:?}", entry.place)))
}

#[inline]
fn check_limit(name: &'static str, count: usize, max: usize) -> Result<(), FieldError> {
    if count <= max {
        return Ok(());
    }
    Err(FieldError::new(name, format_args!("at most {max}"), count))
}

#[inline]
fn check_flags(flags: u16) -> Result<(), FieldError> {
    if flags & !FLAGS_KNOWN == 0 {
        return Ok(());
    }
    Err(FieldError::new(
        "flags",
        format_args!("a subset of {FLAGS_KNOWN:#06x}"),
        format_args!("{flags:#06x}"),
    ))
}
