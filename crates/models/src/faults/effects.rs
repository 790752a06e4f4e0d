//! What a command does to the content, and what it is answered, under the plan's faults.

use super::cut::fill;
use super::kinds::FaultKind;
use super::{Answer, FaultDisk, Settles, injected};
use nearhead_disk::{
    BufferMut, Command, Disk, DiskError, DiskErrorKind, Payload, SECTOR_BYTES, total_len,
};

/// Commands for which a full disk stays full.
const FULL_COMMANDS_MAX: u64 = 40;
/// Largest range that fails for good, in bytes.
const STICKY_BYTES_MAX: u64 = 1 << 20;

/// What comes of a command.
pub(super) enum Effect {
    Done {
        answer: Answer,
        settles: Settles,
        slow: bool,
    },
    /// It is never answered.
    Hung,
}

/// What of a failing write reaches the medium.
#[derive(Clone, Copy)]
enum Part {
    Nothing,
    Whole,
    Some,
}

/// The same command without its bytes, for whoever only measures the time it takes.
pub(super) fn phantom(command: &Command) -> Command {
    match command {
        Command::Write { offset, parts, durable } => Command::Write {
            offset: *offset,
            parts: vec![Payload::Phantom(total_len(parts))],
            durable: *durable,
        },
        other => other.clone(),
    }
}

fn extent(command: &Command) -> Option<(u64, u64)> {
    match command {
        Command::Read { offset, len } => Some((*offset, u64::from(*len))),
        Command::Write { offset, parts, .. } => Some((*offset, total_len(parts) as u64)),
        Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
            Some((*offset, *len))
        }
        Command::Flush => None,
    }
}

fn writes(command: &Command) -> bool {
    !matches!(command, Command::Read { .. } | Command::Flush)
}

fn done(answer: Result<Payload, DiskError>, settles: Settles) -> Effect {
    Effect::Done { answer: Answer::Known(answer), settles, slow: false }
}

impl<D: Disk> FaultDisk<D> {
    /// Takes the command in; faults may change what it does and what it is answered.
    pub(super) fn carry_out(&mut self, command: Command) -> Effect {
        if !self.armed {
            return self.sound(command);
        }
        if let Some(effect) = self.exact_fault(&command) {
            return effect;
        }
        if let Some(effect) = self.lasting_fault(&command) {
            return effect;
        }
        if self.happens(FaultKind::Hang) {
            self.note(FaultKind::Hang);
            self.partly(&command, Part::Some);
            return Effect::Hung;
        }
        let slow = self.happens(FaultKind::Slow);
        if slow {
            self.note(FaultKind::Slow);
        }
        match self.reported_fault(command) {
            Ok(effect) => effect,
            Err(command) => match self.silently(command) {
                Effect::Done { answer, settles, .. } => Effect::Done { answer, settles, slow },
                Effect::Hung => Effect::Hung,
            },
        }
    }

    /// What a sound disk does. Some reads see what is there when they are answered, some what is there
    /// now.
    fn sound(&mut self, command: Command) -> Effect {
        let write_through = !self.properties.volatile_cache;
        match command {
            Command::Read { offset, len } => {
                let answer = if self.choices.coin() {
                    Answer::ReadLater { offset, len }
                } else {
                    Answer::Known(self.cache.read(offset, len))
                };
                Effect::Done { answer, settles: Settles::Nothing, slow: false }
            }
            Command::Write { offset, parts, durable } => {
                let len = total_len(&parts) as u64;
                let serial = self.cache.write(offset, parts, durable || write_through);
                done(Ok(Payload::EMPTY), Settles::Write { serial, offset, len })
            }
            Command::WriteZeroes { offset, len, durable } => {
                let parts = vec![Payload::Zeros(len as usize)];
                let serial = self.cache.write(offset, parts, durable || write_through);
                done(Ok(Payload::EMPTY), Settles::Write { serial, offset, len })
            }
            Command::Trim { offset, len } if self.properties.trim_reads_zero => {
                let parts = vec![Payload::Zeros(len as usize)];
                let serial = self.cache.write(offset, parts, write_through);
                done(Ok(Payload::EMPTY), Settles::Write { serial, offset, len })
            }
            Command::Trim { .. } => done(Ok(Payload::EMPTY), Settles::Nothing),
            Command::Flush => done(
                Ok(Payload::EMPTY),
                Settles::Flush(self.cache.covered_by_flush(&(0..u64::MAX))),
            ),
        }
    }

