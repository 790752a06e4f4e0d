//! Blocks of the stage: what is held of eight sectors, in pieces.

use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::Payload;
use std::ops::Range;

/// Part of a block: `first..first + len` of its eight sectors.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    first: u8,
    len: u8,
    data: Payload,
    /// Bytes of the block that are new, in order, where it may be logged by them alone.
    changed: Option<Box<[Range<u16>]>>,
    /// All else of it is zeros, whatever was there.
    over_zeros: bool,
}

impl Piece {
    /// `len` sectors from `first` on; `data` is as long as they are.
    pub(crate) fn new(first: u8, len: u8, data: Payload) -> Self {
        debug_assert_eq!(data.len(), usize::from(len) * SECTOR);
        Self { first, len, data, changed: None, over_zeros: false }
    }

    /// The same of which only `changed` is new, bytes of the block in order: it may be logged by them alone.
    pub(crate) fn changed_in(self, changed: Box<[Range<u16>]>) -> Self {
        Self { changed: Some(changed), ..self }
    }

    /// The same of which all but `changed` is zeros.
    pub(crate) fn over_zeros(self, changed: Box<[Range<u16>]>) -> Self {
        Self { changed: Some(changed), over_zeros: true, ..self }
    }

    /// Whether what is under its fragments is zeros, and not what is there.
    pub(crate) fn is_over_zeros(&self) -> bool {
        self.over_zeros
    }

    /// The runs of new bytes, if it may be logged by them alone: where each begins in the block, and what it is.
    pub(crate) fn fragments(&self) -> Option<impl Iterator<Item = (usize, Payload)> + '_> {
        let from = usize::from(self.first) * SECTOR;
        let run = move |run: &Range<u16>| {
            let (start, end) = (usize::from(run.start), usize::from(run.end));
            (start, self.data.slice(start - from..end - from))
        };
        self.changed.as_ref().map(|changed| changed.iter().map(run))
    }

    /// Its first sector within the block.
    pub(crate) fn first(&self) -> u8 {
        self.first
    }

    /// Its length in sectors.
    pub(crate) fn len(&self) -> u8 {
        self.len
    }

    pub(crate) fn data(&self) -> &Payload {
        &self.data
    }

    /// The sector behind it.
    pub(super) fn end(&self) -> u8 {
        self.first + self.len
    }

    /// Whether it holds that sector of its block.
    pub(crate) fn holds(&self, sector: u8) -> bool {
        (self.first..self.end()).contains(&sector)
    }

    /// The part of this piece within `first..end`, if any.
    pub(crate) fn cut(&self, first: u8, end: u8) -> Option<Self> {
        let (from, to) = (self.first.max(first), self.end().min(end));
        (from < to).then(|| {
            let start = usize::from(from - self.first) * SECTOR;
            let stop = usize::from(to - self.first) * SECTOR;
            let data = self.data.slice(start..stop);
            Self::new(from, to - from, data)
        })
    }
}

/// One 4 KiB block, wholly or in part.
#[derive(Clone, Debug)]
pub(crate) struct StagedBlock {
    /// Home sector divided by eight.
    pub(super) block: u64,
    /// Sorted, not overlapping, never empty.
    pub(super) pieces: Vec<Piece>,
    /// Must be in the same record as the block before it (atomic writes).
    pub(super) glued: bool,
    /// Holds something of an atomic write, be it the only block of it.
    pub(super) atomic: bool,
}

/// What a block is to an atomic write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Nothing.
    None,
    /// Its first block.
    First,
    /// One behind the first.
    Next,
}

impl StagedBlock {
    /// Home sector divided by eight.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// What is held of it: sorted, not overlapping, never empty.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Each piece with its first home sector.
    pub(crate) fn homes(&self) -> impl Iterator<Item = (u64, &Piece)> {
        let start = self.block * BLOCK_SECTORS;
        self.pieces.iter().map(move |piece| (start + u64::from(piece.first), piece))
    }

    pub(super) fn put(&mut self, mut piece: Piece) {
        if !piece.over_zeros
            && self.pieces.iter().any(|old| old.first < piece.end() && piece.first < old.end())
        {
            // What is new against the one under it is not known.
            piece.changed = None;
        }
        if piece.first == 0 && u64::from(piece.len) == BLOCK_SECTORS {
            self.pieces.clear();
            self.pieces.push(piece);
            return;
        }
        let mut kept: Vec<Piece> = Vec::with_capacity(self.pieces.len() + 2);
        for old in &self.pieces {
            kept.extend(old.cut(0, piece.first));
            kept.extend(old.cut(piece.end(), BLOCK_SECTORS as u8));
        }
        kept.push(piece);
        kept.sort_by_key(|piece| piece.first);
        self.pieces = kept;
    }

    /// Sectors it holds.
    pub(crate) fn sectors(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.len)).sum()
    }
}
