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
//!
//! Every activity is a type of its own, with a folder of its own, which is told what happened and says what it wants. This
//! module and those below it are the only ones that know two activities at once: `records.rs` what a record is made of and
//! whom its end concerns, `room.rs` what happens while no log has room, `background.rs` what runs by itself, `opening.rs` how
//! a volume begins, `looks.rs` how it is looked at, and `requests/` what clients ask for. Nothing outside names [`Engine`].

mod background;
mod looks;
mod map_pages;
mod opening;
mod records;
pub(crate) mod requests;
mod room;

use crate::blanks::Blanks;
use crate::cleaning::{Checkpoint, Compaction, Schedule, Swap};
use crate::commit::Commit;
use crate::config::{Ack, Setup};
use crate::core::Core;
use crate::disk::dispatch::{InFlight, Purpose};
use crate::disk::report::DiskEvent;
use crate::failure::Failure;
use crate::home::Home;
use crate::map_pages::MapPages;
use crate::read_cache::ReadCache;
use crate::recovery::{Rebuilt, Recovery};
use crate::snapshot::Snapshotter;
use crate::stage::Stage;
use nearhead_disk::{Completion, DiskError, DiskErrorKind, Lane, Nanos, Payload, Submission};
use nearhead_service::{ErrorKind, Reply, Request, RequestError, RequestId};
use requests::Requests;

/// Where the engine is in its life.
enum Phase {
    Recovering(Box<Recovery>),
    Serving,
    /// Everything is being made durable; no new requests.
    Draining,
    Stopped,
}

/// One volume, from recovery to shutdown.
pub struct Engine {
    phase: Phase,
    core: Core,
    requests: Requests,
    stage: Stage,
    commit: Commit,
    home: Home,
    blanks: Blanks,
    checkpoint: Checkpoint,
    swap: Swap,
    compaction: Compaction,
    schedule: Schedule,
    snapshotter: Snapshotter,
    read_cache: ReadCache,
    map_pages: MapPages,
    /// What a rebuild of the map found, until it is taken.
    rebuilt: Option<Box<Rebuilt>>,
}

impl Engine {
    /// Opens a volume: the first commands read its snapshot and logs. Requests may come at once;
    /// they are answered when recovery is done.
    pub fn open(setup: Setup) -> Self {
        let mut engine = Self::with_phase(setup, Phase::Stopped);
        let recovery = Recovery::of(engine.core.setup_mut());
        engine.phase = Phase::Recovering(Box::new(recovery));
        engine
    }

    /// Starts on a volume known to be empty (just created), without reading anything: what
    /// data-less simulations use.
    pub fn start_empty(setup: Setup) -> Self {
        let mut engine = Self::with_phase(setup, Phase::Serving);
        if engine.core.logs().count() > 0 {
            engine.core.logs_mut().note_claimed(0);
        }
        engine
    }

    fn with_phase(setup: Setup, phase: Phase) -> Self {
        let core = Core::new(setup);
        let config = &core.setup().config;
        Self {
            phase,
            requests: Requests::new(),
            stage: Stage::default(),
            commit: Commit::new(config.placement.boxed(), config.packing.boxed()),
            home: Home::default(),
            blanks: Blanks::of(core.setup()),
            checkpoint: Checkpoint::default(),
            swap: Swap::default(),
            compaction: Compaction::default(),
            schedule: Schedule::new(config.cleaner.boxed()),
            snapshotter: Snapshotter::default(),
            rebuilt: None,
            read_cache: ReadCache::of(&core),
            map_pages: MapPages::default(),
            core,
        }
    }

