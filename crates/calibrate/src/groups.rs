//! Groups of tracks: cylinders, or the runs of a serpentine layout.
//!
//! In each zone one sector of each track is asked for, from the zone's beginning on, until groups show: what is left of the angles
//! without what tracks of that length make of them goes up by one step from track to track, and by another one where a group begins. Where
//! four begin is then searched by halves, to the sector, which says how many sectors a group has. Then pairs of sectors all over the zone
//! are foretold and asked for: groups that foretell them no better than tracks alone do are none. At last the zone's beginning, which was
//! known to within a part of the drive, is found to the group: before it nothing is where the zone's groups would have it.
//!
//! A search asks one question at a time, as one for a track does; those of all zones go on side by side (`parts.rs`).

use crate::clock::signed;
use crate::findings::Zone;
use crate::prober::Ask;
use crate::staircase::{self, Shape, residual};
use crate::tracks::Bounds;

/// Most tracks that are walked over in a zone: three runs of a serpentine layout.
const TRACKS_MAX: u64 = 224;
/// And so many at least, where a zone has them: how exactly the skews are known depends on it.
const TRACKS_ENOUGH: usize = 48;
/// So few tracks say nothing: three steps may be alike by chance.
const TRACKS_MIN: usize = 24;
/// Groups whose beginnings are enough.
const BEGINNINGS: usize = 4;
/// And so many at least.
const BEGINNINGS_MIN: usize = 3;
/// A track whose step is not the skew is asked for so often, each time in another place: a sector may lie elsewhere.
const LOOKS_MAX: usize = 3;
/// Pairs of sectors that are foretold.
pub(crate) const FORETOLD: u32 = 20;
/// So many groups apart at most.
const GROUPS_APART: i64 = 8;
/// Foretold is what comes within so much of a revolution: a fiftieth.
const FORETOLD_WITHIN: f64 = 0.02;
/// Pairs so many groups apart and more say by how much each group is off; so many of them are needed.
const REFINING_APART: i64 = 3;
const REFINING_MIN: usize = 5;
/// Of the zone is what lies within so much, in revolutions, of where its groups have it, or as many times the spread of the readings: little,
/// as what is before the zone may lie there by chance.
const OF_ZONE_WITHIN: f64 = 0.006;
const OF_ZONE_SPREADS: f64 = 3.0;

/// Where a search is.
#[derive(Clone, Debug)]
enum Stage {
    /// One sector of each track.
    Walk,
    /// Where a group begins: behind `on`, at `beyond` at the latest. `looks` answers said nothing.
    Halve {
        on: i64,
        beyond: i64,
        looks: i64,
    },
    /// One of a pair that is foretold; the angle of the other, if it is known.
    Foretell {
        first: Option<f64>,
    },
    /// Whether this group before the zone's beginning is of the zone.
    Begin {
        group: i64,
    },
    Done,
}

/// A track whose first sector is searched.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// As it was walked over.
    track: usize,
    /// Its group, counted from the first one that showed.
    group: usize,
    /// Whether it is the group's second one: where that begins says how long the first one is.
    is_second: bool,
}

/// What was found of a zone's groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    pub(crate) shape: Shape,
    /// Pairs that came as they foretold.
    pub(crate) foretold: u32,
    /// Those that came as tracks alone foretold.
    foretold_plainly: u32,
    /// Where the zone begins as far as it is known: a group's first sector.
    pub(crate) begins: i64,
    /// It does not begin before that.
    pub(crate) begins_after: i64,
}

impl Groups {
    /// Clearly better than none: three in four, and a quarter more than tracks alone foretell.
    fn is_true(&self) -> bool {
        4 * self.foretold >= 3 * FORETOLD && self.foretold >= self.foretold_plainly + FORETOLD / 4
    }
}

/// The search for groups in one zone.
#[derive(Clone, Debug)]
pub(crate) struct GroupSearch {
    /// The zone without groups.
    plain: Shape,
    /// The sector behind the zone's last one that is sure.
    end: i64,
    /// The zone does not begin before that.
    begins_after: i64,
    unit: i64,
    /// Within this readings are alike, in revolutions.
    tolerance: f64,
    /// Within this a sector is where the zone's groups have it.
    of_zone_within: f64,
    stage: Stage,
    /// Residuals of the next track.
    looks: Vec<f64>,
    /// Sectors and residuals, a track each.
    walked: Vec<(i64, f64)>,
    /// From one track to the next, as most have it.
    skew: f64,
    /// Beginnings that are still to be found, the last one first.
    to_find: Vec<Beginning>,
    /// Where those groups begin that were found, with their numbers.
    begun: Vec<(usize, i64)>,
    /// Sectors of groups' first tracks, which nothing is taken from.
    lengths: Vec<i64>,
    groups: Option<Groups>,
    /// What a group was off by in pairs far apart.
    off_each_group: Vec<f64>,
    /// Pairs asked for.
    pairs: u32,
}

