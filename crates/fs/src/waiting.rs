//! Who waits for what: clients' requests, the commit and write-outs, each until something is there.
//!
//! Whoever is woken tries again from the beginning; so waking too many is slow and never wrong, and waking too few is what must not be.

use nearhead_ext4::Ino;
use std::collections::BTreeMap;

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waiter {
    /// Opening the file system.
    Mount,
    /// A client's request.
    Job(u32),
    /// A write-out.
    WriteOut(u32),
    /// The commit.
    Commit,
    /// What is left of large files that are gone.
    Rest,
}

/// All who wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    blocks: BTreeMap<u64, Vec<Waiter>>,
    pages: BTreeMap<(Ino, u64), Vec<Waiter>>,
    /// How many blocks each still waits for.
    missing: BTreeMap<Waiter, usize>,
    mount: Vec<Waiter>,
    room: Vec<Waiter>,
    quiet: BTreeMap<Ino, Vec<Waiter>>,
    settling: Vec<Waiter>,
    changes: Vec<Waiter>,
    record: Vec<Waiter>,
    commits: BTreeMap<u64, Vec<Waiter>>,
}

impl Waiting {
    /// Says which of the blocks nobody has asked for yet.
    pub(crate) fn for_blocks(&mut self, who: Waiter, blocks: &[u64]) -> Vec<u64> {
        let mut new = Vec::new();
        let mut missing = 0;
        for block in blocks {
            let waiters = self.blocks.entry(*block).or_default();
            if waiters.is_empty() {
                new.push(*block);
            }
            if !waiters.contains(&who) {
                waiters.push(who);
                missing += 1;
            }
        }
        *self.missing.entry(who).or_default() += missing;
        new
    }

    /// Until a page is there, or is found not to be read any more.
    pub(crate) fn for_page(&mut self, who: Waiter, ino: Ino, page: u64) {
        self.pages.entry((ino, page)).or_default().push(who);
    }

    /// Until the file system is open.
    pub(crate) fn for_mount(&mut self, who: Waiter) {
        self.mount.push(who);
    }

    pub(crate) fn mounted(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.mount)
    }

    pub(crate) fn for_room(&mut self, who: Waiter) {
        self.room.push(who);
    }

    /// Until what is changed now is on its way.
    pub(crate) fn for_changes(&mut self, who: Waiter) {
        self.changes.push(who);
    }

    /// Whether anybody waits for room in a record.
    pub(crate) fn awaits_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    pub(crate) fn changes_taken(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.changes)
    }

    /// Until the record that is about to be made is.
    pub(crate) fn for_record(&mut self, who: Waiter) {
        self.record.push(who);
    }

    pub(crate) fn record_made(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.record)
    }

    /// Until nothing of a file is on its way.
    pub(crate) fn for_quiet(&mut self, who: Waiter, ino: Ino) {
        self.quiet.entry(ino).or_default().push(who);
    }

    /// Whether a request waits until some file has nothing on its way.
    pub(crate) fn awaits_quiet(&self) -> bool {
        !self.quiet.is_empty()
    }

    /// The same for this file.
    pub(crate) fn awaits_quiet_of(&self, ino: Ino) -> bool {
        self.quiet.contains_key(&ino)
    }

    /// Until what was freed may be used again.
    pub(crate) fn for_settling(&mut self, who: Waiter) {
        self.settling.push(who);
    }

    pub(crate) fn settled(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.settling)
    }

    /// Until the commit of this number is durable.
    pub(crate) fn for_commit(&mut self, who: Waiter, number: u64) {
        self.commits.entry(number).or_default().push(who);
    }

    /// A block is there: those who wait for no other.
    pub(crate) fn block_came(&mut self, block: u64) -> Vec<Waiter> {
        let mut ready = Vec::new();
        for who in self.blocks.remove(&block).unwrap_or_default() {
            let Some(missing) = self.missing.get_mut(&who) else { continue };
            *missing = missing.saturating_sub(1);
            if *missing == 0 {
                self.missing.remove(&who);
                ready.push(who);
            }
        }
        ready
    }

    pub(crate) fn page_came(&mut self, ino: Ino, page: u64) -> Vec<Waiter> {
        self.pages.remove(&(ino, page)).unwrap_or_default()
    }

    pub(crate) fn room_came(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.room)
    }

    pub(crate) fn quiet_came(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.quiet).into_values().flatten().collect()
    }

    /// All commits up to this one are durable.
    pub(crate) fn committed(&mut self, number: u64) -> Vec<Waiter> {
        let later = self.commits.split_off(&(number + 1));
        std::mem::replace(&mut self.commits, later).into_values().flatten().collect()
    }

    /// Whether anybody waits for a commit.
    pub(crate) fn wants_commit(&self, number: u64) -> bool {
        self.commits.range(number..).next().is_some()
    }

    /// Everybody, because nothing will come any more.
    pub(crate) fn all(&mut self) -> Vec<Waiter> {
        let mut all: Vec<Waiter> = std::mem::take(&mut self.missing).into_keys().collect();
        self.blocks.clear();
        all.extend(std::mem::take(&mut self.pages).into_values().flatten());
        all.append(&mut self.mount);
        all.append(&mut self.room);
        all.append(&mut self.quiet_came());
        all.append(&mut self.settling);
        all.append(&mut self.changes);
        all.append(&mut self.record);
        all.extend(std::mem::take(&mut self.commits).into_values().flatten());
        all
    }
}
