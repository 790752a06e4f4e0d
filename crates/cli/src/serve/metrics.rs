//! Metrics in the Prometheus text format (version 0.0.4), over HTTP on an address of the user's.
//!
//! A thread of its own answers whoever asks with text that the server's loop refreshes, so that a
//! scraper, slow or hostile, never gets between a client and the disk. It serves one connection at
//! a time, reads at most a few KiB of it, and waits for nobody longer than two seconds.

use super::Coordination;
use crate::report::{DeviceReport, Link, LogDisk, MirrorReport, SideReport, StatusReport};
use nearhead_disk::Nanos;
use nearhead_engine::{DiskErrorCounts, disk_error_name};
use nearhead_sim::LatencySummary;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How old the numbers may be.
const REFRESH: Nanos = Nanos::from_secs(1);
const REQUEST_BYTES_MAX: usize = 8 * 1024;
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The metrics of a daemon.
pub struct Endpoint {
    text: Arc<Mutex<String>>,
    refresh_at: Nanos,
}

impl Endpoint {
    /// Serves metrics at `address`.
    pub fn listen(address: &str) -> Result<Self, String> {
        let failed = |error| {
            format!(
                "metrics: expected a free address such as 127.0.0.1:9420, found {address}: {error}"
            )
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || serve(&listener, &shared))
            .map_err(failed)?;
        Ok(Self { text, refresh_at: Nanos::ZERO })
    }

    /// Renders the numbers anew if they are old.
    pub fn refresh(&mut self, now: Nanos, render: impl FnOnce() -> String) {
        if now >= self.refresh_at {
            self.refresh_at = now + REFRESH;
            *self.text.lock().unwrap_or_else(PoisonError::into_inner) = render();
        }
    }
}

