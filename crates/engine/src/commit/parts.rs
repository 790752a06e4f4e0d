//! What a record carries: parts, each of which belongs to somebody.
//!
//! A part is packed when the record is built, and its owner hears once more of it: that it is durable, or that no place
//! took the record and it goes back to where it came from (`engine/records.rs` tells them). Nothing else of the engine tells
//! the sorts of parts apart; a new one is a name here, what is said of it when the record is durable, and what when it is not.

use crate::placement::{Need, Spot};
use crate::stage::StagePosition;
use crate::state::Recorded;
use crate::state::logs::Logs;
use crate::state::paged::Layers;
use nearhead_disk::Nanos;
use nearhead_format::Entry;

use super::packer::Packer;

/// One part of a record.
#[derive(Debug)]
pub(crate) enum Part {
    /// The oldest invalidations that are ready, so many.
    TakenBack { count: usize },
    /// Logged blocks that were moved: what each chunk was before, in the order of the chunks.
    Moved { before: Vec<Entry> },
    /// Logged blocks that were copied beside all records: what each was before, in the order of the header's moves.
    Named { before: Vec<Entry> },
    /// Entries of the map that a checkpoint has copied home and lets go.
    Released { entries: Vec<Entry> },
    /// Staged blocks, all up to this position of the stage.
    Staged { end: StagePosition },
}

/// Whoever lets go of logged copies that are at home by now.
pub(crate) trait Releases {
    fn has_releases(&self) -> bool;

    /// Whether there are any that wait for no other record.
    fn are_releases_due(&self, now: Nanos) -> bool;

    /// Entries whose logged copy the next record may invalidate: those still the newest.
    fn take_releases(&mut self, recorded: &Recorded) -> Vec<Entry>;

    /// The record found no place: they wait for the next.
    fn return_releases(&mut self, entries: Vec<Entry>);
}

/// Where a record that moves goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// There.
    At(Spot),
    /// Wherever the placement puts records.
    Tail,
    /// The log has no room, or is not claimed.
    Nowhere,
}

/// A copy that was made beside all records, and what it is a copy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    before: Entry,
    after: Entry,
}

impl Copied {
    /// The copy of what the map has as `before`, as it is to have it.
    pub(crate) fn new(before: Entry, after: Entry) -> Self {
        Self { before, after }
    }

    /// What the map has.
    pub(crate) fn before(&self) -> &Entry {
        &self.before
    }

    /// What it is to have.
    pub(crate) fn after(&self) -> &Entry {
        &self.after
    }
}

/// Whoever makes such copies, which count once a record names them.
pub(crate) trait Copies {
    /// How many wait to be named.
    fn len(&self) -> usize;

    /// Whether they wait for no other record.
    fn are_due(&self, now: Nanos) -> bool;

    /// Those that the next record names, at most so many, all of what is still the newest.
    fn take(&mut self, count_max: usize, layers: Layers<'_>) -> Vec<Copied>;
}

/// Whoever moves logged copies from one log to another.
pub(crate) trait Moves {
    fn has_chunks(&self) -> bool;

    /// Chunks and sectors of the next record that moves, of at most so many sectors.
    fn measure(&self, sectors_max: u64) -> (usize, u64);

    /// Where the next record that moves goes.
    fn target(&self, logs: &Logs, need: Need) -> Target;

    /// Packs the next chunks that are still the newest; says what they were.
    fn take_chunks(
        &mut self,
        sectors_max: u64,
        layers: Layers<'_>,
        packer: &mut Packer,
    ) -> Vec<Entry>;

    /// The log that the next record is to claim, if one is to be.
    fn claim_wanted(&self) -> Option<u32>;

    /// The same, for the record that does.
    fn take_claim(&mut self) -> Option<u32>;

    /// That log has no room after all, or no record has that claims it.
    fn give_up(&mut self);
}
