//! Bringing members of a mirror up to date, piece by piece, while the mirror is used.
//!
//! A member that is behind gets every change from the beginning, and in the background everything
//! else, from the lowest address to the highest; of one of which it is known what it missed (`missed`) that alone. Members that are unsure are made alike in the same way,
//! all at once. What stays true:
//! - while a piece is on its way no change of the same bytes is, or the older bytes of the piece
//!   could land over the newer ones; such changes wait for the piece, which is short (`gate`);
//! - a member that is behind is read, and counts, only when all that it may lack was copied and flushed;
//! - how far it got is noted on it only after a flush, so a crash repeats at most what came after.
//!
//! Without clients pieces follow each other; with some, a whole one begins every tenth of a second.

use super::Core;
use super::alike::Span;
use super::gate::Answer;
use super::keeper::{Keeper, Standing};
use super::mirror::Copies;
use super::parts::Parts;
use super::regions::Regions;
use nearhead_disk::{Class, Command, Disk, DiskError, Nanos, Payload, WokenBy};
use std::ops::Range;

/// Bytes of a piece: long enough to stream, short enough to wait for.
const PIECE_BYTES: u64 = 1 << 20;

/// Time between pieces while clients have something to do: 10 MiB/s at least.
const PAUSE: Nanos = Nanos(100_000_000);

/// Bytes copied between two notes of the progress: this part of a member, and no more than `NOTE_BYTES_MAX`, which clients that slow
/// the copy down to 10 MiB/s let pass in two minutes.
const NOTES: u64 = 16;
const NOTE_BYTES_MAX: u64 = 1 << 30;

/// Who is copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A member that is behind.
    Behind(usize),
    /// All that count, so that the unsure ones are unsure no more.
    Unsure,
}

/// What is being done.
#[derive(Debug)]
pub(super) enum Step {
    /// The next piece may begin then.
    Rest { until: Nanos },
    /// The next piece begins when what is in its way was answered.
    Wait,
    /// A piece is read; these members were asked.
    Reading { id: u64, tried: Vec<usize> },
    /// A piece is read from all that count, and so many answers are missing.
    Comparing { id: u64, left: usize, answers: Vec<Answer> },
    /// A piece is written, and so many answers are missing.
    Writing { id: u64, left: usize },
    /// What was written is made durable.
    Flushing { id: u64, left: usize },
}

/// Copying that goes on.
#[derive(Debug)]
pub(super) struct Copying {
    pub(super) target: Target,
    /// Bytes from the beginning that are alike.
    pub(super) done_bytes: u64,
    /// Bytes that were copied since that was flushed and noted.
    unnoted_bytes: u64,
    /// A flush since the last note failed: what was read is not durable for certain.
    is_doubtful: bool,
    /// Everything else is alike already.
    only: Option<Regions>,
    /// Where members are compared.
    span: Span,
    step: Step,
}

impl Copying {
    fn new(target: Target, from: u64, only: Option<Regions>, now: Nanos) -> Self {
        let step = Step::Rest { until: now };
        let (unnoted_bytes, is_doubtful) = (0, false);
        Self { target, done_bytes: from, unnoted_bytes, is_doubtful, only, span: Span::WIDE, step }
    }

    /// Goes past what is alike already.
    fn skip(&mut self, end: u64) {
        if let Some(only) = &self.only {
            self.done_bytes = only.run_from(self.done_bytes).map_or(end, |run| run.start.min(end));
        }
    }

    /// The bytes that are next, or on their way.
    fn piece(&self, end: u64, bytes_max: u64) -> Range<u64> {
        let run = self.only.as_ref().and_then(|only| only.run_from(self.done_bytes));
        let end = run.map_or(end, |run| run.end.min(end));
        self.done_bytes..(self.done_bytes + self.span.of(bytes_max)).min(end)
    }

    /// Bytes that are still to be copied.
    fn left_bytes(&self, end: u64) -> u64 {
        let all = end.saturating_sub(self.done_bytes);
        self.only.as_ref().map_or(all, |only| only.bytes_from(self.done_bytes))
    }

