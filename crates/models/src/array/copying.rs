//! Bringing a member of a mirror up to date, piece by piece, while the mirror is used.
//!
//! A member that is behind gets every change from the beginning, and in the background everything
//! else, from the lowest address to the highest. What stays true:
//! - while a piece is on its way no change of the same bytes is, or the older bytes of the piece
//!   could land over the newer ones; such changes wait for the piece, which is short;
//! - a member is read, and counts, only when all of it was copied and flushed;
//! - how far it got is noted on it only after a flush, so a crash repeats at most what came after.
//!
//! Without clients pieces follow each other; with some, one begins every tenth of a second.

use super::Core;
use super::keeper::Standing;
use super::mirror::{Copies, Parts};
use nearhead_disk::{Class, Command, Disk, DiskError, Nanos, Payload};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of a piece: long enough to stream, short enough to wait for.
const PIECE_BYTES: u64 = 1 << 20;

/// Time between pieces while clients have something to do: 10 MiB/s at least.
const PAUSE: Nanos = Nanos(100_000_000);

/// Time until a piece is tried again that a change was in the way of.
const RETRY: Nanos = Nanos(1_000_000);

/// Bytes copied between two notes of how far.
const NOTE_BYTES: u64 = 1 << 30;

/// What is being done.
#[derive(Debug)]
pub(super) enum Step {
    /// The next piece may begin then.
    Rest { until: Nanos },
    /// A piece is read; these members were asked.
    Reading { id: u64, tried: Vec<usize> },
    /// A piece is written.
    Writing { id: u64 },
    /// What was written is made durable.
    Flushing { id: u64 },
}

/// A member that is being copied to.
#[derive(Debug)]
pub(super) struct Copying {
    pub(super) member: usize,
    /// Bytes from the beginning that are copied.
    pub(super) done_bytes: u64,
    /// Bytes of these that were flushed and noted.
    pub(super) noted_bytes: u64,
    pub(super) step: Step,
    /// Changes that wait for the piece under way.
    pub(super) waiting: VecDeque<(u64, Class, Command)>,
}

impl Copying {
    pub(super) fn new(member: usize, from: u64, now: Nanos) -> Self {
        let step = Step::Rest { until: now };
        let waiting = VecDeque::new();
        Self { member, done_bytes: from, noted_bytes: from, step, waiting }
    }

    /// The bytes that are on their way.
    pub(super) fn piece(&self, end: u64, bytes_max: u64) -> Range<u64> {
        self.done_bytes..(self.done_bytes + bytes_max).min(end)
    }

    /// Whether a piece is on its way.
    pub(super) fn is_moving(&self) -> bool {
        matches!(self.step, Step::Reading { .. } | Step::Writing { .. })
    }

    /// Whether the command is the one that is waited for.
    pub(super) fn waits_for(&self, command: u64) -> bool {
        match self.step {
            Step::Rest { .. } => false,
            Step::Reading { id, .. } | Step::Writing { id } | Step::Flushing { id } => {
                id == command
            }
        }
    }

    /// When the next piece may begin, if that is what is waited for.
    pub(super) fn rests_until(&self) -> Option<Nanos> {
        match self.step {
            Step::Rest { until } => Some(until),
            _ => None,
        }
    }
}

/// The bytes that a change changes; none for a flush.
pub(super) fn changed_bytes(command: &Command) -> Option<Range<u64>> {
    let (offset, len) = match command {
        Command::Write { offset, parts, .. } => (*offset, nearhead_disk::total_len(parts) as u64),
        Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => (*offset, *len),
        Command::Read { .. } | Command::Flush => return None,
    };
    Some(offset..offset + len)
}