    /// Fails the command; of a write some part may be there all the same.
    fn failed(&mut self, command: &Command, what: &str, kind: DiskErrorKind, part: Part) -> Effect {
        let settles = self.partly(command, part);
        done(Err(injected(kind, what, command)), settles)
    }

    /// Lets a part of a write reach the cache, or the medium if there is no cache.
    fn partly(&mut self, command: &Command, part: Part) -> Settles {
        if !writes(command) {
            return Settles::Nothing;
        }
        let Some((offset, len)) = extent(command) else { return Settles::Nothing };
        let sector = u64::from(self.properties.sector_bytes);
        let kept = match part {
            Part::Nothing => 0,
            Part::Whole => len,
            Part::Some => self.choices.below(len / sector + 1) * sector,
        };
        let parts = match command {
            Command::Write { parts, .. } => head(parts, kept as usize),
            Command::WriteZeroes { .. } => vec![Payload::Zeros(kept as usize)],
            _ => return Settles::Nothing,
        };
        if kept == 0 {
            return Settles::Nothing;
        }
        let write_through = !self.properties.volatile_cache;
        let serial = self.cache.write(offset, parts, write_through);
        Settles::Write { serial, offset, len: kept }
    }

    fn exact_fault(&mut self, command: &Command) -> Option<Effect> {
        let fault = self.plan.nth?;
        let count = self.commands_of_plan;
        if count < fault.nth || (count > fault.nth && !fault.sticky) {
            return None;
        }
        self.note(fault.kind);
        Some(match fault.kind {
            FaultKind::Hang => {
                self.partly(command, Part::Some);
                Effect::Hung
            }
            FaultKind::Full if writes(command) => {
                self.failed(command, "no space", DiskErrorKind::OutOfSpace, Part::Nothing)
            }
            FaultKind::Full => return None,
            FaultKind::Gone => {
                self.failed(command, "the disk is gone", DiskErrorKind::Gone, Part::Nothing)
            }
            FaultKind::ShortWrite => {
                self.failed(command, "short transfer", DiskErrorKind::Io, Part::Some)
            }
            _ => {
                let part = if self.choices.coin() { Part::Whole } else { Part::Nothing };
                self.failed(command, "EIO", DiskErrorKind::Io, part)
            }
        })
    }

    /// Faults that began earlier, or begin now, and last.
    fn lasting_fault(&mut self, command: &Command) -> Option<Effect> {
        let sector = SECTOR_BYTES;
        if !self.gone && self.happens(FaultKind::Gone) {
            self.gone = true;
        }
        if self.gone {
            self.note(FaultKind::Gone);
            let (what, kind) = ("the disk is gone", DiskErrorKind::Gone);
            return Some(self.failed(command, what, kind, Part::Nothing));
        }
        let range = extent(command);
        if let Some((offset, _)) = range.filter(|_| self.happens(FaultKind::StickyError)) {
            let len = sector << self.choices.below((STICKY_BYTES_MAX / sector).ilog2().into());
            self.sticky.push(offset..offset + len);
        }
        if let Some((offset, len)) = range {
            let hit = |bad: &std::ops::Range<u64>| offset < bad.end && bad.start < offset + len;
            if self.sticky.iter().any(hit) {
                self.note(FaultKind::StickyError);
                return Some(self.failed(command, "EIO", DiskErrorKind::Io, Part::Some));
            }
        }
        if writes(command) && !matches!(command, Command::Trim { .. }) {
            if self.full_left == 0 && self.happens(FaultKind::Full) {
                self.full_left = 1 + self.choices.below(FULL_COMMANDS_MAX);
            }
            if self.full_left > 0 {
                self.full_left -= 1;
                self.note(FaultKind::Full);
                let kind = DiskErrorKind::OutOfSpace;
                return Some(self.failed(command, "no space", kind, Part::Nothing));
            }
        }
        None
    }

    /// Faults of this one command that the disk reports; the command comes back if there is none.
    fn reported_fault(&mut self, command: Command) -> Result<Effect, Command> {
        let (kind, part) = match &command {
            Command::Read { .. } => (FaultKind::ReadError, Part::Nothing),
            Command::Flush => (FaultKind::FlushError, Part::Nothing),
            _ if self.happens(FaultKind::ShortWrite) => {
                self.note(FaultKind::ShortWrite);
                let (what, kind) = ("short transfer", DiskErrorKind::Io);
                return Ok(self.failed(&command, what, kind, Part::Some));
            }
            _ if self.choices.coin() => (FaultKind::WriteError, Part::Whole),
            _ => (FaultKind::WriteError, Part::Nothing),
        };
        if !self.happens(kind) {
            return Err(command);
        }
        self.note(kind);
        Ok(self.failed(&command, "EIO", DiskErrorKind::Io, part))
    }

