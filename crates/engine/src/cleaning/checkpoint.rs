//! Checkpoint: logged blocks go home, sorted by home address and merged (Manylogs III-F).
//!
//! It walks the map in home order, so a block that was overwritten ten times is written home once.
//! Window by window:
//!
//! 1. choose entries, and read their chunks from the logs in log order: the more at once, the less
//!    the head moves;
//! 2. of a batch of them that are still the newest, write home in home order, neighbours merged into
//!    one transfer; no in-place write of a client may touch these homes meanwhile;
//! 3. flush, if the device has a cache;
//! 4. records invalidate the logged copies that are still the newest; once one is durable its copies
//!    leave the map and the log space is free;
//! 5. go on with the next batch of the window from step 2.
//!
//! Until the record of step 4 the map keeps pointing to the log, so a crash anywhere is harmless.
//!
//! On a shingled disk a window is all that is logged of one band, and step 2 writes the band as a
//! whole: what is not logged is read from the band first (Manylogs III-I.3, section VI and figure 8),
//! and from then on nothing else may be written there. Sectors that are written back as they were
//! found may be torn like any others, into the same bytes.
//!
//! When no log has even the room for that record, the entries leave the map at once and the next
//! snapshots, which lack them, say the same. Until those are durable the homes stay closed to in-place
//! writes: a crash would bring the entries back, and with them what was at home before such a write.

mod observed;
mod passes;
mod written;

use super::copying::{SourceRead, content, merge, plan_reads, read_band, whole_band};
use crate::commit::Record;
use crate::disk::dispatch::Purpose;
use crate::engine::Engine;
use crate::state::map::Map;
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::RangeSet;
use nearhead_disk::{Class, Command, DiskError, DiskErrorKind, Nanos, Payload};
use nearhead_format::{Entry, Place};
use std::collections::VecDeque;
use std::ops::Range;

/// What an entry holds at most, so that a window of bytes bounds its entries too.
const BLOCK_BYTES: u64 = 4096;
/// Most entries of one batch, unless it is a band.
const BATCH_ENTRIES_MAX: usize = 1024;
/// Most entries that one record lets go: what one record holds beside data.
const RELEASES_MAX: usize = 1024;
/// A larger band is written in batches like any other homes: it would need that much memory twice.
const BAND_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Reading {
        remaining: usize,
    },
    /// All is in memory: the next batch may be written.
    Read,
    /// A batch is chosen, and waits until the disk does not promise any more that its homes are blank.
    Marking,
    Writing {
        remaining: usize,
    },
    Flushing {
        ticket: u64,
    },
    Releasing,
    /// Released by snapshots: done once invalidations are committed up to here.
    Settling {
        target: u64,
    },
}

#[derive(Debug)]
struct Window {
    step: Step,
    /// Not written yet, in home order.
    entries: VecDeque<Entry>,
    /// The batch that is being written.
    batch: Vec<Entry>,
    reads: Vec<SourceRead>,
    /// The home sectors of the band that is written as a whole.
    band: Option<Range<u64>>,
    /// Device bytes of the batch that could not be written, and why.
    failed: Vec<(Range<u64>, DiskErrorKind)>,
    /// Entries whose invalidation is not in a record yet.
    to_release: VecDeque<Entry>,
}

/// State of checkpointing.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pass, not a state")]
pub(crate) struct Checkpoint {
    running: bool,
    /// Also durability-only ranges, because every log is full or the volume is drained.
    everything: bool,
    /// Also homes that failed a short while ago.
    tries_all: bool,
    cursor: u64,
    window: Option<Window>,
    /// Homes being written.
    homes: RangeSet,
    copied_this_pass: u64,
    /// It ends before it has seen the whole map.
    stopped: bool,
    found_nothing: bool,
    /// Nor did it leave anything out, and nothing was logged since.
    nothing_left: bool,
    /// The last pass that began left out homes that a client was writing to.
    met_transfers: bool,
    logged_this_pass: bool,
    finished_at: Nanos,
}

impl Checkpoint {
    pub(crate) fn is_busy(&self) -> bool {
        self.running
    }

    /// Whether homes are being read for or written.
    pub(super) fn is_copying(&self) -> bool {
        self.window.is_some()
    }

