//! From what happened to requests on their way through the kernel to the requests: asked for, issued to the device, completed.
//!
//! A request counts when it was asked for (queued), because that is when its client asked, and is as large as it was issued: the kernel merges
//! neighbours before the device sees them, and a journal's blocks that leave as one request are one. It took until it was completed. Each of the three
//! may be missing (a trace of queued requests alone, devices without a request queue, events that were lost); what is there counts.
//!
//! Three things hold: requests leave in the order in which they came; no action makes more than one; and at most [`WAITING_MAX`] are held, however
//! many never complete.

use super::TraceRequest;
use nearhead_disk::Nanos;
use std::collections::VecDeque;

/// Requests held until they are complete; more than any device has outstanding.
const WAITING_MAX: usize = 4096;

/// So long a write with a flush or FUA may be held after its bytes are there: the kernel says by an action without sectors when what it emulates
/// with flushes is over, and says nothing where the device does it by itself.
const FLUSH_AFTER_MAX: Nanos = Nanos::from_secs(1);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A client asked for it.
    Queued,
    /// The device was given it.
    Issued,
    /// The device is done.
    Completed,
}

/// Something that happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) what: What,
    /// What is known of the request, of no length if it has no sectors; `at` is when this happened.
    pub(super) request: TraceRequest,
}

/// What a request is, by the letters that the kernel gives it (`blk_fill_rwbs` in the Linux sources): a flush before it, what it does, FUA, and others.
/// `None` of what moves no bytes and flushes nothing, such as a discard.
pub(super) fn of_letters(letters: &[u8]) -> Option<TraceRequest> {
    let (flush, rest) = match letters {
        [b'F', rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, letters),
    };
    let (&operation, others) = rest.split_first()?;
    let write = match operation {
        b'W' => true,
        b'R' => false,
        // The kernel's own flush, for requests that asked for one.
        b'F' | b'N' if flush => true,
        _ => return None,
    };
    let has = |letter| others.contains(&letter);
    let in_background = write && !has(b'S');
    Some(TraceRequest { write, flush, fua: has(b'F'), in_background, ..TraceRequest::default() })
}

/// A request that was asked for.
struct Waiting {
    request: TraceRequest,
    line: u64,
    /// Bytes that are not complete.
    left_bytes: u64,
    done: Done,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    No,
    /// Its bytes are there; a flush may still follow.
    Perhaps(Nanos),
    Yes(Nanos),
    /// It is part of an earlier one.
    Merged,
}

/// What leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// A request, and the line on which it was asked for.
    Request(TraceRequest, u64),
    /// What became part of an earlier one.
    Part,
}

/// Requests in the order in which they came, until they may leave.
#[derive(Default)]
pub(super) struct Assembly {
    waiting: VecDeque<Waiting>,
    /// The trace says when requests were asked for.
    has_queued: bool,
    latest: Nanos,
}

impl Assembly {
    /// Takes in an action, of the line with this number. Whether it is a request of its own, for all that is known by now.
    pub(super) fn take(&mut self, action: Action, line: u64) -> bool {
        let request = action.request;
        self.latest = self.latest.max(request.at);
        match action.what {
            What::Queued => {
                self.has_queued = true;
                self.wait(request, line);
                true
            }
            What::Issued => self.issue(request, line),
            What::Completed => {
                self.complete(request);
                false
            }
        }
    }

    /// The next one that needs no more actions; any that waits if there will be no more.
    pub(super) fn pop(&mut self, is_over: bool) -> Option<Leaving> {
        let first = self.waiting.front()?;
        let may_leave = match first.done {
            Done::No => false,
            Done::Perhaps(at) => self.latest.since(at) > FLUSH_AFTER_MAX,
            Done::Yes(_) | Done::Merged => true,
        };
        if !may_leave && !is_over && self.waiting.len() <= WAITING_MAX {
            return None;
        }
        let Waiting { mut request, line, done, .. } = self.waiting.pop_front()?;
        match done {
            Done::Merged => return Some(Leaving::Part),
            Done::No => {}
            Done::Perhaps(at) | Done::Yes(at) => request.response = Some(at.since(request.at)),
        }
        Some(Leaving::Request(request, line))
    }

    fn wait(&mut self, request: TraceRequest, line: u64) {
        let left_bytes = u64::from(request.len_bytes);
        self.waiting.push_back(Waiting { request, line, left_bytes, done: Done::No });
    }

    /// The device was given bytes that were asked for piece by piece: they are one request, the earliest of them.
    fn issue(&mut self, issued: TraceRequest, line: u64) -> bool {
        if issued.len_bytes == 0 {
            // A flush of the kernel's own belongs to a request that is known, or is all that is known of one.
            let is_news = issued.flush && !self.has_queued;
            if is_news {
                self.wait(issued, line);
            }
            return is_news;
        }
        let mut left = u64::from(issued.len_bytes);
        let mut parts: Vec<usize> = Vec::new();
        for (at, waiting) in self.waiting.iter().enumerate().rev() {
            let shared = waiting.shares(&issued);
            if shared > 0 {
                parts.push(at);
                left = left.saturating_sub(shared);
            }
            if left == 0 {
                break;
            }
        }
        match parts[..] {
            [] => {
                self.wait(issued, line);
                return true;
            }
            [_] => {}
            [.., earliest] => self.merge(earliest, &parts, &issued),
        }
        false
    }

