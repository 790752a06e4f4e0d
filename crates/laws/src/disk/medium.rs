//! What the devices of a test share: the medium with its cache, what fails on it, and what was asked of it.
//!
//! Its addresses go on over the devices, one after the other. So one cut hits all of them at the same moment and one image holds
//! all of them, while each has a cache of its own: what is flushed on one is not flushed on another. It hashes every command it is
//! given, so that two runs can be compared.

use super::faults::{Arrives, Fault, Trouble};
use crate::raw::bytes_of;
use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Submission, Ticket,
};
use nearhead_models::{CrashDisk, MemoryStore, Store, UnflushedWrite};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash};
use std::ops::Range;

/// What a cut at one moment may leave.
pub struct CutPoint {
    pub safe: MemoryStore,
    pub unflushed: Vec<UnflushedWrite>,
}

/// A read that waits for its turn.
struct LateRead {
    at: Nanos,
    part: Range<u64>,
    submission: Submission,
}

/// The medium.
pub(super) struct Medium {
    pub(super) inner: CrashDisk,
    /// There is no volatile cache: every completed write is safe.
    write_through: bool,
    latency: Nanos,
    /// Reads are carried out so long after they came, each sooner or later by a chance of its own; what they bring is what is there then.
    reads_late: Nanos,
    late: Vec<LateRead>,
    faults: Vec<Fault>,
    pub(super) faults_hit: u64,
    failing: Vec<u64>,
    failed: VecDeque<(Nanos, Ticket, DiskError)>,
    trouble: Trouble,
    chance: SplitMix,
    pub(super) commands: DefaultHasher,
    pub(super) writes: u64,
    /// Every state since the last look, if somebody wants them.
    pub(super) cut_points: Option<Vec<CutPoint>>,
    seen_changes: u64,
}

impl Medium {
    pub(super) fn new(properties: Properties, image: MemoryStore) -> Self {
        Self {
            write_through: !properties.volatile_cache,
            inner: CrashDisk::with_image(properties, image),
            latency: Nanos::ZERO,
            reads_late: Nanos::ZERO,
            late: Vec::new(),
            faults: Vec::new(),
            faults_hit: 0,
            failing: Vec::new(),
            failed: VecDeque::new(),
            trouble: Trouble::default(),
            chance: SplitMix::new(0),
            commands: DefaultHasher::new(),
            writes: 0,
            cut_points: None,
            seen_changes: 0,
        }
    }

    pub(super) fn set_latency(&mut self, latency: Nanos) {
        let (properties, image) = (self.inner.properties().clone(), self.image());
        self.inner = CrashDisk::with_image(properties, image).with_latency(latency);
        self.latency = latency;
    }

    pub(super) fn set_reads_late(&mut self, most: Nanos, seed: u64) {
        self.reads_late = most;
        self.chance = SplitMix::new(seed);
    }

    /// Carries out the late reads whose time has come, in their order.
    fn begin_late(&mut self, now: Nanos) {
        while let Some(at) = self.late.iter().enumerate().min_by_key(|(_, late)| late.at) {
            if at.1.at > now {
                return;
            }
            let LateRead { part, submission, .. } = self.late.remove(at.0);
            self.inner.submit_to_part(&part, submission, now);
        }
    }

    pub(super) fn add_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(super) fn set_trouble(&mut self, trouble: Trouble) {
        self.chance = SplitMix::new(trouble.seed);
        self.trouble = trouble;
    }

    pub(super) fn mend(&mut self) {
        self.trouble = Trouble::default();
        self.faults.clear();
    }

    /// The content if nothing is lost.
    pub(super) fn image(&self) -> MemoryStore {
        self.inner.image_after(&|_, _| true)
    }

    pub(super) fn power_cut(&mut self, random: &mut SplitMix) {
        self.inner.power_cut(random);
        self.forget();
    }

