//! Opening a log: one pass over its segments, which finds where it ends and hands out its records.
//!
//! What follows the last record that verifies is either the remains of a write that power cut
//! short, which nobody was promised, or damage to something that was durable. It is **damage** if
//!
//! - a later segment begins with a record that names this one's end, and the end found is earlier;
//! - a record further on, in this segment or a later one, says that more was durable before it was
//!   written (every record says how much was);
//! - the log was closed in order, and ends earlier than it did then;
//! - a segment is missing, short, or its header does not verify: a file becomes a segment only
//!   when all of that is durable.
//!
//! Everything else is a **tear**. Its remains are erased, durably, before the log is handed out:
//! otherwise a record that this recovery said is not there could join the log again when the same
//! record is written before it once more. Then the last segment is synced: what was read may be in
//! a volatile cache. [`examine`] changes nothing and may be cut anywhere; [`settle`] may too.
//!
//! The newest write alone has no witness: rot that hits it before anything follows it looks like a
//! tear, unless the log was closed in order.

use super::control_file::ControlFile;
use super::pool::{Live, Pool, Ready, segment_name, sequence_of};
use super::scan::{Position, Remains, Scanner};
use super::{LogOptions, Lsn};
use crate::codec::control::{Control, End};
use crate::codec::record::{Kind, Seed};
use crate::codec::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::codec::{RECORDS_OFFSET, Tail};
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::{Access, Storage, StoredFile};
use nearhead_basics::little_endian::u32_at;
use nearhead_disk::BufferMut;
use std::collections::VecDeque;
use std::sync::Arc;

/// What opening a log found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The oldest record.
    pub first_lsn: Lsn,
    /// The number that the next record will have.
    pub next_lsn: Lsn,
    /// Whether it had been closed in order.
    pub was_closed: bool,
    /// Whether remains of an unfinished write were found behind its end.
    pub was_torn: bool,
}

/// A segment and its file.
struct Segment {
    sequence: u64,
    seed: Seed,
    file: Arc<dyn StoredFile>,
}

/// A log as it lies there.
pub(super) struct Examined {
    pub(super) recovered: Recovered,
    pub(super) live: VecDeque<Live>,
    /// Where it goes on: `None` if it has no segment in use yet.
    pub(super) end: Option<End>,
    /// What the block at the end holds up to there.
    pub(super) tail_block: Vec<u8>,
    pub(super) chain: u32,
    active: Option<Segment>,
    ready: Vec<Segment>,
    remains: Vec<(u64, u32, u32)>,
    free: VecDeque<u64>,
}

/// Reads the log that `control` describes. `replay` gets every record, in order.
pub(super) fn examine(
    storage: &dyn Storage,
    access: Access,
    control: &Control,
    replay: &mut dyn FnMut(Lsn, &[u8]),
) -> Result<Examined> {
    let free = unused_files(storage, control)?;
    let mut examined = Examined {
        recovered: Recovered {
            first_lsn: control.first_lsn,
            next_lsn: control.first_lsn,
            was_closed: control.clean_end.is_some(),
            was_torn: false,
        },
        live: VecDeque::new(),
        end: None,
        tail_block: Vec::new(),
        chain: 0,
        active: None,
        ready: Vec::new(),
        remains: Vec::new(),
        free,
    };
    let mut walk = Walk { control, position: None, previous_end: 0 };
    let mut next = open_segment(storage, access, control, control.first_sequence)?;
    while let Some(segment) = next {
        next = open_segment(storage, access, control, segment.sequence + 1)?;
        let bound = match &next {
            Some(next) => walk.begin_of(next)?,
            None => None,
        };
        let mut scanner = walk.scanner(&segment);
        if !walk.enter(&mut scanner, &segment, &mut examined)? {
            if walk.position.is_none() && control.first_lsn > Lsn::FIRST {
                let says = format!("the oldest record needed is {}", control.first_lsn);
                return Err(damage(&segment, RECORDS_OFFSET, &says));
            }
            // Nothing in it was ever durable: it was made ready, and perhaps entered.
            examined.note_remains(&mut scanner, &segment, RECORDS_OFFSET, walk.position)?;
            if next.is_some() && bound.is_some() {
                let says = begins(next.as_ref().unwrap_or(&segment), bound);
                return Err(damage(&segment, RECORDS_OFFSET, &says));
            }
            examined.ready.push(segment);
            continue;
        }
        walk.read_on(&mut scanner, bound, replay)?;
        let Some(position) = walk.position else { break };
        match bound {
            Some(end) if end != position.offset => {
                let says = begins(next.as_ref().unwrap_or(&segment), bound);
                return Err(damage(&segment, position.offset, &says));
            }
            Some(_) => {}
            None => {
                examined.note_remains(&mut scanner, &segment, position.offset, walk.position)?;
            }
        }
        walk.previous_end = position.offset;
        examined.active = Some(segment);
    }
    examined.finish(&walk)
}

