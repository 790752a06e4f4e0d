//! Where figures put a journal on a bare disk, and the modes that they compare there.
//!
//! What a transaction is and what each mode writes of it is `nearhead-journal`'s, which the file system uses as well; here are names for
//! tables, and areas.

use nearhead_journal::{BareJournal, Steps, blocks_on_bare_disk, mode_named};
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

    /// What it does, as the file system does it.
    fn as_mode(self) -> &'static dyn nearhead_journal::Mode {
        // All four are built in; a test asks for each.
        mode_named(self.name()).unwrap_or(nearhead_journal::MODES[0])
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

/// A journal in `area` that was not written yet.
pub(crate) fn tail_of(area: Range<u64>) -> BareJournal {
    BareJournal::new(area, BLOCK_BYTES)
}

/// The transaction that makes the blocks at `data` durable together with the ones at `metadata`.
pub(crate) fn transaction(
    mode: Mode,
    data: &[u64],
    metadata: &[u64],
    journal: &mut BareJournal,
) -> Steps {
    blocks_on_bare_disk(mode.as_mode(), data, metadata, journal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_service::Operation;

    fn bytes(transaction: &Steps) -> u64 {
        let operations = transaction.steps.iter().flatten();
        operations
            .map(|operation| match operation {
                Operation::Write { data, .. } => data.len() as u64,
                Operation::WriteAtomic { extents, changed: _ } => {
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
            let mut tail = tail_of(journal.clone());
            let made = transaction(mode, &data, &metadata, &mut tail);
            let found = (made.steps.len(), bytes(&made) / BLOCK_BYTES, made.in_place_later.len());
            assert_eq!(found, (steps, blocks, later), "{mode:?}");
        }
    }

    #[test]
    fn the_journal_starts_again_at_its_end_and_never_leaves_its_area() {
        let area = journal_in(1 << 20);
        let mut tail = tail_of(area.clone());
        for blocks in (1..=20).cycle().take(200) {
            let at = tail.take(blocks);
            assert!(at >= area.start && at + blocks * BLOCK_BYTES <= area.end, "{at}");
        }
    }
}
