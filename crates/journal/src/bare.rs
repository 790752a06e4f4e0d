//! The same transactions on a bare disk with a journal of the usual kind: an area that is written in turn, a descriptor before the
//! blocks of a transaction and a commit block behind them. What the modes are compared with at block level.
//!
//! The steps of a sync follow one another, and the writes of one step are issued together (ext3 orders them with barriers). `D` are
//! data blocks, `M` the metadata blocks that describe them, `J` writes to the journal (Manylogs IV-A, IV-B, IV-C). Data are whole blocks
//! here: no mode has a fragment to pack.
//!
//! | mode | steps of a sync | later, in place |
//! |---|---|---|
//! | ordered, selective | `D`, each in its place; `J`: descriptor and `M`; `J`: commit block | `M` |
//! | data, adaptive, wasteless | `J`: descriptor, `D` and `M`; `J`: commit block | `D`, `M` |
//! | manylogs, nearhead | one atomic record of `D` and `M`, where the engine puts it | nothing: off-hours |

use crate::mode::{Mode, Placement};
use nearhead_disk::Payload;
use nearhead_service::{Changed, Operation};
use std::ops::Range;

/// The place where a journal of a bare disk is written next.
#[derive(Clone, Debug)]
pub struct BareJournal {
    area: Range<u64>,
    next: u64,
    block_bytes: u64,
}

impl BareJournal {
    /// At the start of `area`, in blocks of so many bytes.
    pub fn new(area: Range<u64>, block_bytes: u64) -> Self {
        Self { next: area.start, area, block_bytes }
    }

    /// Takes `blocks` next to each other, from the start again if they do not fit before the end.
    pub fn take(&mut self, blocks: u64) -> u64 {
        let len = blocks * self.block_bytes;
        if self.next + len > self.area.end {
            self.next = self.area.start;
        }
        let at = self.next;
        self.next += len;
        at
    }

    fn write(&self, offset: u64, blocks: u64) -> Operation {
        let data = Payload::Phantom((blocks * self.block_bytes) as usize);
        Operation::Write { offset, data, fua: true }
    }

    /// A descriptor with so many blocks behind it, then the commit block.
    fn journaled(&mut self, blocks: u64) -> [Vec<Operation>; 2] {
        let (body, commit) = (self.take(1 + blocks), self.take(1));
        [vec![self.write(body, 1 + blocks)], vec![self.write(commit, 1)]]
    }
}

/// The writes of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Step after step.
    pub steps: Vec<Vec<Operation>>,
    /// Blocks that are to be written in place later.
    pub in_place_later: Vec<u64>,
}

/// The transaction that makes single blocks at `data` durable together with the ones at `metadata`, by their lengths alone.
pub fn blocks_on_bare_disk(
    mode: &dyn Mode,
    data: &[u64],
    metadata: &[u64],
    journal: &mut BareJournal,
) -> Steps {
    let block_bytes = journal.block_bytes;
    if mode.is_near_head() {
        let block = || Payload::Phantom(block_bytes as usize);
        let extents = data.iter().chain(metadata).map(|offset| (*offset, block())).collect();
        let steps = vec![vec![Operation::WriteAtomic { extents, changed: Changed::All }]];
        return Steps { steps, in_place_later: Vec::new() };
    }
    match mode.data(block_bytes, block_bytes) {
        Placement::InPlace => {
            let in_place = data.iter().map(|offset| journal.write(*offset, 1)).collect();
            let mut steps: Vec<Vec<Operation>> = vec![in_place];
            steps.extend(journal.journaled(metadata.len() as u64));
            Steps { steps, in_place_later: metadata.to_vec() }
        }
        Placement::Record => Steps {
            steps: journal.journaled((data.len() + metadata.len()) as u64).into(),
            in_place_later: [data, metadata].concat(),
        },
    }
}
