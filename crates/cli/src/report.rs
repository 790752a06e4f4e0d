//! The state of a volume as `nearhead status` reports it, the same from a running daemon and from
//! a volume at rest. Every number's name ends in its unit, but for plain counts.

mod attached;
mod cache;
mod cleaning;
mod devices;
mod distribution;
mod file_system;
mod known;
mod latency;
mod log_map;
mod map;
mod rates;
mod serving;

pub use attached::AttachedReport;
pub use cache::ReadCacheReport;
pub use cleaning::PassReport;
pub use devices::{DeviceReport, MirrorReport, ReplacingReport, RestCommandReport, SideReport};
pub use distribution::{Distribution, SIZE_STEPS, Sizes};
pub use file_system::FileSystemReport;
pub use known::{Link, LogDisk, TargetKept, TracksKnown};
pub use latency::{Latencies, Latency, RequestCounts};
#[cfg(test)]
pub use log_map::LogCell;
pub use log_map::LogMap;
pub use map::PagedMapReport;
pub use rates::{Rates, Spread, bytes};
pub use serving::Served;

use crate::health::{DiskErrors, Health, threshold_in_words};
use crate::units::ByteSize;
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::{Damage, Stats};
use nearhead_format::{AckMode, Superblock};
use nearhead_output::{hex, plain};
use nearhead_volume::{Presets, Volume};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a volume was created as.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeFacts {
    /// Identity.
    pub volume_id: String,
    /// Name for people.
    pub label: String,
    /// Policies.
    pub preset: String,
    /// `durable` or `flush`, as the superblock says.
    pub ack: String,
    /// When it was created, in seconds since 1970 UTC.
    pub created_unix_s: u64,
    /// Rewrites of the superblock.
    pub superblock_generation: u64,
    /// Bytes of the device in use.
    pub device_bytes: u64,
    /// Bytes clients see.
    pub client_bytes: u64,
    /// Writes up to this size are logged.
    pub logged_write_bytes_max: u32,
    /// Number of groups.
    pub groups: u32,
    /// Bytes of a group.
    pub group_bytes: u64,
    /// Bytes of each log.
    pub log_bytes: u64,
}

/// What the volume is doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// `recovering`, `serving`, `draining`, `stopped`, `failed`; when not served `at rest`, or
    /// `interrupted` if it was not stopped in order and has something to recover.
    pub phase: String,
    /// Why it failed.
    pub failure: Option<String>,
    /// The same in one word: `flush`, `record`, `no-space`, ...
    #[serde(default)]
    pub failure_kind: Option<String>,
    /// Entries of the map: pieces of at most 4 KiB whose newest copy is in a log.
    pub map_entries: u64,
    /// Memory of the map; of one that is paged, of its newest layer.
    pub map_bytes: u64,
    /// The rest of a paged map.
    #[serde(default)]
    pub paged_map: Option<PagedMapReport>,
    /// Small writes waiting in memory.
    pub staged_bytes: u64,
    /// Logs of the volume.
    pub logs: u32,
    /// Logs that a recovery would scan.
    pub logs_claimed: u32,
    /// Share of the log space in use.
    pub log_fill_pct: u32,
    /// How much of the room that a snapshot has for fragments they take, 0 to 100.
    pub fragment_fill_pct: u32,
    /// Newest durable record.
    pub record_sequence: u64,
    /// Newest snapshot of the map.
    pub snapshot_number: u64,
    /// How old that is, in seconds, while it lacks records.
    #[serde(default)]
    pub snapshot_age_s: Option<f64>,
    /// Bytes of records that it lacks.
    #[serde(default)]
    pub snapshot_behind_bytes: u64,
    /// Whether logged blocks are being copied home.
    pub checkpointing: bool,
    /// Why, for how long and how much so far.
    #[serde(default)]
    pub pass: Option<PassReport>,
    /// The last time that ended.
    #[serde(default)]
    pub last_pass: Option<PassReport>,
    /// How full the logs are along the disk.
    #[serde(default)]
    pub log_map: LogMap,
    /// What is known of the disk's tracks, if anything.
    #[serde(default)]
    pub tracks: Option<TracksKnown>,
    /// The target for durable writes, if there is one.
    #[serde(default)]
    pub durable_target: Option<TargetKept>,
    /// How much of the disk's time bulk keeps while there is any, in percent, if somebody asked for that.
    #[serde(default)]
    pub bulk_share_pct: Option<u8>,
    /// The devices of a chain, in the order of `devices`.
    #[serde(default)]
    pub links: Vec<Link>,
    /// The log disks, the volume's own first, if there are several.
    #[serde(default)]
    pub log_disks: Vec<LogDisk>,
    /// The read cache, if there is one.
    #[serde(default)]
    pub read_cache: Option<ReadCacheReport>,
    /// Bytes of regions whose home is known to be zeros.
    #[serde(default)]
    pub blank_bytes: u64,
    /// What recovery or operation found damaged.
    pub damage: Vec<String>,
    /// Of each of these one word: what kind of thing it is.
    #[serde(default)]
    pub damage_kinds: Vec<String>,
}

