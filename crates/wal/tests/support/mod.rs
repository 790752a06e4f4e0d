//! Lives of a log on a storage that can lose power, against an oracle that knows what was promised.
//!
//! A life opens the log, checks it, carries out steps, and ends by power, by an error or in order.
//! The oracle holds what was acknowledged and what was only asked for. What is found must be all of
//! the former and may be the beginning of the latter; what a recovery said is not there must never
//! come back.
#![allow(dead_code, reason = "each test file uses a part")]

use nearhead_basics::SplitMix;
use nearhead_wal::storage::{Cut, Memory, SectorFate};
use nearhead_wal::{Geometry, LogOptions, Lsn, Recovered, Result, SerialLog, Tail, WalError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One thing a program does to its log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Append a record of that many bytes.
    Append(usize),
    /// Make everything durable.
    Commit,
    /// Give up all durable records but that many.
    KeepLast(u64),
    /// Close it in order and open it again.
    Reopen,
    /// Make the next segment ready.
    Prepare,
}

/// Small enough that a test sees many segments.
pub(crate) fn small(tail: Tail) -> LogOptions {
    LogOptions {
        geometry: Geometry { segment_bytes: 16384, block_bytes: 512, tail },
        batch_bytes_max: 4096,
        record_bytes_max: 6000,
        waiting_bytes_max: 64 << 10,
        segments_max: 6,
    }
}

/// What a record holds. Every life writes the same: a record that comes back from an earlier life
/// is told by its number alone.
pub(crate) fn payload(lsn: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix::new(lsn.wrapping_mul(31).wrapping_add(bytes as u64));
    (0..bytes).map(|_| random.next_u64() as u8).collect()
}

/// What was promised.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    /// Length of every record ever asked for in this line of lives, by number.
    pub(crate) lengths: BTreeMap<u64, usize>,
    /// The first that was not acknowledged.
    pub(crate) durable_next: u64,
    /// The oldest that must be there, and the oldest that may be gone (truncation under way).
    pub(crate) first: u64,
    pub(crate) first_maybe: u64,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self { lengths: BTreeMap::new(), durable_next: 1, first: 1, first_maybe: 1 }
    }

    /// Compares what a recovery found, and believes it from now on.
    pub(crate) fn check(
        &mut self,
        found: &Recovered,
        records: &[(u64, Vec<u8>)],
    ) -> std::result::Result<(), String> {
        let (first, next) = (found.first_lsn.0, found.next_lsn.0);
        if first != self.first && first != self.first_maybe {
            return Err(format!("first {first}: expected {} or {}", self.first, self.first_maybe));
        }
        let asked =
            self.lengths.keys().next_back().map_or(1, |last| last + 1).max(self.durable_next);
        if next < self.durable_next || next > asked {
            return Err(format!("next {next}: expected {} to {asked}", self.durable_next));
        }
        let numbers: Vec<u64> = records.iter().map(|(lsn, _)| *lsn).collect();
        let expected: Vec<u64> = (first..next).collect();
        if numbers != expected {
            return Err(format!("records {numbers:?}: expected {expected:?}"));
        }
        for (lsn, bytes) in records {
            let Some(length) = self.lengths.get(lsn) else {
                return Err(format!("record {lsn} was never asked for"));
            };
            if *bytes != payload(*lsn, *length) {
                return Err(format!("record {lsn} reads otherwise than it was written"));
            }
        }
        self.first = first;
        self.first_maybe = first;
        self.durable_next = next;
        self.lengths.retain(|lsn, _| *lsn < next);
        Ok(())
    }
}

/// A log just opened, what was found, and every record of it.
pub(crate) type Opened = (SerialLog, Recovered, Vec<(u64, Vec<u8>)>);

/// Opens, and returns what was found with all records.
pub(crate) fn open(storage: &Memory, options: &LogOptions) -> Result<Opened> {
    let mut records = Vec::new();
    let (log, found) = SerialLog::open(Arc::new(storage.clone()), options, |lsn, bytes| {
        records.push((lsn.0, bytes.to_vec()));
    })?;
    Ok((log, found, records))
}

/// Opens and checks; panics with `context` if the oracle was betrayed.
pub(crate) fn open_checked(
    storage: &Memory,
    options: &LogOptions,
    oracle: &mut Oracle,
    context: &str,
) -> SerialLog {
    let (log, found, records) = match open(storage, options) {
        Ok(opened) => opened,
        Err(error) => panic!("{context}: does not open: {error}"),
    };
    if let Err(wrong) = oracle.check(&found, &records) {
        panic!("{context}: {wrong}");
    }
    log
}

