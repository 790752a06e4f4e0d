//! A mounted file system and its users in virtual time: the clock jumps from one event to the next.
//!
//! Each thread has one call under way, or several that it began at once. At one instant the threads that are due go first, in their order, then
//! the file system is driven once: so calls that come together may share a commit. It never waits for ever, and never goes on after a
//! call failed: what failed was not measured.

use super::Counted;
use super::ground::{self, Ground};
use crate::error::FigureError;
use crate::metered::Passed;
use nearhead_disk::Nanos;
use nearhead_ext4::{Caller, Timestamp};
use nearhead_fs::{Answer, FsOperation, FsReply, FsRequest, Mounted, Phase};
use nearhead_service::{RequestId, Service};
use nearhead_sim::virtual_time::Stuck;
use std::collections::{BTreeMap, BTreeSet};

/// What the clock of files shows at the start.
const EPOCH_S: i64 = 1_800_000_000;
/// Rounds at one instant after which time is taken to stand still.
const ROUNDS_MAX: u32 = 1 << 20;

/// What a thread does next.
#[derive(Debug)]
pub(crate) enum Act {
    /// A call; it goes on with the answer.
    Do(FsOperation),
    /// Several calls at once; it goes on once all are answered.
    DoAll(Vec<FsOperation>),
    /// Nothing until then.
    Wait(Nanos),
    /// Nothing any more.
    End,
}

/// A thread of a program.
pub(crate) trait Script {
    /// What it does at `now`, with the answer to its last call if that is why it goes on.
    fn act(&mut self, now: Nanos, answer: Option<Answer>) -> Act;

    /// Forgets what was counted so far: the warm-up ends at `now`.
    fn start_measuring(&mut self, _now: Nanos) {}
}

/// A mounted file system with its users.
pub(crate) struct Bench {
    mounted: Mounted<Ground>,
    what: String,
    now: Nanos,
    scripts: Vec<Box<dyn Script>>,
    /// What begins to count anew with the measurement.
    counted: Vec<Counted>,
    /// When each thread that has no call under way goes on.
    due: BTreeSet<(Nanos, usize)>,
    answers: BTreeMap<usize, Answer>,
    /// Whose each call under way is.
    asked: BTreeMap<u64, usize>,
    /// How many calls each thread waits for.
    missing: Vec<usize>,
    calls: u64,
    digest: u64,
}

impl Bench {
    /// A file system that is mounted at `now`, without users.
    pub(crate) fn of(mounted: Mounted<Ground>, what: String, now: Nanos) -> Self {
        Self {
            mounted,
            what,
            now,
            scripts: Vec::new(),
            counted: Vec::new(),
            due: BTreeSet::new(),
            answers: BTreeMap::new(),
            asked: BTreeMap::new(),
            missing: Vec::new(),
            calls: 0,
            digest: 0,
        }
    }

    /// One more thread, which begins now.
    pub(crate) fn add(&mut self, script: impl Script + 'static) {
        self.due.insert((self.now, self.scripts.len()));
        self.scripts.push(Box::new(script));
        self.missing.push(0);
    }

    /// What several threads count begins anew with the measurement.
    pub(crate) fn restart_when_measuring(&mut self, counted: &Counted) {
        self.counted.push(Counted::clone(counted));
    }

    /// The time.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// A hash of every answer so far: whose it was, and when.
    #[cfg(test)]
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// What the file system stands on.
    pub(crate) fn ground(&self) -> &Ground {
        self.mounted.service()
    }

    /// What it stands on, without it: calls that are under way are never answered.
    pub(crate) fn into_ground(self) -> Ground {
        self.mounted.into_service()
    }

    /// What passed through each disk so far, the volume's own first.
    pub(crate) fn passed(&self) -> Vec<Passed> {
        ground::passed(self.ground())
    }

    /// Whether no thread will do anything more.
    pub(crate) fn is_finished(&self) -> bool {
        self.due.is_empty() && self.asked.is_empty()
    }

    /// Lets the threads work until all have ended or `until` has passed.
    pub(crate) fn run(&mut self, until: Nanos) -> Result<(), FigureError> {
        let mut rounds = 0;
        loop {
            self.let_threads_act();
            self.mounted.drive(self.now);
            while let Some(reply) = self.mounted.poll_reply() {
                self.deliver(reply)?;
            }
            if let Phase::Failed(error) = self.mounted.phase() {
                return Err(self.failed(error.to_string()));
            }
            if self.is_finished() {
                return Ok(());
            }
            let own = self.due.first().map(|(at, _)| *at);
            let next = own.into_iter().chain(self.mounted.wake().at).min();
            match next {
                None => return Err(self.stuck(false)),
                Some(next) if next > until => {
                    self.now = until.max(self.now);
                    return Ok(());
                }
                Some(next) if next > self.now => (self.now, rounds) = (next, 0),
                Some(_) => rounds += 1,
            }
            if rounds >= ROUNDS_MAX {
                return Err(self.stuck(true));
            }
        }
    }

