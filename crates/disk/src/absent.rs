//! What stands in for a disk that is not there, so that whoever lives on several can go on with the others.
//!
//! It has no bytes, and every command that is about some fails as on a disk that is gone; a flush has nothing to do. It must never
//! answer as if it had kept anything. Answers that wait to be fetched are as many as there are commands outstanding, so who asks bounds them.
//! Who opens several disks asks each whether it is one ([`Disk::is_absent`]) before anything is read.

use crate::{
    Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties, Submission,
};
use std::collections::VecDeque;

/// A disk that is not there.
#[derive(Debug)]
pub struct AbsentDisk {
    properties: Properties,
    done: VecDeque<Completion>,
}

impl AbsentDisk {
    /// One that is called `name` in messages.
    pub fn new(name: &str) -> Self {
        Self { properties: Properties::plain(name, 0, 512), done: VecDeque::new() }
    }
}

impl Disk for AbsentDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn is_absent(&self) -> bool {
        true
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        let result = match submission.command {
            Command::Flush => Ok(Payload::EMPTY),
            _ => Err(DiskError {
                kind: DiskErrorKind::Gone,
                detail: format!(
                    "{}: this disk is not there; open the volume with it",
                    self.properties.name
                ),
            }),
        };
        self.done.push_back(submission.ticket.complete(result));
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        self.done.pop_front()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.done.front().map(|_| Nanos::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, CommandId, Ticket};

    #[test]
    fn it_keeps_nothing_and_says_so() {
        let mut disk: Box<dyn Disk> = Box::new(AbsentDisk::new("away"));
        assert!(disk.is_absent() && disk.wake_at().is_none());
        let commands =
            [Command::Read { offset: 0, len: 512 }, Command::Trim { offset: 0, len: 512 }];
        for (number, command) in (0..).zip(commands) {
            let ticket = Ticket::new(CommandId(number));
            disk.submit(Submission { ticket, class: Class::Bulk, command }, Nanos(7));
            assert_eq!(disk.wake_at(), Some(Nanos::ZERO));
            let error = disk.poll(Nanos(7)).unwrap().result.unwrap_err();
            assert_eq!(error.kind, DiskErrorKind::Gone);
            assert!(error.detail.starts_with("away: "), "{error}");
        }
        let ticket = Ticket::new(CommandId(9));
        disk.submit(Submission { ticket, class: Class::Bulk, command: Command::Flush }, Nanos(7));
        assert!(disk.poll(Nanos(7)).unwrap().result.is_ok(), "nothing was written");
    }
}
