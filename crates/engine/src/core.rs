//! What several activities need: what the records say, the ways to the devices, the time, the counters, and whether the
//! volume has failed.
//!
//! Whoever does something is handed this beside what is its own, and asks by methods. Nothing here knows of any activity:
//! a failure is noted here and told to those who wait by the engine ([`Core::take_untold_failure`]), and so is an error for
//! all who wait for a record ([`Core::take_refusal`]).

mod given_up;
mod watching;

use crate::admission::{Admission, Pace, TargetStatus};
use crate::config::Setup;
use crate::damage::Damage;
use crate::disk::dispatch::{InFlight, Purpose};
use crate::disk::flusher::{FlushTicket, Flusher};
use crate::disk::lanes::Lanes;
use crate::disk::watch::DiskWatch;
use crate::failure::Failure;
use crate::state::Recorded;
use crate::state::findings::RecoveredState;
use crate::state::journal::MapJournal;
use crate::state::logs::Logs;
use crate::state::map::Map;
use crate::state::map_bounds::entries_max;
use crate::state::paged::Layers;
use crate::state::remembered::Remembered;
use crate::stats::Stats;
use crate::tuning::Tuning;
use nearhead_disk::{
    Class, Command, CommandId, DiskError, DiskErrorKind, Lane, Nanos, PartDone, Payload, Submission,
};
use nearhead_format::record::RecordHeader;
use nearhead_service::{ErrorKind, RequestError};
use std::ops::Range;

/// A shortage lasts so many times as long as a request waits at most; then whoever waits for anything else is told, too.
const SHORTAGE_WAITS_MAX: u64 = 12;

/// What several activities need of one volume.
pub(crate) struct Core {
    setup: Setup,
    now: Nanos,
    /// A stop was asked for: everything is being made durable.
    is_draining: bool,
    /// Why no change is accepted any more, if so.
    failure: Option<Failure>,
    is_failure_untold: bool,
    /// What those who wait for a record are to be told.
    refusal: Option<RequestError>,
    recorded: Recorded,
    remembered: Remembered,
    lanes: Lanes,
    /// The flush that makes durable what clients wrote in place.
    clients_ticket: FlushTicket,
    admission: Box<dyn Admission>,
    watch: DiskWatch,
    findings: RecoveredState,
    stats: Stats,
}