    fn merge(&mut self, earliest: usize, parts: &[usize], issued: &TraceRequest) {
        let (mut start, mut end) = (issued.offset_bytes, issued.end_bytes());
        let mut in_background = true;
        for &at in parts {
            let part = &mut self.waiting[at];
            start = start.min(part.request.offset_bytes);
            end = end.max(part.request.end_bytes());
            in_background &= part.request.in_background;
        }
        // Longer than a request can be: then they stay what they were.
        let Ok(len_bytes) = u32::try_from(end - start) else { return };
        for &at in parts {
            self.waiting[at].done = Done::Merged;
        }
        let whole = &mut self.waiting[earliest];
        let request =
            TraceRequest { offset_bytes: start, len_bytes, in_background, ..whole.request };
        (whole.request, whole.left_bytes, whole.done) = (request, u64::from(len_bytes), Done::No);
    }

    fn complete(&mut self, completed: TraceRequest) {
        let at = completed.at;
        if completed.len_bytes == 0 {
            // Of the kernel's own flushes only the end of the request that asked for them counts.
            let is_own = completed.flush && self.has_queued;
            let asked = |waiting: &&mut Waiting| waiting.ends_by(&completed);
            if !is_own && let Some(waiting) = self.waiting.iter_mut().find(asked) {
                waiting.done = Done::Yes(at);
            }
            return;
        }
        let mut left = u64::from(completed.len_bytes);
        for waiting in &mut self.waiting {
            let shared = waiting.shares(&completed).min(waiting.left_bytes);
            waiting.left_bytes -= shared;
            left -= shared.min(left);
            if shared > 0 && waiting.left_bytes == 0 {
                let asks_more = waiting.request.flush || waiting.request.fua;
                waiting.done = if asks_more { Done::Perhaps(at) } else { Done::Yes(at) };
            }
            if left == 0 {
                return;
            }
        }
    }
}

impl Waiting {
    /// Bytes that are not complete and that both have.
    fn shares(&self, other: &TraceRequest) -> u64 {
        let own = &self.request;
        if self.done != Done::No || own.device != other.device || own.write != other.write {
            return 0;
        }
        let start = own.offset_bytes.max(other.offset_bytes);
        own.end_bytes().min(other.end_bytes()).saturating_sub(start)
    }

