//! Requests of clients while they are carried out: tried from the beginning each time something came that they waited for.
//!
//! A try changes nothing until it can be finished, so trying again is safe. Every job ends with exactly one reply.

use crate::core::{BLOCK, Core, whole};
use crate::error::{EINVAL, ESHUTDOWN, FsError, Halt};
use crate::io::Purpose;
use crate::mounted::Phase;
use crate::reading::Reading;
use crate::record_room::RECORD_BYTES_MIN;
use crate::request::{Answer, FsOperation, FsRequest};
use crate::trim::{Part, Trimming};
use crate::waiting::Waiter;
use nearhead_disk::Payload;
use nearhead_ext4::{Caller, Ext4};
use nearhead_service::Operation;

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: FsRequest,
    /// A read whose parts are under way.
    pub(crate) reading: Option<Box<Reading>>,
    /// It is done and waits to be durable; this is its answer then.
    pub(crate) then: Option<Answer>,
    /// The commit that it waits for.
    pub(crate) until: u64,
    /// Requests of its own to the volume that are under way, and the first that failed.
    pub(crate) asked: u32,
    pub(crate) error: Option<FsError>,
    /// How far an `fstrim` is.
    pub(crate) trimming: Trimming,
}

/// How far a try came.
pub(crate) enum Tried {
    /// To its end.
    Done(Answer),
    /// Its parts are under way.
    Reading(Box<Reading>),
    /// What it did is to be durable before this answer, as by an `fsync` of what it names.
    Durable(Answer),
    /// It waits for this commit.
    Until(u64),
    /// It asks these of the volume, and then has this answer.
    Asked(Vec<Operation>, Answer),
}

impl Core {
    /// Asks for the first block.
    pub(crate) fn begin(&mut self) {
        let found = self.options.record_bytes_max;
        if found < RECORD_BYTES_MIN && !self.options.ext4.read_only {
            let detail = format!(
                "the volume's logs are too small for a file system: expected atomic writes of at least {RECORD_BYTES_MIN} bytes, found \
                 {found}; create it with larger logs, or with a preset that has logs"
            );
            return self.fail(FsError::new(EINVAL, detail));
        }
        self.io.ask(Purpose::Superblock, Operation::Read { offset: 0, len: BLOCK as u32 });
    }

    pub(crate) fn on_superblock(&mut self, result: Result<Vec<Payload>, FsError>) {
        let first = match result {
            Ok(parts) => whole(&parts),
            Err(error) => return self.fail(error),
        };
        match Ext4::open(&first[..], self.info.size_bytes, self.options.ext4) {
            Ok(mut ext4) => {
                if self.survival.is_some() {
                    ext4.note_changes();
                }
                self.ext4 = Some(Box::new(ext4));
                self.phase = Phase::Mounting;
                self.limit_changes(0);
                self.runnable.push_back(Waiter::Mount);
            }
            Err(error) => self.fail(FsError::new(EINVAL, error.to_string())),
        }
    }

    fn try_mount(&mut self) {
        if self.phase != Phase::Mounting {
            return;
        }
        let now = self.options.mounted_at;
        let tried = self.ext4().and_then(|ext4| ext4.mount(now).map_err(Halt::from));
        match tried {
            Ok(()) => self.try_restore(),
            Err(halt) => {
                if let Err(error) = self.park(Waiter::Mount, halt) {
                    self.fail(error);
                }
            }
        }
    }

    pub(crate) fn submit(&mut self, request: FsRequest) {
        self.clock = self.clock.max(request.caller.now);
        if matches!(self.phase, Phase::Closing | Phase::Closed) {
            let detail = "the file system is being unmounted";
            return self.reply(request.id, Err(FsError::new(ESHUTDOWN, detail)));
        }
        self.counts.requests += u64::from(!matches!(request.operation, FsOperation::Forget { .. }));
        let Some(request) = self.answer_survivor(request) else { return };
        let slot = self.jobs.insert(Job {
            request,
            reading: None,
            then: None,
            until: 0,
            asked: 0,
            error: None,
            trimming: Trimming::default(),
        });
        self.runnable.push_back(Waiter::Job(slot));
    }

