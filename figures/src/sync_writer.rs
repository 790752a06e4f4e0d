//! The random writer of Manylogs' figures 2 and 3: it changes 20 small files, then calls `sync`.
//!
//! One process: a sync begins at its instant or when the one before is durable, whichever is later,
//! so its rate is capped and a disk that cannot follow shows as a lower rate. What a journaling mode
//! leaves for later is written in place in passes, in order of address, beside the syncs.

use crate::journal::{BLOCK_BYTES, Mode, tail_of, transaction};
use nearhead_basics::{Random, Slab};
use nearhead_disk::{Nanos, Payload};
use nearhead_journal::BareJournal;
use nearhead_service::{Operation, RequestError};
use nearhead_sim::workload::{Issue, Tally, Workload};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Writes of a checkpoint that are outstanding at once: what a queue of the kernel would hold.
const CHECKPOINT_OUTSTANDING_MAX: usize = 32;
/// Time between two checkpoints (Manylogs III-F: "periodically (e.g., every 5 seconds)").
const CHECKPOINT_PERIOD: Nanos = Nanos::from_secs(5);
/// Size of a small file, in blocks; the block that is changed is one of them.
const FILE_BLOCKS: u64 = 16;

/// What a [`SyncWriter`] does.
#[derive(Clone, Debug)]
pub(crate) struct SyncWriterOptions {
    /// How the file system makes it durable.
    pub mode: Mode,
    /// Where the files are: spread evenly.
    pub span: Range<u64>,
    /// Their number, and that of the writes of a sync.
    pub files: u32,
    /// Where transactions are appended; unused with [`Mode::Manylogs`].
    pub journal: Range<u64>,
    /// Syncs a second.
    pub syncs_per_s: f64,
    /// When the first is due.
    pub first_at: Nanos,
    /// Of which block of each file is changed.
    pub seed: u64,
}

/// What a place among the outstanding requests belongs to.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Sync,
    Checkpoint,
}

/// A running writer.
pub(crate) struct SyncWriter {
    options: SyncWriterOptions,
    random: Random,
    tail: BareJournal,
    begun: u64,
    stopped: bool,
    sync: Option<Sync>,
    /// Blocks to be written in place with the next checkpoint; as many as the files have, at most.
    dirty: BTreeSet<u64>,
    checkpoint: VecDeque<u64>,
    checkpoint_at: Nanos,
    checkpoint_outstanding: usize,
    requests: Slab<Owner>,
    syncs: Tally,
    late: u64,
}

/// The sync under way.
struct Sync {
    begun: Nanos,
    steps: VecDeque<Vec<Operation>>,
    to_issue: Vec<Operation>,
    outstanding: usize,
    in_place_later: Vec<u64>,
    failure: Option<RequestError>,
}

impl SyncWriter {
    /// A writer that begins at its first instant.
    pub(crate) fn new(options: SyncWriterOptions) -> Self {
        let room = options.files as usize * 2 + CHECKPOINT_OUTSTANDING_MAX;
        Self {
            random: Random::new(options.seed),
            tail: tail_of(options.journal.clone()),
            begun: 0,
            stopped: false,
            sync: None,
            dirty: BTreeSet::new(),
            checkpoint: VecDeque::new(),
            checkpoint_at: options.first_at + CHECKPOINT_PERIOD,
            checkpoint_outstanding: 0,
            requests: Slab::with_room(room as u32),
            syncs: Tally::default(),
            late: 0,
            options,
        }
    }

    /// Syncs as requests, from their begin until durable.
    pub(crate) fn syncs(&self) -> &Tally {
        &self.syncs
    }

    /// Syncs that began later than due.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    fn due_at(&self) -> Nanos {
        let since_first = self.begun as f64 * 1e9 / self.options.syncs_per_s;
        self.options.first_at + Nanos(since_first as u64)
    }

    /// Where file number `index` begins; its metadata block is the one before.
    fn file(&self, index: u32) -> u64 {
        let span = self.options.span.end - self.options.span.start;
        let spacing = span / u64::from(self.options.files) / BLOCK_BYTES * BLOCK_BYTES;
        self.options.span.start
            + u64::from(index) * spacing
            + spacing / 2 / BLOCK_BYTES * BLOCK_BYTES
    }

    fn begin(&mut self, now: Nanos) {
        self.late += u64::from(now > self.due_at());
        self.begun += 1;
        let files: Vec<u64> = (0..self.options.files).map(|index| self.file(index)).collect();
        let metadata: Vec<u64> = files.iter().map(|file| file - BLOCK_BYTES).collect();
        let mut changed = |file: &u64| file + self.random.below(FILE_BLOCKS) * BLOCK_BYTES;
        let data: Vec<u64> = files.iter().map(&mut changed).collect();
        let made = transaction(self.options.mode, &data, &metadata, &mut self.tail);
        self.sync = Some(Sync {
            begun: now,
            steps: made.steps.into(),
            to_issue: Vec::new(),
            outstanding: 0,
            in_place_later: made.in_place_later,
            failure: None,
        });
    }

    fn issue(&mut self, owner: Owner, operation: Operation, due_at: Nanos) -> Option<Issue> {
        let tag = self.requests.try_insert_tagged(owner).ok()?;
        Some(Issue { tag, due_at, operation })
    }

    /// The next write of the sync under way, if it need not wait.
    fn next_of_sync(&mut self) -> Option<Operation> {
        let sync = self.sync.as_mut()?;
        if sync.to_issue.is_empty() && sync.outstanding == 0 {
            sync.to_issue = sync.steps.pop_front()?;
        }
        let operation = sync.to_issue.pop()?;
        sync.outstanding += 1;
        Some(operation)
    }

    fn sync_has_more(&self) -> bool {
        let waits = |sync: &Sync| sync.outstanding > 0 || sync.steps.is_empty();
        self.sync.as_ref().is_some_and(|sync| !sync.to_issue.is_empty() || !waits(sync))
    }

    fn checkpoint_may_go(&self) -> bool {
        !self.checkpoint.is_empty() && self.checkpoint_outstanding < CHECKPOINT_OUTSTANDING_MAX
    }

    fn finish(&mut self, now: Nanos) {
        let Some(sync) = self.sync.take() else { return };
        self.dirty.extend(&sync.in_place_later);
        let bytes = u64::from(self.options.files) * BLOCK_BYTES;
        self.syncs.book(&sync.failure.map_or(Ok(Vec::new()), Err), bytes, sync.begun, now);
    }
}