    /// Takes a request. Its reply comes from [`Engine::poll_reply`], after `advance`.
    pub fn handle_request(&mut self, request: Request, now: Nanos) {
        self.core.set_now(now);
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

    /// Takes the result of a command.
    pub fn handle_completion(&mut self, completion: Completion, now: Nanos) {
        self.core.set_now(now);
        let Some((lane, done)) = self.core.complete(completion.id, &completion.parts) else {
            return;
        };
        let mut result = completion.result;
        if let Err(error) = &result {
            self.note_disk_error(lane, &done, error);
            if self.core.give_up_if_gone(lane, error) {
                self.after_a_link();
            }
        } else if done.purpose() == Purpose::Record && self.is_record_missed(lane) {
            // It goes elsewhere, while who waits for it has not been answered.
            let detail = format!("lane {} was given up or closed meanwhile", lane.0);
            result = Err(DiskError { kind: DiskErrorKind::Gone, detail });
        }
        self.core.note_answer(done.left_at());
        if self.core.lanes().is_for_logs(lane) || done.purpose() == Purpose::Record {
            // What another device does says nothing of the one that has the logs.
            self.commit.note_completed(&self.core, lane, &done, result.is_ok());
        }
        self.hand_out(lane, &done, result);
        self.tell_failures();
    }

    /// Whether nobody will find the record that is durable on this device now: it can be read no more, or a snapshot that began since claims no
    /// log there, as it takes no records.
    fn is_record_missed(&self, lane: Lane) -> bool {
        let log = self.commit.in_flight().map(|record| record.header().log_index);
        self.core.is_given_up(lane) || log.is_some_and(|log| !self.core.logs().is_claimed(log))
    }

    /// To whom it was issued for.
    fn hand_out(&mut self, lane: Lane, done: &InFlight, result: Result<Payload, DiskError>) {
        let Self { core, commit, snapshotter, .. } = self;
        match done.purpose() {
            Purpose::Read { slot, io } => self.on_read(slot, io, result),
            Purpose::InPlace { slot } => self.on_in_place(slot, result),
            Purpose::Record => self.on_record(result),
            Purpose::Journal => self.on_journal(done.extent(), result),
            Purpose::Torn => self.on_torn_cleared(&result),
            Purpose::Flush => self.on_flush(lane, result),
            Purpose::Spill => self.on_spill(done.extent(), result),
            Purpose::CheckpointRead { io } => self.checkpoint.on_read(core, io, result),
            Purpose::CheckpointWrite => self.on_checkpoint_write(done.extent(), result),
            Purpose::SwapRead { io } => self.swap.on_read(core, io, result),
            Purpose::CompactionRead { io } => self.compaction.on_read(core, io, result),
            Purpose::CompactionWrite => self.compaction.on_write(core, &result),
            Purpose::SnapshotBody { offset } => snapshotter.on_body(core, commit, offset, result),
            Purpose::SnapshotHeader => snapshotter.on_header(core, commit, result),
            Purpose::SnapshotCopy => self.on_snapshot_copy(result),
            Purpose::SnapshotRead => snapshotter.on_pages(core, commit, result),
            Purpose::MapPage { page, number } => self.on_map_page(page, number, result),
            Purpose::LoneHeader => snapshotter.on_lone_header(core, &result),
            Purpose::Blanks => self.on_blanks(result),
            Purpose::Recovery => self.on_recovery(result),
            Purpose::Reposition => commit.repositioned(core, done.extent()),
            Purpose::CacheWrite { slot } => self.read_cache.written(slot),
        }
    }

    /// A command failed. The read cache's device is no part of the volume: nobody is told but once, that it is done without.
    fn note_disk_error(&mut self, lane: Lane, done: &InFlight, error: &DiskError) {
        if lane != Lane::CACHE {
            return self.core.note_disk_error(lane, done, error);
        }
        if self.read_cache.device_failed(error) {
            self.core.watch_mut().note_cache_dropped(error);
        }
    }

    /// Whoever asked something of a device that was given up is told.
    fn hand_out_refused(&mut self) {
        while let Some((lane, done, error)) = self.core.take_refused() {
            self.hand_out(lane, &done, Err(error));
        }
    }

    /// A device was flushed, or could not be: then the volume fails, or does without what lies there.
    fn on_flush(&mut self, lane: Lane, result: Result<Payload, DiskError>) {
        let others_rely_on_it = self.home.is_spilling() || !self.commit.invalidations().is_empty();
        let result = match result {
            Err(error) if !others_rely_on_it && self.core.give_up_device(lane, &error) => {
                self.after_a_link();
                Ok(Payload::EMPTY)
            }
            result => result,
        };
        self.core.on_flush(lane, result);
    }

    /// A device was given up: if records lie there, a snapshot is to include what they said before a recovery misses them.
    fn after_a_link(&mut self) {
        if self.core.setup().layout.logs_are_on_several() {
            self.snapshotter.demand();
        }
    }

    /// What the disk did wrong since the last call, oldest first: for a log. Call until `None`, now and then.
    pub fn poll_disk_event(&mut self) -> Option<DiskEvent> {
        let now = self.core.now();
        self.core.watch_mut().poll(now)
    }

    /// Does everything that follows from what was handled and from the time.
    pub fn advance(&mut self, now: Nanos) {
        self.core.set_now(now);
        self.core.look_for_stalls();
        if matches!(self.phase, Phase::Recovering(_)) {
            self.begin_recovery();
            self.hand_out_refused();
            if matches!(self.phase, Phase::Recovering(_)) {
                return;
            }
        }
        if self.is_stopped() {
            return;
        }
        self.hand_out_refused();
        self.core.logs_mut().end_rests(now);
        self.commit.retry(&mut self.core);
        self.commit.settle_invalidations(&self.core);
        if self.core.is_draining() {
            // Also what was still waiting for a lock or for room when the stop was asked for.
            self.commit.want(self.stage.end(), self.core.now());
            self.want_logs_to_tell_all();
        }
        self.tell_failures();
        self.advance_background();
        self.tell_failures();
        self.try_commit();
        self.core.hold_for_record(self.commit.is_held());
        self.reposition();
        self.tell_failures();
        // A record without room may have asked for one: no other event may come.
        if self.snapshotter.is_demanded() {
            self.advance_snapshot();
            self.tell_failures();
        }
        self.release_waiters();
        self.advance_shutdown();
        let idle_for = self.idle_from().map(|from| now.since(from));
        self.blanks.advance(&mut self.core, idle_for);
        // Last, so that a flush any step above asked for leaves now: no other event may come.
        self.core.start_flushes();
    }

    /// The next command, and the device it is for. Call until `None` after [`Engine::advance`].
    pub fn poll_command(&mut self) -> Option<(Lane, Submission)> {
        self.core.poll_command()
    }

    /// The next reply. Call until `None` after [`Engine::advance`].
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.requests.pop_reply()
    }

