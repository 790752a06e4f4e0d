//! From the log of an ended process back to a mounted file system.
//!
//! Two steps, each of which may be cut short and done again:
//!
//! 1. [`replay`] makes the blocks of the log durable, before the file system is mounted: first those of the record that was under way, then
//!    those of the running transaction. Each is one atomic write, as the ended process would have made it. The log then counts both as
//!    durable;
//! 2. the mount gives nodes their facts back, and dirty pages their bytes; then it serves.
//!
//! A power cut between the two steps shows names without their latest data, as a commit without an `fsync` may.

use super::entry::{self, Batch, Entry, FileFacts, KeptAnswer};
use super::{Survival, SurvivalLog};
use crate::core::{BLOCK, Core};
use crate::error::{EIO, FsError, Halt};
use crate::mounted::Phase;
use crate::request::{Answer, FsOperation, FsRequest};
use crate::waiting::Waiter;
use nearhead_disk::{Buffer, BufferMut, Payload};
use nearhead_ext4::{BlockBytes, Ext4, Ino, KindCode, NotedBlock, Options, Stop, Timestamp};
use nearhead_service::{Changed, Operation};
use std::collections::{BTreeMap, VecDeque};

/// A block that a record brings.
#[derive(Debug)]
enum Image {
    Metadata(KindCode, BlockBytes),
    Data(Buffer),
}

/// Blocks of one record.
type Images = BTreeMap<u64, Image>;

/// State of a file system whose process ended.
#[derive(Debug, Default)]
pub struct Survived {
    /// Blocks of the record that was under way, and of the running transaction.
    under_way: Images,
    running: Images,
    files: BTreeMap<Ino, FileFacts>,
    orphans: BTreeMap<Ino, Vec<u8>>,
    pages: BTreeMap<Ino, BTreeMap<u64, Buffer>>,
    answers: BTreeMap<u64, KeptAnswer>,
    batches: usize,
}

impl Survived {
    /// Takes the next batch of the log, oldest first.
    ///
    /// # Errors
    /// The log is not one of this version of the program.
    pub fn add(&mut self, batch: &[u8]) -> Result<(), FsError> {
        let mut from = batch;
        while let Some(entry) = entry::next(&mut from)? {
            self.take(entry);
        }
        self.batches += 1;
        Ok(())
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Block { block, kind, bytes } => {
                self.running.insert(block, Image::Metadata(kind, bytes));
            }
            Entry::Data { block, bytes } => drop(self.running.insert(block, Image::Data(bytes))),
            Entry::RecordMade => self.under_way = std::mem::take(&mut self.running),
            Entry::RecordDurable => self.under_way.clear(),
            Entry::Pages { ino, first, bytes } => {
                let pages = self.pages.entry(ino).or_default();
                let parts = bytes.iter().flat_map(|part| {
                    (0..part.len() / BLOCK as usize)
                        .map(|nth| part.slice(nth * BLOCK as usize..(nth + 1) * BLOCK as usize))
                });
                pages.extend((first..).zip(parts));
            }
            Entry::PagesGone { ino, first, count } => {
                if let Some(pages) = self.pages.get_mut(&ino) {
                    pages.retain(|page, _| *page < first || page - first >= count);
                }
            }
            Entry::File { ino, facts } if facts == FileFacts::default() => {
                self.files.remove(&ino);
            }
            Entry::File { ino, facts } => drop(self.files.insert(ino, facts)),
            Entry::Orphan { ino, encoded } => drop(self.orphans.insert(ino, encoded)),
            Entry::OrphanGone { ino } => drop(self.orphans.remove(&ino)),
            Entry::Answer { request, answer } => drop(self.answers.insert(request, answer)),
        }
    }

    /// Whether blocks of it are on no disk yet.
    pub fn has_blocks(&self) -> bool {
        !self.under_way.is_empty() || !self.running.is_empty()
    }
}

