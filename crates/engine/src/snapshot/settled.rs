//! A snapshot whose header and copy are durable: what may be used again, and what no recovery can bring back.
//!
//! Log space that only the older snapshot protected is free from here on, and not before. What was taken back before the
//! snapshot before this one began is in neither slot; a later record says it too, for who rebuilds the map without them.

use crate::commit::Record;
use crate::engine::Engine;

impl Engine {
    /// Header and copy are durable.
    pub(super) fn snapshot_is_safe(&mut self) {
        let Some(work) = self.snapshotter.in_progress.take() else { return };
        self.snapshotter.failures = 0;
        self.snapshotter.number += 1;
        self.snapshotter.sequence = work.record_sequence;
        self.snapshotter.clean_on_disk = work.clean;
        self.stats.snapshots += 1;
        // First the claims: the rings they name must keep the positions that the snapshot tells.
        work.claims_new.iter().for_each(|index| self.core.logs.note_claimed(*index));
        self.core.logs.snapshot_committed();
        if let Some(journal) = self.core.journal.as_mut() {
            journal.ring.snapshot_committed();
        }
        // What was taken back before the snapshot before it began is in neither slot: no recovery can
        // bring it back, even if one slot rots.
        let in_neither = std::mem::replace(&mut self.snapshotter.invalid_end, work.invalid_end);
        let settled = in_neither.saturating_sub(self.invalidations.committed());
        self.commit_invalidations_by_snapshot(settled as usize);
    }

    fn commit_invalidations_by_snapshot(&mut self, count: usize) {
        // Those in the record in flight are counted when it completes.
        let in_record = self.commit.in_flight().map_or(0, Record::taken_back);
        if in_record > 0 || count == 0 {
            return;
        }
        let logs = &mut self.core.logs;
        self.commit.note_untold(self.invalidations.commit(count).map(|entry| {
            logs.drop_live(&entry);
            entry.home_sector..entry.end_sector()
        }));
    }
}
