//! Zones: from places all over the drive, and between any two that differ by halves.
//!
//! A track with spares or a slipped defect is shorter than the others of its zone: a place that differs from the one before is asked
//! three times, and the longest counts. A zone so narrow that no place falls into it, and on both sides of which tracks are alike, is not found.

use crate::drive::DriveError;
use crate::findings::{Progress, Zone};
use crate::prober::{Ask, Prober};
use crate::tracks::{Search, Track};

/// Places that are looked at first.
const PLACES: u64 = 40;
/// Most places between two that differ, in one round.
const PARTS_MAX: u64 = 7;
/// Where a zone begins is found to this share of the drive.
const RESOLUTION: u64 = 512;
/// Tracks asked for at a place that differs from the one before.
const TRACKS: usize = 3;
/// Searches at a place before it is given up.
const SEARCHES_MAX: u32 = 5;
/// Rounds of searches, each in all places that need one.
const ROUNDS_MAX: u64 = 60;
/// So few searches are not left for the next round.
const FEW: usize = 8;

/// What was measured around one place.
#[derive(Clone, Debug)]
struct Place {
    sector: u64,
    tracks: Vec<Track>,
    /// Searches begun here.
    searches: u32,
    /// The one that goes on.
    search: Option<Search>,
}

impl Place {
    fn new(sector: u64) -> Self {
        Self { sector, tracks: Vec::new(), searches: 0, search: None }
    }

    /// The length of a track here that nothing was taken from. Spares and slipped defects make some shorter; a reading that was
    /// late may make one longer by a sector, so of the longest and those a sector shorter the more frequent counts.
    fn sectors_per_track(&self) -> Option<u64> {
        let longest = self.tracks.iter().map(|track| track.sectors).max()?;
        let count =
            |sectors: u64| self.tracks.iter().filter(|track| track.sectors == sectors).count();
        Some(if count(longest - 1) > count(longest) { longest - 1 } else { longest })
    }

    /// Where the first track of that length begins.
    fn first_sector(&self) -> u64 {
        let length = self.sectors_per_track();
        let whole = self.tracks.iter().find(|track| Some(track.sectors) == length);
        whole.map_or(self.sector, |track| track.first_sector)
    }

    /// Where to look next.
    fn next_sector(&self) -> u64 {
        let behind = self.tracks.last().map(|track| track.first_sector + track.sectors);
        // Where the drive does not answer exactly it may a little farther on.
        behind.unwrap_or(self.sector) + u64::from(self.searches) * 1013
    }

    fn is_asked_again(&self, is_alike: bool) -> bool {
        let tracks = if is_alike { 1 } else { TRACKS };
        self.tracks.len() < tracks && self.searches < SEARCHES_MAX
    }
}

