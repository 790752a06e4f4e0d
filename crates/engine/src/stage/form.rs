//! In which form a staged piece goes into a record: as the sectors that it is, or as the bytes of them that are new.
//!
//! What is decided when a record is measured is decided again when it is packed, from the same state, and must be the same: so whoever does
//! either walks the same blocks in the same order from the same [`Forms`].

use super::block::Piece;
use crate::state::fragments::cells_max;
use nearhead_disk::RangeSet;
use nearhead_format::record::{FRAGMENT_BYTES_MAX, FRAGMENTS_MAX};

/// Fragments that may go into a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FragmentRoom {
    items: usize,
    bytes: usize,
    cells: u64,
}

impl FragmentRoom {
    /// None.
    pub(crate) const NONE: Self = Self { items: 0, bytes: 0, cells: 0 };

    /// What one record holds, as long as a snapshot takes so many cells more.
    pub(crate) fn of_record(cells: u64) -> Self {
        Self { items: FRAGMENTS_MAX, bytes: FRAGMENT_BYTES_MAX, cells }
    }
}

/// Decides about one piece after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forms<'a> {
    room: FragmentRoom,
    /// Home sectors of which the logs do not say yet that what they held is taken back.
    untold: Option<&'a RangeSet>,
}

impl<'a> Forms<'a> {
    /// Everything as the sectors that it is.
    pub(crate) const WHOLE: Self = Self { room: FragmentRoom::NONE, untold: None };

    /// What may be as fragments, while there is room; not over `untold`, since what tells of those takes what lies over them as well.
    pub(crate) fn new(room: FragmentRoom, untold: &'a RangeSet) -> Self {
        Self { room, untold: Some(untold) }
    }

    /// How many fragments the piece becomes, and of how many bytes; none if it stays what it is.
    pub(crate) fn fragments(&mut self, home_sector: u64, piece: &Piece) -> Option<(usize, usize)> {
        let runs = piece.fragments().filter(|_| self.room.items > 0)?;
        let (mut items, mut bytes, mut cells) = (0, 0, 0);
        for (_, run) in runs {
            items += 1;
            bytes += run.len();
            cells += cells_max(run.len());
        }
        let FragmentRoom { items: items_left, bytes: bytes_left, cells: cells_left } = self.room;
        let fits = items <= items_left && bytes <= bytes_left && cells <= cells_left;
        let sectors = home_sector..home_sector + u64::from(piece.len());
        if !fits || self.untold.is_none_or(|untold| untold.overlaps(sectors)) {
            return None;
        }
        self.room = FragmentRoom {
            items: items_left - items,
            bytes: bytes_left - bytes,
            cells: cells_left - cells,
        };
        Some((items, bytes))
    }
}
