//! The transfers of a snapshot: sent, sent again when they fail, and given up.
//!
//! Two are under way at a time, of the body; the header and its copy are alone. One that fails is tried again a few times, after ever longer
//! pauses; for want of space for as long as it takes. Only then has the snapshot failed, and not before the disk is done with the
//! other: what it wrote late would come over the next attempt. The older snapshot and every record since stand, and
//! another attempt begins after a while.

use super::{InProgress, Snapshotter};
use crate::commit::{Commit, pause};
use crate::core::Core;
use crate::damage::DamageKind;
use crate::disk::dispatch::Purpose;
use crate::failure::Failure;
use nearhead_disk::{Buffer, Command, DiskError, DiskErrorKind, Nanos, Payload};

/// How often a transfer is tried before the snapshot has failed.
const TRANSFERS_MAX: u32 = 5;

/// How many are under way at once: while one is written the next waits at the disk, so that the platter does not go once round between two
/// that follow each other.
const AT_ONCE: usize = 2;

/// One that is on its way, or waits to be sent again.
#[derive(Debug)]
struct Transfer {
    purpose: Purpose,
    command: Command,
    /// How often it failed, and when it is sent again if it waits for that.
    attempts: u32,
    again_at: Option<Nanos>,
    /// What it found, and when, if there was no space for it.
    lack_of_space: Option<(Nanos, DiskError)>,
}

/// Those that are under way.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    under_way: Vec<Transfer>,
    /// Why the snapshot has failed, once the disk is done with the others.
    given_up: Option<DiskError>,
}

impl Transfers {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether another one may be sent.
    pub(super) fn have_room(&self) -> bool {
        self.under_way.len() < AT_ONCE && self.given_up.is_none()
    }

    pub(super) fn have(&self, purpose: Purpose) -> bool {
        self.under_way.iter().any(|transfer| transfer.purpose == purpose)
    }

    #[cfg(test)]
    pub(super) fn purposes(&self) -> impl Iterator<Item = Purpose> {
        self.under_way.iter().map(|transfer| transfer.purpose)
    }

    /// When the next one is sent again, if one waits for that.
    pub(super) fn again_at(&self) -> Option<Nanos> {
        self.under_way.iter().filter_map(|transfer| transfer.again_at).min()
    }

    /// What the newest attempt of one found, if there was no space for it at `since` or later.
    pub(super) fn lack_of_space(&self, since: Nanos) -> Option<&DiskError> {
        let lacks = self.under_way.iter().filter_map(|transfer| transfer.lack_of_space.as_ref());
        lacks.filter(|(at, _)| *at >= since).map(|(_, error)| error).next()
    }

    pub(super) fn lack_space(&self) -> bool {
        self.under_way.iter().any(|transfer| transfer.lack_of_space.is_some())
    }

    /// The snapshot has failed. Those that wait to be sent again are not.
    fn give_up(&mut self, error: DiskError) {
        self.given_up = Some(error);
        self.under_way.retain(|transfer| transfer.again_at.is_none());
    }
}

impl Transfer {
    /// It failed: says whether it is sent again after a while.
    fn is_tried_again(&mut self, core: &mut Core, error: &DiskError) -> bool {
        self.attempts += 1;
        let is_tried_again = match error.kind {
            DiskErrorKind::OutOfSpace => {
                self.lack_of_space = Some((core.now(), error.clone()));
                if core.is_draining() {
                    core.wait_for_space(error);
                } else {
                    // Who waits for what it frees is told where that room is missed.
                    core.note_no_space();
                }
                true
            }
            DiskErrorKind::Io => self.attempts < TRANSFERS_MAX,
            _ => false,
        };
        if is_tried_again {
            self.again_at = Some(core.now() + pause(self.attempts));
        }
        is_tried_again
    }
}

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
        let transfer = Transfer {
            purpose,
            command: command.clone(),
            attempts: 0,
            again_at: None,
            lack_of_space: None,
        };
        self.transfers.under_way.push(transfer);
        core.issue_on(core.setup().map.lane, self.class, purpose, command);
    }

    /// Sends those again that have waited for that.
    pub(super) fn send_again(&mut self, core: &mut Core) {
        let now = core.now();
        for transfer in &mut self.transfers.under_way {
            if transfer.again_at.take_if(|at| *at <= now).is_some() {
                let (purpose, command) = (transfer.purpose, transfer.command.clone());
                core.issue_on(core.setup().map.lane, self.class, purpose, command);
            }
        }
    }
}

impl Snapshotter {
    /// A transfer of the snapshot is done: says whether the snapshot can go on.
    pub(super) fn goes_on(
        &mut self,
        core: &mut Core,
        commit: &Commit,
        purpose: Purpose,
        result: Result<Payload, DiskError>,
    ) -> bool {
        let Some(work) = self.in_progress.as_mut() else { return false };
        let under_way = &mut work.transfers.under_way;
        let of_purpose = |transfer: &Transfer| transfer.purpose == purpose;
        let Some(index) = under_way.iter().position(of_purpose) else { return false };
        let is_done = match result {
            Ok(_) => {
                let done = under_way.remove(index);
                let has_space = done.lack_of_space.is_some() && !work.transfers.lack_space();
                if has_space && !commit.is_short_of_space() {
                    core.note_space();
                }
                true
            }
            Err(error) => {
                if under_way[index].is_tried_again(core, &error) {
                    return false;
                }
                under_way.remove(index);
                work.transfers.give_up(error);
                false
            }
        };
        if work.transfers.is_empty()
            && let Some(error) = work.transfers.given_up.take()
        {
            self.failed(core, &error);
            return false;
        }
        is_done
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
