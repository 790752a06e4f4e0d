//! Writing a record header. The checksums of the chunks come from the caller, who computed them
//! when the data arrived.

use super::{
    HEADER_BYTES_MAX, HEADER_FIXED_BYTES, ITEM_BYTES, MOVE_BYTES, RECORD_MAGIC, RECORD_VERSION,
    RecordHeader, SectorRange, WriteItem,
};
use crate::ENTRY_BYTES;
use crate::crc::{crc32c, crc32c_append};
use nearhead_basics::little_endian::put;

/// Offset of `header_crc32c` in the header.
pub(super) const CRC_AT: usize = 68;
/// Offset of the number of moves.
pub(super) const MOVES_AT: usize = 72;
/// Offset of the number of fragments.
pub(super) const FRAGMENTS_AT: usize = 74;
/// Offset of the sum of their lengths.
pub(super) const FRAGMENT_BYTES_AT: usize = 76;
/// End of the fields of the fixed part; zeros follow.
pub(super) const FIELDS_END: usize = 80;
/// Bit of a write's first word that marks a run of zeros.
pub(super) const ZERO_RUN_BIT: u64 = 1 << 51;

impl RecordHeader {
    /// Writes the header into `target`, which is exactly [`RecordHeader::encoded_bytes`] long.
    ///
    /// # Panics
    /// If `target` has another length or a list is over its limit: whoever builds records bounds
    /// them, and a record that cannot be read back must not reach a disk.
    pub fn encode_into(&self, target: &mut [u8]) {
        let items_end = HEADER_FIXED_BYTES + self.item_count() * ITEM_BYTES;
        let content_end = items_end + self.fragment_bytes();
        assert!(
            target.len().is_multiple_of(512)
                && (content_end..=HEADER_BYTES_MAX).contains(&target.len())
                && target.len() - content_end < 4096,
            "a header of {} items does not have {} bytes",
            self.item_count(),
            target.len()
        );
        let valid = self.validate();
        assert!(valid.is_ok(), "a record that could not be read back: {valid:?}");
        self.encode_fixed(target);
        self.encode_items(&mut target[HEADER_FIXED_BYTES..items_end]);
        let mut at = items_end;
        for fragment in &self.fragments {
            put(target, at, &fragment.bytes);
            at += fragment.bytes.len();
        }
        target[content_end..].fill(0);
        let crc = header_crc(target);
        put(target, CRC_AT, &crc.to_le_bytes());
    }

    fn encode_fixed(&self, target: &mut [u8]) {
        let header_bytes = target.len() as u32;
        let mut fixed = [0; HEADER_FIXED_BYTES];
        put(&mut fixed, 0, &RECORD_MAGIC);
        put(&mut fixed, 4, &RECORD_VERSION.to_le_bytes());
        put(&mut fixed, 6, &self.flags.to_le_bytes());
        put(&mut fixed, 8, &self.volume_id);
        put(&mut fixed, 24, &self.sequence.to_le_bytes());
        put(&mut fixed, 32, &self.log_index.to_le_bytes());
        put(&mut fixed, 40, &self.position.to_le_bytes());
        put(&mut fixed, 44, &self.previous_position.to_le_bytes());
        put(&mut fixed, 48, &self.oldest_live_position.to_le_bytes());
        put(&mut fixed, 52, &header_bytes.to_le_bytes());
        put(&mut fixed, 56, &self.payload_sectors().to_le_bytes());
        put(&mut fixed, 60, &(self.writes.len() as u16).to_le_bytes());
        put(&mut fixed, 62, &(self.invalidations.len() as u16).to_le_bytes());
        put(&mut fixed, 64, &(self.claims.len() as u16).to_le_bytes());
        put(&mut fixed, 66, &(self.echo.len() as u16).to_le_bytes());
        put(&mut fixed, MOVES_AT, &(self.moves.len() as u16).to_le_bytes());
        put(&mut fixed, FRAGMENTS_AT, &(self.fragments.len() as u16).to_le_bytes());
        put(&mut fixed, FRAGMENT_BYTES_AT, &(self.fragment_bytes() as u32).to_le_bytes());
        put(target, 0, &fixed);
    }

    fn encode_items(&self, items: &mut [u8]) {
        let fragments_at = items.len() - self.fragments.len() * ITEM_BYTES;
        let (items, fragments) = items.split_at_mut(fragments_at);
        for (fragment, slot) in self.fragments.iter().zip(fragments.chunks_exact_mut(ITEM_BYTES)) {
            encode_item(slot, fragment.word(), fragment.bytes.len() as u32);
        }
        let (items, moves) = items.split_at_mut(items.len() - self.moves.len() * MOVE_BYTES);
        for (entry, slot) in self.moves.iter().zip(moves.chunks_exact_mut(MOVE_BYTES)) {
            let (bytes, rest) = slot.split_at_mut(ENTRY_BYTES);
            bytes.copy_from_slice(&entry.encode());
            rest.fill(0);
        }
        let mut slots = items.chunks_exact_mut(ITEM_BYTES);
        for (write, slot) in self.writes.iter().zip(&mut slots) {
            let (word, last) = match *write {
                WriteItem::Chunk { home_sector, len_sectors, crc } => {
                    (home_sector | u64::from(len_sectors - 1) << 48, crc)
                }
                WriteItem::Zeros { home_sector, run_sectors } => {
                    (home_sector | ZERO_RUN_BIT, run_sectors)
                }
            };
            encode_item(slot, word, last);
        }
        for (range, slot) in self.invalidations.iter().zip(&mut slots) {
            encode_range(slot, *range);
        }
        for (claim, slot) in self.claims.iter().zip(&mut slots) {
            let word = u64::from(claim.log_index) | u64::from(claim.position) << 32;
            encode_item(slot, word, 0);
        }
        for (range, slot) in self.echo.iter().zip(&mut slots) {
            encode_range(slot, *range);
        }
    }
}

fn encode_range(slot: &mut [u8], range: SectorRange) {
    encode_item(slot, range.start_sector, range.len_sectors);
}

#[inline]
fn encode_item(slot: &mut [u8], word: u64, last: u32) {
    put(slot, 0, &word.to_le_bytes());
    put(slot, 8, &last.to_le_bytes());
}

/// CRC32C over the header with the checksum itself taken as zero.
pub(super) fn header_crc(header: &[u8]) -> u32 {
    let crc = crc32c(&header[..CRC_AT]);
    let crc = crc32c_append(crc, &[0; 4]);
    crc32c_append(crc, &header[CRC_AT + 4..])
}
