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
//! A range of it may be a device of its own with a cache of its own ([`CrashDisk::submit_to_part`]): its flush covers what lies there, and
//! one cut hits all of them at the same moment.
//!
//! The disk relies on the host never to have two overlapping writes outstanding at once.

mod cache;
#[cfg(test)]
mod tests;

pub use cache::UnflushedWrite;
pub(crate) use cache::VolatileCache;

use crate::instant::plain_properties;
use crate::store::MemoryStore;
use nearhead_basics::SplitMix;
use nearhead_disk::check_command;
use nearhead_disk::{
    Command, Completion, Disk, DiskError, Nanos, Payload, Properties, Run, Submission, Ticket,
};
use std::collections::VecDeque;
use std::ops::Range;

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
    cache: VolatileCache,
    outstanding: VecDeque<Outstanding>,
    latency: Nanos,
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
        let cache = VolatileCache::new(properties.sector_bytes, image);
        Self { properties, cache, outstanding: VecDeque::new(), latency: Nanos::ZERO }
    }

    /// Lets every completion take `latency`.
    #[must_use]
    pub fn with_latency(mut self, latency: Nanos) -> Self {
        self.latency = latency;
        self
    }

    /// The writes that a cut now may lose, in order of submission.
    pub fn unflushed(&self) -> &[UnflushedWrite] {
        self.cache.unflushed()
    }

    /// Grows whenever the set of outcomes of a cut changes.
    pub fn changes(&self) -> u64 {
        self.cache.changes()
    }

    /// The content after a cut now, if of each unflushed write the sectors survive for which
    /// `keep(index in unflushed(), sector of that write)`.
    pub fn image_after(&self, keep: &dyn Fn(usize, usize) -> bool) -> MemoryStore {
        self.cache.image_after(keep)
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
        let mut image = self.cache.safe().clone();
        for write in self.cache.unflushed() {
            let fate = random.below(4);
            let prefix = random.below(write.sectors(sector) as u64 + 1) as usize;
            let scattered = SplitMix::new(random.next_u64());
            self.cache.apply(&mut image, write, &|index| match fate {
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
        self.cache.cut_to(self.random_image(random));
        self.abandon_commands();
    }

    /// Of what is not safe a random part is lost now, without a power cut and without the rest becoming safe: pages that a
    /// file system could not write, and dropped. Sectors in `never` are lost in any case.
    pub fn lose(&mut self, random: &mut SplitMix, never: &dyn Fn(u64) -> bool) {
        let sector_bytes = u64::from(self.properties.sector_bytes);
        let first: Vec<u64> =
            self.cache.unflushed().iter().map(|write| write.offset / sector_bytes).collect();
        let fates: Vec<(u64, SplitMix)> =
            first.iter().map(|_| (random.below(3), SplitMix::new(random.next_u64()))).collect();
        self.cache.lose(&|index, sector| {
            let (fate, scattered) = &fates[index];
            let survives = match fate {
                0 => true,
                1 => false,
                _ => scattered.clone().nth_coin(sector as u64),
            };
            survives && !never((first[index] + sector as u64) * sector_bytes)
        });
    }

    /// The same as [`Disk::submit`] to a device that is no more than these bytes of the disk, at addresses of the disk: a flush
    /// says nothing of what lies elsewhere.
    pub fn submit_to_part(&mut self, part: &Range<u64>, submission: Submission, now: Nanos) {
        let Submission { ticket, command, .. } = submission;
        let (result, settles) = match self.take(part, command) {
            Ok((payload, settles)) => (Ok(payload), settles),
            Err(error) => (Err(error), Settles::Nothing),
        };
        let at = now + self.latency;
        self.outstanding.push_back(Outstanding { at, ticket, result, settles });
    }

    /// Takes the command in; says what its completion carries and settles.
    fn take(
        &mut self,
        part: &Range<u64>,
        command: Command,
    ) -> Result<(Payload, Settles), DiskError> {
        check_command(&self.properties, &command)?;
        match command {
            Command::Read { offset, len } => Ok((self.cache.read(offset, len)?, Settles::Nothing)),
            Command::Write { offset, parts, durable } => {
                let serial = self.cache.write(offset, parts, durable);
                Ok((Payload::EMPTY, Settles::Write(serial)))
            }
            Command::WriteZeroes { offset, len, durable } => {
                let parts = vec![Payload::Zeros(len as usize)];
                let serial = self.cache.write(offset, parts, durable);
                Ok((Payload::EMPTY, Settles::Write(serial)))
            }
            Command::Trim { .. } => Ok((Payload::EMPTY, Settles::Nothing)),
            Command::Flush => {
                Ok((Payload::EMPTY, Settles::Flush(self.cache.covered_by_flush(part))))
            }
        }
    }

    fn abandon_commands(&mut self) {
        self.outstanding.drain(..).for_each(|outstanding| outstanding.ticket.abandon());
    }
}

impl Disk for CrashDisk {
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
        self.cache.run_at(offset)
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.submit_to_part(&(0..u64::MAX), submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.outstanding.front().filter(|outstanding| outstanding.at <= now)?;
        let Outstanding { ticket, result, settles, .. } = self.outstanding.pop_front()?;
        match settles {
            Settles::Nothing => {}
            Settles::Write(serial) => self.cache.complete(serial),
            Settles::Flush(covered) => self.cache.flushed(&covered),
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
