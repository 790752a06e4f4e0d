//! What a report for people says of the daemon that serves the volume: since when, to whom, how fast.

use super::{AttachedReport, Served, StatusReport};
use crate::units::ByteSize;

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
