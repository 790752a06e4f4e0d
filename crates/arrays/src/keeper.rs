//! Who of a mirror has everything, kept on the members themselves.
//!
//! A change of that is one *round*: a flush of the members that count, then labels on them, then on those
//! that are being copied to, so that the newest label always lies on a member that counts. The flush is
//! for what was shown of a member that counts no more: whoever stands in has it durably. What stays true:
//! no change that a member missed is answered before the labels of the members in sync say so. Or a
//! restart could take the member that missed it for one that has everything. And a member counts only once
//! those that counted before it say so, or it could stand in for one whose label says that it does not count.
//!
//! Where the only news is that more regions change while a member is away (`missed`) a round is labels on the members that count.

use super::Core;
use super::label::Label;
use super::missed::{Missed, Unflushed};
use super::regions::Regions;
use nearhead_disk::{BufferMut, Class, Command, Disk, DiskError, Payload};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a mirror knows of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has everything.
    InSync,
    /// It has all that was acknowledged, but may differ from the others where changes were under way when
    /// the mirror was not left in order. What it holds counts only where the one to go by, which is in sync,
    /// cannot say.
    Unsure,
    /// It gets every change, and has all that was there before up to this byte.
    Behind(u64),
    /// It has everything, but no label says so yet: whoever counts must say it before this one may stand in for
    /// him. Or each of the two could say that the other does not count.
    Joining,
    /// It gets nothing.
    Out,
}

impl Standing {
    /// Whether what the member holds is enough to go on with.
    pub(super) fn counts(self) -> bool {
        matches!(self, Self::InSync | Self::Unsure)
    }
}

/// What is done in a round, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wave {
    /// The members that get changes are flushed.
    Flush,
    /// They get their labels.
    Counting,
    /// They do, and nothing but regions is new: it is all of the round.
    Regions,
    /// Those that are copied to, or were just now, get theirs.
    Behind,
}

/// The labels of a mirror's members.
#[derive(Debug)]
pub(super) struct Keeper {
    /// As last written or being written, by member.
    labels: Vec<Label>,
    /// What members missed that are away or behind.
    missed: Missed,
    /// What one would miss that fell out now.
    pub(super) unflushed: Unflushed,
    /// Writes of labels and flushes under way: which member.
    writes: BTreeMap<u64, usize>,
    wave: Option<Wave>,
    /// Changes of who has what, how many of them the round under way tells, and how many the labels
    /// of the members in sync tell.
    changes: u64,
    telling: u64,
    told: u64,
    /// Members that have everything, as bits: of the round under way, and as the labels of those that count say.
    telling_in_sync: u32,
    told_in_sync: u32,
    /// Members, as bits of their places here, that have everything as of the last round that began. Two places have one number while a
    /// member is replaced.
    counted: u64,
    /// Changes that a round of labels must record before the member counts, by member.
    joins_with: Vec<u64>,
    /// The disk that replaces a member, until it counts by all labels.
    successor: Option<usize>,
    /// A member whose successor counts: its label is to say that it does not, while it still gets every change.
    retired: Option<usize>,
    /// Whether the labels are to say that the mirror is in use.
    in_use: bool,
    /// Whether they do, for certain.
    is_marked: bool,
    /// No member could take the last round; the next change to wait begins another.
    failed: bool,
    /// Changes that wait.
    held: Vec<u64>,
}

impl Keeper {
    pub(super) fn new(labels: Vec<Label>, missed: Missed) -> Self {
        let member_bytes = labels.iter().map(|label| label.member_bytes).min().unwrap_or(0);
        Self {
            missed,
            unflushed: Unflushed::nothing(member_bytes),
            in_use: labels.iter().any(|label| label.in_use),
            is_marked: labels.iter().any(|label| label.in_use),
            counted: places(labels.iter().map(|label| label.counts(label.index))),
            joins_with: vec![0; labels.len()],
            successor: None,
            retired: None,
            labels,
            writes: BTreeMap::new(),
            wave: None,
            changes: 0,
            telling: 0,
            told: 0,
            telling_in_sync: 0,
            told_in_sync: 0,
            failed: false,
            held: Vec::new(),
        }
    }

