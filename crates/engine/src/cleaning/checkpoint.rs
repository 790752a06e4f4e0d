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
//! Bytes that records hold by themselves are put over what lies under them, which is read from home where no log has it; so what is read
//! counts only while nothing newer came under them (`Fragments::has_base_of`).
//!
//! When no log has even the room for that record, the entries leave the map at once and the next
//! snapshots, which lack them, say the same. Until those are durable the homes stay closed to in-place
//! writes: a crash would bring the entries back, and with them what was at home before such a write.

mod choose;
mod observed;
mod passes;
mod release;
mod written;

use super::copying::{SourceRead, content, in_memory, merge, plan_reads, read_band, whole_band};
use crate::blanks::Blanks;
use crate::commit::{Commit, InvalidationCount, Record, Releases};
use crate::core::Core;
use crate::damage::DamageKind;
use crate::disk::dispatch::Purpose;
use crate::disk::flusher::FlushTicket;
use crate::home::FailedHomes;
use crate::state::Recorded;
use crate::state::fragments::{Fragments, under};
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::RangeSet;
use nearhead_disk::{Class, Command, DiskError, DiskErrorKind, Nanos, Payload};
use nearhead_format::{Entry, Place};
use std::collections::{BTreeSet, VecDeque};
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
        ticket: FlushTicket,
    },
    Releasing,
    /// Released by snapshots: done once invalidations are committed up to here.
    Settling {
        target: InvalidationCount,
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
    /// The count of changes of fragments when it was read, and when what lies over the batch was put over it.
    read_at: u64,
    patched_at: u64,
    /// The home blocks of the batch that had any.
    patched: BTreeSet<u64>,
    /// The home sectors of the band that is written as a whole.
    band: Option<Range<u64>>,
    /// Device bytes of the batch that could not be written, and why.
    failed: Vec<(Range<u64>, DiskErrorKind)>,
    /// Entries whose invalidation is not in a record yet.
    to_release: VecDeque<Entry>,
}

/// What others are to hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A batch is done: its homes may be written in place again.
    Freed,
    /// A pass ended.
    PassEnded,
}

/// Those it works with: handed to it for one step.
pub(crate) struct CheckpointContext<'a> {
    core: &'a mut Core,
    commit: &'a mut Commit,
    blanks: &'a mut Blanks,
    homes: &'a mut FailedHomes,
    /// Home sectors that clients are writing to now.
    transferring: &'a RangeSet,
    /// Staged blocks are on their way home: nothing begins beside them.
    is_spilling: bool,
}

impl<'a> CheckpointContext<'a> {
    pub(crate) fn new(
        core: &'a mut Core,
        commit: &'a mut Commit,
        blanks: &'a mut Blanks,
        homes: &'a mut FailedHomes,
        transferring: &'a RangeSet,
        is_spilling: bool,
    ) -> Self {
        Self { core, commit, blanks, homes, transferring, is_spilling }
    }

    /// Whether a client is writing to these homes now.
    fn is_written(&self, homes: Range<u64>) -> bool {
        self.transferring.overlaps(homes)
    }
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
    /// Somebody waits for its end.
    is_hurried: bool,
    /// What is to be let go waits until then for a record that is written anyway.
    releases_due_at: Nanos,
    /// It ends before it has seen the whole map.
    stopped: bool,
    found_nothing: bool,
    /// Nor did it leave anything out, and nothing was logged since.
    nothing_left: bool,
    /// The last pass that began left out homes that a client was writing to.
    met_transfers: bool,
    logged_this_pass: bool,
    finished_at: Nanos,
    /// Not told yet.
    news: Option<News>,
}

impl Checkpoint {
    pub(crate) fn is_busy(&self) -> bool {
        self.running
    }

    /// Whether homes are being read for or written.
    pub(crate) fn is_copying(&self) -> bool {
        self.window.is_some()
    }

    /// Home sectors that a batch is writing to.
    pub(crate) fn homes(&self) -> &RangeSet {
        &self.homes
    }

    /// What others are to hear since the last call.
    pub(crate) fn take_news(&mut self) -> Option<News> {
        self.news.take()
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
            self.is_hurried = false;
            self.met_transfers = false;
            self.logged_this_pass = false;
        }
    }

    /// Somebody waits for the end of the pass under way.
    pub(crate) fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// When what is to be let go waits for no other record any more.
    pub(crate) fn releases_due_at(&self) -> Option<Nanos> {
        (self.has_releases() && !self.is_hurried).then_some(self.releases_due_at)
    }

    /// Ends the pass after the batch under way.
    pub(crate) fn stop(&mut self) {
        self.cursor = u64::MAX;
        self.stopped = true;
        if let Some(window) = self.window.as_mut() {
            window.entries.clear();
        }
    }

    fn take_all_releases(&mut self) -> VecDeque<Entry> {
        let window = self.window.as_mut();
        window.map(|window| std::mem::take(&mut window.to_release)).unwrap_or_default()
    }
}

