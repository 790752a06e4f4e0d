//! Recovery: the map as it was, from the newest snapshot and the records written since.
//!
//! It reads the two snapshot headers, one snapshot body and the claimed logs, nothing else, and
//! writes nothing at all, so it may be cut anywhere and run again with the same result (law 4). Each
//! step is a read; the state between them is here:
//!
//! 1. both slot headers; the sound one with the higher number counts;
//! 2. its body; if that is damaged, the other slot's;
//! 3. every claimed log from its position on; records found may claim further logs;
//! 4. the chain of sequences is checked and applied in order ([`chain`]);
//! 5. a device flush, so that what was read is also what a power cut would leave; then requests.
//!
//! Told to, it does without a snapshot: then every log is read whole ([`sweep`], [`rebuild`]).
//!
//! The decision table in docs/recovery.md lists every combination of damage and what follows.

mod adopt;
mod bounds;
#[cfg(test)]
mod bounds_tests;
mod chain;
#[cfg(test)]
mod decision_tests;
mod journal_scan;
mod load;
mod rebuild;
mod scan;
mod slots;
mod sweep;

pub use rebuild::{Doubt, Rebuilt};

use crate::config::Setup;
use crate::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use crate::map::Map;
use bounds::{log_outside, outside};
use journal_scan::JournalScan;
use load::{BODY_READ_BYTES, Loading};
use nearhead_disk::{Class, Command, DiskError, Payload, SECTOR_BYTES};
use nearhead_format::record::Claim;
use nearhead_format::snapshot::{HintRange, LogState, SNAPSHOT_HEADER_BYTES, SnapshotHeader};
use scan::{Found, LogScan, Remains, ScanContext};
use slots::FoundSlot;
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

/// Findings remembered for people.
const DAMAGE_NOTES_MAX: usize = 64;

/// What recovery found, for status and check.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecoveredState {
    pub(crate) damage: Vec<String>,
    pub(crate) read_bytes: u64,
    pub(crate) records: u64,
    pub(crate) logs: u32,
}

impl RecoveredState {
    /// Remembers a finding, once; past a bound only that there were more.
    pub(crate) fn note(&mut self, finding: String) {
        if self.damage.contains(&finding) {
            return;
        }
        if self.damage.len() < DAMAGE_NOTES_MAX {
            self.damage.push(finding);
        } else if self.damage.len() == DAMAGE_NOTES_MAX {
            self.damage.push("more findings were left out".to_owned());
        }
    }
}

/// What a sound snapshot said.
struct Snapshot {
    header: SnapshotHeader,
    map: Map,
    logs: BTreeMap<u32, LogState>,
    claims: Vec<Claim>,
    hints: Vec<HintRange>,
}

enum Step {
    Start,
    Header {
        slot: usize,
    },
    HeaderCopy {
        slot: usize,
        header: slots::Place,
    },
    Body(Box<Loading>),
    Scan(Box<LogScan>),
    Journal(Box<JournalScan>),
    Verify(Box<JournalScan>, usize),
    /// No snapshot is left, and every log is read whole.
    Sweep(Box<sweep::LogSweep>),
    Flush,
}

/// The state between two reads.
pub(crate) struct Recovery {
    step: Step,
    slots: Vec<FoundSlot>,
    /// Sound headers, the one to try first last.
    headers: Vec<SnapshotHeader>,
    slot_problems: Vec<String>,
    snapshot: Option<Snapshot>,
    to_scan: VecDeque<Claim>,
    /// Claims of records that are not sound: followed only where no sound record says more, since
    /// they may be older than an earlier crash.
    doubtful: VecDeque<Claim>,
    /// Every log that may hold newer records, from where on, and which record says so.
    known_logs: BTreeMap<u32, (Claim, u64)>,
    found: Vec<Found>,
    /// What is left of records that are not whole, by log, as the last scan of it found it.
    remains: BTreeMap<u32, Vec<Remains>>,
    /// What the scan of each log found wrong. A log that turns out to begin earlier is scanned again, and what
    /// was said of it before does not count: the first look began in the middle of its records.
    problems: BTreeMap<u32, Vec<String>>,
    /// The first log or snapshot that could not be read: it may be newer than anything found.
    unreadable: Option<String>,
    /// The newest record that a snapshot includes whose header is sound and whose body is not.
    known_sequence: u64,
    /// The highest number of a snapshot whose header is sound, whatever its body is.
    known_snapshot: u64,
    /// A record names what does not lie on the volume that the superblock describes.
    outside: Option<String>,
    context: ScanContext,
    result: RecoveredState,
}

impl Recovery {
    pub(crate) fn of(setup: &Setup) -> Self {
        Self::new(ScanContext::new(setup))
    }

