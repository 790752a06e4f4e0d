//! Profiles of shingled disks: a hard disk's moving parts, and how its tracks are shingled.
//!
//! A profile is TOML: `[shingled]` beside either `[drive]`, a whole hard-disk profile, or `base`,
//! the name of an embedded shingled profile whose drive is meant. Reading one checks everything
//! that building a model needs, so that building cannot fail for the profile's sake.

use super::layout::Layout;
use crate::profile_text::{self, Embedded, ProfileError};
use crate::{LayoutSpec, Profile};
use serde::Deserialize;

pub(crate) const EMBEDDED: &Embedded = &[
    ("st8000as0002", include_str!("../../profiles/st8000as0002.toml")),
    ("st8000as0002-slsmr", include_str!("../../profiles/st8000as0002-slsmr.toml")),
    ("st8000as0002-mlsmr", include_str!("../../profiles/st8000as0002-mlsmr.toml")),
];

/// What the host is told, and where it may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SmrKind {
    /// Nothing; the disk keeps a persistent cache of its own.
    DriveManaged,
    /// The outer tracks are non-shingled, the rest are bands.
    Outer,
    /// One surface is non-shingled, the others are bands.
    Surface,
}

/// What happens to a write that a band cannot take in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutOfOrder {
    /// The band is read, changed and written again.
    Rewrite,
    /// The write is refused.
    Refuse,
}

/// The surface that is not shingled.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SurfaceSpec {
    /// Which one.
    pub head: u16,
    /// How many shingled tracks are as wide as one of its tracks.
    pub track_pitch_ratio: f64,
    /// Least time to find a track when changing to or from this surface, in us.
    pub find_us_min: f64,
    /// Most time.
    pub find_us_max: f64,
    /// Decides which pair of tracks takes how long.
    pub seed: u64,
}

/// How tracks are shingled.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShingledSpec {
    /// What the host is told.
    pub kind: SmrKind,
    /// Tracks of a band.
    pub band_tracks: u32,
    /// Bytes of the outer tracks that are a persistent cache, the drive's or the host's.
    #[serde(default)]
    pub persistent_cache_bytes: u64,
    /// Most pieces that the drive's cache holds.
    #[serde(default = "one")]
    pub cache_entries_max: u64,
    /// Bytes that each append to the drive's cache needs for itself.
    #[serde(default)]
    pub append_header_bytes: u32,
    /// Most bytes that go to the drive's cache in one append.
    #[serde(default = "one_mebibyte")]
    pub append_bytes_max: u32,
    /// Time without a host's command before the drive cleans bands, in ms.
    #[serde(default)]
    pub idle_ms: f64,
    /// Whether every band holds data at the start.
    pub bands_in_use: bool,
    /// Writes against a band's order.
    pub out_of_order: OutOfOrder,
    /// The non-shingled surface, of [`SmrKind::Surface`].
    pub surface: Option<SurfaceSpec>,
}

fn one() -> u64 {
    1
}

fn one_mebibyte() -> u32 {
    1 << 20
}

/// Everything a model of a shingled disk needs to know.
#[derive(Clone, Debug)]
pub struct SmrProfile {
    /// Short name.
    pub name: String,
    /// Full name, for people.
    pub description: String,
    /// How tracks are shingled.
    pub shingled: ShingledSpec,
    /// The moving parts.
    pub drive: Profile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    shingled: ShingledSpec,
    base: Option<String>,
    drive: Option<Profile>,
}

