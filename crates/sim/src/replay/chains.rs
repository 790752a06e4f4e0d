//! Who waited for what: a process that asked for something only after something else was answered does so in a replay, too.
//!
//! A request that came after one of the same process was answered, in the trace, comes at its recorded time or, if that answer is late in the replay, as long
//! after it as in the trace. So a slower disk is not given what nobody would have asked for yet, and a faster one is not asked for more. Where a trace does
//! not say who asked, or how long things took, each request comes at its recorded time.
//!
//! Bounded by [`HELD_MAX`] and by a few links of each process.

use crate::trace::TraceRequest;
use nearhead_disk::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Requests held back; more are left in the trace.
const HELD_MAX: usize = 1024;
/// Requests of a process that a later one may have waited for.
const LINKS_MAX: usize = 64;
/// Processes that are known; beyond that those with nothing under way are forgotten.
const PROCESSES_MAX: usize = 4096;

/// What becomes of a request of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It comes at this time.
    At(Nanos),
    /// It comes once another one is answered.
    Held,
}

/// Requests that wait for others.
#[derive(Default)]
pub(super) struct Chains {
    processes: BTreeMap<u32, VecDeque<Link>>,
    /// What waits for the answer to a request, by its number, and how long after that it comes.
    held: BTreeMap<u64, Vec<(TraceRequest, u64, Nanos)>>,
    held_count: usize,
    /// What comes later than in the trace: when, and its number.
    late: BinaryHeap<Reverse<(Nanos, u64)>>,
    late_requests: BTreeMap<u64, TraceRequest>,
}

/// A request that others may have waited for.
struct Link {
    number: u64,
    /// When it was answered in the trace.
    recorded_end: Nanos,
    /// When it was answered here.
    end: Option<Nanos>,
}

impl Chains {
    /// Whether no more can be held.
    pub(super) fn are_full(&self) -> bool {
        self.held_count + self.late.len() >= HELD_MAX
    }

    /// Whether nothing is held.
    pub(super) fn are_empty(&self) -> bool {
        self.held_count == 0 && self.late.is_empty()
    }

