//! Where a logical block is: cylinder, head, sector and angle, and back.
//!
//! A disk is a list of zones of equal sectors per track. Inside a zone the tracks are numbered in
//! the order in which logical blocks fill them; the [`Layout`] says which cylinder and head each
//! is, and three skews say how far the first sector of a track is turned against that of the track
//! before it. A layout that a profile spells out track by track comes as a list of runs instead.
//! Everything that walks over a disk asks [`Geometry::locate`] for a [`Track`]; no other code knows
//! about layouts.

use crate::angle::Angle;
use crate::layout::RunMap;

/// The order in which blocks fill the tracks of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All surfaces of a cylinder in turn, then the next cylinder.
    Cylinder,
    /// `run` cylinders on one head, back on the next head, and so on over all heads; the next
    /// group of cylinders takes the heads in the opposite order. Found on disks since about 2000,
    /// where moving to the neighbouring track costs less than settling another head.
    Serpentine {
        /// Cylinders in one run.
        run: u32,
    },
}

/// How far each track's first sector is turned against that of the track before.
#[derive(Clone, Copy, Debug)]
pub struct Skews {
    /// When the next track is one cylinder further on the same head (or, for
    /// [`Layout::Cylinder`], on the first head).
    pub next_cylinder: Angle,
    /// When the next track is on another head.
    pub next_head: Angle,
    /// When the next track begins another group of a serpentine layout.
    pub next_group: Angle,
}

/// Tracks with the same number of sectors.
#[derive(Clone, Debug)]
pub struct Zone {
    /// First logical block.
    pub first_lbn: u64,
    /// Logical blocks held; fewer than there is room for where tracks are spares.
    pub blocks: u64,
    /// First cylinder.
    pub first_cylinder: u32,
    /// Number of cylinders.
    pub cylinders: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// Angle of the zone's first sector.
    pub start: Angle,
}

/// A track and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Logical block of its first sector.
    pub first_lbn: u64,
    /// Logical blocks on it (all its sectors but on the last track of a zone).
    pub blocks: u32,
    /// Sectors on it.
    pub sectors_per_track: u32,
    /// Cylinder.
    pub cylinder: u32,
    /// Head (surface).
    pub head: u16,
    /// Angle of its first sector.
    pub start: Angle,
}

impl Track {
    /// The logical block after its last one.
    pub fn end_lbn(&self) -> u64 {
        self.first_lbn + u64::from(self.blocks)
    }

    /// Angle at which block `lbn` of this track starts.
    pub fn angle_of(&self, lbn: u64) -> Angle {
        let sector = (lbn - self.first_lbn) as u32;
        self.start.plus(Angle::of_sector(sector, self.sectors_per_track))
    }
}

/// The map from logical blocks to places.
#[derive(Clone, Debug)]
pub struct Geometry {
    heads: u32,
    layout: Layout,
    skews: Skews,
    zones: Vec<Zone>,
    /// For blocks `i << zone_shift` and up, the first zone that may hold them.
    zone_index: Vec<u16>,
    zone_shift: u32,
    /// In place of the zones, where the layout is spelled out; and its cylinders.
    spelled: Option<(RunMap, u32)>,
    /// `(first cylinder, turn)` of corrections to the angles, ascending.
    turns: Vec<(u32, Angle)>,
}

/// Entries of the index of zones, about.
const ZONE_INDEX_ENTRIES: u64 = 512;

/// A zone as a profile states it: where it starts and how many sectors its tracks have.
#[derive(Clone, Copy, Debug)]
pub struct ZoneStart {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// First logical block where known; otherwise the zone before is full.
    pub first_lbn: Option<u64>,
}

