//! Giving up what a damaged log held, so that the rest of the volume can go on without it.
//!
//! Blocks whose only newest copy is in the log and cannot be verified become lost blocks: reads of
//! them fail until they are written again, and they no longer keep the log from being emptied. What fragments
//! in it brought is kept: the snapshot has their bytes itself. The
//! change is one new snapshot of a map at rest, so it happens as a whole or not at all.
//!
//! That snapshot also makes durable what recovery found lost, so this is listed with the rest. It never gives up what is
//! not listed: a volume that recovery refuses is not for this.

use crate::check::copy_problem;
use crate::create::write_snapshot_header;
use crate::dump::read_slots;
use crate::map_device;
use crate::sync_io::SyncIo;
use crate::volume::Volume;
use nearhead_disk::{At, Disk, DiskError, SECTOR_BYTES};
use nearhead_engine::chunks::LoggedCopy;
use nearhead_format::snapshot::{BodyItem, BodyReader, BodyWriter, FLAG_CLEAN_SHUTDOWN};
use nearhead_format::{Entry, Place, SnapshotHeader, Superblock};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Instant;

/// Bytes of one piece of a body.
const PIECE_BYTES: usize = 256 << 10;

/// A piece of the map that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostBlock {
    /// As the map had it.
    pub entry: Entry,
    /// Why its copy does not count: expected and found.
    pub problem: String,
}

/// Why a log could not be given up.
#[derive(Debug)]
pub enum ForgetError {
    /// The volume was not closed in order, or its snapshots are damaged.
    NotAtRest {
        /// What was found.
        problem: String,
    },
    /// The device failed.
    Disk(DiskError),
}

impl fmt::Display for ForgetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAtRest { problem } => write!(
                formatter,
                "forget-log: expected a volume closed in order, found {problem}; \
                 run `nearhead repair` first"
            ),
            Self::Disk(error) => write!(formatter, "forget-log: {error}"),
        }
    }
}

impl std::error::Error for ForgetError {}

impl From<DiskError> for ForgetError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// Lists what is given up with log `log_index` of an open volume: what it holds and cannot be verified, and what reads as
/// errors already, as the newest copy was lost. By client offset. Changes nothing.
pub fn given_up_with_log<D: Disk>(
    volume: &mut Volume<D>,
    start: Instant,
    log_index: u32,
) -> Vec<LostBlock> {
    let layout = volume.superblock().layout;
    let Some(log_offset) = layout.log_offset(log_index) else { return Vec::new() };
    let log = log_offset..log_offset + layout.log_bytes;
    // At most one entry for each sector of one log.
    let in_log: Vec<(Entry, LoggedCopy)> = volume
        .engine()
        .map()
        .iter()
        .filter_map(|entry| Some((entry, LoggedCopy::of(&entry)?)))
        .filter(|(_, chunk)| log.contains(&chunk.device_offset))
        .collect();
    let is_poisoned = |entry: &Entry| entry.place == Place::Poisoned;
    let problem = "its newest copy was lost".to_owned();
    let poisoned = volume.engine().map().iter().filter(is_poisoned);
    let poisoned = poisoned.map(|entry| LostBlock { entry, problem: problem.clone() });
    let mut lost: Vec<LostBlock> = poisoned.collect();
    let mut io = volume.io(start);
    lost.extend(in_log.into_iter().filter_map(|(entry, chunk)| {
        Some(LostBlock { entry, problem: copy_problem(&mut io, &chunk)? })
    }));
    lost.sort_by_key(|block| block.entry.home_sector);
    lost
}

