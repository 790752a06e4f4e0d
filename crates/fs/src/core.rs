//! What every part of a mounted file system shares: the metadata, the files in use, what is under way, who waits.
//!
//! Parts are files beside this one, each an `impl Core`: opening and jobs ([`crate::jobs`]), names, reading, writing, room, write-outs
//! and the commit. None of them waits; each returns a [`Halt`] that says for what.

use crate::access::AccessTimes;
use crate::ahead::Ahead;
use crate::commit::{Commit, Step};
use crate::error::{EIO, FsError, Halt};
use crate::file::File;
use crate::io::{Io, Purpose};
use crate::jobs::Job;
use crate::mounted::{FsOptions, Phase};
use crate::report::FsCounts;
use crate::request::{Answer, FsReply};
use crate::survival::{Restoring, SOON_BYTES, Survival};
use crate::waiting::{Waiter, Waiting};
use crate::write_out::WriteOut;
use nearhead_basics::Slab;
use nearhead_disk::{Buffer, BufferMut, Nanos, Payload};
use nearhead_ext4::{BLOCK_BYTES, Caller, Ext4, Ino, Timestamp};
use nearhead_service::{Operation, Reply, ServiceInfo};
use std::collections::{BTreeMap, VecDeque};

/// A block as the service counts.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;
/// Pages that are written and not durable yet, at most; then writers wait.
pub(crate) const UNSAVED_PAGES_MAX: usize = (64 << 20) / BLOCK_BYTES;
/// The last of them are for writes of at most so many pages each: who writes little does not wait for who writes much.
pub(crate) const KEPT_FOR_SMALL_PAGES: usize = (8 << 20) / BLOCK_BYTES;
pub(crate) const SMALL_WRITE_PAGES_MAX: u64 = 16;
/// Pages that are clean and kept because they may be changed in part again.
const IDLE_PAGES_MAX: usize = (16 << 20) / BLOCK_BYTES;
/// Default of [`FsOptions::commit_after`]: a fifth of ext4's, as a commit near the head costs little.
pub const COMMIT_AFTER: Nanos = Nanos::from_secs(1);

/// The shared state.
pub(crate) struct Core {
    pub(crate) info: ServiceInfo,
    pub(crate) options: FsOptions,
    /// It was mounted for writing; it may be read-only at times.
    pub(crate) was_writable: bool,
    pub(crate) phase: Phase,
    /// Once the first block was read.
    pub(crate) ext4: Option<Box<Ext4>>,
    pub(crate) files: BTreeMap<Ino, File>,
    incarnations: u64,
    pub(crate) io: Io,
    pub(crate) jobs: Slab<Job>,
    pub(crate) runnable: VecDeque<Waiter>,
    pub(crate) waiting: Waiting,
    pub(crate) commit: Commit,
    pub(crate) write_outs: Slab<WriteOut>,
    pub(crate) replies: VecDeque<FsReply>,
    /// Pages that are dirty or on their way.
    pub(crate) unsaved_pages: usize,
    /// Those of them that a write-out has, which needs no commit to come to its end.
    pub(crate) pages_in_write_outs: usize,
    /// Dirty pages for which room is kept.
    pub(crate) kept_blocks: u64,
    /// Pages that may be dropped, the oldest first.
    idle_pages: VecDeque<(Ino, u64)>,
    pub(crate) now: Nanos,
    /// When something changed first that is not in a commit.
    pub(crate) changed_at: Option<Nanos>,
    /// Bulk that waited since then went in place.
    pub(crate) has_written_back: bool,
    /// The newest time that a client told.
    pub(crate) clock: Timestamp,
    pub(crate) counts: FsCounts,
    /// When reading changes a time, and those that are in no commit yet.
    pub(crate) access_times: AccessTimes,
    pub(crate) accessed: BTreeMap<Ino, Timestamp>,
    /// The volume is told what commits freed.
    pub(crate) trims_freed: bool,
    /// What is read ahead of writes.
    pub(crate) ahead: Ahead,
    /// Log for a process that goes on when this one ends.
    pub(crate) survival: Option<Box<Survival>>,
    /// State that an ended process left.
    pub(crate) restoring: Restoring,
}