    fn new(context: ScanContext) -> Self {
        Self {
            step: Step::Start,
            slots: Vec::new(),
            headers: Vec::new(),
            slot_problems: Vec::new(),
            snapshot: None,
            to_scan: VecDeque::new(),
            doubtful: VecDeque::new(),
            known_logs: BTreeMap::new(),
            found: Vec::new(),
            remains: BTreeMap::new(),
            problems: BTreeMap::new(),
            unreadable: None,
            known_sequence: 0,
            known_snapshot: 0,
            outside: None,
            context,
            result: RecoveredState::default(),
        }
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
    fn take_scan(&mut self, scan: LogScan) {
        // What stands behind and is not whole itself are the remains of a write that an earlier cut tore.
        let whole = |sequence: u64| {
            scan.found.iter().any(|found| found.header.sequence == sequence && found.is_sound())
        };
        let problems = scan.problems.into_iter().filter(|(sequence, _)| whole(*sequence));
        let problems = problems.map(|(_, problem)| problem).chain(scan.unreadable.clone());
        let problems = problems.take(DAMAGE_NOTES_MAX + 1).collect();
        self.problems.insert(scan.claim.log_index, problems);
        self.unreadable = self.unreadable.take().or(scan.unreadable);
        self.remains.insert(scan.claim.log_index, scan.remains);
        for found in scan.found {
            if found.past_volume.is_some() {
                self.outside = self.outside.take().or(found.past_volume);
                continue;
            }
            for claim in &found.header.claims {
                if found.is_sound() {
                    self.follow(*claim, found.header.sequence);
                } else {
                    self.doubtful.push_back(*claim);
                }
            }
            self.found.push(found);
        }
    }
}

impl Engine {
    fn recovery_read(&mut self, offset: u64, len: u64) {
        if let Phase::Recovering(recovery) = &mut self.phase {
            recovery.result.read_bytes += len;
        }
        let command = Command::Read { offset, len: len as u32 };
        self.issue(Class::Foreground, Purpose::Recovery, command);
    }

    /// Issues the first read; everything else follows from completions.
    pub(crate) fn advance_recovery(&mut self) {
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        if matches!(recovery.step, Step::Start) {
            if let Some(base) = self.setup.config.base.take() {
                return self.load_base(&base);
            }
            let Phase::Recovering(recovery) = &mut self.phase else { return };
            recovery.step = Step::Header { slot: 0 };
            self.recovery_read(self.setup.layout.slot_offsets[0], SNAPSHOT_HEADER_BYTES);
        }
    }

    pub(crate) fn on_recovery(&mut self, result: Result<Payload, DiskError>) {
        let Phase::Recovering(recovery) = &mut self.phase else { return };
        let step = std::mem::replace(&mut recovery.step, Step::Start);
        match step {
            Step::Start => {}
            Step::Header { slot } => self.on_slot_header(slot, result),
            Step::HeaderCopy { slot, header } => self.on_slot_copy(slot, header, result),
            Step::Body(loading) => self.on_body(loading, result),
            Step::Scan(scan) => self.on_log_read(scan, result),
            Step::Journal(scan) => self.on_journal_read(scan, result),
            Step::Verify(scan, index) => self.on_payload_read(scan, index, result),
            Step::Sweep(sweep) => self.on_sweep_read(sweep, result),
            Step::Flush => match result {
                Ok(_) => self.recovery_is_done(),
                Err(error) => {
                    self.recovery_fails(&format!("the device could not be flushed: {error}"));
                }
            },
        }
    }

    fn recovering(&mut self) -> Option<&mut Recovery> {
        match &mut self.phase {
            Phase::Recovering(recovery) => Some(recovery),
            _ => None,
        }
    }

    fn body_is_read(&mut self, loading: Loading) {
        // A body of a slot begins behind a header.
        let is_base = loading.offset == 0;
        let Loading { header, reader, entries, problem, past_volume, logs, claims, hints, .. } =
            loading;
        if let Err(error) = reader.finish() {
            return self.body_is_damaged(&header, &error.to_string());
        }
        if let Some(problem) = problem {
            return self.body_is_damaged(&header, &problem);
        }
        let log_count = self.logs.count();
        let map = entries.finish();
        let named = logs.iter().map(|state| state.log_index).chain(claims.iter().copied());
        let beyond = named.filter(|index| *index >= log_count).max();
        if let Some(problem) = beyond.map(|index| log_outside(index, log_count)) {
            return self.recovery_fails(&problem);
        }
        if let Some(problem) = past_volume {
            return self.recovery_fails(&outside(&problem));
        }
        if is_base {
            let (logs, claims) = (BTreeMap::new(), Vec::new());
            return self.begin_rebuild(Some(Snapshot { header, map, logs, claims, hints }));
        }
        let Some(recovery) = self.recovering() else { return };
        let logs: BTreeMap<u32, LogState> =
            logs.into_iter().map(|state| (state.log_index, state)).collect();
        let claims: Vec<Claim> = claims
            .into_iter()
            .map(|log_index| {
                let state = logs.get(&log_index);
                let (position, generation) =
                    state.map_or((0, 0), |state| (state.position, state.generation));
                Claim { log_index, position, generation }
            })
            .collect();
        for claim in &claims {
            recovery.follow(*claim, 0);
        }
        recovery.context.floor_sequence = header.record_sequence;
        recovery.snapshot = Some(Snapshot { header, map, logs, claims, hints });
        if self.setup.journal.is_some() {
            return self.read_journal(Box::default());
        }
        self.scan_next_log();
    }

