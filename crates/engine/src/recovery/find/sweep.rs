//! Finding records without any map: every log is read whole, and every record in it counts, wherever it begins.
//!
//! A scan follows a log from a claimed position; here nothing says where records begin, so every log block
//! that says that it is the beginning of one that belongs exactly there (volume, log, position) is looked at.
//! A part that the device cannot read is read again in small pieces, and what is left of it counts as zeros
//! and is told. It holds a bounded window of the log and writes nothing.

use super::{Finder, Findings, Found, Remains, ScanContext, found_at};
use crate::state::logs::REACH_BYTES;
use nearhead_disk::{At, Buffer};
use nearhead_format::record::{RECORD_MAGIC, peek};
use std::ops::Range;

/// Bytes of one read.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of one read where a larger one failed.
const CAREFUL_BYTES: u64 = 4096;
/// Bytes held before they are looked at.
const WINDOW_BYTES: u64 = 2 * REACH_BYTES;
/// Remains told of one log; power cuts leave one each.
const REMAINS_MAX: usize = 64;

/// The logs read so far.
#[derive(Default)]
pub(in crate::recovery) struct BySweep {
    sweep: Option<LogSweep>,
    logs_begun: u32,
    findings: Findings,
}

impl BySweep {
    fn take_sweep(&mut self, sweep: LogSweep, context: &ScanContext) {
        self.findings.unknown.extend(sweep.unknown(context));
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

    fn take(&mut self, bytes: Result<Buffer, String>, _: &ScanContext) -> Result<(), String> {
        if let Some(sweep) = self.sweep.as_mut() {
            match bytes {
                Ok(bytes) => sweep.take(&bytes),
                Err(_) => sweep.unreadable(),
            }
        }
        Ok(())
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
    /// Bytes asked for last.
    asked: u64,
    /// Up to here the log is read in small pieces.
    careful_until: u64,
    found: Vec<Found>,
    remains: Vec<Remains>,
    /// Bytes of the log that cannot be read.
    unreadable: Vec<Range<u64>>,
}

impl LogSweep {
    pub(super) fn new(log: u32) -> Self {
        Self {
            log,
            at: 0,
            window: Vec::new(),
            asked: 0,
            careful_until: 0,
            found: Vec::new(),
            remains: Vec::new(),
            unreadable: Vec::new(),
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
            let piece = if end < self.careful_until { CAREFUL_BYTES } else { PIECE_BYTES };
            self.asked = piece.min(log_bytes - end);
            let start = context.layout.log_offset(self.log)?;
            return Some((start + end, self.asked));
        }
    }

    /// Takes the bytes asked for.
    pub(super) fn take(&mut self, bytes: &Buffer) {
        self.window.extend_from_slice(bytes);
    }

    /// They cannot be read.
    pub(super) fn unreadable(&mut self) {
        let end = self.read_end();
        if self.asked > CAREFUL_BYTES {
            self.careful_until = end + self.asked;
            return;
        }
        self.unreadable.push(end..end + self.asked);
        self.window.resize(self.window.len() + self.asked as usize, 0);
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
        let found = found_at(bytes, &peeked, context);
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

    /// Device bytes that cannot be read and lie in no record found: one that nobody knows of may be there.
    pub(super) fn unknown(&self, context: &ScanContext) -> Vec<Range<u64>> {
        self.unknown_but(|_| true, context)
    }

    /// The same, and those in a record that is newer than the snapshot: it may be whole, and looks like one that a cut tore.
    pub(super) fn undecided(&self, context: &ScanContext) -> Vec<Range<u64>> {
        self.unknown_but(|found| found.header.sequence <= context.floor_sequence, context)
    }

    /// Device bytes that cannot be read and lie in no record for which that does not matter.
    fn unknown_but(
        &self,
        does_not_matter: impl Fn(&Found) -> bool,
        context: &ScanContext,
    ) -> Vec<Range<u64>> {
        let block = context.block() as u64;
        let start = context.layout.log_offset(self.log).unwrap_or(0);
        let is_in_record = |range: &Range<u64>| {
            self.found.iter().filter(|found| does_not_matter(found)).any(|found| {
                let from = u64::from(found.header.position) * block;
                from <= range.start && range.end <= from + u64::from(found.blocks) * block
            })
        };
        let outside = self.unreadable.iter().filter(|range| !is_in_record(range));
        outside.map(|range| start + range.start..start + range.end).collect()
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