impl GroupSearch {
    /// In the tracks of `zone`, up to `end`.
    pub(crate) fn new(zone: &Zone, sector_bytes: u64, end: u64, bounds: &Bounds) -> Self {
        let (first, per_track) = ((zone.first_byte / sector_bytes) as i64, zone.sectors_per_track);
        let is_long = per_track > 0 && (end as i64 - first) / per_track as i64 > TRACKS_MIN as i64;
        let within = (zone.begins_within_bytes / sector_bytes) as i64;
        Self {
            begins_after: first - within,
            plain: Shape::plain(first, per_track.max(1) as i64, zone.skew_turns),
            end: end as i64,
            unit: bounds.unit as i64,
            tolerance: bounds.jump(),
            of_zone_within: OF_ZONE_WITHIN.max(OF_ZONE_SPREADS * bounds.spread),
            stage: if is_long { Stage::Walk } else { Stage::Done },
            looks: Vec::new(),
            walked: Vec::new(),
            skew: zone.skew_turns,
            to_find: Vec::new(),
            begun: Vec::new(),
            lengths: Vec::new(),
            groups: None,
            off_each_group: Vec::new(),
            pairs: 0,
        }
    }

    /// How many pairs came as groups foretold, and how many as tracks alone did; `None` if there are no groups, true or not.
    pub(crate) fn foretold(&self) -> Option<(u32, u32)> {
        let groups = self.groups.filter(|_| self.pairs == FORETOLD)?;
        Some((groups.foretold, groups.foretold_plainly))
    }

    /// What was found, if it is true.
    pub(crate) fn found(&self) -> Option<Groups> {
        self.groups.filter(|groups| self.pairs == FORETOLD && groups.is_true())
    }

    fn aligned(&self, sector: i64) -> i64 {
        sector / self.unit * self.unit
    }

    /// In the middle of where the track would be without groups; elsewhere on it when it is looked at again.
    fn walk_sector(&self) -> i64 {
        let track = self.plain.first + self.walked.len() as i64 * self.plain.per_track;
        let aside = 5 * self.unit * self.looks.len() as i64;
        self.aligned(track + self.plain.per_track / 2) + aside % (self.plain.per_track / 4).max(1)
    }

    fn sector(&self) -> Option<i64> {
        match &self.stage {
            Stage::Walk => Some(self.aligned(self.walk_sector())),
            Stage::Halve { on, beyond, looks } => {
                let middle = self.aligned((on + beyond) / 2).max(on + self.unit);
                Some((middle + looks * self.unit).min(beyond - self.unit))
            }
            Stage::Foretell { first } => {
                let pair = self.pair();
                Some(if first.is_none() { pair.0 } else { pair.1 })
            }
            Stage::Begin { group } => {
                let sectors = self.groups.as_ref()?.shape.group_sectors;
                let share = if self.looks.is_empty() { sectors / 8 } else { 2 * sectors / 3 };
                Some(self.aligned(group + share))
            }
            Stage::Done => None,
        }
    }

    fn walk(&mut self, sector: i64, angle: f64) {
        let left = residual(sector, angle, self.plain.per_track);
        let is_near = |other: f64| signed(left - other).abs() < self.tolerance;
        let before = self.walked.last().map(|(_, before)| before + self.plain.skew);
        let is_sure = before.is_none_or(is_near) || self.looks.iter().copied().any(is_near);
        self.looks.push(left);
        if !is_sure && self.looks.len() < LOOKS_MAX {
            return;
        }
        // Where no two agree, the first is as good as any.
        let left = if is_sure { left } else { self.looks[0] };
        self.looks.clear();
        self.walked.push((sector, left));
        self.look_for_groups();
    }

    fn look_for_groups(&mut self) {
        let is_last = self.walked.len() as u64 >= TRACKS_MAX
            || self.walk_sector() + self.plain.per_track >= self.end;
        if self.walked.len() < TRACKS_ENOUGH && !is_last {
            return;
        }
        let residuals: Vec<f64> = self.walked.iter().map(|(_, left)| *left).collect();
        let (skew, steps) = staircase::group_steps(&residuals, self.tolerance).unwrap_or_default();
        let least = if is_last { BEGINNINGS_MIN } else { BEGINNINGS };
        if steps.len() >= least {
            self.skew = skew;
            self.find_beginnings(&steps);
            self.halve_next();
        } else if is_last {
            self.stage = Stage::Done;
        }
    }

