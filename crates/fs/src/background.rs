//! Work without a request: when changes are written back and committed although no client asks, and freeing of large files that are gone.
//!
//! A change is durable soon where the disk has nothing else to do, and after [`crate::FsOptions::commit_after`] at the latest. Bulk goes in
//! place before that commit is due, so that the commit finds it there: a commit that begins it itself does not wait for it.

use crate::commit::Step;
use crate::core::Core;
use crate::error::Halt;
use crate::mounted::Phase;
use crate::waiting::Waiter;
use nearhead_disk::Nanos;
use nearhead_ext4::Ino;

/// Time from a change to its commit while no request to the volume is under way.
const COMMIT_AFTER_IDLE: Nanos = Nanos::from_millis(100);

/// Pause after a commit in which the clients that it answered may ask for the next one: that takes along what is due.
const PAUSE_AFTER_COMMIT: Nanos = Nanos::from_millis(10);

impl Core {
    /// A part of the time that a change may wait; less where nothing is under way.
    fn due_after(&self, part: u64) -> Nanos {
        let latest = self.options.commit_after;
        // A file that was cut to nothing is about to get its new content: a commit now would leave it empty after a crash.
        let is_idle = self.io.is_empty() && !self.is_being_replaced();
        let whole = if is_idle { COMMIT_AFTER_IDLE.min(latest) } else { latest };
        Nanos(whole.0 / part)
    }

    fn is_being_replaced(&self) -> bool {
        let from = Nanos(self.now.0.saturating_sub(self.options.commit_after.0));
        self.commit.bounds.has_cut_since(from)
    }

    /// Since when something waits for a commit that may begin now.
    fn waits_since(&self) -> Option<Nanos> {
        let may_begin = self.commit.step == Step::Idle && self.phase == Phase::Serving;
        self.changed_at.filter(|_| may_begin)
    }

    /// Time at which a commit begins without a request.
    pub(crate) fn commit_due_at(&self) -> Option<Nanos> {
        let may_begin_at = self.commit.ended_at.map_or(Nanos::ZERO, |at| at + PAUSE_AFTER_COMMIT);
        self.waits_since().map(|at| (at + self.due_after(1)).max(may_begin_at))
    }

    /// Time at which waiting bulk goes in place without a request.
    fn write_back_due_at(&self) -> Option<Nanos> {
        self.waits_since().filter(|_| !self.has_written_back).map(|at| at + self.due_after(2))
    }

    /// When there is something to do without a request or an answer.
    pub(crate) fn next_due_at(&self) -> Option<Nanos> {
        [self.write_back_due_at(), self.commit_due_at()].into_iter().flatten().min()
    }

    /// Whether a commit that a client asked for takes along what is old: otherwise one of its own would soon be in the way of the next
    /// `fsync`, which waits for two records then.
    pub(crate) fn is_half_due(&self) -> bool {
        let half = Nanos(self.options.commit_after.0 / 2);
        self.waits_since().is_some_and(|at| at + half <= self.now)
    }

    /// Does what is due; says whether a commit is.
    pub(crate) fn do_what_is_due(&mut self) -> bool {
        let is_due = |at: Option<Nanos>, now| at.is_some_and(|at| at <= now);
        let is_commit_due = is_due(self.commit_due_at(), self.now);
        // A commit that is due begins it itself.
        if !is_commit_due && is_due(self.write_back_due_at(), self.now) {
            self.has_written_back = true;
            self.write_back();
        }
        is_commit_due
    }

    /// Bulk of all files goes in place.
    fn write_back(&mut self) {
        let dirty = self.files.iter().filter(|(_, file)| file.pages.is_dirty() && !file.is_packed);
        let dirty: Vec<Ino> = dirty.map(|(ino, _)| *ino).collect();
        for ino in dirty {
            let may_begin = !self.waiting.awaits_quiet_of(ino);
            let Some(file) = self.files.get(&ino).filter(|_| may_begin) else { continue };
            for run in self.not_bound(ino, self.runs_in_place(file)) {
                self.begin_write_out(ino, run);
            }
        }
    }

    /// Frees the next part of large files that are gone.
    pub(crate) fn work_off(&mut self) {
        if self.phase != Phase::Serving || self.options.ext4.read_only {
            return;
        }
        let caller = self.by_itself();
        match self.ext4().and_then(|ext4| ext4.work_off(&caller).map_err(Halt::from)) {
            Ok(true) => {
                self.note_unsaved();
                self.runnable.push_back(Waiter::Rest);
            }
            // What it cannot do now is tried at the next turn, or at the next mount.
            Ok(false) | Err(Halt::Fails(_)) => {}
            Err(halt) => drop(self.park(Waiter::Rest, halt)),
        }
    }
}