    fn may_be_silent(&self, command: &Command) -> bool {
        self.silent_left > 0
            && extent(command).is_some_and(|(offset, len)| {
                if writes(command) {
                    self.plan.damageable_at(offset, len).is_some()
                } else {
                    self.plan.misreadable_at(offset, len).is_some()
                }
            })
    }

    fn is_hit_silently(&mut self, kind: FaultKind) -> bool {
        let hit = self.happens(kind);
        if hit {
            self.silent_left -= 1;
            self.note(kind);
        }
        hit
    }

    /// Faults that nobody reports, or none.
    fn silently(&mut self, command: Command) -> Effect {
        if !self.may_be_silent(&command) {
            return self.sound(command);
        }
        match command {
            Command::Read { offset, len } if self.is_hit_silently(FaultKind::MisdirectedRead) => {
                let elsewhere = self.elsewhere(offset, u64::from(len));
                done(self.cache.read(elsewhere, len), Settles::Nothing)
            }
            Command::Read { offset, len } if self.is_hit_silently(FaultKind::TornRead) => {
                done(self.torn_read(offset, len), Settles::Nothing)
            }
            Command::Write { .. } if self.is_hit_silently(FaultKind::LostWrite) => {
                done(Ok(Payload::EMPTY), Settles::Nothing)
            }
            Command::Write { offset, ref parts, .. }
                if self.is_hit_silently(FaultKind::TornWrite) =>
            {
                let sector = self.properties.sector_bytes as usize;
                let kept = self.choices.below((total_len(parts) / sector) as u64) as usize;
                let parts = head(parts, kept * sector);
                if parts.is_empty() {
                    return done(Ok(Payload::EMPTY), Settles::Nothing);
                }
                self.sound(Command::Write { offset, parts, durable: true })
            }
            Command::Write { offset, parts, .. }
                if self.is_hit_silently(FaultKind::MisdirectedWrite) =>
            {
                let offset = self.elsewhere(offset, total_len(&parts) as u64);
                self.sound(Command::Write { offset, parts, durable: true })
            }
            command => self.sound(command),
        }
    }

    /// Another place of the same verified range for a transfer.
    fn elsewhere(&mut self, offset: u64, len: u64) -> u64 {
        let sector = u64::from(self.properties.sector_bytes);
        let range = self.plan.damageable_at(offset, len).or(self.plan.misreadable_at(offset, len));
        let Some(range) = range else { return offset };
        let places = (range.end - range.start - len) / sector + 1;
        range.start + self.choices.below(places) * sector
    }

    fn torn_read(&mut self, offset: u64, len: u32) -> Result<Payload, DiskError> {
        let mut bytes = BufferMut::zeroed(len as usize);
        self.cache.read(offset, len)?.copy_to(&mut bytes);
        let sector = self.properties.sector_bytes as usize;
        let good = self.choices.below((len as usize / sector) as u64) as usize;
        fill(&mut bytes[good * sector..], &mut self.choices);
        Ok(Payload::Bytes(bytes.freeze()))
    }

    /// Turns over one to eight bits of a sector that is safe and covered by checksums.
    pub(super) fn rot(&mut self) {
        let count = self.rottable.len() as u64;
        let place = self.choices.below(count) as usize;
        let Some((offset, len)) = self.rottable.get(place).copied() else { return };
        self.silent_left -= 1;
        self.note(FaultKind::BitRot);
        self.flip(offset, len);
    }

    fn flip(&mut self, offset: u64, len: u64) {
        use crate::store::Store;
        for _ in 0..=self.choices.below(8) {
            let (at, bit) = (offset + self.choices.below(len), self.choices.below(8));
            let mut byte = [0];
            // A store in memory cannot fail.
            let _ = self.cache.safe().read(at, &mut byte);
            let _ = self.cache.safe_mut().write(at, &[byte[0] ^ (1 << bit)]);
        }
    }

    /// Turns over some bits somewhere in a range while nothing is outstanding: rot of a disk at rest.
    pub fn rot_in(&mut self, range: std::ops::Range<u64>) {
        self.note(FaultKind::BitRot);
        self.flip(range.start, range.end - range.start);
    }
}

/// The first `len` bytes of `parts`.
fn head(parts: &[Payload], len: usize) -> Vec<Payload> {
    let (mut left, mut kept) = (len, Vec::new());
    for part in parts {
        let take = part.len().min(left);
        if take > 0 {
            kept.push(part.slice(0..take));
        }
        left -= take;
    }
    kept
}
