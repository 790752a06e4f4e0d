//! The write-busiest hour of each server trace under MLB-256, then one bulk checkpoint.
//!
//! Manylogs' figures 7a and 7b and its mapping-table sizes are sides of this experiment: nothing is
//! checkpointed while the hour lasts; then everything logged is brought home at once, and nobody
//! else uses the disk. What a checkpoint can save is counted from the requests themselves.

use crate::error::FigureError;
use crate::fig6::shared_bytes;
use crate::lab::Lab;
use crate::metered::Passed;
use crate::replayed::{Replayed, replay};
use crate::rig::{self, CONSTELLATION, FigureDisk, SATA, Shingled, System};
use crate::servers::{Server, Window};
use crate::sources;
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::trace::TraceRequest;
use std::rc::Rc;

/// The preset (Manylogs VI).
pub(crate) const PRESET: &str = "mlb-256";
const LOGGED_WRITE_BYTES_MAX: u32 = 256 << 10;
/// Unit of the mapping table (Manylogs III-E: "block-level mapping").
const BLOCK_BYTES: u64 = 4096;
/// How often the clock looks whether a checkpoint is over.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);
/// A checkpoint that takes longer does not end.
const CHECKPOINT_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// What an hour of a trace came to.
pub(crate) struct HourRun {
    /// The trace.
    pub(crate) name: String,
    /// What it is of.
    pub(crate) role: String,
    /// Whether it is one of Manylogs' ten (or stands in for one).
    pub(crate) of_paper: bool,
    /// How much of the trace there is, up to an hour.
    pub(crate) length_s: f64,
    pub(crate) requests: usize,
    pub(crate) saved: Saved,
    /// While the checkpoint ran.
    pub(crate) checkpoint: Passed,
    /// Bands of a shingled disk that it wrote as a whole.
    pub(crate) bands_written: u64,
    /// Entries of the map before it.
    pub(crate) map_entries: u64,
    /// Their memory.
    pub(crate) map_bytes: u64,
    pub(crate) swaps: u64,
    /// Writes that found no room in any log that could take them.
    pub(crate) spills: u64,
    /// Brought home while the hour lasted, though nobody asked.
    pub(crate) home_early_bytes: u64,
}

/// What collecting writes for an hour saves a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Writes small enough to be logged.
    pub(crate) logged_writes: u64,
    /// Their blocks.
    pub(crate) logged_blocks: u64,
    /// Different blocks among them.
    pub(crate) distinct_blocks: u64,
    /// Runs of neighbours among those.
    pub(crate) runs: u64,
}

impl Saved {
    /// Counts the writes among `requests` that a threshold of 256 KiB logs.
    pub(crate) fn of(requests: &[TraceRequest]) -> Self {
        let is_logged =
            |request: &&TraceRequest| request.write && request.len_bytes <= LOGGED_WRITE_BYTES_MAX;
        let mut saved = Self::default();
        let mut blocks: Vec<u64> = Vec::new();
        for request in requests.iter().filter(is_logged) {
            saved.logged_writes += 1;
            let end = request.end_bytes().div_ceil(BLOCK_BYTES);
            blocks.extend(request.offset_bytes / BLOCK_BYTES..end);
        }
        saved.logged_blocks = blocks.len() as u64;
        blocks.sort_unstable();
        blocks.dedup();
        saved.distinct_blocks = blocks.len() as u64;
        let breaks = blocks.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count() as u64;
        saved.runs = if blocks.is_empty() { 0 } else { breaks + 1 };
        saved
    }

    /// Share of writes that merge with others, in %.
    pub(crate) fn requests_pct(&self) -> f64 {
        100.0 * (1.0 - self.runs as f64 / self.logged_writes.max(1) as f64).max(0.0)
    }

    /// Share of block writes that a later write replaced, in %: the overwrites.
    pub(crate) fn blocks_pct(&self) -> f64 {
        100.0 * (1.0 - self.distinct_blocks as f64 / self.logged_blocks.max(1) as f64)
    }
}