    /// Once no thread does anything: commits what was written, brings home all that is logged, and says what time it is then.
    pub(crate) fn bring_home(&mut self) -> Result<Nanos, FigureError> {
        self.add(SyncsAll(false));
        self.run(Nanos(u64::MAX))?;
        self.mounted.service_mut().start_checkpoint(true, self.now);
        loop {
            self.mounted.drive(self.now);
            let status = self.ground().status();
            if !status.checkpointing && status.map_entries == 0 {
                return Ok(self.now);
            }
            let Some(next) = self.mounted.service().wake().at else {
                return Err(self.stuck(false));
            };
            self.now = next.max(Nanos(self.now.0 + 1));
        }
    }

    /// The warm-up is over.
    pub(crate) fn start_measuring(&mut self) {
        for script in &mut self.scripts {
            script.start_measuring(self.now);
        }
        for counted in &self.counted {
            counted.borrow_mut().restart(self.now);
        }
    }

    fn let_threads_act(&mut self) {
        while let Some((at, index)) = self.due.first().copied().filter(|(at, _)| *at <= self.now) {
            self.due.remove(&(at, index));
            let answer = self.answers.remove(&index);
            match self.scripts[index].act(self.now, answer) {
                Act::Do(operation) => self.call(index, operation),
                Act::DoAll(all) => {
                    for operation in all {
                        self.call(index, operation);
                    }
                }
                // A thread that waits for what is past goes on at the next round.
                Act::Wait(until) => {
                    self.due.insert((until.max(Nanos(self.now.0 + 1)), index));
                }
                Act::End => {}
            }
        }
    }

    fn call(&mut self, index: usize, operation: FsOperation) {
        self.calls += 1;
        self.missing[index] += 1;
        self.asked.insert(self.calls, index);
        let caller = caller_at(self.now);
        self.mounted.submit(FsRequest { id: self.calls, caller, operation });
    }

    fn deliver(&mut self, reply: FsReply) -> Result<(), FigureError> {
        let Some(index) = self.asked.remove(&reply.id) else {
            let problem = Stuck::UnknownReply { now: self.now, id: RequestId(reply.id) };
            return Err(FigureError::Stuck { what: self.what.clone(), problem });
        };
        let answer = reply.result.map_err(|error| self.failed(error.to_string()))?;
        for word in [reply.id, index as u64, self.now.0] {
            // As `VirtualTime` of the simulator does.
            let mixed = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01B3);
            self.digest = mixed ^ (mixed >> 29);
        }
        self.answers.insert(index, answer);
        self.missing[index] -= 1;
        if self.missing[index] == 0 {
            self.due.insert((self.now, index));
        }
        Ok(())
    }

    fn failed(&self, failure: String) -> FigureError {
        FigureError::RequestFailed { what: self.what.clone(), failure }
    }

    fn stuck(&self, spins: bool) -> FigureError {
        let (now, outstanding) = (self.now, self.asked.len() as u64);
        let problem = if spins {
            Stuck::Spinning { now, outstanding }
        } else {
            Stuck::Silent { now, outstanding }
        };
        FigureError::Stuck { what: self.what.clone(), problem }
    }
}

/// Makes all durable, once.
struct SyncsAll(bool);

impl Script for SyncsAll {
    fn act(&mut self, _: Nanos, _: Option<Answer>) -> Act {
        if std::mem::replace(&mut self.0, true) { Act::End } else { Act::Do(FsOperation::SyncAll) }
    }
}

/// Who calls, and what the clock of files shows then.
pub(crate) fn caller_at(now: Nanos) -> Caller {
    let seconds = EPOCH_S + (now.0 / 1_000_000_000) as i64;
    let nanoseconds = (now.0 % 1_000_000_000) as u32;
    Caller { uid: 0, gid: 0, now: Timestamp { seconds, nanoseconds } }
}

/// Drives a mounted file system until it serves, or has failed.
pub(crate) fn run_until_served(
    mounted: &mut Mounted<Ground>,
    mut now: Nanos,
    what: &str,
) -> Result<Nanos, FigureError> {
    loop {
        mounted.drive(now);
        match mounted.phase() {
            Phase::Serving => return Ok(now),
            Phase::Failed(error) => return Err(FigureError::setup(what, error)),
            _ => {}
        }
        let Some(next) = mounted.service().wake().at else {
            return Err(FigureError::setup(what, &"it is never mounted"));
        };
        now = next.max(Nanos(now.0 + 1));
    }
}
