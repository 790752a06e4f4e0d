//! What happened between two reports of a daemon: rates, latencies, what cleaning did.
//!
//! By the daemon's clock, so that a report that came late is no lower rate.

use super::{Distribution, LogMap, PassReport, StatusReport};
use crate::units::ByteSize;
use nearhead_engine::Stats;
use nearhead_output::plain;
use serde::Serialize;

/// Between two reports.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rates {
    pub target: String,
    pub preset: String,
    pub size_bytes: u64,
    pub health: String,
    pub reasons: Vec<String>,
    pub phase: String,
    pub uptime_s: f64,
    /// What the rates are over.
    pub interval_s: f64,
    pub reads_per_s: f64,
    pub read_bytes_per_s: f64,
    pub writes_per_s: f64,
    pub written_bytes_per_s: f64,
    pub flushes_per_s: f64,
    pub trims_per_s: f64,
    /// Of durable writes and flushes.
    pub durable: Spread,
    /// Of writes answered early.
    pub write: Spread,
    pub read: Spread,
    pub logged_bytes_per_s: f64,
    pub in_place_bytes_per_s: f64,
    /// What cleaning took home.
    pub home_bytes_per_s: f64,
    pub staged_bytes: u64,
    pub log_fill_pct: u32,
    pub log_map: LogMap,
    pub pass: Option<PassReport>,
    pub last_pass: Option<PassReport>,
    pub connections_open: u64,
    pub errors_per_s: f64,
    pub disk_errors: u64,
}

/// Latencies within the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub per_s: f64,
    /// None if there was none.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

impl Spread {
    fn of(times: &Distribution, interval_s: f64) -> Self {
        let ms = |percent| times.percentile(percent).map(|ns| ns as f64 / 1e6);
        let per_s = times.count() as f64 / interval_s;
        Self { per_s, p50_ms: ms(50.0), p99_ms: ms(99.0) }
    }
}

impl Rates {
    /// From `before` to `after`; since the daemon was started, if there is nothing before or it was another daemon. None of a volume that
    /// nobody serves.
    pub fn between(before: Option<&StatusReport>, after: &StatusReport) -> Option<Self> {
        let served = after.served.as_ref()?;
        let earlier = before
            .and_then(|report| report.served.as_ref())
            .filter(|earlier| earlier.pid == served.pid && earlier.uptime_s < served.uptime_s);
        let interval_s = served.uptime_s - earlier.map_or(0.0, |earlier| earlier.uptime_s);
        let interval_s = interval_s.max(1e-3);
        let counters_before =
            earlier.and(before).map_or_else(Stats::default, |report| report.counters.0);
        let (counters, requests) = (&after.counters.0, &served.requests);
        let asked = earlier.map(|earlier| earlier.requests.clone()).unwrap_or_default();
        // What counts anew, since the volume was opened again, is no rate below 0.
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / interval_s;
        let spread = |now: &Distribution, then: Option<&Distribution>| {
            let then = then.cloned().unwrap_or_default();
            Spread::of(&now.since(&then), interval_s)
        };
        let latency = earlier.map(|earlier| &earlier.latency);
        Some(Self {
            target: after.target.clone(),
            preset: after.volume.preset.clone(),
            size_bytes: after.volume.client_bytes,
            health: after.health.state.clone(),
            reasons: after.health.reasons.clone(),
            phase: after.state.phase.clone(),
            uptime_s: served.uptime_s,
            interval_s,
            reads_per_s: rate(requests.reads, asked.reads),
            read_bytes_per_s: rate(requests.read_bytes.sum, asked.read_bytes.sum),
            writes_per_s: rate(requests.writes, asked.writes),
            written_bytes_per_s: rate(requests.written_bytes.sum, asked.written_bytes.sum),
            flushes_per_s: rate(requests.flushes, asked.flushes),
            trims_per_s: rate(requests.trims, asked.trims),
            durable: spread(
                &served.latency.durable.times_ns,
                latency.map(|it| &it.durable.times_ns),
            ),
            write: spread(&served.latency.write.times_ns, latency.map(|it| &it.write.times_ns)),
            read: spread(&served.latency.read.times_ns, latency.map(|it| &it.read.times_ns)),
            logged_bytes_per_s: rate(counters.logged_bytes, counters_before.logged_bytes),
            in_place_bytes_per_s: rate(counters.in_place_bytes, counters_before.in_place_bytes),
            home_bytes_per_s: rate(counters.checkpointed_bytes, counters_before.checkpointed_bytes),
            staged_bytes: after.state.staged_bytes,
            log_fill_pct: after.state.log_fill_pct,
            log_map: after.state.log_map.clone(),
            pass: after.state.pass.clone(),
            last_pass: after.state.last_pass.clone(),
            connections_open: served.clients.connections_open,
            errors_per_s: rate(counters.requests_failed, counters_before.requests_failed),
            disk_errors: after.disk_errors.total,
        })
    }

    /// What cleaning does and why.
    pub fn cleaning(&self) -> String {
        let pass = self.pass.as_ref().or(self.last_pass.as_ref());
        pass.map_or_else(|| "nothing went home yet".to_owned(), PassReport::in_words)
    }

    /// On one line, for who reads what a terminal does not show.
    pub fn line(&self) -> String {
        let latency = |spread: &Spread| match (spread.p50_ms, spread.p99_ms) {
            (Some(p50), Some(p99)) => format!("{p50:.2}/{p99:.2} ms"),
            _ => "-".to_owned(),
        };
        format!(
            "{}: {}, reads {:.0}/s {}/s p50/p99 {}, writes {:.0}/s {}/s, durable {:.0}/s p50/p99 {}, logs {} % full, {} home/s, {}",
            plain(&self.target),
            self.health,
            self.reads_per_s,
            bytes(self.read_bytes_per_s),
            latency(&self.read),
            self.writes_per_s,
            bytes(self.written_bytes_per_s),
            self.durable.per_s,
            latency(&self.durable),
            self.log_fill_pct,
            bytes(self.home_bytes_per_s),
            self.cleaning(),
        )
    }
}

/// Bytes of a rate.
pub fn bytes(rate: f64) -> ByteSize {
    ByteSize(rate.round() as u64)
}
