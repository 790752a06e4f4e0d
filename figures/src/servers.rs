//! Generators that stand in for server traces which are not public: `synthetic-...` everywhere.
//!
//! A generator is fitted to the published statistics of its server (`data/servers.toml` says which
//! they are and what is assumed). Arrivals are Poisson with bursts, most addresses go on where a
//! recent request ended or lie in hot areas, and a stated share of writes repeats earlier ones. The same server, window and
//! seed give the same requests; no more than a fixed number of earlier writes is remembered.

use crate::sources::SYNTHETIC;
use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_sim::trace::{TraceError, TraceRequest};
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::LazyLock;

/// The embedded parameters, in the order of Manylogs' table I.
static SERVERS: LazyLock<Vec<Server>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        server: Vec<Server>,
    }
    let file: File =
        toml::from_str(include_str!("../data/servers.toml")).expect("embedded; a test reads it");
    file.server
});

/// Hot areas of a volume, spread over it.
const HOT_AREAS: u64 = 8;
/// Share of new places that lie in them.
const HOT_SHARE: f64 = 0.8;
/// Ends of earlier requests at which a later one may go on.
const STREAMS_MAX: usize = 32;
/// Earlier writes that can be repeated. More would only cost memory: which ones does not matter.
const REMEMBERED_MAX: usize = 1 << 16;
/// Mean lengths of a burst and, with the rates of the server, of the time between two.
const BURST_MEAN_S: f64 = 2.0;
const BURST_SHARE: f64 = 0.15;

/// A traced server, as `data/servers.toml` describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// T1 to T10, as in Manylogs' table I.
    pub id: String,
    /// Its short name there.
    pub name: String,
    /// What it does.
    role: String,
    reads_per_s: f64,
    writes_per_s: f64,
    burst: f64,
    read_kib: Vec<(u32, f64)>,
    write_kib: Vec<(u32, f64)>,
    read_streams: f64,
    write_streams: f64,
    hot_gb: f64,
    overwrite: f64,
    span_gb: f64,
}

/// Which part of a trace is taken (Manylogs, table I).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// The five minutes with the most intense reads.
    MostRead,
    /// The five minutes with the most intense writes.
    MostWrite,
    /// Any five minutes.
    Random,
    /// The hour with the most writes.
    WriteBusiestHour,
}

impl Window {
    /// How much more is read, and written, than on average (assumed: there are no such figures).
    const fn intensities(self) -> (f64, f64) {
        match self {
            Self::MostRead => (3.0, 1.0),
            Self::MostWrite => (1.0, 2.5),
            Self::Random | Self::WriteBusiestHour => (1.0, 1.0),
        }
    }
}

impl Server {
    /// All ten.
    pub(crate) fn all() -> &'static [Self] {
        &SERVERS
    }

    /// The one with that id.
    pub(crate) fn by_id(id: &str) -> Option<&'static Self> {
        SERVERS.iter().find(|server| server.id == id)
    }

    /// What it does, in words.
    pub(crate) fn role(&self) -> &str {
        &self.role
    }

    /// As it is called wherever its requests are used.
    pub(crate) fn label(&self) -> String {
        format!("{SYNTHETIC}{}", self.name.to_lowercase())
    }

    /// Size of the traced volume, in bytes.
    pub(crate) fn span_bytes(&self) -> u64 {
        (self.span_gb * 1e9) as u64
    }

    /// The same on a volume of at most `span_bytes`.
    #[must_use]
    pub(crate) fn within(&self, span_bytes: u64) -> Self {
        Self { span_gb: self.span_gb.min(span_bytes as f64 / 1e9), ..self.clone() }
    }

    /// Its requests of `window`, of `length`.
    pub(crate) fn requests(&self, window: Window, length: Nanos, seed: u64) -> Requests {
        let (read, write) = window.intensities();
        let mut random = Random::new(seed);
        // Where the hot areas are differs from window to window.
        let hot_from = random.below(self.span_bytes() / HOT_AREAS / 2);
        let mut requests = Requests {
            server: self.clone(),
            reads_per_s: self.reads_per_s * read,
            writes_per_s: self.writes_per_s * write,
            random,
            hot_from,
            now_s: 0.0,
            length_s: length.as_secs_f64(),
            in_burst: false,
            phase_ends_s: 0.0,
            streams: [VecDeque::new(), VecDeque::new()],
            written: Vec::new(),
            writes: 0,
        };
        requests.begin_phase();
        requests
    }
}

