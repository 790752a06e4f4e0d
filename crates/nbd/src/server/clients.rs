//! All clients: who comes, who goes, who is listened to, and what is sent.
//!
//! What it keeps true:
//!
//! - the number of clients is bounded; one more is told why it is turned away, unless somebody who
//!   does not end the handshake can go in its place;
//! - a handshake ends within its time or its client is let go;
//! - a client that leaves, or is cut off, gives back its place and its memory at once, and the
//!   replies that still come for it are dropped;
//! - nobody is listened to while there is no room for what it may ask.

use super::byte_access::ByteAccess;
use super::connection::Connection;
use super::losses::{Losses, Mark};
use super::memory::Budget;
use super::poller::{Poller, Ready};
use super::requests::Pending;
use super::statistics::Statistics;
use super::tls::Sessions;
use super::transport::{Received, Transport};
use super::visits::{Traffic, Visits, peer_of};
use crate::protocol::{Export, Machine, TlsMode};
use nearhead_basics::Slab;
use nearhead_disk::{BufferPool, Nanos};
use nearhead_service::Service;
use rustix::event::epoll::EventFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Most clients that are being told that the server is full.
const REFUSALS_MAX: usize = 16;

/// Most receives from one client before the others have their turn.
const RECEIVES_MAX: usize = 8;

/// How clients are treated.
pub(crate) struct Policy {
    pub(crate) export: Rc<Export>,
    pub(crate) tls_mode: TlsMode,
    pub(crate) tls: Option<Arc<dyn Sessions>>,
    pub(crate) connections_max: usize,
    /// How long a client may hold memory that others wait for without taking or giving a byte.
    pub(crate) stall_max: Nanos,
    /// How long a handshake may take, and how long while all places are taken.
    pub(crate) handshake_max: Nanos,
    pub(crate) handshake_yields: Nanos,
}

/// All clients.
pub(crate) struct Clients {
    policy: Policy,
    pub(super) places: Vec<Option<Connection>>,
    free_places: Vec<u32>,
    next_id: u64,
    open: usize,
    refusals_open: usize,
    /// Clients whose handshake is not over.
    unfinished: usize,
    pub(super) pending: Slab<Pending>,
    /// Between the requests of clients and the service.
    pub(super) access: ByteAccess,
    pub(super) budget: Budget,
    pub(super) pool: BufferPool,
    staging: Vec<u8>,
    /// Those with something to send or to decide.
    touched: Vec<u32>,
    /// Those that wait for room.
    parked: Vec<u32>,
    /// Something was submitted since the service was last driven.
    pub(super) submitted: bool,
    /// Something was received since the last look at those that wait for room.
    received: bool,
    pub(super) statistics: Statistics,
    pub(super) losses: Losses,
    /// Flushes that failed in this round: whose, and when they were asked for.
    pub(super) failed_flushes: Vec<(u32, u64, Mark)>,
    /// What people may want to know, until the owner of the loop takes it.
    pub(super) notices: Vec<String>,
    pub(super) visits: Visits,
}

impl Clients {
    /// Who comes from now on is offered this.
    pub(super) fn offer(&mut self, export: Rc<Export>) {
        self.policy.export = export;
    }

    pub(crate) fn new(policy: Policy, budget: Budget, access: ByteAccess) -> Self {
        Self {
            policy,
            places: Vec::new(),
            free_places: Vec::new(),
            next_id: 0,
            open: 0,
            refusals_open: 0,
            unfinished: 0,
            pending: Slab::new(),
            access,
            budget,
            pool: BufferPool::default(),
            staging: Vec::new(),
            touched: Vec::new(),
            parked: Vec::new(),
            submitted: false,
            received: false,
            statistics: Statistics::default(),
            losses: Losses::default(),
            failed_flushes: Vec::new(),
            notices: Vec::new(),
            visits: Visits::default(),
        }
    }

    /// What was counted so far.
    pub(crate) fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// What people may want to know, since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Whether somebody waits for room, or has not ended the handshake.
    pub(crate) fn anyone_to_look_after(&self) -> bool {
        !self.parked.is_empty() || self.unfinished > 0
    }

    /// Whether something was submitted since the last call.
    pub(crate) fn take_submitted(&mut self) -> bool {
        std::mem::take(&mut self.submitted)
    }

    pub(super) fn get(&mut self, place: u32) -> Option<&mut Connection> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// The client at `place`, beside the memory that all share.
    pub(super) fn client_and_memory(
        &mut self,
        place: u32,
    ) -> Option<(&mut Connection, &mut Budget, &mut BufferPool)> {
        let connection = self.places.get_mut(place as usize)?.as_mut()?;
        Some((connection, &mut self.budget, &mut self.pool))
    }

    /// Lists `place` for [`Clients::flush`].
    pub(super) fn touch(&mut self, place: u32) {
        if let Some(connection) = self.get(place)
            && !std::mem::replace(&mut connection.touched, true)
        {
            self.touched.push(place);
        }
    }

