//! Arrivals in order, counted from the first, at the speed asked for.
//!
//! Some traces list requests by completion or by thread, so a line may be older than the one
//! before. A window of requests is held back and passed on oldest first. A request older than what
//! was already passed on arrives at that instant instead, and is counted.

use super::TraceRequest;
use nearhead_disk::Nanos;
use std::collections::VecDeque;

/// Requests on their way to the caller, sorted by arrival; equal arrivals keep their order.
pub(super) struct Timeline {
    window: VecDeque<TraceRequest>,
    window_requests_max: usize,
    time_scale: f64,
    /// Arrival of the first request passed on, as in the file.
    origin: Option<Nanos>,
    /// Arrival of the latest request passed on, as in the file.
    latest: Nanos,
    pub(super) late: u64,
}

impl Timeline {
    pub(super) fn new(window_requests_max: usize, time_scale: f64) -> Self {
        Self {
            window: VecDeque::new(),
            window_requests_max,
            time_scale,
            origin: None,
            latest: Nanos::ZERO,
            late: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.window.len() >= self.window_requests_max.max(1)
    }

    pub(super) fn push(&mut self, mut request: TraceRequest) {
        if self.origin.is_some() && request.at < self.latest {
            request.at = self.latest;
            self.late += 1;
        }
        // Nearly all requests come in order and go to the back.
        let mut place = self.window.len();
        if self.window.back().is_some_and(|last| last.at > request.at) {
            place = self.window.partition_point(|earlier| earlier.at <= request.at);
        }
        self.window.insert(place, request);
    }

    pub(super) fn pop(&mut self) -> Option<TraceRequest> {
        let mut request = self.window.pop_front()?;
        self.latest = request.at;
        let origin = *self.origin.get_or_insert(request.at);
        request.at = self.scaled(request.at - origin);
        request.think = request.think.map(|think| self.scaled(think));
        Some(request)
    }

    fn scaled(&self, span: Nanos) -> Nanos {
        #[expect(clippy::float_cmp, reason = "exactly 1 means: leave times exact")]
        if self.time_scale == 1.0 {
            return span;
        }
        Nanos((span.0 as f64 * self.time_scale).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(window: usize, scale: f64, arrivals: &[u64]) -> (Vec<u64>, u64) {
        let mut timeline = Timeline::new(window, scale);
        let mut out = Vec::new();
        for (index, &at) in arrivals.iter().enumerate() {
            while timeline.is_full() {
                out.push(timeline.pop().unwrap().at.0);
            }
            timeline.push(TraceRequest {
                at: Nanos(at),
                device: index as u32,
                ..TraceRequest::default()
            });
        }
        while let Some(request) = timeline.pop() {
            out.push(request.at.0);
        }
        (out, timeline.late)
    }

    #[test]
    fn disorder_within_the_window_is_sorted_out() {
        assert_eq!(passed_on(4, 1.0, &[105, 103, 108, 100, 109]), (vec![0, 3, 5, 8, 9], 0));
    }

    #[test]
    fn disorder_beyond_the_window_is_counted_and_never_goes_back_in_time() {
        assert_eq!(passed_on(1, 1.0, &[100, 110, 105, 120]), (vec![0, 10, 10, 20], 1));
        assert_eq!(passed_on(0, 1.0, &[100, 90]), (vec![0, 0], 1));
    }

    #[test]
    fn time_is_stretched_from_the_first_arrival() {
        assert_eq!(passed_on(4, 2.5, &[1000, 1002, 1010]).0, [0, 5, 25]);
        assert_eq!(passed_on(4, 0.0, &[1000, 1002]).0, [0, 0]);
    }

    #[test]
    fn equal_arrivals_keep_their_order() {
        let mut timeline = Timeline::new(8, 1.0);
        for (device, at) in [(0, 5), (1, 5), (2, 4), (3, 5), (4, 4)] {
            timeline.push(TraceRequest { at: Nanos(at), device, ..TraceRequest::default() });
        }
        let order: Vec<u32> = std::iter::from_fn(|| timeline.pop()).map(|it| it.device).collect();
        assert_eq!(order, [2, 4, 0, 1, 3]);
    }
}
