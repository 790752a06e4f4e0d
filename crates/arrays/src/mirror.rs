//! A mirror: the same bytes on every member.
//!
//! A change is answered when every member that still counts has answered. A member that could not
//! make a change which another one made is *out*: it is never read again, because what it holds is
//! old, and [`Disk::trouble`] says so from then on. If no member made the change, the change fails
//! and everybody still counts. A member that cannot read is helped out by another.
//!
//! A mirror whose members have labels ([`super::label`]) remembers that over a restart (`keeper`), and
//! copies to a member that was away (`copying`). Without labels it does neither.
//!
//! After a power cut, or the end of a program that did not leave in order, the members may differ
//! where a write was under way. With labels that is noticed (`leaving`): one of those that have everything
//! is the one to go by, and where the others hold something else they are made like it (`gate`, `copying`).
//! Without labels nobody knows; read from the first member only ([`ReadPolicy::First`], the default), such a
//! place still has one content.

use super::alike::Walk;
use super::copying::{Copying, Target};
use super::gate::{Held, bytes_of, is_durable};
use super::keeper::{Keeper, Standing};
use super::label::Label;
use super::leaving::Leaving;
use super::missed::Missed;
use super::parts::{Comparing, Parts};
use super::regions::Regions;
use super::sides::Sides;
use super::succession::Succession;
use super::{Arrangement, Array, Core, common_properties, names};
use nearhead_disk::{
    Class, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Resilver, Run, Side, Ticket,
};
use std::collections::{BTreeSet, VecDeque};

/// Which member serves a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The first that counts.
    #[default]
    First,
    /// The one that a sequential read goes on with, else the one with the least to do. (In either case, reads that nobody
    /// waits for have a member of their own where there is a choice: `sides`.)
    Balanced,
}

/// Several disks with the same content.
pub type Mirror<D> = Array<D, Copies>;

/// What a mirror knows of its members, and who serves reads.
#[derive(Debug)]
pub struct Copies {
    pub(super) sides: Sides,
    pub(super) states: Vec<State>,
    pub(super) standings: Vec<Standing>,
    pub(super) keeper: Option<Keeper>,
    pub(super) copying: Option<Copying>,
    pub(super) leaving: Leaving,
    /// Changes that wait until the labels say that the mirror is in use; bounded by the queue.
    pub(super) unmarked: VecDeque<Held>,
    /// Commands that wait for bytes on their way; bounded by the queue.
    pub(super) held: VecDeque<Held>,
    /// What members missed that are away or behind, as it was when the mirror was opened.
    pub(super) missed_before: Option<Regions>,
    /// Its members differed when it was opened, perhaps.
    pub(super) was_unsure: bool,
    /// Nothing on any member changes, whatever it holds.
    pub(super) only_looks: bool,
    /// Members that the array has and that were not given.
    pub(super) missing: usize,
    /// The member that replaces another one, if one does.
    pub(super) succession: Option<Succession>,
}

/// What a mirror tells of a member.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// Why its content is old.
    pub(super) failed: Option<String>,
    /// The first read that another member had to serve.
    pub(super) unread: Option<String>,
}

impl<D: Disk> Mirror<D> {
    /// Mirrors `disks`, using of each as much as the smallest has, without labels.
    ///
    /// Fails for fewer than two disks. The disks must hold the same bytes already, or be written
    /// before they are read.
    pub fn new(disks: Vec<D>, policy: ReadPolicy) -> Result<Self, DiskError> {
        let common = common_properties(&disks, 2, format!("mirror:{}", names(&disks)))?;
        let sector = u64::from(common.sector_bytes);
        let capacity_bytes = common.capacity_bytes - common.capacity_bytes % sector;
        let properties = Properties { capacity_bytes, ..common };
        let copies = Copies {
            sides: Sides::new(policy, disks.len(), false),
            states: vec![State::default(); disks.len()],
            standings: vec![Standing::InSync; disks.len()],
            keeper: None,
            copying: None,
            leaving: Leaving::No,
            unmarked: VecDeque::new(),
            held: VecDeque::new(),
            missed_before: None,
            was_unsure: false,
            only_looks: false,
            missing: 0,
            succession: None,
        };
        Self::arranged(disks, properties, copies)
    }

