//! The first bytes of a disk, as a disk: the part of a flash device that a cache may have, or of a drive that an experiment fills.
//!
//! It changes nothing but what it says of its size; who goes past the end is told so by nobody, and must not.

use nearhead_disk::{Completion, Disk, Nanos, Properties, Submission};

/// The first bytes of `D`.
pub struct FirstBytes<D> {
    disk: D,
    properties: Properties,
}

impl<D: Disk> FirstBytes<D> {
    /// So many of them, which the disk has.
    pub fn new(disk: D, bytes: u64) -> Self {
        let capacity_bytes = bytes.min(disk.properties().capacity_bytes);
        let properties = Properties { capacity_bytes, ..disk.properties().clone() };
        Self { disk, properties }
    }

    /// The whole disk, to be told something.
    pub fn whole_mut(&mut self) -> &mut D {
        &mut self.disk
    }
}

impl<D: Disk> Disk for FirstBytes<D> {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.disk.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}