    /// Goes on with all who can.
    pub(crate) fn run_all(&mut self) {
        while let Some(who) = self.runnable.pop_front() {
            match who {
                Waiter::Mount => self.try_mount(),
                Waiter::Job(slot) => self.run_job(slot),
                Waiter::WriteOut(slot) => self.try_write_out(slot),
                Waiter::Commit => self.go_on_with_commit(),
                // Looked at in each turn.
                Waiter::Rest => {}
            }
        }
    }

    fn run_job(&mut self, slot: u32) {
        match &self.phase {
            Phase::Opening | Phase::Mounting => return self.waiting.for_mount(Waiter::Job(slot)),
            Phase::Failed(error) => {
                let error = error.clone();
                // What was read before the failure can still be.
                let changes = self.jobs.get(slot).is_none_or(|job| job.request.operation.changes());
                if changes || self.ext4.is_none() {
                    return self.finish_job(slot, Err(error));
                }
            }
            Phase::Serving | Phase::Closing | Phase::Closed => {}
        }
        let Some(job) = self.jobs.get_mut(slot) else { return };
        if job.reading.is_some() || job.asked > 0 {
            return;
        }
        if job.until > 0 {
            return self.finish_sync(slot);
        }
        // Taken out while it is tried: what is tried names bytes that it should not have to copy.
        let hollow = FsOperation::Statistics;
        let operation = std::mem::replace(&mut job.request.operation, hollow);
        let caller = job.request.caller;
        let tried = self.try_operation(slot, &operation, &caller);
        if let Some(job) = self.jobs.get_mut(slot) {
            job.request.operation = operation;
        }
        match tried {
            Ok(Tried::Done(answer)) => self.finish_job(slot, Ok(answer)),
            Ok(Tried::Reading(reading)) => {
                if let Some(job) = self.jobs.get_mut(slot) {
                    job.reading = Some(reading);
                }
            }
            Ok(Tried::Durable(answer)) => self.make_durable(slot, answer),
            Ok(Tried::Until(number)) => self.wait_until(slot, number),
            Ok(Tried::Asked(operations, answer)) => self.ask_volume(slot, operations, answer),
            Err(halt) => {
                if let Err(error) = self.park(Waiter::Job(slot), halt) {
                    self.finish_job(slot, Err(error));
                }
            }
        }
    }

    /// What a job did is there, and is to be durable before its answer.
    fn make_durable(&mut self, slot: u32, answer: Answer) {
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let operation = &job.request.operation;
        let (ino, data_only) = match (operation, operation.directory()) {
            (FsOperation::Write { ino, .. }, _) => (*ino, true),
            (_, Some(directory)) => (directory, false),
            _ => return self.finish_job(slot, Ok(answer)),
        };
        job.then = Some(answer);
        self.keep_answer_of(slot);
        match self.durable_at(ino, data_only) {
            Some(number) => self.wait_until(slot, number),
            None => self.finish_sync(slot),
        }
    }

    /// A job whose effect is in the log has its answer there as well, although it is not given yet.
    fn keep_answer_of(&mut self, slot: u32) {
        let Some(job) = self.jobs.get(slot).filter(|_| self.survival.is_some()) else { return };
        let Some(answer) = job.then.clone() else { return };
        let (id, operation) = (job.request.id, job.request.operation.clone());
        self.keep_answer(id, &operation, &Ok(answer));
    }

    fn wait_until(&mut self, slot: u32, number: u64) {
        if let Some(job) = self.jobs.get_mut(slot) {
            job.until = number;
            self.waiting.for_commit(Waiter::Job(slot), number);
        }
    }

    fn ask_volume(&mut self, slot: u32, operations: Vec<Operation>, answer: Answer) {
        let Some(job) = self.jobs.get_mut(slot).filter(|_| !operations.is_empty()) else {
            return self.finish_job(slot, Ok(answer));
        };
        (job.asked, job.then) = (operations.len() as u32, Some(answer));
        for operation in operations {
            self.io.ask(Purpose::Asked(slot), operation);
        }
    }

