//! Reading a band, changing it, and writing it again.
//!
//! A band cannot be changed in its middle: writing a track destroys the next ones. So it is read,
//! the changed band is written to a scratch band (or a power cut half-way would lose what was
//! there), and then the band itself is written from its beginning. That is three transfers of
//! 15-40 MB and the seeks between them: the 0.6-1.6 s that Skylight (FAST 2015) measured. The work
//! is given to the drive in pieces, so that commands of the host get in between.

use super::writes::Route;
use super::{Purpose, SmrModel};
use nearhead_disk::{Class, Nanos};
use std::collections::VecDeque;
use std::ops::Range;

/// Sectors of a band that are one command for the moving parts: 1 MiB.
const STEP_SECTORS: u64 = 2048;

/// Such commands that the drive has at once: enough to stream, few enough to stop soon.
const STEPS_MAX: usize = 3;

/// What is being done, in this order. What of a step is shared is written after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Reading what the persistent cache has of the band.
    Gather,
    /// Reading the band.
    Read,
    /// Keeping the changed band elsewhere.
    Keep,
    /// Writing the band.
    Write,
}

/// The band that is being rewritten.
#[derive(Debug)]
pub(super) struct Job {
    band: Range<u64>,
    phase: Phase,
    /// The drive's sectors that this phase has still to go over.
    steps: VecDeque<Range<u64>>,
    /// Commands of the drive that it waits for.
    left: usize,
    /// What the cache took later than this is not part of it.
    version: u64,
    forced: bool,
    started_at: Nanos,
}

impl SmrModel {
    /// When the drive begins to clean by itself, if the host stays away.
    pub(super) fn idle_at(&self) -> Option<Nanos> {
        let host_is_away = self.desk.outstanding() == 0 && self.pieces.is_empty();
        let dirty = self.is_drive_managed() && !self.cache.is_empty();
        let at_rest = self.job.as_ref().is_none_or(|job| job.left == 0);
        let idle = Nanos::from_millis_f64(self.profile.shingled.idle_ms);
        (host_is_away && dirty && at_rest).then(|| (self.last_activity + idle).max(self.time))
    }

    fn is_idle(&self) -> bool {
        self.idle_at().is_some_and(|at| at <= self.time)
    }

    /// Begins or goes on with the rewriting of a band, where there is reason to.
    pub(super) fn work_on_bands(&mut self) {
        loop {
            if self.job.is_none() && !self.begin_job() {
                return;
            }
            let idle = self.is_idle();
            let starved = self.starved;
            let managed = self.is_drive_managed();
            let Some(job) = &mut self.job else { return };
            job.forced |= starved;
            if managed && !starved && !idle && job.left == 0 {
                // The host is back; the band waits.
                return;
            }
            let may_go_on = !managed || starved || self.desk.outstanding() == 0;
            if !self.take_steps(may_go_on) {
                return;
            }
            // Room that was made is used before more is.
            self.append();
        }
    }

    /// Gives the drive the next steps; whether the band is done.
    fn take_steps(&mut self, may_go_on: bool) -> bool {
        while let Some(job) = &mut self.job {
            if may_go_on && job.left < STEPS_MAX && !job.steps.is_empty() {
                let Some(range) = job.steps.pop_front() else { return false };
                let reads = matches!(job.phase, Phase::Gather | Phase::Read);
                let commands = if reads {
                    self.read_parts(range, Class::Background, Purpose::Band)
                } else {
                    self.write_parts(range, Class::Background, Purpose::Band)
                };
                if let Some(job) = &mut self.job {
                    job.left += commands;
                }
            } else if job.left == 0 && job.steps.is_empty() {
                if job.phase == Phase::Write {
                    self.end_job();
                    return true;
                }
                self.next_phase();
            } else {
                return false;
            }
        }
        false
    }