    /// Of the first groups and the last, which says most exactly how long they are; and how long the first tracks of two are.
    fn find_beginnings(&mut self, steps: &[usize]) {
        let groups = steps.iter().copied().enumerate();
        let groups = groups.map(|(group, track)| Beginning { track, group, is_second: false });
        let (last, first) = (steps.len() - 1, BEGINNINGS - 1);
        let groups: Vec<Beginning> =
            groups.filter(|found| found.group < first || found.group == last).collect();
        let shows = signed(self.skew).abs() > self.tolerance;
        let second = |group: &Beginning| {
            let track = group.track + 1;
            let is_there = shows && track < self.walked.len() && !steps.contains(&track);
            is_there.then_some(Beginning { track, is_second: true, ..*group })
        };
        self.to_find = groups.iter().take(2).filter_map(second).collect();
        self.to_find.extend(groups);
    }

    /// The residuals on both sides of the beginning that is searched.
    fn sides(&self) -> Option<(f64, f64)> {
        let track = self.to_find.last()?.track;
        Some((self.walked[track - 1].1, self.walked[track].1))
    }

    fn halve_next(&mut self) {
        let Some(Beginning { track, .. }) = self.to_find.last() else { return self.fit() };
        let (on, beyond) = (self.walked[track - 1].0, self.walked[*track].0);
        self.stage = Stage::Halve { on, beyond, looks: 0 };
        self.is_halved();
    }

    /// Goes on to the next one if this one is known to the sector.
    fn is_halved(&mut self) {
        let Stage::Halve { on, beyond, .. } = self.stage else { return };
        if beyond - on <= self.unit {
            match self.to_find.pop() {
                Some(Beginning { group, is_second: false, .. }) => self.begun.push((group, beyond)),
                Some(Beginning { group, .. }) => {
                    let begun = self.begun.iter().find(|begun| begun.0 == group);
                    self.lengths.extend(begun.map(|begun| beyond - begun.1));
                }
                None => {}
            }
            self.halve_next();
        }
    }

    fn halve(&mut self, sector: i64, angle: f64) {
        let (Stage::Halve { on, beyond, looks }, Some((before, behind))) =
            (self.stage.clone(), self.sides())
        else {
            return;
        };
        let left = residual(sector, angle, self.plain.per_track);
        let off = |side: f64| signed(left - side).abs();
        // A short last track may lie between the two.
        let is_group = self.to_find.last().is_some_and(|found| !found.is_second);
        let short = if is_group { off(before + self.skew) } else { 1.0 };
        let (off_before, off_behind) = (off(before).min(short), off(behind));
        let is_clear = off_before.min(off_behind) < self.tolerance;
        let has_other = sector + self.unit < beyond;
        self.stage = if !is_clear && looks < 2 && has_other {
            Stage::Halve { on, beyond, looks: looks + 1 }
        } else if off_before < off_behind {
            Stage::Halve { on: sector, beyond, looks: 0 }
        } else {
            Stage::Halve { on, beyond: sector, looks: 0 }
        };
        self.is_halved();
    }

    fn fit(&mut self) {
        self.begun.sort_unstable();
        self.correct_tracks();
        let shape = staircase::group_sectors(&self.begun).and_then(|groups| {
            staircase::fit(&self.walked, groups, self.plain.per_track, self.tolerance)
        });
        let fits = |shape: &Shape| shape.group_tracks > 1 && shape.missing() < shape.per_track;
        self.groups = shape.filter(fits).map(|shape| self.beginning(shape));
        self.stage =
            if self.groups.is_some() { Stage::Foretell { first: None } } else { Stage::Done };
    }

    /// Tracks have as many sectors as two groups' first ones have: what was found of the zone before may be a track that was read late,
    /// or that a defect was slipped in.
    fn correct_tracks(&mut self) {
        let [one, other] = self.lengths[..] else { return };
        let before = self.plain.per_track;
        if one != other || one == before || one.abs_diff(before) > (before as u64 / 100).max(1) {
            return;
        }
        for (sector, left) in &mut self.walked {
            let angle = *left + (*sector % before) as f64 / before as f64;
            *left = residual(*sector, angle, one);
        }
        self.plain = Shape::plain(self.plain.first, one, self.plain.skew);
    }