/// Turns `lost` into lost blocks in a new snapshot. The volume must have been closed in order.
pub fn give_up(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
    lost: &[LostBlock],
) -> Result<(), ForgetError> {
    let place = map_device::place(io, superblock)?;
    let newest = newest_clean(io, superblock)?;
    let lost: BTreeMap<u64, Entry> =
        lost.iter().map(|block| (block.entry.home_sector, block.entry)).collect();
    let from = place.body(newest.slot() as usize);
    let number = newest.snapshot_number + 1;
    let mut copy = Copy { source: Source::new(&newest, from), lost, writer: BodyWriter::new() };
    let mut to = place.body((number % 2) as usize);
    loop {
        let piece = copy.next_piece(io)?;
        if piece.is_empty() {
            break;
        }
        io.write(to, &piece)?;
        to = to + piece.len() as u64;
    }
    let Some(body) = copy.writer.summary() else {
        return Err(ForgetError::NotAtRest { problem: "a snapshot without an end".to_owned() });
    };
    io.flush()?;
    let header = SnapshotHeader { snapshot_number: number, body, ..newest };
    Ok(write_snapshot_header(io, &place, &header)?)
}

fn newest_clean(
    io: &mut SyncIo<'_>,
    superblock: &Superblock,
) -> Result<SnapshotHeader, ForgetError> {
    let slots = read_slots(io, superblock);
    let newest = slots
        .iter()
        .filter(|slot| slot.is_sound())
        .filter_map(|slot| slot.header.as_ref().ok())
        .max_by_key(|header| header.snapshot_number);
    match newest {
        Some(header) if header.flags & FLAG_CLEAN_SHUTDOWN != 0 => Ok(*header),
        Some(_) => Err(ForgetError::NotAtRest { problem: "one that was not".to_owned() }),
        None => Err(ForgetError::NotAtRest { problem: "no sound snapshot".to_owned() }),
    }
}

/// The body of a snapshot on its way from one slot to the other.
struct Copy {
    source: Source,
    lost: BTreeMap<u64, Entry>,
    writer: BodyWriter,
}

struct Source {
    reader: BodyReader,
    at: At,
    items: VecDeque<BodyItem>,
}

impl Source {
    fn new(header: &SnapshotHeader, at: At) -> Self {
        Self { reader: BodyReader::new(header.body), at, items: VecDeque::new() }
    }

    /// Reads on until at least one piece's worth of items waits or the body ends.
    fn refill(&mut self, io: &mut SyncIo<'_>) -> Result<(), ForgetError> {
        // The smallest item has four bytes.
        while self.items.len() < PIECE_BYTES / 4 && self.reader.bytes_left() > 0 {
            let len = self.reader.bytes_left().min(PIECE_BYTES as u64) as usize;
            let bytes = io.read(self.at, len)?;
            self.at = self.at + len as u64;
            let items = &mut self.items;
            self.reader
                .feed(&bytes, &mut |item| items.push_back(item))
                .map_err(|error| ForgetError::NotAtRest { problem: error.to_string() })?;
        }
        Ok(())
    }
}

impl Copy {
    fn next_piece(&mut self, io: &mut SyncIo<'_>) -> Result<Vec<u8>, ForgetError> {
        self.source.refill(io)?;
        let mut piece = vec![0; PIECE_BYTES];
        let (items, lost) = (&mut self.source.items, &self.lost);
        let mut changed = std::iter::from_fn(|| Some(with_loss(items.pop_front()?, lost)));
        let filled = self
            .writer
            .fill(&mut piece, &mut changed)
            .map_err(|error| ForgetError::NotAtRest { problem: error.to_string() })?;
        piece.truncate(filled);
        Ok(piece)
    }
}

fn with_loss(item: BodyItem, lost: &BTreeMap<u64, Entry>) -> BodyItem {
    match item {
        BodyItem::Entry(entry) if lost.get(&entry.home_sector) == Some(&entry) => {
            BodyItem::Entry(Entry { place: Place::Poisoned, crc: 0, ..entry })
        }
        other => other,
    }
}

/// The client bytes of lost blocks: first byte and length, neighbours merged.
pub fn client_ranges(lost: &[LostBlock]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for LostBlock { entry, .. } in lost {
        let (start, len) =
            (entry.home_sector * SECTOR_BYTES, u64::from(entry.len_sectors) * SECTOR_BYTES);
        match ranges.last_mut() {
            Some((at, bytes)) if *at + *bytes == start => *bytes += len,
            _ => ranges.push((start, len)),
        }
    }
    ranges
}
