//! Free blocks, for whoever tells the disk that nobody needs what is in them.
//!
//! Only blocks that are free in every state that may come back after a crash: what a transaction freed that is not settled is not among
//! them. Nobody is given a block between the two calls.

use crate::Ext4;
use crate::error::Outcome;
use crate::transaction::Transaction;
use std::ops::Range;

impl Ext4 {
    /// The next free blocks within `range`, at least `min` and at most `max` in a row. They stay free until [`Ext4::end_trim`].
    pub fn begin_trim(
        &mut self,
        range: Range<u64>,
        min: u64,
        max: u64,
    ) -> Outcome<Option<Range<u64>>> {
        let found = self.run(|transaction| transaction.next_free(range, min));
        let found = found?.map(|run| run.start..run.end.min(run.start + max));
        self.trimming.extend(found.clone());
        Ok(found)
    }

    /// They may be used again.
    pub fn end_trim(&mut self, range: &Range<u64>) {
        self.trimming.retain(|other| other != range);
    }
}

impl Transaction<'_> {
    fn next_free(&mut self, range: Range<u64>, min: u64) -> Outcome<Option<Range<u64>>> {
        let end = range.end.min(self.fs.geometry.blocks);
        let mut from = range.start;
        while from < end {
            let group = self.fs.geometry.group_of(from);
            let first = self.fs.geometry.first_of(group);
            let part_end = end.min(first + u64::from(self.fs.geometry.blocks_in(group)));
            if u64::from(self.descriptor(group)?.free_blocks) >= min.max(1) {
                let bits = self.block_bitmap(group)?;
                while let Some(run) = self.next_run(&*bits, first, from..part_end) {
                    if run.end - run.start >= min {
                        return Ok(Some(run));
                    }
                    from = run.end;
                }
            }
            from = part_end;
        }
        Ok(None)
    }
}
