//! A disk in memory, as fast as copying is, for interoperability tests and comparisons.

use nearhead_disk::{
    Buffer, BufferMut, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload,
    Properties, Submission,
};
use std::collections::VecDeque;

/// Read buffers kept to be used again once nobody holds them.
const BUFFERS_MAX: usize = 32;

/// Zeros at first; everything completes at once, in order.
pub(crate) struct MemoryDisk {
    properties: Properties,
    bytes: Vec<u8>,
    done: VecDeque<Completion>,
    /// Completions are held back while this is set.
    pub(crate) held: bool,
    lent: VecDeque<Buffer>,
}

impl MemoryDisk {
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let properties = Properties {
            physical_sector_bytes: 4096,
            rotational: true,
            volatile_cache: true,
            trim_reads_zero: true,
            transfer_bytes_max: 4 << 20,
            ..Properties::plain("memory", capacity_bytes, 512)
        };
        let bytes = vec![0; capacity_bytes as usize];
        let (done, lent) = (VecDeque::new(), VecDeque::new());
        Self { properties, bytes, done, held: false, lent }
    }

    /// A buffer of at least `len` bytes: one that was read into before, if nobody holds it now.
    fn buffer(&mut self, len: usize) -> BufferMut {
        // The one lent longest ago is the one most likely to be back.
        let oldest = (self.lent.len() >= BUFFERS_MAX).then(|| self.lent.pop_front()).flatten();
        let memory = oldest.and_then(Buffer::try_reclaim);
        if let Some(buffer) = memory.filter(|buffer| buffer.len() == len.next_multiple_of(4096)) {
            return buffer;
        }
        BufferMut::zeroed(len.next_multiple_of(4096))
    }

    fn carry_out(&mut self, command: &Command) -> Result<Payload, DiskError> {
        match command {
            Command::Read { offset, len } => {
                let (from, len) = (*offset as usize, *len as usize);
                let mut buffer = self.buffer(len);
                buffer[..len].copy_from_slice(&self.bytes[from..from + len]);
                let buffer = buffer.freeze();
                self.lent.push_back(buffer.clone());
                return Ok(Payload::Bytes(buffer.slice(0..len)));
            }
            Command::Write { offset, parts, .. } => {
                let mut at = *offset as usize;
                for part in parts {
                    part.copy_to(&mut self.bytes[at..at + part.len()]);
                    at += part.len();
                }
            }
            Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
                let (from, len) = (*offset as usize, *len as usize);
                if len == 0 {
                    let detail = "a command without bytes".to_owned();
                    return Err(DiskError { kind: DiskErrorKind::Invalid, detail });
                }
                self.bytes[from..from + len].fill(0);
            }
            Command::Flush => {}
        }
        Ok(Payload::EMPTY)
    }
}

impl Disk for MemoryDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        let result = self.carry_out(&submission.command);
        self.done.push_back(submission.ticket.complete(result));
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        if self.held { None } else { self.done.pop_front() }
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
