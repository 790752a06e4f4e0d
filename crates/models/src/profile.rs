//! Profiles: data files that describe one drive, with the source of every number.
//!
//! A profile is TOML, embedded for the known drives ([`Profile::known_names`]) or loaded from a
//! path. Reading one checks every number against the others, so that a model built from a
//! [`Profile`] cannot fail later; errors name the profile, the field and what was found.

pub use crate::profile_parts::{
    CacheSpec, CommandSpec, InterfaceSpec, LayoutSpec, QueuePolicy, QueueSpec, SeekSpec, SkewSpec,
    ZoneSpec,
};

use crate::angle::Angle;
use crate::geometry::{Geometry, Layout, Skews, ZoneStart};
use crate::profile_parts::DatasheetSpec;
use crate::profile_text::{self, Embedded, ProfileError};
use crate::seek::SeekCurve;
use serde::Deserialize;

pub(crate) const EMBEDDED: &Embedded = &[
    ("st3146855fc", include_str!("../profiles/st3146855fc.toml")),
    ("constellation-es3-1tb", include_str!("../profiles/constellation-es3-1tb.toml")),
    ("exos-x20-20tb", include_str!("../profiles/exos-x20-20tb.toml")),
    ("st41601n", include_str!("../profiles/st41601n.toml")),
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
    /// `[first cylinder, revolutions]`: fitted turns of all tracks from there up to the next entry,
    /// on top of what the layout says.
    #[serde(default)]
    pub turns: Vec<(u32, f64)>,
    /// Order of the tracks.
    pub layout: LayoutSpec,
    /// Turns between neighbouring tracks, in revolutions; not for layouts that are spelled out.
    #[serde(default)]
    pub skew: SkewSpec,
    /// Zones, outermost first; not for layouts that are spelled out.
    #[serde(default)]
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
    /// What the datasheet claims where the profile derives something else.
    pub datasheet: Option<DatasheetSpec>,
}

impl Profile {
    /// Names of the embedded profiles.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        profile_text::names(EMBEDDED)
    }

    /// The embedded profile `name`; the error lists those that exist.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        Self::parse(name, profile_text::named(name, &[EMBEDDED])?)
    }

    /// An embedded profile by name, or the file at a path that ends in `.toml`.
    pub fn find(name_or_path: &str) -> Result<Self, ProfileError> {
        Self::parse(name_or_path, &profile_text::find(name_or_path, &[EMBEDDED])?)
    }

    /// Reads and checks the TOML `text` of the profile called `source` in errors.
    pub fn parse(source: &str, text: &str) -> Result<Self, ProfileError> {
        let profile: Self = profile_text::from_toml(source, text)?;
        profile.check().map_err(|problem| ProfileError::new(source, problem))?;
        Ok(profile)
    }

    /// Whether every number agrees with the others; the error says which does not.
    pub fn validate(&self) -> Result<(), String> {
        self.check()
    }

    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.blocks * u64::from(self.sector_bytes)
    }

    /// The seek curve of writes, settling not included.
    pub fn write_seek_curve(&self) -> Result<SeekCurve, ProfileError> {
        let points = self.seek.write_points_ms.as_ref().unwrap_or(&self.seek.points_ms);
        SeekCurve::from_points_ms(points).map_err(|problem| ProfileError::new(&self.name, problem))
    }

    /// Contradictions between what the datasheet claims and what the profile derives, for people.
    pub fn warnings(&self) -> Vec<String> {
        self.datasheet.as_ref().map_or_else(Vec::new, |sheet| sheet.contradictions(self))
    }

    /// Where each block is.
    pub fn geometry(&self) -> Result<Geometry, ProfileError> {
        let failed = |problem: String| ProfileError::new(&self.name, problem);
        let mut geometry = match &self.layout {
            LayoutSpec::Cylinder => self.computed(Layout::Cylinder),
            LayoutSpec::Serpentine { run_cylinders } => {
                self.computed(Layout::Serpentine { run: *run_cylinders })
            }
            LayoutSpec::Zoned(zoned) => zoned
                .compile(self.heads, self.cylinders)
                .map(|runs| Geometry::from_runs(self.heads, self.cylinders, runs)),
            LayoutSpec::Tree(tree) => tree
                .compile(self.heads, self.cylinders, self.blocks)
                .map(|runs| Geometry::from_runs(self.heads, self.cylinders, runs)),
        }
        .map_err(failed)?;
        if geometry.blocks() != self.blocks {
            let (held, blocks) = (geometry.blocks(), self.blocks);
            return Err(failed(format!("the layout holds {held} blocks, expected {blocks}")));
        }
        let turns = self.turns.iter();
        geometry.turn_cylinders(
            turns.map(|&(first, turn)| (first, Angle::from_revolutions(turn))).collect(),
        );
        Ok(geometry)
    }

    fn computed(&self, layout: Layout) -> Result<Geometry, String> {
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
    }

    /// The seek curve of reads.
    pub fn seek_curve(&self) -> Result<SeekCurve, ProfileError> {
        SeekCurve::from_points_ms(&self.seek.points_ms)
            .map_err(|problem| ProfileError::new(&self.name, problem))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let times = [
            // Some drives were measured to write sooner than they read.
            ("seek.write_settle_ms", self.seek.write_settle_ms.abs()),
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
        let turning = self.seek.read_after_write_ms;
        if !(0.0..1000.0).contains(&turning) {
            return Err(format!(
                "expected seek.read_after_write_ms from 0 to 1000, found {turning}"
            ));
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
        let write_rate = self.interface.write_megabytes_per_s;
        for found in [Some(self.interface.megabytes_per_s), write_rate].into_iter().flatten() {
            if !(0.01..=1e6).contains(&found) {
                return Err(format!(
                    "expected interface.megabytes_per_s and write_megabytes_per_s from 0.01 to \
                     10^6, found {found}"
                ));
            }
        }
        if let Some(exchange) = &self.command.exchange {
            exchange.check()?;
        }
        if self.turns.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err("the cylinders of turns must increase".to_owned());
        }
        if self.cache.segments == 0 || self.cache.segment_sectors == 0 || self.queue.depth == 0 {
            return Err("cache.segments, segment_sectors and queue.depth cannot be 0".to_owned());
        }
        if self.cache.read_ahead_sectors > self.cache.segment_sectors {
            return Err("cache.read_ahead_sectors is larger than a segment".to_owned());
        }
        self.geometry().map_err(|error| error.problem)?;
        self.seek_curve().map_err(|error| error.problem)?;
        self.write_seek_curve().map_err(|error| error.problem)?;
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
    fn a_datasheet_that_contradicts_the_capacity_is_told_and_not_used() {
        let profile = Profile::named("constellation-es3-1tb").unwrap();
        let told = profile.warnings().join("\n");
        assert!(told.contains("1668096 bytes per track") && told.contains("1135"), "{told}");
        assert!(Profile::named("st3146855fc").unwrap().warnings().is_empty());
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
