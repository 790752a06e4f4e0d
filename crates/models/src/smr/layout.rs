//! Which of the host's sectors is where on a shingled disk, and which band holds it.
//!
//! The host's addresses are the drive's in the same order, without what the host cannot have: the
//! drive's persistent cache and its scratch band at the outer tracks, and the part of a
//! non-shingled surface that its wider tracks take up. So near addresses are near on the disk, a
//! non-shingled range lies at the radius of the bands around it, and everything is counted in
//! sectors.

use super::profile::{SmrKind, SmrProfile};
use crate::LayoutSpec;
use crate::geometry::Zone;
use nearhead_disk::{Region, RegionKind, Zones, ZonesError};
use std::ops::Range;

/// Host sectors that lie together on the disk and are of one kind.
#[derive(Clone, Copy, Debug)]
struct Run {
    host: u64,
    drive: u64,
    sectors: u64,
    /// Sectors of a band; 0 if not shingled.
    band: u64,
}

/// A part of a host's range that lies together on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: u64,
    pub(super) drive: u64,
    pub(super) sectors: u64,
}

/// Where everything is.
#[derive(Debug)]
pub(super) struct Layout {
    runs: Vec<Run>,
    /// The drive's sectors of its persistent cache.
    pub(super) cache: Range<u64>,
    /// The drive's sectors where a band is kept while it is rewritten.
    pub(super) scratch: Range<u64>,
}

impl Layout {
    /// The layout that `profile` describes. Fails if the disk is too small for its own parts.
    pub(super) fn new(profile: &SmrProfile) -> Result<Self, String> {
        let geometry = profile.drive.geometry().map_err(|error| error.problem)?;
        let spec = &profile.shingled;
        let sector = u64::from(profile.drive.sector_bytes);
        let first = geometry.zones().first().ok_or("a disk without zones")?;
        let band = band_sectors(first, spec.band_tracks);
        let cache = (spec.persistent_cache_bytes / sector).next_multiple_of(band);
        let managed = spec.kind == SmrKind::DriveManaged;
        // A scratch band, and whatever of the first run is left, never belong to the host.
        let group = match spec.kind {
            SmrKind::Surface => band * u64::from(profile.drive.heads),
            SmrKind::DriveManaged | SmrKind::Outer => cache + band,
        };
        if group >= first.blocks || geometry.blocks() < 2 * group {
            return Err("the first zone has no room for the cache and a scratch band".to_owned());
        }
        let mut layout = Self {
            runs: Vec::new(),
            cache: if managed { 0..cache } else { 0..0 },
            scratch: group - band..group,
        };
        if spec.kind == SmrKind::Outer {
            layout.push(0, cache, 0);
        }
        for zone in geometry.zones() {
            match spec.kind {
                SmrKind::Surface => layout.add_surfaces(profile, zone, group),
                SmrKind::DriveManaged | SmrKind::Outer => {
                    let start = zone.first_lbn.max(group);
                    let end = zone.first_lbn + zone.blocks;
                    layout.push(start, end - start, band_sectors(zone, spec.band_tracks));
                }
            }
        }
        Ok(layout)
    }

    /// The runs of one head after the other in a zone of a serpentine disk.
    fn add_surfaces(&mut self, profile: &SmrProfile, zone: &Zone, from: u64) {
        let Some(surface) = profile.shingled.surface else { return };
        let LayoutSpec::Serpentine { run_cylinders } = profile.drive.layout else { return };
        let (heads, per_track) =
            (u64::from(profile.drive.heads), u64::from(zone.sectors_per_track));
        let end = zone.first_lbn + zone.blocks;
        let mut start = zone.first_lbn;
        let mut index = 0;
        while start < end {
            let (group, turn) = (index / heads, index % heads);
            let left = u64::from(zone.cylinders) - group * u64::from(run_cylinders);
            let tracks = left.min(u64::from(run_cylinders));
            let sectors = (tracks * per_track).min(end - start);
            let head = if group % 2 == 0 { turn } else { heads - 1 - turn };
            if start < from {
                // The drive's own.
            } else if head == u64::from(surface.head) {
                let wide = (tracks as f64 / surface.track_pitch_ratio) as u64;
                self.push(start, (wide * per_track).min(sectors), 0);
            } else {
                self.push(start, sectors, tracks * per_track);
            }
            start += sectors;
            index += 1;
            if index == heads * u64::from(zone.cylinders).div_ceil(u64::from(run_cylinders)) {
                break;
            }
        }
    }

    fn push(&mut self, drive: u64, sectors: u64, band: u64) {
        if sectors == 0 {
            return;
        }
        let host = self.sectors();
        match self.runs.last_mut() {
            Some(last)
                if last.drive + last.sectors == drive
                    && last.band == band
                    && (band == 0 || last.sectors.is_multiple_of(band)) =>
            {
                last.sectors += sectors;
            }
            _ => self.runs.push(Run { host, drive, sectors, band }),
        }
    }

