//! Rests between records: where bulk has a share of the disk that durable writes may not take from it, the next record waits until bulk has
//! had as much for what the last one cost it.
//!
//! What a record costs bulk is the time from when it began to keep bulk waiting until the first transfer of bulk after it is done: its own
//! time, and the arm's way back. How long to rest for that is the admission's to say
//! ([`rest_after`](crate::admission::Admission::rest_after)). Whatever was staged meanwhile goes into one record, so the
//! fewer there are the more each brings. Nothing rests where there is no bulk, nor for longer than [`REST_MAX`].

use crate::admission::Admission;
use nearhead_disk::Nanos;

/// No durable write waits longer because of this, whatever the disk's records cost.
const REST_MAX: Nanos = Nanos::from_secs(1);
/// A stream with nothing under way for so long is over: whoever reads one call after the other asks for the next one sooner.
const STREAM_ENDS_AFTER: Nanos = Nanos::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct Rests {
    /// Since when the record in flight keeps bulk waiting, or did until it was durable.
    began: Option<Nanos>,
    is_durable: bool,
    until: Option<Nanos>,
    bulk_ended: Option<Nanos>,
}

impl Rests {
    /// A record is on its way, or keeps the disk free for itself.
    pub(super) fn begin(&mut self, now: Nanos) {
        if self.is_durable || self.began.is_none() {
            (self.began, self.is_durable) = (Some(now), false);
        }
        self.until = None;
    }

    /// It is durable; `has_bulk`: it kept some waiting.
    pub(super) fn end(&mut self, has_bulk: bool, admission: &dyn Admission) {
        let cost = self.began.filter(|_| has_bulk);
        // Until bulk goes on, which says what it cost.
        self.until =
            cost.filter(|_| admission.bulk_share_pct().is_some()).map(|began| began + REST_MAX);
        (self.began, self.is_durable) = (cost, true);
    }

    /// A transfer of bulk is done.
    pub(super) fn bulk_done(&mut self, now: Nanos, admission: &dyn Admission) {
        self.bulk_ended = Some(now);
        if let Some(began) = self.began.take_if(|_| self.is_durable) {
            let rest = admission.rest_after(now.since(began)).min(REST_MAX);
            self.until = Some(now + rest).filter(|_| rest > Nanos::ZERO);
        }
    }

    /// Until when the next record waits, if it does.
    pub(super) fn until(&self, now: Nanos, has_bulk: bool) -> Option<Nanos> {
        let goes_on = self.bulk_ended.map(|ended| ended + STREAM_ENDS_AFTER);
        let until = if has_bulk { self.until } else { self.until.min(goes_on) };
        until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Fifo, WithShare};

    const FIFO: Fifo = Fifo { piece_bytes: 1 << 20 };

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// A record from 100 ms on, durable at 104, and bulk again at 110.
    fn after_one(admission: &dyn Admission) -> Rests {
        let mut rests = Rests::default();
        rests.bulk_done(ms(90), admission);
        rests.begin(ms(100));
        rests.begin(ms(101));
        rests.end(true, admission);
        rests.bulk_done(ms(110), admission);
        rests
    }

    #[test]
    fn bulk_has_its_share_of_the_time_before_the_next_record() {
        let half = after_one(&WithShare::new(Box::new(FIFO), 50));
        assert_eq!(half.until(ms(110), true), Some(ms(120)));
        assert_eq!(half.until(ms(120), true), None);
        let most = after_one(&WithShare::new(Box::new(FIFO), 90));
        assert_eq!(most.until(ms(110), true), Some(ms(200)));
        let nearly_all = after_one(&WithShare::new(Box::new(FIFO), 99));
        assert_eq!(nearly_all.until(ms(110), true), Some(ms(110) + ms(990)));
        assert_eq!(after_one(&FIFO).until(ms(110), true), None, "nobody asked for a share");
    }

    #[test]
    fn no_record_waits_for_bulk_that_is_over() {
        let rests = after_one(&WithShare::new(Box::new(FIFO), 90));
        assert_eq!(rests.until(ms(115), false), Some(ms(130)));
        assert_eq!(rests.until(ms(130), false), None);
    }

    #[test]
    fn a_record_that_keeps_no_bulk_waiting_costs_it_nothing() {
        let share = WithShare::new(Box::new(FIFO), 90);
        let mut rests = after_one(&share);
        rests.begin(ms(300));
        rests.end(false, &share);
        rests.bulk_done(ms(400), &share);
        assert_eq!(rests.until(ms(400), true), None);
        // Bulk begins while the next one is on its way.
        rests.begin(ms(500));
        rests.end(true, &share);
        assert!(rests.until(ms(501), true).is_some(), "it is not known yet what it cost");
        rests.bulk_done(ms(502), &share);
        assert_eq!(rests.until(ms(502), true), Some(ms(520)));
    }
}
