//! A crash disk that can also fail: the n-th matching command, once or from then on, with or without
//! having had its effect. It hashes every command it is given, so that two runs can be compared.

use nearhead_disk::{
    Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Submission, Ticket,
    Zones,
};
use nearhead_models::{CrashDisk, MemoryStore, SplitMix, UnflushedWrite};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Which commands fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Reads,
    Writes,
    Flushes,
}

/// A failure to come.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Only commands that touch these bytes, if given.
    pub(crate) range: Option<Range<u64>>,
    /// Matching commands that still succeed.
    pub(crate) after: u64,
    /// All later ones fail too.
    pub(crate) sticky: bool,
    /// The command has its effect although it fails.
    pub(crate) has_effect: bool,
}

impl Fault {
    fn matches(&self, command: &Command) -> bool {
        let (kind, start, len) = match command {
            Command::Read { offset, len } => (FaultKind::Reads, *offset, u64::from(*len)),
            Command::Write { offset, parts, .. } => {
                (FaultKind::Writes, *offset, nearhead_disk::total_len(parts) as u64)
            }
            Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
                (FaultKind::Writes, *offset, *len)
            }
            Command::Flush => return self.kind == FaultKind::Flushes,
        };
        let inside =
            self.range.as_ref().is_none_or(|range| start < range.end && range.start < start + len);
        kind == self.kind && inside
    }
}

/// What a cut at one moment may leave.
pub(crate) struct CutPoint {
    pub(crate) safe: MemoryStore,
    pub(crate) unflushed: Vec<UnflushedWrite>,
}

/// The disk.
pub(crate) struct TestDisk {
    inner: CrashDisk,
    /// The disk has no volatile cache: every completed write is safe.
    write_through: bool,
    latency: Nanos,
    faults: Vec<Fault>,
    pub(crate) faults_hit: u64,
    failing: Vec<u64>,
    failed: VecDeque<(Nanos, Ticket)>,
    commands: DefaultHasher,
    pub(crate) writes: u64,
    /// Every state since the last look, if somebody wants them.
    pub(crate) cut_points: Option<Vec<CutPoint>>,
    seen_changes: u64,
    zones: Option<Zones>,
}

impl TestDisk {
    pub(crate) fn with_image(properties: Properties, image: MemoryStore) -> Self {
        Self {
            write_through: !properties.volatile_cache,
            inner: CrashDisk::with_image(properties, image),
            latency: Nanos::ZERO,
            faults: Vec::new(),
            faults_hit: 0,
            failing: Vec::new(),
            failed: VecDeque::new(),
            commands: DefaultHasher::new(),
            writes: 0,
            cut_points: None,
            seen_changes: 0,
            zones: None,
        }
    }

    /// The disk tells its host that it is shingled so. It takes any write all the same.
    pub(crate) fn with_zones(mut self, zones: Option<Zones>) -> Self {
        self.zones = zones;
        self
    }

    pub(crate) fn with_latency(mut self, latency: Nanos) -> Self {
        let properties = self.inner.properties().clone();
        let image = self.image();
        self.inner = CrashDisk::with_image(properties, image).with_latency(latency);
        self.latency = latency;
        self
    }

    pub(crate) fn add_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(crate) fn mend(&mut self) {
        self.faults.clear();
    }

    /// A hash over every command so far.
    pub(crate) fn commands_hash(&self) -> u64 {
        self.commands.finish()
    }

    /// The content if nothing is lost.
    pub(crate) fn image(&self) -> MemoryStore {
        self.inner.image_after(&|_, _| true)
    }

    /// Cuts the power with a random outcome.
    pub(crate) fn power_cut(&mut self, random: &mut SplitMix) {
        self.inner.power_cut(random);
        self.forget();
    }

    /// The program that used the disk is gone: what it submitted takes effect, nobody is told.
    pub(crate) fn disown(&mut self) {
        while let Some(at) = self.inner.wake_at() {
            drop(self.inner.poll(at));
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.failing.clear();
        self.failed.drain(..).for_each(|(_, ticket)| ticket.abandon());
    }

    /// Remembers the present state if it differs from the last one.
    pub(crate) fn note_cut_point(&mut self) {
        let Some(points) = self.cut_points.as_mut() else { return };
        if self.inner.changes() == self.seen_changes && !points.is_empty() {
            return;
        }
        self.seen_changes = self.inner.changes();
        let safe = self.inner.image_after(&|_, _| false);
        points.push(CutPoint { safe, unflushed: self.inner.unflushed().to_vec() });
    }

    /// The fault that hits this command, if any: whether the command still has its effect.
    fn hit(&mut self, command: &Command) -> Option<bool> {
        let at = self.faults.iter_mut().position(|fault| {
            let matches = fault.matches(command);
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

fn failure() -> DiskError {
    DiskError { kind: DiskErrorKind::Io, detail: "injected failure (EIO)".to_owned() }
}

impl Disk for TestDisk {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn submit(&mut self, mut submission: Submission, now: Nanos) {
        self.note(&submission.command);
        match self.hit(&submission.command) {
            Some(false) => {
                return self.failed.push_back((now + self.latency, submission.ticket));
            }
            Some(true) => self.failing.push(submission.ticket.id().0),
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
        self.inner.submit(submission, now);
        self.note_cut_point();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        if self.failed.front().is_some_and(|(at, _)| *at <= now) {
            let (_, ticket) = self.failed.pop_front()?;
            return Some(ticket.complete(Err(failure())));
        }
        let mut completion = self.inner.poll(now)?;
        self.note_cut_point();
        if let Some(at) = self.failing.iter().position(|id| *id == completion.id.0) {
            self.failing.swap_remove(at);
            completion.result = Err(failure());
        }
        Some(completion)
    }

    fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }

    fn wake_at(&self) -> Option<Nanos> {
        let failed = self.failed.front().map(|(at, _)| *at);
        [self.inner.wake_at(), failed].into_iter().flatten().min()
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        self.forget();
    }
}
