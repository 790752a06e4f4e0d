//! What a write costs before the drive begins: two writes to one track, the second so far behind the first that it is still reached.
//!
//! Nearer ones have passed by the time the drive is ready and come a revolution later. Where that turns is searched by halves; each
//! answer is that of three that agree, so that a disturbance decides nothing.

use crate::drive::DriveError;
use crate::findings::Overhead;
use crate::prober::Prober;
use crate::tracks::{Search, Track};
use std::ops::Range;

/// Tries of each distance that must agree, and most tries.
const AGREEING: u32 = 3;
const TRIES_MAX: u32 = 9;
/// A try is clear if it ends within this of when the sector passes, in revolutions.
const CLEAR: f64 = 0.15;
/// Places of the scratch at which a track is looked for at once.
const PLACES: u64 = 8;

/// By writes to `scratch` alone; `None` if no whole track shows there, or the drive answers from memory.
pub(crate) fn measure(
    prober: &mut Prober<'_>,
    scratch: &Range<u64>,
) -> Result<Option<Overhead>, DriveError> {
    let Some(clock) = prober.clock().copied() else { return Ok(None) };
    let bytes = prober.sector_bytes();
    let Some(track) = whole_track(prober, scratch.start.div_ceil(bytes)..scratch.end / bytes)?
    else {
        return Ok(None);
    };
    let unit = prober.unit();
    let sector_ns = clock.period_ns / track.sectors as f64;
    let mut is_in_time = |behind: u64| -> Result<bool, DriveError> {
        let (mut reached, mut missed) = (0, 0);
        for _ in 0..TRIES_MAX {
            let first = prober.write(track.first_sector)?;
            let second = prober.write(track.first_sector + behind)?;
            let took_ns = second.ended_at.since(first.ended_at).0 as f64;
            let off = (took_ns - behind as f64 * sector_ns) / clock.period_ns;
            // What lies neither here nor there was disturbed.
            reached += u32::from(off.abs() < CLEAR);
            missed += u32::from((off - 1.0).abs() < CLEAR);
            if reached.max(missed) == AGREEING {
                break;
            }
        }
        Ok(reached > missed)
    };
    // The next sector is always missed by a drive that takes any time, unless it is longer than that.
    let (mut missed, mut reached) = (0, (track.sectors - 1) / unit * unit);
    if reached <= unit || !is_in_time(reached)? {
        // As slow as a revolution, or answered from memory.
        return Ok(None);
    }
    while reached - missed > unit {
        let middle = missed.midpoint(reached) / unit * unit;
        if is_in_time(middle)? {
            reached = middle;
        } else {
            missed = middle;
        }
    }
    let step_us = unit as f64 * sector_ns / 1e3;
    let doubt_us = step_us + clock.spread * clock.period_ns / 1e3;
    Ok(Some(Overhead { write_us: (reached - unit) as f64 * sector_ns / 1e3, doubt_us }))
}

/// A track that lies in these sectors as a whole.
fn whole_track(prober: &mut Prober<'_>, scratch: Range<u64>) -> Result<Option<Track>, DriveError> {
    let step = (scratch.end.saturating_sub(scratch.start) / PLACES).max(1);
    let mut searches: Vec<Search> = (0..PLACES)
        .map(|place| Search::new(scratch.start + place * step, prober.bounds()))
        .collect();
    let lies_there = |track: &Track| {
        scratch.contains(&track.first_sector) && track.first_sector + track.sectors <= scratch.end
    };
    // The first half will mostly do; the others by themselves would have to wait for the drive to forget.
    for few in [PLACES as usize / 2, 0] {
        prober.run(&mut searches.iter_mut().collect::<Vec<_>>(), few)?;
        if let Some(track) = searches.iter().filter_map(Search::found).find(lies_there) {
            return Ok(Some(track));
        }
    }
    Ok(None)
}