    /// Whether a batch is writing to any of these home sectors.
    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        !self.homes.is_empty() && self.homes.overlaps(start..end)
    }

    /// When the last pass ended.
    pub(super) fn finished_at(&self) -> Nanos {
        self.finished_at
    }

    /// Begins a pass over the whole map, if none is under way.
    pub(crate) fn begin(&mut self, everything: bool, tries_all: bool) {
        self.everything |= everything;
        self.tries_all |= tries_all;
        if !self.running {
            self.running = true;
            self.cursor = 0;
            self.copied_this_pass = 0;
            self.stopped = false;
            self.met_transfers = false;
            self.logged_this_pass = false;
        }
    }

    /// Ends the pass after the batch under way.
    pub(crate) fn stop(&mut self) {
        self.cursor = u64::MAX;
        self.stopped = true;
        if let Some(window) = self.window.as_mut() {
            window.entries.clear();
        }
    }

    pub(crate) fn has_releases(&self) -> bool {
        self.window.as_ref().is_some_and(|window| !window.to_release.is_empty())
    }

    /// Entries whose logged copy the next record may invalidate: those still the newest.
    pub(crate) fn take_releases(&mut self, map: &Map) -> Vec<Entry> {
        let mut entries = Vec::new();
        let Some(window) = self.window.as_mut() else { return entries };
        while entries.len() < RELEASES_MAX {
            let Some(entry) = window.to_release.pop_front() else { break };
            let newest = map.holds(&entry);
            entries.extend(newest.then_some(entry));
        }
        entries
    }

    /// The record found no place: they wait for the next.
    pub(crate) fn return_releases(&mut self, entries: Vec<Entry>) {
        if let Some(window) = self.window.as_mut() {
            window.to_release.extend(entries);
        }
    }

    fn take_all_releases(&mut self) -> VecDeque<Entry> {
        let window = self.window.as_mut();
        window.map(|window| std::mem::take(&mut window.to_release)).unwrap_or_default()
    }
}

impl Engine {
    /// Moves the checkpoint on until it waits for the disk, for a record or for a spill: no other
    /// event may come to move it.
    pub(crate) fn advance_checkpoint(&mut self) {
        while self.checkpoint.running && self.failure.is_none() && self.checkpoint_step() {}
    }

    /// One step; says whether the next can follow at once.
    fn checkpoint_step(&mut self) -> bool {
        match self.checkpoint.window.as_ref().map(|window| window.step) {
            None if self.spill.is_none() => self.begin_window(),
            Some(Step::Read) if self.spill.is_none() => {
                let batch = self.take_batch();
                self.write_batch(batch);
            }
            Some(Step::Marking) if self.spill.is_none() => {
                let window = self.checkpoint.window.as_mut();
                let batch = window.map(|window| std::mem::take(&mut window.batch));
                self.write_batch(batch.unwrap_or_default());
            }
            Some(Step::Flushing { ticket }) if self.lanes.main.flusher.is_done(ticket) => {
                self.release_batch();
            }
            Some(Step::Releasing) if !self.checkpoint.has_releases() => {
                // Everything was overwritten meanwhile, unless a record for the batch is under way.
                if self.commit.in_flight().is_some_and(Record::releases) {
                    return false;
                }
                self.checkpoint_released();
            }
            Some(Step::Settling { target }) if self.invalidations.committed() >= target => {
                self.checkpoint_released();
            }
            _ => return false,
        }
        self.checkpoint.window.as_ref().is_none_or(|window| window.step == Step::Read)
    }

    fn begin_window(&mut self) {
        let (entries, band) = self.choose_entries();
        if entries.is_empty() {
            if self.checkpoint.cursor == u64::MAX {
                self.end_pass();
            }
            return;
        }
        let mut reads = plan_reads(&entries);
        if let Some(band) = &band {
            reads.extend(read_band(&self.setup.layout, band, &entries));
            self.checkpoint.homes.insert(band.clone());
        }
        reads.sort_by_key(|read| read.device_offset);
        let commands: Vec<Command> = reads
            .iter()
            .map(|read| Command::Read { offset: read.device_offset, len: read.len })
            .collect();
        self.checkpoint.window = Some(Window {
            step: if reads.is_empty() {
                Step::Read
            } else {
                Step::Reading { remaining: reads.len() }
            },
            entries: entries.into(),
            batch: Vec::new(),
            reads,
            band,
            failed: Vec::new(),
            to_release: VecDeque::new(),
        });
        for (io, command) in commands.into_iter().enumerate() {
            self.issue(Class::Background, Purpose::CheckpointRead { io: io as u32 }, command);
        }
    }

