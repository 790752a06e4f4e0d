//! The chain: records of all logs in the order they became durable, without a gap.
//!
//! One record is in flight at a time, so every record below the newest sound one was complete once.
//! A missing one is damage. Its addresses are known if its header survived or if its successor
//! echoes them: those sectors are poisoned (EIO), never served from an older copy. If not even that
//! is known the volume does not open unless its owner accepts the loss.

use super::find::Found;
use crate::damage::DamageKind;
use crate::state::findings::RecoveredState;
use nearhead_format::record::SectorRange;
use std::collections::BTreeMap;
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

/// Puts what was found in order. `known` begins with the sequence the snapshot includes and ends with the
/// newest one that is known to have been written.
pub(super) fn order(
    found: Vec<Found>,
    known: Range<u64>,
    accept_loss: bool,
    result: &mut RecoveredState,
) -> Result<Vec<Link>, String> {
    let (mut by_sequence, newest_found) = by_sequence(found);
    let newest = newest_found.max(known.end);
    let mut links = Vec::new();
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
        let ranges = echo.unwrap_or_default();
        // Of several in a row the last one's successor is there, and says what that one wrote.
        let next = by_sequence.range(sequence..).next().map_or(newest, |(next, _)| *next);
        let last = if ranges.is_empty() {
            sequence.max(next.min(newest).saturating_sub(2))
        } else {
            sequence
        };
        result.note(DamageKind::Record.told(format!(
            "{}; {} ranges it wrote read as errors until they are written again",
            missing(sequence, last, newest),
            ranges.len()
        )));
        links.push(Link::Lost { last, ranges });
        sequence = last + 1;
    }
    Ok(links)
}

/// What was found, and the newest sound sequence of it.
pub(super) fn by_sequence(found: Vec<Found>) -> (BTreeMap<u64, Found>, u64) {
    let mut by_sequence: BTreeMap<u64, Found> = BTreeMap::new();
    let mut newest = 0;
    for record in found {
        let sequence = record.header.sequence;
        if record.is_sound() {
            newest = newest.max(sequence);
        }
        // The same sequence twice: a record that was written again elsewhere after an error, or
        // one that was torn before an earlier crash. A sound one wins; in one log the last of them, as
        // the places before it failed.
        let known = by_sequence.get(&sequence).filter(|known| known.is_sound());
        let is_better = known.is_none_or(|known| {
            record.is_sound() && known.header.log_index == record.header.log_index
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
    format!(
        "record {} in log {} at log block {}: {bad} of {} chunks do not match their checksum; \
         those sectors read as errors until they are written again",
        record.header.sequence,
        record.header.log_index,
        record.header.position,
        record.chunks_sound.len()
    )
}
