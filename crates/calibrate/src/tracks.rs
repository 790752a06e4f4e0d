//! Where a track begins and how many sectors it has.
//!
//! Along a track the angle grows by the same amount from sector to sector. Where the next track begins it jumps, by as much as the
//! drive needs to get there. How much it grows is found by doubling the distance: as soon as two sectors are known well enough
//! to say in which revolution one lies that is twice as far, they say it twice as exactly. Then the jump is searched by halves,
//! which gives the beginning to the sector, whatever the growth is off by. A defect that was slipped moves what follows by one sector,
//! which is no jump; a sector that lies elsewhere, or a reading that is late, jumps alone: a jump needs three sectors.
//!
//! A search asks one question at a time and knows nothing of the drive, so that many go on at once, each in a place of its own:
//! until one is asked again the drive has forgotten what it read there.

use crate::clock::signed;
use crate::prober::Ask;

/// A jump is larger than this many times what readings are off by, and this at least, in revolutions.
const SPREADS: f64 = 5.0;
const JUMP_MIN: f64 = 0.012;
/// Longest distance between sectors in the search for growth, in revolutions.
const GROWTH_TURNS: f64 = 0.6;
/// A track that ends before so many jumps' worth of it are known is left for one behind it.
const KNOWN_JUMPS_MIN: f64 = 4.0;
/// Tracks tried so.
const ATTEMPTS: u32 = 5;
/// Steps over a track in the search for the one with the jump.
const STEPS: u64 = 8;
/// Physical sectors behind the one in question that say whether it is on the track: one of them that is on it is enough, and that
/// it is not takes all. The farthest comes first, as what follows a read may be read ahead, and then says nothing.
const LOOKS: [u64; 3] = [2, 0, 1];
/// A place so many physical sectors behind a track's beginning is on that track, and has not been read yet.
const BEHIND: u64 = 7;
/// What follows the growth may differ from what the sectors say: spares at a track's end.
const FILLED: std::ops::Range<f64> = 0.75..1.02;

/// One track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Track {
    /// Its first logical sector.
    pub(crate) first_sector: u64,
    /// How many it has.
    pub(crate) sectors: u64,
    /// By how much of a revolution it is turned against the one before.
    pub(crate) skew_turns: f64,
}

/// What a search must know of the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Logical sectors of a physical one.
    pub(crate) unit: u64,
    /// Logical sectors of the drive.
    pub(crate) sectors: u64,
    /// By how much readings are off, in revolutions.
    pub(crate) spread: f64,
}

impl Bounds {
    /// The limit beyond which a difference is a jump.
    pub(crate) fn jump(&self) -> f64 {
        (SPREADS * self.spread).max(JUMP_MIN)
    }
}

/// A place on a track from which others are judged.
#[derive(Clone, Copy, Debug)]
struct Base {
    sector: u64,
    angle: f64,
    /// Revolutions a sector.
    growth: f64,
    /// The farthest sector that is known to be on the track.
    known: u64,
}

impl Base {
    fn at(sector: u64, angle: f64, growth: f64) -> Self {
        Self { sector, angle, growth, known: sector }
    }

    /// How far `angle` of `sector` is from where it should be on this track.
    fn off(&self, sector: u64, angle: f64) -> f64 {
        signed(angle - self.angle - (sector - self.sector) as f64 * self.growth)
    }

    /// `sector` is on the track: the longer the way, the better is its growth known.
    fn note(&mut self, sector: u64, angle: f64) {
        if sector > self.known {
            self.growth += self.off(sector, angle) / (sector - self.sector) as f64;
            self.known = sector;
        }
    }

    fn known_turns(&self) -> f64 {
        (self.known - self.sector) as f64 * self.growth
    }
}

/// What is asked next, and what for.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The angle of the base.
    Start,
    /// That of a sector so far behind it.
    Grow {
        way: u64,
    },
    /// Whether this one is on the track: by as many of [`LOOKS`] as are needed.
    Judge {
        sector: u64,
        look: usize,
        beyond: Option<u64>,
        steps: u64,
    },
    /// Whether this one begins the track indeed: one reading alone could say so of the one before it.
    Confirm {
        first: u64,
    },
    /// The angle on the track that begins here.
    Begin {
        first: u64,
    },
    Done(Option<Track>),
}

