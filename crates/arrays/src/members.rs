//! The disks of an array: each with its own queue, and one descriptor that watches all of them.
//!
//! A member never has more commands than its queue holds; what comes beyond that waits here, in
//! order, bounded by the array's own queue and by the sectors of what is being made alike. A member's
//! command carries the number of the array's command that it belongs to.

use super::rested::{Leave, Rested, woken_by};
use nearhead_disk::{
    Class, Command, CommandId, Completion, Disk, DiskError, DiskErrorKind, Nanos, Submission,
    Ticket, Woken, WokenBy,
};
use rustix::event::epoll;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

struct Member<D> {
    disk: D,
    depth: usize,
    outstanding: usize,
    waiting: VecDeque<Submission>,
    rested: Rested,
}

impl<D> Member<D> {
    /// It has nothing to do.
    fn is_free(&self) -> bool {
        self.outstanding == 0 && self.waiting.is_empty()
    }
}

/// The disks of an array.
pub(super) struct Members<D> {
    list: Vec<Member<D>>,
    /// The member that is asked first for completions, so that none is favoured.
    turn: usize,
    /// Readable when any member's descriptor is.
    wake: Option<OwnedFd>,
    /// When a member rests; none if no member does.
    leave: Option<Leave>,
}

impl<D: Disk> Members<D> {
    /// Takes `disks` over. Fails if the kernel cannot watch all of them.
    pub(super) fn new(disks: Vec<D>) -> Result<Self, DiskError> {
        let wake = watch(&disks).map_err(|error| DiskError {
            kind: DiskErrorKind::Io,
            detail: format!("the disks of an array cannot be watched together: {error}"),
        })?;
        let member = |disk: D| Member {
            depth: usize::from(disk.properties().queue_depth_max),
            disk,
            outstanding: 0,
            waiting: VecDeque::new(),
            rested: Rested::default(),
        };
        let list = disks.into_iter().map(member).collect();
        Ok(Self { list, turn: 0, wake, leave: None })
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn disk(&self, index: usize) -> &D {
        &self.list[index].disk
    }

    /// Gives the disks back.
    pub(super) fn into_disks(mut self) -> Vec<D> {
        self.forget_commands();
        std::mem::take(&mut self.list).into_iter().map(|member| member.disk).collect()
    }

    pub(super) fn disks(&self) -> impl Iterator<Item = &D> {
        self.list.iter().map(|member| &member.disk)
    }

    pub(super) fn disks_mut(&mut self) -> impl Iterator<Item = &mut D> {
        self.list.iter_mut().map(|member| &mut member.disk)
    }

    /// Releases a member that has no command. Returns whether it was.
    pub(super) fn release(&mut self, index: usize) -> bool {
        let member = &mut self.list[index];
        if member.is_free() {
            member.disk.release();
        }
        member.is_free()
    }

    /// Commands at a member or waiting for it.
    pub(super) fn load(&self, index: usize) -> usize {
        self.list[index].outstanding + self.list[index].waiting.len()
    }

    /// From now on members rest once they have had nothing to do for so long, or none does.
    pub(super) fn let_rest(&mut self, after: Option<Nanos>, now: Nanos) {
        let before =
            std::mem::replace(&mut self.leave, after.map(|after| Leave { after, since: now }));
        for member in self.list.iter_mut().filter(|member| member.is_free()) {
            member.rested.settle(before, now);
        }
    }

    /// For how long a member has rested, if it does.
    pub(super) fn resting_for(&self, index: usize, now: Nanos) -> Option<Nanos> {
        let member = &self.list[index];
        member.rested.resting_for(self.leave.filter(|_| member.is_free()), now)
    }

    /// For how long in all.
    pub(super) fn rested(&self, index: usize, now: Nanos) -> Nanos {
        let member = &self.list[index];
        member.rested.in_all(self.leave.filter(|_| member.is_free()), now)
    }

    /// For how long it has had nothing to do.
    pub(super) fn idle(&self, index: usize, now: Nanos) -> Nanos {
        let member = &self.list[index];
        if member.is_free() { member.rested.idle(now) } else { Nanos::ZERO }
    }

    /// How often it was given something after it had rested, and what.
    pub(super) fn woken(&self, index: usize) -> Woken {
        self.list[index].rested.woken()
    }

    /// Gives `command`, a part of the array's command `id`, to a member.
    pub(super) fn submit(
        &mut self,
        index: usize,
        id: u64,
        class: Class,
        command: Command,
        now: Nanos,
    ) {
        let by = woken_by(class, &command);
        self.submit_for(by, (index, id, class), command, now);
    }

    /// The same where it is known better what the member is woken by, if it rests.
    pub(super) fn submit_for(
        &mut self,
        by: WokenBy,
        (index, id, class): (usize, u64, Class),
        command: Command,
        now: Nanos,
    ) {
        let submission = Submission { ticket: Ticket::new(CommandId(id)), class, command };
        let leave = self.leave.filter(|_| self.resting_for(index, now).is_some());
        let member = &mut self.list[index];
        if leave.is_some() {
            member.rested.wake(by, leave, now);
        }
        member.rested.note_busy(now);
        if member.outstanding < member.depth && member.waiting.is_empty() {
            member.outstanding += 1;
            member.disk.submit(submission, now);
        } else {
            member.waiting.push_back(submission);
        }
    }

    pub(super) fn kick(&mut self) {
        self.list.iter_mut().for_each(|member| member.disk.kick());
    }

    /// The next command of any member that is done, with the member's number.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<(usize, Completion)> {
        let count = self.list.len();
        for index in (0..count).map(|step| (self.turn + step) % count) {
            let member = &mut self.list[index];
            if let Some(done) = member.disk.poll(now) {
                self.turn = (index + 1) % count;
                member.outstanding -= 1;
                member.rested.note_busy(now);
                if let Some(submission) = member.waiting.pop_front() {
                    member.outstanding += 1;
                    member.disk.submit(submission, now);
                    member.disk.kick();
                }
                return Some((index, done));
            }
        }
        None
    }

    pub(super) fn wake_at(&self) -> Option<Nanos> {
        self.list.iter().filter_map(|member| member.disk.wake_at()).min()
    }

    pub(super) fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(AsFd::as_fd)
    }

    /// Forgets everything that was given to the members, who forgot it as well.
    pub(super) fn forget_commands(&mut self) {
        for member in &mut self.list {
            member.outstanding = 0;
            member.waiting.drain(..).for_each(|submission| submission.ticket.abandon());
        }
    }
}

impl<D> Drop for Members<D> {
    fn drop(&mut self) {
        for member in &mut self.list {
            member.waiting.drain(..).for_each(|submission| submission.ticket.abandon());
        }
    }
}

/// A descriptor that is readable when one of the disks' is; none if no disk has one.
fn watch<D: Disk>(disks: &[D]) -> rustix::io::Result<Option<OwnedFd>> {
    if disks.iter().all(|disk| disk.wake_fd().is_none()) {
        return Ok(None);
    }
    let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for fd in disks.iter().filter_map(Disk::wake_fd) {
        epoll::add(&all, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(Some(all))
}
