//! The body of a snapshot, piece by piece: entries of the map first, in order of their home sectors, then what follows the map.
//!
//! Pieces are made in the order in which they lie in the slot, as the writer sums them up, however many are on their way. What the format
//! does not allow is not written.

use super::InProgress;
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::failure::Failure;
use crate::state::map::Map;
use nearhead_disk::{BufferMut, Command, Payload};
use nearhead_format::FieldError;
use nearhead_format::snapshot::{BodyItem, HintRange, LogState};
use std::collections::VecDeque;

/// Size of one piece, in bytes: half of what a rotational disk gets as bulk at once, so that two are on their way, and cleaning beside them
/// is never kept out.
pub(super) const PIECE_BYTES: usize = 128 << 10;

impl InProgress {
    /// Sends what comes next, if there is more and its pages are here. Says whether it did.
    pub(super) fn send_next_piece(&mut self, core: &mut Core) -> bool {
        if self.is_handed_out || self.needs_pages(core) {
            return false;
        }
        let mut piece = BufferMut::zeroed(PIECE_BYTES);
        let filled = match self.fill(&mut piece, core.map()) {
            Ok(filled) => filled,
            // The map holds what the format does not allow: nothing on disk is harmed by not
            // writing it, everything would be by writing it.
            Err(error) => {
                core.fail(Failure::Internal { problem: format!("the map holds {error}") });
                return false;
            }
        };
        if filled == 0 {
            self.is_handed_out = true;
            return false;
        }
        core.stats_mut().snapshot_bytes += filled as u64;
        let parts = vec![Payload::Bytes(piece.freeze().slice(0..filled))];
        let offset = self.offset;
        self.offset += filled as u64;
        let command = Command::Write { offset, parts, durable: false };
        self.send(core, Purpose::SnapshotBody { offset }, command);
        true
    }

    /// Fills a piece with what comes next; 0 bytes once all of it was handed out.
    fn fill(&mut self, piece: &mut [u8], map: &Map) -> Result<usize, FieldError> {
        let (cursor, rest) = (&mut self.cursor, &mut self.rest);
        if let Some(merge) = &mut self.merge {
            let next = || merge.pop().map(BodyItem::Entry).or_else(|| rest.pop_front());
            let filled = self.writer.fill(piece, &mut std::iter::from_fn(next))?;
            merge.note_bytes(&piece[..filled]);
            return Ok(filled);
        }
        let mut entries = map.iter_from(*cursor);
        let mut items = std::iter::from_fn(|| {
            if let Some(entry) = entries.next() {
                *cursor = entry.end_sector();
                return Some(BodyItem::Entry(entry));
            }
            // What is mapped from now on behind all others would come behind what follows the map. Records say it.
            *cursor = u64::MAX;
            rest.pop_front()
        });
        self.writer.fill(piece, &mut items)
    }
}

/// Log states, claims, hints and fragments, in the order of the format.
pub(super) fn what_follows_the_map(
    core: &Core,
    keep: &[u32],
    claims_new: &[u32],
) -> VecDeque<BodyItem> {
    // From where the log is used if it is claimed: one of a chain that is begun anew from its start, wherever the last record in it ended.
    let position = |log_index| core.logs().claim_for(log_index).position;
    let state = |log_index| LogState { log_index, position: position(log_index) };
    let mut rest: VecDeque<BodyItem> =
        core.logs().present().map(|(log_index, _)| BodyItem::Log(state(log_index))).collect();
    let mut claims = [keep, claims_new].concat();
    claims.sort_unstable();
    rest.extend(claims.into_iter().map(BodyItem::Claim));
    let hints = core.recorded().hints().iter();
    rest.extend(hints.map(|range| {
        let len_sectors = range.end - range.start;
        BodyItem::Hint(HintRange { start_sector: range.start, len_sectors })
    }));
    rest.extend(core.recorded().fragments().cells().map(BodyItem::Fragment));
    rest
}
