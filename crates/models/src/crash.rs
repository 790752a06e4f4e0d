//! A disk that remembers what a power cut may lose, so that a test can try every outcome.
//!
//! Writes take effect for readers at once. For durability the disk keeps them apart:
//!
//! - a write is *unflushed* from its submission on;
//! - when the completion of a `durable` write is handed out, that write is safe;
//! - when the completion of a flush is handed out, every write is safe whose completion had been
//!   handed out before the flush was submitted.
//!
//! So "safe" means exactly "the host was told so", and nothing else is. A power cut at any moment
//! leaves the safe content plus any subset of the sectors of the unflushed writes
//! ([`CrashDisk::image_after`]), the newest surviving version of each. A safe write makes the
//! overlapped sectors of earlier writes disappear from that choice: a disk cannot bring them back.
//!
//! The disk relies on the host never to have two overlapping writes outstanding at once.

use crate::instant::plain_properties;
use crate::random::SplitMix;
use crate::store::{MemoryStore, Store};
use crate::validate::check;
use nearhead_disk::{
    BufferMut, Command, Completion, Disk, DiskError, Nanos, Payload, Properties, Submission,
    Ticket, total_len,
};
use std::collections::VecDeque;

/// Own pages that the safe content may have before it is consolidated for cheap images.
const UNSHARED_PAGES_MAX: usize = 64;

/// A write that a power cut may still lose.
#[derive(Clone, Debug)]
pub struct UnflushedWrite {
    /// Counts all writes of the disk; command ids may come again, this does not.
    pub serial: u64,
    /// First byte.
    pub offset: u64,
    /// Contents, one after the other.
    pub parts: Vec<Payload>,
    /// Whether the host asked for durability.
    pub durable: bool,
    /// Whether its completion was handed out.
    pub completed: bool,
    /// Sectors over which a later write is safe already, by index.
    superseded: Vec<bool>,
}

impl UnflushedWrite {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        total_len(&self.parts) as u64
    }

    /// Whether it writes nothing, which no accepted write does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sectors of `sector_bytes` that it writes.
    pub fn sectors(&self, sector_bytes: u32) -> usize {
        (self.len() / u64::from(sector_bytes)) as usize
    }

    /// Whether a later write over that sector is safe already, so that this one cannot come back.
    pub fn is_superseded(&self, sector: usize) -> bool {
        self.superseded.get(sector).copied().unwrap_or(false)
    }

    fn end(&self) -> u64 {
        self.offset + self.len()
    }
}

/// What is to happen when a completion is handed out.
#[derive(Debug)]
enum Settles {
    Nothing,
    /// The write with this serial.
    Write(u64),
    /// The writes that were complete when the flush was submitted.
    Flush(Vec<u64>),
}

#[derive(Debug)]
struct Outstanding {
    at: Nanos,
    ticket: Ticket,
    result: Result<Payload, DiskError>,
    settles: Settles,
}

/// A disk in memory with a volatile cache that a test controls.
pub struct CrashDisk {
    properties: Properties,
    safe: MemoryStore,
    unflushed: Vec<UnflushedWrite>,
    outstanding: VecDeque<Outstanding>,
    latency: Nanos,
    changes: u64,
    /// Number of the newest write; command ids come again, these do not.
    serial: u64,
}

impl CrashDisk {
    /// A disk of zeros with a volatile cache.
    pub fn new(capacity_bytes: u64, sector_bytes: u32) -> Self {
        let properties = plain_properties(capacity_bytes, sector_bytes);
        let properties = Properties { volatile_cache: true, ..properties };
        Self::with_image(properties, MemoryStore::new())
    }

    /// A disk that starts with the content `image`, all of it safe: a restart after a cut.
    pub fn with_image(properties: Properties, image: MemoryStore) -> Self {
        Self {
            properties,
            safe: image,
            unflushed: Vec::new(),
            outstanding: VecDeque::new(),
            latency: Nanos::ZERO,
            changes: 0,
            serial: 0,
        }
    }

    /// Lets every completion take `latency`.
    #[must_use]
    pub fn with_latency(mut self, latency: Nanos) -> Self {
        self.latency = latency;
        self
    }