impl Releases for Checkpoint {
    fn are_releases_due(&self, now: Nanos) -> bool {
        self.has_releases() && (self.is_hurried || now >= self.releases_due_at)
    }

    fn has_releases(&self) -> bool {
        self.window.as_ref().is_some_and(|window| !window.to_release.is_empty())
    }

    /// Entries whose logged copy the next record may invalidate: those still the newest.
    fn take_releases(&mut self, recorded: &Recorded) -> Vec<Entry> {
        let mut entries = Vec::new();
        let Some(window) = self.window.as_mut() else { return entries };
        while entries.len() < RELEASES_MAX {
            let Some(entry) = window.to_release.pop_front() else { break };
            entries.extend(window.is_newest(recorded, &entry).then_some(entry));
        }
        entries
    }

    /// The record found no place: they wait for the next.
    fn return_releases(&mut self, entries: Vec<Entry>) {
        if let Some(window) = self.window.as_mut() {
            window.to_release.extend(entries);
        }
    }
}

/// The steps of a window.
impl Checkpoint {
    /// One step; says whether the next can follow at once, when the news are told. It waits for the disk, for a record or for
    /// a spill: no other event may come to move it on.
    pub(crate) fn step(&mut self, context: &mut CheckpointContext<'_>) -> bool {
        if !self.running || context.core.has_failed() {
            return false;
        }
        let may_begin = !context.is_spilling;
        match self.window.as_ref().map(|window| window.step) {
            None if may_begin => self.begin_window(context),
            Some(Step::Read) if may_begin => {
                let batch = self.take_batch(context);
                self.write_batch(context, batch);
            }
            Some(Step::Marking) if may_begin => {
                let window = self.window.as_mut();
                let batch = window.map(|window| std::mem::take(&mut window.batch));
                self.write_batch(context, batch.unwrap_or_default());
            }
            Some(Step::Flushing { ticket }) if context.core.flusher().is_done(ticket) => {
                self.release_batch(context.core);
            }
            Some(Step::Releasing) if !self.has_releases() => {
                // Everything was overwritten meanwhile, unless a record for the batch is under way.
                if context.commit.in_flight().is_some_and(Record::releases) {
                    return false;
                }
                self.released();
            }
            Some(Step::Settling { target })
                if context.commit.invalidations().committed() >= target =>
            {
                self.released();
            }
            _ => return false,
        }
        self.window.as_ref().is_none_or(|window| window.step == Step::Read)
    }

    fn begin_window(&mut self, context: &mut CheckpointContext<'_>) {
        let (entries, band) = self.choose_entries(context);
        if entries.is_empty() {
            if self.cursor == u64::MAX {
                self.end_pass(context.core.now());
            }
            return;
        }
        let mut reads =
            plan_reads(&entries, context.core.remembered(), &context.core.setup().layout);
        context.core.stats_mut().remembered_bytes += in_memory(&reads);
        if let Some(band) = &band {
            reads.extend(read_band(&context.core.setup().layout, band, &entries));
            self.homes.insert(band.clone());
        }
        reads.sort_by_key(|read| read.device_offset);
        let to_read = reads.iter().enumerate().filter(|(_, read)| read.data.is_none());
        let commands: Vec<(u32, Command)> = to_read
            .map(|(io, read)| {
                (io as u32, Command::Read { offset: read.device_offset, len: read.len })
            })
            .collect();
        self.window = Some(Window {
            step: if commands.is_empty() {
                Step::Read
            } else {
                Step::Reading { remaining: commands.len() }
            },
            entries: entries.into(),
            batch: Vec::new(),
            reads,
            read_at: context.core.recorded().fragments().clock(),
            patched_at: 0,
            patched: BTreeSet::new(),
            band,
            failed: Vec::new(),
            to_release: VecDeque::new(),
        });
        for (io, command) in commands {
            let purpose = Purpose::CheckpointRead { io };
            context.core.issue(Class::Background, purpose, command);
        }
    }

    pub(crate) fn on_read(&mut self, core: &mut Core, io: u32, result: Result<Payload, DiskError>) {
        let Some(window) = self.window.as_mut() else { return };
        match result {
            Ok(payload) => window.reads[io as usize].data = Some(payload),
            Err(error) => {
                let told = format!("checkpoint: a log could not be read: {error}");
                core.note(DamageKind::Log.told(told));
            }
        }
        if let Step::Reading { remaining } = &mut window.step {
            *remaining -= 1;
            if *remaining == 0 {
                window.step = Step::Read;
            }
        }
    }

