//! The one gate every request passes: range, alignment, size, read-only, failed.
//!
//! Behind it offsets are multiples of the volume's block and lie inside the volume, lengths are not
//! zero, so that nothing deeper checks them again.

use crate::engine::Engine;
use nearhead_disk::Payload;
use nearhead_service::{Changed, ErrorKind, Operation, RequestError};

/// Largest read or write, in bytes.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;
/// Most extents of one atomic write.
pub const ATOMIC_EXTENTS_MAX: usize = 256;

impl Engine {
    pub(super) fn admit(&self, operation: Operation) -> Result<Operation, RequestError> {
        match &operation {
            Operation::Read { offset, len } => {
                self.check_transfer("read", *offset, u64::from(*len))?;
            }
            Operation::Write { offset, data, .. }
            | Operation::WriteInPlace { offset, data, .. } => {
                self.check_transfer("write", *offset, data.len() as u64)?;
            }
            Operation::WriteAtomic { extents, changed } => self.check_atomic(extents, changed)?,
            Operation::Trim { offset, len, .. } => self.check_range("trim", *offset, *len)?,
            Operation::WriteZeroes { offset, len, .. } => {
                self.check_range("write-zeroes", *offset, *len)?;
            }
            Operation::Hint { offset, len, .. } => self.check_range("hint", *offset, *len)?,
            Operation::Flush => {}
        }
        let changes = !matches!(operation, Operation::Read { .. } | Operation::Flush);
        if changes && self.core.setup().config.read_only {
            return Err(RequestError::new(
                ErrorKind::ReadOnly,
                "the volume is open read-only; open it without --read-only to write",
            ));
        }
        if self.core.has_failed() && !matches!(operation, Operation::Read { .. }) {
            return Err(self.core.failure_error());
        }
        if changes {
            self.check_devices(&operation)?;
        }
        Ok(operation)
    }

    /// Nothing more may be logged that could never go home: the logs would be full of it one day.
    fn check_devices(&self, operation: &Operation) -> Result<(), RequestError> {
        let check =
            |offset: u64, len: u64| self.core.given_up_under(offset, len).map_or(Ok(()), Err);
        match operation {
            Operation::Write { offset, data, .. }
            | Operation::WriteInPlace { offset, data, .. } => check(*offset, data.len() as u64),
            Operation::WriteAtomic { extents, .. } => {
                extents.iter().try_for_each(|(offset, data)| check(*offset, data.len() as u64))
            }
            Operation::WriteZeroes { offset, len, .. } => check(*offset, *len),
            Operation::Read { .. }
            | Operation::Trim { .. }
            | Operation::Hint { .. }
            | Operation::Flush => Ok(()),
        }
    }

    fn check_transfer(&self, what: &str, offset: u64, len: u64) -> Result<(), RequestError> {
        if len > REQUEST_BYTES_MAX {
            return Err(RequestError::new(
                ErrorKind::Invalid,
                format!(
                    "{what} at byte {offset}: expected at most {REQUEST_BYTES_MAX} bytes, found {len}; split it"
                ),
            ));
        }
        self.check_range(what, offset, len)
    }

    fn check_range(&self, what: &str, offset: u64, len: u64) -> Result<(), RequestError> {
        let (block, size) = (self.block_bytes(), self.size_bytes());
        if len == 0 || !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            return Err(RequestError::new(
                ErrorKind::Invalid,
                format!(
                    "{what}: expected multiples of {block} bytes, found {len} bytes at byte {offset}"
                ),
            ));
        }
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(RequestError::new(
                ErrorKind::Invalid,
                format!(
                    "{what}: {len} bytes at byte {offset} reach past the end of the volume at {size}"
                ),
            ));
        }
        Ok(())
    }

    fn check_atomic(
        &self,
        extents: &[(u64, Payload)],
        changed: &Changed,
    ) -> Result<(), RequestError> {
        let invalid = |detail: String| Err(RequestError::new(ErrorKind::Invalid, detail));
        if extents.is_empty() || extents.len() > ATOMIC_EXTENTS_MAX {
            return invalid(format!(
                "atomic write: expected 1 to {ATOMIC_EXTENTS_MAX} extents, found {}",
                extents.len()
            ));
        }
        let mut ranges = Vec::with_capacity(extents.len());
        for (offset, data) in extents {
            self.check_range("atomic write", *offset, data.len() as u64)?;
            ranges.push((*offset, *offset + data.len() as u64));
        }
        ranges.sort_unstable();
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            return invalid(format!("atomic write: extents overlap at byte {}", pair[1].0));
        }
        let total: u64 = ranges.iter().map(|(start, end)| end - start).sum();
        let max = self.atomic_bytes_max();
        if total > max {
            return invalid(format!(
                "atomic write: expected at most {max} bytes in one record, found {total}"
            ));
        }
        check_changed(&ranges, changed)
    }
}

/// What is said to be changed lies within what is written, which is sorted and does not overlap.
fn check_changed(written: &[(u64, u64)], changed: &Changed) -> Result<(), RequestError> {
    let Changed::Only(changed) = changed else { return Ok(()) };
    let mut floor = 0;
    for range in changed {
        let at = written.partition_point(|(start, _)| *start <= range.start);
        let within = at.checked_sub(1).map(|at| written[at]);
        let is_inside = within.is_some_and(|(_, end)| range.start < range.end && range.end <= end);
        if !is_inside || range.start < floor {
            let detail = format!(
                "atomic write: expected changed bytes in order and within the extents, found {} to {}",
                range.start, range.end
            );
            return Err(RequestError::new(ErrorKind::Invalid, detail));
        }
        floor = range.end;
    }
    Ok(())
}
