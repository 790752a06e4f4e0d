//! Checkpoint: logged blocks go home, sorted by home address and merged (Manylogs III-F).
//!
//! It walks the map in home order, so a block that was overwritten ten times is written home once.
//! Batch by batch:
//!
//! 1. choose entries, and read their chunks from the logs in log order;
//! 2. write them home in home order, neighbours merged into one transfer; no in-place write of a
//!    client may touch these homes meanwhile;
//! 3. flush, if the device has a cache;
//! 4. a record invalidates the logged copies that are still the newest; once it is durable they
//!    leave the map and the log space is free.
//!
//! Until the record of step 4 the map keeps pointing to the log, so a crash anywhere is harmless.
//!
//! When no log has even the room for that record, the entries leave the map at once and the next
//! snapshots, which lack them, say the same. Until those are durable the homes stay closed to in-place
//! writes: a crash would bring the entries back, and with them what was at home before such a write.

use crate::dispatch::Purpose;
use crate::engine::Engine;
use crate::map::Map;
use crate::range_set::RangeSet;
use crate::sectors::SECTOR;
use nearhead_disk::{Class, Command, DiskError, Nanos, Payload};
use nearhead_format::crc::chunk_crc;
use nearhead_format::planted::{Mistake, is_made};
use nearhead_format::{Entry, Place};

/// Most entries of one batch.
const BATCH_ENTRIES_MAX: usize = 1024;
/// Log reads and home writes are merged up to this many bytes.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;

#[derive(Debug)]
struct LogRead {
    device_offset: u64,
    len: u32,
    data: Option<Payload>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Reading {
        remaining: usize,
    },
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
struct Batch {
    step: Step,
    entries: Vec<Entry>,
    reads: Vec<LogRead>,
    /// Entries whose invalidation is not in a record yet.
    to_release: Vec<Entry>,
}

/// State of checkpointing.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pass, not a state")]
pub(crate) struct Checkpoint {
    running: bool,
    /// Also durability-only ranges, because every log is full or the volume is drained.
    everything: bool,
    cursor: u64,
    batch: Option<Batch>,
    /// Homes being written.
    homes: RangeSet,
    copied_this_pass: u64,
    found_nothing: bool,
    /// Nor did it leave anything out, and nothing was logged since.
    nothing_left: bool,
    logged_this_pass: bool,
    pub(crate) finished_at: Nanos,
}

impl Checkpoint {
    pub(crate) fn is_busy(&self) -> bool {
        self.running
    }

    /// Whether homes are being read for or written.
    pub(crate) fn is_copying(&self) -> bool {
        !self.homes.is_empty()
    }

    /// Whether the last pass found nothing to copy.
    pub(crate) fn found_nothing(&self) -> bool {
        self.found_nothing && !self.running
    }

    /// Whether another pass could not free anything.
    pub(crate) fn nothing_left(&self) -> bool {
        self.nothing_left && !self.running
    }

    /// Client data was logged: there may be something to copy.
    pub(crate) fn note_logged(&mut self) {
        self.nothing_left = false;
        self.logged_this_pass = true;
    }

    /// Whether a batch is writing to any of these home sectors.
    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        !self.homes.is_empty() && self.homes.overlaps(start..end)
    }

    /// Begins a pass over the whole map, if none is under way.
    pub(crate) fn begin(&mut self, everything: bool) {
        self.everything |= everything;
        if !self.running {
            self.running = true;
            self.cursor = 0;
            self.copied_this_pass = 0;
            self.logged_this_pass = false;
        }
    }

    /// Ends the pass after the batch under way.
    pub(crate) fn stop(&mut self) {
        self.cursor = u64::MAX;
    }

