//! Fragments: bytes smaller than a sector that records brought, and that lie over what the map says (Okeanos, section 3).
//!
//! A record holds them in its header, so a recovery has them once it has the record. What a sector reads as is what the map says of it, with
//! these bytes over it; so each sector that has any has an entry in the map, be it one that says *at home*. What stays true:
//!
//! - pieces of one home block never overlap: a newer one cuts what it covers; and two of one record never touch: they are one, as they are in a snapshot;
//! - whoever reads what lies under a piece learns whether it is still what it was ([`Fragments::base_since`]): it never gets pieces over
//!   something newer;
//! - each piece counts as one needed sector of the log block where its record begins, so that the record stays until nobody needs it;
//! - it takes no more of a snapshot than there is room for ([`Fragments::cells_left`]).
//!
//! It never looks at a disk, and the same calls always give the same answers.

use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::{BufferMut, Payload};
use nearhead_format::snapshot::{CELL_CONTENT_BYTES, FRAGMENT_CELL_BYTES, FragmentCell};
use nearhead_format::{Entry, Place};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a home block.
const BLOCK_BYTES: usize = BLOCK_SECTORS as usize * SECTOR;
/// Cells that a new piece may cost beside its own: those of an older one that it cuts in two.
const CELLS_BY_CUTTING: u64 = 2;

/// One run of bytes of a home block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// First byte within the block.
    start: usize,
    bytes: Box<[u8]>,
    /// Device sector where the record begins that brought it.
    record_sector: u64,
}

impl Piece {
    fn end(&self) -> usize {
        self.start + self.bytes.len()
    }

    /// What of it lies within `from..to`, bytes of the block.
    fn cut(&self, from: usize, to: usize) -> Option<Self> {
        let (start, end) = (self.start.max(from), self.end().min(to));
        (start < end).then(|| Self {
            start,
            bytes: self.bytes[start - self.start..end - self.start].into(),
            record_sector: self.record_sector,
        })
    }

    /// The two, of which `next` begins where this one ends, as one.
    fn joined(&self, next: &Self) -> Self {
        Self { bytes: [&self.bytes[..], &next.bytes[..]].concat().into(), ..*self }
    }

    fn cost_bytes(&self) -> u64 {
        cells(self.bytes.len()) * FRAGMENT_CELL_BYTES as u64
    }
}

/// Cells of a snapshot that so many bytes take.
fn cells(bytes: usize) -> u64 {
    bytes.div_ceil(CELL_CONTENT_BYTES) as u64
}

/// Those that a piece of so many bytes may take at most, with what it does to older ones.
pub(crate) fn cells_max(bytes: usize) -> u64 {
    cells(bytes) + CELLS_BY_CUTTING
}

/// The pieces over one home block.
#[derive(Clone, Debug, Default)]
struct Block {
    /// In order, not overlapping, never none.
    pieces: Vec<Piece>,
    /// When anything of it was taken away last, or it came to be.
    base_since: u64,
    /// When it changed last.
    changed_at: u64,
}

/// Bytes over what a range of sectors reads as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    /// First byte of the client's address space.
    offset: u64,
    bytes: Box<[u8]>,
}

/// A log block that is needed for one piece more, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    More { record_sector: u64 },
    Less { record_sector: u64 },
}

/// All pieces of a volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    blocks: BTreeMap<u64, Block>,
    cost_bytes: u64,
    /// Counts changes, so that one can be told from another.
    clock: u64,
    /// When a block lost the last of its pieces last, by that count: what lies under it may be new since then, and nothing else tells.
    emptied_at: u64,
}

impl Fragments {
    /// Bytes of a snapshot that they take.
    pub(crate) fn cost_bytes(&self) -> u64 {
        self.cost_bytes
    }

    /// Cells more that a snapshot has room for which takes `room_bytes` of them.
    pub(crate) fn cells_left(&self, room_bytes: u64) -> u64 {
        room_bytes.saturating_sub(self.cost_bytes) / FRAGMENT_CELL_BYTES as u64
    }

    /// The count of changes so far.
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// What lies under this home block's pieces is not what it was: whoever read it reads it again.
    pub(crate) fn base_is_new(&mut self, number: u64) {
        if let Some(block) = self.blocks.get_mut(&number) {
            self.clock += 1;
            block.base_since = self.clock;
        }
    }

