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

use super::members::Members;
use super::{Desk, common_properties, named, names};
use crate::model::{Model, Report};
use crate::random::SplitMix;
use nearhead_disk::{
    Class, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Submission, Ticket,
};
use std::os::fd::BorrowedFd;

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
enum Parts {
    Read { class: Class, offset: u64, len: u32, tried: Vec<usize> },
    Change { made: bool, failed: Vec<(usize, DiskError)> },
}

/// Several disks with the same content.
pub struct Mirror<D> {
    members: Members<D>,
    properties: Properties,
    policy: ReadPolicy,
    states: Vec<State>,
    desk: Desk<Parts>,
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
        Ok(Self { members: Members::new(disks)?, properties, policy, states, desk: Desk::new() })
    }

    /// The disk number `index`.
    pub fn member(&self, index: usize) -> &D {
        self.members.disk(index)
    }

    /// Members whose content counts.
    pub fn members_left(&self) -> usize {
        self.states.iter().filter(|state| state.failed.is_none()).count()
    }

    fn live(&self) -> impl Iterator<Item = usize> {
        (0..self.states.len()).filter(|&index| self.states[index].failed.is_none())
    }

    /// The member for a read at `offset` that the members in `tried` could not serve.
    fn reader(&self, offset: u64, tried: &[usize]) -> Option<usize> {
        let mut candidates = self.live().filter(|index| !tried.contains(index));
        match self.policy {
            ReadPolicy::First => candidates.next(),
            ReadPolicy::Balanced => candidates.min_by_key(|&index| {
                let gap = self.states[index].read_end.abs_diff(offset);
                (gap != 0, self.members.load(index), gap)
            }),
        }
    }

    fn read(&mut self, ticket: Ticket, class: Class, (offset, len): (u64, u32), now: Nanos) {
        let reader = self.reader(offset, &[]).unwrap_or(0);
        let parts = Parts::Read { class, offset, len, tried: vec![reader] };
        let id = self.desk.begin(ticket, 1, parts);
        self.states[reader].read_end = offset + u64::from(len);
        self.members.submit(reader, id, class, Command::Read { offset, len }, now);
    }

    fn change(&mut self, ticket: Ticket, class: Class, command: &Command, now: Nanos) {
        let live: Vec<usize> = self.live().collect();
        let parts = Parts::Change { made: false, failed: Vec::new() };
        let id = self.desk.begin(ticket, live.len(), parts);
        for index in live {
            self.members.submit(index, id, class, command.clone(), now);
        }
    }

    fn settle(&mut self, member: usize, done: Completion, now: Nanos) {
        let id = done.id.0;
        let count = self.members.len();
        let Some(running) = self.desk.running.get_mut(&id) else { return };
        running.left -= 1;
        let left = running.left;
        let error = match (&mut running.parts, done.result) {
            (Parts::Read { .. }, Ok(bytes)) => return self.desk.finish(id, |_| Ok(bytes)),
            (Parts::Change { made, .. }, Ok(_)) => {
                *made = true;
                None
            }
            (_, Err(error)) => Some(error),
        };
        let error = error.map(|error| {
            named(&error, member, count, &self.members.disk(member).properties().name)
        });
        if let Parts::Change { failed, .. } = &mut running.parts {
            failed.extend(error.map(|error| (member, error)));
            if left == 0 {
                self.end_change(id);
            }
        } else if let Some(error) = error {
            self.read_elsewhere(id, member, error, now);
        }
    }

    fn end_change(&mut self, id: u64) {
        let states = &mut self.states;
        self.desk.finish(id, |parts| {
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
    fn read_elsewhere(&mut self, id: u64, member: usize, error: DiskError, now: Nanos) {
        let Some(running) = self.desk.running.get_mut(&id) else { return };
        let Parts::Read { class, offset, len, tried } = &mut running.parts else { return };
        let (class, offset, len, tried) = (*class, *offset, *len, tried.clone());
        let Some(next) = self.reader(offset, &tried) else {
            return self.desk.finish(id, |_| Err(error));
        };
        if error.kind == DiskErrorKind::Gone {
            self.states[member].failed.get_or_insert(error.detail);
        } else {
            self.states[member].unread.get_or_insert(error.detail);
        }
        if let Some(running) = self.desk.running.get_mut(&id) {
            running.left = 1;
            if let Parts::Read { tried, .. } = &mut running.parts {
                tried.push(next);
            }
        }
        self.members.submit(next, id, class, Command::Read { offset, len }, now);
        self.members.kick();
    }
}

impl<D: Disk> Disk for Mirror<D> {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.desk.time = self.desk.time.max(now);
        let Submission { ticket, class, command } = submission;
        let Some(ticket) = self.desk.admit(&self.properties, ticket, &command) else { return };
        match command {
            Command::Read { offset, len } => self.read(ticket, class, (offset, len), now),
            command => self.change(ticket, class, &command, now),
        }
    }

    fn kick(&mut self) {
        self.members.kick();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.desk.time = self.desk.time.max(now);
        while self.desk.done.is_empty() {
            let (member, done) = self.members.poll(now)?;
            self.settle(member, done, now);
        }
        self.desk.done.pop_front()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.desk.wake_at(self.members.wake_at())
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.members.wake_fd()
    }

    fn trouble(&self) -> Option<String> {
        let name = &self.properties.name;
        let failed: Vec<&str> =
            self.states.iter().filter_map(|state| state.failed.as_deref()).collect();
        if !failed.is_empty() {
            let (left, count) = (self.members_left(), self.states.len());
            return Some(format!(
                "{name}: {left} of {count} members left: {}; its content is old from here on: \
                 copy a sound member onto it, or leave it out, before the next use",
                failed.join("; ")
            ));
        }
        if let Some(unread) = self.states.iter().find_map(|state| state.unread.as_ref()) {
            return Some(format!("{name}: another member had to help out: {unread}"));
        }
        self.members.disks().find_map(Disk::trouble)
    }
}

impl<M: Model> Model for Mirror<M> {
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        let cuts: Vec<_> =
            self.members.disks_mut().map(|disk| disk.power_cut(now, random)).collect();
        self.members.forget_commands();
        self.desk.abandon();
        self.desk.power_cuts += 1;
        cuts.into_iter().collect()
    }

    fn report(&self) -> Report {
        let members = self.members.disks().map(Model::report).collect();
        Report::Array { members, power_cuts: self.desk.power_cuts }
    }

    fn reset_report(&mut self) {
        self.desk.power_cuts = 0;
        self.members.disks_mut().for_each(Model::reset_report);
    }
}
