//! Reading records again while the log goes on.
//!
//! It sees what was durable when it was made, verifies every record like recovery does, and holds
//! one window and one record in memory. If the log is truncated past it, or a segment recycled
//! under it, it says so and ends; it never returns bytes that did not verify.

use super::pool::{Live, Pool, segment_name};
use super::scan::{Position, Scanner};
use super::{LogOptions, Lsn};
use crate::codec::RECORDS_OFFSET;
use crate::codec::record::Kind;
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::Access;
use std::sync::Arc;

/// The durable records from some number on, in order.
pub struct Records {
    pool: Arc<Pool>,
    options: LogOptions,
    next: Lsn,
    end: Lsn,
    segment: Option<(Live, Scanner, Position)>,
    has_failed: bool,
}

impl Records {
    pub(super) fn new(pool: Arc<Pool>, options: LogOptions, from: Lsn, end: Lsn) -> Result<Self> {
        let records = Self { pool, options, next: from, end, segment: None, has_failed: false };
        records.check_not_truncated()?;
        Ok(records)
    }

    fn check_not_truncated(&self) -> Result<()> {
        let first = self.pool.first_lsn();
        if self.next >= first {
            return Ok(());
        }
        let detail = format!("record {} has been truncated away: the oldest is {first}", self.next);
        Err(WalError::new(WalErrorKind::Truncated, detail))
    }

    /// Enters the newest segment that begins at or before the record wanted, behind `after`.
    fn enter(&mut self, after: Option<Position>) -> Result<()> {
        let live = self.pool.live();
        let mut candidates = live.iter().filter(|segment| segment.first_lsn <= self.next);
        let Some(segment) = candidates.next_back().copied() else {
            return Err(self.lost("no segment"));
        };
        let name = segment_name(segment.sequence);
        let file = self.pool.storage().open(&name, Access::Read)?;
        let seed = self.pool.seed_of(segment.sequence);
        let mut scanner = Scanner::new(file, seed, self.options.geometry);
        let segment_bytes = self.options.geometry.segment_bytes;
        let found = scanner.record_at(RECORDS_OFFSET, None, segment_bytes)?;
        let begin = found.filter(|found| {
            found.header.kind == Kind::Begin
                && after.is_none_or(|after| {
                    found.header.lsn == after.lsn && found.header.previous == after.chain
                })
        });
        let Some(begin) = begin else { return Err(self.lost(&name)) };
        self.segment = Some((segment, scanner, begin.next));
        Ok(())
    }

    fn step(&mut self) -> Result<Option<(Lsn, Vec<u8>)>> {
        let segment_bytes = self.options.geometry.segment_bytes;
        while self.next < self.end {
            let Some((segment, scanner, position)) = &mut self.segment else {
                self.enter(None)?;
                continue;
            };
            if let Some(found) = scanner.next(*position, segment_bytes)? {
                *position = found.next;
                if found.header.lsn == self.next {
                    self.next = self.next.next();
                    return Ok(Some((found.header.lsn, scanner.payload().to_vec())));
                }
                continue;
            }
            let (before, after) = (segment.sequence, *position);
            self.enter(Some(after))?;
            if self.segment.as_ref().is_some_and(|(now, ..)| now.sequence == before) {
                return Err(self.lost(&segment_name(before)));
            }
        }
        Ok(None)
    }

    /// Why the record that should come next did not: truncated meanwhile, or damaged.
    #[cold]
    fn lost(&self, place: &str) -> WalError {
        if let Err(error) = self.check_not_truncated() {
            return error;
        }
        let detail = format!(
            "{place}: expected record {}, which was durable, found none that verifies; restore the segment from a copy, or from a replica",
            self.next
        );
        WalError::new(WalErrorKind::Corrupt, detail)
    }
}

impl Iterator for Records {
    type Item = Result<(Lsn, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let outcome = self.step();
        self.has_failed = outcome.is_err();
        outcome.transpose()
    }
}
