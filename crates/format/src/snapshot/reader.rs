//! Reading a snapshot's body piece by piece.
//!
//! Items are handed on as they are read, before the checksum over the whole body is known:
//! **nothing of them may be used before [`BodyReader::finish`] has said that the body is sound.**

use super::error::SnapshotError;
use super::item::{BodyItem, BodySummary, ITEM_BYTES, ITEM_BYTES_MAX, Order, SECTIONS};
use crate::Entry;
use crate::block::check_zero;
use crate::bytes::FieldError;
use crate::crc::crc32c_append;
use nearhead_basics::little_endian::array_at;

/// Turns pieces of a body into items. Holds at most one item that is split between two pieces.
#[derive(Clone, Debug)]
pub struct BodyReader {
    order: Order,
    expected: BodySummary,
    section: usize,
    /// Items still to come of each section.
    left: [u64; SECTIONS],
    /// Start of an item whose end is in the next piece.
    carry: [u8; ITEM_BYTES_MAX],
    carry_len: usize,
    fed_bytes: u64,
    crc: u32,
}

impl BodyReader {
    /// A reader of the body that a sound header describes.
    pub fn new(expected: BodySummary) -> Self {
        Self {
            order: Order::default(),
            expected,
            section: 0,
            left: expected.counts(),
            carry: [0; ITEM_BYTES_MAX],
            carry_len: 0,
            fed_bytes: 0,
            crc: 0,
        }
    }

    /// Bytes of the body that have not been fed yet.
    pub fn bytes_left(&self) -> u64 {
        self.expected.body_bytes.saturating_sub(self.fed_bytes)
    }

    /// Reads the next `piece`, of any length, and gives every item that it completes to `sink`.
    /// After an error the reader is of no further use.
    pub fn feed(
        &mut self,
        piece: &[u8],
        sink: &mut impl FnMut(BodyItem),
    ) -> Result<(), SnapshotError> {
        if piece.len() as u64 > self.bytes_left() {
            let found = self.fed_bytes.saturating_add(piece.len() as u64);
            return Err(SnapshotError::Length { expected: self.expected.body_bytes, found });
        }
        self.fed_bytes += piece.len() as u64;
        self.crc = crc32c_append(self.crc, piece);
        let rest = self.complete_carry(piece, sink)?;
        let rest = self.read_items(rest, sink)?;
        if self.item_bytes().is_some() {
            self.carry[self.carry_len..self.carry_len + rest.len()].copy_from_slice(rest);
            self.carry_len += rest.len();
        } else {
            check_zero("body padding", rest)?;
        }
        Ok(())
    }

    /// Says whether all that was fed is the body the header described.
    pub fn finish(self) -> Result<(), SnapshotError> {
        if self.fed_bytes != self.expected.body_bytes || self.left != [0; SECTIONS] {
            let (expected, found) = (self.expected.body_bytes, self.fed_bytes);
            return Err(SnapshotError::Length { expected, found });
        }
        if self.crc != self.expected.body_crc {
            let (expected, found) = (self.crc, self.expected.body_crc);
            return Err(SnapshotError::BodyChecksum { expected, found });
        }
        Ok(())
    }

    /// Size of the next item; `None` when only padding is left.
    #[inline]
    fn item_bytes(&mut self) -> Option<usize> {
        while self.left.get(self.section) == Some(&0) {
            self.section += 1;
        }
        ITEM_BYTES.get(self.section).copied()
    }

    /// Adds to a split item what it lacks; gives what remains of the piece.
    fn complete_carry<'a>(
        &mut self,
        piece: &'a [u8],
        sink: &mut impl FnMut(BodyItem),
    ) -> Result<&'a [u8], FieldError> {
        let Some(size) = self.item_bytes() else { return Ok(piece) };
        if self.carry_len == 0 {
            return Ok(piece);
        }
        let (more, rest) = piece.split_at((size - self.carry_len).min(piece.len()));
        self.carry[self.carry_len..self.carry_len + more.len()].copy_from_slice(more);
        self.carry_len += more.len();
        if self.carry_len == size {
            let carry = self.carry;
            self.carry_len = 0;
            self.take_item(&carry[..size], sink)?;
        }
        Ok(rest)
    }

    /// Reads the items that are whole in `bytes`; gives what remains.
    fn read_items<'a>(
        &mut self,
        mut bytes: &'a [u8],
        sink: &mut impl FnMut(BodyItem),
    ) -> Result<&'a [u8], FieldError> {
        while let Some(size) = self.item_bytes() {
            let Some((item, rest)) = bytes.split_at_checked(size) else { break };
            self.take_item(item, sink)?;
            bytes = rest;
        }
        Ok(bytes)
    }

    #[inline]
    fn take_item(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(BodyItem),
    ) -> Result<(), FieldError> {
        self.left[self.section] -= 1;
        if self.section == 0 {
            // Nearly all items: much smaller than the largest, so none is handed about as one of those.
            let entry = Entry::decode(&array_at(bytes, 0))?;
            self.order.check_entry(&entry)?;
            sink(BodyItem::Entry(entry));
            return Ok(());
        }
        let item = BodyItem::decode(self.section, bytes)?;
        self.order.check(&item)?;
        sink(item);
        Ok(())
    }
}
