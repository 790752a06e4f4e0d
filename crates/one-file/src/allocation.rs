//! What `fallocate` on the file asks of the service.
//!
//! A loop device sends a discard, and a zeroing that may unmap, as `PUNCH_HOLE`; a zeroing that must stay allocated
//! (`BLKDEV_ZERO_NOUNMAP`) as `ZERO_RANGE`. Both read as zeros once they are answered: nothing older may come back.

use nearhead_service::Operation;
use rustix::fs::FallocateFlags;

/// The operation for `(offset, len)` with the mode bits of `fallocate(2)`; `None` for modes that a disk does not have.
///
/// The second value says that the operation is advice alone and the caller gets a refusal: where zeros are as slow as a write, a
/// discard frees what was logged, and a caller that needs zeros writes them.
pub(crate) fn operation(
    (offset, len): (u64, u64),
    mode: u32,
    zeroes_fast: bool,
) -> Option<(Operation, bool)> {
    let mode = FallocateFlags::from_bits_retain(mode);
    let may_unmap = mode.contains(FallocateFlags::PUNCH_HOLE);
    if !may_unmap && !mode.contains(FallocateFlags::ZERO_RANGE) {
        return None;
    }
    if zeroes_fast {
        let (fua, fast_only) = (false, false);
        return Some((Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap }, false));
    }
    may_unmap.then_some((Operation::Trim { offset, len, fua: false }, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_punched_hole_may_be_unmapped_and_a_zeroed_range_may_not() {
        let (punch, zero) = (FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE);
        let keep = FallocateFlags::KEEP_SIZE;
        for (mode, expected) in [(punch, true), (zero, false)] {
            let found = operation((4096, 8192), (mode | keep).bits(), true);
            let Some((Operation::WriteZeroes { offset: 4096, len: 8192, may_unmap, .. }, false)) =
                found
            else {
                panic!("{mode:?}: {found:?}")
            };
            assert_eq!(may_unmap, expected, "{mode:?}");
        }
        assert!(operation((0, 4096), keep.bits(), true).is_none());
        assert!(operation((0, 4096), 0, true).is_none());
    }

    #[test]
    fn where_zeros_are_slow_a_hole_is_advice_and_zeros_are_refused() {
        let hole = operation((0, 4096), FallocateFlags::PUNCH_HOLE.bits(), false);
        assert!(matches!(hole, Some((Operation::Trim { .. }, true))), "{hole:?}");
        assert!(operation((0, 4096), FallocateFlags::ZERO_RANGE.bits(), false).is_none());
    }
}