/// How far the reading has come.
struct Walk<'a> {
    control: &'a Control,
    /// `None` before the first record of all.
    position: Option<Position>,
    /// Where the segment before ended.
    previous_end: u32,
}

impl Walk<'_> {
    fn scanner(&self, segment: &Segment) -> Scanner {
        Scanner::new(Arc::clone(&segment.file), segment.seed, self.control.geometry)
    }

    /// Where the segment before `next` ended, if `next` has begun at all.
    fn begin_of(&self, next: &Segment) -> Result<Option<u32>> {
        let mut scanner = self.scanner(next);
        let segment_bytes = self.control.geometry.segment_bytes;
        let found = scanner.record_at(RECORDS_OFFSET, None, segment_bytes)?;
        let begin = found.filter(|found| found.header.kind == Kind::Begin);
        Ok(begin.and_then(|_| end_named_in(scanner.payload())))
    }

    /// Reads the first record of a segment; false if it has none.
    fn enter(
        &mut self,
        scanner: &mut Scanner,
        segment: &Segment,
        examined: &mut Examined,
    ) -> Result<bool> {
        let segment_bytes = self.control.geometry.segment_bytes;
        let found = scanner.record_at(RECORDS_OFFSET, None, segment_bytes)?;
        let Some(found) = found.filter(|found| found.header.kind == Kind::Begin) else {
            return Ok(false);
        };
        if let Some(position) = self.position {
            let follows = found.header.lsn == position.lsn
                && found.header.previous == position.chain
                && end_named_in(scanner.payload()) == Some(self.previous_end);
            if !follows {
                let says = format!(
                    "it does not follow segment {} up to record {}",
                    segment.sequence - 1,
                    position.lsn
                );
                return Err(damage(segment, RECORDS_OFFSET, &says));
            }
        } else if found.header.lsn > self.control.first_lsn {
            let says = format!(
                "it begins with record {}, and the oldest needed is {}",
                found.header.lsn, self.control.first_lsn
            );
            return Err(damage(segment, RECORDS_OFFSET, &says));
        }
        self.position = Some(found.next);
        examined.live.push_back(Live { sequence: segment.sequence, first_lsn: found.header.lsn });
        Ok(true)
    }

    /// Reads records up to the first that does not verify, or to `bound`.
    fn read_on(
        &mut self,
        scanner: &mut Scanner,
        bound: Option<u32>,
        replay: &mut dyn FnMut(Lsn, &[u8]),
    ) -> Result<()> {
        let end = bound.unwrap_or(self.control.geometry.segment_bytes);
        while let Some(position) = self.position {
            if position.offset >= end {
                break;
            }
            let Some(found) = scanner.next(position, end)? else { break };
            if found.header.kind != Kind::Data {
                break;
            }
            if found.header.lsn >= self.control.first_lsn {
                replay(found.header.lsn, scanner.payload());
            }
            self.position = Some(found.next);
        }
        Ok(())
    }
}

