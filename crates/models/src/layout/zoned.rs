//! Zones of cylinders with skews in sectors, spares, slips and defects.
//!
//! The layout of DiskSim's `dm_layout_g1`: inside a zone the tracks follow each other cylinder by
//! cylinder; each is turned against the one before by the track skew or the cylinder skew, and in
//! some sparing schemes every slipped sector turns what follows by one sector more.

use super::Stretch;
use super::runs::{RUNS_MAX, Run, RunMap};
use super::spares::ZoneShape;
use crate::angle::Angle;
use serde::{Deserialize, Serialize};

/// Zones, and what holds for all of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedSpec {
    /// Order of the surfaces.
    pub order: SurfaceOrder,
    /// Where spare sectors are and what they replace.
    pub spares: SpareScheme,
    /// Cylinders that share spares under [`SpareScheme::SectorsPerRange`].
    #[serde(default = "one")]
    pub range_cylinders: u32,
    /// Outermost first.
    pub zones: Vec<ZonedZone>,
}

const SECTORS_PER_TRACK_MAX: u32 = 1 << 20;
const HEADS_MAX: u64 = 1 << 10;
const CYLINDERS_MAX: u32 = 1 << 30;

fn one() -> u32 {
    1
}

/// In which order the surfaces of a cylinder are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SurfaceOrder {
    /// From the first to the last, in each cylinder.
    Same,
    /// Back and forth, beginning forth with each zone.
    AlternatingInZone,
    /// Forth on even cylinders, back on odd ones.
    Alternating,
}

/// What replaces defects: names for the numbers 0 to 10 of DiskSim's `Sparing scheme used`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpareScheme {
    /// Nothing.
    None,
    /// Whole tracks, at the end of the zone.
    Tracks,
    /// Sectors at the end of each cylinder.
    SectorsPerCylinder,
    /// Sectors at the end of each track.
    SectorsPerTrack,
    /// Sectors at the end of each cylinder; slips go on to the end of the zone.
    SectorsPerCylinderSlipOn,
    /// Sectors at the front of each cylinder.
    SectorsInFrontOfCylinder,
    /// Sectors at the front of each cylinder; slips go on to the end of the zone.
    SectorsInFrontOfCylinderSlipOn,
    /// The sectors that the zone's slips leave at its end.
    AtEnd,
    /// Sectors at the end of each range of cylinders.
    SectorsPerRange,
    /// Sectors at the end of the zone.
    SectorsPerZone,
    /// Sectors at the end of the zone, besides those that the slips take.
    SectorsPerZoneSlipOn,
}

impl SpareScheme {
    /// Whether a slipped sector turns the cylinders after it by one sector.
    fn slips_turn_cylinders(self) -> bool {
        matches!(
            self,
            Self::SectorsPerCylinder
                | Self::SectorsPerCylinderSlipOn
                | Self::SectorsInFrontOfCylinder
                | Self::SectorsInFrontOfCylinderSlipOn
        )
    }
}

/// Cylinders with equally many sectors on each track.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedZone {
    /// First and last cylinder.
    pub cylinders: (u32, u32),
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// How far the zone's first sector is turned, in sectors.
    #[serde(default)]
    pub first_sector: f64,
    /// Sectors at the front that hold no logical block.
    #[serde(default)]
    pub lost_blocks: u64,
    /// Turn to the next track of a cylinder, in sectors.
    pub track_skew: f64,
    /// Turn to the next cylinder, in sectors.
    pub cylinder_skew: f64,
    /// Spares, in the unit of the scheme.
    #[serde(default)]
    pub spares: u64,
    /// Skipped sectors (or tracks), counted from the start of the zone, ascending.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// Remapped sectors (or tracks), and where to.
    #[serde(default)]
    pub defects: Vec<(u64, u64)>,
}

impl ZonedSpec {
    /// Compiles the layout of a disk; errors name the zone.
    pub fn compile(&self, heads: u16, cylinders: u32) -> Result<RunMap, String> {
        let mut runs = Vec::new();
        let mut first_lbn = 0;
        let mut next_cylinder = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            let failed = |problem: String| format!("zone {index}: {problem}");
            let (first, last) = zone.cylinders;
            if first < next_cylinder || last < first || last >= cylinders || heads == 0 {
                return Err(failed(format!(
                    "expected cylinders from {next_cylinder} to {cylinders} (not included), found \
                     {first} to {last}"
                )));
            }
            next_cylinder = last + 1;
            let placed = self.place(zone, u64::from(heads)).map_err(failed)?;
            let mut writer = Writer { spec: self, zone, heads: u32::from(heads), runs: &mut runs };
            for stretch in placed {
                writer.stretch(&mut first_lbn, stretch).map_err(failed)?;
            }
        }
        RunMap::new(runs, u32::from(heads), cylinders)
    }

    fn place(&self, zone: &ZonedZone, heads: u64) -> Result<Vec<Stretch>, String> {
        // With these bounds no product below can overflow.
        if !(1..=SECTORS_PER_TRACK_MAX).contains(&zone.sectors_per_track)
            || heads > HEADS_MAX
            || zone.cylinders.1 > CYLINDERS_MAX
            || self.range_cylinders == 0
        {
            return Err(format!(
                "expected 1 to {SECTORS_PER_TRACK_MAX} sectors per track, at most {HEADS_MAX} heads \
                 and {CYLINDERS_MAX} cylinders, and at least one cylinder per range, found {} \
                 sectors, {heads} heads, cylinder {}",
                zone.sectors_per_track, zone.cylinders.1
            ));
        }
        if zone.slips.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err("slips must ascend".to_owned());
        }
        let shape = ZoneShape {
            scheme: self.spares,
            heads,
            cylinders: u64::from(zone.cylinders.1 - zone.cylinders.0) + 1,
            sectors_per_track: u64::from(zone.sectors_per_track),
            range_cylinders: u64::from(self.range_cylinders),
            spares: zone.spares,
            lost_blocks: zone.lost_blocks,
            slips: &zone.slips,
            defects: &zone.defects,
        };
        shape.stretches()
    }
}

