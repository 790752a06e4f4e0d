//! The one thread that serves everybody.
//!
//! Each round: wait for sockets, the service or the clock; take in what was received; drive the
//! service once for all of it; send the replies. So requests that arrive together reach the
//! service together, and a reply never waits for another client's request to be received.

use super::builder::{Limits, ServerBuilder, Tick};
use super::byte_access::ByteAccess;
use super::clients::{Clients, Policy};
use super::clock::Clock;
use super::control::{Context, Control, LastWords};
use super::error::{ServerError, in_step};
use super::listener::Listener;
use super::memory::Budget;
use super::poller::{Deadline, Poller, Ready, Woken};
use super::shutdown::{ShutdownHandle, ShutdownReceiver};
use super::statistics::Statistics;
use super::tls::Sessions;
use crate::protocol::{Export, TlsMode};
use nearhead_disk::Nanos;
use nearhead_service::{Service, ServiceInfo, Wake};
use rustix::event::epoll::EventFlags;
use rustix::process::{Resource, Rlimit};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Kinds of tokens, in the highest byte.
pub(super) const CLIENT_TOKENS: u64 = 1 << 56;
const LISTENER_TOKENS: u64 = 2 << 56;
pub(super) const CONTROL_TOKENS: u64 = 3 << 56;
pub(super) const CONTROL_CONNECTION_TOKENS: u64 = 4 << 56;
const SERVICE_TOKEN: u64 = 5 << 56;
const SHUTDOWN_TOKEN: u64 = 6 << 56;
const KIND_MASK: u64 = 0xff << 56;

/// Most clients taken in from one listener in one round.
const ACCEPTS_MAX: usize = 64;

/// How often clients that stall are looked for while others wait for memory, or handshakes that do
/// not end while there are any, and how long listeners rest when no more descriptors can be opened.
const HOUSEKEEPING: Nanos = Nanos::from_millis(500);

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything was answered and the service was closed.
    Graceful,
    /// A second request for a stop cut the graceful one short.
    Forced,
    /// The graceful stop took longer than its bound.
    TimedOut,
}

/// What a server did.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// How it ended.
    pub ending: Ending,
    /// Requests that were left without an answer.
    pub unanswered: usize,
    /// The final counts.
    pub statistics: Statistics,
}

/// A server that is ready to run.
pub struct Server<'a, S: ?Sized> {
    pub(super) listeners: Vec<Listener>,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) exports: Vec<String>,
    pub(super) controls: Vec<Control<'a, S>>,
    pub(super) last_words: Option<LastWords<'a, S>>,
    pub(super) tick: Option<Tick<'a, S>>,
    pub(super) notice: Box<dyn FnMut(&str) + 'a>,
    pub(super) visit: Box<dyn FnMut(&str) + 'a>,
    pub(super) limits: Limits,
    pub(super) tls_mode: TlsMode,
    pub(super) tls: Option<Arc<dyn Sessions>>,
    pub(super) whole_blocks: bool,
    pub(super) shutdown_handle: ShutdownHandle,
    pub(super) shutdown: ShutdownReceiver,
}

/// A stop that is going on.
struct Stopping {
    until: Nanos,
    forced: bool,
}

impl<'a, S: Service + ?Sized> Server<'a, S> {
    /// Starts to set up a server.
    pub fn builder() -> ServerBuilder<'a, S> {
        ServerBuilder::default()
    }

    /// The TCP addresses listened on, for those who asked for port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What stops this server from elsewhere.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.shutdown_handle.clone()
    }

    /// Serves `service` until a stop is asked for.
    pub fn run(self, service: &mut S, clock: &Clock) -> Result<Report, ServerError> {
        let info = service.info();
        let access = ByteAccess::new(&info);
        let size_bytes = info.size_bytes;
        let export = self.export_of(info)?;
        let poller = Poller::new(self.limits.timer_look).map_err(in_step("epoll_create"))?;
        raise_descriptor_limit(self.limits.connections_max);
        let limits = &self.limits;
        let budget = Budget::new(
            limits.bytes_max,
            limits.requests_max,
            limits.client_bytes_max,
            limits.client_requests_max,
        );
        let policy = Policy {
            export,
            tls_mode: self.tls_mode,
            tls: self.tls.clone(),
            connections_max: limits.connections_max,
            stall_max: limits.stall_max,
            handshake_max: limits.handshake_max,
            handshake_yields: limits.handshake_yields,
        };
        let now = clock.now();
        let next_tick = self.tick.as_ref().map(|(period, _)| now + *period);
        EventLoop {
            clients: Clients::new(policy, budget, access),
            poller,
            clock: *clock,
            stopping: None,
            next_tick,
            size_bytes,
            housekeeping: Housekeeping { next: now },
            rest_until: None,
            hungry: false,
            server: self,
        }
        .run(service)
    }

    fn export_of(&self, info: ServiceInfo) -> Result<Rc<Export>, ServerError> {
        let export = Export::new(self.exports.clone(), info)?;
        Ok(Rc::new(if self.whole_blocks { export } else { export.at_any_byte() }))
    }
}

