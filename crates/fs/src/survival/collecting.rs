//! Collection of changes since the last batch, as entries of the next one.
//!
//! Blocks are collected when a record is made and with each batch, facts of nodes where they differ from those in the log, pages that were
//! written. A batch is appended before any request goes to the volume and before any answer is given.

use super::entry::{Entry, FileFacts, KeptAnswer};
use super::{Appended, Survival};
use crate::core::{BLOCK, Core};
use crate::error::FsError;
use crate::file::File;
use crate::request::{Answer, FsOperation};
use nearhead_disk::{Buffer, RangeSet};
use nearhead_ext4::{Ino, NotedBlock};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of one entry, at most.
const PAGES_MAX: u64 = 256;

impl Core {
    /// Appends what changed since the last batch.
    pub(crate) fn append_survival(&mut self) {
        if self.survival.is_none() {
            return;
        }
        let dropped = self.let_batches_go();
        self.collect_blocks();
        self.collect_files();
        self.collect_pages();
        let Some(survival) = &mut self.survival else { return };
        if survival.batch.is_empty() {
            survival.log.drop_oldest(dropped);
            return;
        }
        let batch = std::mem::take(&mut survival.batch);
        let next = Appended { number: survival.appended.number + 1, ..Appended::default() };
        let mut appended = std::mem::replace(&mut survival.appended, next);
        appended.bytes = batch.bytes();
        if let Err(why) = survival.log.append(&batch) {
            survival.log.give_up(&why);
            self.survival = None;
            return;
        }
        survival.log.drop_oldest(dropped);
        survival.bytes += appended.bytes;
        survival.batches.push_back(appended);
    }

    /// Blocks that the next record brings, and inodes that live in memory.
    fn collect_blocks(&mut self) {
        let (Some(survival), Some(ext4)) = (&mut self.survival, &mut self.ext4) else { return };
        let noted = ext4.poll_noted();
        for NotedBlock { block, kind, bytes } in noted.blocks {
            survival.push_of_record(Entry::Block { block, kind, bytes });
        }
        for (ino, encoded) in noted.orphans {
            survival.push_orphan(ino, encoded);
        }
    }

    fn collect_files(&mut self) {
        let Some(survival) = &mut self.survival else { return };
        for ino in std::mem::take(&mut survival.touched) {
            let mut facts = self.files.get(&ino).map(File::facts).unwrap_or_default();
            facts.accessed = self.accessed.get(&ino).copied();
            survival.push_file(ino, facts);
        }
    }

    fn collect_pages(&mut self) {
        let Some(survival) = &mut self.survival else { return };
        for (ino, written) in std::mem::take(&mut survival.written) {
            let Some(file) = self.files.get(&ino) else { continue };
            for range in written.iter() {
                let mut from = range.start;
                while from < range.end {
                    let bytes: Vec<Buffer> = (from..range.end.min(from + PAGES_MAX))
                        .map_while(|page| file.pages.get(page).cloned())
                        .collect();
                    let count = bytes.len() as u64;
                    if count > 0 {
                        survival.push_pages(ino, from, bytes);
                    }
                    // One that is not in memory was cut away since.
                    from += count.max(1);
                }
            }
        }
    }

    /// Notes that the record with all blocks up to now is about to be made. Call it before the blocks are taken.
    pub(crate) fn note_record_made(&mut self) {
        self.collect_blocks();
        if let Some(survival) = &mut self.survival {
            survival.push_of_record(Entry::RecordMade);
            survival.record += 1;
        }
    }

    /// Notes that the record made last is durable.
    pub(crate) fn note_record_durable(&mut self) {
        let Some(survival) = &mut self.survival else { return };
        survival.batch.push(Entry::RecordDurable);
        survival.durable_record = survival.record - 1;
        for (ino, incarnation, pages) in std::mem::take(&mut survival.brought) {
            self.note_pages_durable(ino, incarnation, pages);
        }
        if self.survival_is_full() {
            return;
        }
        let ready = self.waiting.room_came();
        self.wake(ready);
    }

    /// Notes that the record that is being packed brings these pages of a file, with their bytes.
    pub(crate) fn note_packed_data(&mut self, ino: Ino, pages: Range<u64>, block: u64) {
        let Some(survival) = &mut self.survival else { return };
        let Some(file) = self.files.get(&ino) else { return };
        for (nth, page) in pages.enumerate() {
            if let Some(bytes) = file.pages.get(page) {
                let (block, bytes) = (block + nth as u64, bytes.clone());
                survival.push_of_record(Entry::Data { block, bytes });
            }
        }
    }

    /// Notes that the record that is being packed makes these pages durable, which are in place.
    pub(crate) fn note_marked(&mut self, ino: Ino, incarnation: u64, pages: Range<u64>) {
        if let Some(survival) = &mut self.survival {
            survival.brought.push((ino, incarnation, pages));
        }
    }

