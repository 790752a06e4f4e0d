//! How long durable points are waited for, each from its own requests: those that lead to it and the one that ends it (`roles.rs`).
//!
//! A point's time is that during which at least one of its requests is under way. Bounded by the requests under way and [`PROCESSES_MAX`].

use super::roles::{Durability, PAUSE_MAX, Role};
use crate::trace::TraceRequest;
use nearhead_basics::{Histogram, Slab};
use nearhead_disk::Nanos;
use std::collections::BTreeMap;

/// Processes whose writes may lead to a point, at once; beyond that those with nothing under way are forgotten.
const PROCESSES_MAX: usize = 4096;

/// The durable points of a run.
pub(super) struct Points {
    durability: Durability,
    rows: Slab<Row>,
    /// Of each process the row that its next durable request ends.
    open: BTreeMap<u32, u64>,
    taken: Histogram,
}

/// Requests that belong together.
#[derive(Clone, Copy)]
struct Row {
    waits: Waits,
    /// When the last of them came, in the trace.
    latest: Nanos,
    is_ended: bool,
}

impl Points {
    pub(super) fn new(durability: Durability) -> Self {
        Self { durability, rows: Slab::new(), open: BTreeMap::new(), taken: Histogram::new() }
    }

    /// Time of each point, in nanoseconds.
    pub(super) fn taken(&self) -> &Histogram {
        &self.taken
    }

    /// Forgets those so far.
    pub(super) fn restart(&mut self) {
        self.taken.clear();
    }

    /// `request` comes at `now`; what to tell when it is answered, if it belongs to a point.
    pub(super) fn begin(&mut self, request: &TraceRequest, now: Nanos) -> Option<u64> {
        let role = self.durability.role(request);
        if !matches!(role, Role::Durable | Role::Leading) {
            return None;
        }
        let led = self.open.get(&request.process).copied();
        let led = led.filter(|tag| !self.is_left_behind(*tag, request.at));
        let tag = led.unwrap_or_else(|| self.open_row(request.process));
        let row = self.rows.get_tagged_mut(tag)?;
        row.waits.begin(now);
        row.latest = request.at;
        if role == Role::Durable {
            row.is_ended = true;
            self.open.remove(&request.process);
        }
        Some(tag)
    }

    /// A request that belongs to the point `tag` is answered.
    pub(super) fn end(&mut self, tag: u64, now: Nanos) {
        let Some(row) = self.rows.get_tagged_mut(tag) else { return };
        row.waits.end(now);
        if row.is_ended && row.waits.are_over() {
            self.taken.record(row.waits.waited.0);
            self.rows.remove_tagged(tag);
        }
    }

    /// Nothing of it is under way, and what comes at `at` comes too late to belong to it: then it goes.
    fn is_left_behind(&mut self, tag: u64, at: Nanos) -> bool {
        let Some(row) = self.rows.get_tagged_mut(tag) else { return true };
        let is_over = row.waits.are_over() && at.since(row.latest) > PAUSE_MAX;
        if is_over {
            self.rows.remove_tagged(tag);
        }
        is_over
    }

    fn open_row(&mut self, process: u32) -> u64 {
        if self.open.len() >= PROCESSES_MAX {
            let rows = &mut self.rows;
            self.open.retain(|_, tag| {
                let is_busy = rows.get_tagged_mut(*tag).is_some_and(|row| !row.waits.are_over());
                if !is_busy {
                    rows.remove_tagged(*tag);
                }
                is_busy
            });
        }
        let row = Row { waits: Waits::default(), latest: Nanos::ZERO, is_ended: false };
        let tag = self.rows.insert_tagged(row);
        self.open.insert(process, tag);
        tag
    }
}

/// The time during which at least one of some requests is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    under_way: u32,
    since: Nanos,
    until: Nanos,
    pub(super) waited: Nanos,
}

impl Waits {
    /// One is waited for from `at` on; of what was counted already nothing counts again.
    pub(super) fn begin(&mut self, at: Nanos) {
        if self.under_way == 0 {
            self.since = at.max(self.until);
        }
        self.under_way += 1;
    }

