//! Waking the drives of a chain in time: those of the device that the tail goes to next, before it goes there.
//!
//! The sides of mirrors rest by themselves while nothing is written to them ([`Disk::let_rest`]). Clients must not wait until one
//! turns again because the tail came to it, so the device is told some time ahead ([`Disk::expect_writes`]): once the logs that are
//! left on the tail's device last no longer than [`LEAD`] at the fastest that they were filled so far. It never keeps anything from
//! being written: who writes faster than ever before waits for a drive once.

use crate::Lanes;
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::Engine;

/// So long before the tail comes a device is woken, as it is reckoned: twice what a drive takes at most from standby to ready (15 s;
/// Seagate Constellation ES.2 Serial ATA product manual, rev. H, 2.7).
const LEAD: Nanos = Nanos::from_secs(30);
/// Over so long it is measured how fast logs are filled.
const MEASURED: Nanos = Nanos::from_secs(10);

/// How fast the tail moves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resting {
    /// When it was measured last, and how much was left then.
    measured: Option<(Nanos, u64)>,
    /// The most that was filled in a second.
    bytes_per_s_max: u64,
}

impl Resting {
    /// Looks where the tail goes, and wakes who is there in time.
    pub(crate) fn watch<D: Disk>(&mut self, engine: &Engine, lanes: &mut Lanes<D>, now: Nanos) {
        let Some(next) = engine.tail_moves() else { return };
        self.measure(next.left_bytes, now);
        if !self.is_near(next.left_bytes) {
            return;
        }
        if let Some(disk) = lanes.at_mut(next.to) {
            disk.expect_writes(now);
        }
    }

    fn measure(&mut self, left_bytes: u64, now: Nanos) {
        let Some((at, before)) = self.measured else {
            self.measured = Some((now, left_bytes));
            return;
        };
        let span = now.since(at);
        if span < MEASURED {
            return;
        }
        // More than before: it went on to another device, or something was freed.
        let filled_bytes = before.saturating_sub(left_bytes) as f64;
        self.bytes_per_s_max = self.bytes_per_s_max.max((filled_bytes / span.as_secs_f64()) as u64);
        self.measured = Some((now, left_bytes));
    }

    fn is_near(self, left_bytes: u64) -> bool {
        let ahead = self.bytes_per_s_max as f64 * LEAD.as_secs_f64();
        left_bytes as f64 <= ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_woken_when_what_is_left_lasts_half_a_minute_at_the_fastest_seen() {
        let mut resting = Resting::default();
        let mut left: u64 = 100_000_000_000;
        let mut near_at = None;
        // 100 MB/s for a while, then a tenth of it: the fastest counts.
        for second in 0..2000 {
            resting.measure(left, Nanos::from_secs(second));
            if resting.is_near(left) {
                near_at.get_or_insert(left);
            }
            left = left.saturating_sub(if second < 500 { 100_000_000 } else { 10_000_000 });
        }
        assert_eq!(near_at, None, "35 GB are left");
        while !resting.is_near(left) {
            left -= 10_000_000;
        }
        assert_eq!(left, 3_000_000_000);
    }

    #[test]
    fn what_is_freed_or_begun_elsewhere_is_no_speed() {
        let mut resting = Resting::default();
        for (second, left) in [(0, 1000), (10, 900), (20, 90_000), (30, 89_900)] {
            resting.measure(left, Nanos::from_secs(second));
        }
        assert_eq!(resting.bytes_per_s_max, 10);
        assert!(resting.is_near(300) && !resting.is_near(301));
        assert!(Resting::default().is_near(0), "the tail goes on with the next record");
    }
}