    /// The volume answered one of a job's own requests.
    pub(crate) fn on_asked(&mut self, slot: u32, error: Option<FsError>) {
        let Some(job) = self.jobs.get_mut(slot) else { return };
        job.asked = job.asked.saturating_sub(1);
        job.error = job.error.take().or(error);
        if job.asked > 0 || self.on_trimmed(slot) {
            return;
        }
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let answer = job.then.take().unwrap_or(Answer::Nothing);
        let result = job.error.take().map_or(Ok(answer), Err);
        self.finish_job(slot, result);
    }

    /// The commit that it waited for is durable.
    fn finish_sync(&mut self, slot: u32) {
        let Some(job) = self.jobs.get_mut(slot) else { return };
        if job.until > self.commit.committed() {
            let until = job.until;
            return self.waiting.for_commit(Waiter::Job(slot), until);
        }
        let answer = job.then.take().unwrap_or(Answer::Nothing);
        let ino = match &job.request.operation {
            FsOperation::Write { ino, .. } | FsOperation::Sync { ino, .. } => Some(*ino),
            _ => None,
        };
        let error = ino.and_then(|ino| self.take_error(ino));
        self.finish_job(slot, error.map_or(Ok(answer), Err));
    }

    pub(crate) fn finish_job(&mut self, slot: u32, result: Result<Answer, FsError>) {
        if let Some(job) = self.jobs.remove(slot) {
            self.keep_answer(job.request.id, &job.request.operation, &result);
            self.reply(job.request.id, result);
        }
    }

    fn try_operation(
        &mut self,
        slot: u32,
        operation: &FsOperation,
        caller: &Caller,
    ) -> Result<Tried, Halt> {
        use FsOperation as Op;
        if operation.changes_metadata() && self.is_commit_due_by_size() {
            return Err(Halt::Changes);
        }
        match operation {
            Op::Read { ino, offset, len } => self.try_read(slot, *ino, *offset, *len),
            Op::Write { ino, offset, data, is_durable } => {
                let (written, is_synchronous) = self.try_write(*ino, *offset, data, caller)?;
                let is_durable = *is_durable || is_synchronous;
                Ok(if is_durable { Tried::Durable(written) } else { Tried::Done(written) })
            }
            Op::Sync { ino, data_only } => Ok(match self.durable_at(*ino, *data_only) {
                Some(number) => Tried::Until(number),
                None => self.sync_answer(*ino)?,
            }),
            Op::SyncAll => {
                self.commit.want_all();
                Ok(Tried::Until(self.commit.next()))
            }
            Op::Closed { ino } => {
                self.try_closed(*ino)?;
                Ok(Tried::Done(Answer::Nothing))
            }
            Op::SetAttributes { ino, change, size } => {
                self.try_set_attributes(*ino, change, *size, caller).map(Tried::Done)
            }
            Op::ChangeRoom { ino, offset, len, change } => self
                .try_change_room(*ino, *offset..offset.saturating_add(*len), *change, caller)
                .map(Tried::Done),
            Op::Seek { ino, offset, sought } => {
                self.try_seek(*ino, *offset, *sought).map(Tried::Done)
            }
            Op::Trim { offset, len, run_bytes_min } => {
                let part = Part { offset: *offset, len: *len, run_bytes_min: *run_bytes_min };
                self.try_trim(slot, part, caller)
            }
            Op::Hint { offset, len, hint } => {
                let hint = Operation::Hint { offset: *offset, len: *len, hint: *hint };
                Ok(Tried::Asked(vec![hint], Answer::Nothing))
            }
            other => {
                let is_synchronous = self.is_synchronous(other)?;
                let done = self.try_name(other, caller)?;
                Ok(if is_synchronous { Tried::Durable(done) } else { Tried::Done(done) })
            }
        }
    }

    /// The error of a write-out, which one `fsync` reports.
    fn take_error(&mut self, ino: nearhead_ext4::Ino) -> Option<FsError> {
        let error = self.files.get_mut(&ino)?.error.take();
        self.touch(ino);
        error
    }

    /// Nothing of it has to be made durable.
    fn sync_answer(&mut self, ino: nearhead_ext4::Ino) -> Result<Tried, Halt> {
        let error = self.take_error(ino);
        error.map_or(Ok(Tried::Done(Answer::Nothing)), |error| Err(Halt::Fails(error)))
    }
}