    /// The writes that a cut now may lose, in order of submission.
    pub fn unflushed(&self) -> &[UnflushedWrite] {
        &self.unflushed
    }

    /// Grows whenever the set of outcomes of a cut changes.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The content after a cut now, if of each unflushed write the sectors survive for which
    /// `keep(index in unflushed(), sector of that write)`.
    pub fn image_after(&self, keep: &dyn Fn(usize, usize) -> bool) -> MemoryStore {
        let mut image = self.safe.clone();
        for (index, write) in self.unflushed.iter().enumerate() {
            self.apply(&mut image, write, &|sector| keep(index, sector));
        }
        image
    }

    /// The content after a cut now, if of each unflushed write all survives or nothing, as the bits
    /// of `survivors` say (bit 0 for the first; writes past the 64th survive with bit 63).
    pub fn image_with(&self, survivors: u64) -> MemoryStore {
        self.image_after(&|index, _| survivors >> index.min(63) & 1 == 1)
    }

    /// The content after a cut now with a random outcome: each unflushed write survives whole, not
    /// at all, up to some sector, or sector by sector.
    pub fn random_image(&self, random: &mut SplitMix) -> MemoryStore {
        let sector = self.properties.sector_bytes;
        let mut image = self.safe.clone();
        for write in &self.unflushed {
            let fate = random.below(4);
            let prefix = random.below(write.sectors(sector) as u64 + 1) as usize;
            let scattered = SplitMix::new(random.next_u64());
            self.apply(&mut image, write, &|index| match fate {
                0 => true,
                1 => false,
                2 => index < prefix,
                _ => scattered.clone().nth_coin(index as u64),
            });
        }
        image
    }

    /// Cuts the power with a random outcome; the same object is the disk after its restart. No
    /// command outstanding is ever answered.
    pub fn power_cut(&mut self, random: &mut SplitMix) {
        self.safe = self.random_image(random);
        self.unflushed.clear();
        self.abandon_commands();
        self.changes += 1;
    }

    fn apply(&self, image: &mut MemoryStore, write: &UnflushedWrite, keep: &dyn Fn(usize) -> bool) {
        let sector = self.properties.sector_bytes as usize;
        let mut index = 0;
        let mut offset = write.offset;
        for part in &write.parts {
            for start in (0..part.len()).step_by(sector) {
                let gone = write.superseded.get(index).copied().unwrap_or(false);
                if !gone && keep(index) {
                    put(image, offset + start as u64, part, start..start + sector);
                }
                index += 1;
            }
            offset += part.len() as u64;
        }
    }

    /// The unflushed writes chosen by `settles` are safe from now on.
    fn settle(&mut self, settles: impl Fn(&UnflushedWrite) -> bool) {
        let before = self.unflushed.len();
        let mut index = 0;
        while index < self.unflushed.len() {
            if !settles(&self.unflushed[index]) {
                index += 1;
                continue;
            }
            let write = self.unflushed.remove(index);
            let mut safe = std::mem::take(&mut self.safe);
            self.apply(&mut safe, &write, &|_| true);
            self.safe = safe;
            for earlier in &mut self.unflushed[..index] {
                supersede(earlier, &write, u64::from(self.properties.sector_bytes));
            }
        }
        if self.unflushed.len() < before {
            self.changes += 1;
            if self.safe.pages_unshared() > UNSHARED_PAGES_MAX {
                self.safe.consolidate();
            }
        }
    }

    fn record(&mut self, offset: u64, parts: Vec<Payload>, durable: bool) -> u64 {
        self.serial += 1;
        let serial = self.serial;
        let completed = false;
        let superseded = Vec::new();
        self.unflushed.push(UnflushedWrite {
            serial,
            offset,
            parts,
            durable,
            completed,
            superseded,
        });
        self.changes += 1;
        serial
    }

