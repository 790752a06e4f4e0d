//! The run of a measurement: workloads find their pace, then what they do is counted for a while.
//!
//! Experiments differ in who works and in what is told of it; the steps are the same, and stand here once. The time measured is the one asked for,
//! also where workloads finish before.

use crate::VirtualTime;
use crate::virtual_time::{Ended, Stuck};
use crate::workload::Workload;
use nearhead_disk::Nanos;
use nearhead_service::Service;

/// How long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Time before counting starts.
    pub warm_up: Nanos,
    /// Time that is measured.
    pub duration: Nanos,
}

/// Lets `workloads` work on `service` from now on, for as long as `goes_on` says so; requests may be outstanding at the end.
///
/// Returns [`Ended::Stopped`] if it was stopped, else [`Ended::TimeUp`].
pub fn measure<S: Service + ?Sized>(
    service: &mut S,
    time: &mut VirtualTime,
    workloads: &mut [&mut dyn Workload],
    span: Span,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Ended, Stuck> {
    let measured_from = time.now() + span.warm_up;
    for until in [measured_from, measured_from + span.duration] {
        if time.run_while(service, workloads, until, goes_on)? == Ended::Stopped {
            return Ok(Ended::Stopped);
        }
        // Workloads that finish early must not cut the measured time short.
        if time.advance_while(service, until, goes_on)? == Ended::Stopped {
            return Ok(Ended::Stopped);
        }
        if until == measured_from {
            for workload in workloads.iter_mut() {
                workload.start_measuring(measured_from);
            }
        }
    }
    Ok(Ended::TimeUp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed_latency::FixedLatency;
    use crate::workload::{Bulk, BulkOptions};

    fn run(span: Span, goes_on: &mut dyn FnMut() -> bool) -> (Ended, u64, Nanos) {
        let mut service = FixedLatency::serial(Nanos::from_millis(2));
        let mut time = VirtualTime::default();
        let mut bulk = Bulk::new(BulkOptions::reader(0..1 << 30));
        let ended = measure(&mut service, &mut time, &mut [&mut bulk], span, goes_on).unwrap();
        (ended, bulk.tally().requests, time.now())
    }

    #[test]
    fn what_comes_before_the_measured_time_is_not_counted() {
        for warm_up in [0, 3] {
            let span = Span { warm_up: Nanos::from_secs(warm_up), duration: Nanos::from_secs(4) };
            let (ended, requests, now) = run(span, &mut || true);
            assert_eq!((ended, now), (Ended::TimeUp, Nanos::from_secs(warm_up + 4)));
            assert!(requests.abs_diff(2000) <= 1, "{requests}");
        }
    }

    #[test]
    fn a_measurement_that_is_stopped_says_so() {
        let span = Span { warm_up: Nanos::from_secs(60), duration: Nanos::from_secs(60) };
        let mut left = 5;
        let mut goes_on = || {
            left -= 1;
            left > 0
        };
        let (ended, _, now) = run(span, &mut goes_on);
        assert!(ended == Ended::Stopped && now < Nanos::from_secs(60), "{now}");
    }

    #[test]
    fn a_span_of_two_equal_instants_still_measures() {
        let span = Span { warm_up: Nanos::ZERO, duration: Nanos::ZERO };
        assert_eq!(run(span, &mut || true).0, Ended::TimeUp);
    }
}