/// The requests of a synthetic server, in order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    server: Server,
    reads_per_s: f64,
    writes_per_s: f64,
    random: Random,
    /// First byte of the first hot area.
    hot_from: u64,
    now_s: f64,
    length_s: f64,
    in_burst: bool,
    phase_ends_s: f64,
    /// Where reads, and writes, may go on: the ends of the latest.
    streams: [VecDeque<u64>; 2],
    /// A sample of the writes so far: offset and length.
    written: Vec<(u64, u32)>,
    writes: u64,
}

impl Requests {
    fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - u lies in (0, 1]: its logarithm is finite.
        -(1.0 - self.random.unit_f64()).ln() * mean
    }

    fn begin_phase(&mut self) {
        let share = if self.in_burst { 1.0 } else { (1.0 - BURST_SHARE) / BURST_SHARE };
        let length = self.exponential(BURST_MEAN_S * share);
        self.phase_ends_s = self.now_s + length;
    }

    /// The rate over its mean: higher in bursts, lower between them, one on average.
    fn intensity(&self) -> f64 {
        let burst = self.server.burst;
        if self.in_burst { burst } else { (1.0 - BURST_SHARE * burst) / (1.0 - BURST_SHARE) }
    }

    /// The next arrival. What is left of the wait when a phase ends is drawn anew, as arrivals
    /// without memory allow.
    fn next_arrival(&mut self) -> Option<f64> {
        loop {
            let rate = (self.reads_per_s + self.writes_per_s) * self.intensity().max(0.01);
            let at = self.now_s + self.exponential(1.0 / rate);
            if at.min(self.phase_ends_s) >= self.length_s {
                return None;
            }
            if at < self.phase_ends_s {
                self.now_s = at;
                return Some(at);
            }
            self.now_s = self.phase_ends_s;
            self.in_burst = !self.in_burst;
            self.begin_phase();
        }
    }

    fn size(&mut self, write: bool) -> u32 {
        let sizes = if write { &self.server.write_kib } else { &self.server.read_kib };
        let all: f64 = sizes.iter().map(|(_, weight)| weight).sum();
        let mut left = self.random.unit_f64() * all;
        for (kib, weight) in sizes {
            left -= weight;
            if left < 0.0 {
                return kib << 10;
            }
        }
        sizes.last().map_or(4096, |(kib, _)| kib << 10)
    }

    /// A new place: most of them in the hot areas.
    fn place(&mut self, len: u32) -> u64 {
        let span = self.server.span_bytes();
        let (from, room) = if self.random.happens(HOT_SHARE) {
            let area = (self.server.hot_gb * 1e9) as u64 / HOT_AREAS;
            let spacing = span / HOT_AREAS;
            (self.hot_from + self.random.below(HOT_AREAS) * spacing, area.min(spacing / 2))
        } else {
            (0, span)
        };
        let places = room.saturating_sub(u64::from(len)) / 4096;
        let at = from / 4096 * 4096 + self.random.below(places) * 4096;
        at.min((span - u64::from(len)) / 4096 * 4096)
    }

    fn address(&mut self, write: bool) -> (u64, u32) {
        if write && !self.written.is_empty() && self.random.happens(self.server.overwrite) {
            let index = self.random.below(self.written.len() as u64) as usize;
            return self.written[index];
        }
        let len = self.size(write);
        let share = if write { self.server.write_streams } else { self.server.read_streams };
        let streams = self.streams[usize::from(write)].len() as u64;
        let goes_on = streams > 0 && self.random.happens(share);
        let next = goes_on.then(|| {
            let index = self.random.below(streams) as usize;
            self.streams[usize::from(write)].remove(index)
        });
        let fits = |next: &u64| next + u64::from(len) <= self.server.span_bytes();
        let offset = match next.flatten().filter(fits) {
            Some(next) => next,
            None => self.place(len),
        };
        let streams = &mut self.streams[usize::from(write)];
        streams.push_back(offset + u64::from(len));
        if streams.len() > STREAMS_MAX {
            streams.pop_front();
        }
        (offset, len)
    }

    /// Keeps an even sample of all writes (reservoir sampling).
    fn remember(&mut self, offset: u64, len: u32) {
        self.writes += 1;
        if self.written.len() < REMEMBERED_MAX {
            self.written.push((offset, len));
            return;
        }
        let index = self.random.below(self.writes) as usize;
        if let Some(place) = self.written.get_mut(index) {
            *place = (offset, len);
        }
    }
}