/// What differs from the paper's hours in these; on a shingled disk only those of the paper are run.
pub(crate) fn differs(hours: &[HourRun], of_paper_only: bool) -> Vec<String> {
    let (of_paper, others): (Vec<&HourRun>, Vec<&HourRun>) =
        hours.iter().partition(|hour| hour.of_paper);
    let mut told = vec![
        sources::told(of_paper.iter().map(|hour| hour.name.as_str())),
        "Generators are fitted to the published ranges of overwrites and of the mapping table's size, and \
         most of their writes go on where a recent one ended, because the published checkpoints are short; \
         how long each checkpoint takes here is a consequence."
            .to_owned(),
    ];
    let real = of_paper.iter().filter(|hour| !sources::is_synthetic(&hour.name));
    told.extend(real.map(|hour| format!("Of {} there are {:.0} s.", hour.name, hour.length_s)));
    if !others.is_empty() && !of_paper_only {
        let names: Vec<&str> = others.iter().map(|hour| hour.name.as_str()).collect();
        told.push(format!("The paper does not have {}: real traces at hand.", names.join(", ")));
    }
    told
}

/// A trace for an hour.
struct Source {
    name: String,
    role: String,
    of_paper: bool,
    requests: Vec<TraceRequest>,
}

/// The traces: the ten of the paper, then the other real ones at hand.
fn sources(lab: &Lab<'_>, length: Nanos) -> Result<Vec<Source>, FigureError> {
    let size_bytes = shared_bytes()?;
    let mut all = Vec::new();
    for (index, server) in Server::all().iter().enumerate() {
        let real = if server.id == "T8" { lab.traces.dtrs(size_bytes)? } else { None };
        let (name, requests) = if let Some(real) = real {
            (real.name, busiest(real.requests, length))
        } else {
            let made = server.requests(Window::WriteBusiestHour, length, 100 + index as u64);
            (server.label(), made.collect::<Result<_, _>>()?)
        };
        let name = format!("{} {name}", server.id);
        all.push(Source { name, role: server.role().to_owned(), of_paper: true, requests });
    }
    for real in lab.traces.others(size_bytes)? {
        let requests = busiest(real.requests, length);
        let role = "a real trace that the paper does not have".to_owned();
        all.push(Source { name: real.name, role, of_paper: false, requests });
    }
    Ok(all)
}

/// The part of `requests`, of `length`, with the most bytes written; times count from its start.
fn busiest(requests: Vec<TraceRequest>, length: Nanos) -> Vec<TraceRequest> {
    let bytes = |request: &TraceRequest| u64::from(request.write) * u64::from(request.len_bytes);
    let (mut start, mut within, mut best) = (0, 0_u64, (0_u64, 0));
    for request in &requests {
        within += bytes(request);
        while request.at.since(requests[start].at) >= length {
            within -= bytes(&requests[start]);
            start += 1;
        }
        if within > best.0 {
            best = (within, start);
        }
    }
    let Some(from) = requests.get(best.1).map(|request| request.at) else { return requests };
    let inside = |request: &TraceRequest| request.at >= from && request.at.since(from) < length;
    let moved = |request: TraceRequest| TraceRequest { at: request.at.since(from), ..request };
    requests.into_iter().filter(inside).map(moved).collect()
}

/// Runs every hour, or returns what they came to earlier.
pub(crate) fn runs(lab: &mut Lab<'_>) -> Result<Rc<Vec<HourRun>>, FigureError> {
    if let Some(done) = &lab.hours {
        return Ok(Rc::clone(done));
    }
    let length = lab.hour_length();
    let sources = sources(lab, length)?;
    let steps = sources.into_iter().map(|source| (source.name.clone(), source)).collect();
    let done = Rc::new(lab.each("hours", steps, |_, source| {
        let disk = rig::hard_disk(CONSTELLATION, SATA)?;
        hour(source, disk, &System::of_preset(PRESET)?)
    })?);
    lab.hours = Some(Rc::clone(&done));
    Ok(done)
}

