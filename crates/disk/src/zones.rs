//! How the addresses of a shingled disk may be written, as far as the disk tells its host.
//!
//! Tracks of a shingled surface overlap: writing one destroys the next, so they are grouped in
//! bands that are written from their beginning to their end. Part of the disk may be
//! *non-shingled* and written anywhere. A disk that tells lays all of its addresses out in
//! [`Region`]s, in order and without gaps; what a host makes of that is its own business.
//!
//! Rules for a host: anywhere in a non-shingled region, write as on any disk. In a band, write
//! where the band was written up to, or beyond; anything else is allowed only as far as the disk
//! offers it (a model rewrites the whole band, or refuses). A trim of a whole band empties it.

use std::fmt;
use std::ops::Range;

/// What may be done with the addresses of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Written anywhere, in place.
    NonShingled,
    /// Bands of so many bytes each; the last one of the region may be shorter.
    Bands {
        /// Length of a band in bytes.
        band_bytes: u64,
    },
}

/// Neighbouring addresses of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// What may be done with them.
    pub kind: RegionKind,
}

impl Region {
    /// Byte after the last one.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// The bytes of the region.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.end()
    }
}

/// The regions of a disk, from its first byte to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zones {
    regions: Vec<Region>,
}

/// Regions that do not make a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonesError {
    /// What is wrong, where, expected and found.
    pub problem: String,
}

impl fmt::Display for ZonesError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "zones: {}", self.problem)
    }
}

impl std::error::Error for ZonesError {}

impl Zones {
    /// The zones of a disk of `capacity_bytes`.
    ///
    /// Fails unless the regions follow each other from 0 to the capacity and no band is empty.
    pub fn new(regions: Vec<Region>, capacity_bytes: u64) -> Result<Self, ZonesError> {
        let mut end = 0;
        for region in &regions {
            let empty_band = matches!(region.kind, RegionKind::Bands { band_bytes: 0 });
            if region.offset != end || region.len == 0 || empty_band {
                let problem = format!("expected a region that begins at {end}, found {region:?}");
                return Err(ZonesError { problem });
            }
            end = region.offset.checked_add(region.len).ok_or_else(|| ZonesError {
                problem: format!("region {region:?} ends past all addresses"),
            })?;
        }
        if end != capacity_bytes {
            let problem = format!("expected regions up to byte {capacity_bytes}, found {end}");
            return Err(ZonesError { problem });
        }
        Ok(Self { regions })
    }

