//! The engine itself: what it holds, the events it takes, what it hands out.
//!
//! It is a state machine without sockets, files, clock, threads or randomness. Whoever owns it calls
//!
//! - [`Engine::handle_request`] for each client request and [`Engine::handle_completion`] for each
//!   finished disk command, any number of them;
//! - then [`Engine::advance`] once, which does everything that follows from them;
//! - then [`Engine::poll_command`] and [`Engine::poll_reply`] until each returns `None`;
//! - and again `advance` no later than [`Engine::next_wake`].
//!
//! Requests taken between two `advance` calls may share one record: that is the group commit.

use crate::admission::Admission;
use crate::blanks::Blanks;
use crate::cleaning::{Checkpoint, Cleaner, Schedule, Swap};
use crate::commit::Commit;
use crate::commit::invalidation::Invalidations;
use crate::config::{Ack, Setup};
use crate::disk::dispatch::{InFlight, Purpose};
use crate::disk::lanes::Lanes;
use crate::disk::report::{DiskErrorReport, DiskEvent};
use crate::disk::watch::DiskWatch;
use crate::home::failed_homes::FailedHomes;
use crate::placement::Placement;
use crate::recovery::{Rebuilt, RecoveredState, Recovery};
use crate::requests::Requests;
use crate::state::map::Map;

use crate::home::spill::Spill;
use crate::requests::stage::{Stage, Taken};
use crate::snapshot::Snapshotter;
use crate::state::Core;
use crate::stats::{Stats, Status};
use nearhead_disk::{Class, Command, Completion, DiskError, Lane, Nanos, Payload, Submission};
use nearhead_service::{ErrorKind, Reply, Request, RequestError, RequestId};

/// Where the engine is in its life.
pub(crate) enum Phase {
    Recovering(Box<Recovery>),
    Serving,
    /// Everything is being made durable; no new requests.
    Draining,
    Stopped,
}

/// One volume, from recovery to shutdown.
pub struct Engine {
    pub(crate) setup: Setup,
    pub(crate) now: Nanos,
    pub(crate) phase: Phase,
    /// Why no change is accepted any more, if so.
    pub(crate) failure: Option<String>,
    pub(crate) requests: Requests,
    pub(crate) lanes: Lanes,
    pub(crate) watch: DiskWatch,
    pub(crate) admission: Box<dyn Admission>,
    pub(crate) placement: Box<dyn Placement>,
    pub(crate) cleaner: Box<dyn Cleaner>,
    pub(crate) core: Core,
    pub(crate) stage: Stage,
    pub(crate) taken: Taken,
    pub(crate) commit: Commit,
    pub(crate) spill: Option<Spill>,
    pub(crate) failed_homes: FailedHomes,
    pub(crate) blanks: Blanks,
    pub(crate) invalidations: Invalidations,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) swap: Swap,
    pub(crate) schedule: Schedule,
    pub(crate) snapshotter: Snapshotter,
    pub(crate) recovered: RecoveredState,
    /// What a rebuild of the map found, until it is taken.
    pub(crate) rebuilt: Option<Box<Rebuilt>>,
    pub(crate) stats: Stats,
}

impl Engine {
    /// Opens a volume: the first commands read its snapshot and logs. Requests may come at once;
    /// they are answered when recovery is done.
    pub fn open(setup: Setup) -> Self {
        let mut engine = Self::with_phase(setup, Phase::Stopped);
        let recovery = Recovery::of(&mut engine.setup);
        engine.phase = Phase::Recovering(Box::new(recovery));
        engine
    }

    /// Starts on a volume known to be empty (just created), without reading anything: what
    /// data-less simulations use.
    pub fn start_empty(setup: Setup) -> Self {
        let mut engine = Self::with_phase(setup, Phase::Serving);
        if engine.core.logs.count() > 0 {
            engine.core.logs.note_claimed(0);
        }
        engine
    }

