//! Writing a snapshot's body piece by piece, straight into the buffers that go to the disk.

use super::item::{BODY_ALIGN, BodyItem, BodySummary, ITEM_BYTES_MAX, Order};
use crate::ENTRY_BYTES;
use crate::bytes::FieldError;
use crate::crc::crc32c_append;

/// Turns items into pieces of a body. Holds at most one item that a piece had no room for.
#[derive(Clone, Debug)]
pub struct BodyWriter {
    order: Order,
    summary: BodySummary,
    /// End of an item whose start went into the previous piece, at the end of the array.
    carry: [u8; ITEM_BYTES_MAX],
    carry_len: usize,
    finished: bool,
}

impl Default for BodyWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl BodyWriter {
    /// A writer at the start of a body.
    pub fn new() -> Self {
        Self {
            order: Order::default(),
            summary: BodySummary::default(),
            carry: [0; ITEM_BYTES_MAX],
            carry_len: 0,
            finished: false,
        }
    }

    /// Fills `piece`, a multiple of 4096 bytes long, with the next items and says how many bytes
    /// were filled: all of it, or less (a multiple of 4096) once `items` is exhausted; then the
    /// body is complete and every later call gives 0. Pass the same `items` every time.
    ///
    /// Errors name an item that is invalid or out of order; the snapshot must then be given up.
    ///
    /// # Panics
    /// If `piece` is not a multiple of 4096 bytes long.
    pub fn fill(
        &mut self,
        piece: &mut [u8],
        items: &mut impl Iterator<Item = BodyItem>,
    ) -> Result<usize, FieldError> {
        assert!(piece.len().is_multiple_of(BODY_ALIGN as usize), "piece of {}", piece.len());
        if self.finished {
            return Ok(0);
        }
        let mut filled = self.put_carry(piece);
        while filled < piece.len() {
            let Some(item) = items.next() else {
                self.finished = true;
                let end = filled.next_multiple_of(BODY_ALIGN as usize);
                piece[filled..end].fill(0);
                filled = end;
                break;
            };
            filled += self.put_item(&item, &mut piece[filled..])?;
        }
        self.summary.body_crc = crc32c_append(self.summary.body_crc, &piece[..filled]);
        self.summary.body_bytes += filled as u64;
        Ok(filled)
    }

    /// What the header must say about the body; `None` until it is complete.
    pub fn summary(&self) -> Option<BodySummary> {
        self.finished.then_some(self.summary)
    }

    fn put_carry(&mut self, piece: &mut [u8]) -> usize {
        let len = self.carry_len.min(piece.len());
        let start = ITEM_BYTES_MAX - self.carry_len;
        piece[..len].copy_from_slice(&self.carry[start..start + len]);
        self.carry_len -= len;
        len
    }

    /// Writes as much of the item as there is room for and keeps the rest.
    #[inline]
    fn put_item(&mut self, item: &BodyItem, room: &mut [u8]) -> Result<usize, FieldError> {
        self.order.check(item)?;
        self.count(item);
        if let BodyItem::Entry(entry) = item
            && let Some(room) = room.first_chunk_mut::<ENTRY_BYTES>()
        {
            // Nearly all items: whole, and of a size the compiler knows.
            *room = entry.encode();
            return Ok(ENTRY_BYTES);
        }
        let mut bytes = [0; ITEM_BYTES_MAX];
        let len = item.encode(&mut bytes);
        let now = len.min(room.len());
        room[..now].copy_from_slice(&bytes[..now]);
        let rest = &bytes[now..len];
        self.carry_len = rest.len();
        self.carry[ITEM_BYTES_MAX - rest.len()..].copy_from_slice(rest);
        Ok(now)
    }

    #[inline]
    fn count(&mut self, item: &BodyItem) {
        match item {
            BodyItem::Entry(_) => self.summary.entry_count += 1,
            BodyItem::Log(_) => self.summary.log_count += 1,
            BodyItem::Claim(_) => self.summary.claim_count += 1,
            BodyItem::Hint(_) => self.summary.hint_count += 1,
            BodyItem::Fragment(_) => self.summary.fragment_count += 1,
        }
    }
}