/// The batch that says that all blocks of the log are durable.
fn replayed() -> Batch {
    let mut batch = Batch::default();
    batch.push(Entry::RecordMade);
    batch.push(Entry::RecordDurable);
    batch
}

/// Makes the blocks of `survived` durable through `ask`, which carries out one operation of the volume, and notes that in `log`. `bytes` is
/// the size of the volume, `now` the time of the superblock.
///
/// # Errors
/// The volume or the log does not do it. It may be tried again.
pub fn replay(
    survived: &mut Survived,
    bytes: u64,
    now: Timestamp,
    log: &mut dyn SurvivalLog,
    ask: &mut dyn FnMut(Operation) -> Result<Vec<Payload>, String>,
) -> Result<(), String> {
    if !survived.has_blocks() {
        return Ok(());
    }
    for images in [&survived.under_way, &survived.running] {
        if !images.is_empty() {
            replay_record(images, bytes, now, ask)?;
        }
    }
    log.append(&replayed())?;
    survived.batches += 1;
    survived.under_way.clear();
    survived.running.clear();
    Ok(())
}

fn replay_record(
    images: &Images,
    bytes: u64,
    now: Timestamp,
    ask: &mut dyn FnMut(Operation) -> Result<Vec<Payload>, String>,
) -> Result<(), String> {
    let mut read = |block: u64| {
        let parts = ask(Operation::Read { offset: block * BLOCK, len: BLOCK as u32 })?;
        Ok::<_, String>(crate::core::whole(&parts))
    };
    let first = read(0)?;
    let options = Options { read_only: true, cache_blocks_max: 0, seed: 0 };
    let mut ext4 = Ext4::open(&first[..], bytes, options).map_err(|error| error.to_string())?;
    loop {
        match ext4.mount(now) {
            Ok(()) => break,
            Err(Stop::Wants(blocks)) => {
                for block in blocks {
                    ext4.give(block, read(block)?.into());
                }
            }
            Err(Stop::Fails(error)) => return Err(error.detail),
        }
    }
    let mut record: BTreeMap<u64, Buffer> = BTreeMap::new();
    for (block, image) in images {
        match image {
            Image::Metadata(kind, bytes) => {
                let noted = NotedBlock { block: *block, kind: *kind, bytes: bytes.clone() };
                ext4.put_back(noted).map_err(why)?;
            }
            Image::Data(bytes) => drop(record.insert(*block, bytes.clone())),
        }
    }
    let changes = ext4.take_changes();
    let copied = |bytes: &BlockBytes| BufferMut::copy_of(&bytes[..]).freeze();
    record.extend(changes.blocks.iter().map(|(block, bytes)| (*block, copied(bytes))));
    let extents = record.into_iter().map(|(block, bytes)| (block * BLOCK, Payload::Bytes(bytes)));
    ask(Operation::WriteAtomic { extents: extents.collect(), changed: Changed::default() })?;
    Ok(())
}

fn why(stop: Stop) -> String {
    match stop {
        Stop::Wants(blocks) => format!("blocks {blocks:?} are missing (internal error)"),
        Stop::Fails(error) => error.detail,
    }
}

/// Rest of a restoration: pages that have no place in memory yet.
#[derive(Debug, Default)]
pub(crate) struct Restoring {
    facts: Option<Box<Survived>>,
    pages: VecDeque<(Ino, u64, Buffer)>,
    answers: BTreeMap<u64, KeptAnswer>,
}

impl Core {
    /// Begins with what an ended process left in its log.
    pub(crate) fn begin_with(&mut self, survived: Survived, log: Box<dyn SurvivalLog>) {
        let mut survival = Survival::new(log);
        (survival.is_restoring, survival.inherited) = (true, survived.batches);
        self.survival = Some(Box::new(survival));
        self.restoring.facts = Some(Box::new(survived));
    }

