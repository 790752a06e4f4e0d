//! Device flushes, shared by everybody who waits for one.
//!
//! A flush covers what completed before it was *submitted*, so whoever asks while one is under way
//! needs the next. Tickets count flushes: a ticket is redeemed once `done` reaches it. At most one
//! flush is on the device at a time.
//!
//! A failed flush is never retried into an acknowledgement: the kernel or the disk may have dropped
//! the dirty data, so everything that relied on it fails (law 7).

/// Which flush somebody waits for: flushes of one device are counted in the order in which they are submitted. Tickets of two
/// devices have nothing to do with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlushTicket(u64);

impl FlushTicket {
    /// What is durable from the beginning.
    pub(crate) const NONE: Self = Self(0);

    #[cfg(test)]
    pub(crate) fn at(number: u64) -> Self {
        Self(number)
    }

    fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The flush counter.
#[derive(Debug)]
pub(crate) struct Flusher {
    needed: bool,
    started: FlushTicket,
    done: FlushTicket,
    wanted: FlushTicket,
    in_flight: bool,
    /// Whether something completed since the last flush was submitted that only a flush makes durable.
    dirty: bool,
}

impl Flusher {
    /// `needed` is whether the device has a volatile cache at all.
    pub(crate) fn new(needed: bool) -> Self {
        let none = FlushTicket::NONE;
        Self { needed, started: none, done: none, wanted: none, in_flight: false, dirty: false }
    }

    /// Whether the device has a volatile cache.
    pub(crate) fn is_needed(&self) -> bool {
        self.needed
    }

    /// A write completed that is not durable yet.
    pub(crate) fn note_volatile_write(&mut self) {
        self.dirty |= self.needed;
    }

    /// The ticket that is redeemed once everything completed so far is durable. Asks for nothing.
    pub(crate) fn ticket(&self) -> FlushTicket {
        // If nothing is dirty, what is done or the flush under way covers it.
        if self.dirty { self.started.next() } else { self.started }
    }

    /// Somebody waits for `ticket`: a flush will be submitted for it.
    pub(crate) fn demand(&mut self, ticket: FlushTicket) {
        self.wanted = self.wanted.max(ticket);
    }

    /// A ticket for everything completed so far, and the demand for it.
    pub(crate) fn want(&mut self) -> FlushTicket {
        let ticket = self.ticket();
        self.demand(ticket);
        ticket
    }

    /// Whether one is on the device.
    pub(crate) fn is_under_way(&self) -> bool {
        self.in_flight
    }

    /// Whether `ticket` is redeemed.
    pub(crate) fn is_done(&self, ticket: FlushTicket) -> bool {
        ticket <= self.done
    }

    /// Whether a flush must be submitted now; if so it counts as submitted.
    pub(crate) fn start(&mut self) -> bool {
        let start = !self.in_flight && self.wanted > self.started;
        if start {
            self.started = self.started.next();
            self.in_flight = true;
            self.dirty = false;
        }
        start
    }

    /// The flush on the device succeeded.
    pub(crate) fn complete(&mut self) {
        self.in_flight = false;
        self.done = self.started;
    }

    /// The flush on the device failed; nothing it covered is durable.
    pub(crate) fn fail(&mut self) {
        self.in_flight = false;
        self.dirty = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_device_needs_no_flush() {
        let mut flusher = Flusher::new(true);
        let ticket = flusher.want();
        assert!(flusher.is_done(ticket) && !flusher.start());
    }

    #[test]
    fn a_write_completed_during_a_flush_needs_the_next_one() {
        let mut flusher = Flusher::new(true);
        flusher.note_volatile_write();
        let first = flusher.want();
        assert!(flusher.start());
        flusher.note_volatile_write();
        let second = flusher.want();
        assert!(second > first);
        flusher.complete();
        assert!(flusher.is_done(first) && !flusher.is_done(second));
        assert!(flusher.start());
        flusher.complete();
        assert!(flusher.is_done(second));
    }

    #[test]
    fn a_failed_flush_redeems_nothing() {
        let mut flusher = Flusher::new(true);
        flusher.note_volatile_write();
        let ticket = flusher.want();
        flusher.start();
        flusher.fail();
        assert!(!flusher.is_done(ticket));
    }
}