/// The search for the first whole track behind a place.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    bounds: Bounds,
    base: Base,
    stage: Stage,
    attempts: u32,
    /// Where the track begins that is measured, and how far it is turned.
    begun: Option<(u64, f64)>,
}

impl Search {
    pub(crate) fn new(sector: u64, bounds: Bounds) -> Self {
        let sector = sector / bounds.unit * bounds.unit;
        Self {
            bounds,
            base: Base::at(sector, 0.0, 0.0),
            stage: Stage::Start,
            attempts: 0,
            begun: None,
        }
    }

    /// What was found; `None` if no track shows.
    pub(crate) fn found(&self) -> Option<Track> {
        if let Stage::Done(track) = self.stage { track } else { None }
    }

    fn grow(&mut self, sector: u64, way: u64, angle: f64) {
        let is_first = self.base.known == self.base.sector;
        let is_off = self.base.off(sector, angle).abs() > self.bounds.jump();
        if is_first || !is_off {
            self.base.note(sector, angle);
            if self.base.known_turns() < GROWTH_TURNS && self.base.growth > 0.0 {
                self.stage = Stage::Grow { way: 2 * way };
                return;
            }
        }
        let is_enough = self.base.known_turns() > KNOWN_JUMPS_MIN * self.bounds.jump();
        if self.base.growth > 0.0 && is_enough && !(is_first && is_off) {
            return self.step_from(self.base.known);
        }
        // A track ended too soon, or readings were late: somewhere behind it.
        self.attempts += 1;
        if self.attempts == ATTEMPTS {
            self.stage = Stage::Done(None);
            return;
        }
        let further = (8 * way + 37 * self.bounds.unit).next_multiple_of(self.bounds.unit);
        self.base.sector += further;
        self.stage = Stage::Start;
    }

    fn step(&self) -> u64 {
        let unit = self.bounds.unit;
        ((1.0 / self.base.growth) as u64 / STEPS).next_multiple_of(unit).max(unit)
    }

    fn step_from(&mut self, on: u64) {
        let sector = on + self.step();
        self.stage = Stage::Judge { sector, look: 0, beyond: None, steps: 0 };
    }

    fn judge(&mut self, asked: u64, angle: f64) {
        let Stage::Judge { sector, look, beyond, steps } = self.stage else { return };
        if self.base.off(asked, angle).abs() < self.bounds.jump() {
            self.base.note(asked, angle);
            return self.on_track(sector.max(self.base.known), beyond, steps);
        }
        if look + 1 < LOOKS.len() {
            self.stage = Stage::Judge { sector, look: look + 1, beyond, steps };
            return;
        }
        self.between(self.base.known, sector);
    }

    /// The track goes on up to `on` at least.
    fn on_track(&mut self, on: u64, beyond: Option<u64>, steps: u64) {
        match beyond {
            Some(beyond) => self.between(on.min(beyond - self.bounds.unit), beyond),
            None if steps > STEPS => self.stage = Stage::Done(None),
            None => {
                let sector = on + self.step();
                self.stage = Stage::Judge { sector, look: 0, beyond, steps: steps + 1 };
            }
        }
    }

    /// The next track begins behind `on`, and at `beyond` at the latest.
    fn between(&mut self, on: u64, beyond: u64) {
        let unit = self.bounds.unit;
        if beyond - on <= unit {
            self.stage = Stage::Confirm { first: beyond };
            return;
        }
        let sector = on.midpoint(beyond) / unit * unit;
        let sector = sector.max(on + unit);
        self.stage = Stage::Judge { sector, look: 0, beyond: Some(beyond), steps: 0 };
    }

    fn confirm(&mut self, first: u64, angle: f64) {
        if self.base.off(first, angle).abs() >= self.bounds.jump() {
            self.stage = Stage::Begin { first };
            return;
        }
        self.base.note(first, angle);
        let farthest = LOOKS.iter().max().copied().unwrap_or(0);
        self.between(first, first + (farthest + 1) * self.bounds.unit);
    }