/// What the last opening read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recovery {
    /// Bytes read.
    pub read_bytes: u64,
    /// Records replayed.
    pub records: u64,
    /// Logs scanned.
    pub logs: u32,
}

/// Counts since the volume was opened, each under its name in [`nearhead_engine::Stats`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters(pub Stats);

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.counters().map(|counter| (counter.name, counter.value)))
    }
}

impl<'de> Deserialize<'de> for Counters {
    /// What a daemon of another version counts and this one does not is left out; what it does not count is 0.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut stats = Stats::default();
        for (name, value) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            if let Some(counter) = stats.counter_mut(&name) {
                *counter = value;
            }
        }
        Ok(Self(stats))
    }
}

/// Clients of a daemon.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Clients {
    /// Connected now.
    pub connections_open: u64,
    /// Served since the start.
    pub connections_accepted: u64,
    /// Turned away because the server was full.
    pub connections_refused: u64,
    /// Cut off because they held memory and made no progress.
    pub connections_stalled: u64,
    /// Let go before their handshake was over.
    #[serde(default)]
    pub connections_unfinished: u64,
    /// Requests of all kinds.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// Everything `nearhead status` says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    /// As the user named it.
    pub target: String,
    /// What it was created as.
    pub volume: VolumeFacts,
    /// The devices that it lies on.
    #[serde(default)]
    pub devices: Vec<DeviceReport>,
    /// Whether all is well.
    #[serde(default)]
    pub health: Health,
    /// What it is doing.
    pub state: State,
    /// What its disk did wrong.
    #[serde(default)]
    pub disk_errors: DiskErrors,
    /// What opening it read.
    pub recovery: Recovery,
    /// Counts since it was opened.
    pub counters: Counters,
    /// The daemon, if it is served.
    pub served: Option<Served>,
    /// The file system, if it is mounted.
    #[serde(default)]
    pub file_system: Option<FileSystemReport>,
}

