//! A mirror: the same bytes on every member.
//!
//! A change is answered when every member that still counts has answered. A member that could not
//! make a change which another one made is *failed*: it is never read again, because what it holds
//! is old, and [`Disk::trouble`] says so from then on. If no member made the change, the change
//! fails and everybody still counts. A member that cannot read is helped out by another.
//!
//! After a power cut the members may differ where a write was under way. Read from the first member
//! only ([`ReadPolicy::First`], the default), such a place still has one content; read in turns it
//! may show either until it is written again.

use super::{Arrangement, Array, Core, common_properties, names};
use nearhead_disk::{
    Class, Command, Completion, Disk, DiskError, DiskErrorKind, Payload, Properties, Ticket,
};

/// Which member serves a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The first that has not failed.
    #[default]
    First,
    /// The one that a sequential read goes on with, else the one with the least to do.
    Balanced,
}

/// What a command waits for.
pub enum Parts {
    /// A member's answer; `tried` are those that were asked.
    Read {
        /// As the host gave it.
        class: Class,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
        /// In this order.
        tried: Vec<usize>,
    },
    /// Every member's answer.
    Change {
        /// Whether any member made it.
        made: bool,
        /// Those that did not.
        failed: Vec<(usize, DiskError)>,
    },
}

/// Several disks with the same content.
pub type Mirror<D> = Array<D, Copies>;

/// What a mirror knows of its members, and who serves reads.
#[derive(Debug)]
pub struct Copies {
    policy: ReadPolicy,
    states: Vec<State>,
}

/// What a mirror knows of a member.
#[derive(Clone, Debug, Default)]
struct State {
    /// Why its content is old.
    failed: Option<String>,
    /// The first read that another member had to serve.
    unread: Option<String>,
    /// Where its last read ended.
    read_end: u64,
}

impl<D: Disk> Mirror<D> {
    /// Mirrors `disks`, using of each as much as the smallest has.
    ///
    /// Fails for fewer than two disks. The disks must hold the same bytes already, or be written
    /// before they are read.
    pub fn new(disks: Vec<D>, policy: ReadPolicy) -> Result<Self, DiskError> {
        let common = common_properties(&disks, format!("mirror:{}", names(&disks)))?;
        let sector = u64::from(common.sector_bytes);
        let capacity_bytes = common.capacity_bytes - common.capacity_bytes % sector;
        let properties = Properties { capacity_bytes, ..common };
        let states = vec![State::default(); disks.len()];
        Self::arranged(disks, properties, Copies { policy, states })
    }

    /// Members whose content counts.
    pub fn members_left(&self) -> usize {
        self.arrangement.live().count()
    }
}

impl Copies {
    fn live(&self) -> impl Iterator<Item = usize> {
        (0..self.states.len()).filter(|&index| self.states[index].failed.is_none())
    }

    /// The member for a read at `offset` that the members in `tried` could not serve.
    fn reader<D: Disk>(
        &self,
        core: &Core<D, Parts>,
        offset: u64,
        tried: &[usize],
    ) -> Option<usize> {
        let mut candidates = self.live().filter(|index| !tried.contains(index));
        match self.policy {
            ReadPolicy::First => candidates.next(),
            ReadPolicy::Balanced => candidates.min_by_key(|&index| {
                let gap = self.states[index].read_end.abs_diff(offset);
                (gap != 0, core.members.load(index), gap)
            }),
        }
    }

    /// Every member that counts made a change, or said that it could not.
    fn end_change<D: Disk>(&mut self, core: &mut Core<D, Parts>, id: u64) {
        let states = &mut self.states;
        core.desk.finish(id, |parts| {
            let Parts::Change { made, mut failed } = parts else { return Ok(Payload::EMPTY) };
            if made {
                for (member, error) in failed {
                    states[member].failed.get_or_insert(error.detail);
                }
                return Ok(Payload::EMPTY);
            }
            // Nobody made it, so nobody fell behind; a member that failed before this command was
            // answered is no better a witness than the others.
            match failed.pop() {
                Some((_, error)) => Err(error),
                None => Ok(Payload::EMPTY),
            }
        });
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
        let Some(next) = self.reader(core, offset, &tried) else {
            return core.desk.finish(id, |_| Err(error));
        };
        if error.kind == DiskErrorKind::Gone {
            self.states[member].failed.get_or_insert(error.detail);
        } else {
            self.states[member].unread.get_or_insert(error.detail);
        }
        if let Some(running) = core.desk.get_mut(id) {
            running.left = 1;
            if let Parts::Read { tried, .. } = &mut running.kind {
                tried.push(next);
            }
        }
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
        if let Command::Read { offset, len } = command {
            let reader = self.reader(core, offset, &[]).unwrap_or(0);
            let parts = Parts::Read { class, offset, len, tried: vec![reader] };
            let id = core.desk.book(ticket, 1, parts);
            self.states[reader].read_end = offset + u64::from(len);
            return core.members.submit(reader, id, class, command, core.now);
        }
        let live: Vec<usize> = self.live().collect();
        let parts = Parts::Change { made: false, failed: Vec::new() };
        let id = core.desk.book(ticket, live.len(), parts);
        for index in live {
            core.members.submit(index, id, class, command.clone(), core.now);
        }
    }

    fn settle<D: Disk>(&mut self, core: &mut Core<D, Parts>, member: usize, done: Completion) {
        let id = done.id.0;
        let result = done.result.map_err(|error| core.name_error(member, &error));
        let last = core.desk.part_done(id, None);
        let Some(running) = core.desk.get_mut(id) else { return };
        match (&mut running.kind, result) {
            (Parts::Read { .. }, Ok(bytes)) => return core.desk.finish(id, |_| Ok(bytes)),
            (Parts::Read { .. }, Err(error)) => {
                return self.read_elsewhere(core, id, member, error);
            }
            (Parts::Change { made, .. }, Ok(_)) => *made = true,
            (Parts::Change { failed, .. }, Err(error)) => failed.push((member, error)),
        }
        if last {
            self.end_change(core, id);
        }
    }

    fn width<D: Disk>(&self, _: &Core<D, Parts>) -> u32 {
        1
    }

    fn trouble<D: Disk>(&self, core: &Core<D, Parts>) -> Option<String> {
        let name = &core.properties.name;
        let failed: Vec<&str> =
            self.states.iter().filter_map(|state| state.failed.as_deref()).collect();
        if !failed.is_empty() {
            let (left, count) = (self.live().count(), self.states.len());
            return Some(format!(
                "{name}: {left} of {count} members left: {}; its content is old from here on: \
                 copy a sound member onto it, or leave it out, before the next use",
                failed.join("; ")
            ));
        }
        let unread = self.states.iter().find_map(|state| state.unread.as_ref());
        unread.map(|unread| format!("{name}: another member had to help out: {unread}"))
    }
}
