//! How the disk behaves: commands that fail, and commands that are not answered.
//!
//! What is seen is told to the [watch](DiskWatch), which says what becomes of it in words. Nothing here decides what follows from it for the volume.

use super::Core;
use crate::disk::dispatch::InFlight;
use crate::disk::report::DiskErrorReport;
use crate::disk::watch::DiskWatch;
use nearhead_disk::{DiskError, Lane, Nanos};

impl Core {
    pub(crate) fn watch(&self) -> &DiskWatch {
        &self.watch
    }

    pub(crate) fn watch_mut(&mut self) -> &mut DiskWatch {
        &mut self.watch
    }

    /// A command failed.
    pub(crate) fn note_disk_error(&mut self, lane: Lane, done: &InFlight, error: &DiskError) {
        self.stats.disk_errors += 1;
        self.watch.note(DiskErrorReport {
            work: done.work(),
            kind: error.kind,
            lane,
            offset: done.extent().map(|(offset, _)| self.lanes.on_device(lane, offset)),
            len: done.extent().map_or(0, |(_, len)| len),
            at: self.now,
            detail: error.detail.clone(),
        });
    }

    /// A command was answered that had left at `left_at`.
    pub(crate) fn note_answer(&mut self, left_at: Nanos) {
        if self.watch.stall().is_some() {
            let after = self.setup.config.stall_after;
            self.watch.note_answer(left_at, self.lanes.on_disk(), self.now, after);
        }
    }

    /// Looks for commands that are not answered, when it is time to.
    pub(crate) fn look_for_stalls(&mut self) {
        let after = self.setup.config.stall_after;
        if self.lanes.is_on_disk() {
            self.watch.note_busy(self.now, after);
        }
        if self.watch.look_at().is_some_and(|at| at <= self.now) {
            self.watch.look(self.lanes.on_disk(), self.now, after);
        }
    }

    /// When that is.
    pub(crate) fn stall_wake(&self) -> Option<Nanos> {
        self.watch.look_at().filter(|_| self.lanes.is_on_disk())
    }
}
