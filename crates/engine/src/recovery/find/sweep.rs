//! Finding records without any map: every log is read whole, and every record in it counts, wherever it begins.
//!
//! A scan follows a log from a claimed position; here nothing says where records begin, so every log block
//! that says that it is the beginning of one that belongs exactly there (volume, log, position) is looked at.
//! What the device cannot read counts as zeros. Where the header of a record may be there, the place is reported.
//! It holds a bounded window of the log and writes nothing.

use super::{Finder, Findings, Found, Hidden, Remains, ScanContext, found_at};
use crate::recovery::careful::Piece;
use crate::state::logs::REACH_BYTES;
use nearhead_disk::{At, RangeSet};
use nearhead_format::record::{Peek, RECORD_MAGIC, peek};
use std::collections::BTreeSet;

/// Bytes of one read.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes held before they are looked at.
const WINDOW_BYTES: u64 = 2 * REACH_BYTES;
/// Remains told of one log; power cuts leave one each.
const REMAINS_MAX: usize = 64;
/// Hidden places reported of one log: of more than these no more need be known.
const HIDDEN_MAX: usize = 64;

/// The logs read so far.
#[derive(Default)]
pub(in crate::recovery) struct BySweep {
    sweep: Option<LogSweep>,
    logs_begun: u32,
    findings: Findings,
}

impl BySweep {
    fn take_sweep(&mut self, sweep: LogSweep, context: &ScanContext) {
        let sector = context.sector_bytes();
        let hidden = sweep.hidden(None, context);
        let places = hidden.iter().map(|hidden| hidden.offset..hidden.offset + sector);
        self.findings.unknown.extend(places);
        self.findings.remains.extend(sweep.remains);
        for found in sweep.found {
            self.findings.take(found);
        }
    }
}

impl Finder for BySweep {
    fn next_read(&mut self, context: &ScanContext) -> Option<(At, u64)> {
        loop {
            if let Some(mut sweep) = self.sweep.take() {
                if let Some((offset, len)) = sweep.next_read(context) {
                    self.sweep = Some(sweep);
                    return Some((offset.into(), len));
                }
                self.take_sweep(sweep, context);
            }
            if self.logs_begun == context.layout.log_count() {
                return None;
            }
            self.sweep = Some(LogSweep::new(self.logs_begun));
            self.logs_begun += 1;
        }
    }

    fn take(&mut self, piece: Piece, context: &ScanContext) {
        if let Some(sweep) = self.sweep.as_mut() {
            sweep.take(piece, context);
        }
    }

    fn findings(self: Box<Self>) -> Findings {
        self.findings
    }
}

/// A log as read so far.
pub(super) struct LogSweep {
    log: u32,
    /// Bytes from the start of the log to the start of the window.
    at: u64,
    window: Vec<u8>,
    found: Vec<Found>,
    remains: Vec<Remains>,
    /// Device bytes that cannot be read, and the device's words.
    unread: RangeSet,
    why: String,
    /// Unread log blocks with a block of zeros right before them: nothing ever ended there.
    behind_zeros: BTreeSet<u32>,
    /// Log blocks whose first sector names a record, of which sequence, and the rest of its header cannot be read.
    broken_headers: Vec<(u32, u64)>,
}

impl LogSweep {
    pub(super) fn new(log: u32) -> Self {
        Self {
            log,
            at: 0,
            window: Vec::new(),
            found: Vec::new(),
            remains: Vec::new(),
            unread: RangeSet::new(),
            why: String::new(),
            behind_zeros: BTreeSet::new(),
            broken_headers: Vec::new(),
        }
    }

    /// Which log it is.
    pub(super) fn log(&self) -> u32 {
        self.log
    }

    /// What it held: records, and what is left of some that are not whole.
    pub(super) fn into_found(self) -> (Vec<Found>, Vec<Remains>) {
        (self.found, self.remains)
    }

    fn log_bytes(context: &ScanContext) -> u64 {
        u64::from(context.layout.log_blocks()) * context.block() as u64
    }

    fn read_end(&self) -> u64 {
        self.at + self.window.len() as u64
    }

    /// Device offset and length of the next read; `None` once all of the log was looked at.
    pub(super) fn next_read(&mut self, context: &ScanContext) -> Option<(u64, u64)> {
        let log_bytes = Self::log_bytes(context);
        loop {
            let end = self.read_end();
            if end == log_bytes || self.window.len() as u64 >= WINDOW_BYTES {
                self.look(context);
                if self.at == log_bytes {
                    return None;
                }
                continue;
            }
            let start = context.layout.log_offset(self.log)?;
            return Some((start + end, PIECE_BYTES.min(log_bytes - end)));
        }
    }

    /// Takes the bytes asked for.
    pub(super) fn take(&mut self, piece: Piece, context: &ScanContext) {
        self.window.extend_from_slice(&piece.bytes);
        for range in piece.unread.iter() {
            self.unread.insert(range);
        }
        for range in piece.unread.iter() {
            self.note_behind_zeros(range.start, context);
        }
        if self.why.is_empty() {
            self.why = piece.why;
        }
    }