    /// When [`Engine::advance`] must be called even if nothing happens.
    pub fn next_wake(&self) -> Option<Nanos> {
        let own = match self.phase {
            // A stop waits for a swap that collects its entries step by step.
            Phase::Serving | Phase::Draining => self.next_background_wake(),
            Phase::Recovering(_) | Phase::Stopped => None,
        };
        // Nobody else says when what was refused is told.
        let refused = self.core.has_refused().then(|| self.core.now() + Nanos(1));
        [self.core.stall_wake(), own, refused].into_iter().flatten().min()
    }

    /// Whether somebody asked something of a device that was given up and is told so by the next [`Engine::advance`].
    pub fn has_refused(&self) -> bool {
        self.core.has_refused()
    }

    /// Whether no command is outstanding, nor waits to be sent.
    pub fn is_quiet(&self) -> bool {
        self.core.lanes().len() == 0
    }

    /// Whether the stop is complete.
    pub fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    /// Whether recovery is done (or has failed).
    pub fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Recovering(_))
    }
}

/// Stopping.
impl Engine {
    /// Makes everything durable and stops; replies to what is under way still come.
    pub fn begin_shutdown(&mut self, now: Nanos) {
        self.core.set_now(now);
        match self.phase {
            Phase::Serving => {
                self.commit.want(self.stage.end(), self.core.now());
                self.core.drain();
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

    /// A stop comes: what in-place writes made stale is taken back in the logs too, and not by the last snapshots
    /// alone, so that the logs without any snapshot still say what counts.
    fn want_logs_to_tell_all(&mut self) {
        if self.requests.is_empty() {
            self.commit.want_invalidations(&mut self.core);
        }
    }

    fn advance_shutdown(&mut self) {
        if !matches!(self.phase, Phase::Draining) || !self.requests.is_empty() {
            return;
        }
        let unclean = !self.stage.is_empty()
            || !self.stage.taken().is_empty()
            || self.commit.is_busy()
            || self.requests.has_barriers()
            || self.commit.invalidations().awaits_any()
            || self.commit.wants_to_tell()
            || self.checkpoint.is_busy()
            || self.swap.is_busy()
            || self.compaction.is_busy()
            || self.home.is_spilling();
        if self.core.has_failed() {
            if self.is_quiet() {
                self.phase = Phase::Stopped;
            }
        } else if !unclean
            && self.advance_final_snapshot()
            && self.blanks.advance_final(&mut self.core)
        {
            self.phase = Phase::Stopped;
        }
        self.tell_failures();
    }
}

/// Failing, and answering.
impl Engine {
    /// The disk lost what nobody can name: a failure that whoever drives the engine knows of and the engine does not.
    pub fn give_up(&mut self, reason: &str, now: Nanos) {
        self.core.set_now(now);
        self.fail(Failure::GivenUp { reason: reason.to_owned() });
    }

    /// A lasting failure: no change is accepted from now on, everybody who waits is told.
    fn fail(&mut self, reason: Failure) {
        self.core.fail(reason);
        self.tell_failures();
    }

    /// Those who wait are told what was noted of failures, and of a want of space that lasts.
    fn tell_failures(&mut self) {
        if self.core.has_news() {
            self.tell_news();
        }
    }

    /// Apart, since there hardly ever are any, and it is asked several times for each request.
    #[cold]
    fn tell_news(&mut self) {
        if let Some(error) = self.core.take_refusal() {
            self.refuse_who_waits_for_a_record(&error);
        }
        if let Some(error) = self.core.take_untold_failure() {
            self.refuse_all(&error);
        }
    }

    fn reply(&mut self, id: RequestId, result: Result<Vec<Payload>, RequestError>) {
        let stats = self.core.stats_mut();
        stats.requests += 1;
        stats.requests_failed += u64::from(result.is_err());
        self.requests.push_reply(Reply { id, result });
    }

    fn fail_request(&mut self, id: RequestId, kind: ErrorKind, detail: &str) {
        self.reply(id, Err(RequestError::new(kind, detail)));
    }

    /// Whether writes must be durable before they are answered even without FUA.
    fn acknowledges_durable(&self) -> bool {
        self.core.setup().config.ack == Ack::Durable
    }
}
