//! Buffers that are used again: fresh memory costs a page fault for every 4 KiB.
//!
//! A front takes a buffer for each payload that it receives and gives it back with the reply. The
//! old content is always overwritten, and what somebody still holds is never handed out. What is
//! kept is bounded.

use crate::{ALIGN_BYTES, Buffer, BufferMut};

/// Memory kept for reuse in each class of sizes, in bytes, so that no size crowds out another.
const CLASS_BYTES_MAX: usize = 8 << 20;

/// Buffers kept have 2^n pages, n below this: up to 4 MiB.
const CLASSES: usize = 11;

/// Buffers that were used and may be used again.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: [Vec<BufferMut>; CLASSES],
}

fn class_of(pages: usize) -> Option<usize> {
    let class = pages.ilog2() as usize;
    (pages.is_power_of_two() && class < CLASSES).then_some(class)
}

impl BufferPool {
    /// A buffer of `bytes` or more (whole pages), whose content is anything.
    pub fn take(&mut self, bytes: usize) -> BufferMut {
        let pages = bytes.div_ceil(ALIGN_BYTES).max(1);
        let kept = class_of(pages).and_then(|class| self.free[class].pop());
        kept.unwrap_or_else(|| BufferMut::zeroed(pages * ALIGN_BYTES))
    }

    /// Keeps `buffer` for later if nobody else holds it.
    pub fn recycle(&mut self, buffer: Buffer) {
        let Some(buffer) = buffer.try_reclaim() else { return };
        let len = buffer.len();
        if len > 0
            && let Some(class) = class_of(len / ALIGN_BYTES)
            && (self.free[class].len() + 1) * len <= CLASS_BYTES_MAX
        {
            self.free[class].push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_buffers_nobody_else_holds_are_used_again() {
        let mut pool = BufferPool::default();
        let buffer = pool.take(5000).freeze();
        let (memory, other) = (buffer.as_ptr(), buffer.clone());
        pool.recycle(buffer);
        assert_ne!(pool.take(8192).as_ptr(), memory);
        pool.recycle(other);
        assert_eq!(pool.take(8192).as_ptr(), memory);
    }
}