    /// Gives nodes their facts back, once the metadata is mounted.
    pub(crate) fn restore_facts(&mut self) -> Result<(), Halt> {
        let Some(survived) = self.restoring.facts.take() else { return Ok(()) };
        let Survived { files, orphans, pages, answers, .. } = *survived;
        for (ino, facts) in files {
            let file = self.file(ino);
            file.take_facts(&facts);
            if facts.references > 0 {
                self.ext4()?.hold(ino);
            }
            if let Some(at) = facts.accessed {
                self.accessed.insert(ino, at);
            }
            if facts.is_nameless {
                self.ext4()?.put_back_nameless(ino);
            }
        }
        for (ino, encoded) in orphans {
            self.ext4()?.put_back_orphan(ino, &encoded)?;
        }
        for (ino, pages) in pages {
            let pages = pages.into_iter().map(|(page, bytes)| (ino, page, bytes));
            self.restoring.pages.extend(pages);
        }
        if let Some(survival) = &mut self.survival {
            for (request, answer) in &answers {
                survival.push_answer(*request, *answer);
            }
        }
        self.restoring.answers = answers;
        Ok(())
    }

    /// Gives pages their bytes back, and serves once all have them.
    pub(crate) fn restore_pages(&mut self) -> Result<(), Halt> {
        while let Some((ino, page, bytes)) = self.restoring.pages.front().cloned() {
            self.restore_page(ino, page, &bytes)?;
            self.restoring.pages.pop_front();
        }
        if let Some(survival) = &mut self.survival {
            survival.is_restoring = false;
        }
        Ok(())
    }

    fn restore_page(&mut self, ino: Ino, page: u64, bytes: &Buffer) -> Result<(), Halt> {
        let without_block = self.pages_without_block(ino, page..page + 1)?;
        self.kept_blocks += without_block.iter().map(|run| run.end - run.start).sum::<u64>();
        self.put(ino, page * BLOCK, bytes, &without_block);
        self.note_unsaved();
        Ok(())
    }

    /// A request that an ended process carried out, and whose answer did not arrive: it gets that answer. Gives back any other.
    pub(crate) fn answer_survivor(&mut self, mut request: FsRequest) -> Option<FsRequest> {
        let Some(answer) = self.restoring.answers.remove(&request.id) else { return Some(request) };
        let result = match answer {
            KeptAnswer::Node(ino) => {
                // Its reference is counted already.
                request.operation = FsOperation::Attributes { ino };
                return Some(request);
            }
            KeptAnswer::Nothing => Ok(Answer::Nothing),
            KeptAnswer::Written(len) => Ok(Answer::Written(len)),
            KeptAnswer::Trimmed(bytes) => Ok(Answer::Trimmed(bytes)),
            KeptAnswer::Failed(errno) => {
                Err(FsError::new(errno, "the answer of a process that ended before it was given"))
            }
        };
        self.reply(request.id, result);
        None
    }

    /// The next step of a mount after its metadata is there.
    pub(crate) fn try_restore(&mut self) {
        let tried = self.restore_facts().and_then(|()| self.restore_pages());
        match tried {
            Ok(()) => {
                self.phase = Phase::Serving;
                let jobs: Vec<Waiter> = self.waiting.mounted();
                self.wake(jobs);
            }
            Err(halt) => {
                if let Err(error) = self.park(Waiter::Mount, halt) {
                    self.fail(error);
                }
            }
        }
    }
}

impl crate::file::File {
    /// Facts that the metadata lacks.
    pub(crate) fn facts(&self) -> FileFacts {
        FileFacts {
            references: self.references,
            size: self.size,
            times: self.times,
            accessed: None,
            is_gone: self.is_gone,
            is_nameless: self.is_nameless,
            has_error: self.error.is_some(),
        }
    }

    fn take_facts(&mut self, facts: &FileFacts) {
        (self.references, self.size, self.times) = (facts.references, facts.size, facts.times);
        (self.is_gone, self.is_nameless) = (facts.is_gone, facts.is_nameless);
        if facts.has_error {
            let detail = "a write failed before the process that serves the file system ended";
            self.error = Some(FsError::new(EIO, detail));
        }
    }
}