    /// Whether the answer to a change must wait; it is kept then.
    pub(super) fn holds(&mut self, id: u64) -> bool {
        let waits = self.told < self.changes;
        if waits {
            self.failed = false;
            self.held.push(id);
        }
        waits
    }

    /// A member fell behind or came back: changes wait until the labels say so.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// A member has everything, and counts once the labels say so.
    pub(super) fn joins(&mut self, member: usize) {
        self.changed();
        self.joins_with[member] = self.changes;
    }

    /// A member replaces another one.
    pub(super) fn replaces(&mut self, member: usize) {
        self.successor = Some(member);
    }

    /// The label of a member whose successor counts is to say that it does not.
    pub(super) fn retires(&mut self, member: usize) {
        self.missed.forget(self.labels[member].index);
        self.retired = Some(member);
        self.changed();
    }

    /// Whether the label of a member says so.
    pub(super) fn has_retired(&self, member: usize) -> bool {
        self.retired == Some(member) && self.has_told()
    }

    /// The successor failed: a member that was to be replaced counts by its label again.
    pub(super) fn stays(&mut self) {
        self.retired = None;
    }

    /// Whether another member has the number of this one: one of the two replaces the other.
    fn is_replaced(&self, member: usize) -> bool {
        self.twin_of(member).is_some()
    }

    /// The other member with the number of this one.
    pub(super) fn twin_of(&self, member: usize) -> Option<usize> {
        self.members_of(self.labels.get(member)?.index).find(|other| *other != member)
    }

    /// Number of members that the mirror is made of.
    pub(super) fn count(&self) -> u16 {
        self.labels.first().map_or(0, |label| label.count)
    }

    /// Bytes of each member that the mirror uses.
    pub(super) fn member_bytes(&self) -> u64 {
        self.labels.iter().map(|label| label.member_bytes).min().unwrap_or(0)
    }

