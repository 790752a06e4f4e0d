//! What the requests of a trace are for: somebody's wait for durability, bulk, or anything else. The one place that says so.
//!
//! - A **durable point** is a flush, a write with a flush before it or with FUA, and what led to it: the small writes that the same process waited for just
//!   before, in a row of which no two are more than [`PAUSE_MAX`] apart. It takes as long as at least one of them was waited for; what the process
//!   did between two of them is not the disk's time.
//! - A trace without a flush and without FUA (its device has no volatile cache, or its form does not say) has no such point. In those
//!   each small write that somebody waits for is one.
//! - **Bulk** is what a backup, a scan or a copy does: requests of more than [`SMALL_BYTES_MAX`] that go on where one like them ended, once such a stream has
//!   moved [`STREAM_BYTES_MIN`]. Large requests here and there are none.
//!
//! docs/will-it-help.md says the same to users.

use crate::trace::TraceRequest;
use nearhead_disk::Nanos;
use std::collections::VecDeque;

/// The largest small request: Manylogs' threshold (MSST 2016, section III-C).
pub const SMALL_BYTES_MAX: u32 = 32 << 10;

/// A longer pause in a trace ends what belongs together: the writes before a flush, and a burst of bulk.
pub const PAUSE_MAX: Nanos = Nanos::from_secs(1);

/// So much of a stream must have gone by before the rest is bulk.
pub const STREAM_BYTES_MIN: u64 = 4 << 20;

/// A stream may leave out so much: a file system's own blocks between those of a file.
const GAP_BYTES_MAX: u64 = 1 << 20;

/// Streams that are followed at once; of more those that moved last.
const STREAMS_MAX: usize = 32;

/// Which requests of a trace are to be durable when they are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Those that ask for it.
    Asked,
    /// Every write, where a trace does not say.
    #[default]
    EveryWrite,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It ends a durable point.
    Durable,
    /// A small write that somebody waits for, and that may lead to a durable point.
    Leading,
    /// Bulk.
    Bulk,
    /// Anything else.
    Other,
}

impl Role {
    /// Whether it is bulk.
    pub fn is_bulk(self) -> bool {
        self == Self::Bulk
    }
}

/// What the requests of a trace are for, asked in their order.
#[derive(Clone, Debug)]
pub struct Roles {
    durability: Durability,
    /// The one that moved last stands last.
    streams: VecDeque<Stream>,
}

/// Large requests of which each goes on where another one ended.
#[derive(Clone, Copy, Debug)]
struct Stream {
    device: u32,
    write: bool,
    end: u64,
    bytes: u64,
}

impl Roles {
    /// Of a trace of this kind.
    pub fn new(durability: Durability) -> Self {
        Self { durability, streams: VecDeque::new() }
    }

    /// What the next request is for.
    pub fn of(&mut self, request: &TraceRequest) -> Role {
        match self.durability.role(request) {
            Role::Other if request.len_bytes > SMALL_BYTES_MAX => self.of_large(request),
            role => role,
        }
    }

    fn of_large(&mut self, request: &TraceRequest) -> Role {
        let goes_on = |stream: &Stream| {
            let ahead = request.offset_bytes.checked_sub(stream.end);
            let is_there = ahead.is_some_and(|ahead| ahead <= GAP_BYTES_MAX);
            is_there && (stream.device, stream.write) == (request.device, request.write)
        };
        let found = self.streams.iter().rposition(goes_on).and_then(|at| self.streams.remove(at));
        let before = found.map_or(0, |stream| stream.bytes);
        if self.streams.len() >= STREAMS_MAX {
            self.streams.pop_front();
        }
        self.streams.push_back(Stream {
            device: request.device,
            write: request.write,
            end: request.end_bytes(),
            bytes: before.saturating_add(u64::from(request.len_bytes)),
        });
        if before >= STREAM_BYTES_MIN { Role::Bulk } else { Role::Other }
    }
}

impl Durability {
    /// What `request` is for, as far as it can be told of it alone: no bulk.
    pub(super) fn role(self, request: &TraceRequest) -> Role {
        let is_small = request.len_bytes <= SMALL_BYTES_MAX;
        let is_waited_for = request.write && is_small && !request.in_background;
        match self {
            _ if request.asks_durability() => Role::Durable,
            Self::EveryWrite if is_waited_for => Role::Durable,
            Self::Asked if is_waited_for => Role::Leading,
            _ => Role::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_is_for_depends_on_what_it_asks_for_and_on_its_size() {
        let small = TraceRequest { write: true, len_bytes: SMALL_BYTES_MAX, ..Default::default() };
        let large = TraceRequest { len_bytes: SMALL_BYTES_MAX + 512, ..small };
        let background = TraceRequest { in_background: true, ..small };
        let read = TraceRequest { write: false, ..small };
        let flush = TraceRequest { write: true, flush: true, ..Default::default() };
        for (request, by_asked, by_every) in [
            (small, Role::Leading, Role::Durable),
            (large, Role::Other, Role::Other),
            (background, Role::Other, Role::Other),
            (read, Role::Other, Role::Other),
            (flush, Role::Durable, Role::Durable),
            (TraceRequest { fua: true, ..large }, Role::Durable, Role::Durable),
        ] {
            let roles =
                [Durability::Asked, Durability::EveryWrite].map(|it| Roles::new(it).of(&request));
            assert_eq!(roles, [by_asked, by_every], "{request:?}");
        }
    }

    const MIB: u64 = 1 << 20;

    fn read(offset_bytes: u64, len_bytes: u64) -> TraceRequest {
        TraceRequest { offset_bytes, len_bytes: len_bytes as u32, ..Default::default() }
    }

    /// How many of these reads are bulk.
    fn bulk(reads: impl Iterator<Item = TraceRequest>) -> usize {
        let mut roles = Roles::new(Durability::Asked);
        reads.filter(|read| roles.of(read).is_bulk()).count()
    }

    #[test]
    fn a_stream_is_bulk_once_it_has_gone_on_for_a_while_and_so_are_several_beside_each_other() {
        assert_eq!(bulk((0..20).map(|number| read(number * MIB, MIB))), 16);
        let three = (0..60).map(|number| read(number % 3 * (1 << 40) + number / 3 * MIB, MIB));
        assert_eq!(bulk(three), 3 * 16);
        // With holes, as a file system leaves them.
        assert_eq!(bulk((0..20).map(|number| read(number * 2 * MIB, MIB))), 16);
    }

    #[test]
    fn large_requests_here_and_there_are_no_bulk() {
        assert_eq!(bulk((0..1000).map(|number| read(number * 7919 % 1000 * (1 << 30), MIB))), 0);
        assert_eq!(
            bulk((0..1000).map(|number| read(number / 3 * (1 << 30) + number % 3 * MIB, MIB))),
            0
        );
        assert_eq!(bulk((0..1000).map(|number| read(number * 4096, 4096))), 0, "small ones");
        assert_eq!(bulk((0..20).rev().map(|number| read(number * MIB, MIB))), 0, "backwards");
        let turns = (0..20)
            .map(|number| TraceRequest { write: number % 2 == 0, ..read(number * 4 * MIB, MIB) });
        assert_eq!(bulk(turns), 0);
    }
}