impl Workload for SyncWriter {
    fn next_at(&self) -> Option<Nanos> {
        if self.sync_has_more() || self.checkpoint_may_go() {
            return Some(Nanos::ZERO);
        }
        if self.stopped {
            return None;
        }
        let sync = self.sync.is_none().then(|| self.due_at());
        let idle = self.checkpoint.is_empty() && !self.dirty.is_empty();
        let checkpoint = idle.then_some(self.checkpoint_at);
        sync.into_iter().chain(checkpoint).min()
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        if !self.stopped {
            if self.sync.is_none() && self.due_at() <= now {
                self.begin(now);
            }
            if self.checkpoint.is_empty() && self.checkpoint_at <= now {
                self.checkpoint = std::mem::take(&mut self.dirty).into_iter().collect();
                self.checkpoint_at = now + CHECKPOINT_PERIOD;
            }
        }
        if let Some(operation) = self.next_of_sync() {
            return self.issue(Owner::Sync, operation, now);
        }
        if !self.checkpoint_may_go() {
            return None;
        }
        let offset = self.checkpoint.pop_front()?;
        self.checkpoint_outstanding += 1;
        let data = Payload::Phantom(BLOCK_BYTES as usize);
        self.issue(Owner::Checkpoint, Operation::Write { offset, data, fua: true }, now)
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        match self.requests.remove_tagged(tag) {
            None => return false,
            Some(Owner::Checkpoint) => self.checkpoint_outstanding -= 1,
            Some(Owner::Sync) => {
                let Some(sync) = self.sync.as_mut() else { return false };
                sync.outstanding -= 1;
                if let Err(error) = result {
                    sync.failure.get_or_insert(error);
                }
                if sync.outstanding == 0 && sync.to_issue.is_empty() && sync.steps.is_empty() {
                    self.finish(now);
                }
            }
        }
        true
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.checkpoint.clear();
    }

    fn is_finished(&self) -> bool {
        self.stopped && self.sync.is_none() && self.requests.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.syncs.restart(now);
        self.late = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{journal_in, shares_of};
    use nearhead_sim::VirtualTime;
    use nearhead_sim::fixed_latency::FixedLatency;

    fn options(mode: Mode) -> SyncWriterOptions {
        SyncWriterOptions {
            mode,
            span: 0..1 << 34,
            files: 20,
            journal: shares_of(&journal_in(1 << 34)).0,
            syncs_per_s: 2.0,
            first_at: Nanos::ZERO,
            seed: 1,
        }
    }

    fn run(mode: Mode, seconds: u64) -> (SyncWriter, u64) {
        let mut service = FixedLatency::parallel(Nanos::from_millis(1));
        let mut time = VirtualTime::default();
        let mut writer = SyncWriter::new(options(mode));
        time.run(&mut service, &mut [&mut writer], Nanos::from_secs(seconds)).unwrap();
        (writer, time.replies())
    }

    #[test]
    fn a_sync_takes_as_many_waits_as_its_mode_has_steps() {
        for (mode, steps) in [(Mode::Ordered, 3.0), (Mode::Adaptive, 2.0), (Mode::Manylogs, 1.0)] {
            let (writer, _) = run(mode, 4);
            let summary = writer.syncs().summary(Nanos::from_secs(4));
            assert_eq!((summary.requests, summary.failed), (8, 0), "{mode:?}");
            assert!((summary.latency.mean_ms - steps).abs() < 1e-9, "{mode:?} {summary:?}");
        }
    }

    #[test]
    fn what_is_left_for_later_is_written_in_place_every_five_seconds() {
        // Nine syncs before the first checkpoint, 40 different places at least half of the time.
        let (_, without) = run(Mode::Adaptive, 4);
        assert_eq!(without, 8 * 2);
        let (writer, with) = run(Mode::Ordered, 9);
        assert_eq!(with, 18 * 22 + 20, "one checkpoint of 20 metadata blocks");
        assert_eq!(writer.dirty.len(), 20);
    }

    #[test]
    fn a_writer_that_is_stopped_finishes_what_it_began() {
        let mut service = FixedLatency::serial(Nanos::from_millis(30));
        let mut time = VirtualTime::default();
        let mut writer = SyncWriter::new(options(Mode::Ordered));
        time.run(&mut service, &mut [&mut writer], Nanos::from_secs(1)).unwrap();
        time.drain(&mut service, &mut [&mut writer], Nanos::from_secs(10)).unwrap();
        assert_eq!(writer.syncs().requests, 2);
        assert!(writer.late() > 0);
    }
}
