//! One question after the other to the drive: at what angle does a sector lie?
//!
//! A read tells it only if the drive fetches the sector from the medium. So between two questions about one place there are
//! reads elsewhere, until the drive has forgotten it: those of other searches, if there are as many. A read that comes back sooner than
//! any arm could is known as one from memory and asked again. In between the reference is read, so that the clock never drifts.

use crate::clock::{Clock, quantile};
use crate::drive::{Drive, DriveError, Facts, Timed};
use crate::findings::Turning;
use crate::period;
use crate::tracks::Bounds;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use std::collections::VecDeque;

/// Passes of the reference from which the period is found.
const PASSES_FIRST: usize = 48;
/// Most passes that are kept; every second one goes when there are more.
const PASSES_MAX: usize = 1024;
/// The reference is read at least this often.
const PASS_EVERY: Nanos = Nanos::from_secs(3);
/// Reads far away before a sector that the drive remembers is given up: drives remember fewer places.
const AWAY_MAX: u64 = 160;
/// By so many more when they were too few.
const FORGETS_STEP: u64 = 4;
/// Reads that are remembered: more than a drive does.
const RECENT_MAX: usize = 256;
/// A drive that reads on behind what was asked reads no farther.
const NEAR_SECTORS: u64 = 8192;
/// Reads in pairs from which it is known how soon the drive answers from memory.
const PAIRS: u64 = 6;
/// A device of fewer sectors has nothing to find out.
const SECTORS_MIN: u64 = 1 << 15;

/// Something that is found out by asking for one sector's angle after the other.
pub(crate) trait Ask {
    /// The sector that is asked for next, where a physical one begins; `None` at the end.
    fn ask(&self) -> Option<u64>;

    /// The answer; `None` if there is none.
    fn answer(&mut self, angle: Option<f64>);
}

/// The drive, and the clock that it is.
pub(crate) struct Prober<'a> {
    drive: &'a mut dyn Drive,
    facts: Facts,
    random: SplitMix,
    began_at: Nanos,
    ends_at: Nanos,
    clock: Option<Clock>,
    /// Read again and again.
    reference: u64,
    passes_ns: Vec<f64>,
    passed_at: Nanos,
    /// What comes back within this came from memory.
    hit_max: Nanos,
    /// Times of reads with a far way.
    far: Vec<Nanos>,
    reads: u64,
    /// Places that were read, and the number of the read.
    recent: VecDeque<(u64, u64)>,
    /// After so many other reads the drive has forgotten one.
    forgets_after: u64,
}

impl<'a> Prober<'a> {
    pub(crate) fn new(
        drive: &'a mut dyn Drive,
        random: SplitMix,
        time_max: Nanos,
    ) -> Result<Self, DriveError> {
        let (facts, began_at) = (drive.facts(), drive.now());
        let problem = |problem| Err(DriveError { problem });
        if facts.sector_bytes == 0
            || !facts.physical_sector_bytes.is_multiple_of(facts.sector_bytes)
        {
            let Facts { sector_bytes, physical_sector_bytes, .. } = facts;
            return problem(format!(
                "expected physical sectors of whole logical ones, found {physical_sector_bytes} and {sector_bytes} bytes"
            ));
        }
        let sectors = facts.capacity_bytes / u64::from(facts.sector_bytes);
        if sectors < SECTORS_MIN {
            return problem(format!(
                "expected at least {SECTORS_MIN} sectors to find anything out of, found {sectors}"
            ));
        }
        let mut prober = Self {
            drive,
            facts,
            random,
            began_at,
            ends_at: began_at + time_max,
            clock: None,
            reference: 0,
            passes_ns: Vec::new(),
            passed_at: Nanos::ZERO,
            hit_max: Nanos::ZERO,
            far: Vec::new(),
            reads: 0,
            recent: VecDeque::new(),
            forgets_after: 1,
        };
        prober.reference = prober.aligned(sectors / 3);
        Ok(prober)
    }

    /// Logical sectors of one physical sector.
    pub(crate) fn unit(&self) -> u64 {
        u64::from(self.facts.physical_sector_bytes / self.facts.sector_bytes)
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.facts.capacity_bytes / u64::from(self.facts.sector_bytes)
    }