fn serve(listener: &TcpListener, text: &Mutex<String>) {
    for stream in listener.incoming() {
        match stream {
            // A scraper that fails tries again by itself.
            Ok(stream) => drop(answer(stream, text)),
            // Out of descriptors: they come back when others let go of theirs.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn answer(mut stream: TcpStream, text: &Mutex<String>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.set_write_timeout(Some(WAIT_MAX))?;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let len = stream.read(&mut piece)?;
        if len == 0 || request.len() + len > REQUEST_BYTES_MAX {
            break;
        }
        request.extend_from_slice(&piece[..len]);
    }
    let (status, body) = if request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ")
    {
        ("200 OK", text.lock().unwrap_or_else(PoisonError::into_inner).clone())
    } else {
        ("404 Not Found", "only GET /metrics is offered\n".to_owned())
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The report as metrics.
pub fn render(report: &StatusReport) -> String {
    let mut text = String::new();
    let state = &report.state;
    let serving = u64::from(state.phase == "serving");
    let failed = u64::from(state.failure.is_some());
    let is_data = |device: &&DeviceReport| device.position.is_some();
    let data_devices = report.devices.iter().filter(is_data).count() as u64;
    for (name, help, value) in [
        ("serving", "1 while requests are served", serving),
        ("failed", "1 after a failure that ended all changes", failed),
        ("damage_findings", "What was found damaged", state.damage.len() as u64),
        ("map_entries", "Pieces whose newest copy is in a log", state.map_entries),
        ("map_memory_bytes", "Memory of the map", state.map_bytes),
        ("staged_bytes", "Small writes waiting in memory", state.staged_bytes),
        ("logs_claimed", "Logs that a recovery would scan", u64::from(state.logs_claimed)),
        ("log_fill_percent", "Share of the log space in use", u64::from(state.log_fill_pct)),
        (
            "fragment_fill_percent",
            "Share of a snapshot's room for fragments in use",
            u64::from(state.fragment_fill_pct),
        ),
        ("checkpointing", "1 while logged blocks are copied home", u64::from(state.checkpointing)),
        ("client_size_bytes", "Size of the volume", report.volume.client_bytes),
        ("data_devices", "Devices that hold data and no logs", data_devices),
    ] {
        metric(&mut text, name, "gauge", help, value);
    }
    for counter in report.counters.0.counters() {
        if let Some((name, help)) = counter.metric {
            metric(&mut text, name, "counter", help, counter.value);
        }
    }
    links(&mut text, report);
    log_disks(&mut text, report);
    sides(&mut text, report);
    mirrors(&mut text, report);
    read_cache(&mut text, report);
    paged_map(&mut text, report);
    disk_errors(&mut text, report);
    if let Some(served) = &report.served {
        metric(
            &mut text,
            "disk_trouble",
            "gauge",
            "1 while a member of a mirror is missing, old or unsure",
            u64::from(served.disk_trouble.is_some()),
        );
        metric(
            &mut text,
            "lost_writes_total",
            "counter",
            "How often the disk lost writes and the volume was opened again",
            served.losses.count,
        );
        served.coordination.iter().for_each(|turns| coordination(&mut text, turns));
        metric(
            &mut text,
            "connections_open",
            "gauge",
            "Clients connected",
            served.clients.connections_open,
        );
        metric(
            &mut text,
            "connections_total",
            "counter",
            "Clients served",
            served.clients.connections_accepted,
        );
        let latency = &served.latency;
        let kinds =
            [("durable", &latency.durable), ("write", &latency.write), ("read", &latency.read)];
        latencies(&mut text, &kinds);
    }
    text
}

/// The devices of a chain, by their numbers, the volume's own 0.
fn links(text: &mut String, report: &StatusReport) {
    let links = &report.state.links;
    if links.is_empty() {
        return;
    }
    for (name, help, value) in [
        (
            "link_tail",
            "1 of the device of a chain that takes records",
            link_tail as fn(&Link) -> u64,
        ),
        (
            "link_out_of_use",
            "1 of a device of a chain that is lost, or closed to records",
            |link| u64::from(matches!(link.role.as_str(), "lost" | "closed")),
        ),
        ("link_logs_free", "Logs of a device of a chain that may be begun anew", |link| {
            u64::from(link.logs_free)
        }),
        ("link_needed_bytes", "Bytes on a device of a chain that are needed", |link| {
            link.needed_bytes
        }),
    ] {
        let _ = writeln!(text, "# HELP nearhead_{name} {help}\n# TYPE nearhead_{name} gauge");
        for (number, link) in links.iter().enumerate() {
            let _ = writeln!(text, "nearhead_{name}{{link=\"{number}\"}} {}", value(link));
        }
    }
}

/// Several log disks, by their numbers, the volume's own 0.
fn log_disks(text: &mut String, report: &StatusReport) {
    let disks = &report.state.log_disks;
    if disks.is_empty() {
        return;
    }
    for (name, help, value) in [
        (
            "log_disk_out_of_use",
            "1 of a log disk that is lost, or closed to records",
            log_disk_out_of_use as fn(&LogDisk) -> u64,
        ),
        ("log_disk_needed_bytes", "Bytes on a log disk that are needed", |disk| disk.needed_bytes),
    ] {
        let _ = writeln!(text, "# HELP nearhead_{name} {help}\n# TYPE nearhead_{name} gauge");
        for (number, disk) in disks.iter().enumerate() {
            let _ = writeln!(text, "nearhead_{name}{{log_disk=\"{number}\"}} {}", value(disk));
        }
    }
}

fn log_disk_out_of_use(disk: &LogDisk) -> u64 {
    u64::from(matches!(disk.state.as_str(), "lost" | "closed"))
}

/// The sides of mirrors that may rest: by the device that they are a side of, the volume's own 0, and their number.
fn sides(text: &mut String, report: &StatusReport) {
    if report.devices.iter().all(|device| device.sides.is_empty()) {
        return;
    }
    for (name, kind, help, value) in [
        (
            "side_resting",
            "gauge",
            "1 of a side of a mirror that rests",
            side_resting as fn(&SideReport) -> u64,
        ),
        ("side_idle_seconds", "gauge", "Since a side of a mirror had something to do", |side| {
            side.idle_s as u64
        }),
        ("side_woken_total", "counter", "How often a side of a mirror was woken", |side| {
            side.woken
        }),
    ] {
        let _ = writeln!(text, "# HELP nearhead_{name} {help}\n# TYPE nearhead_{name} {kind}");
        for device in &report.devices {
            let number = device.position.map_or(0, |position| u32::from(position) + 1);
            for (side, told) in device.sides.iter().enumerate() {
                let labels = format!("device=\"{number}\",side=\"{side}\"");
                let _ = writeln!(text, "nearhead_{name}{{{labels}}} {}", value(told));
            }
        }
    }
}

/// How far the members of mirrors are apart: by the device that lies on the mirror, the volume's own 0, and which of its mirrors.
fn mirrors(text: &mut String, report: &StatusReport) {
    if report.devices.iter().all(|device| device.mirrors.is_empty()) {
        return;
    }
    for (name, help, value) in [
        (
            "mirror_dirty_bytes",
            "What a member of a mirror that is away would be copied if it came back now",
            mirror_dirty as fn(&MirrorReport) -> u64,
        ),
        ("mirror_left_bytes", "Bytes still to be copied or compared", |mirror| mirror.left_bytes),
    ] {
        let _ = writeln!(text, "# HELP nearhead_{name} {help}\n# TYPE nearhead_{name} gauge");
        for device in &report.devices {
            let number = device.position.map_or(0, |position| u32::from(position) + 1);
            for (mirror, told) in device.mirrors.iter().enumerate() {
                let labels = format!("device=\"{number}\",mirror=\"{mirror}\"");
                let _ = writeln!(text, "nearhead_{name}{{{labels}}} {}", value(told));
            }
        }
    }
}

fn mirror_dirty(mirror: &MirrorReport) -> u64 {
    mirror.dirty_bytes
}

fn side_resting(side: &SideReport) -> u64 {
    u64::from(side.is_resting)
}

fn read_cache(text: &mut String, report: &StatusReport) {
    let Some(cache) = &report.state.read_cache else { return };
    for (name, help, value) in [
        ("read_cache_memory_bytes", "Memory in use for the read cache", cache.memory_bytes),
        ("read_cache_memory_bytes_max", "As much as that may become", cache.memory_bytes_max),
        ("read_cache_device_bytes", "Bytes in use on the read cache's device", cache.device_bytes),
        ("read_cache_device_bytes_max", "As many as there may be", cache.device_bytes_max),
        (
            "read_cache_device_failed",
            "1 after the read cache's device failed and was given up",
            u64::from(cache.dropped.is_some()),
        ),
    ] {
        metric(text, name, "gauge", help, value);
    }
}

fn paged_map(text: &mut String, report: &StatusReport) {
    let Some(paged) = &report.state.paged_map else { return };
    for (name, help, value) in [
        ("map_paged_entries", "Entries in the pages of the map", paged.paged_entries),
        ("map_frozen_bytes", "Memory of what is being merged into the map", paged.frozen_bytes),
        ("map_index_bytes", "Memory of the index of the pages of the map", paged.index_bytes),
        ("map_cached_bytes", "Memory of pages of the map", paged.cached_bytes),
        (
            "map_memory_bytes_max",
            "Memory that the map may take, but for its index",
            paged.memory_bytes_max,
        ),
    ] {
        metric(text, name, "gauge", help, value);
    }
}

fn link_tail(link: &Link) -> u64 {
    u64::from(link.role == "tail")
}

/// One count for each way in which a command of the disk can fail, zeros too: an alarm needs a beginning.
fn disk_errors(text: &mut String, report: &StatusReport) {
    let errors = &report.disk_errors;
    let name = "nearhead_disk_errors_total";
    let _ = writeln!(text, "# HELP {name} Commands of the disk that failed\n# TYPE {name} counter");
    for (work, kind, _) in DiskErrorCounts::default().iter() {
        let (work, kind) = (work.name(), disk_error_name(kind));
        let found = errors.counts.iter().find(|one| one.work == work && one.kind == kind);
        let count = found.map_or(0, |one| one.count);
        let _ = writeln!(text, "{name}{{work=\"{work}\",kind=\"{kind}\"}} {count}");
    }
    for (name, kind, help, value) in [
        ("health", "gauge", "0 well, 1 degraded, 2 failed", report.health.level()),
        (
            "disk_stalled",
            "gauge",
            "1 while the disk does not answer",
            u64::from(errors.stalled.is_some()),
        ),
        ("disk_stalls_total", "counter", "How often the disk did not answer", errors.stalls),
        (
            "disk_no_space",
            "gauge",
            "1 while there is no space under the image",
            u64::from(errors.no_space_s.is_some()),
        ),
    ] {
        metric(text, name, kind, help, value);
    }
}

fn coordination(text: &mut String, turns: &Coordination) {
    let (wanted, held) = (u64::from(turns.wants_permit), u64::from(turns.state == "holding"));
    let away = turns.unreachable_s.map_or(0, |seconds| (seconds as u64).max(1));
    for (name, kind, help, value) in [
        (
            "checkpoint_permit_wanted",
            "gauge",
            "1 while a checkpoint waits for or runs on a permit",
            wanted,
        ),
        ("checkpoint_permit_held", "gauge", "1 while there is a permit", held),
        (
            "coordination_unreachable_seconds",
            "gauge",
            "How long no server of permits has answered",
            away,
        ),
        ("checkpoint_permits_total", "counter", "Permits got", turns.permits_granted),
        ("checkpoint_permits_lost_total", "counter", "Permits gone early", turns.permits_lost),
    ] {
        metric(text, name, kind, help, value);
    }
}

fn metric(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "# HELP nearhead_{name} {help}\n# TYPE nearhead_{name} {kind}\nnearhead_{name} {value}"
    );
}

fn latencies(text: &mut String, kinds: &[(&str, &LatencySummary)]) {
    let name = "nearhead_latency_seconds";
    let _ =
        writeln!(text, "# HELP {name} From the whole request to its reply\n# TYPE {name} summary");
    for (kind, latency) in kinds {
        for (quantile, ms) in
            [("0.5", latency.p50_ms), ("0.99", latency.p99_ms), ("0.999", latency.p999_ms)]
        {
            let _ =
                writeln!(text, "{name}{{kind=\"{kind}\",quantile=\"{quantile}\"}} {}", ms / 1e3);
        }
        let sum = latency.mean_ms * latency.count as f64 / 1e3;
        let _ = writeln!(text, "{name}_sum{{kind=\"{kind}\"}} {sum}");
        let _ = writeln!(text, "{name}_count{{kind=\"{kind}\"}} {}", latency.count);
    }
}