/// Carries out steps until the first error, keeping the oracle up to date.
pub(crate) fn live(
    storage: &Memory,
    options: &LogOptions,
    mut log: SerialLog,
    steps: &[Step],
    oracle: &mut Oracle,
) -> std::result::Result<SerialLog, WalError> {
    for step in steps {
        match *step {
            Step::Append(bytes) => {
                let lsn = log.next_lsn().0;
                oracle.lengths.insert(lsn, bytes);
                let outcome = log.append(&payload(lsn, bytes));
                if log.staged().0 == 0 && outcome.is_err() {
                    oracle.lengths.remove(&lsn);
                }
                assert_eq!(outcome?, Lsn(lsn));
            }
            Step::Commit => oracle.durable_next = log.commit()?.0,
            Step::KeepLast(count) => {
                let lsn = oracle.durable_next.saturating_sub(count).max(oracle.first);
                oracle.first_maybe = lsn;
                log.truncate_prefix(Lsn(lsn))?;
                oracle.first = lsn;
            }
            Step::Reopen => {
                let next = log.next_lsn().0;
                log.close()?;
                oracle.durable_next = next;
                let (opened, found, records) = open(storage, options)?;
                oracle.check(&found, &records).unwrap_or_else(|wrong| panic!("reopened: {wrong}"));
                assert!(found.was_closed || next == 1, "an orderly end is remembered");
                assert!(!found.was_torn);
                log = opened;
            }
            Step::Prepare => log.prepare()?,
        }
    }
    Ok(log)
}

/// Fates that a cut may choose from for each pending sector.
fn choices(storage: &Memory, tail: Tail) -> Vec<Vec<SectorFate>> {
    let all = [SectorFate::Old, SectorFate::New, SectorFate::Garbled];
    let pending = storage.pending();
    // Where a block is written again, a sector of it is old or new: the device's promise.
    let may_garble = |sector: &nearhead_wal::storage::PendingSector| {
        let in_records = sector.offset >= 4096
            && sector
                .file
                .as_ref()
                .is_some_and(|name| name.contains(".wal") && name != "wal.control");
        tail == Tail::LeftAlone || !in_records
    };
    pending.iter().map(|sector| all[..if may_garble(sector) { 3 } else { 2 }].to_vec()).collect()
}

/// All cuts if they are at most `most`, else that many drawn by `random`, the extremes among them.
pub(crate) fn cuts(storage: &Memory, tail: Tail, most: usize, random: &mut SplitMix) -> Vec<Cut> {
    let choices = choices(storage, tail);
    let changes = storage.pending_name_changes();
    let names = changes + 1;
    let total = choices.iter().try_fold(names, |product, fates| product.checked_mul(fates.len()));
    if let Some(total) = total.filter(|total| *total <= most) {
        return (0..total).map(|number| numbered(&choices, names, number)).collect();
    }
    let mut cuts = Vec::new();
    for index in 0..most {
        let mut fate = |fates: &Vec<SectorFate>, at: usize| match index {
            0 => SectorFate::Old,
            1 => SectorFate::New,
            // Torn at one place, in either order.
            _ if index % 4 == 2 => {
                if at <= index / 4 {
                    SectorFate::New
                } else {
                    SectorFate::Old
                }
            }
            _ if index % 4 == 3 => {
                if at <= index / 4 {
                    SectorFate::Old
                } else {
                    SectorFate::New
                }
            }
            _ => fates[random.below(fates.len() as u64) as usize],
        };
        let sectors = choices.iter().enumerate().map(|(at, fates)| fate(fates, at)).collect();
        cuts.push(Cut { sectors, name_changes: random.below(names as u64) as usize });
    }
    cuts
}

fn numbered(choices: &[Vec<SectorFate>], names: usize, mut number: usize) -> Cut {
    let name_changes = number % names;
    number /= names;
    let mut sectors = Vec::new();
    for fates in choices {
        sectors.push(fates[number % fates.len()]);
        number /= fates.len();
    }
    Cut { sectors, name_changes }
}

/// A log on fresh storage.
pub(crate) fn created(options: &LogOptions) -> Memory {
    let storage = Memory::new();
    SerialLog::create(&storage, options, *b"a log of a test.").unwrap();
    storage
}