    pub(crate) fn has_releases(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| !batch.to_release.is_empty())
    }

    /// Entries whose logged copy the next record may invalidate: those still the newest.
    pub(crate) fn take_releases(&mut self, map: &Map) -> Vec<Entry> {
        let Some(batch) = self.batch.as_mut() else { return Vec::new() };
        let mut entries = std::mem::take(&mut batch.to_release);
        entries.retain(|entry| map.holds(entry) || is_made(Mistake::CheckpointOfOverwritten));
        entries
    }

    /// The record found no place: they wait for the next.
    pub(crate) fn return_releases(&mut self, entries: Vec<Entry>) {
        if let Some(batch) = self.batch.as_mut() {
            batch.to_release.extend(entries);
        }
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
        match self.checkpoint.batch.as_ref().map(|batch| batch.step) {
            None if self.spill.is_none() => self.begin_batch(),
            Some(Step::Flushing { ticket }) if self.flusher.is_done(ticket) => self.release_batch(),
            Some(Step::Releasing) if !self.checkpoint.has_releases() => {
                // Everything was overwritten meanwhile, unless a record for the batch is under way.
                let record = self.commit.in_flight.as_ref();
                if record.is_some_and(|record| !record.releases.is_empty()) {
                    return false;
                }
                self.checkpoint_released();
            }
            Some(Step::Settling { target }) if self.invalidations.committed() >= target => {
                self.checkpoint_released();
            }
            _ => return false,
        }
        self.checkpoint.batch.is_none()
    }

    fn begin_batch(&mut self) {
        let entries = self.choose_entries();
        if entries.is_empty() {
            if self.checkpoint.cursor == u64::MAX {
                self.end_pass();
            }
            return;
        }
        let mut reads = plan_reads(&entries);
        reads.sort_by_key(|read| read.device_offset);
        let commands: Vec<Command> = reads
            .iter()
            .map(|read| Command::Read { offset: read.device_offset, len: read.len })
            .collect();
        for entry in &entries {
            self.checkpoint.homes.insert(entry.home_sector..entry.end_sector());
        }
        let step = Step::Reading { remaining: reads.len() };
        self.checkpoint.batch = Some(Batch { step, entries, reads, to_release: Vec::new() });
        if commands.is_empty() {
            return self.write_batch();
        }
        for (io, command) in commands.into_iter().enumerate() {
            self.issue(Class::Background, Purpose::CheckpointRead { io: io as u32 }, command);
        }
    }

    fn end_pass(&mut self) {
        let checkpoint = &mut self.checkpoint;
        checkpoint.running = false;
        let nothing = checkpoint.copied_this_pass == 0 && !checkpoint.logged_this_pass;
        checkpoint.nothing_left = nothing && checkpoint.everything;
        checkpoint.everything = false;
        checkpoint.found_nothing = checkpoint.copied_this_pass == 0;
        checkpoint.finished_at = self.now;
        if checkpoint.copied_this_pass > 0 {
            // Only a snapshot gives the emptied logs back for use.
            self.snapshotter.wish();
        }
    }

    fn choose_entries(&mut self) -> Vec<Entry> {
        let bytes_max = u64::from(self.setup.config.cleaning.batch_bytes);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let cursor = self.checkpoint.cursor;
        let mut next = u64::MAX;
        if cursor != u64::MAX {
            for entry in self.map.iter_from(cursor) {
                if entries.len() >= BATCH_ENTRIES_MAX || bytes >= bytes_max {
                    next = entry.home_sector;
                    break;
                }
                let range = entry.home_sector..entry.end_sector();
                let kept = entry.place == Place::Poisoned
                    || self.transferring.overlaps(range.clone())
                    || (!self.checkpoint.everything && self.durability_only.overlaps(range));
                if !kept {
                    bytes += u64::from(entry.len_sectors) * SECTOR as u64;
                    entries.push(entry);
                }
            }
        }
        self.checkpoint.cursor = next;
        entries
    }

    pub(crate) fn on_checkpoint_read(&mut self, io: u32, result: Result<Payload, DiskError>) {
        let Some(batch) = self.checkpoint.batch.as_mut() else { return };
        match result {
            Ok(payload) => batch.reads[io as usize].data = Some(payload),
            Err(error) => {
                self.recovered.note(format!("checkpoint: a log could not be read: {error}"));
            }
        }
        if let Step::Reading { remaining } = &mut batch.step {
            *remaining -= 1;
            if *remaining == 0 {
                self.write_batch();
            }
        }
    }

    fn write_batch(&mut self) {
        let Some(batch) = self.checkpoint.batch.as_mut() else { return };
        let reads = std::mem::take(&mut batch.reads);
        let (mut writes, mut copied) = (Vec::new(), Vec::new());
        let mut unreadable = Vec::new();
        for entry in std::mem::take(&mut batch.entries) {
            match content(&entry, &reads) {
                Ok(data) => {
                    writes.push((entry.home_sector * SECTOR as u64, data));
                    copied.push(entry);
                }
                // The entry stays in the map: a read of it gives EIO, never older bytes.
                Err(problem) => unreadable.push(problem),
            }
        }
        batch.entries = copied;
        let commands = merge(&self.setup.layout, writes);
        if let Some(batch) = self.checkpoint.batch.as_mut() {
            batch.step = Step::Writing { remaining: commands.len() };
        }
        for problem in unreadable {
            self.recovered.note(problem);
        }
        if commands.is_empty() {
            return self.release_batch();
        }
        for command in commands {
            self.issue(Class::Background, Purpose::CheckpointWrite, command);
        }
    }

    pub(crate) fn on_checkpoint_write(&mut self, result: Result<Payload, DiskError>) {
        let failed = result.err();
        let Some(batch) = self.checkpoint.batch.as_mut() else { return };
        if let Some(error) = failed {
            // Nothing of this batch is let go; the logs keep the newest copies.
            batch.entries.clear();
            self.recovered.note(format!("checkpoint: a home could not be written: {error}"));
        }
        let Some(batch) = self.checkpoint.batch.as_mut() else { return };
        let Step::Writing { remaining } = &mut batch.step else { return };
        *remaining -= 1;
        if *remaining > 0 {
            return;
        }
        self.flusher.note_volatile_write();
        let ticket = self.flusher.want();
        batch.step = Step::Flushing { ticket };
        if self.flusher.is_done(ticket) {
            self.release_batch();
        }
    }

    fn release_batch(&mut self) {
        let Some(batch) = self.checkpoint.batch.as_mut() else { return };
        let bytes: u64 =
            batch.entries.iter().map(|entry| u64::from(entry.len_sectors) * SECTOR as u64).sum();
        batch.to_release = std::mem::take(&mut batch.entries);
        batch.step = Step::Releasing;
        self.checkpoint.copied_this_pass += bytes;
        self.stats.checkpointed_bytes += bytes;
        if !self.checkpoint.has_releases() {
            self.checkpoint_released();
        }
    }

    /// No log takes a record that lets these entries of the batch go: snapshots will.
    pub(crate) fn release_by_snapshot(&mut self, entries: &[Entry]) {
        if entries.is_empty() {
            return;
        }
        let mut gone = Vec::with_capacity(entries.len());
        for entry in entries {
            let len = u64::from(entry.len_sectors);
            self.map.remove(entry.home_sector, len, &mut |lost| gone.push(lost));
        }
        // The homes were flushed already.
        self.invalidations.push(gone.into_iter(), 0);
        let target = self.want_invalidations();
        if let Some(batch) = self.checkpoint.batch.as_mut() {
            batch.step = Step::Settling { target };
        }
    }

    /// The record that lets the batch go is durable.
    pub(crate) fn checkpoint_released(&mut self) {
        self.checkpoint.batch = None;
        self.checkpoint.homes.clear();
        self.retry_blocked();
    }
}

