//! Finding records where they may begin anywhere in a log: each log that the snapshot or a record claims is read whole, and every record
//! in it counts that is newer than the snapshot. What is found there may claim further logs.
//!
//! What was newer than the snapshot before is never written over, so nothing newer is there than what counts, but for what a cut
//! tore and for places that failed: those are told as remains, and the chain takes the sound one of two. Where a part cannot be read and
//! a newer record may begin, the place is reported as hidden.

use super::found::names_newer;
use super::sweep::LogSweep;
use super::{Finder, Findings, ScanContext};
use crate::recovery::careful::Piece;
use nearhead_disk::At;
use nearhead_format::record::Claim;
use std::collections::{BTreeMap, VecDeque};

/// The logs to read, and what those that were read hold.
#[derive(Default)]
pub(in crate::recovery) struct ByWholeLogs {
    sweep: Option<LogSweep>,
    to_read: VecDeque<u32>,
    /// Claims of records that are not sound: followed last, since they may be older than an earlier crash.
    doubtful: VecDeque<Claim>,
    /// Logs that only a record which is gone may have claimed: followed if a newer record is where the claim would say
    /// or cannot be read, or anyway where placement does not write records in order.
    peeks: VecDeque<Claim>,
    peeking: Option<Claim>,
    /// Every log that may hold newer records, and from where on its snapshot or first record says.
    known: BTreeMap<u32, u32>,
    findings: Findings,
}

impl ByWholeLogs {
    /// Begins with what a snapshot claims.
    pub(in crate::recovery) fn of(claims: &[Claim]) -> Self {
        let mut finder = Self::default();
        for claim in claims {
            finder.follow(*claim);
        }
        finder
    }

    /// The same, and into each of these logs that nothing else claims.
    pub(in crate::recovery) fn peeking_into(self, peeks: VecDeque<Claim>) -> Self {
        Self { peeks, ..self }
    }

    /// Where the next log is looked into that nothing claims.
    fn next_peek(&mut self, context: &ScanContext) -> Option<(At, u64)> {
        loop {
            let peek = self.peeks.pop_front()?;
            if self.known.contains_key(&peek.log_index) {
                continue;
            }
            let at = context.layout.log_block_offset(peek.log_index, peek.position);
            if let Some(at) = at {
                self.peeking = Some(peek);
                return Some((at.into(), context.block() as u64));
            }
        }
    }

    fn follow(&mut self, claim: Claim) {
        let Claim { log_index, position } = claim;
        self.known.entry(log_index).or_insert_with(|| {
            self.to_read.push_back(log_index);
            position
        });
    }

    fn take_sweep(&mut self, sweep: LogSweep, context: &ScanContext) {
        let position = self.known.get(&sweep.log()).copied();
        self.findings.hidden.extend(sweep.hidden(position, context));
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
                    self.follow(claim);
                } else {
                    self.doubtful.push_back(claim);
                }
            }
        }
    }

    fn next_log(&mut self, context: &ScanContext) -> Option<u32> {
        loop {
            let next = self.to_read.pop_front().or_else(|| {
                let claim = self.doubtful.pop_front()?;
                self.follow(claim);
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
            let Some(log) = self.next_log(context) else { return self.next_peek(context) };
            self.findings.logs += 1;
            self.sweep = Some(LogSweep::new(log));
        }
    }

    fn take(&mut self, piece: Piece, context: &ScanContext) {
        if let Some(claim) = self.peeking.take() {
            if context.gap_bytes_max > 0 || names_newer(&piece, claim, context) {
                self.follow(claim);
            }
        } else if let Some(sweep) = self.sweep.as_mut() {
            sweep.take(piece, context);
        }
    }

    fn findings(self: Box<Self>) -> Findings {
        self.findings
    }
}
