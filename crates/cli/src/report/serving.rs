//! What a report for people says of the daemon that serves the volume: since when, to whom, how fast.

use super::{AttachedReport, Clients, Latencies, RequestCounts, StatusReport};
use crate::health::Losses;
use crate::serve::Coordination;
use crate::units::ByteSize;
use serde::{Deserialize, Serialize};

/// What only a running daemon can tell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Served {
    /// Its process.
    pub pid: u32,
    /// Time since it started, in seconds.
    pub uptime_s: f64,
    /// When that was, in seconds since 1970 UTC.
    #[serde(default)]
    pub started_unix_s: f64,
    /// Where clients connect.
    pub uris: Vec<String>,
    /// Whether every write is refused.
    pub read_only: bool,
    /// Its clients.
    pub clients: Clients,
    /// What they asked for.
    #[serde(default)]
    pub requests: RequestCounts,
    /// Their latencies.
    pub latency: Latencies,
    /// What people must know about the disk, if anything: a mirror that lost a member.
    #[serde(default)]
    pub disk_trouble: Option<String>,
    /// Writes that the disk lost, for which the volume was opened again.
    #[serde(default)]
    pub losses: Losses,
    /// What was found out about the disk when it was opened.
    #[serde(default)]
    pub disk_notes: Vec<String>,
    /// How checkpoints take turns with those of replicas, if they do.
    #[serde(default)]
    pub coordination: Option<Coordination>,
    /// The block device of the kernel that it is shown as, if it is.
    #[serde(default)]
    pub attached: Option<AttachedReport>,
    /// Checkpoints and drains that were cancelled.
    #[serde(default)]
    pub cancels: u64,
}

impl StatusReport {
    /// What the daemon that serves the volume adds.
    pub(super) fn serving(&self, served: &Served, line: &mut dyn FnMut(&str, String)) {
        line(
            "served",
            format!(
                "by process {} for {:.0} s on {}{}",
                served.pid,
                served.uptime_s,
                served.uris.join(", "),
                if served.read_only { ", read-only" } else { "" }
            ),
        );
        let (requests, errors) = (served.clients.requests, served.clients.errors);
        for (name, value) in served.attached.iter().flat_map(AttachedReport::lines) {
            line(name, value);
        }
        let connected = match (&self.file_system, &served.attached) {
            (Some(_), _) => String::new(),
            (None, Some(_)) if served.clients.connections_open == 0 => {
                "the block device, ".to_owned()
            }
            (None, _) => format!("{} connected, ", served.clients.connections_open),
        };
        line("clients", format!("{connected}{requests} requests, {errors} failed"));
        let lost = served.losses.last_problem.iter();
        for found in served.disk_notes.iter().chain(&served.disk_trouble).chain(lost) {
            line("disk", found.clone());
        }
        if let Some(coordination) = &served.coordination {
            line("turns", coordination.text());
        }
        let counters = &self.counters.0;
        line(
            "written",
            format!(
                "{} logged, {} in place ({} small writes that came alone); {} times a log had no room",
                ByteSize(counters.logged_bytes),
                ByteSize(counters.in_place_bytes),
                counters.alone_home,
                counters.spills
            ),
        );
        for (name, latency) in [
            ("durable", &served.latency.durable.summary),
            ("writes", &served.latency.write.summary),
            ("reads", &served.latency.read.summary),
        ] {
            if latency.count > 0 {
                line(
                    name,
                    format!(
                        "{} in {:.2} ms mean, {:.2} ms p99",
                        latency.count, latency.mean_ms, latency.p99_ms
                    ),
                );
            }
        }
    }
}
