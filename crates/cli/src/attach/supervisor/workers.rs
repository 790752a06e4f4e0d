//! Workers of a supervisor: started, started again, and replaced by those of another program.
//!
//! What stays true is said in [`super`]. It must never end the supervisor once there is a device, but for an end of the worker that the kernel
//! cannot hide.

use super::super::worker_process::{Binary, Orders, Worker};
use super::{Answer, Event, Supervisor};
use crate::bounded_log::CHECK_EVERY;
use nearhead_output::note;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first pause before a worker that failed at once is followed by another, and the longest.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Number of workers that may fail to end in order once the device was taken away.
const ENDINGS_MAX: u32 = 3;
/// Number of those that may give a reason, such as a full file system, for which each waited up to ten seconds.
const REASONS_MAX: u32 = 2;

/// An upgrade under way.
pub(super) struct Upgrade {
    before: Arc<Binary>,
    pub(super) answer: Answer,
    /// Longest time without progress.
    limit: Duration,
    /// The new program's worker was ended: it did not get on.
    is_given_up: bool,
}

impl Supervisor<'_> {
    /// Time until there is something to do without an event.
    pub(super) fn waits_for(&self) -> Duration {
        let upgrade = self.upgrade.as_ref().filter(|_| !self.is_ready && self.worker.is_some());
        let limit = upgrade.filter(|upgrade| !upgrade.is_given_up).map(|upgrade| upgrade.limit);
        let times = [self.start_at, limit.map(|limit| self.got_on + limit)];
        let now = Instant::now();
        let waits = times.into_iter().flatten().map(|at| at.saturating_duration_since(now));
        waits.min().unwrap_or(CHECK_EVERY).min(CHECK_EVERY)
    }

    /// Ends the worker of a new program that does not get on.
    pub(super) fn give_up_one_that_hangs(&mut self) {
        let (is_ready, got_on) = (self.is_ready, self.got_on);
        let (Some(upgrade), Some(worker)) = (&mut self.upgrade, &self.worker) else { return };
        if !is_ready && !upgrade.is_given_up && got_on.elapsed() >= upgrade.limit {
            upgrade.is_given_up = true;
            worker.kill();
        }
    }

    /// Starts a worker, or sees to it that another attempt follows. An error ends this process: there is no device yet.
    pub(super) fn start_worker(&mut self) -> Result<(), String> {
        let Err(why) = self.try_to_start() else {
            self.tell_others();
            return Ok(());
        };
        if self.facts.is_none() {
            return Err(why);
        }
        if let Some(Upgrade { before, answer, .. }) = self.upgrade.take() {
            self.binary = before;
            let name = &self.place.name;
            let _ = answer.send(Err(format!("{name} goes on with the program that it had: {why}")));
            self.start_at = Some(Instant::now());
            return Ok(());
        }
        self.later(&why);
        Ok(())
    }

    fn try_to_start(&mut self) -> Result<(), String> {
        self.workers += 1;
        (self.is_ready, self.is_adopted) = (false, false);
        (self.got_on, self.problem) = (Instant::now(), None);
        let (number, sender) = (self.workers, self.sender.clone());
        let (connection, what) = self.device.for_worker()?;
        let orders = match &self.identity {
            Some(identity) => Orders::again(identity, &self.place),
            None => Orders::first(),
        };
        let worker = Worker::start(&self.binary, (connection, what), orders, move |said| {
            // No receiver is left once this process ends.
            let _ = sender.send(Event::Worker(number, said));
        })?;
        self.worker = Some(worker);
        Ok(())
    }

    /// Another attempt follows after a pause.
    fn later(&mut self, why: &str) {
        let (name, pause) = (&self.place.name, self.pause);
        note(&format!(
            "attached volume {name}: no worker serves it: {why}; requests wait, the next attempt follows in {:.1} s",
            pause.as_secs_f64()
        ));
        if let Some(facts) = &mut self.facts {
            facts.trouble = Some(why.to_owned());
        }
        self.start_at = Some(Instant::now() + pause);
        self.pause = (pause * 2).min(PAUSE_MAX);
        self.tell_others();
    }

    /// Whether that is the end.
    pub(super) fn worker_ended(&mut self, how: &str) -> Result<bool, String> {
        self.worker = None;
        let name = self.place.name.clone();
        if self.device.has_ended() {
            if how.is_empty() {
                return Ok(true);
            }
            self.endings += 1;
            self.reasons += u32::from(self.problem.is_some());
            let is_last = self.endings == ENDINGS_MAX || self.reasons == REASONS_MAX;
            if is_last || self.facts.is_none() {
                let problem = self.problem.take().map(|problem| format!(" ({problem})"));
                let durable = if self.place.keeps_nothing() {
                    "; all that was answered is durable, and the next start recovers it"
                } else {
                    ""
                };
                return Err(format!(
                    "attached volume {name}: it was detached, and its worker {how}{}{durable}",
                    problem.unwrap_or_default()
                ));
            }
            self.start_worker()?;
            return Ok(false);
        }
        let was_ready = self.is_ready;
        if !was_ready && self.facts.is_none() {
            // The worker logged the reason.
            let why = self.problem.take().unwrap_or_else(|| format!("it {how}"));
            return Err(format!("attach {}: the volume cannot be served: {why}", self.target));
        }
        if !how.is_empty() && !self.device.outlives_a_kill() {
            return Err(format!(
                "attached volume {name}: the worker {how}, and this kernel (before Linux 6.9) cannot repeat what it had not \
                 answered: users of the device get errors"
            ));
        }
        let how = if how.is_empty() { "was stopped" } else { how };
        match self.upgrade.take() {
            Some(upgrade) if !was_ready => {
                self.binary = upgrade.before;
                let why = if upgrade.is_given_up {
                    let seconds = upgrade.limit.as_secs_f64();
                    format!("the other one did not get on for {seconds:.1} s and was ended")
                } else {
                    let problem = self.problem.take().map(|problem| format!(": {problem}"));
                    format!(
                        "the other one ended before it was ready (it {how}{})",
                        problem.unwrap_or_default()
                    )
                };
                let outcome = format!("{name} goes on with the program that it had: {why}");
                note(&outcome);
                let _ = upgrade.answer.send(Err(outcome));
                self.start_worker()?;
                return Ok(false);
            }
            other => self.upgrade = other,
        }
        if was_ready {
            if self.upgrade.is_none() {
                note(&format!(
                    "attached volume {name}: the worker {how}; starting another, users of the device wait"
                ));
            }
            self.start_worker()?;
            return Ok(false);
        }
        let why = self.problem.take().unwrap_or_else(|| format!("the worker {how}"));
        self.later(&why);
        Ok(false)
    }

    pub(super) fn begin_upgrade(&mut self, path: PathBuf, limit: Duration, answer: Answer) {
        let refused = |why: String| {
            let _ = answer.send(Err(why));
        };
        if self.upgrade.is_some() || self.wanted.is_some() {
            return refused(format!("{}: an upgrade is under way already", self.place.name));
        }
        let binary = match Binary::at(&path) {
            Ok(binary) => binary,
            Err(why) => return refused(why),
        };
        if !self.is_ready && self.worker.is_some() {
            self.wanted = Some((path, limit, answer));
            return;
        }
        let before = std::mem::replace(&mut self.binary, Arc::new(binary));
        self.upgrade = Some(Upgrade { before, answer, limit, is_given_up: false });
        match &self.worker {
            Some(worker) => worker.stop(),
            // None serves: the other program may be able to.
            None => self.start_at = Some(Instant::now()),
        }
    }
}