    /// Whatever was submitted takes effect, nobody is told.
    pub(super) fn disown(&mut self) {
        while let Some(at) = self.inner.wake_at() {
            drop(self.inner.poll(at));
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.failing.clear();
        self.late.drain(..).for_each(|late| late.submission.ticket.abandon());
        self.failed.drain(..).for_each(|(_, ticket, _)| ticket.abandon());
    }

    /// It is answered with this error, and has no effect.
    pub(super) fn refuse(&mut self, ticket: Ticket, error: DiskError, now: Nanos) {
        self.failed.push_back((now + self.latency, ticket, error));
    }

    /// A command, at addresses of the medium, to the device that has `part` of it.
    pub(super) fn submit(&mut self, part: &Range<u64>, mut submission: Submission, now: Nanos) {
        self.note(&submission.command);
        let hit =
            self.hit(&submission.command, part).map(|has_effect| (has_effect, DiskErrorKind::Io));
        match hit.or_else(|| self.troubled(&mut submission.command)) {
            Some((false, kind)) => return self.refuse(submission.ticket, failure(kind), now),
            Some((true, _)) => self.failing.push(submission.ticket.id().0),
            None => {}
        }
        if self.write_through {
            match &mut submission.command {
                Command::Write { durable, .. } | Command::WriteZeroes { durable, .. } => {
                    *durable = true;
                }
                _ => {}
            }
        }
        if self.reads_late > Nanos::ZERO && matches!(submission.command, Command::Read { .. }) {
            let at = now + Nanos(self.chance.below(self.reads_late.0));
            return self.late.push(LateRead { at, part: part.clone(), submission });
        }
        self.inner.submit_to_part(part, submission, now);
        self.note_cut_point();
    }

    /// The next completion, of whichever device.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<Completion> {
        if self.trouble.is_silent {
            return None;
        }
        if self.failed.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, ticket, error) = self.failed.pop_front()?;
            return Some(ticket.complete(Err(error)));
        }
        self.begin_late(now);
        let mut completion = self.inner.poll(now)?;
        self.note_cut_point();
        if let Some(at) = self.failing.iter().position(|id| *id == completion.id.0) {
            self.failing.swap_remove(at);
            completion.result = Err(failure(DiskErrorKind::Io));
        }
        Some(completion)
    }

    pub(super) fn wake_at(&self) -> Option<Nanos> {
        if self.trouble.is_silent {
            return None;
        }
        let failed = self.failed.front().map(|(at, ..)| *at);
        let late = self.late.iter().map(|late| late.at).min();
        [self.inner.wake_at(), failed, late].into_iter().flatten().min()
    }

    /// Remembers the present state if it differs from the last one.
    pub(super) fn note_cut_point(&mut self) {
        let Some(points) = self.cut_points.as_mut() else { return };
        if self.inner.changes() == self.seen_changes && !points.is_empty() {
            return;
        }
        self.seen_changes = self.inner.changes();
        let safe = self.inner.image_after(&|_, _| false);
        points.push(CutPoint { safe, unflushed: self.inner.unflushed().to_vec() });
    }

    /// Leaves of a write that touches bad sectors what arrives of it.
    fn spoil(&self, command: &mut Command) {
        let Command::Write { offset, parts, .. } = command else { return };
        let (start, mut bytes) = (*offset, bytes_of(parts));
        let mut old = vec![0; bytes.len()];
        self.image().read(start, &mut old).unwrap();
        let mut is_lost = false;
        for (index, sector) in bytes.chunks_mut(512).enumerate() {
            let from = start + index as u64 * 512;
            let is_bad =
                self.trouble.bad.iter().any(|bad| bad.start < from + 512 && from < bad.end);
            is_lost = is_bad || is_lost && self.trouble.arrives == Arrives::Before;
            if is_lost {
                sector.copy_from_slice(&old[index * 512..(index + 1) * 512]);
            }
        }
        *parts = vec![Payload::Bytes(BufferMut::copy_of(&bytes).freeze())];
    }

    /// The failure that lasting trouble means for this command, if any, and whether it has its effect.
    fn troubled(&mut self, command: &mut Command) -> Option<(bool, DiskErrorKind)> {
        let is_write = matches!(command, Command::Write { .. });
        let (start, end) = match command {
            Command::Write { offset, parts, .. } => {
                (*offset, *offset + nearhead_disk::total_len(parts) as u64)
            }
            Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
                (*offset, *offset + *len)
            }
            Command::Read { .. } | Command::Flush => return None,
        };
        let touches = |ranges: &[Range<u64>]| {
            ranges.iter().any(|range| start < range.end && range.start < end)
        };
        let trouble = &self.trouble;
        let found = if touches(&trouble.full) {
            (false, DiskErrorKind::OutOfSpace)
        } else if touches(&trouble.bad) {
            let arrives = is_write && trouble.arrives != Arrives::Nothing;
            if arrives && trouble.arrives != Arrives::All {
                self.spoil(command);
            }
            (arrives, DiskErrorKind::Io)
        } else if trouble.one_write_in > 0 && self.chance.below(trouble.one_write_in) == 0 {
            (self.chance.coin(), DiskErrorKind::Io)
        } else {
            return None;
        };
        self.faults_hit += 1;
        Some(found)
    }

    /// The fault that hits this command, if any: whether the command still has its effect.
    fn hit(&mut self, command: &Command, part: &Range<u64>) -> Option<bool> {
        let at = self.faults.iter_mut().position(|fault| {
            let matches = fault.matches(command, part);
            let hits = matches && fault.after == 0;
            fault.after -= u64::from(matches && !hits);
            hits
        })?;
        self.faults_hit += 1;
        let has_effect = self.faults[at].has_effect;
        if !self.faults[at].sticky {
            self.faults.remove(at);
        }
        Some(has_effect)
    }

    fn note(&mut self, command: &Command) {
        let hasher = &mut self.commands;
        match command {
            Command::Read { offset, len } => (1, offset, len).hash(hasher),
            Command::Write { offset, parts, durable } => {
                (2, offset, durable).hash(hasher);
                for part in parts {
                    let mut bytes = vec![0; part.len()];
                    part.copy_to(&mut bytes);
                    bytes.hash(hasher);
                }
            }
            Command::WriteZeroes { offset, len, durable } => {
                (3, offset, len, durable).hash(hasher);
            }
            Command::Trim { offset, len } => (4, offset, len).hash(hasher),
            Command::Flush => 5.hash(hasher),
        }
        let changes = !matches!(command, Command::Read { .. } | Command::Flush);
        self.writes += u64::from(changes);
    }
}

fn failure(kind: DiskErrorKind) -> DiskError {
    DiskError { kind, detail: format!("injected failure ({kind:?})") }
}

impl Drop for Medium {
    fn drop(&mut self) {
        self.forget();
    }
}
