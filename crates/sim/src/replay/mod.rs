//! Replaying a trace on a service in virtual time.
//!
//! *Open loop*: each request arrives when the trace says, whatever the service does; its latency
//! runs from that arrival. *Closed loop* (for traces measured with one request at a time): the next
//! request is issued its think time after the last reply. At most `outstanding_max` requests are
//! handed to the service at once. An arrival that finds the queue full waits in the trace, its
//! waiting counts as latency, and it is counted as delayed, so that a disk that cannot follow shows
//! as what it is: ever longer latencies and a lag that grows until the end.

mod chains;
mod makeup;
mod over_time;
mod player;
mod points;
mod results;
mod roles;

pub use makeup::{Makeup, Recorded};
pub use over_time::OverTime;
pub use player::{Player, ReplayOptions, Tempo};
pub use results::{ReplayResults, Share};
pub use roles::{Durability, PAUSE_MAX, Role, Roles, SMALL_BYTES_MAX, STREAM_BYTES_MIN};

use crate::VirtualTime;
use crate::trace::{TraceError, TraceOptions, TraceReader};
use crate::virtual_time::Stuck;
use nearhead_disk::Nanos;
use nearhead_service::{Service, ServiceInfo};
use std::fmt;
use std::time::Instant;

/// Why a replay did not come to its end.
#[derive(Debug)]
pub enum ReplayError {
    /// The trace cannot be read on.
    Trace(TraceError),
    /// The service does not keep its side of the interface.
    Stuck(Stuck),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(formatter),
            Self::Stuck(error) => write!(formatter, "replay: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Trace(error) => error,
            Self::Stuck(error) => error,
        })
    }
}

impl TraceOptions {
    /// The same, with requests that fit the size and the blocks of a service.
    #[must_use]
    pub fn for_service(mut self, info: &ServiceInfo) -> Self {
        self.address.capacity_bytes = Some(info.size_bytes);
        self.address.align_bytes = self.address.align_bytes.max(info.block_bytes_min);
        self
    }
}

/// Replays `trace` on `service` until every request was replied to.
///
/// The clock goes on from where `time` is, so that several traces, or a warm-up, can follow each
/// other on one service. `trace` should have been opened with [`TraceOptions::for_service`].
pub fn replay<S: Service + ?Sized>(
    service: &mut S,
    time: &mut VirtualTime,
    trace: &mut TraceReader,
    options: ReplayOptions,
) -> Result<ReplayResults, ReplayError> {
    let wall = Instant::now();
    let tempo = options.tempo.unwrap_or(if trace.format().is_closed_loop() {
        Tempo::ClosedLoop
    } else {
        Tempo::OpenLoop
    });
    let started = time.now();
    let request_bytes_max = service.info().request_bytes_max;
    let mut player = Player::new(&mut *trace, tempo, options, started, request_bytes_max);
    let ran = time.run(service, &mut [&mut player], Nanos::MAX);
    let failure = player.take_trace_error();
    let mut results = player.results(time.now());
    if let Some(error) = failure {
        return Err(ReplayError::Trace(error));
    }
    ran.map_err(ReplayError::Stuck)?;
    trace.name().clone_into(&mut results.trace);
    trace.format().name().clone_into(&mut results.format);
    results.lines = trace.counts();
    results.wall_s = wall.elapsed().as_secs_f64();
    if results.wall_s > 0.0 {
        results.requests_per_wall_s = results.requests as f64 / results.wall_s;
    }
    Ok(results)
}