    /// Mirrors disks whose labels were read and written: what they say decides who counts. The first of
    /// those that have everything is the one to go by if they are `unsure`.
    pub(super) fn labelled(
        disks: Vec<D>,
        policy: ReadPolicy,
        labels: Vec<Label>,
        (unsure, missed): (bool, Missed),
    ) -> Result<Self, DiskError> {
        let common = common_properties(&disks, 1, format!("mirror:{}", names(&disks)))?;
        let capacity_bytes = labels.iter().map(|label| label.member_bytes).min().unwrap_or(0);
        let properties = Properties { capacity_bytes, ..common };
        let mut first = true;
        let standing = |label: &Label| match label.counts(label.index) {
            true if unsure && !std::mem::take(&mut first) => Standing::Unsure,
            true => Standing::InSync,
            false => Standing::Behind(label.synced_bytes),
        };
        let count = labels.first().map_or(0, |label| usize::from(label.count));
        let known: BTreeSet<u16> = labels.iter().map(|label| label.index).collect();
        let copies = Copies {
            sides: Sides::new(policy, disks.len(), true),
            states: vec![State::default(); disks.len()],
            standings: labels.iter().map(standing).collect(),
            was_unsure: unsure,
            only_looks: false,
            missing: count.saturating_sub(known.len()),
            succession: None,
            missed_before: Some(missed.regions().clone()),
            keeper: Some(Keeper::new(labels, missed)),
            copying: None,
            leaving: Leaving::No,
            unmarked: VecDeque::new(),
            held: VecDeque::new(),
        };
        Self::arranged(disks, properties, copies)
    }

    /// The mirror is read and nothing on its members changes: nor are those that differ made alike.
    pub(super) fn only_looked_at(mut self) -> Self {
        self.arrangement.only_looks = true;
        // Where members may differ it shows one of them.
        self.arrangement.sides.keep_apart(false);
        self
    }

    /// Whether reads that nobody waits for get a member of their own, as they do unless this says otherwise or the mirror
    /// reads only the first of members without labels: to see what it is good for.
    #[must_use]
    pub fn with_reads_apart(mut self, are_apart: bool) -> Self {
        self.arrangement.sides.keep_apart(are_apart);
        self
    }

    /// Members whose content counts.
    pub fn members_left(&self) -> usize {
        self.arrangement.counting().count()
    }
}

impl Copies {
    pub(super) fn in_sync(&self) -> impl Iterator<Item = usize> {
        (0..self.standings.len()).filter(|&index| self.standings[index] == Standing::InSync)
    }

    pub(super) fn counting(&self) -> impl Iterator<Item = usize> {
        (0..self.standings.len()).filter(|&index| self.standings[index].counts())
    }

