//! The chain: records of all logs in the order they became durable, without a gap.
//!
//! One record is in flight at a time, so every record below the newest sound one was complete once.
//! A missing one is damage. Its addresses are known if its header survived or if its successor
//! echoes them: those sectors are poisoned (EIO), never served from an older copy. If not even that
//! is known the volume does not open unless its owner accepts the loss.
//!
//! A record of which a part cannot be read, and whose other parts are sound, may have been acknowledged: it counts, and the
//! sectors of that part are poisoned.

use super::find::Found;
use crate::damage::DamageKind;
use crate::state::findings::RecoveredState;
use nearhead_disk::SECTOR_BYTES;
use nearhead_format::record::SectorRange;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One step of the replay.
pub(super) enum Link {
    /// A record to apply; chunks that are not sound become poison.
    Record(Box<Found>),
    /// Records up to this one are gone: what the successor says the last of them wrote.
    Lost { last: u64, ranges: Vec<SectorRange> },
    /// Records up to this one are gone and nothing says what they wrote: whatever the map has now may be
    /// older than they are. Only a rebuild goes on behind them.
    Unknown { last: u64 },
}

/// The records in order, and what is not there.
pub(super) struct Ordered {
    pub(super) links: Vec<Link>,
    /// Sequences below the newest one of which there is no record.
    pub(super) missing: BTreeSet<u64>,
    /// The newest one.
    pub(super) newest: u64,
    /// Whether nothing says what one of those wrote that are missing.
    pub(super) is_any_unknown: bool,
}

/// Missing sequences that are counted: of more no more need be known.
const MISSING_MAX: usize = 4096;

/// Puts what was found in order. `known` begins with the sequence the snapshot includes and ends with the
/// newest one that is known to have been written.
pub(super) fn order(
    found: Vec<Found>,
    known: Range<u64>,
    accept_loss: bool,
    result: &mut RecoveredState,
) -> Result<Ordered, String> {
    let (mut by_sequence, newest_found) = by_sequence(found);
    let newest = newest_found.max(known.end);
    let (mut links, mut missing_ones, mut is_any_unknown) = (Vec::new(), BTreeSet::new(), false);
    let mut sequence = known.start + 1;
    while sequence <= newest {
        if let Some(record) = by_sequence.remove(&sequence) {
            if !record.is_sound() {
                result.note(DamageKind::Record.told(damaged(&record)));
            }
            links.push(Link::Record(Box::new(record)));
            sequence += 1;
            continue;
        }
        // The first record after a start knows nothing of the one before: an empty echo says nothing.
        let next = by_sequence.get(&(sequence + 1)).map(|next| next.header.echo.clone());
        let echo = next.filter(|ranges| !ranges.is_empty());
        if echo.is_none() && !accept_loss {
            return Err(format!(
                "{}, and so is the one that would say what it wrote; run `nearhead check` to see where, and \
                 `nearhead repair --accept-loss` to accept the loss",
                missing(sequence, sequence, newest)
            ));
        }
        is_any_unknown |= echo.is_none();
        let ranges = echo.unwrap_or_default();
        // Of several in a row the last one's successor is there, and says what that one wrote.
        let next = by_sequence.range(sequence..).next().map_or(newest, |(next, _)| *next);
        let last = if ranges.is_empty() {
            sequence.max(next.min(newest).saturating_sub(2))
        } else {
            sequence
        };
        result.note(DamageKind::Record.told(format!(
            "{}; {}",
            missing(sequence, last, newest),
            what_it_wrote(&ranges)
        )));
        missing_ones
            .extend((sequence..=last).take(MISSING_MAX - missing_ones.len().min(MISSING_MAX)));
        links.push(Link::Lost { last, ranges });
        sequence = last + 1;
    }
    Ok(Ordered { links, missing: missing_ones, newest, is_any_unknown })
}

/// Ranges named in one finding.
const RANGES_NAMED_MAX: usize = 8;

fn what_it_wrote(ranges: &[SectorRange]) -> String {
    if ranges.is_empty() {
        return "nothing says what it wrote: any client byte may read as an older copy".to_owned();
    }
    let named = ranges.iter().take(RANGES_NAMED_MAX).map(|range| {
        let (start, sectors) = (range.start_sector, u64::from(range.len_sectors));
        format!("{} at {}", sectors * SECTOR_BYTES, start * SECTOR_BYTES)
    });
    let named: Vec<String> = named.collect();
    let more = if ranges.len() > RANGES_NAMED_MAX { ", and more" } else { "" };
    format!(
        "{} ranges it wrote read as errors until they are written again: client bytes {}{more}",
        ranges.len(),
        named.join(", ")
    )
}

/// What was found, and the newest sound sequence of it.
pub(super) fn by_sequence(found: Vec<Found>) -> (BTreeMap<u64, Found>, u64) {
    let mut by_sequence: BTreeMap<u64, Found> = BTreeMap::new();
    let mut newest = 0;
    for record in found {
        let sequence = record.header.sequence;
        if record.may_be_whole() {
            newest = newest.max(sequence);
        }
        // The same sequence twice: a record that was written again elsewhere after an error, or
        // one that was torn before an earlier crash. A sound one wins, else one of which only a part cannot be
        // read; in one log the last of them, as the places before it failed.
        let rank = |found: &Found| (found.is_sound(), found.may_be_whole());
        let is_better = by_sequence.get(&sequence).is_none_or(|known| {
            let is_later = known.header.log_index == record.header.log_index || !known.is_sound();
            rank(&record) > rank(known) || rank(&record) == rank(known) && is_later
        });
        if is_better {
            by_sequence.insert(sequence, record);
        }
    }
    (by_sequence, newest)
}

fn missing(first: u64, last: u64, newest: u64) -> String {
    let which = if first == last {
        format!("record {first} is missing")
    } else {
        format!("records {first} to {last} are missing")
    };
    if last < newest {
        format!("{which} below record {newest}")
    } else {
        format!("{which} although a snapshot that is damaged now included it")
    }
}

fn damaged(record: &Found) -> String {
    let bad = record.chunks_sound.iter().filter(|sound| !**sound).count();
    let is_what = if record.is_only_unread {
        "chunks cannot be read"
    } else {
        "chunks do not match their checksum"
    };
    let chunks = record.header.chunks().zip(&record.chunks_sound).filter(|(_, sound)| !**sound);
    let ranges = chunks.take(RANGES_NAMED_MAX).map(|(chunk, _)| {
        let (start, sectors) = (chunk.home_sector, u64::from(chunk.len_sectors));
        format!("{} at {}", sectors * SECTOR_BYTES, start * SECTOR_BYTES)
    });
    let ranges: Vec<String> = ranges.collect();
    format!(
        "record {} in log {} at log block {}: {bad} of {} {is_what}; those sectors read as errors until \
         they are written again: client bytes {}{}",
        record.header.sequence,
        record.header.log_index,
        record.header.position,
        record.chunks_sound.len(),
        ranges.join(", "),
        if bad > RANGES_NAMED_MAX { ", and more" } else { "" }
    )
}