impl Core {
    /// Of a volume of which nothing is known yet.
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup { properties, data_devices, map_device, cache_device, layout, .. } = &setup;
        let mut lanes = Lanes::new(properties, data_devices, map_device.as_ref(), layout)
            .with_cache(cache_device.as_ref());
        if setup.properties.rotational {
            lanes.main_mut().know_tracks(&setup.config.tracks, 0);
        }
        let others = lanes.others_for_logs_mut().zip(&setup.config.log_device_tracks);
        others.for_each(|((start, queue), tracks)| queue.know_tracks(tracks, start));
        let mut core = Self {
            now: Nanos::ZERO,
            is_draining: false,
            failure: None,
            is_failure_untold: false,
            refusal: None,
            recorded: Recorded::new(&setup.layout, setup.map.journal),
            remembered: Remembered::new(setup.config.cleaning.memory_bytes),
            lanes,
            clients_ticket: FlushTicket::NONE,
            admission: setup.config.admission.boxed(),
            watch: DiskWatch::default(),
            findings: RecoveredState::default(),
            stats: Stats::default(),
            setup,
        };
        core.give_up_absent();
        core
    }

    /// What the engine was told when it started.
    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// From now on what may change is as `tuning` says.
    pub(crate) fn tune(&mut self, tuning: Tuning) {
        tuning.put_over(&mut self.setup.config);
        if let Some(admission) = tuning.admission {
            self.admission = admission;
        }
    }

    /// The same, for a recovery, which takes out what it needs once.
    pub(crate) fn setup_mut(&mut self) -> &mut Setup {
        &mut self.setup
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.setup.config.read_only
    }

    pub(crate) fn set_read_only(&mut self, is_read_only: bool) {
        self.setup.config.read_only = is_read_only;
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.now = now;
        self.lanes.set_now(now);
    }

    /// Whether a record waits until nothing is on a disk with logs: nothing else goes there until then.
    pub(crate) fn hold_for_record(&mut self, record_waits: bool) {
        self.lanes.main_mut().hold_for_record(&*self.admission, record_waits);
        for (_, queue) in self.lanes.others_for_logs_mut() {
            queue.hold_for_record(&*self.admission, record_waits);
        }
    }

    /// Whether other disks have logs, too, with arms of their own.
    pub(crate) fn has_several_log_disks(&self) -> bool {
        self.setup.layout.data_parts.log_devices() > 0
    }

    /// Whether a stop was asked for.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Largest payload of one record on this volume, in bytes: a quarter of a log at most.
    pub(crate) fn record_bytes_max(&self) -> u32 {
        let quarter = u32::try_from(self.setup.layout.log_bytes / 4).unwrap_or(u32::MAX);
        let config = &self.setup.config;
        config.record_bytes_max.min(quarter.saturating_sub(config.log_reserve_bytes))
    }

    /// Entries the map may hold, so that a snapshot of it always fits its slot.
    pub(crate) fn map_entries_max(&self) -> usize {
        {
            let of_fragments = self.setup.layout.fragment_room_bytes();
            let body_bytes = self.setup.map.slots.body_bytes_max().saturating_sub(of_fragments);
            entries_max(body_bytes, self.logs().count())
        }
    }

    /// How much of the room that a snapshot has for fragments they take, 0 to 100.
    pub(crate) fn fragment_fill_pct(&self) -> u32 {
        let room_bytes = self.setup.layout.fragment_room_bytes().max(1);
        let used = self.recorded.fragments().cost_bytes();
        (used.saturating_mul(100) / room_bytes).min(100) as u32
    }

    /// What the durable records say.
    pub(crate) fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    pub(crate) fn recorded_mut(&mut self) -> &mut Recorded {
        &mut self.recorded
    }

    pub(crate) fn map(&self) -> &Map {
        self.recorded.map()
    }

    /// What stands where, whether or not all of it is in memory.
    pub(crate) fn layers(&self) -> Layers<'_> {
        self.recorded.layers()
    }

    pub(crate) fn logs(&self) -> &Logs {
        self.recorded.logs()
    }

    pub(crate) fn logs_mut(&mut self) -> &mut Logs {
        self.recorded.logs_mut()
    }

    pub(crate) fn journal(&self) -> Option<&MapJournal> {
        self.recorded.journal()
    }

    pub(crate) fn journal_mut(&mut self) -> Option<&mut MapJournal> {
        self.recorded.journal_mut()
    }

    /// Logged copies that are still in memory.
    pub(crate) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// A record is durable: what it brought to a log stays in memory as far as the owner wants.
    pub(crate) fn remember(&mut self, header: &RecordHeader, payload: &[Payload]) {
        if !self.remembered.is_on() {
            return;
        }
        for (copy, data) in self.recorded.chunks_of(header, payload) {
            self.remembered.keep(copy, &data);
        }
    }

    /// The addresses of the device of a chain that takes records now; of anything else those of its own disk.
    pub(crate) fn tail_addresses(&self) -> Range<u64> {
        let layout = &self.setup.layout;
        let at = layout.log_offset(self.recorded.last_log()).unwrap_or(0);
        let mut others = layout.data_devices();
        others.find(|device| device.contains(&at)).unwrap_or(0..layout.device_bytes)
    }

    /// What was found on the disk is the volume.
    pub(crate) fn adopt(&mut self, recorded: Recorded) {
        self.recorded = recorded;
    }

    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// What recovery found, and what was found since.
    pub(crate) fn findings(&self) -> &RecoveredState {
        &self.findings
    }

    pub(crate) fn set_findings(&mut self, findings: RecoveredState) {
        self.findings = findings;
        self.note_given_up();
    }

    /// Remembers damage, for people.
    pub(crate) fn note(&mut self, finding: Damage) {
        self.findings.note(finding);
    }
}