impl Geometry {
    /// A disk of `blocks` logical blocks on `heads` surfaces of `cylinders`.
    ///
    /// Errors say which zone contradicts the others, or how many blocks fit.
    pub fn new(
        heads: u16,
        cylinders: u32,
        blocks: u64,
        layout: Layout,
        skews: Skews,
        starts: &[ZoneStart],
    ) -> Result<Self, String> {
        if heads == 0 || starts.first().is_none_or(|zone| zone.first_cylinder != 0) {
            return Err("expected at least one head and a first zone at cylinder 0".to_owned());
        }
        if matches!(layout, Layout::Serpentine { run: 0 }) {
            return Err("a serpentine run must have at least one cylinder".to_owned());
        }
        if starts.len() > usize::from(u16::MAX) {
            return Err(format!("{} zones are too many", starts.len()));
        }
        let mut geometry = Self {
            heads: u32::from(heads),
            layout,
            skews,
            zones: Vec::new(),
            zone_index: Vec::new(),
            zone_shift: (blocks / ZONE_INDEX_ENTRIES).checked_ilog2().map_or(0, |bits| bits + 1),
            spelled: None,
            turns: Vec::new(),
        };
        let mut first_lbn = 0;
        let mut start = Angle(0);
        for (index, zone) in starts.iter().enumerate() {
            let next = starts.get(index + 1);
            let end_cylinder = next.map_or(cylinders, |next| next.first_cylinder);
            if end_cylinder <= zone.first_cylinder || zone.sectors_per_track == 0 {
                return Err(format!("zone {index} has no cylinders or no sectors"));
            }
            let tracks = u64::from(end_cylinder - zone.first_cylinder) * u64::from(heads);
            let room = tracks * u64::from(zone.sectors_per_track);
            let wanted =
                next.and_then(|next| next.first_lbn).map(|end| end.wrapping_sub(first_lbn));
            let held = wanted.unwrap_or(room).min(blocks.saturating_sub(first_lbn));
            if held > room || held == 0 {
                return Err(format!(
                    "zone {index} from block {first_lbn} has room for {room} blocks, found {held}"
                ));
            }
            geometry.zones.push(Zone {
                first_lbn,
                blocks: held,
                first_cylinder: zone.first_cylinder,
                cylinders: end_cylinder - zone.first_cylinder,
                sectors_per_track: zone.sectors_per_track,
                start,
            });
            first_lbn += held;
            let last = geometry.zones.len() - 1;
            start = geometry.track_start(&geometry.zones[last], tracks);
        }
        if first_lbn != blocks {
            return Err(format!("the zones hold {first_lbn} blocks, expected {blocks}"));
        }
        let shift = geometry.zone_shift;
        geometry.zone_index = (0..=blocks >> shift)
            .map(|entry| entry << shift)
            .map(|lbn| geometry.zones.partition_point(|zone| zone.first_lbn <= lbn) as u16 - 1)
            .collect();
        Ok(geometry)
    }

    /// A disk whose tracks are spelled out.
    pub(crate) fn from_runs(heads: u16, cylinders: u32, runs: RunMap) -> Self {
        let none = Angle(0);
        Self {
            heads: u32::from(heads),
            layout: Layout::Cylinder,
            skews: Skews { next_cylinder: none, next_head: none, next_group: none },
            zones: Vec::new(),
            zone_index: Vec::new(),
            zone_shift: 0,
            spelled: Some((runs, cylinders)),
            turns: Vec::new(),
        }
    }

    /// Turns all tracks from each of these cylinders up to the next one by an angle, on top of
    /// what the layout says: what a fit against measurements found.
    pub(crate) fn turn_cylinders(&mut self, turns: Vec<(u32, Angle)>) {
        self.turns = turns;
    }

    /// Logical blocks of the disk.
    pub fn blocks(&self) -> u64 {
        if let Some((runs, _)) = &self.spelled {
            return runs.blocks();
        }
        self.zones.last().map_or(0, |zone| zone.first_lbn + zone.blocks)
    }

    /// Surfaces.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Cylinders.
    pub fn cylinders(&self) -> u32 {
        if let Some((_, cylinders)) = self.spelled {
            return cylinders;
        }
        self.zones.last().map_or(0, |zone| zone.first_cylinder + zone.cylinders)
    }

    /// The zones, outermost first; none where the layout is spelled out.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// The track that holds block `lbn` (of the last block, if `lbn` is past the end).
    pub fn locate(&self, lbn: u64) -> Track {
        let mut track = match &self.spelled {
            Some((runs, _)) => runs.locate(lbn),
            None => self.compute(lbn),
        };
        if !self.turns.is_empty() {
            let after = self.turns.partition_point(|&(first, _)| first <= track.cylinder);
            if let Some((_, turn)) = after.checked_sub(1).map(|index| self.turns[index]) {
                track.start = track.start.plus(turn);
            }
        }
        track
    }

