//! What a journaling file system asks of a block device: the writes of each mode's transactions.
//!
//! Until the project's own file system exists, figures 2 and 3 of Manylogs are run at block level
//! with these patterns. A transaction is a sequence of steps; the writes of a step are issued
//! together, and the next step waits for all of them (ext3 orders them with barriers). `D` are data
//! blocks, `M` the metadata blocks that describe them, `J` writes to the journal (Manylogs IV-A,
//! IV-B, IV-C):
//!
//! | mode | steps of a sync | later, in place |
//! |---|---|---|
//! | ordered | `D`, each in its place; `J`: descriptor and `M`; `J`: commit block | `M` |
//! | data, adaptive | `J`: descriptor, `D` and `M`; `J`: commit block | `D`, `M` |
//! | manylogs | one atomic record of `D` and `M`, where the engine puts it | nothing: off-hours |
//!
//! Data journaling and adaptive journaling differ in big sequential writes only: the first puts
//! them through the journal too.

use nearhead_disk::Payload;
use nearhead_service::Operation;
use std::ops::Range;

/// Block of the file system and of its journal, in bytes.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Size of the journal (Manylogs V-A: 5 GB, "to fairly match" the logs).
pub(crate) const JOURNAL_BYTES: u64 = 5_000_000_000 / BLOCK_BYTES * BLOCK_BYTES;
/// Half of a journal, for each of the two who append to it.
const SHARE_BYTES: u64 = JOURNAL_BYTES / 2 / BLOCK_BYTES * BLOCK_BYTES;

/// A journaling mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Linux ext3's default.
    Ordered,
    /// Everything through the journal.
    Data,
    /// Random writes through the journal, sequential ones not.
    Adaptive,
    /// Small writes to the log nearest the head.
    Manylogs,
}

impl Mode {
    /// As it is called in tables and in `data/papers.toml`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Data => "data",
            Self::Adaptive => "adaptive",
            Self::Manylogs => "manylogs",
        }
    }

    /// Whether big sequential writes go through the journal, too.
    pub(crate) const fn journals_bulk(self) -> bool {
        matches!(self, Self::Data)
    }
}

/// Where the journal is: around the middle of a disk of `size_bytes`, as `mke2fs` puts it.
pub(crate) fn journal_in(size_bytes: u64) -> Range<u64> {
    let len = JOURNAL_BYTES.min(size_bytes / 4 / BLOCK_BYTES * BLOCK_BYTES);
    let start = (size_bytes / 2).saturating_sub(len / 2) / BLOCK_BYTES * BLOCK_BYTES;
    start..start + len
}

/// The part of `journal` that transactions of small writes append to, and the part for bulk data.
pub(crate) fn shares_of(journal: &Range<u64>) -> (Range<u64>, Range<u64>) {
    let middle = journal.start
        + SHARE_BYTES.min((journal.end - journal.start) / 2 / BLOCK_BYTES * BLOCK_BYTES);
    (journal.start..middle, middle..journal.end)
}

/// The place where a journal is written next.
#[derive(Clone, Debug)]
pub(crate) struct JournalTail {
    area: Range<u64>,
    next: u64,
}

impl JournalTail {
    /// At the start of `area`.
    pub(crate) fn new(area: Range<u64>) -> Self {
        Self { next: area.start, area }
    }

    /// Takes `blocks` next to each other, from the start again if they do not fit before the end.
    pub(crate) fn take(&mut self, blocks: u64) -> u64 {
        let len = blocks * BLOCK_BYTES;
        if self.next + len > self.area.end {
            self.next = self.area.start;
        }
        let at = self.next;
        self.next += len;
        at
    }
}

/// The writes of one transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    /// Step after step.
    pub steps: Vec<Vec<Operation>>,
    /// Blocks that are to be written in place later.
    pub in_place_later: Vec<u64>,
}

fn write(offset: u64, blocks: u64) -> Operation {
    let data = Payload::Phantom((blocks * BLOCK_BYTES) as usize);
    Operation::Write { offset, data, fua: true }
}

/// The transaction that makes the blocks at `data` durable together with the ones at `metadata`.
pub(crate) fn transaction(
    mode: Mode,
    data: &[u64],
    metadata: &[u64],
    journal: &mut JournalTail,
) -> Transaction {
    let (data_count, metadata_count) = (data.len() as u64, metadata.len() as u64);
    let in_place = |blocks: &[u64]| blocks.iter().map(|offset| write(*offset, 1)).collect();
    let mut journaled = |blocks: u64| {
        let body = write(journal.take(1 + blocks), 1 + blocks);
        let commit = write(journal.take(1), 1);
        [vec![body], vec![commit]]
    };
    match mode {
        Mode::Ordered => {
            let mut steps: Vec<Vec<Operation>> = vec![in_place(data)];
            steps.extend(journaled(metadata_count));
            Transaction { steps, in_place_later: metadata.to_vec() }
        }
        Mode::Data | Mode::Adaptive => Transaction {
            steps: journaled(data_count + metadata_count).into(),
            in_place_later: [data, metadata].concat(),
        },
        Mode::Manylogs => {
            let block = || Payload::Phantom(BLOCK_BYTES as usize);
            let blocks = data.iter().chain(metadata);
            let extents = blocks.map(|offset| (*offset, block())).collect();
            Transaction {
                steps: vec![vec![Operation::WriteAtomic { extents }]],
                in_place_later: Vec::new(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(transaction: &Transaction) -> u64 {
        let operations = transaction.steps.iter().flatten();
        operations
            .map(|operation| match operation {
                Operation::Write { data, .. } => data.len() as u64,
                Operation::WriteAtomic { extents } => {
                    extents.iter().map(|(_, data)| data.len() as u64).sum()
                }
                other => panic!("{other:?}"),
            })
            .sum()
    }

    #[test]
    fn each_mode_writes_what_its_definition_says() {
        let (data, metadata) = ([1 << 20, 2 << 20], [3 << 20, 4 << 20]);
        let journal = journal_in(100 << 30);
        let expected = [
            // D D, descriptor M M, commit; then M M.
            (Mode::Ordered, 3, 6, 2),
            (Mode::Data, 2, 6, 4),
            (Mode::Adaptive, 2, 6, 4),
            (Mode::Manylogs, 1, 4, 0),
        ];
        for (mode, steps, blocks, later) in expected {
            let mut tail = JournalTail::new(journal.clone());
            let made = transaction(mode, &data, &metadata, &mut tail);
            let found = (made.steps.len(), bytes(&made) / BLOCK_BYTES, made.in_place_later.len());
            assert_eq!(found, (steps, blocks, later), "{mode:?}");
        }
    }

    #[test]
    fn the_journal_starts_again_at_its_end_and_never_leaves_its_area() {
        let area = journal_in(1 << 20);
        let mut tail = JournalTail::new(area.clone());
        for blocks in (1..=20).cycle().take(200) {
            let at = tail.take(blocks);
            assert!(at >= area.start && at + blocks * BLOCK_BYTES <= area.end, "{at}");
        }
    }
}