    /// Whether the labels of the members that count say that the mirror is in use, and go on to.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked && self.in_use
    }

    /// Labels are to say whether the mirror is in use.
    pub(super) fn mark(&mut self, in_use: bool) {
        // If that is what they are to say already, they do, or there is a round to come that has not said it.
        self.changes += u64::from(in_use != self.in_use);
        self.in_use = in_use;
        self.failed = false;
    }

    /// Whether the labels of the members that count say everything.
    pub(super) fn has_told(&self) -> bool {
        self.told == self.changes && self.missed.is_labelled() && self.wave.is_none()
    }

    pub(super) fn missed(&self) -> &Missed {
        &self.missed
    }

    /// Members with this number.
    pub(super) fn members_of(&self, index: u16) -> impl Iterator<Item = usize> {
        (0..self.labels.len()).filter(move |member| self.labels[*member].index == index)
    }

    /// Whether what this member missed is known.
    pub(super) fn covers(&self, member: usize) -> bool {
        match self.successor {
            Some(successor) if successor == member => self.missed.covers_copy(),
            _ => self.missed.covers(self.labels[member].index),
        }
    }

    /// All but `regions` was copied to the disk that replaces a member, and flushed there and where it was read: the labels may say so.
    /// Changes since the last flush that was answered, and `under_way`, may be lost on either.
    pub(super) fn copied(
        &mut self,
        mut regions: Regions,
        under_way: impl Iterator<Item = Range<u64>>,
    ) {
        if let Some(unflushed) = self.unflushed.all() {
            regions.merge(&unflushed);
            under_way.for_each(|bytes| regions.add(&bytes));
            self.missed.keep_only(&regions);
            self.failed &= self.missed.is_labelled();
        }
    }

    /// These bytes are going to change: labels are to say so, if any member will miss it.
    pub(super) fn expect(&mut self, bytes: &Range<u64>) {
        self.missed.add(bytes);
        self.failed &= self.missed.is_labelled();
    }

    /// A member that has everything gets nothing more; `under_way` changes.
    pub(super) fn left(&mut self, member: usize, under_way: impl Iterator<Item = Range<u64>>) {
        let Label { index, generation, .. } = self.labels[member];
        if self.is_replaced(member) {
            // The other one with this number missed something else.
            return self.missed.forget(index);
        }
        let Some(mut regions) = self.unflushed.all() else { return self.missed.forget(index) };
        under_way.for_each(|bytes| regions.add(&bytes));
        self.missed.left(index, generation, &regions);
    }

    /// What a member missed is known no more.
    pub(super) fn forget_missed(&mut self, member: usize) {
        self.missed.forget(self.labels[member].index);
    }

    /// Begins a round if the labels do not tell everything.
    pub(super) fn advance<D: Disk, P>(&mut self, core: &mut Core<D, P>, members: &[Standing]) {
        if self.has_told() || self.wave.is_some() || self.failed {
            return;
        }
        if self.told == self.changes {
            self.fill(members);
            self.begin(core, Wave::Regions, members);
        } else {
            self.begin(core, Wave::Flush, members);
        }
    }

    /// What the labels of this round say. A round that only marks the mirror leaves the generation: members
    /// that miss it are not older for that; a member that counted and gets nothing more is. One that takes the mark away raises it: a copy of a member that was made while
    /// the mirror was in use is older from then on.
    fn fill(&mut self, members: &[Standing]) {
        let in_sync = members.iter().zip(&self.labels).fold(0, |bits, (member, label)| {
            let has_everything = member.counts() || *member == Standing::Joining;
            if has_everything { bits | 1 << label.index } else { bits }
        });
        let newest = self.labels.iter().map(|label| label.generation).max().unwrap_or(0);
        let counting = members.iter().zip(&self.labels).filter(|(member, _)| member.counts());
        let is_mark = counting
            .map(|(_, label)| (label.in_sync, label.generation))
            .all(|label| label == (in_sync, newest));
        let leaves = !self.in_use && self.labels.iter().any(|label| label.in_use);
        let has_everything = |member: &Standing| member.counts() || *member == Standing::Joining;
        let counted = places(members.iter().map(has_everything));
        let is_left = self.counted & !counted != 0;
        self.counted = counted;
        let generation = newest + u64::from(!is_mark || leaves || is_left);
        for (place, (label, member)) in self.labels.iter_mut().zip(members).enumerate() {
            // The label of a member that lacks something does not say that it has everything, although another one with its number does.
            let is_retired = self.retired == Some(place);
            let lacks = is_retired || matches!(member, Standing::Behind(_) | Standing::Out);
            let in_sync = if lacks { in_sync & !(1 << label.index) } else { in_sync };
            let synced_bytes = match member {
                Standing::Out => continue,
                _ if is_retired => 0,
                Standing::InSync | Standing::Unsure | Standing::Joining => {
                    self.missed.forget(label.index);
                    label.member_bytes
                }
                Standing::Behind(synced) => *synced,
            };
            (label.generation, label.in_sync, label.synced_bytes, label.in_use) =
                (generation, in_sync, synced_bytes, self.in_use);
        }
        let successor = self.successor.and_then(|place| members.get(place));
        // While it joins some of the others' labels may not say yet that it counts.
        if successor.is_some_and(|one| matches!(one, Standing::InSync | Standing::Out)) {
            self.missed.end_copy();
        }
        (self.telling, self.telling_in_sync) = (self.changes, in_sync);
        self.is_marked &= self.in_use;
        self.missed.begin_telling();
    }

    fn begin<D: Disk, P>(&mut self, core: &mut Core<D, P>, wave: Wave, members: &[Standing]) {
        self.wave = Some(wave);
        for (index, member) in members.iter().enumerate() {
            let concerned = match wave {
                // One that is behind too: how far it was copied to must not be said of changes that its cache loses.
                Wave::Flush => *member != Standing::Out,
                Wave::Counting | Wave::Regions => member.counts(),
                Wave::Behind => matches!(member, Standing::Behind(_) | Standing::Joining),
            };
            match wave {
                Wave::Flush if concerned => self.flush(core, index),
                _ if concerned => self.write(core, index),
                _ => {}
            }
        }
    }

    fn flush<D: Disk, P>(&mut self, core: &mut Core<D, P>, member: usize) {
        let id = core.desk.number();
        self.writes.insert(id, member);
        core.members.submit(member, id, Class::Durable, Command::Flush, core.now);
        core.members.kick();
    }

    /// Notes how far a member was copied to; nobody waits for that.
    pub(super) fn note<D: Disk, P>(&mut self, core: &mut Core<D, P>, member: usize, synced: u64) {
        // A round that is under way says the same or less.
        if self.wave.is_none() {
            self.labels[member].synced_bytes = synced;
            self.write(core, member);
        }
    }

    fn write<D: Disk, P>(&mut self, core: &mut Core<D, P>, member: usize) {
        let capacity = core.members.disk(member).properties().capacity_bytes;
        let label = &mut self.labels[member];
        label.sequence += 1;
        // Whoever has a label has room for it.
        let offset = Label::offset(capacity).unwrap_or(0) + label.slot_offset();
        let slot = self.missed.slot(label, self.successor == Some(member));
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&slot).freeze())];
        let id = core.desk.number();
        self.writes.insert(id, member);
        let command = Command::Write { offset, parts, durable: true };
        core.members.submit(member, id, Class::Durable, command, core.now);
        core.members.kick();
    }

    /// Whether the labels of the members that count say that this one has everything.
    pub(super) fn has_told_of(&self, member: usize) -> bool {
        let is_counted = self.told_in_sync >> self.labels[member].index & 1 == 1;
        is_counted && self.told >= self.joins_with[member]
    }

    /// Whether the command was one of a round, and of which member.
    pub(super) fn take_write(&mut self, id: u64) -> Option<usize> {
        self.writes.remove(&id)
    }

    /// A command of a round was carried out. Gives the changes that may be answered now. If the labels `must_wait`
    /// the round begins anew later.
    pub(super) fn written<D: Disk, P>(
        &mut self,
        core: &mut Core<D, P>,
        members: &[Standing],
        must_wait: bool,
    ) -> Vec<u64> {
        if !self.writes.is_empty() {
            return Vec::new();
        }
        match self.wave {
            Some(Wave::Flush) if must_wait => {}
            Some(Wave::Flush) => {
                self.fill(members);
                self.begin(core, Wave::Counting, members);
            }
            Some(wave @ (Wave::Counting | Wave::Regions)) => {
                (self.told, self.told_in_sync) = (self.telling, self.telling_in_sync);
                // The label of a member that is out stays as it was, and says nothing of the others.
                let mut counting = self.labels.iter().zip(members).filter(|(_, one)| one.counts());
                self.is_marked = counting.any(|(label, _)| label.in_use);
                if wave == Wave::Counting {
                    self.begin(core, Wave::Behind, members);
                }
            }
            Some(Wave::Behind) | None => {}
        }
        if self.writes.is_empty() && self.wave.take().is_some() {
            // If a member fell out in this round the next one tells all that count.
            self.missed.end_telling(self.told == self.changes);
        }
        if self.told == self.changes { std::mem::take(&mut self.held) } else { Vec::new() }
    }

    /// The only member in sync cannot write its label: gives the changes that wait, which must fail.
    pub(super) fn fail(&mut self) -> Vec<u64> {
        self.failed = true;
        self.wave = None;
        // Whether the last label landed is not known: whatever comes is marked anew.
        (self.in_use, self.is_marked) = (true, false);
        self.missed.end_telling(false);
        self.changes += u64::from(self.told == self.changes && self.missed.is_labelled());
        std::mem::take(&mut self.held)
    }

    /// Forgets what was under way.
    pub(super) fn forget(&mut self) {
        self.writes.clear();
        self.held.clear();
        self.wave = None;
        self.missed.end_telling(false);
        self.unflushed.forget();
    }
}

/// Bits of the places at which `are` is true; a mirror has at most 32 members, and one that replaces another.
fn places(are: impl Iterator<Item = bool>) -> u64 {
    are.zip(0..).fold(0, |bits, (is, place)| bits | u64::from(is) << place)
}

/// Why a change fails when no label can be written.
pub(super) fn unrecorded(error: &DiskError) -> DiskError {
    let detail = format!(
        "{}; no other member could record that one fell behind, so nothing is acknowledged",
        error.detail
    );
    DiskError { kind: error.kind, detail }
}
