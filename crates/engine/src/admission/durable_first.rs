//! `durable_first`: bulk transfers are cut into pieces and only a stated number of their bytes is
//! ever on the disk, so that a durable write never waits behind more than that.
//!
//! The bound is what buys the latency: with no scheduler and no privilege, pieces of 128 KiB and
//! two outstanding brought a log writer from 31 ms to 0.75 ms beside a bulk stream that kept 95 % of
//! its bandwidth (measured on Linux 6.18; the WAL contention paper reaches the same end by process
//! priority).

use super::{Admission, Outstanding, Pace};
use nearhead_disk::{Class, Nanos};

/// Bulk is bounded; everything somebody waits for passes.
#[derive(Clone, Copy, Debug)]
pub struct DurableFirst {
    /// Largest piece of a bulk transfer, in bytes.
    pub piece_bytes: u32,
    /// Most bulk bytes on the disk at once; one piece always passes.
    pub bulk_bytes_max: u64,
    /// A bulk command that has waited so long goes beside durable writes: where those follow each other without a pause it
    /// would wait until there are no more.
    pub bulk_wait_max: Nanos,
    /// Most background commands on the disk at once while cleaning is urgent or nobody else is there;
    /// otherwise it is one.
    pub background_commands_max: u32,
}

impl Admission for DurableFirst {
    fn admits(&self, class: Class, bytes: u64, waited: Nanos, outstanding: &Outstanding) -> bool {
        let in_flight =
            outstanding.bytes[Class::Bulk as usize] + outstanding.bytes[Class::Background as usize];
        let fits = in_flight == 0 || in_flight + bytes <= self.bulk_bytes_max;
        // A disk that picks the nearest command next would go on with a sequential stream for as
        // long as it is fed: nothing large follows a durable write before that is done. Other arms would stand
        // still meanwhile, and once it is done the slowest keeps all waiting: they get half of what may be on the disk. With all of it
        // a write waits a millisecond longer still on drives that choose (figure 3a with a queue of 32, changed builds).
        let has_more_arms = outstanding.arms > 1;
        let leaves_room = outstanding.beside_durable_bytes + bytes <= self.bulk_bytes_max / 2;
        let durable = outstanding.commands[Class::Durable as usize] > 0;
        // Nor while one waits for the disk to be done with everything.
        let record_waits = outstanding.record_waits && waited < self.bulk_wait_max;
        let durable_goes_first = record_waits || (durable && !(has_more_arms && leaves_room));
        let has_room = fits && !durable_goes_first;
        let in_background = outstanding.commands[Class::Background as usize];
        match (class, outstanding.pace) {
            (Class::Durable | Class::Foreground, _) => true,
            (Class::Bulk, _) => has_room || (fits && waited >= self.bulk_wait_max),
            (Class::Background, Pace::Polite) => has_room && in_flight == 0,
            (Class::Background, Pace::Steady) => has_room && in_background == 0,
            // Small writes that find no log go home one by one: whatever delays them less than that
            // is worth it.
            (Class::Background, Pace::Urgent | Pace::Alone) => {
                fits && in_background < self.background_commands_max
            }
        }
    }

    fn piece_bytes(&self) -> u32 {
        self.piece_bytes
    }

    fn boxed(&self) -> Box<dyn Admission> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: DurableFirst = DurableFirst {
        piece_bytes: 128 << 10,
        bulk_bytes_max: 256 << 10,
        bulk_wait_max: Nanos::from_millis(50),
        background_commands_max: 4,
    };

    #[test]
    fn beside_a_durable_write_the_other_arms_of_an_array_get_half_of_what_may_be_on_the_disk() {
        let mut outstanding = Outstanding { arms: 4, ..Outstanding::default() };
        outstanding.add(Class::Durable, 8192);
        let mut passed = 0;
        while POLICY.admits(Class::Bulk, 128 << 10, Nanos::ZERO, &outstanding) {
            outstanding.add(Class::Bulk, 128 << 10);
            // The members that are not writing the record are soon done.
            outstanding.remove(Class::Bulk, 128 << 10);
            passed += 128 << 10;
        }
        assert_eq!(passed, POLICY.bulk_bytes_max / 2);
        outstanding.remove(Class::Durable, 8192);
        outstanding.add(Class::Durable, 8192);
        assert!(POLICY.admits(Class::Bulk, 128 << 10, Nanos::ZERO, &outstanding), "the next one");
        outstanding.arms = 1;
        assert!(!POLICY.admits(Class::Bulk, 128 << 10, Nanos::ZERO, &outstanding), "on one arm");
    }

