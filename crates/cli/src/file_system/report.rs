//! Report of `nearhead status` for a mounted volume: that of any served volume, and of the file system on it.

use super::desk::{Facts, Mounted};
use crate::health::Losses;
use crate::report::{Clients, FileSystemReport, Served, StatusReport};
use nearhead_disk::Nanos;
use nearhead_service::Service;
use std::sync::atomic::Ordering;

/// The state as a report.
pub(super) fn report(facts: &Facts, mounted: &Mounted, now: Nanos) -> StatusReport {
    let volume = mounted.service().inner();
    let told = mounted.report();
    let served = Served {
        pid: std::process::id(),
        uptime_s: now.as_secs_f64(),
        started_unix_s: crate::metrics::started_unix_s(),
        uris: vec![facts.folder.display().to_string()],
        read_only: volume.info().read_only,
        clients: Clients {
            requests: told.counts.requests,
            errors: told.counts.errors,
            ..Clients::default()
        },
        requests: mounted.service().counts(),
        latency: mounted.service().latencies(),
        disk_trouble: volume.lanes().trouble().or_else(|| facts.trouble().clone()),
        losses: Losses::default(),
        disk_notes: facts.disk_notes.clone(),
        coordination: None,
        attached: None,
        cancels: facts.cancels.load(Ordering::Relaxed),
    };
    let report = StatusReport::new(&facts.target, volume, Some(served), now);
    report.with_file_system(FileSystemReport::of(&facts.folder, &told))
}
