//! Which physical sectors of a zone hold its logical blocks, by its sparing scheme.
//!
//! A drive keeps spare sectors or tracks at stated places and skips ("slips") its defects, so that
//! the blocks after a defect move up by one; a defect that appeared later is remapped to a spare
//! elsewhere. The schemes are those of DiskSim's manual (Bucy et al., CMU-PDL-08-101, section 3).

use super::Stretch;
use super::zoned::SpareScheme;

/// A zone as the schemes see it: so many tracks in a row.
pub(super) struct ZoneShape<'a> {
    pub(super) scheme: SpareScheme,
    pub(super) heads: u64,
    pub(super) cylinders: u64,
    pub(super) sectors_per_track: u64,
    pub(super) range_cylinders: u64,
    /// Spare tracks or sectors, per unit of the scheme.
    pub(super) spares: u64,
    /// Sectors at the front that hold nothing.
    pub(super) lost_blocks: u64,
    /// Skipped sectors (tracks for [`SpareScheme::Tracks`]), ascending.
    pub(super) slips: &'a [u64],
    /// `(defect, where it went)`, sectors or tracks as the slips.
    pub(super) defects: &'a [(u64, u64)],
}

impl ZoneShape<'_> {
    fn sectors(&self) -> u64 {
        self.heads * self.cylinders * self.sectors_per_track
    }

    /// Logical blocks of the zone.
    pub(super) fn blocks(&self) -> Option<u64> {
        let slips = self.slips.len() as u64;
        let taken = match self.scheme {
            SpareScheme::None => 0,
            SpareScheme::Tracks => self.spares.checked_mul(self.sectors_per_track)?,
            SpareScheme::SectorsPerTrack => self.spares.checked_mul(self.cylinders * self.heads)?,
            SpareScheme::SectorsPerCylinder | SpareScheme::SectorsInFrontOfCylinder => {
                self.spares.checked_mul(self.cylinders)?
            }
            SpareScheme::SectorsPerCylinderSlipOn | SpareScheme::SectorsInFrontOfCylinderSlipOn => {
                self.spares.checked_mul(self.cylinders)?.checked_add(slips)?
            }
            SpareScheme::AtEnd => slips,
            SpareScheme::SectorsPerRange => {
                self.spares.checked_mul(self.cylinders / self.range_cylinders)?
            }
            SpareScheme::SectorsPerZone => self.spares,
            SpareScheme::SectorsPerZoneSlipOn => self.spares.checked_add(slips)?,
        };
        self.sectors().checked_sub(self.lost_blocks)?.checked_sub(taken).filter(|&left| left > 0)
    }

    /// Where the zone's blocks are, in order. The error says what does not fit.
    pub(super) fn stretches(&self) -> Result<Vec<Stretch>, String> {
        let room = self.sectors();
        let units = room / self.slip_sectors();
        let known = self.slips.iter().chain(self.defects.iter().flat_map(|(from, to)| [from, to]));
        if let Some(outside) = known.copied().find(|&slip| slip >= units) {
            return Err(format!("expected slips and defects below {units}, found {outside}"));
        }
        let blocks = self.blocks().ok_or_else(|| {
            format!("{} spares leave nothing of a zone of {room} sectors", self.spares)
        })?;
        let mut filler = Filler { skip: self.lost_blocks, left: blocks, stretches: Vec::new() };
        let track = self.sectors_per_track;
        let cylinder = track * self.heads;
        let (unit, in_front, at_end) = match self.scheme {
            SpareScheme::SectorsPerTrack => (track, 0, self.spares),
            SpareScheme::SectorsPerCylinder | SpareScheme::SectorsPerCylinderSlipOn => {
                (cylinder, 0, self.spares)
            }
            SpareScheme::SectorsInFrontOfCylinder | SpareScheme::SectorsInFrontOfCylinderSlipOn => {
                (cylinder, self.spares, 0)
            }
            SpareScheme::SectorsPerRange => (cylinder * self.range_cylinders, 0, self.spares),
            _ => (room, 0, 0),
        };
        let holes = self.holes();
        let mut from = 0;
        while from < room && filler.left > 0 {
            let end = (from + unit).min(room);
            // A range cut short by the end of the zone has no spares.
            let at_end = if end - from < unit { 0 } else { at_end };
            // A unit that slips inside itself uses its own spares for that.
            let wanted = (end - from).saturating_sub(in_front + at_end);
            let slips_inside = matches!(
                self.scheme,
                SpareScheme::SectorsPerTrack
                    | SpareScheme::SectorsPerCylinder
                    | SpareScheme::SectorsInFrontOfCylinder
                    | SpareScheme::SectorsPerRange
            );
            let stop = if slips_inside { end } else { end - at_end.min(end - from) };
            // Spares in front are used from their end.
            let bad = holes.iter().filter(|&&(start, _)| (from..end).contains(&start)).count();
            let used = if slips_inside { bad as u64 } else { 0 };
            let front = in_front.saturating_sub(used).min(end - from);
            filler.unit(from + front, stop, wanted, &holes);
            from = end;
        }
        // More slips than spares: what is left has no place, and the zone holds less than its scheme
        // says. Whoever states a number of blocks learns of it from that.
        Ok(self.remap(filler.stretches))
    }

    /// Skipped ranges of physical sectors.
    fn holes(&self) -> Vec<(u64, u64)> {
        let width = self.slip_sectors();
        self.slips.iter().map(|&slip| (slip * width, (slip + 1) * width)).collect()
    }

    fn slip_sectors(&self) -> u64 {
        if self.scheme == SpareScheme::Tracks { self.sectors_per_track } else { 1 }
    }

    /// Moves what lies on later defects to where it was remapped.
    fn remap(&self, stretches: Vec<Stretch>) -> Vec<Stretch> {
        let width = self.slip_sectors();
        let mut defects: Vec<(u64, u64)> =
            self.defects.iter().filter(|(from, to)| from != to).copied().collect();
        if defects.is_empty() {
            return stretches;
        }
        defects.sort_unstable();
        let mut moved = Vec::new();
        for stretch in stretches {
            let end = stretch.physical + stretch.sectors;
            let mut at = stretch.physical;
            for &(from, to) in &defects {
                let (start, stop) = ((from * width).max(at), ((from + 1) * width).min(end));
                if start >= stop {
                    continue;
                }
                push(&mut moved, at, start);
                let target = to * width + (start - from * width);
                push(&mut moved, target, target + (stop - start));
                at = stop;
            }
            push(&mut moved, at, end);
        }
        moved
    }
}