impl Examined {
    /// Looks behind the end of the log. Proof that it went on is damage; anything else a tear.
    fn note_remains(
        &mut self,
        scanner: &mut Scanner,
        segment: &Segment,
        offset: u32,
        position: Option<Position>,
    ) -> Result<()> {
        let Remains { end, evidence } = scanner.look_ahead(offset)?;
        if let Some(evidence) = evidence {
            let lsn = position.map_or(Lsn::FIRST, |position| position.lsn);
            let says = format!(
                "a record at {evidence} says that record {lsn}, which should be here, was durable"
            );
            return Err(damage(segment, offset, &says));
        }
        if let Some(end) = end {
            self.recovered.was_torn = true;
            self.remains.push((segment.sequence, offset, end));
        }
        Ok(())
    }

    fn finish(mut self, walk: &Walk<'_>) -> Result<Self> {
        if let (Some(active), Some(position)) = (&self.active, walk.position) {
            self.recovered.next_lsn = position.lsn;
            self.chain = position.chain;
            let block = walk.control.geometry.block_down(position.offset);
            let mut bytes = BufferMut::zeroed(4096);
            let want = walk.control.geometry.block_bytes as usize;
            let read = active.file.read(u64::from(block), &mut bytes[..want])?;
            self.tail_block = bytes[..read].to_vec();
            self.end = Some(End {
                sequence: active.sequence,
                offset: position.offset,
                lsn: position.lsn,
                chain: position.chain,
            });
        }
        if let Some(expected) = walk.control.clean_end
            && self.end != Some(expected)
        {
            let found = self.end.map_or("no record at all".to_owned(), |end| {
                format!("its end at {} before record {}", end.offset, end.lsn)
            });
            let detail = format!(
                "{}: the log was closed in order at {} before record {}, found {found}; what was there is damaged or gone",
                segment_name(expected.sequence),
                expected.offset,
                expected.lsn
            );
            return Err(WalError::new(WalErrorKind::Corrupt, detail));
        }
        if self.recovered.next_lsn < walk.control.first_lsn {
            let detail = format!(
                "the log was truncated up to record {}, found its end before record {}; what was there is damaged or gone",
                walk.control.first_lsn, self.recovered.next_lsn
            );
            return Err(WalError::new(WalErrorKind::Corrupt, detail));
        }
        Ok(self)
    }
}

/// Makes what was examined true for good: erases remains, syncs, counts the log as open. Returns
/// the segments and the file to go on in.
pub(super) fn settle(
    storage: Arc<dyn Storage>,
    options: LogOptions,
    mut control: ControlFile,
    examined: &mut Examined,
) -> Result<(Pool, Option<Ready>)> {
    let log_id = control.current().log_id;
    let ready = move |segment: Segment| Ready {
        sequence: segment.sequence,
        seed: Seed::of(&log_id, segment.sequence),
        file: segment.file,
    };
    let active = examined.active.take().map(ready);
    let next: VecDeque<Ready> = examined.ready.drain(..).map(ready).collect();
    let geometry = options.geometry;
    for (sequence, from, to) in &examined.remains {
        let segment = active.iter().chain(&next).find(|it| it.sequence == *sequence);
        let Some(segment) = segment else { continue };
        let (start, kept) = match geometry.tail {
            Tail::Rewritten => {
                let start = geometry.block_down(*from);
                let kept = if *from == RECORDS_OFFSET { &[][..] } else { &examined.tail_block };
                (start, &kept[..(from - start) as usize])
            }
            Tail::LeftAlone => (geometry.block_up(*from), &[][..]),
        };
        let end = geometry.block_up((*to).min(geometry.segment_bytes));
        erase(&*segment.file, start, kept, end)?;
    }
    if let Some(active) = &active {
        active.file.sync()?;
    }
    control.store(|control| control.clean_end = None)?;
    let live = std::mem::take(&mut examined.live);
    let free = std::mem::take(&mut examined.free);
    Ok((Pool::new(storage, options, control, live, next, free), active))
}