    fn compute(&self, lbn: u64) -> Track {
        let zone = self.zone_of(lbn);
        let inside = (lbn - zone.first_lbn).min(zone.blocks - 1);
        let number = inside / u64::from(zone.sectors_per_track);
        let before = number * u64::from(zone.sectors_per_track);
        let (cylinder, head) = self.place_of(zone, number);
        Track {
            first_lbn: zone.first_lbn + before,
            blocks: (zone.blocks - before).min(u64::from(zone.sectors_per_track)) as u32,
            sectors_per_track: zone.sectors_per_track,
            cylinder,
            head,
            start: self.track_start(zone, number),
        }
    }

    fn zone_of(&self, lbn: u64) -> &Zone {
        let first = self.zone_index.get((lbn >> self.zone_shift) as usize).copied();
        let mut index = first.map_or(self.zones.len() - 1, usize::from);
        while self.zones.get(index + 1).is_some_and(|next| next.first_lbn <= lbn) {
            index += 1;
        }
        &self.zones[index]
    }

    /// The block at a place, or none if no logical block is there or the layout is spelled out.
    pub fn block_at(&self, cylinder: u32, head: u16, sector: u32) -> Option<u64> {
        let after = self.zones.partition_point(|zone| zone.first_cylinder <= cylinder);
        let zone = &self.zones[after.checked_sub(1)?];
        let inside = cylinder - zone.first_cylinder;
        if inside >= zone.cylinders
            || u32::from(head) >= self.heads
            || sector >= zone.sectors_per_track
        {
            return None;
        }
        let number = self.track_number(zone, inside, u32::from(head));
        let lbn = number * u64::from(zone.sectors_per_track) + u64::from(sector);
        (lbn < zone.blocks).then_some(zone.first_lbn + lbn)
    }

    /// Cylinder and head of track `number` of a zone.
    fn place_of(&self, zone: &Zone, number: u64) -> (u32, u16) {
        let Layout::Serpentine { run } = self.layout else {
            let cylinder = (number / u64::from(self.heads)) as u32;
            return (zone.first_cylinder + cylinder, (number % u64::from(self.heads)) as u16);
        };
        let group_tracks = u64::from(run) * u64::from(self.heads);
        let (group, inside) = ((number / group_tracks) as u32, (number % group_tracks) as u32);
        let length = run.min(zone.cylinders - group * run);
        let (passed, step) = (inside / length, inside % length);
        let head = if group.is_multiple_of(2) { passed } else { self.heads - 1 - passed };
        let offset = if passed.is_multiple_of(2) { step } else { length - 1 - step };
        (zone.first_cylinder + group * run + offset, head as u16)
    }

    /// Inverse of [`Self::place_of`], with the cylinder counted from the zone's first.
    fn track_number(&self, zone: &Zone, cylinder: u32, head: u32) -> u64 {
        let Layout::Serpentine { run } = self.layout else {
            return u64::from(cylinder) * u64::from(self.heads) + u64::from(head);
        };
        let (group, offset) = (cylinder / run, cylinder % run);
        let length = run.min(zone.cylinders - group * run);
        let passed = if group.is_multiple_of(2) { head } else { self.heads - 1 - head };
        let step = if passed.is_multiple_of(2) { offset } else { length - 1 - offset };
        u64::from(group) * u64::from(run) * u64::from(self.heads)
            + u64::from(passed) * u64::from(length)
            + u64::from(step)
    }

    /// Angle of the first sector of track `number`: the skews of all tracks before it, added up.
    fn track_start(&self, zone: &Zone, number: u64) -> Angle {
        let Skews { next_cylinder, next_head, next_group } = self.skews;
        let heads = u64::from(self.heads);
        let turned = match self.layout {
            Layout::Cylinder => {
                let cylinder = next_head.times(heads - 1).plus(next_cylinder);
                cylinder.times(number / heads).plus(next_head.times(number % heads))
            }
            Layout::Serpentine { run } => {
                let run_skew = |length: u64| next_cylinder.times(length - 1).plus(next_head);
                let group_tracks = u64::from(run) * heads;
                let (group, inside) = (number / group_tracks, number % group_tracks);
                let left = u64::from(zone.cylinders).saturating_sub(group * u64::from(run));
                let length = u64::from(run).min(left).max(1);
                let whole = run_skew(u64::from(run)).times(heads);
                let whole = whole.plus(next_head.until(next_group));
                whole
                    .times(group)
                    .plus(run_skew(length).times(inside / length))
                    .plus(next_cylinder.times(inside % length))
            }
        };
        zone.start.plus(turned)
    }
}