    /// Puts bytes that a record brought over the block where they belong: from byte `home_byte` of the client's address space on.
    pub(crate) fn add(
        &mut self,
        home_byte: u64,
        bytes: &[u8],
        record_sector: u64,
        needed: &mut impl FnMut(Needed),
    ) {
        let (number, start) =
            (home_byte / BLOCK_BYTES as u64, (home_byte % BLOCK_BYTES as u64) as usize);
        self.clock += 1;
        let clock = self.clock;
        let block = self
            .blocks
            .entry(number)
            .or_insert_with(|| Block { base_since: clock, ..Block::default() });
        let mut piece = Piece { start, bytes: bytes.into(), record_sector };
        let (from, to) = (piece.start, piece.end());
        needed(Needed::More { record_sector });
        self.cost_bytes = block.take_out(from, to, self.cost_bytes, needed);
        let at = block.pieces.partition_point(|older| older.start < from);
        // In a snapshot nothing tells two of one record from one, so here they are one.
        let is_next = |older: &Piece| older.record_sector == record_sector;
        let after = block.pieces.get(at).is_some_and(|next| next.start == to && is_next(next));
        let before = at
            .checked_sub(1)
            .filter(|at| block.pieces[*at].end() == from && is_next(&block.pieces[*at]));
        if after {
            let next = block.pieces.remove(at);
            self.cost_bytes -= next.cost_bytes();
            needed(Needed::Less { record_sector });
            piece = piece.joined(&next);
        }
        if let Some(before) = before {
            let before = block.pieces.remove(before);
            self.cost_bytes -= before.cost_bytes();
            needed(Needed::Less { record_sector });
            piece = before.joined(&piece);
        }
        self.cost_bytes += piece.cost_bytes();
        let at = block.pieces.partition_point(|older| older.start < piece.start);
        block.pieces.insert(at, piece);
        block.changed_at = clock;
    }

    /// What lies over these sectors counts no more: something newer took their place, or nothing is there.
    pub(crate) fn drop_sectors(
        &mut self,
        start: u64,
        sectors: u64,
        needed: &mut impl FnMut(Needed),
    ) {
        if self.blocks.is_empty() || sectors == 0 {
            return;
        }
        let end = start.saturating_add(sectors);
        let numbers = start / BLOCK_SECTORS..end.div_ceil(BLOCK_SECTORS);
        let found: Vec<u64> = self.blocks.range(numbers).map(|(number, _)| *number).collect();
        for number in found {
            let first = number * BLOCK_SECTORS;
            let from = start.saturating_sub(first) as usize * SECTOR;
            let to = (end - first).min(BLOCK_SECTORS) as usize * SECTOR;
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            if block.in_range(from, to).next().is_none() {
                continue;
            }
            self.clock += 1;
            self.cost_bytes = block.take_out(from, to, self.cost_bytes, needed);
            (block.base_since, block.changed_at) = (self.clock, self.clock);
            if block.pieces.is_empty() {
                self.blocks.remove(&number);
                self.emptied_at = self.clock;
            }
        }
    }

    /// Whether any of these sectors has a piece over it.
    pub(crate) fn touches(&self, sectors: Range<u64>) -> bool {
        self.touched(sectors).next().is_some()
    }

    /// The sectors of `sectors` that have pieces over them, as runs within blocks, in order.
    pub(crate) fn touched(&self, sectors: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let numbers = sectors.start / BLOCK_SECTORS..sectors.end.div_ceil(BLOCK_SECTORS);
        let numbers = if self.blocks.is_empty() || sectors.is_empty() { 0..0 } else { numbers };
        self.blocks.range(numbers).flat_map(move |(number, block)| {
            let first = number * BLOCK_SECTORS;
            let sectors = sectors.clone();
            block.pieces.iter().filter_map(move |piece| {
                let from = first + (piece.start / SECTOR) as u64;
                let to = first + piece.end().div_ceil(SECTOR) as u64;
                let run = from.max(sectors.start)..to.min(sectors.end);
                (run.start < run.end).then_some(run)
            })
        })
    }

    /// The bytes that lie over these sectors, in order.
    pub(crate) fn patches(&self, sectors: Range<u64>) -> Vec<Patch> {
        let mut patches = Vec::new();
        if self.blocks.is_empty() {
            return patches;
        }
        let numbers = sectors.start / BLOCK_SECTORS..sectors.end.div_ceil(BLOCK_SECTORS);
        for (number, block) in self.blocks.range(numbers) {
            let first = number * BLOCK_SECTORS;
            let from = sectors.start.saturating_sub(first) as usize * SECTOR;
            let to = (sectors.end - first).min(BLOCK_SECTORS) as usize * SECTOR;
            let offset = number * BLOCK_BYTES as u64;
            patches.extend(block.in_range(from, to).filter_map(|piece| {
                let piece = piece.cut(from, to)?;
                Some(Patch { offset: offset + piece.start as u64, bytes: piece.bytes })
            }));
        }
        patches
    }

    /// The same for those who look from outside.
    pub(crate) fn runs(&self, sectors: Range<u64>) -> Vec<(u64, Vec<u8>)> {
        let patches = self.patches(sectors).into_iter();
        patches.map(|patch| (patch.offset, patch.bytes.into_vec())).collect()
    }

    /// Since when what lies under the pieces of this home block is the same, by the count of changes; none if it has no pieces.
    pub(crate) fn base_since(&self, block: u64) -> Option<u64> {
        self.blocks.get(&block).map(|block| block.base_since)
    }