    fn read(&self, offset: u64, len: u32) -> Result<Payload, DiskError> {
        let mut view = BufferMut::zeroed(len as usize);
        self.safe.read(offset, &mut view)?;
        let end = offset + u64::from(len);
        let sector = self.properties.sector_bytes as usize;
        let overlaps = |write: &&UnflushedWrite| write.offset < end && offset < write.end();
        for write in self.unflushed.iter().filter(overlaps) {
            let (mut at, mut index) = (write.offset, 0);
            for part in &write.parts {
                for start in (0..part.len()).step_by(sector) {
                    let gone = write.superseded.get(index).copied().unwrap_or(false);
                    if !gone && at >= offset && at < end {
                        let from = (at - offset) as usize;
                        part.slice(start..start + sector).copy_to(&mut view[from..from + sector]);
                    }
                    at += sector as u64;
                    index += 1;
                }
            }
        }
        Ok(Payload::Bytes(view.freeze()))
    }

    /// Takes the command in; says what its completion carries and settles.
    fn take(&mut self, command: Command) -> Result<(Payload, Settles), DiskError> {
        check(&self.properties, &command)?;
        match command {
            Command::Read { offset, len } => Ok((self.read(offset, len)?, Settles::Nothing)),
            Command::Write { offset, parts, durable } => {
                let serial = self.record(offset, parts, durable);
                Ok((Payload::EMPTY, Settles::Write(serial)))
            }
            Command::WriteZeroes { offset, len, durable } => {
                let serial = self.record(offset, vec![Payload::Zeros(len as usize)], durable);
                Ok((Payload::EMPTY, Settles::Write(serial)))
            }
            Command::Trim { .. } => Ok((Payload::EMPTY, Settles::Nothing)),
            Command::Flush => {
                let complete = self.unflushed.iter().filter(|write| write.completed);
                let covered = complete.map(|write| write.serial).collect();
                Ok((Payload::EMPTY, Settles::Flush(covered)))
            }
        }
    }

    fn abandon_commands(&mut self) {
        self.outstanding.drain(..).for_each(|outstanding| outstanding.ticket.abandon());
    }
}

fn put(image: &mut MemoryStore, offset: u64, part: &Payload, range: std::ops::Range<usize>) {
    // A store in memory cannot fail.
    let result = match part {
        Payload::Bytes(bytes) => image.write(offset, &bytes[range]),
        Payload::Zeros(_) | Payload::Phantom(_) => image.zero(offset, range.len() as u64),
    };
    debug_assert!(result.is_ok(), "memory stores do not fail");
}

/// Marks the sectors of `earlier` that `safe` overlaps as never to come back.
fn supersede(earlier: &mut UnflushedWrite, safe: &UnflushedWrite, sector_bytes: u64) {
    let (from, to) = (earlier.offset.max(safe.offset), earlier.end().min(safe.end()));
    if from >= to {
        return;
    }
    let sectors = (earlier.len() / sector_bytes) as usize;
    earlier.superseded.resize(sectors, false);
    let first = ((from - earlier.offset) / sector_bytes) as usize;
    let last = ((to - earlier.offset) / sector_bytes) as usize;
    earlier.superseded[first..last].fill(true);
}

impl Disk for CrashDisk {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        let Submission { ticket, command, .. } = submission;
        let (result, settles) = match self.take(command) {
            Ok((payload, settles)) => (Ok(payload), settles),
            Err(error) => (Err(error), Settles::Nothing),
        };
        let at = now + self.latency;
        self.outstanding.push_back(Outstanding { at, ticket, result, settles });
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.outstanding.front().filter(|outstanding| outstanding.at <= now)?;
        let Outstanding { ticket, result, settles, .. } = self.outstanding.pop_front()?;
        match settles {
            Settles::Nothing => {}
            Settles::Write(serial) => {
                let own = self.unflushed.iter_mut().find(|write| write.serial == serial);
                if let Some(write) = own {
                    write.completed = true;
                }
                self.settle(|write| write.serial == serial && write.durable);
            }
            Settles::Flush(covered) => {
                self.settle(|write| covered.contains(&write.serial));
            }
        }
        Some(ticket.complete(result))
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.outstanding.front().map(|outstanding| outstanding.at)
    }
}

impl Drop for CrashDisk {
    fn drop(&mut self) {
        self.abandon_commands();
    }
}
