//! What a record carries: parts, each of which belongs to somebody, and what becomes of them.
//!
//! A part is packed when the record is built, and its owner hears once more of it: that it is durable, or that no place
//! took the record and it goes back to where it came from. Nothing else of the engine tells the sorts of parts apart; a
//! new one is a name here, what is said of it when the record is durable, and what when it is not.

use super::record::Record;
use crate::engine::Engine;
use crate::state::Fate;
use nearhead_format::Entry;

/// One part of a record.
#[derive(Debug)]
pub(crate) enum Part {
    /// The oldest invalidations that are ready, so many.
    TakenBack { count: usize },
    /// Logged blocks that were moved: what each chunk was before, in the order of the chunks.
    Moved { before: Vec<Entry> },
    /// Entries of the map that a checkpoint has copied home and lets go.
    Released { entries: Vec<Entry> },
    /// Staged blocks, all up to this position of the stage.
    Staged { end: u64 },
}

impl Engine {
    /// What becomes of each chunk of a record that is durable.
    pub(super) fn fates(&self, record: &Record) -> Vec<Fate> {
        // What of a move was overwritten or cut since: both copies hold the same bytes, and the map keeps the older.
        let holds = |old| self.core.map.holds(old);
        let fate = |old| if holds(old) { Fate::Counts } else { Fate::Superseded };
        record.moved().iter().map(fate).collect()
    }

    /// `record`, which carries `part`, is durable, and the map says so.
    pub(super) fn part_is_durable(&mut self, part: &Part, record: &Record) {
        match part {
            Part::TakenBack { count } => {
                for entry in self.invalidations.commit(*count) {
                    self.core.logs.drop_live(&entry);
                }
            }
            Part::Moved { .. } => {
                self.stats.swapped_bytes += nearhead_disk::total_len(&record.payload) as u64;
            }
            Part::Released { .. } if self.checkpoint.has_releases() => {}
            Part::Released { .. } => self.checkpoint_released(),
            Part::Staged { end } => {
                self.commit.note_committed(*end);
                self.checkpoint.note_logged();
                self.schedule.room.note_found();
                self.taken = crate::requests::stage::Taken::default();
            }
        }
    }

    /// No place took the record that carries `part`, and none will.
    pub(super) fn part_goes_back(&mut self, part: Part) {
        match part {
            // They are still queued.
            Part::TakenBack { .. } => {}
            Part::Moved { before } if before.is_empty() => {}
            Part::Moved { .. } => self.swap.give_up(),
            Part::Released { entries } => self.checkpoint.return_releases(entries),
            Part::Staged { end } => self.stage_again(end),
        }
    }
}
