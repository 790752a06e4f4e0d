//! What a drive is like, found out by timing ordinary commands: how fast it turns, how many sectors a track has and where tracks
//! begin, zone by zone, how far one track is turned against the next, which of them form groups, and what a command costs before the drive begins.
//!
//! Everything rests on one fact: a read ends when its last sector has passed under the head, so the time of its end, taken
//! modulo the revolution, says at what angle that sector lies (Worthington et al., SIGMETRICS 1995; Yu et al., OSDI 2000). Commands go
//! one at a time. Reads alone are needed; only the overhead is measured by writes, and only where the caller says that a range may be
//! overwritten.
//!
//! What stays true:
//! - nothing here reads a clock or knows a device: [`Drive`] carries out commands and says when;
//! - a number is told with how sure it is, and what could not be measured is told as such, never guessed;
//! - every search has a bound, and all of them share one budget of time.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clock;
mod drive;
mod findings;
mod groups;
#[cfg(test)]
mod groups_tests;
mod over_disk;
mod overhead;
mod parts;
mod period;
mod prober;
mod report;
mod staircase;
mod tracks;
mod zones;

pub use drive::{Drive, DriveError, Facts, Timed};
pub use findings::{Calibration, Findings, Overhead, Progress, Turning, Zone};
pub use over_disk::{OverDisk, tracks_in_virtual_time};
pub use report::Report;

use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use prober::Prober;

/// What the caller decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that may be overwritten to measure the overhead of writes; `None` leaves it out.
    pub scratch: Option<std::ops::Range<u64>>,
    /// What is not known by then stays unknown.
    pub time_max: Nanos,
    /// For the places that are probed: another seed probes others.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { scratch: None, time_max: Nanos::from_secs(300), seed: 1 }
    }
}

/// Finds out what `drive` is like; `progress` hears how far it is.
///
/// # Errors
/// A command failed, the device is too small to have anything to find out, or the time was too short for the first number.
pub fn calibrate(
    drive: &mut dyn Drive,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Findings, DriveError> {
    let began_at = drive.now();
    let mut prober = Prober::new(drive, SplitMix::new(options.seed), options.time_max)?;
    progress(Progress { of: "revolution", done_pct: 0 });
    if let Some(why) = prober.find_period()? {
        return Ok(Findings::NothingToLearn(why));
    }
    // Before what may take all the time that there is.
    let overhead = match &options.scratch {
        Some(scratch) => {
            progress(Progress { of: "overhead of writes", done_pct: 3 });
            overhead::measure(&mut prober, scratch)?
        }
        None => None,
    };
    let zones = zones::find(&mut prober, progress)?;
    let zones = parts::find(&mut prober, zones, progress)?;
    let turning = prober.turning()?;
    let took_s = prober.now().since(began_at).as_secs_f64();
    progress(Progress { of: "all", done_pct: 100 });
    let (reads, sector_bytes) = (prober.reads(), prober.sector_bytes() as u32);
    Ok(Findings::Turns(Calibration { reads, took_s, turning, sector_bytes, overhead, zones }))
}
