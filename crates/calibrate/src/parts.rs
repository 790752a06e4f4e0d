//! Groups in every zone, and in parts of those where they do not go on as they began.
//!
//! Where defects were slipped, or spares lie between, what follows begins elsewhere than the groups before would have it: tracks are alike, so
//! zones do not show it. A zone of which groups foretell too little is searched again by halves, each of them with groups of its own, as
//! long as there is time. A half without any goes with what is before it.

use crate::drive::DriveError;
use crate::findings::{Progress, Zone};
use crate::groups::{FORETOLD, GroupSearch, Groups};
use crate::prober::Prober;

/// So many of [`FORETOLD`] pairs are enough: others may lie across a slipped defect.
const FORETOLD_WELL: u32 = 18;
/// So few, or no more than tracks alone foretell, say that it is no such drive, also in its parts.
const FORETOLD_BADLY: u32 = 4;
/// Times that a part is halved again.
const ROUNDS_MAX: u32 = 6;
/// Most parts of all zones: a volume keeps 126.
const PARTS_MAX: usize = 96;
/// A part of fewer tracks is not halved.
const TRACKS_MIN: u64 = 256;

/// A zone, or a part of one.
struct Part {
    zone: Zone,
    /// The sector behind its last one.
    end: u64,
    search: GroupSearch,
    /// What the search found of which this is the first half.
    before: Option<Groups>,
    /// Whether it is a zone's beginning.
    is_first: bool,
}

impl Part {
    fn new(prober: &Prober<'_>, zone: Zone, end: u64) -> Self {
        let search = GroupSearch::new(&zone, prober.sector_bytes(), end, &prober.bounds());
        Self { zone, end, search, before: None, is_first: true }
    }

    fn groups(&self) -> Option<Groups> {
        self.search.found().or(self.before)
    }

    /// Both halves, if groups were found that foretell too little of it.
    fn halved(self, prober: &Prober<'_>) -> Vec<Self> {
        let bytes = prober.sector_bytes();
        let first = self.zone.first_byte / bytes;
        let tracks = (self.end - first) / self.zone.sectors_per_track.max(1);
        let is_enough = |(foretold, plainly): (u32, u32)| {
            foretold >= FORETOLD_WELL || foretold <= plainly.max(FORETOLD_BADLY)
        };
        let is_enough = self.search.foretold().is_none_or(is_enough);
        if is_enough || tracks < TRACKS_MIN {
            return vec![self];
        }
        let middle = prober.aligned(first.midpoint(self.end));
        let begins = (middle * bytes, (middle - first) * bytes);
        let behind = Zone { first_byte: begins.0, begins_within_bytes: begins.1, ..self.zone };
        let front = Self {
            before: self.groups(),
            is_first: self.is_first,
            ..Self::new(prober, self.zone, middle)
        };
        vec![front, Self { is_first: false, ..Self::new(prober, behind, self.end) }]
    }

    /// As a zone, or two: the first zone begins where the drive does, and what is before its first group is one of its own.
    fn zones(self, bytes: u64) -> Vec<Zone> {
        let zone = self.zone;
        let Some(groups) = self.groups().filter(|groups| groups.begins < self.end as i64) else {
            return if self.is_first { vec![zone] } else { Vec::new() };
        };
        let shape = &groups.shape;
        let grouped = Zone {
            first_byte: groups.begins as u64 * bytes,
            begins_within_bytes: (groups.begins - groups.begins_after) as u64 * bytes,
            sectors_per_track: shape.per_track as u64,
            skew_turns: shape.skew,
            group_tracks: shape.group_tracks as u32,
            group_missing_sectors: shape.missing() as u64,
            group_skew_turns: shape.group_skew,
            foretold: groups.foretold,
            foretold_of: FORETOLD,
            ..zone
        };
        let has_rest = zone.first_byte == 0 && groups.begins > 0;
        if has_rest { vec![zone, grouped] } else { vec![grouped] }
    }
}

/// Adds to `zones` what their groups are, where those show in the time that is left.
pub(crate) fn find(
    prober: &mut Prober<'_>,
    zones: Vec<Zone>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Zone>, DriveError> {
    let bytes = prober.sector_bytes();
    let ends = zones.iter().skip(1).map(|next| next.first_byte - next.begins_within_bytes);
    let ends: Vec<u64> = ends.map(|end| end / bytes).chain([prober.sectors()]).collect();
    let zones = zones.into_iter().zip(ends);
    let mut parts: Vec<Part> = zones.map(|(zone, end)| Part::new(prober, zone, end)).collect();
    for _ in 0..ROUNDS_MAX {
        let done_pct = (5 + prober.spent_pct() * 9 / 10) as u8;
        progress(Progress { of: "groups of tracks", done_pct });
        let mut searches: Vec<_> = parts.iter_mut().map(|part| &mut part.search).collect();
        prober.run(&mut searches, 0)?;
        let count = parts.len();
        if prober.is_over() || 2 * count > PARTS_MAX {
            break;
        }
        parts = parts.into_iter().flat_map(|part| part.halved(prober)).collect();
        if parts.len() == count {
            break;
        }
    }
    Ok(in_order(parts.into_iter().flat_map(|part| part.zones(bytes))))
}

/// Without those that one behind them turned out to begin before: the groups of that reach as far.
fn in_order(zones: impl Iterator<Item = Zone>) -> Vec<Zone> {
    let mut ordered: Vec<Zone> = Vec::new();
    for zone in zones {
        while ordered.last().is_some_and(|last| last.first_byte >= zone.first_byte) {
            ordered.pop();
        }
        ordered.push(zone);
    }
    ordered
}