    /// The band of home sector `sector`, if it can be written as a whole now.
    fn band_at(&self, sector: u64) -> Option<Range<u64>> {
        let bytes = self.setup.bands.as_ref()?.band_at(sector * SECTOR as u64)?;
        let band = bytes.start / SECTOR as u64..bytes.end / SECTOR as u64;
        let blocks = band.start / BLOCK_SECTORS..band.end.div_ceil(BLOCK_SECTORS);
        let fits =
            bytes.end - bytes.start <= BAND_BYTES_MAX && !self.failed_homes.any_suspect(blocks);
        (fits && !self.requests.transferring().overlaps(band.clone())).then_some(band)
    }

    /// What is read next: all that is logged of a band, or a bounded number of entries.
    fn choose_entries(&mut self) -> (Vec<Entry>, Option<Range<u64>>) {
        let cleaning = &self.setup.config.cleaning;
        let bytes_max = u64::from(cleaning.window_bytes.max(cleaning.batch_bytes));
        let entries_max = (bytes_max / BLOCK_BYTES) as usize;
        let (mut entries, mut bytes, mut band) = (Vec::new(), 0, None);
        let cursor = self.checkpoint.cursor;
        let mut next = u64::MAX;
        if cursor != u64::MAX {
            for entry in self.core.map.iter_from(cursor) {
                let is_full = band.as_ref().map_or(
                    entries.len() >= entries_max || bytes >= bytes_max,
                    |band: &Range<u64>| entry.home_sector >= band.end,
                );
                if is_full {
                    next = entry.home_sector;
                    break;
                }
                let range = entry.home_sector..entry.end_sector();
                let block = entry.home_sector / BLOCK_SECTORS;
                let is_written = self.requests.transferring().overlaps(range.clone());
                self.checkpoint.met_transfers |= is_written;
                let kept = entry.place == Place::Poisoned
                    || (!self.checkpoint.tries_all && self.failed_homes.rests(block, self.now))
                    || is_written
                    || (!self.checkpoint.everything && self.core.hints().overlaps(range));
                if !kept {
                    if entries.is_empty() {
                        band = self.band_at(entry.home_sector);
                    }
                    bytes += u64::from(entry.len_sectors) * SECTOR as u64;
                    entries.push(entry);
                }
            }
        }
        self.checkpoint.cursor = next;
        (entries, band)
    }

    pub(crate) fn on_checkpoint_read(&mut self, io: u32, result: Result<Payload, DiskError>) {
        let Some(window) = self.checkpoint.window.as_mut() else { return };
        match result {
            Ok(payload) => window.reads[io as usize].data = Some(payload),
            Err(error) => {
                self.recovered.note(format!("checkpoint: a log could not be read: {error}"));
            }
        }
        if let Step::Reading { remaining } = &mut window.step {
            *remaining -= 1;
            if *remaining == 0 {
                window.step = Step::Read;
            }
        }
    }

    /// The next entries of the window that nothing newer replaced: all of a band, or a batch.
    fn take_batch(&mut self) -> Vec<Entry> {
        let bytes_max = u64::from(self.setup.config.cleaning.batch_bytes);
        let Some(window) = self.checkpoint.window.as_mut() else { return Vec::new() };
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while window.band.is_some() || (batch.len() < BATCH_ENTRIES_MAX && bytes < bytes_max) {
            let Some(entry) = window.entries.pop_front() else { break };
            let range = entry.home_sector..entry.end_sector();
            let is_written = self.requests.transferring().overlaps(range.clone());
            self.checkpoint.met_transfers |= is_written;
            if self.core.map.holds(&entry) && !is_written {
                self.checkpoint.homes.insert(range);
                bytes += u64::from(entry.len_sectors) * SECTOR as u64;
                batch.push(entry);
            }
        }
        batch
    }

    /// Whether the homes of `batch`, or the band that is written for it, may be written now. Zeros may go to a home
    /// that is promised to be blank.
    fn may_write_batch(&mut self, batch: &[Entry]) -> bool {
        let band = self.checkpoint.window.as_ref().and_then(|window| window.band.clone());
        if let Some(band) = band.filter(|_| !batch.is_empty()) {
            return self.may_write_homes(std::iter::once(band));
        }
        let logged = batch.iter().filter(|entry| matches!(entry.place, Place::Log { .. }));
        self.may_write_homes(logged.map(|entry| entry.home_sector..entry.end_sector()))
    }

