//! Profiles: data files that describe one drive, with the source of every number.
//!
//! A profile is TOML, embedded for the known drives ([`Profile::known_names`]) or loaded from a
//! path. Reading one checks every number against the others, so that a model built from a
//! [`Profile`] cannot fail later; errors name the profile, the field and what was found.

use crate::angle::Angle;
use crate::geometry::{Geometry, Layout, Skews, ZoneStart};
use crate::seek::SeekCurve;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

const EMBEDDED: [(&str, &str); 3] = [
    ("st3146855fc", include_str!("../profiles/st3146855fc.toml")),
    ("constellation-es3-1tb", include_str!("../profiles/constellation-es3-1tb.toml")),
    ("exos-x20-20tb", include_str!("../profiles/exos-x20-20tb.toml")),
];

/// Everything a hard-disk model needs to know about a drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Short name, as given on a command line.
    pub name: String,
    /// Full name, for people.
    pub description: String,
    /// Logical sector: 512 or 4096 bytes.
    pub sector_bytes: u32,
    /// What the medium writes at once; writing less costs a revolution to read it first.
    pub physical_sector_bytes: u32,
    /// Logical sectors of the disk.
    pub blocks: u64,
    /// Surfaces.
    pub heads: u16,
    /// Cylinders that hold data.
    pub cylinders: u32,
    /// Time of one revolution, in ns.
    pub period_ns: u64,
    /// Order of the tracks.
    pub layout: LayoutSpec,
    /// Turns between neighbouring tracks, in revolutions.
    pub skew: SkewSpec,
    /// Zones, outermost first.
    pub zones: Vec<ZoneSpec>,
    /// Arm movement.
    pub seek: SeekSpec,
    /// Time the electronics take per command.
    pub command: CommandSpec,
    /// The host's side.
    pub interface: InterfaceSpec,
    /// Memory of the drive.
    pub cache: CacheSpec,
    /// Command queue.
    pub queue: QueueSpec,
}

/// Order of the tracks; see [`Layout`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum LayoutSpec {
    /// All surfaces of a cylinder in turn.
    Cylinder,
    /// Runs of cylinders on one head, back on the next.
    Serpentine {
        /// Cylinders per run.
        run_cylinders: u32,
    },
}

/// Turns between the first sectors of neighbouring tracks, in revolutions.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkewSpec {
    /// To the next cylinder.
    pub next_cylinder: f64,
    /// To another head.
    pub next_head: f64,
    /// To the next group of a serpentine layout.
    #[serde(default)]
    pub next_group: f64,
}

/// Tracks with equally many sectors.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Logical sectors on a track.
    pub sectors_per_track: u32,
    /// First logical block, where known; the tracks it leaves free at the end of the zone before
    /// are spares and defects.
    pub first_lbn: Option<u64>,
}

/// Arm movement, in ms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekSpec {
    /// `[distance in cylinders, ms]` of reads, interpolated between.
    pub points_ms: Vec<(u32, f64)>,
    /// Added before a write that follows a movement of the arm, except to the next track.
    pub write_settle_ms: f64,
    /// Changing to another head without moving.
    pub head_switch_ms: f64,
    /// Share of the accesses after a movement that settle too late or are not read at once, and
    /// wait another revolution.
    #[serde(default)]
    pub late_share: f64,
}

/// Time of the electronics per command, in ms.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// Before a read from the medium can start.
    pub read_ms: f64,
    /// Before a write to the medium can start.
    pub write_ms: f64,
    /// Of a command that needs only the drive's memory.
    pub cached_ms: f64,
}

/// The host's side.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    /// 10^6 bytes per second.
    pub megabytes_per_s: f64,
}

/// Memory of the drive.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Sequential streams remembered at once.
    pub segments: u16,
    /// Most sectors one segment holds.
    pub segment_sectors: u32,
    /// How far the head reads on after a read, in sectors.
    pub read_ahead_sectors: u32,
    /// Whether a read may begin in its middle when the head lands there.
    pub zero_latency_reads: bool,
    /// Whether writes are acknowledged from memory unless told otherwise.
    pub write_cache: bool,
    /// Most bytes acknowledged and not yet on the medium.
    pub dirty_bytes_max: u64,
    /// Idle time before such bytes are written while nothing asks for it, in ms.
    pub destage_idle_ms: f64,
}

/// Command queue.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Most commands outstanding.
    pub depth: u16,
    /// Which one goes next.
    pub policy: QueuePolicy,
    /// What SPTF takes off the positioning time of a command, as a share of the time it waited.
    pub aging: f64,
    /// A command that waited this long goes first whatever the policy says, in ms.
    pub age_limit_ms: f64,
    /// Whether the drive serves the `Durable` class first.
    pub honours_priority: bool,
}

/// Which of the waiting commands goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicy {
    /// In order of arrival.
    Fifo,
    /// The next higher address, from the lowest again after the highest (C-LOOK).
    Clook,
    /// Shortest positioning time first: seek and rotation together (Seltzer, Chen and Ousterhout,
    /// USENIX Winter 1990).
    Sptf,
}

impl QueuePolicy {
    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "fifo" => Some(Self::Fifo),
            "clook" => Some(Self::Clook),
            "sptf" => Some(Self::Sptf),
            _ => None,
        }
    }
}

