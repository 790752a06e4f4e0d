//! The transfers of a snapshot: sent, sent again when they fail, and given up.
//!
//! One transfer is under way at a time. One that fails is tried again a few times, after ever longer pauses; for
//! want of space for as long as it takes. Only then has the snapshot failed: the older one and every record since
//! stand, and another attempt begins after a while.

use super::InProgress;
use crate::commit::pause;
use crate::disk::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use nearhead_disk::{Buffer, Command, DiskError, DiskErrorKind, Payload};

/// How often a transfer is tried before the snapshot has failed.
const TRANSFERS_MAX: u32 = 5;

impl Engine {
    /// Whether what is written to the map's device may still be lost once it was answered, unless it is asked to be
    /// durable.
    pub(crate) fn map_is_volatile(&self) -> bool {
        self.lanes.of(self.setup.map.lane).flusher.is_needed()
    }

    pub(super) fn write_durably(
        &mut self,
        work: &mut InProgress,
        purpose: Purpose,
        offset: u64,
        bytes: Buffer,
    ) {
        let durable = self.map_is_volatile();
        let command = Command::Write { offset, parts: vec![Payload::Bytes(bytes)], durable };
        self.send_snapshot(work, purpose, command);
    }

    pub(super) fn send_snapshot(
        &mut self,
        work: &mut InProgress,
        purpose: Purpose,
        command: Command,
    ) {
        work.current = Some((purpose, command.clone()));
        self.issue_on(self.setup.map.lane, work.class, purpose, command);
    }

    /// A transfer of the snapshot is done: says whether the snapshot can go on.
    pub(super) fn snapshot_goes_on(&mut self, result: Result<Payload, DiskError>) -> bool {
        let Some(work) = self.snapshotter.in_progress.as_mut() else { return false };
        let Err(error) = result else {
            work.attempts = 0;
            if work.lack_of_space.take().is_some() {
                self.note_space();
            }
            return true;
        };
        work.attempts += 1;
        match error.kind {
            DiskErrorKind::OutOfSpace => {
                work.lack_of_space = Some((self.now, error.clone()));
                work.again_at = Some(self.now + pause(work.attempts));
                if matches!(self.phase, Phase::Draining) {
                    self.wait_for_space(&error);
                } else {
                    // Who waits for what it frees is told where that room is missed.
                    self.watch.note_no_space(self.now, self.setup.config.no_space_wait_max);
                }
            }
            DiskErrorKind::Io if work.attempts < TRANSFERS_MAX => {
                work.again_at = Some(self.now + pause(work.attempts));
            }
            _ => self.snapshot_failed(&error),
        }
        false
    }

    fn snapshot_failed(&mut self, error: &DiskError) {
        self.snapshotter.in_progress = None;
        // Those that it was to keep are in no other.
        self.snapshotter.note_hints_changed();
        self.core.logs.snapshot_failed();
        if let Some(journal) = self.core.journal.as_mut() {
            journal.ring.snapshot_failed();
        }
        let slot = (self.snapshotter.number + 1) % 2;
        let damage = format!("snapshot slot {slot}: could not be written: {error}");
        if matches!(self.phase, Phase::Draining) {
            return self.fail(damage);
        }
        // The older snapshot and every record since it still stand; try again after a while.
        self.snapshotter.failures += 1;
        self.snapshotter.last_problem.clone_from(&damage);
        self.recovered.note(damage);
        self.snapshotter.last_at = self.now;
        self.core.snapshot_failed();
    }
}