/// Failing, and waiting for space.
impl Core {
    /// A lasting failure: no change is accepted from now on.
    pub(crate) fn fail(&mut self, reason: Failure) {
        self.failure.get_or_insert(reason);
        self.is_failure_untold = true;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// What everybody is told who wants a change.
    pub(crate) fn failure_error(&self) -> RequestError {
        let reason = self.failure.as_ref().map_or_else(|| "unknown".to_owned(), Failure::to_string);
        RequestError::new(
            ErrorKind::Io,
            format!("the volume accepts no change since a failure: {reason}; reads still work"),
        )
    }

    /// Whether anybody is to be told of a failure or a want of space.
    pub(crate) fn has_news(&self) -> bool {
        self.is_failure_untold || self.refusal.is_some()
    }

    /// What those who wait are to be told, if it failed since the last call.
    pub(crate) fn take_untold_failure(&mut self) -> Option<RequestError> {
        std::mem::take(&mut self.is_failure_untold).then(|| self.failure_error())
    }

    /// What those who wait for a record are to be told, if anything.
    pub(crate) fn take_refusal(&mut self) -> Option<RequestError> {
        self.refusal.take()
    }

    /// Space is short, since the first time that this was said.
    pub(crate) fn note_no_space(&mut self) -> Nanos {
        self.watch.note_no_space(self.now, self.setup.config.no_space_wait_max)
    }

    /// There was space for something for which there was none.
    pub(crate) fn note_space(&mut self) {
        self.watch.note_space(self.now);
    }

    /// Something that must be written finds no space. Who waits is told after a while; a stop gives up.
    pub(crate) fn wait_for_space(&mut self, error: &DiskError) {
        let wait_max = self.setup.config.no_space_wait_max;
        let since = self.note_no_space();
        if self.now.since(since) < wait_max {
            return;
        }
        if self.is_draining {
            return self.fail(Failure::NoSpaceAtStop { error: error.to_string() });
        }
        if self.now.since(since) >= Nanos(wait_max.0.saturating_mul(SHORTAGE_WAITS_MAX)) {
            return self.fail(Failure::NoSpace { error: error.to_string() });
        }
        let refused = told(error);
        let detail = format!("no space for {} s: {}", wait_max.0 / 1_000_000_000, refused.detail);
        self.refusal = Some(RequestError::new(ErrorKind::NoSpace, detail));
    }
}

/// What a client is told when a command for its request failed.
pub(crate) fn told(error: &DiskError) -> RequestError {
    let kind = match error.kind {
        DiskErrorKind::OutOfSpace => ErrorKind::NoSpace,
        DiskErrorKind::ReadOnly => ErrorKind::ReadOnly,
        DiskErrorKind::Io | DiskErrorKind::Gone | DiskErrorKind::Invalid => ErrorKind::Io,
    };
    RequestError::new(kind, error.detail.clone())
}

/// The devices.
impl Core {
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    pub(crate) fn lanes_mut(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// The flushes of the volume's own disk, and of its data devices.
    pub(crate) fn flusher(&self) -> &Flusher {
        self.lanes.own_flusher()
    }

    pub(crate) fn flusher_mut(&mut self) -> &mut Flusher {
        self.lanes.own_flusher_mut()
    }

    /// A client's write in place completed, and is not durable yet.
    pub(crate) fn note_client_write(&mut self) {
        self.flusher_mut().note_volatile_write();
        self.clients_ticket = self.flusher().ticket();
    }

    /// The ticket for everything that clients wrote in place, and the demand for it. What cleaning brought home meanwhile is in the logs as
    /// well, and no client's flush waits for that.
    pub(crate) fn want_client_writes(&mut self) -> FlushTicket {
        let ticket = self.clients_ticket;
        self.flusher_mut().demand(ticket);
        ticket
    }

    /// Whether what is written to the map's device may still be lost once it was answered, unless it is asked to be
    /// durable.
    pub(crate) fn map_is_volatile(&self) -> bool {
        self.lanes.flusher(self.setup.map.lane).is_needed()
    }

    /// A record is durable, for which somebody waited so long.
    pub(crate) fn durable_took(&mut self, took: Nanos) {
        self.admission.durable_took(took);
    }

    /// Who goes first.
    pub(crate) fn admission(&self) -> &dyn Admission {
        self.admission.as_ref()
    }

    /// The target for durable writes, and how it is kept, if there is one.
    pub(crate) fn target(&self) -> Option<TargetStatus> {
        self.admission.target()
    }

    /// Largest piece of bulk, in bytes.
    pub(crate) fn piece_bytes(&self) -> u32 {
        self.admission.piece_bytes()
    }

    /// To the device that has this address of the volume.
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
        let queue = self.lanes.queue_for(lane, command.offset());
        queue.issue(self.admission.as_ref(), class, purpose, command);
    }

    /// To the device that has the first one's address: all of them as soon as the first is admitted.
    pub(crate) fn issue_together(
        &mut self,
        class: Class,
        purpose: Purpose,
        commands: Vec<Command>,
    ) {
        let first = commands.first().and_then(Command::offset);
        let queue = self.lanes.queue_for(Lane::MAIN, first);
        queue.issue_together(self.admission.as_ref(), class, purpose, commands);
    }

    /// Says how much background work matters now.
    pub(crate) fn set_pace(&mut self, pace: Pace) {
        self.lanes.set_pace(self.admission.as_ref(), pace);
    }

    pub(crate) fn poll_command(&mut self) -> Option<(Lane, Submission)> {
        self.lanes.poll()
    }

    /// A command completed; says on which device, and what it was for. `None` for an unknown id.
    pub(crate) fn complete(
        &mut self,
        id: CommandId,
        parts: &[PartDone],
    ) -> Option<(Lane, InFlight)> {
        self.lanes.complete(self.admission.as_ref(), id, parts)
    }

    /// A flush of that device ended. A failed one fails the volume: nothing is ever acknowledged on the strength of a second
    /// try (law 7).
    pub(crate) fn on_flush(&mut self, lane: Lane, result: Result<Payload, DiskError>) {
        match result {
            Ok(_) => self.lanes.flush_ended(lane, true),
            Err(error) => {
                self.lanes.flush_ended(lane, false);
                self.fail(Failure::Flush { error: error.to_string() });
            }
        }
    }

    /// Starts the flushes that anybody waits for.
    pub(crate) fn start_flushes(&mut self) {
        while let Some(lane) = self.lanes.start_flush() {
            self.stats.device_flushes += 1;
            self.issue_on(lane, Class::Durable, Purpose::Flush, Command::Flush);
        }
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
pub(crate) mod tests;
