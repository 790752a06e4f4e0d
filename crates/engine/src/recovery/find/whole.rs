//! Finding records where they may begin anywhere in a log: each log that the snapshot or a record claims is read whole, and every record
//! in it counts that is newer than the snapshot. What is found there may claim further logs.
//!
//! What was newer than the snapshot before is never written over, so nothing newer is there than what counts, but for what a cut
//! tore and for places that failed: those are told as remains, and the chain takes the sound one of two. A part that cannot be read may
//! hold a newer record, or make one that is whole look torn, unless it lies in one that the snapshot includes.

use super::sweep::LogSweep;
use super::{Finder, Findings, ScanContext};
use nearhead_disk::{At, Buffer};
use nearhead_format::record::Claim;
use std::collections::{BTreeSet, VecDeque};

/// The logs to read, and what those that were read hold.
#[derive(Default)]
pub(in crate::recovery) struct ByWholeLogs {
    sweep: Option<LogSweep>,
    /// Why the last read failed.
    problem: Option<String>,
    to_read: VecDeque<u32>,
    /// Claims of records that are not sound: followed last, since they may be older than an earlier crash.
    doubtful: VecDeque<u32>,
    known: BTreeSet<u32>,
    findings: Findings,
}

impl ByWholeLogs {
    /// Begins with what a snapshot claims.
    pub(in crate::recovery) fn of(claims: &[Claim]) -> Self {
        let mut finder = Self::default();
        for claim in claims {
            finder.follow(claim.log_index);
        }
        finder
    }

    fn follow(&mut self, log: u32) {
        if self.known.insert(log) {
            self.to_read.push_back(log);
        }
    }

    fn take_sweep(&mut self, sweep: LogSweep, context: &ScanContext) {
        let log = sweep.log();
        if let Some(part) = sweep.undecided(context).first() {
            let why = self.problem.take().unwrap_or_default();
            let problem =
                format!("log {log} at device byte {}: could not be read: {why}", part.start);
            self.findings.unreadable.get_or_insert(problem);
        }
        let (found, remains) = sweep.into_found();
        let is_newer = |sequence: u64| sequence > context.floor_sequence;
        let remains = remains.into_iter().filter(|remains| is_newer(remains.sequence));
        self.findings.remains.extend(remains);
        for found in found.into_iter().filter(|found| is_newer(found.header.sequence)) {
            let claims = found.header.claims.clone();
            let is_sound = found.is_sound();
            if !self.findings.take(found) {
                continue;
            }
            for claim in claims {
                if is_sound {
                    self.follow(claim.log_index);
                } else {
                    self.doubtful.push_back(claim.log_index);
                }
            }
        }
    }

    fn next_log(&mut self, context: &ScanContext) -> Option<u32> {
        loop {
            let next = self.to_read.pop_front().or_else(|| {
                let log = self.doubtful.pop_front()?;
                self.follow(log);
                self.to_read.pop_front()
            });
            match next {
                Some(log) if log < context.layout.log_count() => return Some(log),
                None if self.doubtful.is_empty() => return None,
                _ => {}
            }
        }
    }
}

impl Finder for ByWholeLogs {
    fn next_read(&mut self, context: &ScanContext) -> Option<(At, u64)> {
        loop {
            if let Some(mut sweep) = self.sweep.take() {
                if let Some((offset, len)) = sweep.next_read(context) {
                    self.sweep = Some(sweep);
                    return Some((offset.into(), len));
                }
                self.take_sweep(sweep, context);
            }
            let log = self.next_log(context)?;
            self.findings.logs += 1;
            self.sweep = Some(LogSweep::new(log));
        }
    }

    fn take(&mut self, bytes: Result<Buffer, String>, _: &ScanContext) -> Result<(), String> {
        if let Some(sweep) = self.sweep.as_mut() {
            match bytes {
                Ok(bytes) => sweep.take(&bytes),
                Err(problem) => {
                    self.problem = Some(problem);
                    sweep.unreadable();
                }
            }
        }
        Ok(())
    }

    fn findings(self: Box<Self>) -> Findings {
        self.findings
    }
}
