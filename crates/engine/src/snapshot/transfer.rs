//! The transfers of a snapshot: sent, sent again when they fail, and given up.
//!
//! One transfer is under way at a time. One that fails is tried again a few times, after ever longer pauses; for
//! want of space for as long as it takes. Only then has the snapshot failed: the older one and every record since
//! stand, and another attempt begins after a while.

use super::{InProgress, Snapshotter};
use crate::commit::{Commit, pause};
use crate::core::Core;
use crate::damage::DamageKind;
use crate::disk::dispatch::Purpose;
use crate::failure::Failure;
use nearhead_disk::{Buffer, Command, DiskError, DiskErrorKind, Payload};

/// How often a transfer is tried before the snapshot has failed.
const TRANSFERS_MAX: u32 = 5;

impl InProgress {
    pub(super) fn write_durably(
        &mut self,
        core: &mut Core,
        purpose: Purpose,
        offset: u64,
        bytes: Buffer,
    ) {
        let durable = core.map_is_volatile();
        let command = Command::Write { offset, parts: vec![Payload::Bytes(bytes)], durable };
        self.send(core, purpose, command);
    }

    pub(super) fn send(&mut self, core: &mut Core, purpose: Purpose, command: Command) {
        self.current = Some((purpose, command.clone()));
        core.issue_on(core.setup().map.lane, self.class, purpose, command);
    }
}

impl Snapshotter {
    /// A transfer of the snapshot is done: says whether the snapshot can go on.
    pub(super) fn goes_on(
        &mut self,
        core: &mut Core,
        commit: &Commit,
        result: Result<Payload, DiskError>,
    ) -> bool {
        let Some(work) = self.in_progress.as_mut() else { return false };
        let Err(error) = result else {
            work.attempts = 0;
            if work.lack_of_space.take().is_some() && !commit.is_short_of_space() {
                core.note_space();
            }
            return true;
        };
        work.attempts += 1;
        match error.kind {
            DiskErrorKind::OutOfSpace => {
                work.lack_of_space = Some((core.now(), error.clone()));
                work.again_at = Some(core.now() + pause(work.attempts));
                if core.is_draining() {
                    core.wait_for_space(&error);
                } else {
                    // Who waits for what it frees is told where that room is missed.
                    core.note_no_space();
                }
            }
            DiskErrorKind::Io if work.attempts < TRANSFERS_MAX => {
                work.again_at = Some(core.now() + pause(work.attempts));
            }
            _ => self.failed(core, &error),
        }
        false
    }

    fn failed(&mut self, core: &mut Core, error: &DiskError) {
        self.in_progress = None;
        // Those that it was to keep are in no other.
        self.note_hints_changed();
        core.logs_mut().snapshot_failed();
        if let Some(journal) = core.journal_mut() {
            journal.ring_mut().snapshot_failed();
        }
        let slot = (self.number + 1) % 2;
        let damage = format!("snapshot slot {slot}: could not be written: {error}");
        if core.is_draining() {
            return core.fail(Failure::Snapshot { problem: damage });
        }
        // The older snapshot and every record since it still stand; try again after a while.
        self.failures += 1;
        self.last_problem.clone_from(&damage);
        core.note(DamageKind::Snapshot.told(damage));
        self.last_at = core.now();
        core.recorded_mut().snapshot_failed();
    }
}
