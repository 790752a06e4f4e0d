//! Bytes that came and were not yet understood.
//!
//! A connection that idles holds no memory: the large staging buffer is lent for the duration of
//! one receive and given back, unless a part of a message stays behind in it; a short part moves
//! to a small buffer of its own.

/// Size of the staging buffer, in bytes. Any option this server looks at, and a batch of requests,
/// fit into it.
pub const STAGING_BYTES: usize = 64 * 1024;

/// A part of a message up to this size moves out of the staging buffer, so that it can be given
/// back.
const REST_BYTES_MAX: usize = 1024;

/// Received bytes, and room for more.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// What waits to be understood.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start);
        self.start += len;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room for at most `len` more bytes, at least one if the staging buffer is not full.
    pub(crate) fn room(&mut self, staging: &mut Vec<u8>, len: usize) -> &mut [u8] {
        self.borrow_staging(staging);
        let free = STAGING_BYTES - self.end;
        &mut self.bytes[self.end..self.end + free.min(len)]
    }

    /// Books `len` bytes written into [`Inbox::room`].
    pub(crate) fn received(&mut self, len: usize) {
        self.end += len;
        debug_assert!(self.end <= self.bytes.len());
    }

    fn borrow_staging(&mut self, staging: &mut Vec<u8>) {
        if self.bytes.len() < STAGING_BYTES {
            staging.resize(STAGING_BYTES, 0);
            let waiting = self.end - self.start;
            staging[..waiting].copy_from_slice(&self.bytes[self.start..self.end]);
            self.bytes = std::mem::take(staging);
            (self.start, self.end) = (0, waiting);
        } else if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    /// Gives the staging buffer back to `staging` if little or nothing stays behind.
    pub(crate) fn settle(&mut self, staging: &mut Vec<u8>) {
        if self.bytes.len() < STAGING_BYTES || self.end - self.start > REST_BYTES_MAX {
            return;
        }
        let rest = self.waiting().to_vec();
        *staging = std::mem::replace(&mut self.bytes, rest);
        (self.start, self.end) = (0, self.bytes.len());
    }

    /// Bytes of memory held.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_message_survives_giving_the_staging_buffer_back() {
        let (mut inbox, mut staging) = (Inbox::default(), Vec::new());
        inbox.room(&mut staging, 100)[..10].copy_from_slice(b"0123456789");
        inbox.received(10);
        inbox.consume(4);
        inbox.settle(&mut staging);
        assert_eq!(staging.len(), STAGING_BYTES);
        assert!(inbox.held_bytes() < 64, "an idle connection holds {}", inbox.held_bytes());
        inbox.room(&mut staging, 100)[..2].copy_from_slice(b"ab");
        inbox.received(2);
        assert_eq!(inbox.waiting(), b"456789ab");
    }

    #[test]
    fn the_staging_buffer_comes_back_whole_unless_a_long_part_of_a_message_is_in_it() {
        let bytes: Vec<u8> = (0..STAGING_BYTES).map(|at| (at % 251) as u8).collect();
        for understood in [0, 1, 3000, STAGING_BYTES - 5000] {
            for rest in [0, 1, REST_BYTES_MAX - 1, REST_BYTES_MAX, REST_BYTES_MAX + 1, 5000] {
                let (mut inbox, mut staging) = (Inbox::default(), Vec::new());
                let len = understood + rest;
                inbox.room(&mut staging, usize::MAX)[..len].copy_from_slice(&bytes[..len]);
                inbox.received(len);
                inbox.consume(understood);
                // Also when there is nothing to be given back.
                for _ in 0..2 {
                    inbox.settle(&mut staging);
                    let is_back = rest <= REST_BYTES_MAX;
                    assert_eq!(staging.len(), if is_back { STAGING_BYTES } else { 0 }, "{rest}");
                    assert_eq!(inbox.held_bytes(), if is_back { rest } else { STAGING_BYTES });
                    assert_eq!(inbox.waiting(), &bytes[understood..len]);
                }
                let room = inbox.room(&mut staging, usize::MAX).len();
                assert_eq!(room, STAGING_BYTES - rest, "{rest} bytes behind {understood}");
                assert_eq!(inbox.waiting(), &bytes[understood..len]);
            }
        }
    }
}
