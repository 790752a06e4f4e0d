//! A disk that takes no time, or always the same: for measuring and testing what stands above it.
//!
//! Every command takes effect when it is submitted and completes a fixed latency later, in order.
//! It has no cache that could be lost; that it may *claim* one makes an engine send its flushes.

use crate::store::Store;
use nearhead_disk::check_command;
use nearhead_disk::{
    Command, Completion, Disk, DiskError, Nanos, Payload, Properties, Run, Submission,
};
use std::collections::VecDeque;

/// Properties of a disk that is not a rotating one, for [`InstantDisk`] and
/// [`CrashDisk`](crate::CrashDisk).
pub fn plain_properties(capacity_bytes: u64, sector_bytes: u32) -> Properties {
    Properties::plain("instant", capacity_bytes, sector_bytes)
}

/// A disk that completes everything a fixed time after its submission.
pub struct InstantDisk {
    properties: Properties,
    store: Box<dyn Store>,
    latency: Nanos,
    done: VecDeque<(Nanos, Completion)>,
}

impl InstantDisk {
    /// A disk with these `properties` whose content is in `store`.
    pub fn new(properties: Properties, store: Box<dyn Store>, latency: Nanos) -> Self {
        Self { properties, store, latency, done: VecDeque::new() }
    }

    /// Cuts the power: no command outstanding is ever answered. All content survives, which is
    /// one of the outcomes a disk may choose.
    pub fn power_cut(&mut self) {
        self.done.clear();
    }

    fn carry_out(&mut self, command: &Command) -> Result<Payload, DiskError> {
        check_command(&self.properties, command)?;
        match command {
            Command::Read { offset, len } => self.store.read_payload(*offset, *len as usize),
            Command::Write { offset, parts, .. } => {
                let mut at = *offset;
                for part in parts {
                    self.store.write_payload(at, part)?;
                    at += part.len() as u64;
                }
                Ok(Payload::EMPTY)
            }
            Command::WriteZeroes { offset, len, .. } => {
                self.store.zero(*offset, *len)?;
                Ok(Payload::EMPTY)
            }
            Command::Trim { offset, len } if self.properties.trim_reads_zero => {
                self.store.zero(*offset, *len)?;
                Ok(Payload::EMPTY)
            }
            Command::Trim { .. } | Command::Flush => Ok(Payload::EMPTY),
        }
    }
}

impl Disk for InstantDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn run_at(&self, offset: u64) -> Run {
        self.store.run_at(offset)
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        let result = self.carry_out(&submission.command);
        self.done.push_back((now + self.latency, submission.ticket.complete(result)));
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.done.front().filter(|(at, _)| *at <= now)?;
        self.done.pop_front().map(|(_, completion)| completion)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.done.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataless, MemoryStore};
    use nearhead_disk::{BufferMut, Class, CommandId, DiskErrorKind, Ticket};

    fn submission(id: u64, command: Command) -> Submission {
        Submission { ticket: Ticket::new(CommandId(id)), class: Class::Bulk, command }
    }

    #[test]
    fn commands_complete_in_order_after_the_latency() {
        let properties = plain_properties(1 << 20, 512);
        let latency = Nanos::from_micros(100);
        let mut disk = InstantDisk::new(properties, Box::new(MemoryStore::new()), latency);
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&[7; 512]).freeze())];
        disk.submit(submission(1, Command::Write { offset: 0, parts, durable: true }), Nanos(5));
        disk.submit(submission(2, Command::Read { offset: 0, len: 512 }), Nanos(5));
        assert_eq!(disk.wake_at(), Some(Nanos(100_005)));
        assert!(disk.poll(Nanos(100_004)).is_none());
        assert_eq!(disk.poll(Nanos(100_005)).unwrap().id, CommandId(1));
        match disk.poll(Nanos(100_005)).unwrap().result.unwrap() {
            Payload::Bytes(bytes) => assert_eq!(&*bytes, &[7; 512]),
            other => panic!("expected bytes, found {other:?}"),
        }
        assert!(disk.wake_at().is_none());
    }

    #[test]
    fn a_dataless_disk_answers_with_phantoms_and_refuses_what_a_disk_refuses() {
        let properties = plain_properties(1 << 20, 4096);
        let mut disk = InstantDisk::new(properties, Box::new(Dataless), Nanos::ZERO);
        disk.submit(submission(1, Command::Read { offset: 4096, len: 8192 }), Nanos::ZERO);
        let result = disk.poll(Nanos::ZERO).unwrap().result.unwrap();
        assert!(matches!(result, Payload::Phantom(8192)));
        for command in [
            Command::Read { offset: 512, len: 4096 },
            Command::Trim { offset: 1 << 20, len: 4096 },
            Command::Read { offset: 0, len: 0 },
        ] {
            disk.submit(submission(2, command), Nanos::ZERO);
            let error = disk.poll(Nanos::ZERO).unwrap().result.unwrap_err();
            assert_eq!(error.kind, DiskErrorKind::Invalid);
        }
    }
}
