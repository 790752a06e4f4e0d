//! A set of replicas as a service: a write is answered when a quorum has it, a read by one of them.
//!
//! It keeps true that every request gets exactly one reply, that no more replicas than there are permits make a checkpoint that can wait, and
//! that no replica is further behind than [`BEHIND_MAX`] requests: answers of the others wait for it then.

use super::replica::Replica;
use nearhead_basics::{Histogram, NumberHash};
use nearhead_disk::Nanos;
use nearhead_service::{Extent, Operation, Reply, Request, RequestId, Service, ServiceInfo, Wake};
use std::collections::{HashMap, VecDeque};

/// Requests that a replica may owe while others go on.
const BEHIND_MAX: usize = 1 << 16;

/// What the replicas of a set did, since counting began.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// How long flushes and FUA writes took to be durable on a quorum, in ns; by how many replicas were making a checkpoint then.
    pub quorum_ns: Vec<Histogram>,
    /// The same on each replica by itself, while it made none and while it made one.
    pub replica_ns: [Histogram; 2],
    /// How long so many replicas made a checkpoint at once.
    pub at_once: Vec<Nanos>,
    /// Checkpoints that began, since the set was made.
    pub passes: u64,
    /// Bytes that were logged, since the set was made.
    pub logged_bytes: u64,
    /// Bytes that went home, since the set was made.
    pub checkpointed_bytes: u64,
}

/// A replica in its set.
struct Member {
    volume: Box<dyn Replica>,
    /// Its clock is ahead of the set's by so much.
    phase: Nanos,
    /// When it wants to be driven, by the set's clock.
    wake: Option<Nanos>,
    /// It was asked for something since it was driven.
    is_asked: bool,
    is_checkpointing: bool,
    has_permit: bool,
    owed: usize,
}

/// A request that not all have answered yet.
struct Asked {
    /// As the client calls it, who may call another so once this one is answered.
    id: RequestId,
    submitted: Nanos,
    /// It makes something durable.
    is_durable: bool,
    /// How many have to answer it, and how many have to do well.
    members: u32,
    needed: u32,
    done: u32,
    failed: u32,
    is_answered: bool,
}

/// Replicas.
pub(super) struct Set {
    members: Vec<Member>,
    quorum: u32,
    permits: Option<u32>,
    /// Those that wish for a permit or have one, in order.
    wishes: Vec<usize>,
    /// By the numbers that replicas know them by.
    asked: HashMap<u64, Asked, NumberHash>,
    next_number: u64,
    replies: VecDeque<Reply>,
    /// Replies that wait for a replica that is too far behind.
    held: VecDeque<Reply>,
    /// How many are making a checkpoint, and since when it is counted.
    busy: usize,
    busy_since: Nanos,
    counted_from: Nanos,
    counted: Counted,
}

impl Set {
    pub(super) fn new(
        replicas: Vec<(Box<dyn Replica>, Nanos)>,
        permits: Option<u32>,
        counted_from: Nanos,
    ) -> Self {
        let count = replicas.len();
        let members = replicas.into_iter().map(|(volume, phase)| Member {
            volume,
            phase,
            wake: Some(Nanos::ZERO),
            is_asked: true,
            is_checkpointing: false,
            has_permit: false,
            owed: 0,
        });
        let counted = Counted {
            quorum_ns: vec![Histogram::new(); count + 1],
            at_once: vec![Nanos::ZERO; count + 1],
            ..Counted::default()
        };
        Self {
            members: members.collect(),
            quorum: count as u32 / 2 + 1,
            permits,
            wishes: Vec::new(),
            asked: HashMap::default(),
            next_number: 0,
            replies: VecDeque::new(),
            held: VecDeque::new(),
            busy: 0,
            busy_since: counted_from,
            counted_from,
            counted,
        }
    }

    /// What was counted until `now`.
    pub(super) fn counted(&mut self, now: Nanos) -> Counted {
        self.note_busy(now);
        let mut counted = self.counted.clone();
        for member in &self.members {
            let stats = member.volume.stats();
            counted.logged_bytes += stats.logged_bytes;
            counted.checkpointed_bytes += stats.checkpointed_bytes;
        }
        counted
    }

    fn note_busy(&mut self, now: Nanos) {
        if now > self.busy_since {
            self.counted.at_once[self.busy] += now.since(self.busy_since);
            self.busy_since = now;
        }
    }

