//! Reading one log: from its claimed position to its last record.
//!
//! A record counts if it says that it belongs exactly there (volume, log, position), is
//! newer than everything before it in this log, and its checksums hold. After the last one the scan
//! looks ahead as far as one record can reach: if a newer sound record stands there, it says whether
//! there is one between them. If so, that was complete once and is damaged now; if not, the place
//! between did not take a record, and was left out. If nothing newer stands there, it is a torn write
//! that nobody was promised. It does so where the last one ended and at the start of the log, where the
//! next one is if it did not fit any more. That is how torn is told from corrupt inside one log; gaps
//! between logs are the chain's business.
//!
//! A record that was written again behind the place where it failed may stand in both.
//!
//! A place that cannot be read is one that holds no sound record. Where the next record could have begun there, and nothing
//! newer stands behind, it is reported as hidden: only the chain can tell whether a record is missing.

use super::{Found, Hidden, Remains, ScanContext, found_at};
use crate::recovery::careful::Piece;
use crate::state::logs::REACH_BYTES;
use nearhead_disk::{Buffer, BufferMut, RangeSet};
use nearhead_format::record::{Claim, NO_POSITION, Peek, RECORD_MAGIC, RecordHeader, peek};
use std::ops::Range;

/// Power cuts leave one of these each in any log until a record comes that is whole; only what somebody made up
/// holds more.
const REMAINS_MAX: usize = 64;

/// Hidden places reported of one log: of more than these no more need be known.
const HIDDEN_MAX: usize = 64;

/// What the next bytes are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// The record that should stand at the cursor.
    Record,
    /// Anything newer within one record's reach of it.
    LookAhead,
    /// The record there may have gone to the start of the log instead: it, or anything newer within
    /// one record's reach.
    Wrapped,
    Done,
}

/// The scan of one log.
pub(super) struct LogScan {
    pub(super) claim: Claim,
    goal: Goal,
    /// Log block where the next record is looked for.
    cursor: u32,
    newest_sequence: u64,
    /// Whether that one was found here.
    has_newest: bool,
    /// Whether the start of the log was looked at, or need not be: a lap passes it once.
    has_wrapped: bool,
    /// Bytes read already that a later look may want again, and the block they start at.
    window: Option<Buffer>,
    window_block: u64,
    pub(super) found: Vec<Found>,
    pub(super) remains: Vec<Remains>,
    pub(super) problems: Vec<(u64, String)>,
    /// Places where the header of a newer record may be and could not be read.
    pub(super) hidden: Vec<Hidden>,
    /// Places of records that are missing before newer ones.
    pub(super) passed: usize,
    /// Device bytes that could not be read, and the device's words.
    unread: RangeSet,
    why: String,
}

impl LogScan {
    pub(super) fn new(claim: Claim, floor_sequence: u64) -> Self {
        Self {
            cursor: claim.position,
            has_wrapped: claim.position == 0,
            claim,
            goal: Goal::Record,
            newest_sequence: floor_sequence,
            has_newest: false,
            window: None,
            window_block: 0,
            found: Vec::new(),
            remains: Vec::new(),
            problems: Vec::new(),
            hidden: Vec::new(),
            passed: 0,
            unread: RangeSet::new(),
            why: String::new(),
        }
    }

    /// The next bytes to read, as device offset and length; `None` at the end of the scan. No byte
    /// is asked for twice.
    pub(super) fn next_read(&mut self, context: &ScanContext) -> Option<(u64, u64)> {
        let block = context.block() as u64;
        loop {
            let (from, len) = self.wanted(context)?;
            self.keep_from(from, block);
            let held = self.held_bytes() as u64;
            if held < len {
                let next = (from + held / block) as u32;
                let offset = context.layout.log_block_offset(self.claim.log_index, next)?;
                return Some((offset, len - held));
            }
            self.look(context);
        }
    }

    /// What is looked at next: block and length in bytes.
    fn wanted(&self, context: &ScanContext) -> Option<(u64, u64)> {
        let block = context.block() as u64;
        let capacity = u64::from(context.layout.log_blocks());
        let from = match self.goal {
            Goal::Done => return None,
            Goal::Record | Goal::LookAhead => u64::from(self.cursor),
            Goal::Wrapped => 0,
        };
        if from >= capacity {
            return None;
        }
        Some((from, ((capacity - from) * block).min(REACH_BYTES.next_multiple_of(block))))
    }

    /// Lets go of what stands before block `from`.
    fn keep_from(&mut self, from: u64, block: u64) {
        let passed = from.checked_sub(self.window_block).map(|blocks| (blocks * block) as usize);
        self.window = self.window.take().and_then(|window| {
            let passed = passed.filter(|passed| *passed < window.len())?;
            Some(window.slice(passed..window.len()))
        });
        self.window_block = from;
    }