    /// When the next one of those that come late is due.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.late.peek().map(|Reverse((at, _))| *at)
    }

    /// The next one that comes by `now`: when it was due, and its number.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(TraceRequest, Nanos, u64)> {
        let &Reverse((at, number)) = self.late.peek().filter(|first| first.0.0 <= now)?;
        self.late.pop();
        Some((self.late_requests.remove(&number)?, at, number))
    }

    /// `request`, which has this number and would come at `at`, takes its turn; unless it comes at once it is held here.
    pub(super) fn take(
        &mut self,
        request: TraceRequest,
        number: u64,
        at: Nanos,
        now: Nanos,
    ) -> Turn {
        let turn = self.turn(&request, number, at);
        match turn {
            Turn::At(due) if due > now => {
                self.late.push(Reverse((due, number)));
                self.late_requests.insert(number, request);
                Turn::Held
            }
            turn => turn,
        }
    }

    fn turn(&mut self, request: &TraceRequest, number: u64, at: Nanos) -> Turn {
        // Nobody knows who it was.
        let Some(response) = request.response.filter(|_| request.process != 0) else {
            return Turn::At(at);
        };
        self.forget();
        let links = self.processes.entry(request.process).or_default();
        let ended = links.iter().filter(|link| link.recorded_end <= request.at);
        let before = ended.max_by_key(|link| (link.recorded_end, link.number));
        let turn = before.map_or(Turn::At(at), |link| {
            let after = request.at.since(link.recorded_end);
            let Some(end) = link.end else {
                self.held.entry(link.number).or_default().push((*request, number, after));
                self.held_count += 1;
                return Turn::Held;
            };
            Turn::At(at.max(end + after))
        });
        if links.len() >= LINKS_MAX {
            links.pop_front();
        }
        links.push_back(Link { number, recorded_end: request.at + response, end: None });
        turn
    }

    /// The request with this number, of this process, is answered. `at` says when another one would come by the trace.
    pub(super) fn end(
        &mut self,
        process: u32,
        number: u64,
        now: Nanos,
        at: impl Fn(&TraceRequest) -> Nanos,
    ) {
        let links = self.processes.get_mut(&process).into_iter().flatten();
        if let Some(link) = links.into_iter().find(|link| link.number == number) {
            link.end = Some(now);
        }
        for (request, number, after) in self.held.remove(&number).unwrap_or_default() {
            self.held_count -= 1;
            self.late.push(Reverse((at(&request).max(now + after), number)));
            self.late_requests.insert(number, request);
        }
    }

    /// Gives up what is held.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn forget(&mut self) {
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.retain(|_, links| links.iter().any(|link| link.end.is_none()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(process: u32, at_ms: u64, response_ms: u64) -> TraceRequest {
        TraceRequest {
            at: Nanos::from_millis(at_ms),
            process,
            response: Some(Nanos::from_millis(response_ms)),
            ..TraceRequest::default()
        }
    }

    fn ms(at: u64) -> Nanos {
        Nanos::from_millis(at)
    }

    /// Takes a request at its recorded time.
    fn take(chains: &mut Chains, request: TraceRequest, number: u64) -> Turn {
        chains.take(request, number, request.at, request.at)
    }

    #[test]
    fn what_was_sent_together_waits_for_nothing_and_what_came_after_an_answer_waits_for_that() {
        let mut chains = Chains::default();
        assert_eq!(take(&mut chains, request(1, 0, 10), 0), Turn::At(ms(0)));
        assert_eq!(take(&mut chains, request(1, 5, 10), 1), Turn::At(ms(5)), "before any answer");
        assert_eq!(take(&mut chains, request(1, 12, 10), 2), Turn::Held, "2 ms after the first");
        assert_eq!(take(&mut chains, request(2, 12, 10), 3), Turn::At(ms(12)), "somebody else");
        assert_eq!((chains.next_at(), chains.are_empty()), (None, false));
        chains.end(1, 0, ms(40), |held| held.at);
        assert_eq!(chains.next_at(), Some(ms(42)));
        assert_eq!(chains.pop(ms(41)), None);
        let (late, due, number) = chains.pop(ms(42)).unwrap();
        assert_eq!((late.at, due, number, chains.are_empty()), (ms(12), ms(42), 2, true));
    }

    #[test]
    fn nobody_comes_sooner_than_in_the_trace() {
        let mut chains = Chains::default();
        take(&mut chains, request(1, 0, 10), 0);
        chains.end(1, 0, ms(1), |held| held.at);
        assert_eq!(take(&mut chains, request(1, 12, 10), 1), Turn::At(ms(12)));
    }

    #[test]
    fn without_a_process_or_a_response_there_is_no_chain() {
        let mut chains = Chains::default();
        let unknown = TraceRequest { response: None, ..request(1, 0, 0) };
        for number in 0..100 {
            let at = ms(number);
            assert_eq!(take(&mut chains, TraceRequest { at, ..unknown }, number), Turn::At(at));
            assert_eq!(take(&mut chains, request(0, number, 0), number), Turn::At(at));
        }
    }

    #[test]
    fn what_is_held_and_what_is_remembered_are_bounded() {
        let mut chains = Chains::default();
        // Each process asks for one, and for as many after it as are remembered of a process.
        let mut held = 0;
        for number in 0..4 * HELD_MAX as u64 {
            let process = 1 + (number / LINKS_MAX as u64) as u32;
            let is_first = number % LINKS_MAX as u64 == 0;
            let asked = if is_first { request(process, 0, 1) } else { request(process, 5, 1000) };
            if chains.are_full() {
                break;
            }
            held += u64::from(take(&mut chains, asked, number) == Turn::Held);
        }
        assert_eq!(held, HELD_MAX as u64);
        assert!(chains.processes.values().all(|links| links.len() <= LINKS_MAX));
        let mut chains = Chains::default();
        for process in 1..3 * PROCESSES_MAX as u32 {
            let number = u64::from(process) + 10_000;
            take(&mut chains, request(process, 10, 1), number);
            chains.end(process, number, ms(11), |held| held.at);
        }
        assert!(chains.processes.len() <= PROCESSES_MAX);
    }
}
