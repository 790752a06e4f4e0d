//! Memory for requests: a budget that no client can exhaust.
//!
//! The budget is shared by "dynamic thresholds" (Choudhury and Hahne, "Dynamic queue length
//! thresholds in a shared memory packet switch", IEEE/ACM Transactions on Networking, 1998): a client that already holds
//! memory may go on holding at most a fixed fraction of what is still free, so that clients that
//! never read their replies take less and less and leave room for the next one. A client that
//! holds nothing may take whatever is free.

use crate::protocol::Intake;
use nearhead_disk::{BufferMut, BufferPool};

/// A client may hold one part in this many of what is free.
const FREE_PARTS: usize = 8;

/// What all clients together may occupy.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) bytes_max: usize,
    pub(crate) requests_max: usize,
    pub(crate) client_bytes_max: usize,
    pub(crate) client_requests_max: usize,
    bytes: usize,
    requests: usize,
}

/// What one client occupies.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// The payload being received.
    receiving_bytes: usize,
    in_flight_bytes: usize,
    in_flight_requests: usize,
    /// Replies not yet sent.
    unsent_bytes: usize,
}

impl Share {
    pub(crate) fn bytes(&self) -> usize {
        self.receiving_bytes + self.in_flight_bytes + self.unsent_bytes
    }

    /// Whether it is the client's turn: to read its replies, or to send the rest of a request.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.receiving_bytes > 0 || self.unsent_bytes > 0
    }

    pub(crate) fn in_flight_requests(&self) -> usize {
        self.in_flight_requests
    }
}

impl Budget {
    pub(crate) fn new(
        bytes_max: usize,
        requests_max: usize,
        client_bytes_max: usize,
        client_requests_max: usize,
    ) -> Self {
        let (bytes, requests) = (0, 0);
        Self { bytes_max, requests_max, client_bytes_max, client_requests_max, bytes, requests }
    }

    fn free_bytes(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// Whether the holder of `share` may hold `more` bytes on top.
    pub(crate) fn allows(&self, share: &Share, more: usize) -> bool {
        let held = share.bytes();
        let free = self.free_bytes();
        let fits = if held == 0 {
            more <= free
        } else {
            held + more <= self.client_bytes_max && held + more <= free / FREE_PARTS
        };
        fits || more == 0
    }

    fn admit(&mut self, share: &mut Share, bytes: usize) -> bool {
        let room = share.in_flight_requests < self.client_requests_max
            && self.requests < self.requests_max
            && self.allows(share, bytes);
        if room {
            share.receiving_bytes = bytes;
            self.bytes += bytes;
        }
        room
    }

    /// The admitted request was received and goes to the service.
    pub(crate) fn started(&mut self, share: &mut Share) -> usize {
        let bytes = std::mem::take(&mut share.receiving_bytes);
        share.in_flight_bytes += bytes;
        share.in_flight_requests += 1;
        self.requests += 1;
        bytes
    }

    /// The service answered a request of `bytes`; the client may have left meanwhile.
    pub(crate) fn finished(&mut self, share: Option<&mut Share>, bytes: usize) {
        if let Some(share) = share {
            share.in_flight_bytes -= bytes;
            share.in_flight_requests -= 1;
        }
        self.bytes -= bytes;
        self.requests -= 1;
    }

    /// Books how much waits to be sent.
    pub(crate) fn set_unsent(&mut self, share: &mut Share, bytes: usize) {
        self.bytes = self.bytes + bytes - share.unsent_bytes;
        share.unsent_bytes = bytes;
    }

    /// The client left; what is in flight for it is booked out as it is answered.
    pub(crate) fn left(&mut self, share: &Share) {
        self.bytes -= share.receiving_bytes + share.unsent_bytes;
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> (usize, usize) {
        (self.bytes, self.requests)
    }
}

/// The budget and the buffers as one client's machine sees them.
pub(crate) struct Gate<'a> {
    pub(crate) budget: &'a mut Budget,
    pub(crate) share: &'a mut Share,
    pub(crate) pool: &'a mut BufferPool,
}

impl Intake for Gate<'_> {
    fn admit(&mut self, bytes: usize) -> bool {
        self.budget.admit(self.share, bytes)
    }

    fn payload_buffer(&mut self, bytes: usize) -> BufferMut {
        self.pool.take(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Takes requests of 1 MiB until refused; how many were taken.
    fn take_all(budget: &mut Budget, share: &mut Share) -> usize {
        let mut taken = 0;
        while budget.admit(share, MIB) {
            budget.started(share);
            taken += 1;
        }
        taken
    }

    #[test]
    fn clients_that_hold_all_they_can_leave_room_for_the_next() {
        let mut budget = Budget::new(512 * MIB, 10_000, 64 * MIB, 1000);
        let mut shares: Vec<Share> = Vec::new();
        for client in 0..30 {
            let mut share = Share::default();
            let taken = take_all(&mut budget, &mut share);
            assert!(taken >= 1, "client {client} got nothing");
            shares.push(share);
            assert!(budget.used().0 <= 512 * MIB);
        }
        // Everything comes back.
        for share in &mut shares {
            while share.in_flight_requests() > 0 {
                budget.finished(Some(share), MIB);
            }
        }
        assert_eq!(budget.used(), (0, 0));
    }

    #[test]
    fn what_a_client_held_comes_back_when_it_leaves_in_the_middle() {
        let mut budget = Budget::new(64 * MIB, 10, 64 * MIB, 10);
        let mut share = Share::default();
        assert!(budget.admit(&mut share, MIB));
        let bytes = budget.started(&mut share);
        budget.set_unsent(&mut share, 5000);
        assert!(budget.admit(&mut share, 2 * MIB));
        budget.left(&share);
        assert_eq!(budget.used(), (MIB, 1));
        budget.finished(None, bytes);
        assert_eq!(budget.used(), (0, 0));
    }

    #[test]
    fn the_number_of_requests_is_bounded_too() {
        let mut budget = Budget::new(MIB, 5, MIB, 3);
        let (mut first, mut second) = (Share::default(), Share::default());
        let mut start = |share: &mut Share| {
            let admitted = budget.admit(share, 0);
            if admitted {
                budget.started(share);
            }
            admitted
        };
        assert_eq!((0..9).filter(|_| start(&mut first)).count(), 3);
        assert_eq!((0..9).filter(|_| start(&mut second)).count(), 2);
    }

    #[test]
    fn it_is_the_clients_turn_while_it_has_to_read_or_to_send_and_only_then() {
        let mut budget = Budget::new(MIB, 5, MIB, 3);
        let mut share = Share::default();
        assert!(!share.waits_for_client());
        assert!(budget.admit(&mut share, 100));
        assert!(share.waits_for_client(), "a payload is under way");
        let bytes = budget.started(&mut share);
        assert!(!share.waits_for_client(), "the service has it");
        budget.finished(Some(&mut share), bytes);
        budget.set_unsent(&mut share, 1);
        assert!(share.waits_for_client(), "an answer is to be read");
        budget.set_unsent(&mut share, 0);
        assert!(!share.waits_for_client());
    }
}