    /// Whether the homes of `batch`, or the band that is written for it, may be written now. Zeros may go to a home
    /// that is promised to be blank.
    fn may_write_batch(&self, blanks: &mut Blanks, fragments: &Fragments, batch: &[Entry]) -> bool {
        let band = self.window.as_ref().and_then(|window| window.band.clone());
        if let Some(band) = band.filter(|_| !batch.is_empty()) {
            return blanks.may_write_homes(std::iter::once(band));
        }
        let is_zeros = |entry: &Entry| {
            let sectors = entry.home_sector..entry.end_sector();
            entry.place == Place::Zero && !fragments.touches(sectors)
        };
        let logged = batch.iter().filter(|entry| !is_zeros(entry));
        blanks.may_write_homes(logged.map(|entry| entry.home_sector..entry.end_sector()))
    }

    /// The homes of a batch that waits must stay as they are.
    pub(crate) fn may_not_write(&mut self, core: &mut Core, problem: &str) {
        let Some(window) = self.window.as_mut() else { return };
        if window.step == Step::Marking {
            window.batch.clear();
            let told = format!("checkpoint: a home could not be written: {problem}");
            core.note(DamageKind::Home.told(told));
            self.release_batch(core);
        }
    }

    fn write_batch(&mut self, context: &mut CheckpointContext<'_>, batch: Vec<Entry>) {
        if !self.may_write_batch(context.blanks, context.core.recorded().fragments(), &batch) {
            if let Some(window) = self.window.as_mut() {
                window.batch = batch;
                window.step = Step::Marking;
            }
            return;
        }
        let Some(window) = self.window.as_mut() else { return };
        let (core, homes) = (&mut *context.core, &*context.homes);
        let (commands, is_whole) = window.commands(core, homes, batch);
        core.stats_mut().bands_written += u64::from(is_whole);
        window.step = Step::Writing { remaining: commands.len() };
        if commands.is_empty() {
            return self.release_batch(core);
        }
        let (class, purpose) = (Class::Background, Purpose::CheckpointWrite);
        if is_whole {
            // All of them at once: a disk that rewrites bands does it once for all that waits.
            return core.issue_together(class, purpose, commands);
        }
        for command in commands {
            core.issue(class, purpose, command);
        }
    }
}

impl Window {
    /// Whether the map has nothing newer than what went home of this entry, nor anything that came over it since.
    fn is_newest(&self, recorded: &Recorded, entry: &Entry) -> bool {
        let fragments = recorded.fragments();
        // Zeros that were logged anew look as those before them, without the bytes that went home over these.
        let block = entry.home_sector / BLOCK_SECTORS;
        let are_gone = self.patched.contains(&block) && fragments.base_since(block).is_none();
        let is_over = are_gone || fragments.changed_since(entry, self.patched_at);
        !is_over && recorded.map().holds(entry)
    }

    /// The writes that bring `batch` home, and whether they are a whole band. What cannot be read of the logs stays
    /// there.
    fn commands(
        &mut self,
        core: &mut Core,
        failed: &FailedHomes,
        batch: Vec<Entry>,
    ) -> (Vec<Command>, bool) {
        let (mut writes, mut copied) = (Vec::new(), Vec::new());
        self.patched_at = core.recorded().fragments().clock();
        self.patched.clear();
        for entry in batch {
            match content(&entry, &self.reads, &core.setup().layout) {
                Ok(data) => {
                    let offset = entry.home_sector * SECTOR as u64;
                    let sectors = entry.home_sector..entry.end_sector();
                    let over = core.recorded().fragments().patches(sectors);
                    if !over.is_empty() {
                        self.patched.insert(entry.home_sector / BLOCK_SECTORS);
                    }
                    writes.push((offset, under(data, offset, &over)));
                    copied.push(entry);
                }
                // The entry stays in the map: a read of it gives EIO, never older bytes.
                Err(problem) => core.note(DamageKind::Copy.told(problem)),
            }
        }
        self.batch = copied;
        let setup = core.setup();
        let piece_bytes = u64::from(setup.properties.transfer_bytes_max);
        let band = self.band.as_ref().filter(|_| !writes.is_empty());
        let whole = band
            .and_then(|band| whole_band(&setup.layout, band, &writes, &self.reads, piece_bytes));
        if let Some(commands) = whole {
            return (commands, true);
        }
        let alone = |client_offset: u64| failed.is_suspect(client_offset / BLOCK_BYTES);
        (merge(&setup.layout, writes, &alone), false)
    }
}
