//! The staging buffer: small writes that are accepted but not yet in a record.
//!
//! Blocks stand in arrival order; a newer write to a staged block replaces it where it stands, so a
//! hot block costs one place however often it is written. A position in that order (a running
//! count that never goes back) says how far a commit must get before a waiter may be told
//! "durable". Every block remembers which of its eight sectors it holds. Blocks on their way into a record or home are
//! kept beside, until they are there: nothing else on its way is.
//!
//! The buffer never holds more than the bound its owner enforces by [`Stage::bytes`].

mod block;
mod changed;
mod form;
mod taken;

pub(crate) use block::{Group, Piece, StagedBlock};
pub(crate) use changed::ChangedRuns;
pub(crate) use form::{Forms, FragmentRoom};
pub(crate) use taken::Taken;

use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_basics::NumberHash;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// A measure of blocks at the front of the stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Front {
    blocks: usize,
    chunks: usize,
    sectors: u64,
    fragments: usize,
    fragment_bytes: usize,
}

impl Front {
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Runs of sectors, each of which is a chunk of a record.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Runs of bytes that are logged by themselves.
    pub(crate) fn fragments(&self) -> usize {
        self.fragments
    }

    /// How many bytes those are.
    pub(crate) fn fragment_bytes(&self) -> usize {
        self.fragment_bytes
    }
}

/// A place in the order in which blocks were staged: a running count that never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StagePosition(u64);

impl StagePosition {
    /// Before everything.
    pub(crate) const START: Self = Self(0);

    pub(crate) fn plus(self, blocks: usize) -> Self {
        Self(self.0 + blocks as u64)
    }

    pub(crate) fn minus(self, blocks: usize) -> Self {
        Self(self.0 - blocks as u64)
    }

    /// This one and all that follow.
    pub(crate) fn onward(self) -> impl Iterator<Item = Self> {
        (self.0..).map(Self)
    }

    /// Blocks from `earlier` to here.
    pub(crate) fn since(self, earlier: Self) -> usize {
        (self.0 - earlier.0) as usize
    }
}

/// Staged blocks in arrival order, findable by block.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    queue: VecDeque<StagedBlock>,
    /// Position of the front of the queue.
    front: StagePosition,
    index: HashMap<u64, StagePosition, NumberHash>,
    bytes: usize,
    /// What left from the front and is not there yet.
    taken: Taken,
}

impl Stage {
    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Everything staged so far stands before this position.
    pub(crate) fn end(&self) -> StagePosition {
        self.front.plus(self.queue.len())
    }

    /// The staged parts of `block`, if any.
    pub(crate) fn get(&self, block: u64) -> Option<&StagedBlock> {
        let position = *self.index.get(&block)?;
        self.queue.get(position.since(self.front))
    }