    /// Lets go of those of the pages that were not written again.
    pub(crate) fn note_pages_durable(&mut self, ino: Ino, incarnation: u64, pages: Range<u64>) {
        let Some(survival) = &mut self.survival else { return };
        let file = self.files.get(&ino).filter(|file| file.incarnation == incarnation);
        let Some(file) = file else { return };
        let mut left = RangeSet::new();
        left.insert(pages.clone());
        let placed = self.commit.placed.iter().chain(&self.commit.flushed);
        let placed = placed.filter(|placed| placed.ino == ino).map(|placed| placed.pages.clone());
        let works = self.write_outs.entries().filter(|(_, work)| work.ino == ino);
        let works = works.map(|(_, work)| work.pages.clone());
        for needed in placed.chain(works).chain(file.pages.dirty_runs(pages)) {
            left.remove(needed);
        }
        for range in left.iter() {
            survival.push_pages_gone(ino, range);
        }
    }

    /// Notes that these pages are no part of the file any more.
    pub(crate) fn note_pages_cut(&mut self, ino: Ino, pages: Range<u64>) {
        let Some(survival) = &mut self.survival else { return };
        survival.push_pages_gone(ino, pages);
    }

    /// Keeps the answer to a request that must not be carried out twice.
    pub(crate) fn keep_answer(
        &mut self,
        request: u64,
        operation: &FsOperation,
        result: &Result<Answer, FsError>,
    ) {
        let Some(survival) = &mut self.survival else { return };
        let may_come_again = request.is_multiple_of(2);
        if !may_come_again {
            return;
        }
        if !operation.changes() && !matches!(operation, FsOperation::Lookup { .. }) {
            return;
        }
        if let Some(answer) = KeptAnswer::of(result) {
            survival.push_answer(request, answer);
        }
    }

    /// Whether writers wait until a commit lets go of a part of the log.
    pub(crate) fn survival_is_full(&self) -> bool {
        self.survival_bytes() >= super::FULL_BYTES
    }
}

impl Survival {
    fn push_of_record(&mut self, entry: Entry) {
        self.appended.record = Some(self.record);
        self.batch.push(entry);
    }

    pub(super) fn push_orphan(&mut self, ino: Ino, encoded: Option<Vec<u8>>) {
        match encoded {
            Some(encoded) => {
                self.orphans.insert(ino, self.appended.number);
                self.appended.orphans.push(ino);
                self.batch.push(Entry::Orphan { ino, encoded });
            }
            None if self.orphans.remove(&ino).is_some() => {
                self.batch.push(Entry::OrphanGone { ino });
            }
            None => {}
        }
    }

    fn push_file(&mut self, ino: Ino, facts: FileFacts) {
        let known = self.files.get(&ino).map(|(known, _)| *known).unwrap_or_default();
        if known == facts {
            return;
        }
        if facts == FileFacts::default() {
            self.files.remove(&ino);
        } else {
            self.files.insert(ino, (facts, self.appended.number));
            self.appended.files.push(ino);
        }
        self.batch.push(Entry::File { ino, facts });
    }

    fn push_pages(&mut self, ino: Ino, first: u64, bytes: Vec<Buffer>) {
        let pages = first..first + bytes.len() as u64;
        let number = self.appended.number;
        let kept = self.pages.entry(ino).or_default();
        let before = kept.len();
        kept.extend(pages.clone().map(|page| (page, number)));
        self.pages_len += (kept.len() - before) as u64;
        self.appended.pages.push((ino, pages));
        self.batch.push(Entry::Pages { ino, first, bytes });
    }

    fn push_pages_gone(&mut self, ino: Ino, pages: Range<u64>) {
        let (first, count) = (pages.start, pages.end - pages.start);
        let has_any = |kept: &BTreeMap<u64, u64>| kept.range(pages.clone()).next().is_some();
        if !self.pages.get(&ino).is_some_and(has_any) {
            return;
        }
        if let Some(kept) = self.pages.get_mut(&ino) {
            let gone: Vec<u64> = kept.range(pages).map(|(page, _)| *page).collect();
            self.pages_len -= gone.len() as u64;
            for page in gone {
                kept.remove(&page);
            }
            if kept.is_empty() {
                self.pages.remove(&ino);
            }
        }
        self.batch.push(Entry::PagesGone { ino, first, count });
    }

    pub(super) fn push_answer(&mut self, request: u64, answer: KeptAnswer) {
        self.answers.insert(request, (answer, self.appended.number));
        self.appended.answers.push(request);
        self.batch.push(Entry::Answer { request, answer });
    }
}

const _: () = assert!(BLOCK == 4096 && PAGES_MAX * BLOCK <= 1 << 20);
