//! Several devices under one count of flushes: the volume's own disk and its data devices, any of which may have a home.
//!
//! Who waits for a ticket waits until each of them has flushed that needed to: one on which nothing completed since its last flush
//! that a power cut could take is not asked, unless that is so of all: then nobody knows what the ticket was for. One that fails fails
//! the flush for all who waited for it.

use super::flusher::Flusher;
use nearhead_disk::Lane;

/// The flushes of all of them.
#[derive(Debug)]
pub(crate) struct FlushedTogether {
    flusher: Flusher,
    /// Those with a volatile cache, and whether anything completed there since their last flush was submitted.
    volatile: Vec<(Lane, bool)>,
    /// Those that are to be told of the flush under way.
    to_tell: Vec<Lane>,
    /// Those that have not answered it, told or not.
    unanswered: usize,
    has_failed: bool,
}

impl FlushedTogether {
    /// Devices of which these may lose what was answered.
    pub(crate) fn new(volatile: Vec<Lane>) -> Self {
        Self {
            flusher: Flusher::new(!volatile.is_empty()),
            volatile: volatile.into_iter().map(|lane| (lane, false)).collect(),
            to_tell: Vec::new(),
            unanswered: 0,
            has_failed: false,
        }
    }

    /// The count.
    pub(crate) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    pub(crate) fn flusher_mut(&mut self) -> &mut Flusher {
        &mut self.flusher
    }

    /// Something completed on this one that its next flush makes durable.
    pub(crate) fn note_written(&mut self, lane: Lane) {
        let known = self.volatile.iter_mut().find(|(of, _)| *of == lane);
        if let Some((_, is_dirty)) = known {
            *is_dirty = true;
        }
    }

    /// One that must be told to flush now; it counts as told.
    pub(crate) fn start(&mut self) -> Option<Lane> {
        if self.flusher.start() {
            let is_any_dirty = self.volatile.iter().any(|(_, is_dirty)| *is_dirty);
            for (lane, is_dirty) in &mut self.volatile {
                if std::mem::take(is_dirty) || !is_any_dirty {
                    self.to_tell.push(*lane);
                }
            }
            self.unanswered = self.to_tell.len();
            if self.to_tell.is_empty() {
                self.flusher.complete();
            }
        }
        self.to_tell.pop()
    }

    /// This one is not flushed any more, and nobody waits for it: whoever relied on it was told.
    pub(crate) fn forget(&mut self, lane: Lane) {
        self.volatile.retain(|(of, _)| *of != lane);
        let told = self.to_tell.len();
        self.to_tell.retain(|of| *of != lane);
        self.unanswered -= told - self.to_tell.len();
        if self.unanswered == 0 && self.flusher.is_under_way() {
            self.flusher.complete();
        }
    }

    /// One of them has flushed, or could not.
    pub(crate) fn ended(&mut self, is_ok: bool) {
        self.has_failed |= !is_ok;
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered > 0 {
            return;
        }
        if std::mem::take(&mut self.has_failed) {
            self.flusher.fail();
        } else {
            self.flusher.complete();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Lane = Lane::MAIN;

    fn second() -> Lane {
        Lane::data(0)
    }

    fn two() -> FlushedTogether {
        FlushedTogether::new(vec![FIRST, second()])
    }

    fn write(devices: &mut FlushedTogether, lane: Lane) {
        devices.note_written(lane);
        devices.flusher_mut().note_volatile_write();
    }

    #[test]
    fn a_ticket_waits_for_each_that_has_something_to_flush_and_for_no_other() {
        let mut devices = two();
        write(&mut devices, second());
        let one = devices.flusher_mut().want();
        assert_eq!([devices.start(), devices.start()], [Some(second()), None]);
        write(&mut devices, FIRST);
        write(&mut devices, second());
        let both = devices.flusher_mut().want();
        assert_eq!(devices.start(), None, "one flush at a time");
        devices.ended(true);
        assert!(devices.flusher().is_done(one) && !devices.flusher().is_done(both));
        let told = [devices.start(), devices.start()];
        assert!(told.contains(&Some(FIRST)) && told.contains(&Some(second())), "{told:?}");
        devices.ended(true);
        assert!(!devices.flusher().is_done(both), "one has not answered");
        devices.ended(true);
        assert!(devices.flusher().is_done(both));
    }

    #[test]
    fn if_one_cannot_flush_nothing_counts_as_flushed() {
        let mut devices = two();
        write(&mut devices, FIRST);
        write(&mut devices, second());
        let ticket = devices.flusher_mut().want();
        assert!(devices.start().is_some() && devices.start().is_some());
        devices.ended(false);
        devices.ended(true);
        assert!(!devices.flusher().is_done(ticket) && !devices.flusher().is_under_way());
    }

    #[test]
    fn if_nobody_knows_what_is_to_be_flushed_all_of_it_is() {
        let mut devices = two();
        devices.flusher_mut().note_volatile_write();
        let ticket = devices.flusher_mut().want();
        assert!(devices.start().is_some() && devices.start().is_some());
        devices.ended(true);
        assert!(!devices.flusher().is_done(ticket));
        devices.ended(true);
        assert!(devices.flusher().is_done(ticket));
    }

    #[test]
    fn nobody_waits_for_one_that_was_given_up() {
        let mut devices = two();
        write(&mut devices, FIRST);
        write(&mut devices, second());
        let ticket = devices.flusher_mut().want();
        assert!(devices.start().is_some() && devices.start().is_some());
        devices.forget(second());
        devices.ended(true);
        assert!(!devices.flusher().is_done(ticket), "its answer came, the other's did not");
        devices.ended(true);
        assert!(devices.flusher().is_done(ticket));
        write(&mut devices, second());
        write(&mut devices, FIRST);
        assert!(!devices.flusher().is_done(devices.flusher().ticket()));
        devices.flusher_mut().want();
        assert_eq!([devices.start(), devices.start()], [Some(FIRST), None]);
    }

    #[test]
    fn where_no_device_forgets_nobody_waits() {
        let mut devices = FlushedTogether::new(Vec::new());
        write(&mut devices, FIRST);
        let ticket = devices.flusher_mut().want();
        assert!(devices.flusher().is_done(ticket) && devices.start().is_none());
    }
}
