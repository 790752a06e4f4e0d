//! Who of a mirror has everything, kept on the members themselves.
//!
//! A change of that is one *round* of labels: first to the members in sync, then to those that are
//! being copied to, so that the newest label always lies on a member that counts. What stays true:
//! no change that a member missed is answered before the labels of the members in sync say so. Or a
//! restart could take the member that missed it for one that has everything.

use super::Core;
use super::label::Label;
use nearhead_disk::{BufferMut, Class, Command, Disk, DiskError, Payload};
use std::collections::BTreeMap;

/// What a mirror knows of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has everything.
    InSync,
    /// It gets every change, and has all that was there before up to this byte.
    Behind(u64),
    /// It gets nothing.
    Out,
}

/// Which members the labels of a round go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wave {
    InSync,
    Behind,
}

/// The labels of a mirror's members.
#[derive(Debug)]
pub(super) struct Keeper {
    /// As last written or being written, by member.
    labels: Vec<Label>,
    /// Writes of labels under way: which member.
    writes: BTreeMap<u64, usize>,
    wave: Option<Wave>,
    /// Changes of who has what, how many of them the round under way tells, and how many the labels
    /// of the members in sync tell.
    changes: u64,
    telling: u64,
    told: u64,
    /// No member could take the last round; the next change to wait begins another.
    failed: bool,
    /// Changes that wait.
    held: Vec<u64>,
}

impl Keeper {
    pub(super) fn new(labels: Vec<Label>) -> Self {
        Self {
            labels,
            writes: BTreeMap::new(),
            wave: None,
            changes: 0,
            telling: 0,
            told: 0,
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

    /// Begins a round if the labels do not tell everything.
    pub(super) fn advance<D: Disk, P>(&mut self, core: &mut Core<D, P>, members: &[Standing]) {
        if self.told == self.changes || self.wave.is_some() || self.failed {
            return;
        }
        let generation = 1 + self.labels.iter().map(|label| label.generation).max().unwrap_or(0);
        let in_sync = members.iter().zip(&self.labels).fold(0, |bits, (member, label)| {
            if *member == Standing::InSync { bits | 1 << label.index } else { bits }
        });
        for (label, member) in self.labels.iter_mut().zip(members) {
            let synced_bytes = match member {
                Standing::InSync => label.member_bytes,
                Standing::Behind(synced) => *synced,
                Standing::Out => continue,
            };
            (label.generation, label.in_sync, label.synced_bytes) =
                (generation, in_sync, synced_bytes);
        }
        self.telling = self.changes;
        self.begin(core, Wave::InSync, members);
    }

    fn begin<D: Disk, P>(&mut self, core: &mut Core<D, P>, wave: Wave, members: &[Standing]) {
        self.wave = Some(wave);
        for (index, member) in members.iter().enumerate() {
            let concerned = match wave {
                Wave::InSync => *member == Standing::InSync,
                Wave::Behind => matches!(member, Standing::Behind(_)),
            };
            if concerned {
                self.write(core, index);
            }
        }
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
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&label.encode()).freeze())];
        let id = core.desk.number();
        self.writes.insert(id, member);
        let command = Command::Write { offset, parts, durable: true };
        core.members.submit(member, id, Class::Durable, command, core.now);
        core.members.kick();
    }

    /// Whether the command was the write of a label, and of which member.
    pub(super) fn take_write(&mut self, id: u64) -> Option<usize> {
        self.writes.remove(&id)
    }

    /// A label was written. Gives the changes that may be answered now.
    pub(super) fn written<D: Disk, P>(
        &mut self,
        core: &mut Core<D, P>,
        members: &[Standing],
    ) -> Vec<u64> {
        if !self.writes.is_empty() {
            return Vec::new();
        }
        if self.wave == Some(Wave::InSync) {
            self.told = self.telling;
            self.begin(core, Wave::Behind, members);
        }
        if self.writes.is_empty() {
            self.wave = None;
        }
        if self.told == self.changes { std::mem::take(&mut self.held) } else { Vec::new() }
    }

    /// The only member in sync cannot write its label: gives the changes that wait, which must fail.
    pub(super) fn fail(&mut self) -> Vec<u64> {
        self.failed = true;
        self.wave = None;
        std::mem::take(&mut self.held)
    }

    /// Forgets what was under way.
    pub(super) fn forget(&mut self) {
        self.writes.clear();
        self.held.clear();
        self.wave = None;
    }
}

/// Why a change fails when no label can be written.
pub(super) fn unrecorded(error: &DiskError) -> DiskError {
    let detail = format!(
        "{}; no other member could record that one fell behind, so nothing is acknowledged",
        error.detail
    );
    DiskError { kind: error.kind, detail }
}