/// All zones that show.
pub(crate) fn find(
    prober: &mut Prober<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Zone>, DriveError> {
    let all = prober.sectors();
    // Not the very last sectors: no whole track follows.
    let count = PLACES.max(prober.forgets_after().min(2 * PLACES));
    let first = (0..count).map(|index| (all / count * index).min(all - all / 256));
    let mut places: Vec<Place> = first.map(Place::new).collect();
    for _ in 0..ROUNDS_MAX {
        progress(Progress { of: "zones", done_pct: (5 + prober.spent_pct() * 9 / 10) as u8 });
        if prober.is_over() || !ask_all(prober, &mut places)? {
            break;
        }
        places.retain(|place| {
            let goes_on = place.search.is_some() || place.searches < SEARCHES_MAX;
            goes_on || !place.tracks.is_empty()
        });
        halve(prober, &mut places);
    }
    places.retain(|place| !place.tracks.is_empty());
    // Of places close to each other the first track of that length may lie behind the next place's.
    places.sort_by_key(Place::first_sector);
    Ok(zones_of(prober, &places))
}

/// Searches in all places that need one, side by side; whether there were any. The last few go on in the next round, together
/// with those that are new then: by themselves they would have to wait for the drive to forget.
fn ask_all(prober: &mut Prober<'_>, places: &mut [Place]) -> Result<bool, DriveError> {
    let lengths: Vec<Option<u64>> = places.iter().map(Place::sectors_per_track).collect();
    for (index, place) in places.iter_mut().enumerate() {
        let before = index.checked_sub(1).and_then(|before| lengths[before]);
        let is_alike = lengths[index].is_some() && lengths[index] == before;
        if place.search.is_none() && place.is_asked_again(is_alike) {
            place.search = Some(Search::new(place.next_sector(), prober.bounds()));
            place.searches += 1;
        }
    }
    let mut searches: Vec<&mut Search> =
        places.iter_mut().filter_map(|place| place.search.as_mut()).collect();
    if searches.is_empty() {
        return Ok(false);
    }
    let few = if searches.len() < FEW { 0 } else { searches.len() / 4 };
    prober.run(&mut searches, few)?;
    for place in places.iter_mut() {
        if place.search.as_ref().is_some_and(|search| search.ask().is_none()) {
            place.tracks.extend(place.search.take().and_then(|search| search.found()));
        }
    }
    Ok(true)
}

/// Adds places between any two neighbours that differ and are not close yet: as many in all as there is time for while the drive
/// forgets, one in the middle at least.
fn halve(prober: &Prober<'_>, places: &mut Vec<Place>) {
    let differ = |pair: &&[Place]| match (pair[0].sectors_per_track(), pair[1].sectors_per_track())
    {
        (Some(before), Some(after)) => before != after,
        _ => false,
    };
    let sectors = |pair: &&[Place]| pair[1].sector - pair[0].sector;
    let resolution = prober.sectors() / RESOLUTION;
    let gaps: Vec<(u64, u64)> = places
        .windows(2)
        .filter(differ)
        .filter(|pair| sectors(pair) > resolution)
        .map(|pair| (pair[0].sector, sectors(&pair)))
        .collect();
    let for_each = prober.forgets_after() / gaps.len().max(1) as u64;
    for (start, sectors) in gaps {
        let parts = (for_each.clamp(1, PARTS_MAX) + 1).min(sectors.div_ceil(resolution).max(2));
        places.extend((1..parts).map(|part| Place::new(start + sectors / parts * part)));
    }
    places.sort_by_key(|place| place.sector);
}

/// Places that follow each other and are alike are a zone.
fn zones_of(prober: &Prober<'_>, places: &[Place]) -> Vec<Zone> {
    let bytes = prober.sector_bytes();
    let mut zones: Vec<Zone> = Vec::new();
    let mut last_sector = 0;
    for alike in places.chunk_by(|one, next| one.sectors_per_track() == next.sectors_per_track()) {
        let (first, last) = (&alike[0], &alike[alike.len() - 1]);
        // Whatever is before the first track that was found is of the first zone.
        let first_sector = if zones.is_empty() { 0 } else { first.first_sector() };
        let tracks: Vec<&Track> = alike.iter().flat_map(|place| &place.tracks).collect();
        let sectors_per_track = first.sectors_per_track().unwrap_or(0);
        let mut skews: Vec<f64> = tracks.iter().map(|track| track.skew_turns).collect();
        skews.sort_by(f64::total_cmp);
        zones.push(Zone {
            first_byte: first_sector * bytes,
            begins_within_bytes: (first_sector - last_sector) * bytes,
            sectors_per_track,
            skew_turns: skews[skews.len() / 2],
            tracks_probed: tracks.len() as u32,
            tracks_alike: tracks.iter().filter(|track| track.sectors == sectors_per_track).count()
                as u32,
            group_tracks: 0,
            group_missing_sectors: 0,
            group_skew_turns: 0.0,
            foretold: 0,
            foretold_of: 0,
        });
        last_sector = last.first_sector();
    }
    zones
}