impl Core {
    pub(crate) fn new(info: ServiceInfo, options: FsOptions) -> Self {
        Self {
            info,
            was_writable: !options.ext4.read_only,
            options,
            phase: Phase::Opening,
            ext4: None,
            files: BTreeMap::new(),
            incarnations: 0,
            io: Io::default(),
            jobs: Slab::new(),
            runnable: VecDeque::new(),
            waiting: Waiting::default(),
            commit: Commit::default(),
            write_outs: Slab::new(),
            replies: VecDeque::new(),
            unsaved_pages: 0,
            pages_in_write_outs: 0,
            kept_blocks: 0,
            idle_pages: VecDeque::new(),
            now: Nanos::ZERO,
            changed_at: None,
            has_written_back: false,
            clock: Timestamp::default(),
            counts: FsCounts::default(),
            access_times: AccessTimes::default(),
            accessed: BTreeMap::new(),
            trims_freed: false,
            ahead: Ahead::default(),
            survival: None,
            restoring: Restoring::default(),
        }
    }

    /// The metadata; an error until it was opened.
    pub(crate) fn ext4(&mut self) -> Result<&mut Ext4, Halt> {
        let missing = || Halt::Fails(FsError::new(EIO, "the file system is not open"));
        self.ext4.as_deref_mut().ok_or_else(missing)
    }

    pub(crate) fn file(&mut self, ino: Ino) -> &mut File {
        self.touch(ino);
        let incarnations = &mut self.incarnations;
        self.files.entry(ino).or_insert_with(|| {
            *incarnations += 1;
            File { incarnation: *incarnations, ..File::default() }
        })
    }

    /// The node is still the one that something was begun for.
    pub(crate) fn same_file(&mut self, ino: Ino, incarnation: u64) -> Option<&mut File> {
        self.touch(ino);
        self.files.get_mut(&ino).filter(|file| file.incarnation == incarnation)
    }

    /// Nothing is known of a node any more: it is gone, or new.
    pub(crate) fn forget_file(&mut self, ino: Ino) {
        self.forget_pages(ino, 0, u64::MAX);
        self.touch(ino);
        self.files.remove(&ino);
        self.accessed.remove(&ino);
        self.commit.bounds.forget(ino);
    }

    /// The metadata of these nodes is part of the running transaction.
    pub(crate) fn note_changed(&mut self, nodes: &[Ino]) {
        let number = self.commit.running();
        for ino in nodes {
            self.file(*ino).changed_in = number;
        }
        self.note_unsaved();
    }

    /// The same of nodes that a request changed at once. Where that moved the time of change in the metadata, no older one that waits
    /// counts any more.
    pub(crate) fn note_acted(&mut self, nodes: &[Ino], caller: &Caller) {
        self.note_changed(nodes);
        for ino in nodes {
            if self.file(*ino).times.changed.is_none() {
                continue;
            }
            let found = self.ext4().and_then(|ext4| ext4.attributes(*ino).map_err(Halt::from));
            if found.is_ok_and(|found| found.changed == caller.now) {
                self.file(*ino).times.changed = None;
            }
        }
    }

    /// The metadata of a node is part of the running transaction, of which a record is made now: nothing has to follow it.
    pub(crate) fn note_packed(&mut self, ino: Ino) {
        let number = self.commit.running();
        self.file(ino).changed_in = number;
    }

    /// Something is not durable.
    pub(crate) fn note_unsaved(&mut self) {
        self.note_unsaved_since(self.now);
    }

    /// The same, and it is so since then.
    pub(crate) fn note_unsaved_since(&mut self, since: Nanos) {
        self.changed_at = Some(self.changed_at.map_or(since, |at| at.min(since)));
    }

    /// Forgets what is known of a node if that is nothing.
    pub(crate) fn tidy(&mut self, ino: Ino) {
        let committed = self.commit.committed();
        if self.files.get(&ino).is_some_and(|file| file.is_idle() && file.changed_in <= committed) {
            self.touch(ino);
            self.files.remove(&ino);
        }
    }