/// Writes the stretches of one zone as runs.
struct Writer<'a> {
    spec: &'a ZonedSpec,
    zone: &'a ZonedZone,
    heads: u32,
    runs: &'a mut Vec<Run>,
}

impl Writer<'_> {
    fn stretch(&mut self, first_lbn: &mut u64, stretch: Stretch) -> Result<(), String> {
        let per_track = u64::from(self.zone.sectors_per_track);
        let (mut at, end) = (stretch.physical, stretch.physical + stretch.sectors);
        while at < end {
            let (track, sector) = (at / per_track, at % per_track);
            let whole = if sector == 0 { (end - at) / per_track } else { 0 };
            let (pieces, blocks) = if whole > 0 {
                (whole.min(self.tracks_alike(track)), per_track)
            } else {
                (1, (per_track - sector).min(end - at))
            };
            let run = self.run(*first_lbn, track, sector, pieces as u32, blocks as u32);
            if self.runs.len() >= RUNS_MAX {
                return Err("too many slips and spares".to_owned());
            }
            self.runs.push(run);
            *first_lbn += pieces * blocks;
            at += pieces * blocks;
        }
        Ok(())
    }

    /// How many tracks from `track` on one run can describe.
    fn tracks_alike(&self, track: u64) -> u64 {
        let heads = u64::from(self.heads);
        let to_cylinder_end = heads - track % heads;
        let turns = self.spec.spares.slips_turn_cylinders()
            || self.spec.spares == SpareScheme::SectorsPerTrack;
        if self.spec.spares == SpareScheme::SectorsPerTrack && !self.zone.slips.is_empty() {
            return 1;
        }
        let bent = self.spec.order != SurfaceOrder::Same || (turns && !self.zone.slips.is_empty());
        if to_cylinder_end == heads && !bent { u64::MAX } else { to_cylinder_end }
    }

    fn run(&self, first_lbn: u64, track: u64, sector: u64, pieces: u32, blocks: u32) -> Run {
        let heads = self.heads;
        let (offset, surface) =
            ((track / u64::from(heads)) as u32, (track % u64::from(heads)) as u32);
        let cylinder = self.zone.cylinders.0 + offset;
        let back = match self.spec.order {
            SurfaceOrder::Same => false,
            SurfaceOrder::AlternatingInZone => offset % 2 == 1,
            SurfaceOrder::Alternating => cylinder % 2 == 1,
        };
        let head = if back { heads - 1 - surface } else { surface };
        let outer_turn = self
            .skew(self.zone.track_skew)
            .times(u64::from(heads - 1))
            .plus(self.skew(self.zone.cylinder_skew));
        Run {
            first_lbn,
            pieces,
            blocks,
            sectors_per_track: self.zone.sectors_per_track,
            cylinder,
            head: head as u16,
            inner: heads - surface,
            cylinder_step: 0,
            head_step: if back { -1 } else { 1 },
            outer_cylinder_step: 1,
            start: self.angle(track, surface, u64::from(offset), sector),
            turn: self.skew(self.zone.track_skew),
            outer_turn,
        }
    }

    fn skew(&self, sectors: f64) -> Angle {
        Angle::from_revolutions(sectors / f64::from(self.zone.sectors_per_track))
    }

    /// Angle of a sector of the zone.
    fn angle(&self, track: u64, surface: u32, offset: u64, sector: u64) -> Angle {
        let zone = self.zone;
        let heads = u64::from(self.heads);
        let switches = u64::from(surface) + (heads - 1) * offset;
        // Slips of this zone before the cylinder (or track) turn it by a sector each.
        let before = match self.spec.spares {
            SpareScheme::SectorsPerTrack => track,
            scheme if scheme.slips_turn_cylinders() => offset * heads,
            _ => 0,
        };
        let limit = before * u64::from(zone.sectors_per_track);
        let slipped = zone.slips.partition_point(|&slip| slip < limit) as u64;
        let sectors = (sector + slipped) % u64::from(zone.sectors_per_track);
        self.skew(zone.first_sector)
            .plus(self.skew(zone.track_skew).times(switches))
            .plus(self.skew(zone.cylinder_skew).times(offset))
            .plus(Angle::of_sector(sectors as u32, zone.sectors_per_track))
    }
}