/// Whether two ranges have a byte in common.
pub(super) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Copies {
    /// Goes on with what the mirror does by itself.
    pub(super) fn go_on<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        if let Some(keeper) = &mut self.keeper {
            keeper.advance(core, &self.standings);
        }
        if self.copying.is_none() {
            let behind = self.standings.iter().enumerate().find_map(|(member, standing)| {
                if let Standing::Behind(from) = standing { Some((member, *from)) } else { None }
            });
            self.copying = behind.map(|(member, from)| Copying::new(member, from, core.now));
        }
        let end = core.properties.capacity_bytes;
        let Some(copying) = &mut self.copying else { return };
        if copying.rests_until().is_none_or(|until| until > core.now) {
            return;
        }
        if copying.done_bytes >= end || copying.done_bytes - copying.noted_bytes >= NOTE_BYTES {
            let id = core.desk.number();
            copying.step = Step::Flushing { id };
            core.members.submit(copying.member, id, Class::Background, Command::Flush, core.now);
            return core.members.kick();
        }
        let piece = copying.piece(end, piece_bytes(core));
        let in_the_way = |parts: &Parts| match parts {
            Parts::Change { range: Some(range), .. } => overlap(range, &piece),
            _ => false,
        };
        if core.desk.kinds().any(in_the_way) {
            copying.step = Step::Rest { until: core.now + RETRY };
        } else {
            self.read_piece(core, Vec::new());
        }
    }

    fn read_piece<D: Disk>(&mut self, core: &mut Core<D, Parts>, mut tried: Vec<usize>) {
        let Some(reader) = self.in_sync().find(|index| !tried.contains(index)) else { return };
        let end = core.properties.capacity_bytes;
        let Some(copying) = &mut self.copying else { return };
        let piece = copying.piece(end, piece_bytes(core));
        tried.push(reader);
        let id = core.desk.number();
        copying.step = Step::Reading { id, tried };
        let len = (piece.end - piece.start) as u32;
        let command = Command::Read { offset: piece.start, len };
        core.members.submit(reader, id, Class::Background, command, core.now);
        core.members.kick();
    }

    /// A step of copying is over.
    pub(super) fn step_done<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        member: usize,
        result: Result<Payload, DiskError>,
    ) {
        let end = core.properties.capacity_bytes;
        let Some(copying) = &mut self.copying else { return };
        let target = copying.member;
        match (&copying.step, result) {
            (Step::Reading { tried, .. }, Err(error)) => {
                let tried = tried.clone();
                self.states[member].unread.get_or_insert(error.detail.clone());
                if self.in_sync().any(|index| !tried.contains(&index)) {
                    return self.read_piece(core, tried);
                }
                let why = format!("it cannot be copied to: {}", error.detail);
                self.give_up(core, target, why);
            }
            (Step::Reading { .. }, Ok(bytes)) => {
                let offset = copying.done_bytes;
                let id = core.desk.number();
                copying.step = Step::Writing { id };
                let command = Command::Write { offset, parts: vec![bytes], durable: false };
                core.members.submit(target, id, Class::Background, command, core.now);
                core.members.kick();
            }
            (Step::Writing { .. }, Ok(_)) => {
                copying.done_bytes = copying.piece(end, piece_bytes(core)).end;
                let busy = core.desk.outstanding() > copying.waiting.len();
                let pause = if busy { PAUSE } else { Nanos::ZERO };
                copying.step = Step::Rest { until: core.now + pause };
                for (id, class, command) in std::mem::take(&mut copying.waiting) {
                    self.send_change(core, id, class, &command);
                }
                core.members.kick();
            }
            (Step::Flushing { .. }, Ok(_)) => {
                copying.noted_bytes = copying.done_bytes;
                let whole = copying.done_bytes >= end;
                let (done, until) = (copying.done_bytes, core.now);
                copying.step = Step::Rest { until };
                self.standings[target] =
                    if whole { Standing::InSync } else { Standing::Behind(done) };
                if whole {
                    self.copying = None;
                }
                let Some(keeper) = &mut self.keeper else { return };
                if whole {
                    keeper.changed();
                } else {
                    keeper.note(core, target, done);
                }
            }
            (_, Err(error)) => self.give_up(core, target, error.detail),
            (Step::Rest { .. }, Ok(_)) => {}
        }
    }

    /// Ends copying; what waited for it goes on.
    pub(super) fn stop_copying<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        let Some(copying) = self.copying.take() else { return };
        for (id, class, command) in copying.waiting {
            self.send_change(core, id, class, &command);
        }
        core.members.kick();
    }
}

/// Bytes of a piece that every member takes at once.
pub(super) fn piece_bytes<D: Disk, P>(core: &Core<D, P>) -> u64 {
    let sector = u64::from(core.properties.sector_bytes);
    let most = u64::from(core.properties.transfer_bytes_max).min(PIECE_BYTES);
    (most - most % sector).max(sector)
}
