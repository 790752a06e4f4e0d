//! `soonest_first`: on a drive of which it is known where its tracks are, the queue is kept here. Small commands go one at a
//! time, the one that the arm can begin with soonest, so that it is always known when the arm is free and a record goes where it
//! will be.
//!
//! Where many wait the drive chooses among them as it likes: it knows better where its arm is.
//!
//! Bulk that came later than a small one that waits here goes after it, as it would in the drive's own queue. It waits no longer
//! than it does for records.
//!
//! The members of an array move each on its own, so there small commands go as they come.
//!
//! Nothing else goes while a record waits for the arm. Bulk, cleaning, and a drive of which nothing is known (or whose predictions
//! fail): as with [`DurableFirst`].

use super::{Admission, DurableFirst, Outstanding};
use nearhead_disk::{Class, Nanos};

/// The soonest of the small ones.
#[derive(Clone, Copy, Debug)]
pub struct SoonestFirst {
    /// What holds for everything else.
    pub others: DurableFirst,
    /// Who waited longer goes first if what the other would take less is not a so-manieth of that: so nobody waits forever, and
    /// the order is still by the arm where all wait long.
    pub waiting_weighs_one_in: u32,
    /// With more than so many the drive chooses: it knows better where its arm is.
    pub queued_max: u32,
}

impl Admission for SoonestFirst {
    fn admits(&self, class: Class, bytes: u64, waited: Nanos, outstanding: &Outstanding) -> bool {
        let others = || self.others.admits(class, bytes, waited, outstanding);
        if !outstanding.is_drive_known || class == Class::Durable {
            return others();
        }
        if outstanding.record_waits && waited < self.others.bulk_wait_max {
            return false;
        }
        if outstanding.arms > 1 {
            return others();
        }
        let small = [Class::Durable, Class::Foreground];
        let is_free = small.iter().all(|class| outstanding.commands[*class as usize] == 0);
        let queued =
            outstanding.foreground_waiting + outstanding.commands[Class::Foreground as usize];
        let passes = is_free || queued > self.queued_max;
        if class == Class::Foreground {
            return passes;
        }
        // Else bulk would leave between each two of them, and take the arm to where it goes on and back.
        let is_behind = outstanding.foreground_waiting > 0
            && outstanding.foreground_waited > outstanding.issued_ago;
        let is_early = outstanding.issued_ago < self.others.bulk_wait_max;
        let waits = class == Class::Bulk && is_behind && is_early;
        !waits && others()
    }

    fn waiting_weighs_one_in(&self) -> Option<u32> {
        Some(self.waiting_weighs_one_in)
    }

    fn piece_bytes(&self) -> u32 {
        self.others.piece_bytes()
    }

    fn boxed(&self) -> Box<dyn Admission> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: SoonestFirst = SoonestFirst {
        others: DurableFirst {
            piece_bytes: 128 << 10,
            bulk_bytes_max: 256 << 10,
            bulk_wait_max: Nanos::from_millis(50),
            background_commands_max: 4,
        },
        waiting_weighs_one_in: 32,
        queued_max: 8,
    };

    fn admits(class: Class, outstanding: &Outstanding) -> bool {
        POLICY.admits(class, 4096, Nanos::ZERO, outstanding)
    }

    #[test]
    fn on_a_drive_that_is_known_small_commands_go_one_at_a_time() {
        let mut outstanding = Outstanding { is_drive_known: true, ..Outstanding::default() };
        assert!(admits(Class::Foreground, &outstanding));
        outstanding.add(Class::Bulk, 128 << 10);
        assert!(admits(Class::Foreground, &outstanding), "beside bulk");
        for class in [Class::Foreground, Class::Durable] {
            let mut outstanding = outstanding;
            outstanding.add(class, 4096);
            assert!(!admits(Class::Foreground, &outstanding), "{class:?}");
            assert!(admits(Class::Durable, &outstanding), "a durable write passes");
        }
    }

    #[test]
    fn bulk_goes_after_small_ones_that_came_before_it_but_waits_no_longer_than_a_bound() {
        let mut outstanding = Outstanding { is_drive_known: true, ..Outstanding::default() };
        outstanding.add(Class::Foreground, 4096);
        outstanding.foreground_waiting = 2;
        outstanding.foreground_waited = Nanos::from_millis(60);
        let admits = |class, issued_ago_ms, outstanding: &Outstanding| {
            let issued_ago = Nanos::from_millis(issued_ago_ms);
            let outstanding = Outstanding { issued_ago, ..*outstanding };
            // Time behind small ones is not time that it gave way to durable writes.
            POLICY.admits(class, 128 << 10, Nanos::ZERO, &outstanding)
        };
        assert!(!admits(Class::Bulk, 49, &outstanding));
        assert!(admits(Class::Bulk, 50, &outstanding));
        outstanding.foreground_waited = Nanos::from_millis(10);
        assert!(admits(Class::Bulk, 11, &outstanding), "it came before them");
        outstanding.foreground_waited = Nanos::from_millis(12);
        assert!(admits(Class::Durable, 0, &outstanding));
        outstanding.is_drive_known = false;
        assert!(admits(Class::Bulk, 11, &outstanding), "a drive of which nothing is known");
    }

    #[test]
    fn where_many_wait_the_drive_chooses_among_them() {
        let mut outstanding = Outstanding { is_drive_known: true, ..Outstanding::default() };
        outstanding.add(Class::Foreground, 4096);
        outstanding.foreground_waiting = 7;
        assert!(!admits(Class::Foreground, &outstanding));
        outstanding.foreground_waiting = 8;
        assert!(admits(Class::Foreground, &outstanding));
    }

    #[test]
    fn nothing_goes_before_a_record_that_waits_for_the_arm_but_what_waited_long() {
        let outstanding =
            Outstanding { is_drive_known: true, record_waits: true, ..Outstanding::default() };
        for class in [Class::Foreground, Class::Bulk, Class::Background] {
            assert!(!admits(class, &outstanding), "{class:?}");
            assert!(POLICY.admits(class, 4096, Nanos::from_millis(50), &outstanding), "{class:?}");
        }
        assert!(admits(Class::Durable, &outstanding));
    }

    #[test]
    fn a_drive_of_which_nothing_is_known_has_its_queue_for_itself() {
        let mut outstanding = Outstanding { record_waits: true, ..Outstanding::default() };
        for _ in 0..20 {
            assert!(admits(Class::Foreground, &outstanding));
            outstanding.add(Class::Foreground, 4096);
        }
    }
}
