//! A volume that is closed and opened again in place, while its clients stay: because its disk lost writes, or because its owner has
//! something to do to its devices ([`ReopeningVolume::rest`]).
//!
//! Where writes go through a cache that is not ours, one bad sector can make the loss of anything known and its place
//! not ([`Disk::lost_writes`]). What is durable is durable all the same, and a recovery finds it, as after a power cut. So:
//!
//! - whoever waits is answered with an error, and so is the next flush of every client ([`Service::losses`]): what was
//!   answered and not flushed is old or new;
//! - once no command is on its way, the disk starts over and the volume is recovered from what the medium has. Nothing
//!   that the engine or the disk's cache remembered is used;
//! - requests that come meanwhile wait, a bounded number of them, and see the volume as it is afterwards;
//! - not too often, not in a stop, and not for any other failure: then the volume fails, as it would without this.
//!
//! For its owner it is stopped in order first, so everything is durable and nobody is answered with an error.
//!
//! Every request is answered once: those that reached a volume which is given up by that volume, or else from here.

use crate::lanes::{Lanes, watch};
use crate::losses::{LossEvent, LossReport};
use crate::opening::Clock;
use crate::volume::Volume;
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::{Config, DiskEvent};
use nearhead_format::Superblock;
use nearhead_service::{
    ErrorKind, Extent, Reply, Request, RequestError, RequestId, Service, ServiceInfo, Wake,
};
use rustix::event::epoll;
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// So often within [`LOSSES_SPAN`] the volume is opened again. Each of its files leaves its cache once, so more is a disk
/// that does not do what it says.
const LOSSES_MAX: usize = 4;
const LOSSES_SPAN: Nanos = Nanos::from_secs(3600);
/// Requests that wait while it is opened; one more is refused.
const HELD_MAX: usize = 1 << 16;
/// What nobody has asked for yet of what people are to be told.
const EVENTS_MAX: usize = 64;

const UNDER_WAY: &str =
    "the disk lost writes while this was under way, and the volume is opened again";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Serving,
    /// Given up; commands are still on the disk.
    Emptying {
        since: Nanos,
    },
    /// Stopped in order for its owner.
    Resting,
    /// Everything is durable, and the owner has the devices to himself.
    AtRest,
    /// Recovery reads; `after_loss` or else for the owner.
    Opening {
        since: Nanos,
        after_loss: bool,
    },
    /// It fails by itself from here on.
    Failed,
}

type Configure = Box<dyn FnMut(&Superblock, &mut Config)>;

/// The volume.
pub struct ReopeningVolume<D: Disk> {
    volume: Volume<D>,
    configure: Configure,
    /// Zero of its clock; none in virtual time.
    start: Option<Instant>,
    state: State,
    /// At the volume.
    outstanding: BTreeSet<RequestId>,
    /// For the volume, once it is open.
    held: VecDeque<Request>,
    replies: VecDeque<Reply>,
    /// Answered with an error since the last loss.
    refused: u64,
    losses: LossReport,
    /// When they were, as far as it counts.
    recent: VecDeque<Nanos>,
    events: VecDeque<LossEvent>,
    /// Of engines that are no more.
    disk_events: VecDeque<DiskEvent>,
    stop_asked: bool,
    /// Why it was not opened again.
    why_not: Option<String>,
    /// Readable when one of the devices wants the volume to be driven, whichever devices it has.
    wake: Option<OwnedFd>,
}

impl<D: Disk> ReopeningVolume<D> {
    /// `volume`, which is open by the clock that began at `start` (in virtual time: none), and what it was configured by.
    pub fn new(
        volume: Volume<D>,
        start: Option<Instant>,
        configure: impl FnMut(&Superblock, &mut Config) + 'static,
    ) -> Self {
        let fds: Vec<_> = volume.lanes().wake_fd().into_iter().collect();
        // Without one of its own it cannot be given other devices, and is served all the same.
        let wake = watch(&fds).ok().flatten();
        Self {
            wake,
            volume,
            configure: Box::new(configure),
            start,
            state: State::Serving,
            outstanding: BTreeSet::new(),
            held: VecDeque::new(),
            replies: VecDeque::new(),
            refused: 0,
            losses: LossReport::default(),
            recent: VecDeque::new(),
            events: VecDeque::new(),
            disk_events: VecDeque::new(),
            stop_asked: false,
            why_not: None,
        }
    }

    /// The volume as it is now.
    pub fn volume(&self) -> &Volume<D> {
        &self.volume
    }

