//! Room in full logs: when another pass of the checkpoint is worth its reads, and when what cannot go home (an atomic
//! write, or all small ones if the policy lets them wait) is told that there will be none.
//!
//! What no pass takes home keeps its log space: copies that are damaged, blocks whose homes fail. A pass over
//! everything that leaves nothing but those would find nothing else a moment later, so passes rest then, longer after
//! each of them, although staged blocks find no room. But a disk may work again: nobody is refused for want of
//! room unless a pass that began after he came has tried everything, also the homes that rest.

use nearhead_disk::Nanos;

/// The first rest after a pass that could free nothing; each one in a row doubles it.
const REST_FIRST: Nanos = Nanos::from_secs(1);
/// The longest rest.
const REST_MAX: Nanos = Nanos::from_secs(64);

/// Who would be refused, and what passes were good for.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Since when something at the front of the stage has waited for which somebody would be refused.
    missed_since: Option<Nanos>,
    /// When the newest pass began that tries everything.
    tried_at: Nanos,
    /// Passes in a row that could free nothing, and until when the next one rests.
    fruitless: u32,
    rests_until: Nanos,
}

impl Room {
    pub(super) fn note_tries_all(&mut self, now: Nanos) {
        self.tried_at = now;
    }

    /// A pass over everything could free nothing, and nothing came meanwhile that another could.
    pub(crate) fn note_fruitless(&mut self, now: Nanos) {
        let rest = Nanos(REST_FIRST.0 << self.fruitless.min(16)).min(REST_MAX);
        self.fruitless += 1;
        self.rests_until = now + rest;
    }

    /// There is room, or there may be.
    pub(crate) fn note_found(&mut self) {
        (self.fruitless, self.rests_until) = (0, Nanos::ZERO);
    }

    /// Somebody would be refused for want of room, or nobody.
    pub(crate) fn note_missed(&mut self, would_refuse: bool, now: Nanos) {
        self.missed_since = would_refuse.then(|| self.missed_since.unwrap_or(now));
    }

    /// Whether anybody would be refused.
    pub(crate) fn is_missed(&self) -> bool {
        self.missed_since.is_some()
    }

    /// What is missed comes from now on; whatever was tried before was not tried for it.
    pub(crate) fn miss_anew(&mut self, now: Nanos) {
        if let Some(since) = &mut self.missed_since {
            *since = now;
        }
    }

    /// Those who would be refused were.
    pub(crate) fn forget_missed(&mut self) {
        self.missed_since = None;
    }

    /// Whether everything was tried since whoever would be refused came.
    pub(crate) fn is_tried(&self) -> bool {
        self.missed_since.is_none_or(|since| self.tried_at >= since)
    }

    /// Whether another pass is worth its reads, after one that left nothing.
    pub(crate) fn wants_pass(&self, now: Nanos) -> bool {
        !self.is_tried() || (self.missed_since.is_none() && self.rests_until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_free_nothing_rest_ever_longer_until_one_frees_something() {
        let (mut room, mut now, mut rests) = (Room::default(), Nanos::ZERO, Vec::new());
        for _ in 0..20 {
            assert!(room.wants_pass(now));
            room.note_fruitless(now);
            rests.push(room.rests_until.since(now).0 / 1_000_000_000);
            assert!(!room.wants_pass(now));
            now = room.rests_until;
        }
        assert_eq!(rests[..8], [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!(rests[19], 64);
        room.note_found();
        assert!(room.wants_pass(now));
    }

    #[test]
    fn who_comes_while_passes_rest_is_served_by_one_and_not_by_more() {
        let mut room = Room::default();
        let at = Nanos::from_secs;
        room.note_fruitless(at(10));
        room.missed_since = Some(Nanos(at(10).0 + 1));
        assert!(room.wants_pass(Nanos(at(10).0 + 1)) && !room.is_tried());
        room.note_tries_all(Nanos(at(10).0 + 2));
        assert!(room.is_tried());
        room.note_fruitless(Nanos(at(10).0 + 2));
        assert!(!room.wants_pass(Nanos(at(10).0 + 3)) && room.is_tried());
    }
}