/// Collects stretches, leaving out the lost front of the zone and what exceeds its blocks.
struct Filler {
    skip: u64,
    left: u64,
    stretches: Vec<Stretch>,
}

impl Filler {
    /// Takes up to `wanted` sectors of `from..end` that are no holes.
    fn unit(&mut self, from: u64, end: u64, wanted: u64, holes: &[(u64, u64)]) {
        let mut left = wanted;
        let mut at = from;
        let first = holes.partition_point(|&(_, stop)| stop <= from);
        for &(start, stop) in &holes[first..] {
            if start >= end || left == 0 {
                break;
            }
            left -= self.take(at, start.max(at).min(at + left));
            at = stop.max(at);
        }
        if at < end && left > 0 {
            self.take(at, end.min(at + left));
        }
    }

    /// Takes `from..end`; says how many sectors that is.
    fn take(&mut self, from: u64, end: u64) -> u64 {
        let skipped = self.skip.min(end - from);
        self.skip -= skipped;
        let start = from + skipped;
        let taken = self.left.min(end - start);
        self.left -= taken;
        push(&mut self.stretches, start, start + taken);
        end - from
    }
}

fn push(stretches: &mut Vec<Stretch>, from: u64, end: u64) {
    if from < end {
        match stretches.last_mut() {
            Some(last) if last.physical + last.sectors == from => last.sectors += end - from,
            _ => stretches.push(Stretch { physical: from, sectors: end - from }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(scheme: SpareScheme, spares: u64, slips: &[u64]) -> ZoneShape<'_> {
        ZoneShape {
            scheme,
            heads: 2,
            cylinders: 4,
            sectors_per_track: 10,
            range_cylinders: 2,
            spares,
            lost_blocks: 0,
            slips,
            defects: &[],
        }
    }

    fn sectors(zone: &ZoneShape<'_>) -> Vec<u64> {
        let stretches = zone.stretches().unwrap();
        stretches
            .iter()
            .flat_map(|stretch| stretch.physical..stretch.physical + stretch.sectors)
            .collect()
    }

    #[test]
    fn every_scheme_gives_each_block_its_own_good_sector() {
        use SpareScheme as S;
        let all = [
            (S::None, 0),
            (S::Tracks, 2),
            (S::SectorsPerCylinder, 3),
            (S::SectorsPerTrack, 2),
            (S::SectorsPerCylinderSlipOn, 3),
            (S::SectorsInFrontOfCylinder, 3),
            (S::SectorsInFrontOfCylinderSlipOn, 3),
            (S::AtEnd, 0),
            (S::SectorsPerRange, 3),
            (S::SectorsPerZone, 5),
            (S::SectorsPerZoneSlipOn, 5),
        ];
        for (scheme, spares) in all {
            let slips: &[u64] = match scheme {
                S::None => &[],
                S::Tracks => &[1, 4],
                _ => &[3, 21, 22],
            };
            let zone = zone(scheme, spares, slips);
            let found = sectors(&zone);
            assert_eq!(found.len() as u64, zone.blocks().unwrap(), "{scheme:?}");
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{scheme:?}: {found:?}");
            assert!(found.iter().all(|&sector| sector < 80), "{scheme:?}: {found:?}");
            let width = if scheme == S::Tracks { 10 } else { 1 };
            let bad = found.iter().find(|&&sector| slips.contains(&(sector / width)));
            assert_eq!(bad, None, "{scheme:?}");
        }
    }

    #[test]
    fn spares_stay_free_at_the_end_of_their_cylinder_until_a_defect_needs_one() {
        let found = sectors(&zone(SpareScheme::SectorsPerCylinder, 3, &[3]));
        assert!(found.contains(&17) && !found.contains(&18), "{found:?}");
        assert!(found.contains(&36) && !found.contains(&37), "{found:?}");
    }

    #[test]
    fn a_remapped_sector_is_where_its_spare_is() {
        let mut zone = zone(SpareScheme::SectorsPerZone, 5, &[]);
        zone.defects = &[(12, 77)];
        let found = sectors(&zone);
        assert_eq!((found[11], found[12], found[13]), (11, 77, 13));
    }

    #[test]
    fn with_more_slips_than_spares_a_zone_holds_what_has_a_place() {
        let slips: Vec<u64> = (0..9).collect();
        let found = sectors(&zone(SpareScheme::SectorsPerZone, 5, &slips));
        assert_eq!((found.len(), found[0]), (71, 9));
        let outside = zone(SpareScheme::SectorsPerZone, 5, &[80]).stretches().unwrap_err();
        assert!(outside.contains("below 80, found 80"), "{outside}");
    }
}