    pub(super) fn park(&mut self, place: u32) {
        if let Some(connection) = self.get(place)
            && !std::mem::replace(&mut connection.parked, true)
        {
            self.parked.push(place);
        }
    }

    /// Takes in a client, or tells it why not.
    pub(crate) fn accept(&mut self, socket: OwnedFd, poller: &Poller, now: Nanos) {
        let full = self.open >= self.policy.connections_max && !self.make_room(now);
        if full {
            self.statistics.connections_refused += 1;
            if self.refusals_open >= REFUSALS_MAX {
                return;
            }
        }
        let refusal = full.then(|| {
            format!("all {} connections are in use; try again later", self.policy.connections_max)
        });
        let place = self.free_places.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        self.next_id += 1;
        let id = self.next_id;
        let transport = Transport::new(socket);
        if let Err(errno) = poller.add(&transport, token(place, id), EventFlags::IN) {
            self.notices.push(format!("a client was turned away: epoll: {errno}"));
            self.free_places.push(place);
            return;
        }
        let peer = peer_of(transport.as_fd());
        let machine = Machine::new(Rc::clone(&self.policy.export), self.policy.tls_mode, refusal);
        let share = super::memory::Share::default();
        self.places[place as usize] = Some(Connection {
            id,
            transport,
            machine,
            share,
            interest: EventFlags::IN,
            paused: false,
            parked: false,
            touched: false,
            ended: false,
            hung_up: false,
            tls_wanted: false,
            refused: full,
            shaking_hands: true,
            peer,
            traffic: Traffic::default(),
            since: now,
            progress_at: now,
            losses_seen: self.losses.seen_by_the_next(),
        });
        self.unfinished += 1;
        if full {
            self.refusals_open += 1;
        } else {
            self.open += 1;
            self.statistics.connections_accepted += 1;
            self.statistics.connections_open += 1;
        }
        self.touch(place);
    }

    /// Gives back the place and the memory of a client.
    fn remove(&mut self, place: u32, now: Nanos) {
        let Some(mut connection) = self.places[place as usize].take() else { return };
        connection.transport.close();
        if !connection.shaking_hands {
            self.visits.left(&connection, now);
        }
        self.budget.left(&connection.share);
        self.free_places.push(place);
        self.unfinished -= usize::from(connection.shaking_hands);
        if connection.refused {
            self.refusals_open -= 1;
        } else {
            self.open -= 1;
            self.statistics.connections_open -= 1;
        }
    }