    /// Whether a completion without sectors is its end: of a flush, or of a write with one, where it begins.
    fn ends_by(&self, completed: &TraceRequest) -> bool {
        let own = &self.request;
        let is_open = matches!(self.done, Done::No | Done::Perhaps(_)) && self.left_bytes == 0;
        let is_there = own.offset_bytes == completed.offset_bytes && own.device == completed.device;
        is_open && is_there && own.write == completed.write && (own.flush || own.fua)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::SECTOR_BYTES as SECTOR;

    fn action(what: What, at_us: u64, letters: &str, start: u64, sectors: u64) -> Action {
        let request = TraceRequest {
            at: Nanos::from_micros(at_us),
            device: 8 << 20,
            process: 7,
            offset_bytes: start * SECTOR,
            len_bytes: (sectors * SECTOR) as u32,
            ..of_letters(letters.as_bytes()).unwrap()
        };
        Action { what, request }
    }

    fn assembled(actions: &[(What, u64, &str, u64, u64)]) -> Vec<TraceRequest> {
        let mut assembly = Assembly::default();
        let mut found = Vec::new();
        for (line, &(what, at_us, letters, start, sectors)) in (1..).zip(actions) {
            assembly.take(action(what, at_us, letters, start, sectors), line);
            found.extend(std::iter::from_fn(|| assembly.pop(false)));
        }
        found.extend(std::iter::from_fn(|| assembly.pop(true)));
        let request = |leaving| match leaving {
            Leaving::Request(request, _) => Some(request),
            Leaving::Part => None,
        };
        found.into_iter().filter_map(request).collect()
    }

    /// Arrival, first sector, sectors, response.
    fn told(requests: &[TraceRequest]) -> Vec<(u64, u64, u64, Option<u64>)> {
        let one = |request: &TraceRequest| {
            let response = request.response.map(|response| response.0 / 1000);
            (
                request.at.0 / 1000,
                request.offset_bytes / SECTOR,
                u64::from(request.len_bytes) / SECTOR,
                response,
            )
        };
        requests.iter().map(one).collect()
    }

    use What::{Completed as C, Issued as D, Queued as Q};

    #[test]
    fn letters_say_what_a_request_is() {
        let of = |letters: &str| of_letters(letters.as_bytes());
        let write = TraceRequest { write: true, ..TraceRequest::default() };
        assert_eq!(of("WS"), Some(write));
        assert_eq!(of("W"), Some(TraceRequest { in_background: true, ..write }));
        assert_eq!(of("FWFSM"), Some(TraceRequest { flush: true, fua: true, ..write }));
        assert_eq!(of("RA"), Some(TraceRequest::default()));
        let own_flush = TraceRequest { flush: true, in_background: true, ..write };
        assert_eq!((of("FN"), of("FF")), (Some(own_flush), Some(own_flush)));
        for other in ["", "F", "N", "D", "DS", "DE", "?"] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_was_asked_for_in_pieces_and_issued_as_one_is_one_that_came_with_the_first() {
        let found = assembled(&[
            (Q, 10, "WSM", 352, 8),
            (Q, 12, "WSM", 360, 8),
            (Q, 13, "R", 9000, 8),
            (Q, 14, "WSM", 368, 8),
            (D, 20, "R", 9000, 8),
            (D, 30, "WSM", 352, 24),
            (C, 45, "R", 9000, 8),
            (C, 70, "WSM", 352, 24),
        ]);
        assert_eq!(told(&found), [(10, 352, 24, Some(60)), (13, 9000, 8, Some(32))]);
    }

    #[test]
    fn what_was_asked_for_as_one_and_issued_in_pieces_is_one_that_took_until_the_last() {
        let found = assembled(&[
            (Q, 1, "WS", 1000, 2048),
            (D, 2, "WS", 1000, 1056),
            (D, 3, "WS", 2056, 992),
            (C, 9, "WS", 1000, 1056),
            (C, 15, "WS", 2056, 992),
        ]);
        assert_eq!(told(&found), [(1, 1000, 2048, Some(14))]);
    }

    #[test]
    fn a_write_with_flushes_around_it_ends_with_the_last_of_them() {
        let found = assembled(&[
            (Q, 1, "FWFSM", 392, 8),
            (D, 2, "FF", 0, 0),
            (C, 10, "FF", 0, 0),
            (D, 11, "WSM", 392, 8),
            (C, 12, "WSM", 392, 8),
            (D, 13, "FF", 0, 0),
            (C, 20, "FF", 0, 0),
            (C, 21, "WSM", 392, 0),
        ]);
        assert_eq!(told(&found), [(1, 392, 8, Some(20))]);
        assert!(found[0].flush && found[0].fua && !found[0].in_background);
    }

    #[test]
    fn a_device_that_does_fua_by_itself_ends_it_with_its_bytes() {
        let found = assembled(&[
            (Q, 1, "WFS", 392, 8),
            (D, 2, "WFS", 392, 8),
            (C, 12, "WFS", 392, 8),
            (Q, 2_000_000, "R", 0, 8),
        ]);
        assert_eq!(told(&found)[0], (1, 392, 8, Some(11)));
    }

    #[test]
    fn a_flush_alone_has_no_bytes_and_takes_until_its_own_end() {
        let found = assembled(&[
            (Q, 1, "FWS", 0, 0),
            (Q, 2, "FWS", 0, 0),
            (D, 3, "FN", 0, 0),
            (C, 9, "FN", 0, 0),
            (C, 10, "WS", 0, 0),
            (C, 11, "WS", 0, 0),
        ]);
        assert_eq!(told(&found), [(1, 0, 0, Some(9)), (2, 0, 0, Some(9))]);
        assert!(found.iter().all(|flush| flush.flush));
    }

    #[test]
    fn a_trace_that_says_only_what_was_asked_for_or_only_what_was_issued_is_read() {
        let asked = assembled(&[(Q, 1, "W", 8, 8), (Q, 2, "W", 16, 8), (Q, 3, "FWS", 0, 0)]);
        assert_eq!(told(&asked), [(1, 8, 8, None), (2, 16, 8, None), (3, 0, 0, None)]);
        let issued = assembled(&[
            (D, 1, "W", 8, 8),
            (D, 2, "FF", 0, 0),
            (C, 5, "W", 8, 8),
            (C, 9, "FF", 0, 0),
        ]);
        assert_eq!(told(&issued), [(1, 8, 8, Some(4)), (2, 0, 0, Some(7))]);
        assert!(issued[0].in_background);
    }

    #[test]
    fn a_device_without_a_request_queue_completes_what_was_asked_for() {
        let found = assembled(&[
            (Q, 1, "W", 8, 8),
            (Q, 2, "R", 8, 8),
            (C, 5, "R", 8, 8),
            (C, 6, "W", 8, 8),
        ]);
        assert_eq!(told(&found), [(1, 8, 8, Some(5)), (2, 8, 8, Some(3))]);
    }

    #[test]
    fn what_never_completes_leaves_once_others_have_come() {
        let mut assembly = Assembly::default();
        let mut passed_on = 0;
        for number in 0..3 * WAITING_MAX as u64 {
            assembly.take(action(Q, number, "W", 8 * number, 8), number);
            while let Some(next) = assembly.pop(false) {
                assert!(matches!(next, Leaving::Request(_, line) if line == passed_on), "in order");
                passed_on += 1;
            }
            assert!(assembly.waiting.len() <= WAITING_MAX);
        }
        assert_eq!(passed_on, 2 * WAITING_MAX as u64);
    }
}