    pub(super) fn end(&mut self, now: Nanos) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.waited += now.since(self.since);
            self.until = now;
        }
    }

    pub(super) fn are_over(&self) -> bool {
        self.under_way == 0
    }

    /// Counts from `now` on.
    pub(super) fn restart(&mut self, now: Nanos) {
        (self.since, self.waited) = (now, Nanos::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: TraceRequest = TraceRequest {
        write: true,
        len_bytes: 4096,
        at: Nanos::ZERO,
        device: 0,
        offset_bytes: 0,
        flush: false,
        fua: false,
        in_background: false,
        process: 1,
        response: None,
        think: None,
    };
    const FLUSH: TraceRequest = TraceRequest { flush: true, len_bytes: 0, ..WRITE };

    /// Requests with the milliseconds at which they come and are answered; the times of the points, in milliseconds.
    fn taken(durability: Durability, requests: &[(TraceRequest, u64, u64)]) -> Vec<u64> {
        let mut points = Points::new(durability);
        let mut events: Vec<(u64, usize, bool)> = Vec::new();
        for (number, (_, from, to)) in requests.iter().enumerate() {
            events.extend([(*from, number, false), (*to, number, true)]);
        }
        events.sort_by_key(|(at, number, is_end)| (*at, !is_end, *number));
        let mut tags = vec![None; requests.len()];
        let mut found = Vec::new();
        for (at, number, is_end) in events {
            let now = Nanos::from_millis(at);
            if !is_end {
                tags[number] = points.begin(&TraceRequest { at: now, ..requests[number].0 }, now);
            } else if let Some(tag) = tags[number] {
                points.end(tag, now);
                if points.taken().count() > 0 {
                    found.push(points.taken().max() / 1_000_000);
                    points.restart();
                }
            }
        }
        found
    }

    #[test]
    fn a_point_takes_as_long_as_something_of_it_is_waited_for() {
        // A write of 10 ms, 5 ms of nothing, a flush of 20 ms.
        assert_eq!(taken(Durability::Asked, &[(WRITE, 0, 10), (FLUSH, 15, 35)]), [30]);
        // Two at once count once.
        assert_eq!(
            taken(Durability::Asked, &[(WRITE, 0, 10), (WRITE, 5, 12), (FLUSH, 12, 20)]),
            [20]
        );
        assert_eq!(taken(Durability::Asked, &[(FLUSH, 0, 7), (FLUSH, 50, 60)]), [7, 10]);
    }

    #[test]
    fn what_another_process_or_nobody_waits_for_is_no_part_of_it() {
        let other = TraceRequest { process: 2, ..WRITE };
        let background = TraceRequest { in_background: true, ..WRITE };
        let large = TraceRequest { len_bytes: 1 << 20, ..WRITE };
        for no_part in [other, background, large, TraceRequest { write: false, ..WRITE }] {
            assert_eq!(taken(Durability::Asked, &[(no_part, 0, 90), (FLUSH, 100, 107)]), [7]);
        }
    }

    #[test]
    fn after_a_pause_a_new_row_begins() {
        assert_eq!(taken(Durability::Asked, &[(WRITE, 0, 90), (FLUSH, 1200, 1207)]), [7]);
        assert_eq!(taken(Durability::Asked, &[(WRITE, 0, 1190), (FLUSH, 1200, 1207)]), [7]);
        assert_eq!(taken(Durability::Asked, &[(WRITE, 300, 1190), (FLUSH, 1200, 1207)]), [897]);
    }

    #[test]
    fn where_a_trace_does_not_say_each_write_is_a_point() {
        assert_eq!(taken(Durability::EveryWrite, &[(WRITE, 0, 10), (WRITE, 5, 25)]), [10, 20]);
    }

    #[test]
    fn writes_that_lead_nowhere_take_a_bounded_place() {
        let mut points = Points::new(Durability::Asked);
        for process in 0..3 * PROCESSES_MAX as u32 {
            let tag = points.begin(&TraceRequest { process, ..WRITE }, Nanos(1)).unwrap();
            points.end(tag, Nanos(2));
            assert!(points.open.len() <= PROCESSES_MAX && points.rows.len() <= PROCESSES_MAX);
        }
    }
}