    /// Sectors that a host can address.
    pub(super) fn sectors(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.host + run.sectors)
    }

    fn run_of(&self, host: u64) -> &Run {
        let after = self.runs.partition_point(|run| run.host <= host);
        &self.runs[after.max(1) - 1]
    }

    /// The band of a host's sector, as host sectors; none where it is not shingled.
    pub(super) fn band_of(&self, host: u64) -> Option<Range<u64>> {
        let run = self.run_of(host);
        let inside = (host - run.host).checked_rem(run.band)?;
        let start = host - inside;
        Some(start..(start + run.band).min(run.host + run.sectors))
    }

    /// Up to where a range from `host` on stays in one band, or in one run that is not shingled.
    pub(super) fn uniform_end(&self, host: u64) -> u64 {
        let run = self.run_of(host);
        self.band_of(host).map_or(run.host + run.sectors, |band| band.end)
    }

    /// Where a range of host sectors lies.
    pub(super) fn places(&self, range: Range<u64>) -> impl Iterator<Item = Place> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let run = self.run_of(at);
            let sectors = (run.host + run.sectors).min(range.end) - at;
            let place = Place { host: at, drive: run.drive + (at - run.host), sectors };
            at += sectors;
            Some(place)
        })
    }

    /// What a host may be told.
    pub(super) fn zones(&self, sector_bytes: u64) -> Result<Zones, ZonesError> {
        let mut regions: Vec<Region> = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let kind = match run.band {
                0 => RegionKind::NonShingled,
                band => RegionKind::Bands { band_bytes: band * sector_bytes },
            };
            let (offset, len) = (run.host * sector_bytes, run.sectors * sector_bytes);
            match regions.last_mut() {
                // Parts of one surface: the way between them is no more than to the next track.
                Some(last) if kind == RegionKind::NonShingled && last.kind == kind => {
                    last.len += len;
                }
                _ => regions.push(Region { offset, len, kind }),
            }
        }
        Zones::new(regions, self.sectors() * sector_bytes)
    }
}

fn band_sectors(zone: &Zone, tracks: u32) -> u64 {
    u64::from(tracks) * u64::from(zone.sectors_per_track)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_sectors_have_places_of_their_own_on_the_kind_of_surface_they_are_told_of() {
        for name in SmrProfile::known_names() {
            let profile = SmrProfile::named(name).unwrap();
            let layout = Layout::new(&profile).unwrap();
            let geometry = profile.drive.geometry().unwrap();
            let mut next_drive = layout.scratch.end.min(layout.runs[0].drive);
            for run in &layout.runs {
                assert!(run.drive >= next_drive, "{name}: {run:?} overlaps");
                next_drive = run.drive + run.sectors;
                let own = |range: &Range<u64>| range.contains(&run.drive);
                assert!(!own(&layout.cache) && !own(&layout.scratch), "{name}: {run:?}");
                if let Some(surface) = profile.shingled.surface {
                    let last = run.drive + run.sectors - 1;
                    for lbn in [run.drive, last] {
                        let on_it = geometry.locate(lbn).head == surface.head;
                        assert_eq!(on_it, run.band == 0, "{name}: {run:?}");
                    }
                }
            }
            assert!(geometry.blocks() >= next_drive, "{name}");
        }
    }

    #[test]
    fn bands_have_the_sizes_that_were_measured() {
        for name in SmrProfile::known_names() {
            let profile = SmrProfile::named(name).unwrap();
            let zones = Layout::new(&profile).unwrap().zones(512).unwrap();
            let sizes: Vec<u64> = zones.bands().map(|band| band.end - band.start).collect();
            // A zone's last band may be cut short.
            let usual =
                sizes.iter().filter(|size| (15_000_000..40_000_000).contains(*size)).count();
            assert!(usual + 200 > sizes.len(), "{name}: {usual} of {}", sizes.len());
            assert!((240_000..300_000).contains(&sizes.len()), "{name}: {} bands", sizes.len());
        }
    }

    #[test]
    fn one_surface_of_twelve_is_spread_over_the_whole_disk() {
        let profile = SmrProfile::named("st8000as0002-mlsmr").unwrap();
        let zones = Layout::new(&profile).unwrap().zones(512).unwrap();
        let capacity = zones.regions().last().unwrap().end();
        let free: u64 = zones.non_shingled().map(|range| range.end - range.start).sum();
        let share = free as f64 / capacity as f64;
        // 0.8 of a surface's tracks beside eleven whole surfaces.
        assert!((0.055..0.075).contains(&share), "{share}");
        let mut at = 0;
        for range in zones.non_shingled() {
            assert!(range.start - at < 2_000_000_000, "from {at} to {}", range.start);
            at = range.end;
        }
        assert_eq!(zones.persistent_cache(), None);
        let outer = SmrProfile::named("st8000as0002-slsmr").unwrap();
        let outer = Layout::new(&outer).unwrap().zones(512).unwrap();
        let cache = outer.persistent_cache().unwrap();
        assert!((20_000_000_000..20_100_000_000).contains(&cache.end), "{cache:?}");
    }
}