    /// The same, for what is no request.
    pub fn volume_mut(&mut self) -> &mut Volume<D> {
        &mut self.volume
    }

    /// Ends the volume as it is, without making anything durable.
    pub fn into_disk(self) -> D {
        self.volume.into_disk()
    }

    /// Whether it is being opened again: what is no request has to wait.
    pub fn is_reopening(&self) -> bool {
        !matches!(self.state, State::Serving | State::Failed)
    }

    /// Stops it in order while requests wait, for [`ReopeningVolume::change_devices`] once it [is at rest](Self::is_at_rest). Says whether it
    /// does: not while it is being opened again, after a failure or in a stop.
    pub fn rest(&mut self, now: Nanos) -> bool {
        let may_rest = self.state == State::Serving && !self.stop_asked;
        let has_failed = self.volume.engine().failure().is_some();
        let can_wake = self.wake.is_some() || self.volume.lanes().wake_fd().is_none();
        if !may_rest || has_failed || !can_wake {
            return false;
        }
        self.state = State::Resting;
        self.volume.begin_shutdown(now);
        true
    }

    /// Whether everything is durable and the devices may be changed.
    pub fn is_at_rest(&self) -> bool {
        self.state == State::AtRest
    }

    /// Does something to its devices, or gives it others, and opens it again, while requests go on waiting; `stand_in` is nobody's
    /// disk. Nothing is done unless it [is at rest](Self::is_at_rest).
    ///
    /// # Errors
    /// There are no devices any more, or they do not hold the volume: it has failed.
    pub fn change_devices(
        &mut self,
        stand_in: D,
        change: impl FnOnce(Lanes<D>) -> Result<Lanes<D>, String>,
        now: Nanos,
    ) -> Result<(), String> {
        if !self.is_at_rest() {
            return Err("expected a volume at rest, found one that is served".to_owned());
        }
        self.keep_disk_events();
        let lanes = self.volume.exchange(stand_in);
        let opened = change(lanes).and_then(|lanes| {
            self.wake_by(&lanes)?;
            self.volume.exchange(lanes);
            let clock = self.clock(now);
            self.volume.open_again(clock, &mut self.configure).map_err(|error| error.to_string())
        });
        match &opened {
            Ok(()) => self.state = State::Opening { since: now, after_loss: false },
            Err(problem) => self.fail(problem, now),
        }
        opened
    }