    fn held_bytes(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.len())
    }

    /// Takes the bytes asked for. They are copied only behind what is held already.
    pub(super) fn take(&mut self, piece: Piece, context: &ScanContext) {
        let Piece { bytes, unread, why } = piece;
        for range in unread.iter() {
            self.unread.insert(range);
        }
        if self.why.is_empty() {
            self.why = why;
        }
        self.window = Some(match self.window.take() {
            None => bytes,
            Some(held) => {
                let mut both = BufferMut::zeroed(held.len() + bytes.len());
                both[..held.len()].copy_from_slice(&held);
                both[held.len()..].copy_from_slice(&bytes);
                both.freeze()
            }
        });
        self.look(context);
    }

    /// Looks at the bytes wanted, all of which are there.
    fn look(&mut self, context: &ScanContext) {
        let Some(window) = self.window.clone() else { return };
        match self.goal {
            Goal::Record => {
                if !self.take_records(&window, self.cursor, context) {
                    self.note_remains(&window, self.cursor, context);
                    self.goal = Goal::LookAhead;
                }
            }
            Goal::LookAhead => {
                let any = self.look_ahead(&window, self.cursor, context);
                if !any {
                    self.note_hidden(&window, self.cursor, context);
                }
                self.goal = if any { Goal::Record } else { self.after_the_last() };
            }
            Goal::Wrapped => {
                self.has_wrapped = true;
                let mut any = self.take_records(&window, 0, context);
                if !any {
                    self.note_remains(&window, 0, context);
                    any = self.look_ahead(&window, 0, context);
                    // It goes there only if it does not fit before the end, and never in a chain.
                    let left = context.layout.log_blocks().saturating_sub(self.cursor);
                    let may_go_round = !context.layout.is_chain()
                        && u64::from(left) * (context.block() as u64) < REACH_BYTES;
                    if !any && may_go_round {
                        self.note_hidden(&window, 0, context);
                    }
                }
                self.goal = if any { Goal::Record } else { Goal::Done };
            }
            Goal::Done => {}
        }
        if u64::from(self.cursor) >= u64::from(context.layout.log_blocks())
            && self.goal == Goal::Record
        {
            self.goal = self.after_the_last();
        }
    }

    /// Where the record after the last one in a row may be, if not there. What stands at the start of the
    /// log is seen once: so that a scan ends whatever is there, and nothing newer than what was found since.
    fn after_the_last(&self) -> Goal {
        if self.has_wrapped { Goal::Done } else { Goal::Wrapped }
    }

    /// Reports the places in `bytes`, which stand at log block `start` and have no newer record behind them, where the
    /// header of the next record may be and could not be read: it begins no further on than placement leaves out. Behind
    /// an unread header another record may follow, within the length of the first.
    fn note_hidden(&mut self, bytes: &[u8], start: u32, context: &ScanContext) {
        if self.unread.is_empty() {
            return;
        }
        let (block, log) = (context.block(), self.claim.log_index);
        // Placement leaves out blocks between two records alone.
        let gap_blocks = if start == 0 { 0 } else { context.gap_bytes_max / block as u64 };
        let mut may_follow = false;
        for (step, at) in bytes.chunks(block).enumerate() {
            let position = start + step as u32;
            let Some(offset) = context.layout.log_block_offset(log, position) else { return };
            let sequence = if self.unread.overlaps(offset..offset + 512) {
                if step as u64 > gap_blocks && !may_follow {
                    continue;
                }
                may_follow = true;
                None
            } else {
                // Its first sector names a record whose header has a part that could not be read.
                let peeked = at.get(..512).and_then(|first| peek(first).ok());
                let Some(peeked) = peeked.filter(|peeked| self.accepts(peeked, position, context))
                else {
                    continue;
                };
                if !self.unread.overlaps(offset..offset + u64::from(peeked.header_bytes)) {
                    continue;
                }
                Some(peeked.sequence)
            };
            if self.hidden.len() == HIDDEN_MAX {
                return;
            }
            let why = &self.why;
            let problem = format!("log {log} at device byte {offset}: could not be read: {why}");
            let block = Some((log, position));
            self.hidden.push(Hidden { offset, block, sequence, problem });
        }
    }

    /// Takes records from `bytes`, which stand at log block `start`; says whether there was one.
    fn take_records(&mut self, bytes: &[u8], start: u32, context: &ScanContext) -> bool {
        let (mut position, mut at, mut any) = (start, 0, false);
        while let Some(found) = self.record_at(&bytes[at..], position, context) {
            any = true;
            // One that is not sound may be the remains of a write torn before an earlier crash;
            // then a record of the same sequence stands at the start of the log.
            if found.is_sound() {
                self.newest_sequence = found.header.sequence;
                self.has_newest = true;
            } else {
                self.note_remains(&bytes[at..], position, context);
            }
            let blocks = self.blocks_up_to_the_next(&bytes[at..], &found, context);
            position += blocks;
            at += blocks as usize * context.block();
            self.found.push(found);
        }
        if any {
            self.cursor = position;
        }
        any
    }

    /// Remembers the record that says that it belongs at `position`. One that a look ahead meets may turn out to
    /// be sound when it is taken; it is not newer than the newest then.
    fn note_remains(&mut self, bytes: &[u8], position: u32, context: &ScanContext) {
        let peeked = bytes.get(..512).and_then(|bytes| peek(bytes).ok());
        let Some(peeked) = peeked.filter(|peeked| self.accepts(peeked, position, context)) else {
            return;
        };
        if self.remains.len() == REMAINS_MAX {
            return;
        }
        let offset = context.layout.log_block_offset(self.claim.log_index, position);
        let sequence = peeked.sequence;
        self.remains.extend(offset.map(|offset| Remains { sequence, offset }));
    }

    fn accepts(&self, peeked: &Peek, position: u32, context: &ScanContext) -> bool {
        peeked.volume_id == context.volume_id
            && peeked.log_index == self.claim.log_index
            && peeked.position == position
            && (peeked.sequence > self.newest_sequence || self.is_twin(peeked.sequence, position))
    }

    /// Whether the newest record may stand here once more, where the scan has not been yet, because the place where it
    /// was found had failed. What comes next stands behind this one.
    fn is_twin(&self, sequence: u64, position: u32) -> bool {
        let in_lap = |position: u32| (position < self.claim.position, position);
        sequence == self.newest_sequence
            && self.has_newest
            && in_lap(position) >= in_lap(self.cursor)
    }

    /// Whether the record at `position` names the one before it where the scan has passed already: then nothing ever
    /// stood between `start` and it, nor from the last record to the end of the log if the scan went round.
    fn leaves_a_gap(&self, newer: &RecordHeader, start: u32, position: u32) -> bool {
        let previous = newer.previous_position;
        let has_gone_round = self.goal == Goal::Wrapped;
        let is_between = (start..position).contains(&previous)
            || has_gone_round && previous != NO_POSITION && previous >= self.cursor;
        !is_between
    }

    /// How far behind the beginning of `found`, which `bytes` begin with, the next record is looked for: behind its end.
    /// What a failed write left of one is no whole record, and a placement that leaves out blocks may have put the next one
    /// into the middle of it.
    fn blocks_up_to_the_next(&self, bytes: &[u8], found: &Found, context: &ScanContext) -> u32 {
        if found.is_sound() {
            return found.blocks;
        }
        let is_newer = |step: &u32| {
            let at = &bytes[*step as usize * context.block()..];
            self.header_at(at, found.header.position + step, context).is_some()
        };
        (1..found.blocks).find(is_newer).unwrap_or(found.blocks)
    }

    /// The header at the start of `bytes`, if it holds and belongs to a record that counts at `position`.
    fn header_at(
        &self,
        bytes: &[u8],
        position: u32,
        context: &ScanContext,
    ) -> Option<RecordHeader> {
        let peeked = peek(bytes.get(..512)?).ok()?;
        if !self.accepts(&peeked, position, context) {
            return None;
        }
        RecordHeader::decode(bytes.get(..peeked.header_bytes as usize)?).ok()
    }

    fn record_at(&self, bytes: &[u8], position: u32, context: &ScanContext) -> Option<Found> {
        let peeked = peek(bytes.get(..512)?).ok()?;
        if !self.accepts(&peeked, position, context) {
            return None;
        }
        found_at(bytes, &peeked, &self.unread, context)
    }

    /// Log blocks of `positions` whose first sector could not be read.
    fn unread_blocks(&self, positions: Range<u32>, context: &ScanContext) -> usize {
        let log = self.claim.log_index;
        let offsets = positions.filter_map(|at| context.layout.log_block_offset(log, at));
        offsets.filter(|at| self.unread.overlaps(*at..*at + 512)).count()
    }

    /// Looks in `bytes`, which stand at log block `start`, for a newer record behind one there whose header
    /// does not hold; says whether there was one.
    fn look_ahead(&mut self, bytes: &[u8], start: u32, context: &ScanContext) -> bool {
        let block = context.block();
        for step in 1..bytes.len() / block {
            let at = &bytes[step * block..];
            if at[..4] != RECORD_MAGIC {
                continue;
            }
            let position = start + step as u32;
            self.note_remains(at, position, context);
            if let Some(newer) = self.header_at(at, position, context) {
                let log = self.claim.log_index;
                let offset = context.layout.log_block_offset(log, start).unwrap_or(0);
                let is_unread = self.unread.overlaps(offset..offset + block as u64);
                let read = if is_unread { "could not be read: " } else { "" };
                let why = if is_unread { format!("{}; ", self.why) } else { String::new() };
                let problem = format!(
                    "log {log} at device byte {offset}: {read}{why}expected a record, found none that is \
                     sound, but record {} stands behind it",
                    newer.sequence
                );
                if !self.leaves_a_gap(&newer, start, position) {
                    self.problems.push((newer.sequence, problem));
                    self.passed += self.unread_blocks(start..position, context).max(1);
                }
                self.cursor = position;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
