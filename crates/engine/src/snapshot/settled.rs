//! A snapshot whose header and copy are durable: what may be used again, and what no recovery can bring back.
//!
//! Log space that only the older snapshot protected is free from here on, and not before. What was taken back before the
//! snapshot before this one began is in neither slot; a later record says it too, for who rebuilds the map without them.

use super::Snapshotter;
use crate::commit::{Commit, Record, Stale};
use crate::core::Core;

impl Snapshotter {
    /// Header and copy are durable.
    pub(super) fn is_safe(&mut self, core: &mut Core, commit: &mut Commit) {
        let Some(mut work) = self.in_progress.take() else { return };
        self.failures = 0;
        self.number += 1;
        self.sequence = work.record_sequence;
        self.clean_on_disk = work.clean;
        core.stats_mut().snapshots += 1;
        // First the claims: the rings they name must keep the positions that the snapshot tells.
        for index in &work.claims_new {
            // As the snapshot has it, and as a recovery takes it: a log of a chain that was free is used from its start.
            let claim = core.logs().claim_for(*index);
            core.logs_mut().adopt_claim(claim);
        }
        // Then what the merge found that nobody needs: logs that it empties are free at once.
        if let Some(mut merge) = work.merge.take() {
            core.recorded_mut().let_go(&mut merge);
            let slot = (self.number % 2) as usize;
            let offset = core.setup().map.slots.body_offset(slot);
            core.recorded_mut().rebase(*merge, self.number, offset);
        }
        core.logs_mut().snapshot_committed();
        if let Some(journal) = core.journal_mut() {
            journal.ring_mut().snapshot_committed();
        }
        // What was taken back before the snapshot before it began is in neither slot: no recovery can
        // bring it back, even if one slot rots.
        let in_neither = std::mem::replace(&mut self.invalid_end, work.invalid_end);
        let settled = in_neither.since(commit.invalidations().committed());
        commit_by_snapshot(core, commit, settled);
    }
}

fn commit_by_snapshot(core: &mut Core, commit: &mut Commit, count: usize) {
    // Those in the record in flight are counted when it completes.
    let in_record = commit.in_flight().map_or(0, Record::taken_back);
    if in_record > 0 || count == 0 {
        return;
    }
    let settled: Vec<Stale> = commit.invalidations_mut().commit(count).collect();
    for entry in settled.iter().filter_map(Stale::copy) {
        core.logs_mut().drop_live(entry);
    }
    commit.note_untold(settled.iter().map(Stale::sectors));
}