    /// Whoever this is waits for what the halt says; gives back what can never be.
    pub(crate) fn park(&mut self, who: Waiter, halt: Halt) -> Result<(), FsError> {
        if let Phase::Failed(error) = &self.phase
            && !matches!(halt, Halt::Blocks(_) | Halt::Page { .. } | Halt::Fails(_))
        {
            // No commit and no write-out comes to its end any more; reads still do.
            return Err(error.clone());
        }
        match halt {
            Halt::Blocks(blocks) => {
                for block in self.waiting.for_blocks(who, &blocks) {
                    let read = Operation::Read { offset: block * BLOCK, len: BLOCK as u32 };
                    self.io.ask(Purpose::Block(block), read);
                }
            }
            Halt::Page { ino, page, block } => {
                self.waiting.for_page(who, ino, page);
                if !self.file(ino).pages.is_coming(page) {
                    let read = Operation::Read { offset: block * BLOCK, len: BLOCK as u32 };
                    let request = self.io.ask(Purpose::Page(ino, page), read);
                    self.file(ino).pages.await_from(request, page..page + 1);
                }
            }
            // Room comes with write-outs, or with a commit that begins because so little of it is in any.
            Halt::Room => self.waiting.for_room(who),
            Halt::Changes if self.is_record_empty() => return Err(self.outgrown()),
            Halt::Changes => {
                // The one that is being packed takes them.
                if self.commit.step != Step::Packing {
                    self.commit.want();
                }
                self.waiting.for_changes(who);
            }
            Halt::Commit => {
                self.commit.want();
                self.waiting.for_settling(who);
            }
            // The commit that is under way makes it.
            Halt::Record => self.waiting.for_record(who),
            Halt::Quiet(ino) => {
                // Some of what is under way ends with a commit only.
                self.commit.want();
                self.waiting.for_quiet(who, ino);
            }
            Halt::Fails(error) => return Err(error),
        }
        Ok(())
    }

    pub(crate) fn wake(&mut self, who: Vec<Waiter>) {
        self.runnable.extend(who);
    }

    pub(crate) fn reply(&mut self, id: u64, result: Result<Answer, FsError>) {
        if result.as_ref().is_err_and(|error| error.errno == EIO) {
            self.counts.errors += 1;
        }
        self.replies.push_back(FsReply { id, result });
    }

    /// Nothing can be made durable any more: what changes anything is refused from now on.
    pub(crate) fn fail(&mut self, error: FsError) {
        if !matches!(self.phase, Phase::Failed(_)) {
            self.phase = Phase::Failed(error);
        }
        let all = self.waiting.all();
        self.wake(all);
    }

    /// The service answered.
    pub(crate) fn on_reply(&mut self, reply: Reply) {
        let Some(purpose) = self.io.answered(reply.id) else { return };
        let result = reply.result.map_err(|error| FsError::from(&error));
        match purpose {
            Purpose::Superblock => self.on_superblock(result),
            Purpose::Block(block) => self.on_block(block, result),
            Purpose::Page(ino, page) => self.on_page(reply.id.0, ino, page, result),
            Purpose::Ahead { ino, first, len } => {
                let pages = first..first + u64::from(len);
                self.on_ahead(reply.id.0, ino, pages, &result);
            }
            Purpose::Read { job, part } => self.on_read(job, part, result),
            Purpose::WriteOut(slot) => self.on_written_out(slot, result.err()),
            Purpose::Flush => self.on_flushed(result.err()),
            Purpose::Record => self.on_recorded(result.err()),
            // A volume that does not take it is as safe.
            Purpose::Advice => {}
            Purpose::Asked(job) => self.on_asked(job, result.err()),
        }
        self.settle_commits();
    }

    fn on_block(&mut self, block: u64, result: Result<Vec<Payload>, FsError>) {
        match result {
            Ok(parts) => {
                let bytes: Box<[u8; BLOCK_BYTES]> = whole(&parts);
                if let Some(ext4) = &mut self.ext4 {
                    ext4.give(block, bytes.into());
                }
                let ready = self.waiting.block_came(block);
                self.wake(ready);
            }
            Err(error) => {
                let ready = self.waiting.block_came(block);
                self.give_up(ready, &error);
            }
        }
    }