impl StatusReport {
    /// The report about a volume, at the time `now` of its clock.
    pub fn new(
        target: &str,
        volume: &Volume<Box<dyn Disk + Send>>,
        served: Option<Served>,
        now: Nanos,
    ) -> Self {
        let (superblock, status) = (volume.superblock(), volume.status());
        let phase = match (&served, &status.failure) {
            (None, None) if status.recovery_records > 0 => "interrupted",
            (None, None) => "at rest",
            _ => status.phase.name(),
        };
        let disk_errors = DiskErrors::of(&status, now);
        let trouble = served.as_ref().and_then(|served| served.disk_trouble.as_deref());
        let losses = served.as_ref().map(|served| &served.losses);
        Self {
            target: target.to_owned(),
            volume: VolumeFacts::of(superblock),
            devices: DeviceReport::of_served(superblock, volume.lanes(), now),
            health: Health::of(&status, &disk_errors, trouble, losses),
            disk_errors,
            recovery: Recovery {
                read_bytes: status.recovery_read_bytes,
                records: status.recovery_records,
                logs: status.recovery_logs,
            },
            counters: Counters(status.stats),
            state: State {
                phase: phase.to_owned(),
                failure_kind: status.failure.as_ref().map(|failure| failure.name().to_owned()),
                failure: status.failure.map(|failure| failure.to_string()),
                map_entries: status.map_entries,
                map_bytes: status.map_bytes,
                paged_map: status.paged_map.map(PagedMapReport::of),
                staged_bytes: status.staged_bytes,
                logs: status.logs,
                logs_claimed: status.logs_claimed,
                log_fill_pct: status.log_fill_pct,
                fragment_fill_pct: status.fragment_fill_pct,
                record_sequence: status.record_sequence,
                snapshot_number: status.snapshot_number,
                snapshot_age_s: status.snapshot_lag.map(|lag| now.since(lag.since).as_secs_f64()),
                snapshot_behind_bytes: status.snapshot_lag.map_or(0, |lag| lag.bytes),
                checkpointing: status.checkpointing,
                pass: status.pass.as_ref().map(|pass| PassReport::of(pass, now)),
                last_pass: status.last_pass.as_ref().map(|pass| PassReport::of(pass, now)),
                log_map: LogMap::of(volume, status.head_offset),
                tracks: status.drive.as_ref().map(TracksKnown::of),
                durable_target: status.target.as_ref().map(TargetKept::of),
                bulk_share_pct: status.bulk_share_pct,
                links: status.links.iter().map(Link::of).collect(),
                log_disks: status.log_disks.iter().map(LogDisk::of).collect(),
                read_cache: status
                    .read_cache
                    .as_ref()
                    .map(|cache| ReadCacheReport::of(cache, &status.stats)),
                blank_bytes: status.blank_bytes,
                damage_kinds: status
                    .damage
                    .iter()
                    .map(|damage| damage.kind.name().to_owned())
                    .collect(),
                damage: words(status.damage),
            },
            served,
            file_system: None,
        }
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let (volume, state) = (&self.volume, &self.state);
        let devices = DeviceReport::lines(&self.devices);
        let is_alone = self.devices.iter().all(|device| device.position.is_none());
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<12}{value}");
        };
        line("volume", format!("{} ({}, {})", self.target, volume.volume_id, volume.preset));
        if !volume.label.is_empty() {
            line("label", plain(&volume.label).into_owned());
        }
        let reasons = self.health.reasons.join("; ");
        let colon = if reasons.is_empty() { "" } else { ": " };
        line("health", format!("{}{colon}{reasons}", self.health.state));
        if let Some(last) = self.disk_errors.last_in_words() {
            line("last error", last);
        }
        line(
            "size",
            format!(
                "{} for clients, {} of the {}device",
                ByteSize(volume.client_bytes),
                ByteSize(volume.device_bytes),
                match (is_alone, state.links.is_empty()) {
                    (true, _) => "",
                    (false, true) => "log ",
                    (false, false) => "first ",
                }
            ),
        );
        for device in devices {
            line("device", device);
        }
        let failure = state.failure.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let recovers = match state.phase.as_str() {
            "interrupted" => format!(
                ": it was not stopped in order (killed, or without power), and the next start recovers {} records",
                self.recovery.records
            ),
            _ => String::new(),
        };
        line("state", format!("{}{failure}{recovers}", state.phase));
        line("logged", threshold_in_words(volume.logged_write_bytes_max));
        line(
            "logs",
            format!(
                "{} of {} each, {} % full, {} to scan at a recovery{}",
                state.logs,
                ByteSize(volume.log_bytes),
                state.log_fill_pct,
                state.logs_claimed,
                if state.checkpointing { ", being emptied now" } else { "" },
            ),
        );
        if let Some(pass) = state.pass.as_ref().or(state.last_pass.as_ref()) {
            line("cleaning", pass.in_words());
        }
        line("map", map::in_words(state));
        line(
            "newest",
            format!("record {}, snapshot {}", state.record_sequence, state.snapshot_number),
        );
        line(
            "recovery",
            format!(
                "read {}, {} records in {} logs",
                ByteSize(self.recovery.read_bytes),
                self.recovery.records,
                self.recovery.logs
            ),
        );
        if let Some(tracks) = &state.tracks {
            line("tracks", tracks.in_words());
        }
        if let Some(target) = &state.durable_target {
            line("durable p99", target.in_words());
        }
        if let Some(pct) = state.bulk_share_pct {
            line("bulk share", format!("{pct} % of the disk's time, while there is any"));
        }
        for (number, link) in state.links.iter().enumerate() {
            line("link", link.in_words(number));
        }
        for (number, log_disk) in state.log_disks.iter().enumerate() {
            line("log disk", log_disk.in_words(number));
        }
        if let Some(cache) = &state.read_cache {
            line("read cache", cache.in_words());
        }
        if let Some(served) = &self.served {
            self.serving(served, &mut line);
        }
        for (name, value) in self.file_system.iter().flat_map(FileSystemReport::lines) {
            line(name, value);
        }
        for finding in &state.damage {
            line("damage", finding.clone());
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// The preset as it was typed, or could have been.
pub fn preset_name(superblock: &Superblock) -> String {
    Presets::default().name_of(superblock)
}

impl VolumeFacts {
    /// The facts in a superblock.
    pub fn of(superblock: &Superblock) -> Self {
        let layout = &superblock.layout;
        Self {
            volume_id: hex(&superblock.volume_id),
            label: superblock.label.as_str().to_owned(),
            preset: preset_name(superblock),
            ack: match superblock.ack {
                AckMode::Durable => "durable".to_owned(),
                AckMode::Flush => "flush".to_owned(),
            },
            created_unix_s: superblock.created_unix_s,
            superblock_generation: superblock.generation,
            device_bytes: layout.device_bytes,
            client_bytes: layout.client_bytes(),
            logged_write_bytes_max: superblock.logged_write_bytes_max,
            groups: layout.group_count,
            group_bytes: layout.group_bytes,
            log_bytes: layout.log_bytes,
        }
    }
}

/// Findings as sentences.
pub(crate) fn words(damage: Vec<Damage>) -> Vec<String> {
    damage.into_iter().map(|damage| damage.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_goes_through_json_and_back() {
        let mut stats = Stats::default();
        for (value, counter) in (1..).zip(Stats::default().counters()) {
            *stats.counter_mut(counter.name).unwrap() = value;
        }
        let json = serde_json::to_value(Counters(stats)).unwrap();
        assert_eq!(json.as_object().unwrap().len(), stats.counters().count());
        assert!(json["bands_written"].as_u64().unwrap() > 0);
        let back: Counters = serde_json::from_value(json).unwrap();
        assert_eq!(back.0, stats);
    }

    #[test]
    fn counters_of_another_version_are_read_as_far_as_both_know_them() {
        let told = serde_json::json!({ "requests": 7, "of_a_later_version": 1 });
        let found: Counters = serde_json::from_value(told).unwrap();
        assert_eq!(found.0, Stats { requests: 7, ..Stats::default() });
    }
}