    /// Drives those that have something to do, and takes their answers.
    fn drive_members(&mut self, now: Nanos) {
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            if !member.is_asked && member.wake.is_none_or(|wake| wake > now) {
                continue;
            }
            let local = now + member.phase;
            member.is_asked = false;
            member.volume.drive(local);
            let was_checkpointing = member.is_checkpointing;
            member.is_checkpointing = member.volume.is_checkpointing();
            let (is, phase) = (member.is_checkpointing, member.phase);
            member.wake = member.volume.wake_at().map(|at| at.since(phase).max(now));
            if is != was_checkpointing {
                self.note_busy(now);
                self.busy = self.members.iter().filter(|member| member.is_checkpointing).count();
                self.counted.passes += u64::from(is);
            }
            while let Some(reply) = self.members[index].volume.poll_reply() {
                self.take(index, reply, now);
            }
        }
    }

    /// A replica answered.
    fn take(&mut self, index: usize, reply: Reply, now: Nanos) {
        let quorum_busy = self.busy;
        let member = &mut self.members[index];
        member.owed -= 1;
        let Some(asked) = self.asked.get_mut(&reply.id.0) else { return };
        let took = now.since(asked.submitted).0;
        let is_counted = asked.is_durable && asked.submitted >= self.counted_from;
        if is_counted && reply.result.is_ok() {
            self.counted.replica_ns[usize::from(member.is_checkpointing)].record(took);
        }
        if reply.result.is_ok() {
            asked.done += 1;
        } else {
            asked.failed += 1;
        }
        let is_lost = asked.failed > asked.members - asked.needed;
        if !asked.is_answered && (asked.done == asked.needed || is_lost) {
            asked.is_answered = true;
            if is_counted && reply.result.is_ok() {
                self.counted.quorum_ns[quorum_busy].record(took);
            }
            self.held.push_back(Reply { id: asked.id, result: reply.result });
        }
        if asked.done + asked.failed == asked.members {
            self.asked.remove(&reply.id.0);
        }
    }

    /// Gives permits to those that wished for them first, and says whether anybody's changed.
    fn give_permits(&mut self, now: Nanos) -> bool {
        let Some(permits) = self.permits else { return false };
        let members = &self.members;
        self.wishes.retain(|&index| members[index].volume.wants_permit());
        for (index, member) in self.members.iter().enumerate() {
            if member.volume.wants_permit() && !self.wishes.contains(&index) {
                self.wishes.push(index);
            }
        }
        let mut is_changed = false;
        for (index, member) in self.members.iter_mut().enumerate() {
            let place = self.wishes.iter().position(|&wish| wish == index);
            let is_held = place.is_some_and(|place| place < permits as usize);
            if is_held != member.has_permit {
                member.has_permit = is_held;
                member.volume.set_permit(is_held, now + member.phase);
                member.is_asked = true;
                is_changed = true;
            }
        }
        is_changed
    }
}

impl Service for Set {
    fn info(&self) -> ServiceInfo {
        self.members[0].volume.info()
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        let count = self.members.len() as u32;
        let number = self.next_number;
        self.next_number += 1;
        let is_durable = matches!(
            request.operation,
            Operation::Flush | Operation::Write { fua: true, .. } | Operation::WriteAtomic { .. }
        );
        let reader = match request.operation {
            Operation::Read { .. } => Some((number % u64::from(count)) as usize),
            _ => None,
        };
        let (members, needed) = if reader.is_some() { (1, 1) } else { (count, self.quorum) };
        let asked = Asked {
            id: request.id,
            submitted: now,
            is_durable,
            members,
            needed,
            done: 0,
            failed: 0,
            is_answered: false,
        };
        self.asked.insert(number, asked);
        let request = Request { id: RequestId(number), operation: request.operation };
        for (index, member) in self.members.iter_mut().enumerate() {
            if reader.is_none_or(|reader| reader == index) {
                member.is_asked = true;
                member.owed += 1;
                member.volume.submit(request.clone(), now + member.phase);
            }
        }
    }

    fn drive(&mut self, now: Nanos) {
        loop {
            self.drive_members(now);
            if !self.give_permits(now) {
                break;
            }
        }
        if self.members.iter().all(|member| member.owed <= BEHIND_MAX) {
            self.replies.append(&mut self.held);
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        Wake::precisely(self.members.iter().filter_map(|member| member.wake).min())
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        self.members[0].volume.block_status(offset, len, runs_max)
    }

    fn losses(&self) -> u64 {
        self.members.iter().map(|member| member.volume.losses()).sum()
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        for member in &mut self.members {
            member.is_asked = true;
            member.volume.begin_shutdown(now + member.phase);
        }
    }

    fn is_shut_down(&self) -> bool {
        self.members.iter().all(|member| member.volume.is_shut_down())
    }
}