/// A running server.
struct EventLoop<'a, S: ?Sized> {
    server: Server<'a, S>,
    clients: Clients,
    poller: Poller,
    clock: Clock,
    stopping: Option<Stopping>,
    next_tick: Option<Nanos>,
    housekeeping: Housekeeping,
    /// What clients who come are told.
    size_bytes: u64,
    /// Listeners rest until then.
    rest_until: Option<Nanos>,
    /// Somebody has more for us than the poller can see.
    hungry: bool,
}

impl<S: Service + ?Sized> EventLoop<'_, S> {
    fn run(mut self, service: &mut S) -> Result<Report, ServerError> {
        self.register(service)?;
        let mut ready = Vec::new();
        loop {
            let deadline = self.deadline(service);
            let woken = self.poller.wait(deadline, &self.clock, &mut ready);
            let now = self.clock.now();
            let mut drive = woken.map_err(in_step("epoll_wait"))? == Woken::Interrupted;
            for event in &ready {
                drive |= self.dispatch(*event, service, now);
            }
            drive |= self.tick(service, now);
            if drive | self.clients.take_submitted()
                || service.wake_at().is_some_and(|wake_at| wake_at <= now)
            {
                service.drive(now);
            }
            self.clients.collect_replies(service, now);
            self.housekeep(now);
            self.clients.flush(&self.poller, now);
            self.work_on(service);
            self.hungry = self.clients.resume_parked(service, now);
            self.clients.flush(&self.poller, now);
            for notice in self.clients.take_notices() {
                (self.server.notice)(&notice);
            }
            self.tell_visits();
            if let Some(ending) = self.ending(service, now) {
                self.clients.close_all(now);
                self.tell_visits();
                let unanswered = self.clients.unanswered();
                let report = Report { ending, unanswered, statistics: self.clients.statistics() };
                self.tell_last(&report, service);
                return Ok(report);
            }
        }
    }

    fn tell_visits(&mut self) {
        for visit in self.clients.take_visits() {
            (self.server.visit)(&visit);
        }
    }

    fn tell_last(&mut self, report: &Report, service: &S) {
        let Some(last_words) = &mut self.server.last_words else { return };
        let line = last_words(report, service);
        self.server.controls.iter_mut().for_each(|control| control.tell_last(&line));
    }

    /// What the service does on this very thread, and what takes time, comes when no answer waits for it.
    fn work_on(&mut self, service: &mut S) {
        let now = self.clock.now();
        if service.wake_at().is_some_and(|wake_at| wake_at <= now) {
            service.drive(now);
            self.clients.collect_replies(service, now);
            self.clients.flush(&self.poller, now);
        }
    }

    fn register(&self, service: &S) -> Result<(), ServerError> {
        let failed = in_step("epoll_ctl");
        for (index, listener) in self.server.listeners.iter().enumerate() {
            let token = LISTENER_TOKENS | index as u64;
            self.poller.add(listener, token, EventFlags::IN).map_err(&failed)?;
        }
        self.server.controls.iter().try_for_each(|control| control.register(&self.poller))?;
        if let Some(wake) = service.wake().fd {
            self.poller.add(wake, SERVICE_TOKEN, EventFlags::IN).map_err(&failed)?;
        }
        self.poller.add(&self.server.shutdown, SHUTDOWN_TOKEN, EventFlags::IN).map_err(failed)
    }

    /// When something happens that no descriptor tells about.
    fn deadline(&self, service: &S) -> Option<Deadline> {
        if self.hungry {
            return Some(Deadline { at: Nanos::ZERO, precise: false });
        }
        let stall = self.clients.anyone_to_look_after().then_some(self.housekeeping.next);
        let stop = self.stopping.as_ref().map(|stopping| stopping.until);
        let coarse = [self.next_tick, stall, stop, self.rest_until].into_iter().flatten();
        let coarse = coarse.map(|at| Deadline { at, precise: false });
        let Wake { at, is_precise: precise, .. } = service.wake();
        let wake = at.map(|at| Deadline { at, precise });
        coarse.chain(wake).min_by_key(|deadline| deadline.at)
    }

    /// Serves one event; whether the service must be driven for it.
    fn dispatch(&mut self, ready: Ready, service: &mut S, now: Nanos) -> bool {
        match ready.token & KIND_MASK {
            CLIENT_TOKENS => {
                self.clients.on_ready(ready, service, now);
                false
            }
            LISTENER_TOKENS => {
                self.accept(ready.token as u32 as usize, now);
                false
            }
            CONTROL_TOKENS => {
                if let Some(control) = self.server.controls.get_mut(ready.token as u32 as usize) {
                    control.accept(&self.poller);
                }
                false
            }
            CONTROL_CONNECTION_TOKENS => {
                let index = (ready.token >> 32) & 0xff_ffff;
                let statistics = self.clients.statistics();
                if let Some(control) = self.server.controls.get_mut(index as usize) {
                    let mut context = Context { service, statistics, now };
                    control.on_ready(ready, &self.poller, &mut context);
                }
                true
            }
            SHUTDOWN_TOKEN => {
                let requests = self.server.shutdown.requests();
                (0..requests).for_each(|_| self.stop(service, now));
                true
            }
            _ => true,
        }
    }

    fn accept(&mut self, index: usize, now: Nanos) {
        let Some(listener) = self.server.listeners.get(index) else { return };
        for _ in 0..ACCEPTS_MAX {
            match listener.accept() {
                Ok(Some(socket)) => self.clients.accept(socket, &self.poller, now),
                Ok(None) => return,
                Err(errno) => {
                    // Out of descriptors or memory: clients wait in the queue of the listener.
                    (self.server.notice)(&format!("clients cannot be accepted now: {errno}"));
                    self.rest_listeners(now);
                    return;
                }
            }
        }
    }

    fn rest_listeners(&mut self, now: Nanos) {
        self.rest_until = Some(now + HOUSEKEEPING);
        self.set_listening(EventFlags::empty());
    }

    fn set_listening(&self, interest: EventFlags) {
        for (index, listener) in self.server.listeners.iter().enumerate() {
            // It can only fail for descriptors that are not registered, and these are.
            let _ = self.poller.modify(listener, LISTENER_TOKENS | index as u64, interest);
        }
    }

    /// Stops gracefully at the first call, at once at the second.
    fn stop(&mut self, service: &mut S, now: Nanos) {
        if let Some(stopping) = &mut self.stopping {
            stopping.forced = true;
            return;
        }
        let until = now + self.server.limits.shutdown_max;
        self.stopping = Some(Stopping { until, forced: false });
        // Closing the listeners refuses new clients and removes the socket's path.
        self.server.listeners.clear();
        service.begin_shutdown(now);
    }

    fn ending(&mut self, service: &S, now: Nanos) -> Option<Ending> {
        let stopping = self.stopping.as_ref()?;
        if service.is_shut_down() && self.clients.is_quiet() {
            Some(Ending::Graceful)
        } else if stopping.forced {
            Some(Ending::Forced)
        } else if now >= stopping.until {
            Some(Ending::TimedOut)
        } else {
            None
        }
    }

    /// Who comes from now on is told the size that the service has by now; who is there knows the one that he was told.
    fn offer_what_there_is(&mut self, service: &S) {
        let info = service.info();
        if info.size_bytes != self.size_bytes {
            self.size_bytes = info.size_bytes;
            if let Ok(export) = self.server.export_of(info) {
                self.clients.offer(export);
            }
        }
    }

    /// Runs the owner's tick if it is due; whether it ran.
    fn tick(&mut self, service: &mut S, now: Nanos) -> bool {
        let Some(due) = self.next_tick.filter(|due| *due <= now) else { return false };
        let Some((period, tick)) = &mut self.server.tick else { return false };
        // Ticks missed are not made up for.
        self.next_tick = Some((due + *period).max(now));
        let statistics = self.clients.statistics();
        tick(&mut Context { service, statistics, now });
        self.offer_what_there_is(service);
        true
    }

    fn housekeep(&mut self, now: Nanos) {
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
            self.set_listening(EventFlags::IN);
        }
        if self.housekeeping.is_due(now) && self.clients.anyone_to_look_after() {
            self.clients.cut_off_stalled(now);
            self.clients.let_go_unfinished(now);
        }
    }
}

/// When clients are looked after next.
struct Housekeeping {
    next: Nanos,
}

impl Housekeeping {
    /// Whether it is time; if so, the next time is a while from now.
    fn is_due(&mut self, now: Nanos) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = now + HOUSEKEEPING;
        }
        is_due
    }
}

/// Lets the process open as many descriptors as it may, so that `connections` fit.
fn raise_descriptor_limit(connections: usize) {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let wanted = connections as u64 + 256;
    let wanted = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum };
        // Best effort: without it, accepting pauses when descriptors run out.
        let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    }
}

#[cfg(test)]
#[path = "event_loop_tests.rs"]
mod tests;
