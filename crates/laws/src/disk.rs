//! A crash disk that can also fail: the n-th matching command, once or from then on, with or without
//! having had its effect. It hashes every command it is given, so that two runs can be compared.

use crate::raw::bytes_of;
use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Submission, Ticket, Zones,
};
use nearhead_models::{CrashDisk, MemoryStore, Store, UnflushedWrite};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Which commands fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    Reads,
    Writes,
    Flushes,
}

/// A failure to come.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: FaultKind,
    /// Only commands that touch these bytes, if given.
    pub range: Option<Range<u64>>,
    /// Matching commands that still succeed.
    pub after: u64,
    /// All later ones fail too.
    pub sticky: bool,
    /// The command has its effect although it fails.
    pub has_effect: bool,
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

/// What of a write arrives that touches a bad sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrives {
    #[default]
    Nothing,
    /// What stands before the first bad sector.
    Before,
    /// All but the bad sectors.
    Around,
    /// All of it: the error is a lie.
    All,
}

/// What is wrong with the disk for as long as nobody mends it.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// One in so many writes fails, with or without effect; 0 for none.
    pub one_write_in: u64,
    /// Chance.
    pub seed: u64,
    /// Writes that touch these bytes fail.
    pub bad: Vec<Range<u64>>,
    /// What arrives of such a write.
    pub arrives: Arrives,
    /// Writes that touch these bytes find no space.
    pub full: Vec<Range<u64>>,
    /// Nothing is answered.
    pub is_silent: bool,
}

/// What a cut at one moment may leave.
pub struct CutPoint {
    pub safe: MemoryStore,
    pub unflushed: Vec<UnflushedWrite>,
}

/// The disk.
pub struct TestDisk {
    inner: CrashDisk,
    /// The disk has no volatile cache: every completed write is safe.
    write_through: bool,
    latency: Nanos,
    faults: Vec<Fault>,
    pub faults_hit: u64,
    failing: Vec<u64>,
    failed: VecDeque<(Nanos, Ticket, DiskErrorKind)>,
    trouble: Trouble,
    chance: SplitMix,
    commands: DefaultHasher,
    pub writes: u64,
    /// Every state since the last look, if somebody wants them.
    pub cut_points: Option<Vec<CutPoint>>,
    seen_changes: u64,
    zones: Option<Zones>,
}

impl TestDisk {
    pub fn with_image(properties: Properties, image: MemoryStore) -> Self {
        Self {
            write_through: !properties.volatile_cache,
            inner: CrashDisk::with_image(properties, image),
            latency: Nanos::ZERO,
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
            zones: None,
        }
    }

    /// The disk tells its host that it is shingled so. It takes any write all the same.
    #[must_use]
    pub fn with_zones(mut self, zones: Option<Zones>) -> Self {
        self.zones = zones;
        self
    }

    #[must_use]
    pub fn with_latency(mut self, latency: Nanos) -> Self {
        let properties = self.inner.properties().clone();
        let image = self.image();
        self.inner = CrashDisk::with_image(properties, image).with_latency(latency);
        self.latency = latency;
        self
    }

    pub fn add_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub fn set_trouble(&mut self, trouble: Trouble) {
        self.chance = SplitMix::new(trouble.seed);
        self.trouble = trouble;
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

    pub fn mend(&mut self) {
        self.trouble = Trouble::default();
        self.faults.clear();
    }

    /// A hash over every command so far.
    pub fn commands_hash(&self) -> u64 {
        self.commands.finish()
    }

    /// The content if nothing is lost.
    pub fn image(&self) -> MemoryStore {
        self.inner.image_after(&|_, _| true)
    }

    /// The content if all is lost that may be.
    pub fn safe_image(&self) -> MemoryStore {
        self.inner.image_after(&|_, _| false)
    }

    /// Cuts the power with a random outcome.
    pub fn power_cut(&mut self, random: &mut SplitMix) {
        self.inner.power_cut(random);
        self.forget();
    }

    /// The program that used the disk is gone: what it submitted takes effect, nobody is told.
    pub fn disown(&mut self) {
        while let Some(at) = self.inner.wake_at() {
            drop(self.inner.poll(at));
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.failing.clear();
        self.failed.drain(..).for_each(|(_, ticket, _)| ticket.abandon());
    }

    /// Remembers the present state if it differs from the last one.
    pub fn note_cut_point(&mut self) {
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

fn failure(kind: DiskErrorKind) -> DiskError {
    DiskError { kind, detail: format!("injected failure ({kind:?})") }
}

impl Disk for TestDisk {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.inner)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.inner)
    }

    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn submit(&mut self, mut submission: Submission, now: Nanos) {
        self.note(&submission.command);
        let hit = self.hit(&submission.command).map(|has_effect| (has_effect, DiskErrorKind::Io));
        match hit.or_else(|| self.troubled(&mut submission.command)) {
            Some((false, kind)) => {
                return self.failed.push_back((now + self.latency, submission.ticket, kind));
            }
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
        self.inner.submit(submission, now);
        self.note_cut_point();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        if self.trouble.is_silent {
            return None;
        }
        if self.failed.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, ticket, kind) = self.failed.pop_front()?;
            return Some(ticket.complete(Err(failure(kind))));
        }
        let mut completion = self.inner.poll(now)?;
        self.note_cut_point();
        if let Some(at) = self.failing.iter().position(|id| *id == completion.id.0) {
            self.failing.swap_remove(at);
            completion.result = Err(failure(DiskErrorKind::Io));
        }
        Some(completion)
    }

    fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.trouble.is_silent {
            return None;
        }
        let failed = self.failed.front().map(|(at, ..)| *at);
        [self.inner.wake_at(), failed].into_iter().flatten().min()
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        self.forget();
    }
}