    fn begin_job(&mut self) -> bool {
        let forced = self.starved || !self.is_drive_managed();
        let band = if self.is_drive_managed() {
            if !forced && !self.is_idle() {
                return false;
            }
            self.cache.oldest().and_then(|host| self.layout.band_of(host))
        } else {
            let waiting = |piece: &&super::writes::Piece| piece.route == Route::Rewrite;
            let first = self.pieces.values().find(waiting).map(|piece| piece.host.start);
            first.and_then(|host| self.layout.band_of(host))
        };
        let Some(band) = band else { return false };
        let version = self.desk.number();
        let found = self.cache.find(band.clone());
        let steps = found.iter().filter_map(|found| {
            let start = self.layout.cache.start + found.position?;
            Some(start..start + found.sectors)
        });
        self.job = Some(Job {
            band,
            phase: Phase::Gather,
            steps: steps.collect(),
            left: 0,
            version,
            forced,
            started_at: self.time,
        });
        true
    }

    fn next_phase(&mut self) {
        let Some(mut job) = self.job.take() else { return };
        job.phase = match job.phase {
            Phase::Gather => Phase::Read,
            Phase::Read => Phase::Keep,
            Phase::Keep | Phase::Write => Phase::Write,
        };
        let written = self.written_part(&job.band);
        if job.phase == Phase::Keep {
            // From here on the new content is fixed.
            self.join(&job.band);
        }
        let changed_end = self.rewriting().map(|(_, host)| host.end).max();
        let end = changed_end.unwrap_or(0).max(written.end);
        let sectors = end - job.band.start;
        let range = match job.phase {
            Phase::Gather => 0..0,
            Phase::Read if self.needs_no_reading(&written) => 0..0,
            Phase::Read => self.drive_range(written),
            Phase::Keep => self.layout.scratch.start..self.layout.scratch.start + sectors,
            Phase::Write => self.drive_range(job.band.start..end),
        };
        let mut at = range.start;
        while at < range.end {
            let step = STEP_SECTORS.min(range.end - at);
            job.steps.push_back(at..at + step);
            at += step;
        }
        self.job = Some(job);
    }

    /// Whether every sector that a band holds is in the cache or on its way.
    fn needs_no_reading(&self, written: &Range<u64>) -> bool {
        if self.is_drive_managed() {
            return self.cache.find(written.clone()).iter().all(|found| found.position.is_some());
        }
        let mut at = written.start;
        for (_, piece) in self.pieces.iter().filter(|(_, piece)| piece.route == Route::Rewrite) {
            if piece.host.start <= at && at < piece.host.end {
                at = piece.host.end;
            }
        }
        at >= written.end
    }

    /// A band is one run on the disk.
    fn drive_range(&self, host: Range<u64>) -> Range<u64> {
        let start = self.layout.places(host.clone()).next().map_or(0, |place| place.drive);
        start..start + (host.end - host.start)
    }

    /// Takes all writes that wait for `band` into its rewriting.
    fn join(&mut self, band: &Range<u64>) {
        for piece in self.pieces.values_mut() {
            if piece.route == Route::Rewrite && band.contains(&piece.host.start) {
                piece.route = Route::Rewriting;
            }
        }
    }

    fn rewriting(&self) -> impl Iterator<Item = (u64, Range<u64>)> + '_ {
        let taken = self.pieces.iter().filter(|(_, piece)| piece.route == Route::Rewriting);
        taken.map(|(id, piece)| (*id, piece.host.clone()))
    }

    fn end_job(&mut self) {
        let Some(job) = self.job.take() else { return };
        self.stats.bands_rewritten += 1;
        self.stats.bands_forced += u64::from(job.forced);
        self.stats.band_ns += self.time.since(job.started_at).0;
        let pieces: Vec<_> = self.rewriting().collect();
        let end = pieces.iter().map(|(_, host)| host.end).max().unwrap_or(0);
        if end > self.written_part(&job.band).end {
            self.set_written(&job.band, end);
        }
        self.cache.remove(job.band, job.version);
        for (piece, _) in pieces {
            self.piece_done(piece);
        }
    }

    /// A command of the drive for the band is done.
    pub(super) fn band_step_done(&mut self) {
        if let Some(job) = &mut self.job {
            job.left -= 1;
        }
    }
}