    /// The homes of a batch that waits must stay as they are.
    pub(crate) fn checkpoint_may_not_write(&mut self, problem: &str) {
        let Some(window) = self.checkpoint.window.as_mut() else { return };
        if window.step == Step::Marking {
            window.batch.clear();
            self.recovered.note(format!("checkpoint: a home could not be written: {problem}"));
            self.release_batch();
        }
    }

    fn write_batch(&mut self, batch: Vec<Entry>) {
        if !self.may_write_batch(&batch) {
            if let Some(window) = self.checkpoint.window.as_mut() {
                window.batch = batch;
                window.step = Step::Marking;
            }
            return;
        }
        let Some(window) = self.checkpoint.window.as_mut() else { return };
        let (mut writes, mut copied) = (Vec::new(), Vec::new());
        let mut unreadable = Vec::new();
        for entry in batch {
            match content(&entry, &window.reads) {
                Ok(data) => {
                    writes.push((entry.home_sector * SECTOR as u64, data));
                    copied.push(entry);
                }
                // The entry stays in the map: a read of it gives EIO, never older bytes.
                Err(problem) => unreadable.push(problem),
            }
        }
        window.batch = copied;
        let piece_bytes = u64::from(self.setup.properties.transfer_bytes_max);
        let (layout, reads) = (&self.setup.layout, &window.reads);
        let whole = window
            .band
            .as_ref()
            .filter(|_| !writes.is_empty())
            .and_then(|band| whole_band(layout, band, &writes, reads, piece_bytes));
        let is_whole = whole.is_some();
        let homes = &self.failed_homes;
        let alone = |client_offset: u64| homes.is_suspect(client_offset / BLOCK_BYTES);
        let commands = whole.unwrap_or_else(|| merge(&self.setup.layout, writes, &alone));
        self.stats.bands_written += u64::from(is_whole);
        if let Some(window) = self.checkpoint.window.as_mut() {
            window.step = Step::Writing { remaining: commands.len() };
        }
        for problem in unreadable {
            self.recovered.note(problem);
        }
        if commands.is_empty() {
            return self.release_batch();
        }
        if is_whole {
            // All of them at once: a disk that rewrites bands does it once for all that waits.
            let (class, purpose) = (Class::Background, Purpose::CheckpointWrite);
            let admission = self.admission.as_ref();
            return self.lanes.main.queue.issue_together(admission, class, purpose, commands);
        }
        for command in commands {
            self.issue(Class::Background, Purpose::CheckpointWrite, command);
        }
    }

    pub(super) fn release_batch(&mut self) {
        let Some(window) = self.checkpoint.window.as_mut() else { return };
        let bytes: u64 =
            window.batch.iter().map(|entry| u64::from(entry.len_sectors) * SECTOR as u64).sum();
        window.to_release = std::mem::take(&mut window.batch).into();
        window.step = Step::Releasing;
        self.checkpoint.copied_this_pass += bytes;
        self.stats.checkpointed_bytes += bytes;
        if !self.checkpoint.has_releases() {
            self.checkpoint_released();
        }
    }

    /// No log takes a record that lets these entries of the batch go: snapshots will, and all the
    /// others.
    pub(crate) fn release_by_snapshot(&mut self, entries: &[Entry]) {
        if entries.is_empty() {
            return;
        }
        let mut gone = Vec::with_capacity(entries.len());
        let others = self.checkpoint.take_all_releases();
        for entry in entries.iter().chain(&others) {
            if !self.core.map.holds(entry) {
                continue;
            }
            let len = u64::from(entry.len_sectors);
            self.core.map.remove(entry.home_sector, len, &mut |lost| gone.push(lost));
        }
        // The homes were flushed already.
        self.invalidations.push(gone.into_iter(), 0);
        let target = self.want_invalidations();
        if let Some(window) = self.checkpoint.window.as_mut() {
            window.step = Step::Settling { target };
        }
    }

    /// The record that lets the batch go is durable.
    pub(crate) fn checkpoint_released(&mut self) {
        let window = self.checkpoint.window.take();
        self.checkpoint.window = window.filter(|window| !window.entries.is_empty());
        if let Some(window) = self.checkpoint.window.as_mut() {
            window.step = Step::Read;
        }
        self.checkpoint.homes.clear();
        self.retry_blocked();
    }
}