    fn read_journal(&mut self, mut scan: Box<JournalScan>) {
        let place = self.setup.journal;
        let left = place.map_or(0, |place| place.bytes - scan.len());
        let Some(recovery) = self.recovering() else { return };
        if left == 0 {
            scan.parse(&recovery.context);
            return self.verify_next(scan);
        }
        let offset = place.map_or(0, |place| place.offset) + scan.len();
        recovery.step = Step::Journal(scan);
        self.recovery_read(offset, left.min(BODY_READ_BYTES));
    }

    fn on_journal_read(&mut self, mut scan: Box<JournalScan>, result: Result<Payload, DiskError>) {
        match bytes_of(result) {
            Ok(bytes) => {
                scan.push(&bytes);
                self.read_journal(scan);
            }
            Err(problem) => {
                self.recovery_fails(&format!("the map device could not be read: {problem}"));
            }
        }
    }

    fn verify_next(&mut self, mut scan: Box<JournalScan>) {
        while let Some(index) = scan.to_verify.pop() {
            if let Some((offset, len)) = scan.payload_of(index) {
                if let Some(recovery) = self.recovering() {
                    recovery.step = Step::Verify(scan, index);
                }
                return self.recovery_read(offset, len);
            }
        }
        if let Some(recovery) = self.recovering() {
            recovery.outside = scan.found.iter().find_map(|found| found.past_volume.clone());
            recovery.found = scan.found;
        }
        self.scans_are_done();
    }

    /// A payload that cannot be read may be that of a record that was acknowledged.
    fn on_payload_read(
        &mut self,
        mut scan: Box<JournalScan>,
        index: usize,
        result: Result<Payload, DiskError>,
    ) {
        let bytes = bytes_of(result);
        if let (Err(problem), Some(recovery)) = (&bytes, self.recovering()) {
            let offset = scan.payload_of(index).map_or(0, |(offset, _)| offset);
            let sequence = scan.found[index].header.sequence;
            let problem =
                format!("record {sequence} at device byte {offset}: could not be read: {problem}");
            recovery.unreadable.get_or_insert(problem);
        }
        scan.verify(index, bytes.ok().as_deref());
        self.verify_next(scan);
    }

    fn scan_next_log(&mut self) {
        let Some(recovery) = self.recovering() else { return };
        while recovery.to_scan.is_empty() {
            let Some(claim) = recovery.doubtful.pop_front() else { return self.scans_are_done() };
            recovery.follow(claim, u64::MAX);
        }
        let Some(claim) = recovery.to_scan.pop_front() else { return };
        recovery.result.logs += 1;
        let scan = Box::new(LogScan::new(claim, recovery.context.floor_sequence));
        self.continue_scan(scan);
    }

    fn continue_scan(&mut self, mut scan: Box<LogScan>) {
        let Some(recovery) = self.recovering() else { return };
        match scan.next_read(&recovery.context) {
            Some((offset, len)) => {
                recovery.step = Step::Scan(scan);
                self.recovery_read(offset, len);
            }
            None => self.scan_is_done(*scan),
        }
    }

    fn on_log_read(&mut self, mut scan: Box<LogScan>, result: Result<Payload, DiskError>) {
        let bytes = bytes_of(result);
        let Some(recovery) = self.recovering() else { return };
        match bytes {
            Ok(bytes) => scan.take(bytes, &recovery.context),
            Err(problem) => scan.unreadable(&problem, &recovery.context),
        }
        self.continue_scan(scan);
    }

    fn scan_is_done(&mut self, scan: LogScan) {
        let Some(recovery) = self.recovering() else { return };
        recovery.take_scan(scan);
        self.scan_next_log();
    }
}

fn bytes_of(result: Result<Payload, DiskError>) -> Result<nearhead_disk::Buffer, String> {
    match result {
        Ok(Payload::Bytes(bytes)) => Ok(bytes),
        Ok(Payload::Zeros(len)) => Ok(nearhead_disk::BufferMut::zeroed(len).freeze()),
        Ok(Payload::Phantom(_)) => {
            Err("the disk keeps no content (data-less simulation)".to_owned())
        }
        Err(error) => Err(error.detail),
    }
}

/// Device sector of a byte offset.
fn sector_of(offset: u64) -> u64 {
    offset / SECTOR_BYTES
}