    /// Looks at what is held, but for the end if a record that begins there may go on behind it.
    fn look(&mut self, context: &ScanContext) {
        let block = context.block();
        let is_last = self.read_end() == Self::log_bytes(context);
        let held = self.window.len();
        let stop = if is_last { held } else { held - REACH_BYTES as usize };
        let mut from = 0;
        while from < stop {
            let position = ((self.at + from as u64) / block as u64) as u32;
            from += self.look_at(from, position, context).map_or(block, |blocks| blocks * block);
        }
        self.window.drain(..from.min(held));
        self.at += from.min(held) as u64;
    }

    /// Looks at one log block of the window; how many blocks a whole record has that begins there.
    fn look_at(&mut self, from: usize, position: u32, context: &ScanContext) -> Option<usize> {
        let bytes = &self.window[from..];
        if !bytes.starts_with(&RECORD_MAGIC) {
            return None;
        }
        let peeked = peek(bytes.get(..512)?).ok()?;
        let belongs = peeked.volume_id == context.volume_id
            && peeked.log_index == self.log
            && peeked.position == position;
        if !belongs {
            return None;
        }
        let found = found_at(bytes, &peeked, &self.unread, context);
        if found.is_none() && self.broken_headers.len() < HIDDEN_MAX {
            self.note_broken_header(&peeked, context);
        }
        if !found.as_ref().is_some_and(Found::is_sound) && self.remains.len() < REMAINS_MAX {
            let offset = context.layout.log_block_offset(self.log, position)?;
            self.remains.push(Remains { sequence: peeked.sequence, offset });
        }
        let found = found?;
        // A newer record may stand in the middle of one that is not whole, where a bad place was left out.
        let blocks = if found.is_sound() { found.blocks as usize } else { 1 };
        self.found.push(found);
        Some(blocks)
    }

    /// Remembers the first log block that begins in an unread range from `unread_from` on, if the block before it is zeros.
    fn note_behind_zeros(&mut self, unread_from: u64, context: &ScanContext) {
        let block = context.block() as u64;
        let Some(start) = context.layout.log_offset(self.log) else { return };
        let position = (unread_from - start).div_ceil(block);
        let Some(before) = position.checked_sub(1).map(|before| before * block) else { return };
        let is_read = !self.unread.overlaps(start + before..start + before + block);
        let held = before.checked_sub(self.at).map(|from| from as usize);
        let bytes = held.and_then(|from| self.window.get(from..from + block as usize));
        if is_read && bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)) {
            self.behind_zeros.insert(position as u32);
        }
    }

    fn note_broken_header(&mut self, peeked: &Peek, context: &ScanContext) {
        let Some(offset) = context.layout.log_block_offset(self.log, peeked.position) else {
            return;
        };
        if self.unread.overlaps(offset..offset + u64::from(peeked.header_bytes)) {
            self.broken_headers.push((peeked.position, peeked.sequence));
        }
    }

    /// Places where the header of a record may be that could not be read: the first sector of a log block is unread, and
    /// nothing found says that no record begins there. Where placement leaves out nothing, a record begins at `position`, at
    /// the start of the log or behind a block that is in use, which is no block of zeros.
    pub(super) fn hidden(&self, position: Option<u32>, context: &ScanContext) -> Vec<Hidden> {
        let block = context.block() as u64;
        let Some(start) = context.layout.log_offset(self.log) else { return Vec::new() };
        let unread = self.unread.iter().flat_map(|range| {
            let first = (range.start - start).div_ceil(block);
            let is_never_used = context.gap_bytes_max == 0
                && self.behind_zeros.contains(&(first as u32))
                && !self.is_in_record(first as u32 - 1);
            (first..)
                .take_while(move |at| start + at * block < range.end)
                .filter(move |at| !is_never_used || position.map(u64::from) == Some(*at))
        });
        let unread = unread.map(|position| (position as u32, None));
        let unread = unread.filter(|(position, _)| !self.is_taken(*position, context));
        let broken = self.broken_headers.iter().map(|(at, sequence)| (*at, Some(*sequence)));
        let broken = broken.filter(|(_, sequence)| *sequence > Some(context.floor_sequence));
        let hidden = unread.take(HIDDEN_MAX).chain(broken).map(|(position, sequence)| {
            let (log, offset) = (self.log, start + u64::from(position) * block);
            let problem =
                format!("log {log} at device byte {offset}: could not be read: {}", self.why);
            Hidden { offset, block: Some((log, position)), sequence, problem }
        });
        hidden.collect()
    }

    fn is_in_record(&self, block: u32) -> bool {
        self.found.iter().any(|found| {
            let from = found.header.position;
            (from..from + found.blocks).contains(&block)
        })
    }

    /// Whether a record that was found has the log block, so that none begins there: one that is newer than the snapshot,
    /// as nothing is written over such a record, or any with a sound chunk in the block.
    fn is_taken(&self, position: u32, context: &ScanContext) -> bool {
        let sectors_per_block = context.block() as u64 / 512;
        self.found.iter().any(|found| {
            let from = found.header.position;
            let Some(block) = position.checked_sub(from).filter(|block| *block < found.blocks)
            else {
                return false;
            };
            if found.header.sequence > context.floor_sequence && found.may_be_whole() {
                return true;
            }
            let block = u64::from(block) * sectors_per_block;
            let payload = found.header.encoded_bytes(context.block()) as u64 / 512;
            found.header.chunks().zip(&found.chunks_sound).any(|(chunk, is_sound)| {
                let from = payload + u64::from(chunk.payload_sector);
                let to = from + u64::from(chunk.len_sectors);
                *is_sound && from < block + sectors_per_block && block < to
            })
        })
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