    /// A member missed something: it gets nothing more, and that is recorded where there are labels.
    pub(super) fn give_up<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        member: usize,
        why: String,
    ) {
        let is_last = self.counting().eq([member]);
        if self.standings[member] == Standing::Out || is_last {
            return;
        }
        self.note_left(core, member);
        self.standings[member] = Standing::Out;
        if self.replaces_another(member)
            && let Some(keeper) = &mut self.keeper
        {
            keeper.stays();
        }
        self.states[member].failed.get_or_insert(why);
        self.copying.take_if(|copying| copying.target == Target::Behind(member));
        self.choose_another();
        self.labels_change(core);
    }

    /// A member gets nothing more: what it misses is known if it was like the others until now.
    fn note_left<D: Disk>(&mut self, core: &Core<D, Parts>, member: usize) {
        let is_unsure = self.any_unsure();
        let Some(keeper) = &mut self.keeper else { return };
        match self.standings[member] {
            Standing::InSync if !is_unsure => {
                keeper.left(member, core.desk.kinds().filter_map(Parts::changed_bytes));
            }
            Standing::InSync | Standing::Unsure => keeper.forget_missed(member),
            // What it has still to be given is known, or is everything.
            Standing::Behind(_) | Standing::Joining | Standing::Out => {}
        }
    }

    /// The one to go by cannot say what it holds, and what another holds was shown or will be. That is
    /// written over its own only when its label says that nobody goes by it: cut in the middle of such a
    /// write it would be torn.
    pub(super) fn fall_behind<D: Disk>(&mut self, core: &mut Core<D, Parts>, member: usize) {
        self.standings[member] = Standing::Behind(0);
        if let Some(keeper) = &mut self.keeper {
            keeper.forget_missed(member);
        }
        self.choose_another();
        self.labels_change(core);
    }

    /// If only unsure members are left, the first of them is the one to go by from now on.
    fn choose_another(&mut self) {
        if self.in_sync().next().is_some() {
            return;
        }
        let Some(first) = self.counting().next() else { return };
        self.standings[first] = Standing::InSync;
    }

    /// Every member that gets changes made one, or said that it could not.
    fn end_change<D: Disk>(&mut self, core: &mut Core<D, Parts>, id: u64) {
        let Some(booked) = core.desk.get_mut(id) else { return };
        let Parts::Change { made, failed, range, durable, .. } = &mut booked.kind else { return };
        let (made, failed) = (*made, std::mem::take(failed));
        let is_durable = made && (*durable || !core.properties.volatile_cache);
        if let Some(Keeper { unflushed, .. }) = &mut self.keeper {
            match range {
                None => unflushed.answered(id, made && failed.is_empty()),
                Some(bytes) if !is_durable => unflushed.changed(bytes),
                Some(_) => {}
            }
        }
        let mut error = None;
        for (member, problem) in failed {
            // Nobody that counts made it, so nobody that counts fell behind; a member that failed
            // before this change was answered is no better a witness than the others.
            if made || !self.standings[member].counts() {
                self.give_up(core, member, problem.detail);
            } else {
                error = Some(problem);
            }
        }
        if made && self.keeper.as_mut().is_some_and(|keeper| keeper.holds(id)) {
            return self.advance(core);
        }
        core.desk.finish(id, |_| error.filter(|_| !made).map_or(Ok(Payload::EMPTY), Err));
    }

    /// Asks the next member for what `member` could not read.
    fn read_elsewhere<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        id: u64,
        member: usize,
        error: DiskError,
    ) {
        let Some(running) = core.desk.get_mut(id) else { return };
        let Parts::Read { class, offset, len, tried } = &mut running.kind else { return };
        let (class, offset, len, tried) = (*class, *offset, *len, tried.clone());
        let Some(next) = self.reader(core, class, offset, &tried) else {
            return core.desk.finish(id, |_| Err(error));
        };
        if error.kind == DiskErrorKind::Gone {
            self.give_up(core, member, error.detail);
        } else {
            self.states[member].unread.get_or_insert(error.detail);
        }
        if let Some(running) = core.desk.get_mut(id) {
            running.left = 1;
            if let Parts::Read { tried, .. } = &mut running.kind {
                tried.push(next);
            }
        }
        self.sides.note_read(next, class, offset + u64::from(len), core.now);
        core.members.submit(next, id, class, Command::Read { offset, len }, core.now);
        core.members.kick();
    }
}

impl Arrangement for Copies {
    type Parts = Parts;