    /// The bytes that are on their way, if any are.
    pub(super) fn moving<D: Disk, P>(&self, core: &Core<D, P>) -> Option<Range<u64>> {
        let is_moving = !self.is_at_rest() && !matches!(self.step, Step::Flushing { .. });
        is_moving.then(|| self.piece(core.properties.capacity_bytes, piece_bytes(core)))
    }

    /// Whether the command is the one that is waited for.
    pub(super) fn waits_for(&self, command: u64) -> bool {
        match self.step {
            Step::Rest { .. } | Step::Wait => false,
            Step::Reading { id, .. }
            | Step::Comparing { id, .. }
            | Step::Writing { id, .. }
            | Step::Flushing { id, .. } => id == command,
        }
    }

    /// Whether members that count are being made like another.
    pub(super) fn is_repair(&self) -> bool {
        self.target == Target::Unsure && matches!(self.step, Step::Writing { .. })
    }

    /// Whether nothing of it is on its way.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.step, Step::Rest { .. } | Step::Wait)
    }

    /// When the next piece may begin, if that is what is waited for.
    pub(super) fn rests_until(&self) -> Option<Nanos> {
        match self.step {
            Step::Rest { until } => Some(until),
            _ => None,
        }
    }
}

impl Copies {
    /// Goes on with what the mirror does by itself.
    pub(super) fn go_on<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        self.retire_replaced(core);
        self.tell_labels(core);
        self.release_marked(core);
        self.release_held(core);
        self.go_on_leaving(core);
        if !self.leaving.is_asked() {
            self.go_on_copying(core);
        }
    }

    fn go_on_copying<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        self.copying.take_if(|copying| {
            // A piece on its way must land before a change of the same bytes, whoever is left.
            copying.target == Target::Unsure
                && copying.is_at_rest()
                && !self.standings.contains(&Standing::Unsure)
        });
        if self.copying.is_none() && self.may_copy() {
            self.copying = self.lacking().map(|(to, from)| {
                let only = match to {
                    Target::Behind(member) => self.known_missed(member).cloned(),
                    Target::Unsure => None,
                };
                Copying::new(to, from, only, core.now)
            });
        }
        let end = core.properties.capacity_bytes;
        let Some(copying) = &mut self.copying else { return };
        if !copying.is_at_rest() || copying.rests_until().is_some_and(|until| until > core.now) {
            return;
        }
        copying.skip(end);
        let is_noted = copying.target != Target::Unsure;
        if copying.done_bytes >= end || is_noted && copying.unnoted_bytes >= note_bytes(end) {
            return self.flush_copied(core);
        }
        let piece = copying.piece(end, piece_bytes(core));
        if core.desk.kinds().any(|parts| parts.is_in_the_way_of_a_piece(&piece)) {
            if let Some(copying) = &mut self.copying {
                copying.step = Step::Wait;
            }
        } else {
            self.read_piece(core, Vec::new());
        }
    }

    /// Whether who lacks something may be copied to: not before the labels say that nobody goes by it.
    pub(super) fn may_copy(&self) -> bool {
        let is_labelled = self.keeper.as_ref().is_none_or(Keeper::has_told);
        !self.only_looks && (is_labelled || self.any_unsure())
    }

    /// The regions in which a member that is behind may differ from the others, if that is known. What changes from now on it is
    /// given, so those of the moment at which the mirror was opened are enough.
    pub(super) fn known_missed(&self, member: usize) -> Option<&Regions> {
        let is_known = self.keeper.as_ref().is_some_and(|keeper| keeper.covers(member));
        self.missed_before.as_ref().filter(|_| is_known)
    }

    /// Bytes that are still to be copied to a member, of so many.
    pub(super) fn left_bytes(&self, member: usize, end: u64) -> u64 {
        let Standing::Behind(from) = self.standings[member] else { return 0 };
        let is_this = |copying: &&Copying| copying.target == Target::Behind(member);
        if let Some(copying) = self.copying.as_ref().filter(is_this) {
            return copying.left_bytes(end);
        }
        let all = end.saturating_sub(from);
        self.known_missed(member).map_or(all, |missed| missed.bytes_from(from))
    }

    /// Bytes that are still to be compared, of so many.
    pub(super) fn unsure_bytes(&self, end: u64) -> u64 {
        let is_this = |copying: &&Copying| copying.target == Target::Unsure;
        let compared =
            self.copying.as_ref().filter(is_this).map_or(0, |copying| copying.done_bytes);
        if self.any_unsure() { end.saturating_sub(compared) } else { 0 }
    }

    /// Who must be copied to, and from which byte on. Members that are unsure come first: one that is
    /// behind becomes a copy of what they agree on.
    fn lacking(&self) -> Option<(Target, u64)> {
        if self.any_unsure() {
            return Some((Target::Unsure, 0));
        }
        self.standings.iter().enumerate().find_map(|(member, standing)| match standing {
            Standing::Behind(from) => Some((Target::Behind(member), *from)),
            Standing::InSync | Standing::Unsure | Standing::Joining | Standing::Out => None,
        })
    }

    fn flush_copied<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        let Some(target) = self.copying.as_ref().map(|copying| copying.target) else { return };
        let members = match target {
            // What was read may be lost there, too, and be older after that.
            Target::Behind(member) if self.replaces_another(member) => {
                self.counting().chain([member]).collect()
            }
            Target::Behind(member) => vec![member],
            Target::Unsure => self.counting().collect(),
        };
        self.ask(core, &members, |_| Command::Flush, |id, left| Step::Flushing { id, left });
    }

    /// Sends a command for the next piece to each of `members`, and waits for them as `step` says.
    fn ask<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        members: &[usize],
        command: impl Fn(Range<u64>) -> Command,
        step: impl FnOnce(u64, usize) -> Step,
    ) {
        let (end, most) = (core.properties.capacity_bytes, piece_bytes(core));
        let Some(copying) = &mut self.copying else { return };
        let id = core.desk.number();
        let piece = copying.piece(end, most);
        copying.step = step(id, members.len());
        for member in members {
            let command = command(piece.clone());
            let part = (*member, id, Class::Background);
            core.members.submit_for(WokenBy::Alike, part, command, core.now);
        }
        core.members.kick();
    }

    fn read_piece<D: Disk>(&mut self, core: &mut Core<D, Parts>, mut tried: Vec<usize>) {
        let Some(target) = self.copying.as_ref().map(|copying| copying.target) else { return };
        let read = |piece: Range<u64>| {
            let len = (piece.end - piece.start) as u32;
            Command::Read { offset: piece.start, len }
        };
        let Target::Behind(member) = target else {
            let members: Vec<usize> = self.counting().collect();
            let compare = |id, left| Step::Comparing { id, left, answers: Vec::new() };
            return self.ask(core, &members, read, compare);
        };
        let Some(reader) = self.in_sync().find(|index| !tried.contains(index)) else {
            let why = "it cannot be copied to: no member can read what is copied";
            return self.give_up(core, member, why.to_owned());
        };
        tried.push(reader);
        self.ask(core, &[reader], read, |id, _| Step::Reading { id, tried });
    }

    /// A member answered what was asked of it for copying.
    pub(super) fn step_done<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        member: usize,
        result: Result<Payload, DiskError>,
    ) {
        let Some(copying) = &mut self.copying else { return };
        let (target, offset) = (copying.target, copying.done_bytes);
        match (&mut copying.step, result) {
            (Step::Reading { .. }, Ok(bytes)) => {
                let Target::Behind(to) = target else { return };
                let write =
                    |_| Command::Write { offset, parts: vec![bytes.clone()], durable: false };
                self.ask(core, &[to], write, |id, left| Step::Writing { id, left });
            }
            (Step::Reading { tried, .. }, Err(error)) => {
                let tried = std::mem::take(tried);
                self.states[member].unread.get_or_insert(error.detail);
                self.read_piece(core, tried);
            }
            (Step::Comparing { left, answers, .. }, answer) => {
                answers.push((member, answer));
                *left -= 1;
                if *left == 0 {
                    let answers = std::mem::take(answers);
                    self.repair_piece(core, offset, answers);
                }
            }
            (Step::Writing { left, .. } | Step::Flushing { left, .. }, result) => {
                *left -= 1;
                let is_over = *left == 0;
                if let Err(error) = result {
                    copying.is_doubtful = true;
                    // Who was behind is copied to no more; of those that count the others go on.
                    self.give_up(core, member, error.detail);
                }
                match self.copying.as_ref().map(|copying| &copying.step) {
                    Some(Step::Writing { .. }) if is_over => self.piece_done(core),
                    Some(Step::Flushing { .. }) if is_over => self.flushed(core),
                    _ => {}
                }
            }
            (Step::Rest { .. } | Step::Wait, _) => {}
        }
    }

    /// All that count have said what they hold of a piece.
    fn repair_piece<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        offset: u64,
        answers: Vec<Answer>,
    ) {
        let sector_bytes = core.properties.sector_bytes;
        let is_for_less = self.is_for_less(&answers);
        let (end, most) = (core.properties.capacity_bytes, piece_bytes(core));
        let Some(copying) = &mut self.copying else { return };
        let piece = copying.piece(end, most);
        if is_for_less && copying.span.narrow(piece.end - piece.start, sector_bytes) {
            copying.step = Step::Rest { until: core.now };
            return;
        }
        match self.judge(core, offset, answers) {
            Ok((_, repairs)) if !repairs.is_empty() => self.write_repairs(core, repairs),
            // What nobody can read is shown to nobody.
            Ok(_) | Err(_) => self.piece_done(core),
        }
    }

    fn write_repairs<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        repairs: Vec<(usize, Command)>,
    ) {
        let Some(copying) = &mut self.copying else { return };
        let id = core.desk.number();
        copying.step = Step::Writing { id, left: repairs.len() };
        for (member, repair) in repairs {
            let part = (member, id, Class::Background);
            core.members.submit_for(WokenBy::Alike, part, repair, core.now);
        }
        core.members.kick();
    }

    /// A piece is where it belongs; what waited for it goes on.
    fn piece_done<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        let (end, most) = (core.properties.capacity_bytes, piece_bytes(core));
        let busy = core.desk.outstanding() > self.held.len();
        let Some(copying) = &mut self.copying else { return };
        let piece = copying.piece(end, most);
        let bytes = piece.end - piece.start;
        // A short piece is over soon.
        let pause = if busy { Nanos(PAUSE.0 * bytes / most) } else { Nanos::ZERO };
        copying.done_bytes = piece.end;
        copying.span.widen();
        copying.unnoted_bytes += bytes;
        copying.step = Step::Rest { until: core.now + pause };
    }

    /// What was copied is durable.
    fn flushed<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        let end = core.properties.capacity_bytes;
        let Some(copying) = &mut self.copying else { return };
        let (target, done) = (copying.target, copying.done_bytes);
        let is_doubtful = std::mem::take(&mut copying.is_doubtful);
        let lacking = copying.only.clone();
        copying.unnoted_bytes = 0;
        copying.step = Step::Rest { until: core.now };
        let whole = done >= end;
        if whole {
            self.copying = None;
        }
        let Target::Behind(member) = target else {
            for standing in self.standings.iter_mut().filter(|standing| standing.counts()) {
                *standing = Standing::InSync;
            }
            return;
        };
        self.standings[member] = if whole { Standing::Joining } else { Standing::Behind(done) };
        let is_successor = self.replaces_another(member);
        let Some(keeper) = &mut self.keeper else { return };
        if whole {
            return keeper.joins(member);
        }
        if let Some(mut lacking) = lacking.filter(|_| is_successor && !is_doubtful) {
            lacking.clear_below(done);
            keeper.copied(lacking, core.desk.kinds().filter_map(Parts::changed_bytes));
        }
        keeper.note(core, member, done);
    }
}

/// Bytes copied between two notes of the progress, to a member of so many bytes.
fn note_bytes(member_bytes: u64) -> u64 {
    (member_bytes / NOTES).clamp(1, NOTE_BYTES_MAX)
}

/// Bytes of a piece that every member takes at once.
fn piece_bytes<D: Disk, P>(core: &Core<D, P>) -> u64 {
    let sector = u64::from(core.properties.sector_bytes);
    let most = u64::from(core.properties.transfer_bytes_max).min(PIECE_BYTES);
    (most - most % sector).max(sector)
}
