//! A mounted file system that outlives the process that serves it: what is in memory alone is also in a [`SurvivalLog`].
//!
//! The log holds what an answered request changed and no commit has made durable: changed blocks of metadata, dirty pages, facts about nodes,
//! and answers that clients may not have got. What this module keeps true:
//!
//! - **the log is ahead of every answer and of every request to the volume**: another process finds there all that a client was promised;
//! - an entry is dropped only when a commit has it, or a later entry replaces it;
//! - the log is bounded: with [`SOON_BYTES`] of it in use a commit begins, with [`FULL_BYTES`] writers wait.
//!
//! The log is for the end of a process, not for a power cut: it is no part of what makes data durable.

mod collecting;
mod entry;
mod restoring;
mod trimming;

pub use entry::Batch;
pub(crate) use restoring::Restoring;
pub use restoring::{Survived, replay};

use crate::core::Core;
use entry::{FileFacts, KeptAnswer};
use nearhead_disk::RangeSet;
use nearhead_ext4::Ino;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of the log with which a commit begins that lets go of them. Bulk at 1 GB/s reaches it 8 times a second, and a commit then costs
/// a flush.
pub(crate) const SOON_BYTES: u64 = 128 << 20;
/// Bytes of the log with which writers wait for a commit: pages that are rewritten while the disk hangs.
pub(crate) const FULL_BYTES: u64 = 4 * SOON_BYTES;

/// A log that outlives this process.
pub trait SurvivalLog: Send {
    /// Appends a batch, whole or not at all.
    ///
    /// # Errors
    /// Why it cannot. The file system goes on without the log then.
    fn append(&mut self, batch: &Batch) -> Result<(), String>;

    /// Drops this many batches, the oldest ones.
    fn drop_oldest(&mut self, batches: usize);

    /// The log is of no use any more: it is incomplete from now on.
    fn give_up(&mut self, why: &str);
}

/// Contents of one batch of the log, as far as they decide when it can go.
#[derive(Debug, Default)]
pub(crate) struct Appended {
    number: u64,
    bytes: u64,
    /// Record that brings blocks of this batch.
    record: Option<u64>,
    pages: Vec<(Ino, std::ops::Range<u64>)>,
    files: Vec<Ino>,
    orphans: Vec<Ino>,
    answers: Vec<u64>,
}

/// State of the log.
pub(crate) struct Survival {
    log: Box<dyn SurvivalLog>,
    batch: Batch,
    /// Contents of `batch`.
    appended: Appended,
    batches: VecDeque<Appended>,
    /// Sum of the bytes of `batches`.
    bytes: u64,
    /// Nodes whose facts may have changed, and pages that were written, since the last batch.
    touched: BTreeSet<Ino>,
    written: BTreeMap<Ino, RangeSet>,
    /// Facts, orphans, pages and answers of the log, each with the number of the batch that has the newest.
    files: BTreeMap<Ino, (FileFacts, u64)>,
    orphans: BTreeMap<Ino, u64>,
    pages: BTreeMap<Ino, BTreeMap<u64, u64>>,
    /// Number of those pages.
    pages_len: u64,
    answers: BTreeMap<u64, (KeptAnswer, u64)>,
    /// Record whose blocks are being collected, and the newest one that is durable.
    record: u64,
    durable_record: u64,
    /// Batches of an earlier process, which go once this one has restored what they hold.
    inherited: usize,
    is_restoring: bool,
    /// Pages that the record under way makes durable.
    brought: Vec<(Ino, u64, std::ops::Range<u64>)>,
}

impl std::fmt::Debug for Survival {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (batches, bytes) = (self.batches.len(), self.bytes);
        formatter
            .debug_struct("Survival")
            .field("batches", &batches)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

impl Survival {
    pub(crate) fn new(log: Box<dyn SurvivalLog>) -> Self {
        Self {
            log,
            batch: Batch::default(),
            appended: Appended { number: 1, ..Appended::default() },
            batches: VecDeque::new(),
            bytes: 0,
            touched: BTreeSet::new(),
            written: BTreeMap::new(),
            files: BTreeMap::new(),
            orphans: BTreeMap::new(),
            pages: BTreeMap::new(),
            pages_len: 0,
            answers: BTreeMap::new(),
            record: 1,
            durable_record: 0,
            inherited: 0,
            is_restoring: false,
            brought: Vec::new(),
        }
    }
}

impl Core {
    /// Facts of a node may change.
    pub(crate) fn touch(&mut self, ino: Ino) {
        if let Some(survival) = &mut self.survival {
            survival.touched.insert(ino);
        }
    }

    /// Pages of a file were written.
    pub(crate) fn note_pages_written(&mut self, ino: Ino, pages: std::ops::Range<u64>) {
        if let Some(survival) = &mut self.survival {
            survival.written.entry(ino).or_default().insert(pages);
        }
    }

    /// Bytes of the log that a commit lets go of.
    pub(crate) fn survival_bytes(&self) -> u64 {
        self.survival.as_ref().map_or(0, |survival| survival.passing_bytes())
    }

    /// Clients have the answers to these requests.
    pub(crate) fn note_answered(&mut self, requests: &[u64]) {
        if let Some(survival) = &mut self.survival {
            for request in requests {
                survival.answers.remove(request);
            }
        }
    }
}
