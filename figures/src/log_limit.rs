//! The most that any log can make of a mix: logged writes that take no time from anybody.
//!
//! Reads and writes too large for a log are replayed alone, as if nothing else were on the disk. Each logged write
//! is answered after what no placement can save: the drive's overhead for a command and the transfer at its fastest
//! zone. A log that appends (the next free block, as Manylogs and ours do) also waits for the disk to turn, from
//! nothing to a whole revolution; with that added comes the second limit. Neither can be reached: real records move
//! the arm, and reads wait for them.

use crate::error::FigureError;
use crate::mix::Prepared;
use crate::replayed::{mean_speed_up, replay};
use crate::rig::{self, CONSTELLATION, Queue, System};
use nearhead_basics::Histogram;
use nearhead_disk::Nanos;
use nearhead_sim::trace::TraceRequest;

/// Steps in which a revolution is gone through, one a write; a prime, so that they fall evenly on everything.
const ROTATION_STEPS: u64 = 97;

/// Speed-ups over no logging, averaged over the percentiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLimits {
    /// Logged writes wait for nothing but their transfer.
    pub transfer_only: f64,
    /// They also wait for the next free block to come round.
    pub next_free: f64,
}

/// The limits of a log that takes writes of up to `logged_bytes_max`, against what `baseline` shows.
pub(crate) fn limits(
    mix: &Prepared,
    queue: Queue,
    logged_bytes_max: u32,
    baseline: &Histogram,
) -> Result<LogLimits, FigureError> {
    let is_logged =
        |request: &&TraceRequest| request.write && request.len_bytes <= logged_bytes_max;
    let disk = rig::hard_disk(CONSTELLATION, queue)?;
    let system = System::of_preset("nolog")?;
    let others = mix.requests.iter().filter(|request| !is_logged(request)).copied();
    let alone = replay(disk, &system, others, mix.name)?.latency;

    let profile = rig::profile(CONSTELLATION)?;
    let overhead = Nanos::from_millis_f64(profile.command.write_ms);
    let bytes_per_s = rig::mechanics(CONSTELLATION)?.bandwidth(0);
    let speed_up = |rotation_ns: u64| {
        let mut all = alone.clone();
        for (number, request) in mix.requests.iter().filter(is_logged).enumerate() {
            let waited = rotation_ns * (number as u64 % ROTATION_STEPS) / ROTATION_STEPS;
            let transfer_ns = f64::from(request.len_bytes) * 1e9 / bytes_per_s;
            all.record(overhead.0 + waited + transfer_ns as u64);
        }
        mean_speed_up(baseline, &all)
    };
    Ok(LogLimits { transfer_only: speed_up(0), next_free: speed_up(profile.period_ns) })
}
