//! What a daemon shows over HTTP while it runs: metrics to scrapers (`--metrics`), and a page to browsers (`--http`).
//!
//! The loop that drives the volume makes a report once a second if either was asked for, and hands it over; it never waits for whoever
//! looks. Nothing can be changed by looking.

use crate::metrics;
use crate::report::{Rates, StatusReport};
use nearhead_disk::Nanos;
use nearhead_output::{note, warn};
use nearhead_web::{Answer, Feed, Page, Site};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;

/// How old what is shown may be.
const REFRESH: Nanos = Nanos::from_secs(1);

/// As Prometheus wants it named.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics, and nothing else. Scrapers name this machine as they like.
struct Metrics(Arc<Feed>);

impl Site for Metrics {
    fn answer(&self, path: &str) -> Option<Answer> {
        matches!(path, "/" | "/metrics").then(|| {
            let text = self.0.newest().unwrap_or_default();
            Answer::Whole(METRICS_TYPE, Cow::Owned(text.as_bytes().to_vec()))
        })
    }

    fn is_private(&self) -> bool {
        false
    }
}

/// What the page keeps of each second.
#[derive(Serialize)]
struct Moment {
    /// Since the daemon was started.
    at_s: f64,
    requests_per_s: f64,
    read_bytes_per_s: f64,
    written_bytes_per_s: f64,
    logged_bytes_per_s: f64,
    in_place_bytes_per_s: f64,
    home_bytes_per_s: f64,
    durable_p50_ms: Option<f64>,
    durable_p99_ms: Option<f64>,
    write_p99_ms: Option<f64>,
    read_p99_ms: Option<f64>,
}

impl Moment {
    fn of(rates: &Rates) -> Self {
        Self {
            at_s: rates.uptime_s,
            requests_per_s: rates.reads_per_s
                + rates.writes_per_s
                + rates.flushes_per_s
                + rates.trims_per_s,
            read_bytes_per_s: rates.read_bytes_per_s,
            written_bytes_per_s: rates.written_bytes_per_s,
            logged_bytes_per_s: rates.logged_bytes_per_s,
            in_place_bytes_per_s: rates.in_place_bytes_per_s,
            home_bytes_per_s: rates.home_bytes_per_s,
            durable_p50_ms: rates.durable.p50_ms,
            durable_p99_ms: rates.durable.p99_ms,
            write_p99_ms: rates.write.p99_ms,
            read_p99_ms: rates.read.p99_ms,
        }
    }
}

/// What is shown, if anything.
pub struct OverHttp {
    metrics: Option<Arc<Feed>>,
    page: Option<Page>,
    before: Option<StatusReport>,
    refresh_at: Nanos,
}

impl OverHttp {
    /// Listens at these addresses, and says where the page is.
    pub fn listen(metrics: Option<&str>, http: Option<&str>) -> Result<Self, String> {
        let feed = Arc::new(Feed::default());
        if let Some(address) = metrics {
            nearhead_web::listen("metrics", address, Metrics(Arc::clone(&feed)))?;
        }
        let page = Page::default();
        if let Some(address) = http {
            let found = nearhead_web::listen("page", address, page.clone())?;
            note(&format!("the page is at http://{found}/"));
            if !found.ip().is_loopback() {
                warn(&format!(
                    "the page at {found} is for everybody who reaches this machine, without a password and without encryption"
                ));
            }
        }
        Ok(Self {
            metrics: metrics.map(|_| feed),
            page: http.map(|_| page),
            before: None,
            refresh_at: Nanos::ZERO,
        })
    }

    /// Shows a new report if the last one is old.
    pub fn refresh(&mut self, now: Nanos, report: impl FnOnce() -> StatusReport) {
        if now < self.refresh_at || (self.metrics.is_none() && self.page.is_none()) {
            return;
        }
        self.refresh_at = now + REFRESH;
        let report = report();
        if let Some(feed) = &self.metrics {
            feed.publish(metrics::render(&report));
        }
        let Some(page) = &self.page else { return };
        if let Some(rates) = Rates::between(self.before.as_ref(), &report) {
            let texts =
                (serde_json::to_string(&report), serde_json::to_string(&Moment::of(&rates)));
            // A report is text and numbers.
            if let (Ok(report), Ok(moment)) = texts {
                page.tell(&report, &moment);
            }
        }
        self.before = Some(report);
    }
}
