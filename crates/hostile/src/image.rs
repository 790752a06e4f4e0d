//! A disk over an image in memory that counts what it is asked to do.
//!
//! Commands outside of it are answered with errors, as a device answers them. Whoever asks for more
//! commands than a volume of this size can need does not come to an end, and panics.

use nearhead_disk::{
    BufferMut, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Submission,
};
use nearhead_models::{MemoryStore, Store, plain_properties};
use std::collections::VecDeque;

/// Size of every image, in bytes: that of the smallest device.
pub(crate) const IMAGE_BYTES: u64 = 64 << 20;

/// More commands than opening, reading and stopping a volume on an image can take: a dozen logs of
/// 512 log blocks, each read twice in the smallest pieces there are, and some for everything else.
const COMMANDS_MAX: u64 = 20_000;

const LATENCY: Nanos = Nanos(1000);

/// The disk.
pub(crate) struct ImageDisk {
    properties: Properties,
    store: MemoryStore,
    done: VecDeque<(Nanos, Completion)>,
    commands: u64,
    /// Writes and zeroes so far.
    pub(crate) changes: u64,
}

impl ImageDisk {
    pub(crate) fn new(store: MemoryStore) -> Self {
        let mut properties = plain_properties(IMAGE_BYTES, 512);
        properties.volatile_cache = true;
        Self { properties, store, done: VecDeque::new(), commands: 0, changes: 0 }
    }

    pub(crate) fn into_store(self) -> MemoryStore {
        self.store
    }

    fn carry_out(&mut self, command: &Command) -> Result<Payload, DiskError> {
        match command {
            Command::Read { offset, len } => {
                inside(*offset, u64::from(*len))?;
                self.store.read_payload(*offset, *len as usize)
            }
            Command::Write { offset, parts, .. } => {
                let len = nearhead_disk::total_len(parts) as u64;
                inside(*offset, len)?;
                self.changes += 1;
                let mut at = *offset;
                for part in parts {
                    self.store.write_payload(at, part)?;
                    at += part.len() as u64;
                }
                Ok(Payload::EMPTY)
            }
            Command::WriteZeroes { offset, len, .. } => {
                inside(*offset, *len)?;
                self.changes += 1;
                self.store.zero(*offset, *len)?;
                Ok(Payload::EMPTY)
            }
            Command::Trim { .. } | Command::Flush => Ok(Payload::EMPTY),
        }
    }
}

fn inside(offset: u64, len: u64) -> Result<(), DiskError> {
    let fits = offset.checked_add(len).is_some_and(|end| end <= IMAGE_BYTES);
    if fits && len > 0 && offset.is_multiple_of(512) && len.is_multiple_of(512) {
        return Ok(());
    }
    let detail = format!("{len} bytes at {offset}: not sectors of this disk");
    Err(DiskError { kind: DiskErrorKind::Invalid, detail })
}

impl Disk for ImageDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.commands += 1;
        assert!(self.commands <= COMMANDS_MAX, "no end: {:?}", submission.command);
        let result = self.carry_out(&submission.command);
        self.done.push_back((now + LATENCY, submission.ticket.complete(result)));
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.done.front().filter(|(at, _)| *at <= now)?;
        self.done.pop_front().map(|(_, completion)| completion)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.done.front().map(|(at, _)| *at)
    }
}

/// The bytes at `offset`.
pub(crate) fn bytes_at(store: &MemoryStore, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = BufferMut::zeroed(len);
    let read = store.read(offset, &mut bytes);
    assert!(read.is_ok(), "a store in memory fails: {read:?}");
    bytes.to_vec()
}

/// Changes bytes of an image.
pub(crate) fn put(store: &mut MemoryStore, offset: u64, bytes: &[u8]) {
    let written = store.write(offset, bytes);
    assert!(written.is_ok(), "a store in memory fails: {written:?}");
}
