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
//! 5. a flush of each device, so that what was read is also what a power cut would leave; then requests.
//!
//! How the records of the third step are found is a policy ([`find`]). Told to, a recovery does without a snapshot: then
//! every log is read whole ([`rebuild`]).
//!
//! The decision table in docs/recovery.md lists every combination of damage and what follows.

mod adopt;
mod bounds;
#[cfg(test)]
mod bounds_tests;
mod careful;
mod chain;
mod find;
mod load;
#[cfg(test)]
mod machine_tests;
mod rebuild;
#[cfg(test)]
mod rebuild_tests;
mod replay;
mod slots;

pub(crate) use adopt::Recovered;
pub use rebuild::{Doubt, Rebuilt};

use crate::config::{MapPlace, Setup};
use crate::state::findings::RecoveredState;
use crate::state::paged::PagedBounds;
use careful::{CarefulRead, FAILURES_MAX, Piece, Progress};
use find::{Finder, Findings, ScanContext};
use load::{LoadedMap, Loading};
use nearhead_disk::{At, DiskError, DiskErrorKind, Lane, Payload};
use nearhead_format::record::Claim;
use nearhead_format::snapshot::{FragmentCell, HintRange, LogState, SnapshotHeader};
use slots::FoundSlot;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What a sound snapshot said.
struct Snapshot {
    header: SnapshotHeader,
    map: LoadedMap,
    logs: BTreeMap<u32, LogState>,
    claims: Vec<Claim>,
    hints: Vec<HintRange>,
    fragments: Vec<FragmentCell>,
}

enum Step {
    Header {
        slot: usize,
    },
    HeaderCopy {
        slot: usize,
        header: slots::Place,
    },
    Body(Box<Loading>),
    /// Records are looked for.
    Find(Box<dyn Finder>),
    /// What was read becomes durable.
    Flush(Box<Recovered>),
    /// Nothing was asked for yet.
    Start,
    /// Nothing is any more.
    Done,
}

/// What a recovery wants.
pub(crate) enum Next {
    /// These bytes.
    Read { at: At, len: u32 },
    /// A flush of that device.
    Flush { lane: Lane },
    /// The volume as it was.
    Open(Box<Recovered>),
    /// It is not served.
    Refuse(Refusal),
}

/// Why a volume is not served.
pub(crate) struct Refusal {
    problem: String,
    /// What was found until then.
    found: RecoveredState,
}

impl Refusal {
    /// The reason, and what was found until then.
    pub(crate) fn into_parts(self) -> (String, RecoveredState) {
        (self.problem, self.found)
    }
}

/// Conditions of a recovery.
#[derive(Default)]
struct Terms {
    accept_loss: bool,
    rebuild: bool,
    base: Option<Arc<Vec<u8>>>,
    /// Devices of which what was read may still be lost, and a flush is allowed.
    flushes: Vec<Lane>,
    /// Addresses of devices that were missing before the recovery began.
    absent: Vec<Range<u64>>,
}

/// The state between two reads.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
pub(crate) struct Recovery {
    step: Step,
    /// The read that is on the disk.
    reading: Option<CarefulRead>,
    /// Failed reads after which nothing is retried or split any more.
    failures_left: u32,
    slots: Vec<FoundSlot>,
    /// Sound headers, the one to try first last.
    headers: Vec<SnapshotHeader>,
    slot_problems: Vec<String>,
    snapshot: Option<Snapshot>,
    /// The first snapshot header that could not be read and may be newer than anything found.
    unreadable: Option<String>,
    /// What the claimed logs hold, while all logs are read whole as well because a loss was accepted.
    before_sweep: Option<Findings>,
    has_swept: bool,
    /// Logs that nothing claims are looked into as well, because a record is gone that may have claimed one.
    has_peeked: bool,
    /// A device is not there: looking further would take long and change nothing.
    is_device_gone: bool,
    /// The newest record that a snapshot includes whose header is sound and whose body is not.
    known_sequence: u64,
    /// The highest number of a snapshot whose header is sound, whatever its body is.
    known_snapshot: u64,
    /// No snapshot counts, and what is found is all that there is.
    rebuilds: bool,
    context: ScanContext,
    map: MapPlace,
    /// The bounds of a paged map; none of one that is read whole.
    paged: Option<PagedBounds>,
    terms: Terms,
    result: RecoveredState,
}

impl Recovery {
    /// Of the volume that `setup` describes; a snapshot from elsewhere that it brings is taken out.
    pub(crate) fn of(setup: &mut Setup) -> Self {
        let paged = setup.paged_bounds();
        let base = setup.config.base.take();
        let config = &setup.config;
        let flushes = !config.read_only;
        let terms = Terms {
            accept_loss: config.accept_loss,
            rebuild: config.rebuild,
            base,
            flushes: if flushes { volatile_lanes(setup) } else { Vec::new() },
            absent: absent_addresses(setup),
        };
        Self { paged, ..Self::new(ScanContext::new(setup), setup.map, terms) }
    }