impl Iterator for Requests {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at_s = self.next_arrival()?;
        let write_share = self.writes_per_s / (self.reads_per_s + self.writes_per_s);
        let write = self.random.happens(write_share);
        let (offset_bytes, len_bytes) = self.address(write);
        if write {
            self.remember(offset_bytes, len_bytes);
        }
        let at = Nanos((at_s * 1e9) as u64);
        Some(Ok(TraceRequest { at, offset_bytes, len_bytes, write, ..TraceRequest::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn collect(server: &Server, window: Window, seconds: u64, seed: u64) -> Vec<TraceRequest> {
        server.requests(window, Nanos::from_secs(seconds), seed).map(Result::unwrap).collect()
    }

    #[test]
    fn there_is_a_generator_for_each_of_the_ten_and_it_is_called_synthetic() {
        let ids: Vec<&str> = Server::all().iter().map(|server| server.id.as_str()).collect();
        assert_eq!(ids, ["T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9", "T10"]);
        assert!(Server::all().iter().all(|server| server.label().starts_with("synthetic-")));
    }

    #[test]
    fn requests_come_in_order_at_their_rate_inside_the_volume() {
        for server in Server::all() {
            let requests = collect(server, Window::WriteBusiestHour, 3600, 1);
            let rate = requests.len() as f64 / 3600.0;
            let expected = server.reads_per_s + server.writes_per_s;
            assert!((rate / expected - 1.0).abs() < 0.25, "{}: {rate} {expected}", server.id);
            assert!(requests.is_sorted_by_key(|request| request.at), "{}", server.id);
            let inside = |request: &TraceRequest| request.end_bytes() <= server.span_bytes();
            assert!(requests.iter().all(inside), "{}", server.id);
        }
    }

    #[test]
    fn blocks_are_overwritten_about_as_often_as_asked() {
        for server in Server::all() {
            let (mut written, mut again) = (BTreeSet::new(), 0_u64);
            let mut blocks = 0_u64;
            for request in collect(server, Window::WriteBusiestHour, 3600, 3) {
                if request.write {
                    let range = request.offset_bytes / 4096..request.end_bytes() / 4096;
                    blocks += range.end - range.start;
                    again += range.filter(|block| !written.insert(*block)).count() as u64;
                }
            }
            let found = again as f64 / blocks as f64;
            // Streams that run into each other overwrite a little more than was asked for.
            let more = found - server.overwrite;
            assert!((-0.05..0.1).contains(&more), "{}: {found}", server.id);
        }
    }

    #[test]
    fn a_window_of_intense_writes_writes_more_than_a_random_one() {
        let server = Server::by_id("T7").unwrap();
        let writes =
            |window| collect(server, window, 300, 5).iter().filter(|request| request.write).count();
        assert!(writes(Window::MostWrite) > 2 * writes(Window::Random));
    }

    #[test]
    fn the_same_seed_gives_the_same_requests_and_another_others() {
        let server = Server::by_id("T4").unwrap();
        let of = |seed| collect(server, Window::Random, 20, seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