    #[test]
    fn nothing_large_leaves_while_a_record_waits_for_the_disk_unless_it_has_waited_longer() {
        let outstanding = Outstanding { record_waits: true, ..Outstanding::default() };
        for class in [Class::Bulk, Class::Background] {
            assert!(!POLICY.admits(class, 4096, Nanos::ZERO, &outstanding), "{class:?}");
        }
        assert!(POLICY.admits(Class::Foreground, 4096, Nanos::ZERO, &outstanding));
        assert!(POLICY.admits(Class::Bulk, 4096, POLICY.bulk_wait_max, &outstanding));
    }

    #[test]
    fn no_more_than_the_stated_bulk_bytes_are_ever_admitted() {
        let policy = POLICY;
        let mut outstanding = Outstanding::default();
        let mut admitted = 0;
        while policy.admits(Class::Bulk, 128 << 10, Nanos::ZERO, &outstanding) {
            outstanding.add(Class::Bulk, 128 << 10);
            admitted += 128 << 10;
        }
        assert_eq!(admitted, policy.bulk_bytes_max);
        assert!(
            policy.admits(Class::Durable, 4096, Nanos::ZERO, &outstanding),
            "a durable write passes"
        );
    }

    #[test]
    fn nothing_large_follows_a_durable_write_before_it_is_done() {
        let policy = POLICY;
        let mut outstanding = Outstanding::default();
        outstanding.add(Class::Durable, 81_920);
        assert!(!policy.admits(Class::Bulk, 4096, Nanos::ZERO, &outstanding));
        assert!(!policy.admits(Class::Background, 4096, Nanos::ZERO, &outstanding));
        assert!(policy.admits(Class::Foreground, 4096, Nanos::ZERO, &outstanding));
        outstanding.remove(Class::Durable, 81_920);
        assert!(policy.admits(Class::Bulk, 4096, Nanos::ZERO, &outstanding));
    }

    #[test]
    fn durable_writes_without_a_pause_do_not_keep_bulk_waiting_forever() {
        let policy = POLICY;
        let mut outstanding = Outstanding::default();
        outstanding.add(Class::Durable, 4096);
        let admits = |waited_ms, outstanding: &Outstanding| {
            policy.admits(Class::Bulk, 128 << 10, Nanos::from_millis(waited_ms), outstanding)
        };
        assert!(!admits(49, &outstanding) && admits(50, &outstanding));
        outstanding.add(Class::Bulk, 256 << 10);
        assert!(!admits(5_000, &outstanding), "no more of it than ever");
    }

    #[test]
    fn urgent_cleaning_goes_beside_durable_writes_up_to_its_bound() {
        let policy = POLICY;
        let mut outstanding = Outstanding { pace: Pace::Urgent, ..Outstanding::default() };
        outstanding.add(Class::Durable, 4096);
        for _ in 0..4 {
            assert!(policy.admits(Class::Background, 4096, Nanos::ZERO, &outstanding));
            outstanding.add(Class::Background, 4096);
        }
        assert!(!policy.admits(Class::Background, 4096, Nanos::ZERO, &outstanding));
    }

    #[test]
    fn cleaning_that_can_wait_leaves_a_bulk_stream_alone() {
        let policy = POLICY;
        let mut outstanding = Outstanding { pace: Pace::Polite, ..Outstanding::default() };
        assert!(policy.admits(Class::Background, 4096, Nanos::ZERO, &outstanding));
        outstanding.add(Class::Bulk, 128 << 10);
        assert!(!policy.admits(Class::Background, 4096, Nanos::ZERO, &outstanding));
        outstanding.pace = Pace::Steady;
        assert!(policy.admits(Class::Background, 4096, Nanos::ZERO, &outstanding));
    }

    #[test]
    fn a_piece_larger_than_the_bound_still_passes_alone() {
        let policy = DurableFirst { piece_bytes: 1 << 20, bulk_bytes_max: 4096, ..POLICY };
        assert!(policy.admits(Class::Bulk, 1 << 20, Nanos::ZERO, &Outstanding::default()));
    }
}