    /// Serves a client of which the poller told something.
    pub(crate) fn on_ready<S: Service + ?Sized>(
        &mut self,
        ready: Ready,
        service: &mut S,
        now: Nanos,
    ) {
        let place = ready.token as u32;
        let Some(connection) = self.get(place) else { return };
        if token(place, connection.id) != ready.token {
            return;
        }
        if ready.flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            connection.hung_up = true;
            // What it sent before it left is still served, if it can be received.
            connection.ended |= !connection.listens();
        }
        if connection.listens() {
            self.receive(place, service, now);
        }
        self.touch(place);
    }

    /// Receives and understands as much as there is and as there is room for.
    fn receive<S: Service + ?Sized>(&mut self, place: u32, service: &mut S, now: Nanos) {
        for turn in 0.. {
            self.understand(place, service, now);
            let budget = &self.budget;
            let Some(connection) = self.places.get_mut(place as usize).and_then(Option::as_mut)
            else {
                return;
            };
            if !connection.listens() {
                break;
            }
            if turn == RECEIVES_MAX || !connection.has_room(budget) {
                // Paused rather than left to the poller, which does not see what waits inside TLS.
                connection.paused = true;
                self.park(place);
                break;
            }
            let (machine, staging) = (&mut connection.machine, &mut self.staging);
            match connection.transport.receive(machine, staging) {
                Ok(Received::Bytes { more }) => {
                    connection.progress_at = now;
                    self.received = true;
                    if !more {
                        self.understand(place, service, now);
                        break;
                    }
                }
                Ok(Received::Nothing) => break,
                Ok(Received::End) => connection.ended = true,
                Err(error) => {
                    // The peer's doing; TLS errors are worth a word.
                    connection.ended = true;
                    if connection.transport.is_encrypted() {
                        self.notices.push(format!("a client was cut off: {error}"));
                    }
                }
            }
        }
        if let Some(connection) = self.places[place as usize].as_mut() {
            connection.machine.settle(&mut self.staging);
            if connection.shaking_hands && connection.machine.is_transmitting() {
                connection.shaking_hands = false;
                self.unfinished -= 1;
                self.visits.came(connection);
            }
        }
    }

    /// Looks again at those that wait for room; whether anything came of it.
    pub(crate) fn resume_parked<S: Service + ?Sized>(
        &mut self,
        service: &mut S,
        now: Nanos,
    ) -> bool {
        self.received = false;
        for place in std::mem::take(&mut self.parked) {
            let Some(connection) = self.get(place).filter(|connection| connection.parked) else {
                continue;
            };
            connection.parked = false;
            connection.paused = false;
            self.receive(place, service, now);
            self.touch(place);
        }
        self.submitted || self.received
    }

    /// Sends what waits, and decides what becomes of each client that was touched.
    pub(crate) fn flush(&mut self, poller: &Poller, now: Nanos) {
        let mut touched = std::mem::take(&mut self.touched);
        for place in touched.drain(..) {
            if !self.flush_one(place, poller, now) {
                self.remove(place, now);
            }
        }
        self.touched = touched;
    }

    /// Sends what waits for one client; whether the client stays.
    fn flush_one(&mut self, place: u32, poller: &Poller, now: Nanos) -> bool {
        let Some(connection) = self.places[place as usize].as_mut() else { return true };
        connection.touched = false;
        let waited = connection.machine.outbox().len();
        let Ok(sent) = connection.transport.send(&mut connection.machine) else {
            return false;
        };
        let unsent = connection.machine.outbox().len();
        if unsent < waited {
            connection.progress_at = now;
        }
        self.budget.set_unsent(&mut connection.share, unsent);
        if connection.ended && (connection.hung_up || (sent && connection.is_answered())) {
            return false;
        }
        if connection.tls_wanted && sent {
            connection.tls_wanted = false;
            let Some(sessions) = &self.policy.tls else { return false };
            let clean = connection.machine.begin_tls();
            if !clean || connection.transport.start_tls(&**sessions).is_err() {
                self.notices.push("a client was cut off: it sent bytes ahead of TLS".to_owned());
                return false;
            }
        }
        let interest = connection.wanted_interest(!sent);
        if interest != connection.interest {
            let changed =
                poller.modify(&connection.transport, token(place, connection.id), interest);
            connection.interest = interest;
            return changed.is_ok();
        }
        true
    }

    /// Lets those go whose handshake took too long, and says so in one line.
    pub(crate) fn let_go_unfinished(&mut self, now: Nanos) {
        if self.unfinished == 0 {
            return;
        }
        let handshake_max = self.policy.handshake_max;
        let mut count = 0;
        for place in 0..self.places.len() as u32 {
            let is_late = self.get(place).is_some_and(|connection| {
                connection.shaking_hands && now.since(connection.since) >= handshake_max
            });
            if is_late {
                count += 1;
                self.remove(place, now);
            }
        }
        if count > 0 {
            self.statistics.connections_unfinished += count;
            let (who, their) =
                if count == 1 { ("a client was", "its") } else { ("clients were", "their") };
            let number = if count == 1 { String::new() } else { format!("{count} ") };
            self.notices.push(format!(
                "{number}{who} let go: {their} handshake did not end within {} s",
                handshake_max.as_secs_f64()
            ));
        }
    }

    /// Lets the client go whose handshake takes longest, if that is long enough; whether it did.
    fn make_room(&mut self, now: Nanos) -> bool {
        let counted = |connection: &Connection| connection.shaking_hands && !connection.refused;
        let places = (0..).zip(&self.places);
        let unfinished = places.filter_map(|(place, connection)| {
            let connection = connection.as_ref().filter(|connection| counted(connection))?;
            Some((connection.since, place))
        });
        let oldest = if self.unfinished == 0 { None } else { unfinished.min() };
        let yields = |since: Nanos| now.since(since) >= self.policy.handshake_yields;
        let Some((_, place)) = oldest.filter(|(since, _)| yields(*since)) else { return false };
        self.statistics.connections_unfinished += 1;
        self.remove(place, now);
        true
    }

    /// Cuts off clients that hold memory others wait for and do nothing about it.
    pub(crate) fn cut_off_stalled(&mut self, now: Nanos) {
        if self.parked.is_empty() {
            return;
        }
        let stall_max = self.policy.stall_max;
        for place in 0..self.places.len() as u32 {
            let stalled = self.get(place).is_some_and(|connection| {
                connection.owes_progress() && now.since(connection.progress_at) >= stall_max
            });
            if stalled {
                self.statistics.connections_stalled += 1;
                self.notices.push(format!(
                    "a client was cut off: it held memory that others need and did nothing for {} s",
                    stall_max.as_secs_f64()
                ));
                self.remove(place, now);
            }
        }
    }

    /// Whether every request was answered and every answer sent.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let unsent = |connection: &mut Connection| !connection.machine.outbox().is_empty();
        self.pending.is_empty() && !self.places.iter_mut().flatten().any(unsent)
    }

    /// Requests without an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.pending.len()
    }

    /// Lets every client go.
    pub(crate) fn close_all(&mut self, now: Nanos) {
        for place in 0..self.places.len() as u32 {
            self.remove(place, now);
        }
    }
}

/// What the poller calls a client: its place, and part of its id so that an event for a client
/// that left is not taken for its successor's.
fn token(place: u32, id: u64) -> u64 {
    super::event_loop::CLIENT_TOKENS | (id & 0xff_ffff) << 32 | u64::from(place)
}

#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
