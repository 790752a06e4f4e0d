//! The room of a record: how much of it data and metadata take, and what still fits.
//!
//! What is changed, and beside it packed, is never more than one atomic write takes: every operation on the metadata is measured before it
//! counts, against what is left. What is too large for that goes in parts, or waits for the next record.

use crate::commit::Step;
use crate::core::{BLOCK, Core};
use crate::error::{ENOSPC, FsError, Halt};

/// Blocks of one atomic write, at most: the engine takes 1 MiB where logs are large enough, and as many parts as that has blocks.
const RECORD_BLOCKS_MAX: usize = 256;
/// With less than this some operation finds no room in any record.
pub(crate) const RECORD_BYTES_MIN: u64 = 64 * BLOCK;
/// Blocks of metadata that giving blocks to one run changes, and marking what is in place as written: more only where what is free is
/// scattered over many groups, and then the record ends before it is full.
const CHANGED_BY_ONE: usize = 16;

impl Core {
    /// Blocks of one record.
    pub(crate) fn record_blocks_max(&self) -> usize {
        RECORD_BLOCKS_MAX.min((self.options.record_bytes_max / BLOCK) as usize)
    }

    /// Blocks of data that go into the record that is being packed.
    fn packed_blocks(&self) -> usize {
        if self.commit.step != Step::Packing {
            return 0;
        }
        let packed = self.commit.packed.iter();
        packed.map(|packed| (packed.pages.end - packed.pages.start) as usize).sum()
    }

    /// Blocks of the next record, as it is now.
    pub(crate) fn record_len(&self) -> usize {
        self.ext4.as_ref().map_or(0, |ext4| ext4.changes_len()) + self.packed_blocks()
    }

    /// Whether not even waiting for the next one would make more room.
    pub(crate) fn is_record_empty(&self) -> bool {
        self.record_len() == 0 && self.commit.bounds.pages() == 0
    }

    /// Blocks of data that the record still takes.
    pub(crate) fn room_in_record(&self) -> u64 {
        self.record_blocks_max().saturating_sub(CHANGED_BY_ONE + self.record_len()) as u64
    }

    /// No operation changes more than the record takes beside its data, and `more` blocks of it.
    pub(crate) fn limit_changes(&mut self, more: usize) {
        let limit = self.record_blocks_max().saturating_sub(self.packed_blocks() + more);
        if let Some(ext4) = &mut self.ext4 {
            ext4.limit_changes(limit);
        }
    }

    /// Does as much of `len` as there is room for in the record, if that is not all, and says how much. Whoever waited for an empty one
    /// could wait for ever, as others change something all the time.
    pub(crate) fn in_parts(
        &mut self,
        mut len: u64,
        mut part: impl FnMut(&mut Self, u64) -> Result<(), Halt>,
    ) -> Result<u64, Halt> {
        loop {
            match part(self, len) {
                Ok(()) => return Ok(len),
                Err(Halt::Changes) if len > 1 => len = len.div_ceil(2),
                Err(halt) => return Err(halt),
            }
        }
    }

    /// Why what waits for room in a record waits for ever: not even an empty one has enough.
    pub(crate) fn outgrown(&self) -> FsError {
        let blocks = self.record_blocks_max();
        let detail = format!(
            "one operation changes more metadata than an atomic write of the volume takes: expected at most {blocks} blocks of {BLOCK} \
             bytes; what is free is scattered over too many groups"
        );
        FsError::new(ENOSPC, detail)
    }
}