    /// All regions, in order of address.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The region that holds byte `offset`; none past the end.
    pub fn region_at(&self, offset: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|region| region.offset <= offset);
        let region = self.regions.get(after.checked_sub(1)?)?;
        (offset < region.end()).then_some(region)
    }

    /// The bytes of the band that holds byte `offset`; none where it is not shingled.
    pub fn band_at(&self, offset: u64) -> Option<Range<u64>> {
        let region = self.region_at(offset)?;
        let RegionKind::Bands { band_bytes } = region.kind else { return None };
        let start = offset - (offset - region.offset) % band_bytes;
        Some(start..(start + band_bytes).min(region.end()))
    }

    /// The non-shingled ranges, in order of address.
    pub fn non_shingled(&self) -> impl Iterator<Item = Range<u64>> {
        let free = |region: &&Region| region.kind == RegionKind::NonShingled;
        self.regions.iter().filter(free).map(Region::range)
    }

    /// The non-shingled range that is nearest to byte `offset`; none if there is none.
    pub fn nearest_non_shingled(&self, offset: u64) -> Option<Range<u64>> {
        let after = self.regions.partition_point(|region| region.offset <= offset);
        let free = |region: &&Region| region.kind == RegionKind::NonShingled;
        let below = self.regions[..after].iter().rev().find(free).map(Region::range);
        let above = self.regions[after..].iter().find(free).map(Region::range);
        let gap = |range: &Range<u64>| offset.saturating_sub(range.end.saturating_sub(1));
        match (below, above) {
            (Some(below), Some(above)) => {
                Some(if above.start - offset < gap(&below) { above } else { below })
            }
            (below, above) => below.or(above),
        }
    }

    /// The persistent cache at the outer tracks: the disk's first region, if it is the only
    /// non-shingled one.
    pub fn persistent_cache(&self) -> Option<Range<u64>> {
        let mut free = self.non_shingled();
        let first = free.next().filter(|first| first.start == 0)?;
        free.next().is_none().then_some(first)
    }

    /// How many bytes from the first on are not shingled.
    pub fn non_shingled_start_bytes(&self) -> u64 {
        let free = |region: &&Region| region.kind == RegionKind::NonShingled;
        self.regions.iter().take_while(free).last().map_or(0, Region::end)
    }

    /// The bytes of `range` as a disk of their own; a band of which only a part is in it is that
    /// part.
    ///
    /// Fails if the range is empty or reaches past the end.
    pub fn part(&self, range: Range<u64>) -> Result<Self, ZonesError> {
        if range.is_empty() {
            let problem = format!("expected some bytes from {} on, found none", range.start);
            return Err(ZonesError { problem });
        }
        let mut regions = Vec::new();
        let mut at = range.start;
        while let Some(region) = self.region_at(at).filter(|_| at < range.end) {
            let end = region.end().min(range.end);
            let (mut stop, mut kind) = (end, region.kind);
            if let Some(band) = self.band_at(at).filter(|band| band.start < at) {
                // The rest of a band, so that those after it keep their places.
                stop = band.end.min(end);
                kind = RegionKind::Bands { band_bytes: stop - at };
            }
            regions.push(Region { offset: at - range.start, len: stop - at, kind });
            at = stop;
        }
        Self::new(regions, range.end.saturating_sub(range.start))
    }

    /// The bands, in order of address.
    pub fn bands(&self) -> impl Iterator<Item = Range<u64>> {
        self.regions.iter().flat_map(|region| {
            let band_bytes = match region.kind {
                RegionKind::NonShingled => 0,
                RegionKind::Bands { band_bytes } => band_bytes,
            };
            let count = if band_bytes == 0 { 0 } else { region.len.div_ceil(band_bytes) };
            (0..count).map(move |index| {
                let start = region.offset + index * band_bytes;
                start..(start + band_bytes).min(region.end())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(offset: u64, len: u64, band_bytes: u64) -> Region {
        let kind = match band_bytes {
            0 => RegionKind::NonShingled,
            band_bytes => RegionKind::Bands { band_bytes },
        };
        Region { offset, len, kind }
    }

    fn surface() -> Zones {
        let regions = vec![
            region(0, 100, 0),
            region(100, 950, 300),
            region(1050, 100, 0),
            region(1150, 50, 300),
        ];
        Zones::new(regions, 1200).unwrap()
    }

    #[test]
    fn every_byte_is_in_the_band_or_range_that_holds_it() {
        let zones = surface();
        let mut covered = 0;
        for offset in 0..1200 {
            let band = zones.band_at(offset);
            let free = zones.non_shingled().find(|range| range.contains(&offset));
            assert!(band.is_some() != free.is_some(), "byte {offset}");
            assert!(band.clone().is_none_or(|band| band.contains(&offset)), "byte {offset}");
            covered += u64::from(band.is_some_and(|band| zones.bands().any(|known| known == band)));
        }
        assert_eq!(covered, 1000, "bands() and band_at() agree");
        assert_eq!((zones.band_at(1200), zones.region_at(1200)), (None, None));
        assert_eq!(zones.bands().count(), 5);
    }

    #[test]
    fn the_nearest_free_range_is_the_one_with_the_smallest_gap() {
        let zones = surface();
        for (offset, expected) in
            [(0, 0), (99, 0), (100, 0), (574, 0), (575, 1050), (1100, 1050), (1199, 1050)]
        {
            let found = zones.nearest_non_shingled(offset).unwrap();
            assert_eq!(found.start, expected, "byte {offset}");
        }
    }

    #[test]
    fn a_persistent_cache_is_the_only_free_range_and_comes_first() {
        assert_eq!(surface().persistent_cache(), None);
        let outer = Zones::new(vec![region(0, 100, 0), region(100, 300, 30)], 400).unwrap();
        assert_eq!(outer.persistent_cache(), Some(0..100));
        let shingled = Zones::new(vec![region(0, 400, 30)], 400).unwrap();
        assert_eq!((shingled.persistent_cache(), shingled.nearest_non_shingled(7)), (None, None));
    }

    #[test]
    fn a_part_has_the_bands_of_the_whole() {
        let zones = surface();
        for (start, end) in [(0, 1200), (100, 1200), (399, 1060), (400, 450), (1049, 1051)] {
            let part = zones.part(start..end).unwrap();
            for offset in start..end {
                let inside =
                    |band: Range<u64>| band.start.max(start) - start..band.end.min(end) - start;
                let expected = zones.band_at(offset).map(inside);
                assert_eq!(part.band_at(offset - start), expected, "{start}..{end}: {offset}");
            }
        }
        assert_eq!(
            (
                zones.non_shingled_start_bytes(),
                zones.part(100..1200).unwrap().non_shingled_start_bytes()
            ),
            (100, 0)
        );
        assert!(zones.part(7..7).is_err() && zones.part(1100..1201).is_err());
    }

    #[test]
    fn gaps_overlaps_and_empty_bands_are_refused() {
        let band =
            |band_bytes| Region { offset: 0, len: 10, kind: RegionKind::Bands { band_bytes } };
        for (regions, problem) in [
            (vec![region(0, 10, 0), region(11, 9, 5)], "begins at 10"),
            (vec![region(0, 10, 0), region(9, 11, 5)], "begins at 10"),
            (vec![band(0), region(10, 10, 5)], "begins at 0"),
            (vec![region(0, 10, 0)], "up to byte 20, found 10"),
            (vec![], "found 0"),
        ] {
            let error = Zones::new(regions, 20).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