impl SmrProfile {
    /// Names of the embedded profiles.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        profile_text::names(EMBEDDED)
    }

    /// The embedded profile `name`.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        Self::parse(name, profile_text::named(name, &[EMBEDDED])?)
    }

    /// Reads and checks the TOML `text` of the profile called `source` in errors.
    pub fn parse(source: &str, text: &str) -> Result<Self, ProfileError> {
        let failed = |problem: String| ProfileError::new(source, problem);
        let file: File = profile_text::from_toml(source, text)?;
        let drive = match (file.drive, file.base) {
            (Some(drive), None) => drive,
            (None, Some(base)) if base != source => Self::named(&base)?.drive,
            _ => {
                let problem = "expected either [drive] or base = NAME of another profile";
                return Err(failed(problem.to_owned()));
            }
        };
        drive.check().map_err(|problem| failed(format!("drive: {problem}")))?;
        let profile =
            Self { name: file.name, description: file.description, shingled: file.shingled, drive };
        profile.check().map_err(failed)?;
        Ok(profile)
    }

    /// Bytes that a host can address.
    pub fn capacity_bytes(&self) -> Result<u64, ProfileError> {
        let layout = Layout::new(self).map_err(|problem| ProfileError::new(&self.name, problem))?;
        Ok(layout.sectors() * u64::from(self.drive.sector_bytes))
    }

    fn check(&self) -> Result<(), String> {
        let ShingledSpec { band_tracks, append_bytes_max, append_header_bytes, idle_ms, .. } =
            self.shingled;
        if !(2..=1000).contains(&band_tracks) {
            return Err(format!(
                "expected shingled.band_tracks from 2 to 1000, found {band_tracks}"
            ));
        }
        let physical = self.drive.physical_sector_bytes;
        let sizes =
            [("append_header_bytes", append_header_bytes), ("append_bytes_max", append_bytes_max)];
        for (field, found) in sizes {
            if !found.is_multiple_of(physical) || found > 8 << 20 {
                return Err(format!(
                    "expected shingled.{field} in whole physical sectors up to 8 MiB, found {found}"
                ));
            }
        }
        if append_bytes_max == 0 || self.shingled.cache_entries_max == 0 {
            return Err("shingled.append_bytes_max and cache_entries_max cannot be 0".to_owned());
        }
        if !(0.0..1e9).contains(&idle_ms) {
            return Err(format!("expected shingled.idle_ms from 0 to 10^9, found {idle_ms}"));
        }
        match (self.shingled.kind, &self.shingled.surface) {
            (SmrKind::Surface, Some(surface)) => self.check_surface(surface)?,
            (SmrKind::Surface, None) => {
                return Err("kind surface needs [shingled.surface]".to_owned());
            }
            (_, Some(_)) => return Err("[shingled.surface] belongs to kind surface".to_owned()),
            (SmrKind::DriveManaged | SmrKind::Outer, None) => {
                // Two appends must fit, or one could wait for ever.
                let least = 4 * u64::from(append_bytes_max + append_header_bytes);
                if self.shingled.persistent_cache_bytes < least {
                    let found = self.shingled.persistent_cache_bytes;
                    return Err(format!(
                        "expected shingled.persistent_cache_bytes of at least {least}, found {found}"
                    ));
                }
            }
        }
        Layout::new(self).map(drop)
    }

    fn check_surface(&self, surface: &SurfaceSpec) -> Result<(), String> {
        let SurfaceSpec { head, track_pitch_ratio, find_us_min, find_us_max, .. } = *surface;
        if head >= self.drive.heads || self.drive.heads < 2 {
            return Err(format!("surface.head {head}: the drive has {} heads", self.drive.heads));
        }
        if !(1.0..=10.0).contains(&track_pitch_ratio) {
            return Err(format!(
                "expected surface.track_pitch_ratio from 1 to 10, found {track_pitch_ratio}"
            ));
        }
        if !(0.0 <= find_us_min && find_us_min <= find_us_max && find_us_max < 1e6) {
            return Err(format!(
                "expected surface.find_us_min up to find_us_max below 10^6, found {find_us_min} and {find_us_max}"
            ));
        }
        let LayoutSpec::Serpentine { run_cylinders } = self.drive.layout else {
            return Err("a non-shingled surface needs a serpentine layout of the drive".to_owned());
        };
        if run_cylinders != self.shingled.band_tracks {
            return Err(format!(
                "expected drive.layout.run_cylinders {}, the tracks of a band, found {run_cylinders}",
                self.shingled.band_tracks
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_profile_is_consistent_and_holds_eight_terabytes() {
        for name in SmrProfile::known_names() {
            let profile = SmrProfile::named(name).unwrap();
            assert_eq!(profile.name, name);
            let capacity = profile.capacity_bytes().unwrap() as f64 / 1e12;
            assert!((7.8..8.1).contains(&capacity), "{name}: {capacity} TB");
        }
    }

    #[test]
    fn a_contradiction_names_the_field() {
        let surface = EMBEDDED[2].1;
        for (from, to, expected) in [
            ("band_tracks = 18", "band_tracks = 17", "run_cylinders 17"),
            ("head = 0", "head = 12", "surface.head 12"),
            ("find_us_min = 20.0", "find_us_min = 400.0", "found 400 and 300"),
            ("kind = \"surface\"", "kind = \"outer\"", "belongs to kind surface"),
            ("base = \"st8000as0002\"", "", "either [drive] or base"),
            ("base = \"st8000as0002\"", "base = \"st1\"", "not known"),
            ("track_pitch_ratio = 1.25", "track_pitch_ratio = 0.5", "found 0.5"),
            ("out_of_order = \"rewrite\"", "out_of_order = \"panic\"", "refuse"),
        ] {
            assert!(surface.contains(from), "{from}");
            let error = SmrProfile::parse("test", &surface.replacen(from, to, 1)).unwrap_err();
            assert!(error.problem.contains(expected), "{to}: {error}");
        }
        let managed = EMBEDDED[0].1;
        let small = managed.replacen("_bytes = 20000000000", "_bytes = 1000000", 1);
        let error = SmrProfile::parse("test", &small).unwrap_err();
        assert!(error.problem.contains("persistent_cache_bytes of at least"), "{error}");
    }
}
