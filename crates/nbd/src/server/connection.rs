//! One client: its socket, its conversation, and why it may or may not be listened to.

use super::memory::{Budget, Share};
use super::transport::Transport;
use super::visits::Traffic;
use crate::protocol::Machine;
use nearhead_disk::Nanos;
use rustix::event::epoll::EventFlags;

/// Unsent replies beyond which a client must fit into the budget to be listened to, in bytes.
const UNSENT_FREE_BYTES: usize = 64 * 1024;

/// One client.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own words")]
pub(crate) struct Connection {
    /// Never used twice, unlike the place in the table.
    pub(crate) id: u64,
    pub(crate) transport: Transport,
    pub(crate) machine: Machine,
    pub(crate) share: Share,
    /// As registered with the poller.
    pub(crate) interest: EventFlags,
    /// Not listened to until there is room for its requests.
    pub(crate) paused: bool,
    /// Listed among those that wait for room.
    pub(crate) parked: bool,
    /// Listed among those that have something to send or to decide.
    pub(crate) touched: bool,
    /// Nothing more will be received or understood.
    pub(crate) ended: bool,
    /// The other side is gone: nothing can be sent either.
    pub(crate) hung_up: bool,
    /// TLS follows once everything is sent.
    pub(crate) tls_wanted: bool,
    /// Served only the words of a refusal.
    pub(crate) refused: bool,
    /// Has not come to the transmission phase yet.
    pub(crate) shaking_hands: bool,
    /// Where it is.
    pub(crate) peer: String,
    /// What it asked for so far.
    pub(crate) traffic: Traffic,
    /// When it came.
    pub(crate) since: Nanos,
    /// When it last took or gave a byte.
    pub(crate) progress_at: Nanos,
    /// The last loss that it knows of.
    pub(crate) losses_seen: u64,
}

impl Connection {
    /// What the poller should tell about this client.
    pub(crate) fn wanted_interest(&self, unsent: bool) -> EventFlags {
        let mut interest = EventFlags::empty();
        if self.listens() {
            interest |= EventFlags::IN;
        }
        if unsent {
            interest |= EventFlags::OUT;
        }
        interest
    }

    /// Whether bytes from this client are wanted now.
    pub(crate) fn listens(&self) -> bool {
        !self.ended && !self.paused && !self.tls_wanted
    }

    /// Whether the replies that this client did not read leave room for more requests.
    pub(crate) fn has_room(&mut self, budget: &Budget) -> bool {
        self.machine.outbox().len() <= UNSENT_FREE_BYTES || budget.allows(&self.share, 1)
    }

    /// Whether everything asked for was answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.share.in_flight_requests() == 0
    }

    /// Whether the client holds memory and it is the client's turn to act.
    pub(crate) fn owes_progress(&self) -> bool {
        self.share.waits_for_client()
    }
}