/// The reads that fetch every chunk once, neighbours in the log merged.
fn plan_reads(entries: &[Entry]) -> Vec<LogRead> {
    let mut chunks: Vec<(u64, u32)> = entries
        .iter()
        .filter_map(|entry| match entry.place {
            Place::Log { chunk_sector, chunk_len, .. } => {
                Some((chunk_sector * SECTOR as u64, u32::from(chunk_len) * SECTOR as u32))
            }
            Place::Zero | Place::Poisoned => None,
        })
        .collect();
    chunks.sort_unstable();
    chunks.dedup();
    let mut reads: Vec<LogRead> = Vec::new();
    for (device_offset, len) in chunks {
        match reads.last_mut() {
            Some(last)
                if last.device_offset + u64::from(last.len) == device_offset
                    && last.len + len <= TRANSFER_BYTES_MAX =>
            {
                last.len += len;
            }
            _ => reads.push(LogRead { device_offset, len, data: None }),
        }
    }
    reads
}

/// The bytes of an entry, from verified chunks.
fn content(entry: &Entry, reads: &[LogRead]) -> Result<Payload, String> {
    let len = usize::from(entry.len_sectors) * SECTOR;
    let Place::Log { chunk_sector, chunk_len, offset } = entry.place else {
        return Ok(Payload::Zeros(len));
    };
    let device_offset = chunk_sector * SECTOR as u64;
    let at = reads.partition_point(|read| read.device_offset <= device_offset);
    let data = at.checked_sub(1).and_then(|at| {
        let read = &reads[at];
        let from = (device_offset - read.device_offset) as usize;
        let to = from + usize::from(chunk_len) * SECTOR;
        let data = read.data.as_ref()?;
        (to <= data.len()).then(|| data.slice(from..to))
    });
    let home = entry.home_sector - u64::from(offset);
    let problem = |found: &str| {
        format!("checkpoint: logged copy of sector {home} at device byte {device_offset}: {found}")
    };
    let Some(chunk) = data else { return Err(problem("could not be read")) };
    if let Payload::Bytes(bytes) = &chunk {
        let found = chunk_crc(home, bytes);
        if found != entry.crc {
            return Err(problem(&format!(
                "expected checksum {:08x}, found {found:08x}",
                entry.crc
            )));
        }
    } else if matches!(chunk, Payload::Zeros(_)) {
        return Err(problem("expected logged bytes, found a hole"));
    }
    let from = usize::from(offset) * SECTOR;
    Ok(chunk.slice(from..from + len))
}

/// Home writes in home order, neighbours on the device merged.
fn merge(layout: &nearhead_format::Layout, writes: Vec<(u64, Payload)>) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let (mut end, mut len) = (u64::MAX, 0);
    for (client_offset, data) in writes {
        let Some(home) = layout.home(client_offset) else { continue };
        let bytes = data.len() as u64;
        match commands.last_mut() {
            Some(Command::Write { parts, .. })
                if end == home.device_offset && len + bytes <= u64::from(TRANSFER_BYTES_MAX) =>
            {
                parts.push(data);
                len += bytes;
            }
            _ => {
                let offset = home.device_offset;
                commands.push(Command::Write { offset, parts: vec![data], durable: false });
                len = bytes;
            }
        }
        end = home.device_offset + bytes;
    }
    commands
}