    fn with_phase(setup: Setup, phase: Phase) -> Self {
        let config = &setup.config;
        Self {
            phase,
            now: Nanos::ZERO,
            failure: None,
            requests: Requests::new(),
            lanes: Lanes::new(&setup.properties, &setup.other_lanes),
            watch: DiskWatch::default(),
            admission: config.admission.boxed(),
            placement: config.placement.boxed(),
            cleaner: config.cleaner.boxed(),
            core: Core::new(&setup.layout, setup.map.journal),
            stage: Stage::default(),
            taken: Taken::default(),
            commit: Commit::new(),
            spill: None,
            failed_homes: FailedHomes::default(),
            blanks: Blanks::of(&setup),
            invalidations: Invalidations::default(),
            checkpoint: Checkpoint::default(),
            swap: Swap::default(),
            schedule: Schedule::default(),
            snapshotter: Snapshotter::default(),
            recovered: RecoveredState::default(),
            rebuilt: None,
            stats: Stats::default(),
            setup,
        }
    }

    /// Takes a request. Its reply comes from [`Engine::poll_reply`], after `advance`.
    pub fn handle_request(&mut self, request: Request, now: Nanos) {
        self.set_now(now);
        match self.phase {
            Phase::Recovering(_) => self.requests.hold(request),
            Phase::Serving => {
                self.schedule.note_request(now);
                self.start(request);
            }
            Phase::Draining | Phase::Stopped => self.fail_request(
                request.id,
                ErrorKind::ShuttingDown,
                "the volume is shutting down; open it again to continue",
            ),
        }
    }

    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.now = now;
        self.lanes.set_now(now);
    }

    /// Takes the result of a command.
    pub fn handle_completion(&mut self, completion: Completion, now: Nanos) {
        self.set_now(now);
        let Some((lane, done)) = self.lanes.complete(self.admission.as_ref(), completion.id) else {
            return;
        };
        let result = completion.result;
        if let Err(error) = &result {
            self.note_disk_error(lane, &done, error);
        }
        if self.watch.stall().is_some() {
            let (on_disk, after) = (self.lanes.on_disk(), self.setup.config.stall_after);
            self.watch.note_answer(done.left_at, on_disk, now, after);
        }
        if lane == Lane::MAIN {
            // What another device does says nothing of the one that has the logs.
            self.note_completed(&done, result.is_ok());
        }
        match done.purpose {
            Purpose::Read { slot, io } => self.on_read(slot, io, result),
            Purpose::InPlace { slot } => self.on_in_place(slot, result),
            Purpose::Record => self.on_record(result),
            Purpose::Journal => self.on_journal(done.extent, result),
            Purpose::Torn => self.on_torn_cleared(&result),
            Purpose::Flush => self.on_flush(lane, result),
            Purpose::Spill => self.on_spill(done.extent, result),
            Purpose::CheckpointRead { io } => self.on_checkpoint_read(io, result),
            Purpose::CheckpointWrite => self.on_checkpoint_write(done.extent, result),
            Purpose::SwapRead { io } => self.on_swap_read(io, result),
            Purpose::SnapshotBody => self.on_snapshot_body(result),
            Purpose::SnapshotHeader => self.on_snapshot_header(result),
            Purpose::SnapshotCopy => self.on_snapshot_copy(result),
            Purpose::LoneHeader => self.on_lone_header(&result),
            Purpose::Blanks => self.on_blanks(result),
            Purpose::Recovery => self.on_recovery(result),
        }
    }

    fn note_disk_error(&mut self, lane: Lane, done: &InFlight, error: &DiskError) {
        self.stats.disk_errors += 1;
        self.watch.note(DiskErrorReport {
            work: done.work(),
            kind: error.kind,
            lane,
            offset: done.extent.map(|(offset, _)| offset),
            len: done.extent.map_or(0, |(_, len)| len),
            at: self.now,
            detail: error.detail.clone(),
        });
    }

    /// What the disk did wrong since the last call, oldest first: for a log. Call until `None`, now and then.
    pub fn poll_disk_event(&mut self) -> Option<DiskEvent> {
        self.watch.poll(self.now)
    }

    /// Looks for commands that are not answered, when it is time to.
    fn look_for_stalls(&mut self) {
        let after = self.setup.config.stall_after;
        if self.lanes.is_on_disk() {
            self.watch.note_busy(self.now, after);
        }
        if self.watch.look_at().is_some_and(|at| at <= self.now) {
            self.watch.look(self.lanes.on_disk(), self.now, after);
        }
    }

    /// Does everything that follows from what was handled and from the time.
    pub fn advance(&mut self, now: Nanos) {
        self.set_now(now);
        self.look_for_stalls();
        if matches!(self.phase, Phase::Recovering(_)) {
            self.begin_recovery();
            if matches!(self.phase, Phase::Recovering(_)) {
                return;
            }
        }
        if self.is_stopped() {
            return;
        }
        self.core.logs.end_rests(now);
        self.retry_record();
        // What was written in place is on the volume's own disk.
        let flusher = &self.lanes.main.flusher;
        self.invalidations.settle(|ticket| flusher.is_done(ticket));
        if matches!(self.phase, Phase::Draining) {
            // Also what was still waiting for a lock or for room when the stop was asked for.
            self.commit.want(self.stage.end());
            self.want_logs_to_tell_all();
        }
        self.advance_background();
        self.try_commit();
        // A record without room may have asked for one: no other event may come.
        if self.snapshotter.is_demanded() {
            self.advance_snapshot();
        }
        self.release_waiters();
        self.advance_shutdown();
        self.advance_blanks();
        // Last, so that a flush any step above asked for leaves now: no other event may come.
        while let Some(lane) = self.lanes.start_flush() {
            self.stats.device_flushes += 1;
            self.issue_on(lane, Class::Durable, Purpose::Flush, Command::Flush);
        }
    }

    /// The next command, and the device it is for. Call until `None` after [`Engine::advance`].
    pub fn poll_command(&mut self) -> Option<(Lane, Submission)> {
        self.lanes.poll()
    }

    /// The next reply. Call until `None` after [`Engine::advance`].
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.requests.pop_reply()
    }

    /// When [`Engine::advance`] must be called even if nothing happens.
    pub fn next_wake(&self) -> Option<Nanos> {
        let stall = self.watch.look_at().filter(|_| self.lanes.is_on_disk());
        let own = match self.phase {
            // A stop waits for a swap that collects its entries step by step.
            Phase::Serving | Phase::Draining => self.next_background_wake(),
            Phase::Recovering(_) | Phase::Stopped => None,
        };
        [stall, own].into_iter().flatten().min()
    }

    /// Makes everything durable and stops; replies to what is under way still come.
    pub fn begin_shutdown(&mut self, now: Nanos) {
        self.set_now(now);
        match self.phase {
            Phase::Serving => {
                self.commit.want(self.stage.end());
                self.phase = Phase::Draining;
            }
            Phase::Recovering(_) => {
                // Nothing was changed yet: there is nothing to make durable.
                self.phase = Phase::Stopped;
                for request in self.requests.take_held() {
                    self.fail_request(
                        request.id,
                        ErrorKind::ShuttingDown,
                        "the volume is shutting down",
                    );
                }
            }
            Phase::Draining | Phase::Stopped => {}
        }
    }

    /// Whether the stop is complete.
    pub fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    /// Whether recovery is done (or has failed).
    pub fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Recovering(_))
    }

    /// Whether every change is refused.
    pub fn is_read_only(&self) -> bool {
        self.setup.config.read_only
    }

    /// The map, for those who look at a volume from outside.
    pub fn map(&self) -> &Map {
        &self.core.map
    }

    /// Why the engine accepts no change any more, if so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A stop comes: what in-place writes made stale is taken back in the logs too, and not by the last snapshots
    /// alone, so that the logs without any snapshot still say what counts.
    fn want_logs_to_tell_all(&mut self) {
        if self.requests.is_empty() {
            self.want_invalidations();
        }
    }

    fn advance_shutdown(&mut self) {
        if !matches!(self.phase, Phase::Draining) || !self.requests.is_empty() {
            return;
        }
        let unclean = !self.stage.is_empty()
            || !self.taken.is_empty()
            || self.commit.is_busy()
            || self.requests.has_barriers()
            || self.invalidations.awaits_any()
            || self.commit.wants_to_tell()
            || self.checkpoint.is_busy()
            || self.swap.is_busy()
            || self.spill.is_some();
        if self.failure.is_some() {
            if self.lanes.len() == 0 {
                self.phase = Phase::Stopped;
            }
        } else if !unclean && self.advance_final_snapshot() && self.advance_final_blanks() {
            self.phase = Phase::Stopped;
        }
    }

    /// A lasting failure: no change is accepted from now on, everybody who waits is told.
    pub(crate) fn fail(&mut self, reason: String) {
        if self.failure.is_none() {
            self.failure = Some(reason);
        }
        let error = self.failure_error();
        self.refuse_all(&error);
    }

    pub(crate) fn failure_error(&self) -> RequestError {
        let reason = self.failure.as_deref().unwrap_or("unknown");
        RequestError::new(
            ErrorKind::Io,
            format!("the volume accepts no change since a failure: {reason}; reads still work"),
        )
    }

    /// To the volume's own disk.
    pub(crate) fn issue(&mut self, class: Class, purpose: Purpose, command: Command) {
        self.issue_on(Lane::MAIN, class, purpose, command);
    }

    pub(crate) fn issue_on(
        &mut self,
        lane: Lane,
        class: Class,
        purpose: Purpose,
        command: Command,
    ) {
        let queue = &mut self.lanes.of_mut(lane).queue;
        queue.issue(self.admission.as_ref(), class, purpose, command);
    }

    pub(crate) fn reply(&mut self, id: RequestId, result: Result<Vec<Payload>, RequestError>) {
        self.stats.requests += 1;
        if result.is_err() {
            self.stats.requests_failed += 1;
        }
        self.requests.push_reply(Reply { id, result });
    }

    pub(crate) fn fail_request(&mut self, id: RequestId, kind: ErrorKind, detail: &str) {
        self.reply(id, Err(RequestError::new(kind, detail)));
    }

    /// Whether writes must be durable before they are answered even without FUA.
    pub(crate) fn acknowledges_durable(&self) -> bool {
        self.setup.config.ack == Ack::Durable
    }

    /// The state for people and metrics.
    pub fn status(&self) -> Status {
        let phase = match self.phase {
            Phase::Recovering(_) => "recovering",
            _ if self.failure.is_some() => "failed",
            Phase::Serving => "serving",
            Phase::Draining => "draining",
            Phase::Stopped => "stopped",
        };
        Status {
            phase,
            failure: self.failure.clone(),
            map_entries: self.core.map.len() as u64,
            map_bytes: self.core.map.memory_bytes() as u64,
            staged_bytes: self.stage.bytes() as u64,
            logs: self.core.logs.count(),
            logs_claimed: self.core.logs.claimed_len() as u32,
            log_fill_pct: self.core.logs.fill_pct(),
            record_sequence: self.core.sequence_done(),
            snapshot_number: self.snapshotter.number(),
            checkpointing: self.checkpoint.is_busy() && self.failure.is_none(),
            wants_checkpoint_permit: self.wants_checkpoint_permit(),
            disk_errors: self.watch.counts(),
            last_disk_error: self.watch.last().cloned(),
            homes_failed: self.failed_homes.len() as u64,
            stall: self.watch.stall(),
            stalls: self.watch.stalls(),
            shortage: self.watch.shortage(),
            blank_bytes: self.blank_bytes(),
            damage: self.recovered.damage.clone(),
            recovery_read_bytes: self.recovered.read_bytes,
            recovery_records: self.recovered.records,
            recovery_logs: self.recovered.logs,
            stats: self.stats,
        }
    }
}