    fn on_page(
        &mut self,
        request: u64,
        ino: Ino,
        page: u64,
        result: Result<Vec<Payload>, FsError>,
    ) {
        let ready = self.waiting.page_came(ino, page);
        let was_awaited = self.stop_awaiting(request, ino, page);
        match result {
            // Written, cut away or of another file since: what came is older than that.
            _ if !was_awaited => self.wake(ready),
            Ok(parts) => {
                let bytes: Box<[u8; BLOCK_BYTES]> = whole(&parts);
                let bytes = BufferMut::copy_of(&bytes[..]).freeze();
                self.keep_idle(ino, page, bytes);
                self.wake(ready);
            }
            Err(error) => self.give_up(ready, &error),
        }
    }

    /// The answer of a request for a page is there; says whether it is what the page is.
    pub(crate) fn stop_awaiting(&mut self, request: u64, ino: Ino, page: u64) -> bool {
        self.files.get_mut(&ino).is_some_and(|file| file.pages.stop_awaiting(request, page))
    }

    /// What these wait for cannot be read.
    fn give_up(&mut self, waiters: Vec<Waiter>, error: &FsError) {
        for who in waiters {
            match who {
                Waiter::Job(slot) => self.finish_job(slot, Err(error.clone())),
                Waiter::WriteOut(slot) => self.fail_write_out(slot, error),
                Waiter::Mount | Waiter::Commit => self.fail(error.clone()),
                Waiter::Rest => {}
            }
        }
    }

    /// Keeps a clean page for a while.
    pub(crate) fn keep_idle(&mut self, ino: Ino, page: u64, bytes: Buffer) {
        if self.file(ino).pages.keep(page, bytes, true) {
            self.note_idle(ino, vec![page]);
        }
    }

    /// These pages may be dropped: the oldest of all are, beyond a bound.
    pub(crate) fn note_idle(&mut self, ino: Ino, pages: Vec<u64>) {
        self.idle_pages.extend(pages.into_iter().map(|page| (ino, page)));
        while self.idle_pages.len() > IDLE_PAGES_MAX {
            let Some((ino, page)) = self.idle_pages.pop_front() else { break };
            if let Some(file) = self.files.get_mut(&ino) {
                file.pages.drop_idle(page);
                self.tidy(ino);
            }
        }
    }

    /// Whether so much waits in memory that a commit has to bring it out: what write-outs have goes by itself.
    pub(crate) fn is_pressed(&self) -> bool {
        let waits = self.unsaved_pages.saturating_sub(self.pages_in_write_outs);
        waits >= UNSAVED_PAGES_MAX / 2 || self.survival_bytes() >= SOON_BYTES
    }

    /// So many pages are unsaved no more.
    pub(crate) fn note_saved(&mut self, pages: usize) {
        self.unsaved_pages = self.unsaved_pages.saturating_sub(pages);
        if self.unsaved_pages < UNSAVED_PAGES_MAX {
            let ready = self.waiting.room_came();
            self.wake(ready);
        }
    }

    /// Pages of a file from `from` on are no part of it any more.
    pub(crate) fn forget_pages(&mut self, ino: Ino, from: u64, to: u64) {
        self.give_up_ahead_from(ino, from);
        self.note_pages_cut(ino, from..to);
        let Some(file) = self.files.get_mut(&ino) else { return };
        let kept = file.pages.without_block_len();
        let dirty = file.pages.forget(from..to);
        let given_back = kept - file.pages.without_block_len();
        self.kept_blocks -= given_back as u64;
        self.note_saved(dirty);
    }
}

/// The bytes of a whole block, in one piece.
pub(crate) fn whole(parts: &[Payload]) -> Box<[u8; BLOCK_BYTES]> {
    let mut bytes = Box::new([0; BLOCK_BYTES]);
    let mut at = 0;
    for part in parts {
        let end = (at + part.len()).min(BLOCK_BYTES);
        part.slice(0..end - at).copy_to(&mut bytes[at..end]);
        at = end;
    }
    bytes
}