    fn new(context: ScanContext, map: MapPlace, terms: Terms) -> Self {
        Self {
            step: Step::Start,
            reading: None,
            failures_left: FAILURES_MAX,
            slots: Vec::new(),
            headers: Vec::new(),
            slot_problems: Vec::new(),
            snapshot: None,
            unreadable: None,
            before_sweep: None,
            has_swept: false,
            has_peeked: false,
            is_device_gone: false,
            known_sequence: 0,
            known_snapshot: 0,
            rebuilds: false,
            context,
            map,
            paged: None,
            terms,
            result: RecoveredState::default(),
        }
    }
}

impl Recovery {
    /// What to do now that the last thing asked for is `done` (nothing, at first). After [`Next::Open`] and
    /// [`Next::Refuse`] there is nothing more to ask.
    pub(crate) fn next(&mut self, done: Option<Result<Payload, DiskError>>) -> Next {
        let Some(result) = done else { return self.begin() };
        let Some(mut reading) = self.reading.take() else { return self.on_flush(result) };
        let error = result.as_ref().err().cloned();
        let progress = reading.next(result, &mut self.failures_left);
        if let Some(problem) =
            error.and_then(|error| self.whole_device_failed(&error, reading.at()))
        {
            self.step = Step::Done;
            return self.refuse(problem);
        }
        match progress {
            Progress::Read { at, len } => {
                self.reading = Some(reading);
                Next::Read { at, len: len as u32 }
            }
            Progress::Done(piece) => self.on_read(piece),
        }
    }

    /// Why recovery ends because of `error`, if the device failed and not a place on it. Its records are not lost, so none of
    /// them may count as damaged: the next snapshot would make that durable.
    fn whole_device_failed(&mut self, error: &DiskError, at: At) -> Option<String> {
        let is_gone = error.kind == DiskErrorKind::Gone;
        let is_absent = |addresses: &Range<u64>| addresses.contains(&at.offset);
        if at.lane == Lane::MAIN && self.terms.absent.iter().any(is_absent) {
            self.is_device_gone |= is_gone;
            return None;
        }
        if is_gone {
            return Some(format!(
                "a device went away while the volume was read: {error}; nothing was changed: bring it back and open the volume again"
            ));
        }
        (self.failures_left == 0 && !self.terms.accept_loss).then(|| {
            format!(
                "{FAILURES_MAX} reads failed, the last one with: {error}; nothing was changed: mend the device or its connection, or see \
                 what would be lost with `nearhead repair --dry-run` and accept the loss with `nearhead repair --accept-loss`"
            )
        })
    }

    fn on_read(&mut self, piece: Piece) -> Next {
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Header { slot } => self.on_slot_header(slot, &piece),
            Step::HeaderCopy { slot, header } => self.on_slot_copy(slot, header, &piece),
            Step::Body(loading) => self.on_body(loading, piece),
            Step::Find(finder) => self.on_find_read(finder, piece),
            Step::Flush(_) | Step::Start | Step::Done => self.unasked(),
        }
    }

    fn on_flush(&mut self, result: Result<Payload, DiskError>) -> Next {
        match (std::mem::replace(&mut self.step, Step::Done), result) {
            (Step::Flush(recovered), Ok(_)) => self.flush_or_open(recovered),
            (Step::Flush(_), Err(error)) => {
                self.refuse(format!("the device could not be flushed: {error}"))
            }
            _ => self.unasked(),
        }
    }

    fn unasked(&mut self) -> Next {
        self.refuse("an answer that nothing was asked for (internal error)".to_owned())
    }

    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.step, Step::Start)
    }

    fn begin(&mut self) -> Next {
        match self.terms.base.take() {
            Some(base) => self.load_base(&base),
            None => self.read_header(0),
        }
    }

    /// Looks for records: asks for the bytes that the finder wants, until it has seen all of them.
    fn find(&mut self, mut finder: Box<dyn Finder>) -> Next {
        if let Some((at, len)) = finder.next_read(&self.context) {
            self.step = Step::Find(finder);
            return self.read(at, len);
        }
        let findings = finder.findings();
        if self.rebuilds { self.rebuild(findings) } else { self.replay(findings) }
    }

    fn on_find_read(&mut self, mut finder: Box<dyn Finder>, piece: Piece) -> Next {
        finder.take(piece, &self.context);
        self.find(finder)
    }

    fn read(&mut self, at: At, len: u64) -> Next {
        self.result.note_read(len);
        self.reading = Some(CarefulRead::new(at, len, self.context.sector_bytes()));
        Next::Read { at, len: len as u32 }
    }

    fn refuse(&mut self, problem: String) -> Next {
        Next::Refuse(Refusal { problem, found: std::mem::take(&mut self.result) })
    }
}

/// The devices that may lose what was answered, in their order.
fn volatile_lanes(setup: &Setup) -> Vec<Lane> {
    let volatile = setup.devices().filter(|(_, facts)| facts.volatile_cache);
    volatile.map(|(lane, _)| lane).collect()
}

/// The addresses of data devices that are missing. A read names the volume's own disk and such an address.
fn absent_addresses(setup: &Setup) -> Vec<Range<u64>> {
    let devices = (0..).zip(setup.layout.data_devices());
    let absent = devices.filter(|(position, _)| setup.absent_devices.contains(position));
    absent.map(|(_, addresses)| addresses).collect()
}
