//! A device that fails as it is told, for tests of volumes that lie on several.

use nearhead_disk::{
    Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Submission, Ticket,
};
use nearhead_models::CrashDisk;
use std::cell::Cell;
use std::rc::Rc;

/// What a device does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It is gone: nothing is answered but that.
    Gone,
    /// Every command fails, without saying that the device is gone.
    Dead,
    /// No write succeeds; reads do.
    TakesNothing,
    /// What it answered is lost: its flush fails, and so does what is to be durable.
    CacheLost,
    /// It answers so many commands more, whatever it does.
    Answers(u32),
}

/// A device that does so while it is told.
pub(crate) struct Link {
    pub(crate) disk: CrashDisk,
    pub(crate) fault: Rc<Cell<Fault>>,
    failed: Vec<Ticket>,
}

impl Link {
    pub(crate) fn of(disk: CrashDisk) -> Self {
        Self { disk, fault: Rc::new(Cell::new(Fault::None)), failed: Vec::new() }
    }

    fn fails(&self, command: &Command) -> bool {
        match self.fault.get() {
            Fault::None | Fault::Answers(_) => false,
            Fault::Gone | Fault::Dead => true,
            Fault::TakesNothing => matches!(command, Command::Write { .. }),
            Fault::CacheLost => {
                matches!(command, Command::Flush | Command::Write { durable: true, .. })
            }
        }
    }
}

impl Disk for Link {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        if self.fails(&submission.command) {
            return self.failed.push(submission.ticket);
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        if let Fault::Answers(left) = self.fault.get() {
            let left = left.checked_sub(1)?;
            let answer = self.disk.poll(now)?;
            self.fault.set(Fault::Answers(left));
            return Some(answer);
        }
        let Some(ticket) = self.failed.pop() else { return self.disk.poll(now) };
        let is_gone = self.fault.get() == Fault::Gone;
        let kind = if is_gone { DiskErrorKind::Gone } else { DiskErrorKind::Io };
        Some(ticket.complete(Err(DiskError { kind, detail: "it failed".to_owned() })))
    }

    fn wake_at(&self) -> Option<Nanos> {
        match self.fault.get() {
            Fault::Answers(0) => None,
            _ if self.failed.is_empty() => self.disk.wake_at(),
            _ => Some(Nanos::ZERO),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.failed.drain(..).for_each(Ticket::abandon);
    }
}