    /// These devices say from now on when it is to be driven; those that it had are gone, and with them what was watched of them.
    fn wake_by(&self, lanes: &Lanes<D>) -> Result<(), String> {
        let (Some(wake), Some(fd)) = (&self.wake, lanes.wake_fd()) else { return Ok(()) };
        let added = epoll::add(wake, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        added.map_err(|error| format!("the devices of the volume cannot be watched: {error}"))
    }

    fn clock(&self, now: Nanos) -> Clock {
        self.start.map_or(Clock::Virtual { now }, |start| Clock::Real { start })
    }

    /// What was lost so far.
    pub fn loss_report(&self) -> &LossReport {
        &self.losses
    }

    /// What people are to be told, oldest first.
    pub fn poll_loss_event(&mut self) -> Option<LossEvent> {
        self.events.pop_front()
    }

    /// What the disk did wrong, also before it started over.
    pub fn poll_disk_event(&mut self) -> Option<DiskEvent> {
        self.disk_events.pop_front().or_else(|| self.volume.poll_disk_event())
    }

    fn tell(&mut self, event: LossEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    fn refuse(&mut self, id: RequestId, detail: &str) {
        self.refused += 1;
        self.replies.push_back(Reply { id, result: Err(RequestError::new(ErrorKind::Io, detail)) });
    }

    fn drive_volume(&mut self, now: Nanos) {
        self.volume.drive(now);
        let is_given_up = matches!(self.state, State::Emptying { .. });
        while let Some(reply) = self.volume.poll_reply() {
            self.outstanding.remove(&reply.id);
            // What was changed after the loss was noticed is lost as well, and no flush would say so any more. Only reads
            // bring anything.
            if is_given_up && reply.result.as_ref().is_ok_and(Vec::is_empty) {
                self.refuse(reply.id, UNDER_WAY);
                continue;
            }
            self.refused += u64::from(reply.result.is_err());
            self.replies.push_back(reply);
        }
    }

    fn look_for_losses(&mut self, now: Nanos) {
        let Some(why) = self.volume.lanes().lost_writes().map(str::to_owned) else { return };
        self.losses.count += 1;
        self.losses.last = Some((why.clone(), now));
        self.refused = 0;
        while self.recent.front().is_some_and(|at| now.since(*at) > LOSSES_SPAN) {
            self.recent.pop_front();
        }
        let so_often = self.recent.len();
        if self.stop_asked || so_often >= LOSSES_MAX {
            let problem = if self.stop_asked {
                format!("it is being stopped, and {why}")
            } else {
                format!("it was {so_often} times within an hour, and now {why}")
            };
            self.state = State::Failed;
            return self.tell(LossEvent::NotOpened { problem });
        }
        self.recent.push_back(now);
        self.volume.give_up(&why, now);
        self.tell(LossEvent::Lost { why });
        self.state = State::Emptying { since: now };
    }

    fn keep_disk_events(&mut self) {
        while self.disk_events.len() < EVENTS_MAX
            && let Some(event) = self.volume.poll_disk_event()
        {
            self.disk_events.push_back(event);
        }
    }

    /// Nothing is on its way any more.
    fn open_again(&mut self, since: Nanos, now: Nanos) {
        self.keep_disk_events();
        for id in std::mem::take(&mut self.outstanding) {
            self.refuse(id, UNDER_WAY);
        }
        let clock = self.clock(now);
        match self.volume.open_again(clock, &mut self.configure) {
            Ok(()) => self.state = State::Opening { since, after_loss: true },
            Err(error) => self.fail(&error.to_string(), now),
        }
    }

    fn opened(&mut self, (since, after_loss): (Nanos, bool), now: Nanos) {
        if let Err(error) = self.volume.check_open() {
            return self.fail(&error.to_string(), now);
        }
        if after_loss {
            let records = self.volume.status().recovery_records;
            self.tell(LossEvent::Opened { refused: self.refused, records, took: now.since(since) });
        }
        self.state = State::Serving;
        self.go_on(now);
    }

    fn fail(&mut self, problem: &str, now: Nanos) {
        self.state = State::Failed;
        self.why_not = Some(problem.to_owned());
        self.tell(LossEvent::NotOpened { problem: problem.to_owned() });
        self.go_on(now);
    }

    /// Whoever waited goes on, with a volume that is open or has failed.
    fn go_on(&mut self, now: Nanos) {
        for request in std::mem::take(&mut self.held) {
            self.submit(request, now);
        }
        if self.stop_asked {
            self.volume.begin_shutdown(now);
        }
    }
}

impl<D: Disk> Service for ReopeningVolume<D> {
    fn info(&self) -> ServiceInfo {
        self.volume.info()
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        if self.is_reopening() {
            if self.held.len() < HELD_MAX {
                return self.held.push_back(request);
            }
            let detail = "too many requests wait for the volume to be opened again; try again";
            return self.refuse(request.id, detail);
        }
        if self.state == State::Failed && self.volume.engine().is_stopped() && !self.stop_asked {
            let why = self.volume.engine().failure().map(ToString::to_string);
            let why = why.or_else(|| self.why_not.clone()).unwrap_or_default();
            let detail = format!("the volume could not be opened again: {why}; serve it again");
            return self.refuse(request.id, &detail);
        }
        self.outstanding.insert(request.id);
        self.volume.submit(request, now);
    }

    fn drive(&mut self, now: Nanos) {
        self.drive_volume(now);
        if self.state == State::Serving {
            self.look_for_losses(now);
            if self.state == State::Serving {
                return;
            }
            self.drive_volume(now);
        }
        if let State::Emptying { since } = self.state
            && self.volume.is_quiet()
        {
            self.open_again(since, now);
            self.drive_volume(now);
        }
        if self.state == State::Resting && self.volume.is_shut_down() {
            match self.volume.engine().failure().map(ToString::to_string) {
                None => self.state = State::AtRest,
                Some(problem) => self.fail(&problem, now),
            }
            self.drive_volume(now);
        }
        if let State::Opening { since, after_loss } = self.state
            && self.volume.engine().is_open()
        {
            self.opened((since, after_loss), now);
            self.drive_volume(now);
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        let wake = self.volume.wake();
        Wake { fd: self.wake.as_ref().map_or(wake.fd, |wake| Some(wake.as_fd())), ..wake }
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        if self.state == State::Serving {
            return self.volume.block_status(offset, len, runs_max);
        }
        vec![Extent::data(len)]
    }

    fn losses(&self) -> u64 {
        self.losses.count
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        self.stop_asked = true;
        if !self.is_reopening() {
            self.volume.begin_shutdown(now);
        }
    }

    fn is_shut_down(&self) -> bool {
        !self.is_reopening() && self.replies.is_empty() && self.volume.is_shut_down()
    }
}