    fn submit<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        ticket: Ticket,
        class: Class,
        command: Command,
    ) {
        let bytes = bytes_of(&command);
        if let (Command::Read { offset, len }, Some(bytes)) = (&command, &bytes) {
            let (offset, len) = (*offset, *len);
            if self.may_differ(bytes) {
                let (walk, step) = (Walk::new(bytes.clone()), Comparing::Turn);
                let id = core.desk.book(ticket, 1, Parts::Compare { class, walk, step });
                return self.send_or_hold(core, id, class, command);
            }
            let reader = self.reader(core, class, offset, &[]).unwrap_or(0);
            let parts = Parts::Read { class, offset, len, tried: vec![reader] };
            let id = core.desk.book(ticket, 1, parts);
            self.sides.note_read(reader, class, offset + u64::from(len), core.now);
            return core.members.submit(reader, id, class, command, core.now);
        }
        let range = bytes.clone();
        let (later, failed, durable) = (None, Vec::new(), is_durable(&command));
        let parts =
            Parts::Change { class, range, durable, sent: false, later, made: false, failed };
        let id = core.desk.book(ticket, 1, parts);
        if bytes.is_none() {
            if let Some(keeper) = &mut self.keeper {
                keeper.unflushed.asked(id);
            }
            self.send_change(core, id, class, &command);
        } else if !self.holds_unmarked(core, id, class, &command) {
            self.send_or_hold(core, id, class, command);
        }
    }

    fn settle<D: Disk>(&mut self, core: &mut Core<D, Parts>, member: usize, done: Completion) {
        let id = done.id.0;
        let result = done.result.map_err(|error| core.name_error(member, &error));
        if let Some(labelled) = self.keeper.as_mut().and_then(|keeper| keeper.take_write(id)) {
            return self.label_written(core, labelled, result);
        }
        if self.copying.as_ref().is_some_and(|copying| copying.waits_for(id)) {
            return self.step_done(core, member, result);
        }
        let mut last = core.desk.part_done(id, None);
        let Some(running) = core.desk.get_mut(id) else { return };
        let counts = self.standings[member].counts();
        match running.kind {
            Parts::Read { class, .. } => self.sides.note_answered(member, class, true),
            Parts::Change { class, range: Some(_), .. } => {
                self.sides.note_answered(member, class, false);
            }
            _ => {}
        }
        match (&mut running.kind, result) {
            (Parts::Read { .. }, Ok(bytes)) => return core.desk.finish(id, |_| Ok(bytes)),
            (Parts::Read { .. }, Err(error)) => {
                return self.read_elsewhere(core, id, member, error);
            }
            (Parts::Change { made, .. }, Ok(_)) => *made |= counts,
            (Parts::Change { failed, .. }, Err(error)) => failed.push((member, error)),
            (Parts::Compare { step, .. }, answer) => step.answered(member, answer),
        }
        last |= self.send_later(core, id);
        if !last {
            return;
        }
        match core.desk.get_mut(id).map(|running| &running.kind) {
            Some(Parts::Compare { .. }) => self.go_on_comparing(core, id),
            _ => self.end_change(core, id),
        }
    }

    fn advance<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        self.go_on(core);
    }

    fn next_event(&self) -> Option<Nanos> {
        if self.leaving.is_asked() || self.only_looks {
            // Every step of leaving follows from an answer.
            return None;
        }
        if let Some(copying) = &self.copying {
            return copying.rests_until();
        }
        if !self.may_copy() {
            return None;
        }
        let lacks =
            |standing: &Standing| matches!(standing, Standing::Behind(_) | Standing::Unsure);
        self.standings.iter().any(lacks).then_some(Nanos::ZERO)
    }

    fn leave<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        if !self.leaving.is_asked() {
            self.leaving = Leaving::Asked;
            self.go_on(core);
        }
    }

    fn has_left(&self) -> bool {
        !self.leaving.is_under_way()
    }

    fn let_rest<D: Disk>(&mut self, core: &mut Core<D, Parts>, after: Option<Nanos>) {
        self.may_rest(core, after);
    }

    fn expect_writes<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        self.wake(core);
    }

    fn sides<D: Disk>(&self, core: &Core<D, Parts>, now: Nanos) -> Vec<Side> {
        self.rests(core, now)
    }

    fn resilvers<D: Disk>(&self, core: &Core<D, Parts>) -> Vec<Resilver> {
        let of_members = core.members.disks().flat_map(Disk::resilvers);
        self.apart(core).into_iter().chain(of_members).collect()
    }

    fn release_replaced<D: Disk>(&mut self, core: &mut Core<D, Parts>) -> bool {
        let is_own = self.let_go_of_replaced(core);
        core.members.disks_mut().fold(is_own, |are_all, disk| disk.release_replaced() & are_all)
    }

    fn forget(&mut self) {
        self.sides.forget();
        self.copying = None;
        self.leaving = Leaving::No;
        self.unmarked.clear();
        self.held.clear();
        if let Some(keeper) = &mut self.keeper {
            keeper.forget();
        }
    }

    /// What all members agree on, and nothing while one is missing, behind or in doubt: what it holds may be
    /// shown one day.
    fn run_at<D: Disk>(&self, core: &Core<D, Parts>, offset: u64) -> Run {
        let used = || (0..self.standings.len()).filter(|member| !self.has_retired(*member));
        let is_whole =
            self.missing == 0 && used().all(|member| self.standings[member] == Standing::InSync);
        if !is_whole {
            return Run::UNKNOWN;
        }
        let runs = used().map(|member| core.members.disk(member).run_at(offset));
        let agreed = runs
            .reduce(|one, other| Run { len: one.len.min(other.len), zero: one.zero && other.zero });
        agreed.unwrap_or(Run::UNKNOWN)
    }

    fn trouble<D: Disk>(&self, core: &Core<D, Parts>) -> Option<String> {
        self.tell_people(core)
    }
}
