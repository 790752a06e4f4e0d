//! Who still has to be told that the service lost what was acknowledged and not flushed.
//!
//! As with files on Linux, the next flush says so: one of every client, since a client that writes may leave the flush to
//! another connection. What it keeps true: a flush succeeds only if nothing was lost that was acknowledged to anybody
//! before it, or if its client was told of that loss. It errs towards telling, and never tells the same client twice of one
//! loss. Who comes later is told if nobody was yet.

/// A moment, as far as acknowledgements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// The losses of a service, and what its clients rely on.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Changes that were acknowledged.
    acknowledged: u64,
    /// So many of them were when a flush was asked for that succeeded.
    flushed: u64,
    /// Losses of the service that were looked at.
    looked_at: u64,
    /// The last of them by which a client may have lost something.
    last: u64,
    /// Whether any client knows of that one.
    is_told: bool,
}

impl Losses {
    /// A change was acknowledged that may have to be flushed.
    pub(crate) fn acknowledged(&mut self) {
        self.acknowledged += 1;
    }

    /// Now, for a flush that is asked for.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.acknowledged)
    }

    /// The flush that was asked for then succeeded.
    pub(crate) fn flushed(&mut self, mark: Mark) {
        self.flushed = self.flushed.max(mark.0);
    }

    /// The service has lost something so many times. All answers that it gave before were counted.
    pub(crate) fn look(&mut self, count: u64) {
        if self.acknowledged > self.flushed {
            self.look_ahead(count);
        }
        self.looked_at = count;
    }

    /// The same, while there may be answers that were not.
    pub(crate) fn look_ahead(&mut self, count: u64) {
        if count != self.looked_at {
            self.looked_at = count;
            self.last = count;
            self.is_told = false;
        }
    }

    /// A flush that was asked for then failed. If nothing was acknowledged since, its client needs no other one to know.
    pub(crate) fn flush_failed(&mut self, mark: Mark, seen: &mut u64) {
        if mark.0 == self.acknowledged && *seen != self.last {
            self.tell(seen);
        }
    }

    /// Whether the next flush of a client that has `seen` so many has to fail; it counts as told then.
    pub(crate) fn owes(&mut self, seen: &mut u64) -> bool {
        let owes = *seen != self.last;
        if owes {
            self.tell(seen);
        }
        owes
    }

    /// What a client knows that comes now.
    pub(crate) fn seen_by_the_next(&self) -> u64 {
        if self.is_told { self.last } else { 0 }
    }

    fn tell(&mut self, seen: &mut u64) {
        *seen = self.last;
        self.is_told = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_flush_of_each_client_fails_once_after_a_loss() {
        let mut losses = Losses::default();
        let (mut first, mut second) = (losses.seen_by_the_next(), losses.seen_by_the_next());
        assert!(!losses.owes(&mut first));
        losses.acknowledged();
        losses.look(1);
        assert!(losses.owes(&mut first) && !losses.owes(&mut first));
        assert!(losses.owes(&mut second), "it may have relied on it as well");
        losses.acknowledged();
        losses.look(2);
        assert!(losses.owes(&mut first), "another one");
    }

    #[test]
    fn a_loss_of_nothing_that_was_acknowledged_is_nobodys() {
        let mut losses = Losses::default();
        losses.acknowledged();
        let mark = losses.mark();
        losses.flushed(mark);
        losses.look(1);
        assert!(!losses.owes(&mut 0));
        losses.acknowledged();
        losses.look(1);
        assert!(!losses.owes(&mut 0), "acknowledged after it");
        losses.look(2);
        assert!(losses.owes(&mut 0));
        let mark = losses.mark();
        losses.flushed(mark);
        losses.look_ahead(3);
        assert!(losses.owes(&mut 2), "an answer may be on its way");
    }

    #[test]
    fn a_flush_that_failed_for_it_has_told_its_client_unless_more_was_acknowledged_since() {
        for more in [false, true] {
            let (mut losses, mut own, mut other) = (Losses::default(), 0, 0);
            losses.acknowledged();
            let mark = losses.mark();
            if more {
                losses.acknowledged();
            }
            losses.look(1);
            losses.flush_failed(mark, &mut own);
            assert_eq!(losses.owes(&mut own), more);
            assert!(losses.owes(&mut other));
        }
    }

    #[test]
    fn who_comes_later_is_told_if_nobody_was() {
        let mut losses = Losses::default();
        losses.acknowledged();
        losses.look(1);
        let mut early = losses.seen_by_the_next();
        assert!(losses.owes(&mut early), "who wrote it may have come back as another");
        let mut late = losses.seen_by_the_next();
        assert!(!losses.owes(&mut late));
    }
}