    /// Whether anything over the entry's block changed after that count of changes.
    pub(crate) fn changed_since(&self, entry: &Entry, clock: u64) -> bool {
        let block = self.blocks.get(&(entry.home_sector / BLOCK_SECTORS));
        block.is_some_and(|block| block.changed_at > clock)
    }

    /// Whether what was read under the entry's block at that count of changes is what lies there still.
    pub(crate) fn has_base_of(&self, entry: &Entry, clock: u64) -> bool {
        let block = self.blocks.get(&(entry.home_sector / BLOCK_SECTORS));
        block.map_or(self.emptied_at, |block| block.base_since) <= clock
    }

    /// As a snapshot has them.
    pub(crate) fn cells(&self) -> impl Iterator<Item = FragmentCell> + '_ {
        self.blocks.iter().flat_map(|(number, block)| {
            let offset = number * BLOCK_BYTES as u64;
            block.pieces.iter().flat_map(move |piece| {
                let runs = piece.bytes.chunks(CELL_CONTENT_BYTES).enumerate();
                runs.map(move |(at, run)| {
                    let home_byte = offset + (piece.start + at * CELL_CONTENT_BYTES) as u64;
                    let mut bytes = [0; CELL_CONTENT_BYTES];
                    bytes[..run.len()].copy_from_slice(run);
                    let len = run.len() as u8;
                    FragmentCell { home_byte, record_sector: piece.record_sector, len, bytes }
                })
            })
        })
    }

    /// What is needed of the logs for them, as entries that the counts of logs take.
    pub(crate) fn needed(&self) -> impl Iterator<Item = Entry> + '_ {
        self.blocks.iter().flat_map(|(number, block)| {
            let home_sector = number * BLOCK_SECTORS;
            block.pieces.iter().map(move |piece| needed_for(home_sector, piece.record_sector))
        })
    }
}

impl Block {
    /// The pieces that have bytes within `from..to`.
    fn in_range(&self, from: usize, to: usize) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().filter(move |piece| piece.start < to && from < piece.end())
    }

    /// Takes out the bytes `from..to`; `cost` is that of all pieces before, and what is returned after.
    fn take_out(
        &mut self,
        from: usize,
        to: usize,
        mut cost: u64,
        needed: &mut impl FnMut(Needed),
    ) -> u64 {
        if self.in_range(from, to).next().is_none() {
            return cost;
        }
        let mut kept = Vec::with_capacity(self.pieces.len() + 1);
        for piece in std::mem::take(&mut self.pieces) {
            if piece.start >= to || from >= piece.end() {
                kept.push(piece);
                continue;
            }
            let record_sector = piece.record_sector;
            let rest = [piece.cut(0, from), piece.cut(to, BLOCK_BYTES)];
            cost -= piece.cost_bytes();
            for piece in rest.into_iter().flatten() {
                cost += piece.cost_bytes();
                needed(Needed::More { record_sector });
                kept.push(piece);
            }
            needed(Needed::Less { record_sector });
        }
        self.pieces = kept;
        cost
    }
}

/// One sector of the log block where a record begins that a piece needs, as an entry.
pub(crate) fn needed_for(home_sector: u64, record_sector: u64) -> Entry {
    let place = Place::Log { chunk_sector: record_sector, chunk_len: 1, offset: 0 };
    Entry { home_sector, len_sectors: 1, place, crc: 0 }
}

/// `parts`, which begin at byte `offset` of the client's address space, with `patches` over them.
pub(crate) fn patched(parts: Vec<Payload>, offset: u64, patches: &[Patch]) -> Vec<Payload> {
    let mut at = offset;
    let over = |part: Payload| {
        let start = at;
        at += part.len() as u64;
        under(part, start, patches)
    };
    parts.into_iter().map(over).collect()
}

/// The same of one part. What no patch touches is handed on as it is; content that a data-less simulation left out stays left out.
pub(crate) fn under(part: Payload, start: u64, patches: &[Patch]) -> Payload {
    let end = start + part.len() as u64;
    let mut own = patches
        .iter()
        .filter(|patch| patch.offset < end && start < patch.offset + patch.bytes.len() as u64)
        .peekable();
    if own.peek().is_none() || matches!(part, Payload::Phantom(_)) {
        return part;
    }
    let mut bytes = BufferMut::zeroed(part.len());
    part.copy_to(&mut bytes);
    for patch in own {
        let from = patch.offset.max(start);
        let to = (patch.offset + patch.bytes.len() as u64).min(end);
        let source = (from - patch.offset) as usize..(to - patch.offset) as usize;
        bytes[(from - start) as usize..(to - start) as usize].copy_from_slice(&patch.bytes[source]);
    }
    Payload::Bytes(bytes.freeze())
}

#[cfg(test)]
mod tests;
