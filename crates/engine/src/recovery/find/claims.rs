//! Finding records by claims: each log that the snapshot or a record claims is read from the position that the claim
//! names, and what is found there may claim further logs.
//!
//! It must see every log that a record may have gone to, and none twice from the same place; logs come in no order.

use super::found::names_newer;
use super::scan::LogScan;
use super::{Finder, Findings, Found, Hidden, Remains, ScanContext};
use crate::damage::{Damage, DamageKind};
use crate::recovery::careful::Piece;
use crate::state::findings::DAMAGE_NOTES_MAX;
use nearhead_disk::At;
use nearhead_format::record::Claim;
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

/// The logs to read, and what those that were read hold.
#[derive(Default)]
pub(in crate::recovery) struct ByClaims {
    scan: Option<LogScan>,
    to_scan: VecDeque<Claim>,
    /// Claims of records that are not sound: followed only where no sound record says more, since
    /// they may be older than an earlier crash.
    doubtful: VecDeque<Claim>,
    /// Logs that only a record which is gone may have claimed: followed if a newer record is where the claim would say,
    /// or may be there, as it cannot be read.
    peeks: VecDeque<Claim>,
    peeking: Option<Claim>,
    /// Every log that may hold newer records, from where on, and which record says so.
    known_logs: BTreeMap<u32, (Claim, u64)>,
    /// What is left of records that are not whole, by log, as the last scan of it found it.
    remains: BTreeMap<u32, Vec<Remains>>,
    /// Places of each log that the last scan of it could not read and where a newer record may begin.
    hidden: BTreeMap<u32, Vec<Hidden>>,
    /// Places of each log where records are missing before newer ones.
    passed: BTreeMap<u32, usize>,
    /// What the scan of each log found wrong. A log that turns out to begin earlier is scanned again, and what
    /// was said of it before does not count: the first look began in the middle of its records.
    pub(super) problems: BTreeMap<u32, Vec<Damage>>,
    pub(super) findings: Findings,
}

impl ByClaims {
    /// Begins with what a snapshot claims.
    pub(in crate::recovery) fn of(claims: &[Claim]) -> Self {
        let mut finder = Self::default();
        for claim in claims {
            finder.follow(*claim, 0);
        }
        finder
    }

    /// The same, and into each of these logs that nothing else claims.
    pub(in crate::recovery) fn peeking_into(self, peeks: VecDeque<Claim>) -> Self {
        Self { peeks, ..self }
    }

    /// Puts a log on the list of those to scan, unless it is known already. Logs are scanned in no
    /// particular order, so a log may be met first through a claim that came after a snapshot was
    /// begun and never finished; the claim of the earlier record is where the log really begins.
    fn follow(&mut self, claim: Claim, sequence: u64) {
        match self.known_logs.entry(claim.log_index) {
            Entry::Vacant(place) => {
                place.insert((claim, sequence));
            }
            Entry::Occupied(mut known) if known.get().1 > sequence => {
                let again = known.get().0 != claim;
                known.insert((claim, sequence));
                if !again {
                    return;
                }
            }
            Entry::Occupied(_) => return,
        }
        self.to_scan.push_back(claim);
    }

    /// Takes what the scan of a log found, and what its records claim.
    pub(super) fn take_scan(&mut self, scan: LogScan) {
        // What stands behind and is not whole itself are the remains of a write that an earlier cut tore.
        let whole = |sequence: u64| {
            let is_it = |found: &&Found| found.header.sequence == sequence;
            scan.found.iter().filter(is_it).any(Found::may_be_whole)
        };
        let problems = scan.problems.into_iter().filter(|(sequence, _)| whole(*sequence));
        let problems = problems.map(|(_, problem)| DamageKind::Record.told(problem));
        let problems = problems.take(DAMAGE_NOTES_MAX + 1).collect();
        self.problems.insert(scan.claim.log_index, problems);
        self.hidden.insert(scan.claim.log_index, scan.hidden);
        self.passed.insert(scan.claim.log_index, scan.passed);
        self.remains.insert(scan.claim.log_index, scan.remains);
        for found in scan.found {
            let (claims, sequence, is_sound) =
                (found.header.claims.clone(), found.header.sequence, found.is_sound());
            if !self.findings.take(found) {
                continue;
            }
            for claim in claims {
                if is_sound {
                    self.follow(claim, sequence);
                } else {
                    self.doubtful.push_back(claim);
                }
            }
        }
    }

    /// The log to read next, if there is one.
    fn next_claim(&mut self) -> Option<Claim> {
        loop {
            if let Some(claim) = self.to_scan.pop_front() {
                return Some(claim);
            }
            let claim = self.doubtful.pop_front()?;
            self.follow(claim, u64::MAX);
        }
    }
}

impl Finder for ByClaims {
    fn next_read(&mut self, context: &ScanContext) -> Option<(At, u64)> {
        loop {
            if let Some(mut scan) = self.scan.take() {
                if let Some((offset, len)) = scan.next_read(context) {
                    self.scan = Some(scan);
                    return Some((offset.into(), len));
                }
                self.take_scan(scan);
            }
            let Some(claim) = self.next_claim() else {
                let peek = self.peeks.pop_front()?;
                let is_known = self.known_logs.contains_key(&peek.log_index);
                let at = context.layout.log_block_offset(peek.log_index, peek.position);
                if let Some(at) = at.filter(|_| !is_known) {
                    self.peeking = Some(peek);
                    return Some((at.into(), context.block() as u64));
                }
                continue;
            };
            self.findings.logs += 1;
            self.scan = Some(LogScan::new(claim, context.floor_sequence));
        }
    }

    fn take(&mut self, piece: Piece, context: &ScanContext) {
        if let Some(claim) = self.peeking.take() {
            if names_newer(&piece, claim, context) {
                self.follow(claim, u64::MAX);
            }
        } else if let Some(scan) = self.scan.as_mut() {
            scan.take(piece, context);
        }
    }

    fn findings(self: Box<Self>) -> Findings {
        Findings {
            problems: self.problems.into_values().flatten().collect(),
            remains: self.remains.into_values().flatten().collect(),
            hidden: self.hidden.into_values().flatten().collect(),
            passed: self.passed.into_values().sum(),
            ..self.findings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_of_the_earliest_record_says_where_a_log_begins() {
        let claim = |position| Claim { log_index: 3, position };
        let mut finder = ByClaims::default();
        let mut follow = |position, sequence| {
            finder.follow(claim(position), sequence);
            finder.to_scan.drain(..).map(|claim| claim.position).collect::<Vec<_>>()
        };
        assert_eq!(follow(40, 20), [40], "met for the first time");
        assert_eq!(follow(50, 30), [], "a later record knows less");
        assert_eq!(follow(60, 20), [], "so does another one that is not earlier");
        assert_eq!(follow(10, 9), [10], "an earlier one knows where it really began");
        assert_eq!(follow(10, 8), [], "the same place is not scanned twice");
        assert_eq!(follow(5, 8), [], "the record of that sequence is known");
        assert_eq!(follow(4, 7), [4]);
    }
}
