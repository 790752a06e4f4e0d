//! Memory for reads, used again where that saves time.
//!
//! A large fresh allocation costs a page fault for every 4 KiB, more than the copy it avoids, so
//! large buffers that were handed out are remembered and taken back once the reader dropped them.
//! Small ones come from the allocator, which is as fast. Whatever is remembered is bounded.

use nearhead_disk::{ALIGN_BYTES, Buffer, BufferMut, Payload};
use std::collections::VecDeque;

/// Smaller buffers are not worth remembering.
const WORTH_KEEPING_BYTES: usize = 32 * 1024;
const KEPT_BYTES_MAX: usize = 32 << 20;
const KEPT_COUNT_MAX: usize = 256;

/// Buffers that readers hold, oldest first.
#[derive(Default)]
pub(crate) struct ReadPool {
    lent: VecDeque<Buffer>,
    lent_bytes: usize,
}

impl ReadPool {
    /// Memory for a read of `len` bytes. Its length is `len` rounded up to whole pages or `len`;
    /// its content is arbitrary.
    pub(crate) fn take(&mut self, len: usize) -> BufferMut {
        let pages_len = len.next_multiple_of(ALIGN_BYTES);
        if len >= WORTH_KEEPING_BYTES
            && let Some(index) = self.lent.iter().position(|lent| lent.len() == pages_len)
            && let Some(buffer) = self.forget(index).and_then(Buffer::try_reclaim)
        {
            return buffer;
        }
        BufferMut::zeroed(if len >= WORTH_KEEPING_BYTES { pages_len } else { len })
    }

    /// The first `len` bytes of `buffer` for the reader; the memory may come back later.
    pub(crate) fn lend(&mut self, buffer: BufferMut, len: usize) -> Payload {
        let buffer = buffer.freeze();
        let lent = buffer.slice(0..len);
        if buffer.len() >= WORTH_KEEPING_BYTES && buffer.len() <= KEPT_BYTES_MAX {
            while self.lent.len() >= KEPT_COUNT_MAX
                || self.lent_bytes + buffer.len() > KEPT_BYTES_MAX
            {
                self.forget(0);
            }
            self.lent_bytes += buffer.len();
            self.lent.push_back(buffer);
        }
        Payload::Bytes(lent)
    }

    fn forget(&mut self, index: usize) -> Option<Buffer> {
        let lent = self.lent.remove(index)?;
        self.lent_bytes -= lent.len();
        Some(lent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address_of(payload: &Payload) -> *const u8 {
        match payload {
            Payload::Bytes(buffer) => buffer.as_ptr(),
            other => panic!("expected bytes, found {other:?}"),
        }
    }

    #[test]
    fn memory_that_a_reader_dropped_is_used_again() {
        let mut pool = ReadPool::default();
        let buffer = pool.take(1 << 20);
        let read = pool.lend(buffer, 1 << 20);
        let address = address_of(&read);
        drop(read);
        assert_eq!(pool.take(1 << 20).as_ptr(), address);
    }

    #[test]
    fn memory_that_a_reader_still_holds_is_left_alone() {
        let mut pool = ReadPool::default();
        let mut buffer = pool.take(1 << 20);
        buffer.fill(7);
        let held = pool.lend(buffer, 1 << 20);
        let mut other = pool.take(1 << 20);
        other.fill(9);
        assert_ne!(other.as_ptr(), address_of(&held));
        assert!(matches!(held, Payload::Bytes(bytes) if bytes.iter().all(|byte| *byte == 7)));
    }

    #[test]
    fn small_memory_is_as_long_as_the_read_and_large_memory_is_whole_pages() {
        let mut pool = ReadPool::default();
        for (len, expected) in [(512, 512), (1000, 1000), (32 << 10, 32 << 10), (33_000, 36_864)] {
            assert_eq!(pool.take(len).len(), expected, "{len} bytes");
        }
    }

    #[test]
    fn what_is_small_or_larger_than_all_that_is_kept_is_not_remembered() {
        let mut pool = ReadPool::default();
        for (len, is_kept) in [
            (WORTH_KEEPING_BYTES - 512, false),
            (WORTH_KEEPING_BYTES, true),
            (KEPT_BYTES_MAX, true),
            (KEPT_BYTES_MAX + ALIGN_BYTES, false),
        ] {
            let before = pool.lent.len();
            let buffer = pool.take(len);
            drop(pool.lend(buffer, len));
            assert_eq!(pool.lent.back().is_some_and(|last| last.len() == len), is_kept, "{len}");
            assert!(is_kept || pool.lent.len() == before, "{len}: nothing else has to go for it");
        }
    }

    #[test]
    fn as_much_is_remembered_as_may_be() {
        let mut pool = ReadPool::default();
        let len = KEPT_BYTES_MAX / 4;
        for count in [1, 2, 3, 4, 4] {
            // What is lent already is not used for it.
            let payload = pool.lend(BufferMut::zeroed(len), len);
            assert_eq!(pool.lent.len(), count);
            drop(payload);
        }
        for _ in 0..2 * KEPT_COUNT_MAX {
            drop(pool.lend(BufferMut::zeroed(WORTH_KEEPING_BYTES), WORTH_KEEPING_BYTES));
        }
        assert_eq!(pool.lent.len(), KEPT_COUNT_MAX);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut pool = ReadPool::default();
        for round in 0..1000_usize {
            let len = WORTH_KEEPING_BYTES * (1 + round % 40);
            let buffer = pool.take(len);
            drop(pool.lend(buffer, len));
            assert!(pool.lent_bytes <= KEPT_BYTES_MAX && pool.lent.len() <= KEPT_COUNT_MAX);
            assert_eq!(pool.lent_bytes, pool.lent.iter().map(|b| b.len()).sum::<usize>());
        }
    }
}