    pub(crate) fn sector_bytes(&self) -> u64 {
        u64::from(self.facts.sector_bytes)
    }

    /// `sector`, or the one before it where a physical one begins.
    pub(crate) fn aligned(&self, sector: u64) -> u64 {
        sector / self.unit() * self.unit()
    }

    pub(crate) fn now(&self) -> Nanos {
        self.drive.now()
    }

    /// Whether the time is up.
    pub(crate) fn is_over(&self) -> bool {
        self.now() >= self.ends_at
    }

    /// How much of the time is spent, in percent.
    pub(crate) fn spent_pct(&self) -> u64 {
        let all = self.ends_at.since(self.began_at).0.max(1);
        (self.now().since(self.began_at).0.saturating_mul(100) / all).min(100)
    }

    /// After how many other reads the drive has forgotten one, as far as it is known by now.
    pub(crate) fn forgets_after(&self) -> u64 {
        self.forgets_after
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// What is known of the spindle.
    pub(crate) fn turning(&self) -> Result<Turning, DriveError> {
        let clock = self.clock.ok_or_else(|| DriveError {
            problem: "internal: the period was never found".to_owned(),
        })?;
        Ok(Turning {
            period_ns: clock.period_ns,
            doubt_ppm: clock.doubt * 1e6,
            spread_us: clock.spread * clock.period_ns / 1e3,
        })
    }

    fn read(&mut self, sector: u64) -> Result<Timed, DriveError> {
        self.reads += 1;
        self.recent.push_back((sector, self.reads));
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
        self.drive.read(sector * self.sector_bytes(), self.facts.physical_sector_bytes)
    }

    /// Writes one physical sector.
    pub(crate) fn write(&mut self, sector: u64) -> Result<Timed, DriveError> {
        self.drive.write(sector * self.sector_bytes(), self.facts.physical_sector_bytes)
    }

    /// Reads somewhere far from `sector`.
    fn go_away(&mut self, sector: u64) -> Result<(), DriveError> {
        let all = self.sectors();
        let way = all / 6 + self.random.below(all * 2 / 3);
        let place = self.aligned((sector + way) % all);
        let timed = self.read(place.min(all - self.unit()))?;
        if self.far.len() < PASSES_FIRST {
            self.far.push(timed.took());
        }
        Ok(())
    }

    /// Reads `sector` from the medium; `None` if the drive answers from memory whatever is read in between.
    fn fetch(&mut self, sector: u64) -> Result<Option<Timed>, DriveError> {
        let mut away = self.away_before(sector);
        loop {
            for _ in 0..away {
                self.go_away(sector)?;
            }
            let timed = self.read(sector)?;
            if timed.took() > self.hit_max {
                return Ok(Some(timed));
            }
            // Who is asked for something anew remembers it anew: only enough in one go makes it forget.
            if away >= self.forgets_after {
                self.forgets_after = away + FORGETS_STEP;
            }
            away = self.forgets_after;
            if away > AWAY_MAX {
                return Ok(None);
            }
        }
    }

    /// How much to read elsewhere until the drive has forgotten `sector`, as far as it is known by now.
    fn away_before(&self, sector: u64) -> u64 {
        let near = |(read, _): &&(u64, u64)| sector.abs_diff(*read) < NEAR_SECTORS;
        let read_at = self.recent.iter().rev().find(near);
        let since = read_at.map_or(u64::MAX, |(_, at)| self.reads - at);
        self.forgets_after.saturating_sub(since)
    }

    /// How soon the drive answers what it remembers, if it remembers anything.
    fn learn_hits(&mut self) -> Result<(), DriveError> {
        let mut again = Vec::new();
        for pair in 0..PAIRS {
            let sector = self.aligned(self.sectors() / 8 * (1 + pair));
            self.go_away(sector)?;
            self.read(sector)?;
            // At once, for drives that remember one place, and after another, for those that go on reading for a while.
            again.push(self.read(sector)?.took());
            self.go_away(sector)?;
            again.push(self.read(sector)?.took());
        }
        again.sort_unstable();
        let hit = again[again.len() / 4];
        // Not the quickest: that may have come from memory, too.
        self.far.sort_unstable();
        let far = self.far.get(self.far.len() / 4).copied().unwrap_or(hit);
        if 2 * hit.0 <= far.0 {
            // No arm gets anywhere else and waits for a sector in less than the third of a millisecond more.
            self.hit_max = Nanos(hit.0 + hit.0 / 2 + 300_000);
        }
        Ok(())
    }

    /// Finds the period; why there is none, for people, if there is none.
    pub(crate) fn find_period(&mut self) -> Result<Option<String>, DriveError> {
        for _ in 0..8 {
            self.go_away(self.reference)?;
        }
        self.learn_hits()?;
        while self.passes_ns.len() < PASSES_FIRST {
            if self.is_over() {
                let (read, most) = (self.passes_ns.len(), self.ends_at.since(self.began_at));
                return Err(DriveError {
                    problem: format!(
                        "expected {PASSES_FIRST} reads of one sector in the time that there is, {most}, found {read}; allow more time"
                    ),
                });
            }
            // Not evenly, or other periods fit nearly as well.
            for _ in 0..self.random.below(6) {
                self.go_away(self.reference)?;
            }
            let Some(timed) = self.fetch(self.reference)? else {
                return Ok(Some(format!(
                    "a sector comes from memory whatever is read in between ({AWAY_MAX} other places): what the drive does cannot be seen"
                )));
            };
            self.note_pass(timed);
        }
        self.clock = period::find(&self.passes_ns);
        Ok(self.clock.is_none().then(|| self.no_period()))
    }

    fn no_period(&self) -> String {
        let mut far: Vec<f64> = self.far.iter().map(|took| took.0 as f64 / 1e3).collect();
        far.sort_by(f64::total_cmp);
        format!(
            "reads of one sector do not end a whole number of revolutions apart, whatever a revolution be: nothing turns here, or \
             something in between hides it (a read far away takes {:.0} us in the middle)",
            quantile(&far, 0.5)
        )
    }

    fn note_pass(&mut self, timed: Timed) {
        self.passed_at = timed.ended_at;
        self.passes_ns.push(timed.ended_at.0 as f64);
        if self.passes_ns.len() > PASSES_MAX {
            let mut index = 0;
            self.passes_ns.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// Sets the clock, if that is due.
    fn keep_time(&mut self) -> Result<(), DriveError> {
        if self.now().since(self.passed_at) < PASS_EVERY {
            return Ok(());
        }
        if let Some(timed) = self.fetch(self.reference)? {
            self.note_pass(timed);
        }
        self.passed_at = self.now();
        self.clock = self.clock.map(|clock| clock.refined(&self.passes_ns));
        Ok(())
    }

    /// At what angle `sector` has passed; `None` if the drive does not fetch it, or is no clock.
    fn angle(&mut self, sector: u64) -> Result<Option<f64>, DriveError> {
        self.keep_time()?;
        let Some(timed) = self.fetch(sector)? else { return Ok(None) };
        Ok(self.clock.map(|clock| clock.angle(timed.ended_at.0 as f64)))
    }

    /// What searches for tracks must know.
    pub(crate) fn bounds(&self) -> Bounds {
        let spread = self.clock.map_or(1.0, |clock| clock.spread);
        Bounds { unit: self.unit(), sectors: self.sectors(), spread }
    }

    /// Answers all these searches in turn, so that each gives the drive time to forget what it read for it, until no more than
    /// `few` of them go on.
    pub(crate) fn run<A: Ask>(
        &mut self,
        searches: &mut [&mut A],
        few: usize,
    ) -> Result<(), DriveError> {
        loop {
            let mut going_on = 0;
            for search in searches.iter_mut() {
                if self.is_over() {
                    return Ok(());
                }
                if let Some(sector) = search.ask() {
                    let angle = self.angle(sector)?;
                    search.answer(angle);
                    going_on += 1;
                }
            }
            if going_on <= few {
                return Ok(());
            }
        }
    }
}
