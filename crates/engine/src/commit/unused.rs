//! A record that no place of any log takes, and a sequence that no record will have.
//!
//! What the record was to say is said by others: its blocks are staged again, and what the next records cannot take goes
//! home (`home/spill.rs`). But at one of the places that failed it may stand all the same, and a recovery would take it for
//! the newest of all, over what is written in place from now on. So its sequence is never used again: snapshots include
//! it, one in each slot, and before both are durable nothing is written that a client is told of. What a power cut tore,
//! and what cannot be overwritten (`torn.rs`), is passed over in the same way.
//!
//! It is the last resort of a disk that works but for some places. Where snapshots fail, too, the volume does; and where they
//! lie on a map device, which says nothing of the disk, it does when one record after the other had to be let go and nothing
//! of them was written.

use super::record::Record;
use crate::engine::Engine;
use nearhead_format::record::WriteItem;

/// Records that may be let go in a row.
const IN_A_ROW_MAX: u32 = 3;

/// A sequence that stays unused.
#[derive(Debug)]
pub(crate) struct Unused {
    /// Number of the second snapshot that includes it.
    until_snapshot: u64,
    /// What a record with it would write, if one stands somewhere.
    pub(super) writes: Vec<WriteItem>,
}

impl Engine {
    /// Lets go of a record, if that can be: its parts go back to where they came from. What is atomic can go nowhere else.
    pub(super) fn lets_go_of(&mut self, record: Record) -> Option<Record> {
        // A copy of its header that is still on its way would be taken for one of the next record.
        let is_alone = record.pending == 1;
        let is_no_use = self.commit.let_go_in_row == IN_A_ROW_MAX;
        if !is_alone || is_no_use || self.taken.blocks.iter().any(|staged| staged.atomic) {
            return Some(record);
        }
        for part in record.parts {
            self.part_goes_back(part);
        }
        self.commit.journal_from = None;
        self.commit.let_go_in_row += 1;
        self.never_use(record.header.sequence, record.header.writes);
        None
    }

    /// What left the stage for the record, up to this position, stands behind all others now, and so do those who wait
    /// for it.
    pub(super) fn stage_again(&mut self, end: u64) {
        let blocks = std::mem::take(&mut self.taken).blocks;
        let front = end - blocks.len() as u64;
        for staged in blocks {
            self.stage.put_back(staged);
        }
        self.commit.note_staged(self.now);
        self.wait_for_all_staged(front);
        self.retry_blocked();
    }

    /// No record gets this sequence, which would be the next one's. `writes` is what one that has it may say.
    pub(super) fn never_use(&mut self, sequence: u64, writes: Vec<WriteItem>) {
        self.core.pass_over(sequence);
        let until_snapshot = self.snapshotter.next_to_begin() + 1;
        self.commit.unused = Some(Unused { until_snapshot, writes });
        self.snapshotter.demand();
    }

    /// Whether records and what goes home must wait, until both slots include a sequence that nobody uses.
    pub(super) fn passes_over_unused(&mut self) -> bool {
        let Some(unused) = &self.commit.unused else { return false };
        if self.snapshotter.number() >= unused.until_snapshot {
            self.commit.unused = None;
            return false;
        }
        if self.snapshotter.is_short_of_space() {
            self.wait_for_snapshots_space();
        } else if self.snapshotter.is_busy() {
            self.snapshotter.hurry();
        } else {
            self.demand_snapshot_or_fail("a record could not be written to any log");
        }
        true
    }
}