/// A profile that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// The profile's name or path.
    pub profile: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "disk profile {}: {}", self.profile, self.problem)
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// Names of the embedded profiles.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    /// The embedded profile `name`; the error lists those that exist.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        match EMBEDDED.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => Self::parse(name, text),
            None => Err(ProfileError {
                profile: name.to_owned(),
                problem: format!(
                    "not known; expected one of {} or the path of a .toml file",
                    Self::known_names().collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }

    /// An embedded profile by name, or the file at a path that ends in `.toml`.
    pub fn find(name_or_path: &str) -> Result<Self, ProfileError> {
        let path = Path::new(name_or_path);
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Self::named(name_or_path);
        }
        let text = std::fs::read_to_string(path).map_err(|error| ProfileError {
            profile: name_or_path.to_owned(),
            problem: format!("cannot read the file: {error}"),
        })?;
        Self::parse(name_or_path, &text)
    }

    /// Reads and checks the TOML `text` of the profile called `source` in errors.
    pub fn parse(source: &str, text: &str) -> Result<Self, ProfileError> {
        let failed = |problem| ProfileError { profile: source.to_owned(), problem };
        let profile: Self = toml::from_str(text).map_err(|error| failed(error.to_string()))?;
        profile.check().map_err(failed)?;
        Ok(profile)
    }

    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.blocks * u64::from(self.sector_bytes)
    }

    /// Where each block is.
    pub fn geometry(&self) -> Result<Geometry, ProfileError> {
        let layout = match self.layout {
            LayoutSpec::Cylinder => Layout::Cylinder,
            LayoutSpec::Serpentine { run_cylinders } => Layout::Serpentine { run: run_cylinders },
        };
        let skews = Skews {
            next_cylinder: Angle::from_revolutions(self.skew.next_cylinder),
            next_head: Angle::from_revolutions(self.skew.next_head),
            next_group: Angle::from_revolutions(self.skew.next_group),
        };
        let starts: Vec<_> = self
            .zones
            .iter()
            .map(|zone| ZoneStart {
                first_cylinder: zone.first_cylinder,
                sectors_per_track: zone.sectors_per_track,
                first_lbn: zone.first_lbn,
            })
            .collect();
        Geometry::new(self.heads, self.cylinders, self.blocks, layout, skews, &starts)
            .map_err(|problem| ProfileError { profile: self.name.clone(), problem })
    }

    /// The seek curve of reads.
    pub fn seek_curve(&self) -> Result<SeekCurve, ProfileError> {
        SeekCurve::from_points_ms(&self.seek.points_ms)
            .map_err(|problem| ProfileError { profile: self.name.clone(), problem })
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let times = [
            ("seek.write_settle_ms", self.seek.write_settle_ms),
            ("seek.head_switch_ms", self.seek.head_switch_ms),
            ("command.read_ms", self.command.read_ms),
            ("command.write_ms", self.command.write_ms),
            ("command.cached_ms", self.command.cached_ms),
            ("cache.destage_idle_ms", self.cache.destage_idle_ms),
            ("queue.age_limit_ms", self.queue.age_limit_ms),
            ("queue.aging", self.queue.aging),
        ];
        if let Some((field, found)) = times.iter().find(|(_, ms)| !(0.0..60_000.0).contains(ms)) {
            return Err(format!("expected {field} from 0 to 60000, found {found}"));
        }
        if !(0.0..=0.5).contains(&self.seek.late_share) {
            let found = self.seek.late_share;
            return Err(format!("expected seek.late_share from 0 to 0.5, found {found}"));
        }
        if !matches!(self.sector_bytes, 512 | 4096) {
            return Err(format!("expected sector_bytes 512 or 4096, found {}", self.sector_bytes));
        }
        if self.physical_sector_bytes == 0
            || !self.physical_sector_bytes.is_multiple_of(self.sector_bytes)
        {
            let found = self.physical_sector_bytes;
            return Err(format!("expected a physical sector of whole sectors, found {found}"));
        }
        if !(1_000_000..1_000_000_000).contains(&self.period_ns) {
            let found = self.period_ns;
            return Err(format!("expected period_ns from 10^6 to 10^9, found {found}"));
        }
        if self.blocks == 0 || self.blocks > u64::MAX / 8192 {
            return Err(format!("cannot have {} blocks", self.blocks));
        }
        if !(self.interface.megabytes_per_s >= 1.0 && self.interface.megabytes_per_s < 1e6) {
            let found = self.interface.megabytes_per_s;
            return Err(format!("expected interface.megabytes_per_s from 1, found {found}"));
        }
        if self.cache.segments == 0 || self.cache.segment_sectors == 0 || self.queue.depth == 0 {
            return Err("cache.segments, segment_sectors and queue.depth cannot be 0".to_owned());
        }
        if self.cache.read_ahead_sectors > self.cache.segment_sectors {
            return Err("cache.read_ahead_sectors is larger than a segment".to_owned());
        }
        self.geometry().map_err(|error| error.problem)?;
        self.seek_curve().map_err(|error| error.problem)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_profile_is_consistent() {
        for name in Profile::known_names() {
            let profile = Profile::named(name).unwrap();
            assert_eq!(profile.name, name);
            assert_eq!(profile.geometry().unwrap().blocks(), profile.blocks, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_lists_those_that_exist() {
        let error = Profile::named("st1").unwrap_err().to_string();
        assert!(error.contains("st3146855fc, constellation-es3-1tb, exos-x20-20tb"), "{error}");
    }

    #[test]
    fn a_contradiction_names_the_field() {
        let good = EMBEDDED[0].1;
        let cases = [
            ("period_ns = ", "period_ns = 9999", "period_ns"),
            ("sector_bytes = 512", "sector_bytes = 520", "sector_bytes"),
            ("blocks = ", "blocks = 9", "blocks"),
            ("name = ", "nickname = ", "nickname"),
        ];
        for (from, to, expected) in cases {
            assert!(good.contains(from), "{from}");
            let error = Profile::parse("test", &good.replacen(from, to, 1)).unwrap_err();
            assert!(error.problem.contains(expected), "{from}: {error}");
        }
    }
}
