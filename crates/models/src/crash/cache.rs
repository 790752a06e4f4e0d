//! The content of a disk with a volatile cache: what is safe, and what a power cut may still lose.
//!
//! It keeps content and nothing else: no command, no time. Who owns it says when a write was answered
//! and when a flush was; "safe" is exactly what the host was told is safe. A safe write makes the
//! overlapped sectors of earlier unflushed writes disappear for good: a disk cannot bring them back.

use crate::store::{MemoryStore, Store};
use nearhead_disk::{BufferMut, DiskError, Payload, Run, total_len};
use std::ops::Range;

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

/// Safe content and the writes on top of it.
#[derive(Clone)]
pub(crate) struct VolatileCache {
    sector_bytes: u64,
    safe: MemoryStore,
    unflushed: Vec<UnflushedWrite>,
    changes: u64,
    /// Number of the newest write.
    serial: u64,
}

impl VolatileCache {
    /// All of `image` is safe.
    pub(crate) fn new(sector_bytes: u32, image: MemoryStore) -> Self {
        let sector_bytes = u64::from(sector_bytes);
        Self { sector_bytes, safe: image, unflushed: Vec::new(), changes: 0, serial: 0 }
    }

    pub(crate) fn unflushed(&self) -> &[UnflushedWrite] {
        &self.unflushed
    }

    /// Grows whenever the set of outcomes of a cut changes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn safe(&self) -> &MemoryStore {
        &self.safe
    }

    /// For damage by fate: the safe content itself.
    pub(crate) fn safe_mut(&mut self) -> &mut MemoryStore {
        self.changes += 1;
        &mut self.safe
    }

    /// A power cut left `image`, and nothing is on its way any more.
    pub(crate) fn cut_to(&mut self, image: MemoryStore) {
        self.safe = image;
        self.unflushed.clear();
        self.changes += 1;
    }

    /// A write begins; its number.
    pub(crate) fn write(&mut self, offset: u64, parts: Vec<Payload>, durable: bool) -> u64 {
        self.serial += 1;
        let serial = self.serial;
        let (completed, superseded) = (false, Vec::new());
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

    /// The host was told that this write is complete.
    pub(crate) fn complete(&mut self, serial: u64) {
        let own = self.unflushed.iter_mut().find(|write| write.serial == serial);
        if let Some(write) = own {
            write.completed = true;
        }
        self.settle(|write| write.serial == serial && write.durable);
    }

    /// The writes that a flush of these bytes covers that is submitted now.
    pub(crate) fn covered_by_flush(&self, part: &Range<u64>) -> Vec<u64> {
        let covered = |write: &&UnflushedWrite| write.completed && part.contains(&write.offset);
        let complete = self.unflushed.iter().filter(covered);
        complete.map(|write| write.serial).collect()
    }

    /// The host was told that the flush over these writes is complete.
    pub(crate) fn flushed(&mut self, covered: &[u64]) {
        self.settle(|write| covered.contains(&write.serial));
    }

    /// Of what is not safe only the sectors are left for which `keep(index in unflushed(), sector of that write)`. They are
    /// no safer than before, and the others never come back.
    pub(crate) fn lose(&mut self, keep: &dyn Fn(usize, usize) -> bool) {
        for (index, write) in self.unflushed.iter_mut().enumerate() {
            let sectors = (write.len() / self.sector_bytes) as usize;
            write.superseded.resize(sectors, false);
            for (sector, superseded) in write.superseded.iter_mut().enumerate() {
                *superseded |= !keep(index, sector);
            }
        }
        self.changes += 1;
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
                supersede(earlier, &write, self.sector_bytes);
            }
        }
        if self.unflushed.len() < before {
            self.changes += 1;
            if self.safe.pages_unshared() > UNSHARED_PAGES_MAX {
                self.safe.consolidate();
            }
        }
    }

    /// What is certain of the bytes from `offset` on, now and after a cut: zeros of the safe content that no
    /// unflushed write touches.
    pub(crate) fn run_at(&self, offset: u64) -> Run {
        let mut run = self.safe.run_at(offset);
        for write in &self.unflushed {
            if write.offset > offset {
                run.len = run.len.min(write.offset - offset);
            } else if write.end() > offset {
                return Run { len: write.end() - offset, zero: false };
            }
        }
        run
    }

    /// What a reader finds now.
    pub(crate) fn read(&self, offset: u64, len: u32) -> Result<Payload, DiskError> {
        let mut view = BufferMut::zeroed(len as usize);
        self.safe.read(offset, &mut view)?;
        let end = offset + u64::from(len);
        let sector = self.sector_bytes as usize;
        let overlaps = |write: &&UnflushedWrite| write.offset < end && offset < write.end();
        for write in self.unflushed.iter().filter(overlaps) {
            let (mut at, mut index) = (write.offset, 0);
            for part in &write.parts {
                for start in (0..part.len()).step_by(sector) {
                    if !write.is_superseded(index) && at >= offset && at < end {
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

    /// The content after a cut now, if of each unflushed write the sectors survive for which
    /// `keep(index in unflushed(), sector of that write)`.
    pub(crate) fn image_after(&self, keep: &dyn Fn(usize, usize) -> bool) -> MemoryStore {
        let mut image = self.safe.clone();
        for (index, write) in self.unflushed.iter().enumerate() {
            self.apply(&mut image, write, &|sector| keep(index, sector));
        }
        image
    }

    /// Lets the sectors of `write` for which `keep` says so reach `image`.
    pub(crate) fn apply(
        &self,
        image: &mut MemoryStore,
        write: &UnflushedWrite,
        keep: &dyn Fn(usize) -> bool,
    ) {
        let sector = self.sector_bytes as usize;
        let mut index = 0;
        let mut offset = write.offset;
        for part in &write.parts {
            for start in (0..part.len()).step_by(sector) {
                if !write.is_superseded(index) && keep(index) {
                    put(image, offset + start as u64, part, start..start + sector);
                }
                index += 1;
            }
            offset += part.len() as u64;
        }
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