/// Runs the ten hours of the paper on the shingled disk that Manylogs needs.
pub(crate) fn on_shingled(lab: &mut Lab<'_>) -> Result<Vec<HourRun>, FigureError> {
    let sources = sources(lab, lab.hour_length())?.into_iter().filter(|source| source.of_paper);
    let steps = sources.map(|source| (source.name.clone(), source)).collect();
    lab.each("hours, shingled", steps, |_, source| {
        hour(source, Shingled::Manylogs.disk(SATA)?, &Shingled::Manylogs.system()?)
    })
}

fn hour(source: Source, disk: FigureDisk, system: &System) -> Result<HourRun, FigureError> {
    let Source { name, role, of_paper, requests } = source;
    let mut done = replay(disk, system, requests.iter().copied(), &name)?;
    let status = done.volume.status();
    let checkpoint = checkpoint(&mut done, &name)?;
    let bands_written = done.volume.status().stats.bands_written;
    Ok(HourRun {
        name,
        role,
        of_paper,
        length_s: requests.last().map_or(0.0, |request| request.at.as_secs_f64()),
        requests: requests.len(),
        saved: Saved::of(&requests),
        checkpoint,
        bands_written,
        map_entries: status.map_entries,
        map_bytes: status.map_bytes,
        swaps: status.stats.swaps,
        spills: status.stats.spills,
        home_early_bytes: status.stats.checkpointed_bytes,
    })
}

/// Brings everything home and says what passed through the disk meanwhile.
fn checkpoint(done: &mut Replayed, what: &str) -> Result<Passed, FigureError> {
    let stuck = |problem| FigureError::Stuck { what: format!("checkpoint after {what}"), problem };
    let begun = done.time.now();
    let before = done.volume.disk().passed();
    done.volume.start_checkpoint(false, begun);
    done.volume.drive(begun);
    while done.volume.status().checkpointing {
        let next = done.time.now() + LOOK_EVERY;
        done.time.advance_to(&mut done.volume, next).map_err(stuck)?;
        if done.time.now().since(begun) > CHECKPOINT_MAX {
            let failure = format!("a checkpoint that is not over after {CHECKPOINT_MAX}");
            return Err(FigureError::RequestFailed { what: what.to_owned(), failure });
        }
    }
    Ok(done.volume.disk().passed().since(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at_s: u64, block: u64, blocks: u32, write: bool) -> TraceRequest {
        TraceRequest {
            at: Nanos::from_secs(at_s),
            offset_bytes: block * BLOCK_BYTES,
            len_bytes: blocks * BLOCK_BYTES as u32,
            write,
            ..TraceRequest::default()
        }
    }

    #[test]
    fn overwrites_and_neighbours_are_saved_and_reads_and_large_writes_are_not_logged() {
        let requests = [
            request(0, 10, 2, true),
            request(1, 11, 2, true),
            request(2, 100, 1, true),
            request(3, 5000, 1, false),
            request(4, 9000, 65, true),
        ];
        let saved = Saved::of(&requests);
        let expected = Saved { logged_writes: 3, logged_blocks: 5, distinct_blocks: 4, runs: 2 };
        assert_eq!(saved, expected);
        assert!((saved.blocks_pct() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn the_busiest_part_is_the_one_with_the_most_written() {
        let mut requests: Vec<TraceRequest> = (0..100).map(|at| request(at, at, 1, true)).collect();
        requests.extend((100..110).map(|at| request(at, at, 60, true)));
        requests.extend((110..200).map(|at| request(at, at, 1, false)));
        let part = busiest(requests, Nanos::from_secs(20));
        assert_eq!((part[0].at, part.len()), (Nanos::ZERO, 20));
        assert_eq!(part.iter().filter(|request| request.len_bytes > 4096).count(), 10);
    }

    #[test]
    fn a_part_longer_than_the_trace_is_all_of_it() {
        let requests: Vec<TraceRequest> = (5..25).map(|at| request(at, at, 1, true)).collect();
        assert_eq!(busiest(requests, Nanos::from_secs(3600)).len(), 20);
        assert!(busiest(Vec::new(), Nanos::from_secs(1)).is_empty());
    }
}