    /// Whether any of `blocks` is staged.
    fn overlaps(&self, first_block: u64, end_block: u64) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        if end_block - first_block <= self.queue.len() as u64 {
            (first_block..end_block).any(|block| self.index.contains_key(&block))
        } else {
            self.queue.iter().any(|staged| (first_block..end_block).contains(&staged.block))
        }
    }

    /// Stages `piece` of `block`, replacing what it covers.
    pub(crate) fn put(&mut self, block: u64, piece: Piece, group: Group) {
        let added = usize::from(piece.len()) * SECTOR;
        let atomic = group != Group::None;
        if let Some(position) = self.index.get(&block) {
            let staged = &mut self.queue[position.since(self.front)];
            let before = staged.sectors();
            staged.put(piece);
            staged.atomic |= atomic;
            self.bytes += (staged.sectors() - before) as usize * SECTOR;
            return;
        }
        self.index.insert(block, self.end());
        let glued = group == Group::Next;
        self.queue.push_back(StagedBlock { block, pieces: vec![piece], glued, atomic });
        self.bytes += added;
    }

    /// How much of the front fits into `chunks_max` chunks and `sectors_max` sectors, whole glued
    /// groups only, at least one group. `forms` says what of it is logged as fragments instead.
    pub(crate) fn measure_front(
        &self,
        chunks_max: usize,
        sectors_max: u64,
        mut forms: Forms<'_>,
    ) -> Front {
        let mut front = Front::default();
        while front.blocks < self.queue.len() {
            let mut next = front;
            loop {
                let staged = &self.queue[next.blocks];
                next.blocks += 1;
                for (home_sector, piece) in staged.homes() {
                    if let Some((fragments, bytes)) = forms.fragments(home_sector, piece) {
                        next.fragments += fragments;
                        next.chunks += usize::from(piece.is_over_zeros());
                        next.fragment_bytes += bytes;
                    } else {
                        next.chunks += 1;
                        next.sectors += u64::from(piece.len());
                    }
                }
                if self.queue.get(next.blocks).is_none_or(|staged| !staged.glued) {
                    break;
                }
            }
            if front.blocks > 0 && (next.chunks > chunks_max || next.sectors > sectors_max) {
                break;
            }
            front = next;
        }
        front
    }

    /// Takes `count` blocks from the front.
    pub(crate) fn take_front(&mut self, count: usize) -> Vec<StagedBlock> {
        self.front = self.front.plus(count);
        let blocks: Vec<StagedBlock> = self.queue.drain(..count).collect();
        for staged in &blocks {
            self.bytes -= staged.sectors() as usize * SECTOR;
            self.index.remove(&staged.block);
        }
        blocks
    }

    /// `count` blocks from the front are on their way into a record or home: still readable, no longer changed. Nothing
    /// else is.
    pub(crate) fn send_front(&mut self, count: usize) -> &[StagedBlock] {
        self.taken = Taken::new(self.take_front(count));
        self.taken.blocks()
    }

    /// What is on its way.
    pub(crate) fn taken(&self) -> &Taken {
        &self.taken
    }

    /// It is no longer: there, or to be staged again by whoever takes it.
    pub(crate) fn end_taken(&mut self) -> Vec<StagedBlock> {
        std::mem::take(&mut self.taken).into_blocks()
    }

    /// Of what was on its way only these are still.
    pub(crate) fn keep_taken(&mut self, blocks: Vec<StagedBlock>) {
        self.taken = Taken::new(blocks);
    }

    /// Whether a block from `first_block` to `end_block` is in memory, staged or on its way.
    pub(crate) fn has_any(&self, first_block: u64, end_block: u64) -> bool {
        self.overlaps(first_block, end_block) || self.taken.overlaps(first_block, end_block)
    }

    /// Every block in memory, staged ones first.
    pub(crate) fn all_blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks().chain(self.taken.blocks().iter().map(|staged| staged.block))
    }

    /// Blocks at the front that belong to no atomic write.
    pub(crate) fn singles_at_front(&self) -> usize {
        let first = self.queue.iter().position(|staged| staged.atomic);
        first.unwrap_or(self.queue.len())
    }

    /// Blocks of the atomic group at the front, or 1.
    pub(crate) fn group_at_front(&self) -> usize {
        1 + self.queue.iter().skip(1).take_while(|staged| staged.glued).count()
    }

    /// Takes back a block that had left from the front, behind all others. What was staged of it since is newer.
    pub(crate) fn put_back(&mut self, block: StagedBlock) {
        let Some(position) = self.index.get(&block.block) else {
            self.bytes += block.sectors() as usize * SECTOR;
            self.index.insert(block.block, self.end());
            self.queue.push_back(block);
            return;
        };
        let staged = &mut self.queue[position.since(self.front)];
        let (before, newer) =
            (staged.sectors(), std::mem::replace(&mut staged.pieces, block.pieces));
        for piece in newer {
            staged.put(piece);
        }
        staged.atomic |= block.atomic;
        self.bytes += (staged.sectors() - before) as usize * SECTOR;
    }

    /// The home sectors of all that is staged, if that is one run of at most `sectors_max` and nothing of it is part
    /// of an atomic write.
    pub(crate) fn lone_run(&self, sectors_max: u64) -> Option<Range<u64>> {
        let mut run: Option<Range<u64>> = None;
        for staged in &self.queue {
            let [piece] = staged.pieces.as_slice() else { return None };
            let first = staged.block * BLOCK_SECTORS;
            let (start, end) = (first + u64::from(piece.first()), first + u64::from(piece.end()));
            let from = match run {
                Some(run) if run.end != start => return None,
                Some(run) => run.start,
                None => start,
            };
            let is_long = end - from > sectors_max;
            if is_long || staged.atomic {
                return None;
            }
            run = Some(from..end);
        }
        run
    }

    /// Every staged block, oldest first.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.queue.iter().map(|staged| staged.block)
    }

    /// Whether the front is part of an atomic write, of several blocks or of parts of one.
    pub(crate) fn front_is_group(&self) -> bool {
        self.queue.front().is_some_and(|staged| staged.atomic)
    }

    /// The blocks that belong to no atomic write: only those can go home, where each sector is old or new by itself.
    pub(crate) fn singles(&self) -> impl Iterator<Item = u64> + '_ {
        self.queue.iter().filter(|staged| !staged.atomic).map(|staged| staged.block)
    }

    /// Position before which everything has been taken.
    pub(crate) fn front(&self) -> StagePosition {
        self.front
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Payload;

    fn piece(first: u8, len: u8) -> Piece {
        Piece::new(first, len, Payload::Phantom(usize::from(len) * SECTOR))
    }

    #[test]
    fn a_newer_piece_cuts_the_older_ones_it_covers() {
        let mut stage = Stage::default();
        stage.put(5, piece(0, 8), Group::None);
        stage.put(5, piece(2, 3), Group::None);
        let ranges: Vec<_> =
            stage.get(5).unwrap().pieces().iter().map(|p| (p.first(), p.len())).collect();
        assert_eq!(ranges, [(0, 2), (2, 3), (5, 3)]);
        assert_eq!(stage.bytes(), 4096);
        assert_eq!(stage.end(), StagePosition(1), "a hot block keeps its place");
    }

    #[test]
    fn a_block_that_comes_back_stands_last_and_covers_nothing_newer() {
        let mut stage = Stage::default();
        stage.put(5, piece(0, 4), Group::None);
        stage.put(6, piece(0, 8), Group::None);
        let back = stage.take_front(1).remove(0);
        stage.put_back(back.clone());
        assert_eq!(stage.blocks().collect::<Vec<_>>(), [6, 5]);
        assert_eq!((stage.bytes(), stage.end()), (6144, StagePosition(3)));
        let back = stage.take_front(2).remove(1);
        stage.put(5, Piece::new(3, 2, Payload::Zeros(2 * SECTOR)), Group::None);
        stage.put_back(back);
        let found: Vec<_> =
            stage.get(5).unwrap().pieces().iter().map(|p| (p.first(), p.len())).collect();
        assert_eq!(found, [(0, 3), (3, 2)]);
        assert!(matches!(stage.get(5).unwrap().pieces()[1].data(), Payload::Zeros(_)));
        assert_eq!((stage.bytes(), stage.end()), (2560, StagePosition(4)));
    }

    #[test]
    fn glued_blocks_are_taken_together_or_not_at_all() {
        let mut stage = Stage::default();
        stage.put(1, piece(0, 8), Group::None);
        stage.put(2, piece(0, 8), Group::First);
        stage.put(3, piece(0, 8), Group::Next);
        assert_eq!(
            stage.measure_front(2, 1000, Forms::WHOLE).blocks,
            1,
            "1 alone: 2 and 3 would make three"
        );
        assert_eq!(stage.take_front(1).len(), 1);
        let both = Front { blocks: 2, chunks: 2, sectors: 16, ..Front::default() };
        assert_eq!(stage.measure_front(2, 1000, Forms::WHOLE), both);
        assert_eq!(stage.take_front(2).len(), 2);
        assert!(stage.is_empty() && stage.bytes() == 0);
    }

    #[test]
    fn what_is_staged_is_a_lone_run_only_if_it_is_one_transfer_and_nothing_atomic() {
        let mut stage = Stage::default();
        assert_eq!(stage.lone_run(128), None, "nothing");
        stage.put(5, piece(2, 6), Group::None);
        assert_eq!(stage.lone_run(128), Some(42..48));
        stage.put(6, piece(0, 8), Group::None);
        stage.put(7, piece(0, 3), Group::None);
        assert_eq!(stage.lone_run(128), Some(42..59));
        assert_eq!(stage.lone_run(16), None, "too long");
        stage.put(8, piece(0, 8), Group::None);
        assert_eq!(stage.lone_run(128), None, "a gap");
        stage.take_front(3);
        assert_eq!(stage.lone_run(128), Some(64..72));
        stage.put(8, piece(0, 8), Group::First);
        assert_eq!(stage.lone_run(128), None, "an atomic write of one block");
        stage.put(8, piece(0, 8), Group::None);
        assert_eq!(stage.lone_run(128), None, "it may still hold a part of one");
    }

    #[test]
    fn what_is_part_of_an_atomic_write_is_no_single() {
        let mut stage = Stage::default();
        let singles = |stage: &Stage| stage.singles().collect::<Vec<_>>();
        stage.put(1, piece(0, 8), Group::None);
        assert_eq!((singles(&stage), stage.front_is_group()), (vec![1], false));
        stage.put(2, piece(0, 8), Group::First);
        stage.put(3, piece(0, 8), Group::Next);
        stage.put(7, piece(0, 8), Group::None);
        stage.put(9, piece(0, 2), Group::First);
        stage.put(8, piece(0, 8), Group::None);
        assert_eq!(singles(&stage), [1, 7, 8], "nor an atomic write of a part of a block");
        assert_eq!(stage.singles_at_front(), 1);
        stage.take_front(1);
        assert!(stage.front_is_group() && stage.singles_at_front() == 0);
        assert_eq!(stage.group_at_front(), 2);
        stage.take_front(3);
        assert!(stage.front_is_group() && stage.group_at_front() == 1);
    }
}