    /// Until it is asked for, the zone begins with the first group behind what is known to be of it.
    fn beginning(&self, shape: Shape) -> Groups {
        let ahead = (shape.first - self.plain.first).rem_euclid(shape.group_sectors);
        let begins = self.plain.first + ahead;
        let begins_after = self.begins_after.min(begins);
        Groups { shape, foretold: 0, foretold_plainly: 0, begins, begins_after }
    }

    /// The groups' skew as pairs far apart have it: what one group is off by adds up.
    fn refine(&mut self) {
        let (off, Some(groups)) = (&mut self.off_each_group, &mut self.groups) else { return };
        if off.len() < REFINING_MIN {
            return;
        }
        off.sort_by(f64::total_cmp);
        let turned = groups.shape.group_skew + off[off.len() / 2];
        groups.shape.group_skew = turned.rem_euclid(1.0);
    }

    /// Asks about the group halfway to where the zone does not begin yet.
    fn begin_next(&mut self) {
        let most = self
            .found()
            .map_or(0, |groups| (groups.begins - groups.begins_after) / groups.shape.group_sectors);
        self.stage = match self.groups {
            Some(groups) if most > 0 => {
                let back = (most + 1) / 2 * groups.shape.group_sectors;
                Stage::Begin { group: groups.begins - back }
            }
            _ => Stage::Done,
        };
    }

    fn begin(&mut self, sector: i64, angle: f64) {
        let (Stage::Begin { group }, Some(groups)) = (self.stage.clone(), &mut self.groups) else {
            return;
        };
        let turned = staircase::turned(&self.walked, &groups.shape, self.tolerance);
        let off = signed(angle - turned - groups.shape.angle(sector)).abs();
        if off > self.of_zone_within {
            groups.begins_after = group + 1;
        } else if self.looks.is_empty() {
            // Its beginning is of the zone; what is behind that, too?
            self.looks.push(off);
            return;
        } else {
            groups.begins = group;
        }
        self.looks.clear();
        self.begin_next();
    }

    /// The pair that is asked for: as evenly over the zone, and as evenly near and far, as multiples of irrational numbers are.
    fn pair(&self) -> (i64, i64) {
        let share = |ratio: f64| (f64::from(self.pairs + 1) * ratio).fract();
        let group = self.groups.as_ref().map_or(0, |groups| groups.shape.group_sectors);
        let most = (GROUPS_APART * group).min((self.end - self.plain.first) / 2);
        let apart = (share(std::f64::consts::SQRT_2) * most as f64) as i64;
        let room = self.end - self.plain.first - apart - 2 * self.unit;
        let one = self.plain.first + (share(std::f64::consts::E) * room as f64) as i64;
        (self.aligned(one + self.unit), self.aligned(one + apart + self.unit))
    }

    fn foretell(&mut self, angle: f64) {
        let Stage::Foretell { first } = self.stage else { return };
        let Some(first) = first else {
            self.stage = Stage::Foretell { first: Some(angle) };
            return;
        };
        let (one, other) = self.pair();
        let off = |shape: &Shape| signed(angle - first - (shape.angle(other) - shape.angle(one)));
        if let Some(groups) = &mut self.groups {
            let off_groups = off(&groups.shape);
            let is_foretold = off_groups.abs() < FORETOLD_WITHIN;
            groups.foretold += u32::from(is_foretold);
            groups.foretold_plainly += u32::from(off(&self.plain).abs() < FORETOLD_WITHIN);
            let apart = groups.shape.place(other).0 - groups.shape.place(one).0;
            if is_foretold && apart >= REFINING_APART {
                self.off_each_group.push(off_groups / apart as f64);
            }
        }
        self.pairs += 1;
        self.stage = Stage::Foretell { first: None };
        if self.pairs == FORETOLD {
            self.refine();
            self.begin_next();
        }
    }
}

impl Ask for GroupSearch {
    fn ask(&self) -> Option<u64> {
        self.sector().and_then(|sector| u64::try_from(sector).ok())
    }

    fn answer(&mut self, angle: Option<f64>) {
        let (Some(sector), Some(angle)) = (self.sector(), angle) else {
            self.stage = Stage::Done;
            return;
        };
        match self.stage {
            Stage::Walk => self.walk(sector, angle),
            Stage::Halve { .. } => self.halve(sector, angle),
            Stage::Foretell { .. } => self.foretell(angle),
            Stage::Begin { .. } => self.begin(sector, angle),
            Stage::Done => {}
        }
    }
}