/// Writes `kept` and then zeros over `start..end`, durably.
fn erase(file: &dyn StoredFile, start: u32, kept: &[u8], end: u32) -> Result<()> {
    const PIECE_BYTES: u32 = 128 << 10;
    let mut buffer = BufferMut::zeroed(PIECE_BYTES as usize);
    buffer[..kept.len()].copy_from_slice(kept);
    let mut at = start;
    while at < end {
        let piece = (end - at).min(PIECE_BYTES);
        file.write_durable(u64::from(at), &buffer[..piece as usize])?;
        buffer[..kept.len()].fill(0);
        at += piece;
    }
    Ok(())
}

/// The free files, after a look at whether any is there that should not be.
fn unused_files(storage: &dyn Storage, control: &Control) -> Result<VecDeque<u64>> {
    let mut sequences: Vec<u64> =
        storage.names()?.iter().filter_map(|name| sequence_of(name)).collect();
    sequences.sort_unstable();
    // Made and named, and then the power went before the control block counted it.
    let uncounted = control.last_sequence + 1;
    if let Some(beyond) = sequences.iter().find(|sequence| **sequence > uncounted) {
        let detail = format!(
            "{}/{}: expected segments up to {}, found this one; the control block is older than the segments, or they are of another log",
            storage.describe(),
            segment_name(*beyond),
            control.last_sequence
        );
        return Err(WalError::new(WalErrorKind::Corrupt, detail));
    }
    let is_free = |sequence: &u64| *sequence < control.first_sequence || *sequence == uncounted;
    Ok(sequences.into_iter().filter(is_free).collect())
}

/// Opens segment `sequence` if the control block counts it, and checks that it is the one.
fn open_segment(
    storage: &dyn Storage,
    access: Access,
    control: &Control,
    sequence: u64,
) -> Result<Option<Segment>> {
    if sequence > control.last_sequence {
        return Ok(None);
    }
    let name = segment_name(sequence);
    let place = format!("{}/{name}", storage.describe());
    let file = storage.open(&name, access).map_err(|error| match error.kind {
        WalErrorKind::NotFound => {
            let detail = format!(
                "{place}: expected segments {} to {}, found this one missing; restore it from a copy",
                control.first_sequence, control.last_sequence
            );
            WalError::new(WalErrorKind::SegmentMissing, detail)
        }
        _ => error,
    })?;
    let (expected, found) = (u64::from(control.geometry.segment_bytes), file.len_bytes()?);
    if expected != found {
        let detail = format!(
            "{place}: expected {expected} bytes, found {found}; restore the segment from a copy"
        );
        return Err(WalError::new(WalErrorKind::Corrupt, detail));
    }
    let mut block = BufferMut::zeroed(SEGMENT_HEADER_BYTES);
    file.read(0, &mut block)?;
    let wanted = SegmentHeader { log_id: control.log_id, sequence, geometry: control.geometry };
    match SegmentHeader::decode(&block) {
        Ok(header) if header == wanted => {
            Ok(Some(Segment { sequence, seed: Seed::of(&control.log_id, sequence), file }))
        }
        Ok(header) => {
            let detail = format!(
                "{place}: expected {wanted:?}, found {header:?}; the file belongs elsewhere"
            );
            Err(WalError::new(WalErrorKind::Corrupt, detail))
        }
        Err(reason) => {
            let detail = format!("{place}: {reason}; restore the segment from a copy");
            Err(WalError::new(WalErrorKind::Corrupt, detail))
        }
    }
}

fn end_named_in(begin_payload: &[u8]) -> Option<u32> {
    (begin_payload.len() == 8).then(|| u32_at(begin_payload, 0))
}

fn begins(next: &Segment, end: Option<u32>) -> String {
    match end {
        Some(end) => format!("segment {} says that it ends at {end}", next.sequence),
        None => format!("segment {} follows it", next.sequence),
    }
}

#[cold]
fn damage(segment: &Segment, offset: u32, says: &str) -> WalError {
    let detail = format!(
        "{} at offset {offset}: expected a record that was durable, found none that verifies: {says}; restore the segment from a copy, or from a replica",
        segment.file.name()
    );
    WalError::new(WalErrorKind::Corrupt, detail)
}
