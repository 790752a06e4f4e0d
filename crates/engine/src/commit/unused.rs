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

use super::Commit;
use super::record::Record;
use crate::core::Core;
use nearhead_format::record::SectorRange;

/// Records that may be let go in a row.
const IN_A_ROW_MAX: u32 = 3;

/// A sequence that stays unused.
#[derive(Debug)]
pub(crate) struct Unused {
    /// Number of the second snapshot that includes it.
    until_snapshot: u64,
    /// The home sectors that a record with it would write, if one stands somewhere.
    pub(super) writes: Vec<SectorRange>,
}

impl Commit {
    /// Whether a record can be let go: then its parts go back to where they came from. What is atomic can go nowhere else.
    pub(super) fn may_let_go(&self, record: &Record, is_atomic: bool) -> bool {
        // A copy of its header that is still on its way would be taken for one of the next record.
        let is_alone = record.pending == 1;
        let is_no_use = self.let_go_in_row == IN_A_ROW_MAX && !record.only_moves();
        is_alone && !is_no_use && !is_atomic
    }

    /// A record is let go, and its parts are back; whether it moved blocks, of which nothing need be written anywhere else. Its
    /// sequence is in both slots once snapshot `until_snapshot` is there.
    pub(crate) fn note_let_go(
        &mut self,
        core: &mut Core,
        (record, moved): (Record, bool),
        until_snapshot: u64,
    ) {
        self.journal_from = None;
        self.let_go_in_row += u32::from(!moved);
        let written = record.written().collect();
        self.never_use(core, record.header.sequence, written, until_snapshot);
    }

    /// No record gets this sequence, which would be the next one's. `writes` is what one that has it may write.
    pub(crate) fn never_use(
        &mut self,
        core: &mut Core,
        sequence: u64,
        writes: Vec<SectorRange>,
        until_snapshot: u64,
    ) {
        core.recorded_mut().pass_over(sequence);
        self.unused = Some(Unused { until_snapshot, writes });
    }

    /// The snapshot until which records and what goes home must wait, if there is a sequence that nobody uses.
    pub(crate) fn unused_until(&self) -> Option<u64> {
        self.unused.as_ref().map(|unused| unused.until_snapshot)
    }

    /// Both slots include it.
    pub(crate) fn forget_unused(&mut self) {
        self.unused = None;
    }
}
