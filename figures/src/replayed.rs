//! Replaying requests on a volume, and what it did with them.
//!
//! Open loop: every request arrives when it is due, whatever the volume does, so a volume that
//! cannot follow shows long latencies.

use crate::error::FigureError;
use crate::rig::{self, FigureDisk, System};
use nearhead_basics::Histogram;
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::latency::percentile_ms;
use nearhead_sim::replay::{Player, ReplayError, ReplayOptions, Tempo};
use nearhead_sim::trace::TraceRequest;
use nearhead_volume::Volume;

/// Percentiles over which speed-ups are averaged (Manylogs V-B: "at all percentiles").
const PERCENTILES: std::ops::RangeInclusive<u32> = 1..=99;

/// What a replay came to.
pub(crate) struct Replayed {
    /// Of every request, from arrival to reply.
    pub latency: Histogram,
    /// The volume as it was left.
    pub volume: Volume<FigureDisk>,
    /// The clock as it was left.
    pub time: VirtualTime,
}

/// Replays `requests` on a fresh volume.
pub(crate) fn replay(
    disk: FigureDisk,
    system: &System,
    requests: impl Iterator<Item = TraceRequest>,
    what: &str,
) -> Result<Replayed, FigureError> {
    let mut volume = rig::volume(disk, system)?;
    let mut time = VirtualTime::default();
    let what = format!("{what} on {}", system.name);
    let latency = replay_on(&mut volume, &mut time, requests, &what)?;
    Ok(Replayed { latency, volume, time })
}

/// Replays `requests` on `service`; the latency of every request.
pub(crate) fn replay_on<S: Service>(
    service: &mut S,
    time: &mut VirtualTime,
    requests: impl Iterator<Item = TraceRequest>,
    what: &str,
) -> Result<Histogram, FigureError> {
    let limit = service.info().request_bytes_max;
    let options = ReplayOptions::default();
    let mut player = Player::new(requests.map(Ok), Tempo::OpenLoop, options, Nanos::ZERO, limit);
    time.run(service, &mut [&mut player], Nanos::MAX)
        .map_err(|problem| FigureError::replay(what, ReplayError::Stuck(problem)))?;
    if let Some(failure) = player.results(time.now()).first_failure {
        return Err(FigureError::RequestFailed { what: what.to_owned(), failure });
    }
    Ok(player.latencies())
}

/// How many times faster `ours` is at each percentile: percentile and factor.
pub(crate) fn speed_ups(baseline: &Histogram, ours: &Histogram) -> Vec<(f64, f64)> {
    PERCENTILES
        .map(f64::from)
        .map(|percent| {
            (percent, percentile_ms(baseline, percent) / percentile_ms(ours, percent).max(1e-6))
        })
        .collect()
}

/// The mean factor over all percentiles.
pub(crate) fn mean_speed_up(baseline: &Histogram, ours: &Histogram) -> f64 {
    let all = speed_ups(baseline, ours);
    all.iter().map(|(_, factor)| factor).sum::<f64>() / all.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_fast_everywhere_is_a_speed_up_of_two() {
        let (mut slow, mut fast) = (Histogram::new(), Histogram::new());
        for step in 1..=1000_u64 {
            slow.record(2_000 * step);
            fast.record(1_000 * step);
        }
        assert!((mean_speed_up(&slow, &fast) - 2.0).abs() < 0.05);
        assert!((mean_speed_up(&slow, &slow) - 1.0).abs() < 1e-9);
    }
}