    fn begin(&mut self, first: u64, asked: u64, angle: f64) {
        let skew = self.base.off(asked, angle).rem_euclid(1.0);
        match self.begun {
            None => {
                self.begun = Some((first, skew));
                self.base = Base::at(asked, angle, self.base.growth);
                self.step_from(asked);
            }
            Some((first_sector, skew_turns)) => {
                let sectors = first - first_sector;
                let is_likely = FILLED.contains(&(sectors as f64 * self.base.growth));
                let track = Track { first_sector, sectors, skew_turns };
                self.stage = Stage::Done(is_likely.then_some(track));
            }
        }
    }
}

impl Ask for Search {
    fn ask(&self) -> Option<u64> {
        let unit = self.bounds.unit;
        let sector = match self.stage {
            Stage::Start => self.base.sector,
            Stage::Grow { way } => self.base.sector + way,
            Stage::Judge { sector, look, .. } => sector + LOOKS[look] * unit,
            Stage::Confirm { first } => first,
            Stage::Begin { first } => first + BEHIND * unit,
            Stage::Done(_) => return None,
        };
        (sector + unit <= self.bounds.sectors).then_some(sector)
    }

    fn answer(&mut self, angle: Option<f64>) {
        let (Some(sector), Some(angle)) = (self.ask(), angle) else {
            self.stage = Stage::Done(None);
            return;
        };
        match self.stage {
            Stage::Start => {
                self.base = Base::at(sector, angle, 0.0);
                self.stage = Stage::Grow { way: 4 * self.bounds.unit };
            }
            Stage::Grow { way } => self.grow(sector, way, angle),
            Stage::Judge { .. } => self.judge(sector, angle),
            Stage::Confirm { first } => self.confirm(first, angle),
            Stage::Begin { first } => self.begin(first, sector, angle),
            Stage::Done(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive of tracks of these lengths, each turned by an eighth of a revolution.
    fn angle(lengths: &[u64], sector: u64, slipped: Option<u64>) -> f64 {
        let (mut first, mut turned) = (0, 0.0);
        for length in lengths {
            if sector < first + length {
                let slip = u64::from(slipped.is_some_and(|slipped| sector >= slipped));
                return (turned + (sector - first + slip) as f64 / *length as f64).rem_euclid(1.0);
            }
            first += length;
            turned += 0.125;
        }
        0.0
    }

    fn run(lengths: &[u64], start: u64, answer: impl Fn(u64) -> f64) -> (Option<Track>, u64) {
        let bounds = Bounds { unit: 1, sectors: lengths.iter().sum(), spread: 0.001 };
        let mut search = Search::new(start, bounds);
        let mut asked = 0;
        while let Some(sector) = search.ask() {
            asked += 1;
            assert!(asked < 500, "{search:?}");
            search.answer(Some(answer(sector)));
        }
        (search.found(), asked)
    }

    #[test]
    fn the_next_whole_track_is_found_from_any_sector() {
        let lengths = [700_u64; 12];
        for start in (0..2800).step_by(13) {
            let (found, asked) = run(&lengths, start, |sector| angle(&lengths, sector, None));
            let track = found.unwrap_or_else(|| panic!("from {start}, {asked} questions"));
            assert_eq!((track.first_sector % 700, track.sectors), (0, 700), "from {start}");
            assert!((track.skew_turns - 0.125).abs() < 0.002 && asked < 90, "{track:?}, {asked}");
        }
    }

    #[test]
    fn a_sector_that_lies_elsewhere_and_one_late_answer_are_no_end_of_a_track() {
        let lengths = [700_u64; 12];
        for elsewhere in 700..1400 {
            let answer = |sector| {
                let there = angle(&lengths, sector, None);
                if sector == elsewhere { there + 0.4 } else { there }
            };
            let (found, _) = run(&lengths, 100, answer);
            // It may be taken for the end of its track where that is two sectors away at most.
            assert!(
                found.is_none_or(|track| track.sectors.abs_diff(700) <= 2),
                "{elsewhere} {found:?}"
            );
        }
    }

    #[test]
    fn a_slipped_sector_does_not_end_a_track() {
        let lengths = [700_u64; 12];
        let (found, _) = run(&lengths, 100, |sector| angle(&lengths, sector, Some(950)));
        assert_eq!(found.map(|track| track.sectors), Some(700));
    }
}
