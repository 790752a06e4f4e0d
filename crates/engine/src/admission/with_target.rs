//! `with_target`: bulk gives way until durable writes are as fast as their owner asked for.
//!
//! How much of bulk is on the disk at once, and in which pieces, is bandwidth on one side and the wait of a durable write on
//! the other. Nobody can say beforehand how much is right on a disk, beside a load: so it is tried. Of every so many durable writes one
//! may be slower than the target (a p99); if more are, bulk takes a step back at once, and after a while without any a step
//! forward, ever more rarely where that failed.
//!
//! It keeps true what the policy below it does: it only ever holds back more. It cannot make a disk faster than it is, and says how
//! often the target is missed all the same ([`TargetStatus`]).

use super::{Admission, Outstanding};
use nearhead_disk::{Class, Nanos};

/// So many durable writes are looked at together, of which one may be slower: one in a hundred, with some luck to spare.
const WINDOW: u32 = 128;
/// Windows in a row without a slow one before more bulk is tried: at first, and at most, where it failed again and again.
const PATIENCE_FIRST: u32 = 4;
const PATIENCE_MAX: u32 = 256;
/// No piece is smaller: below, the disk is busy with commands.
const PIECE_BYTES_MIN: u32 = 16 << 10;

/// Steps back from what the policy below does; with each a piece is half as large.
const STEP_MAX: u32 = 3;
/// So many pieces are on the disk at once then. With one alone a disk that does not keep writes in its memory loses a revolution between
/// two of them (a stream of writes keeps 11 % of its bandwidth on st3146855fc).
const PIECES: u64 = 2;

/// How a target is kept, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetStatus {
    /// What 99 of 100 durable writes are to take at most.
    pub p99: Nanos,
    /// Durable writes since the start, those that waited together counted once.
    pub counted: u64,
    /// Those of them that took longer.
    pub slower: u64,
    /// Steps that bulk gave way, and how many there are.
    pub step: u32,
    /// The last of them.
    pub step_max: u32,
    /// Largest piece of bulk now, in bytes.
    pub piece_bytes: u32,
}

/// A policy with a target.
#[derive(Clone, Debug)]
pub struct WithTarget {
    below: Box<dyn Admission>,
    p99: Nanos,
    step: u32,
    /// Of the window: durable writes, and those that were slow.
    counted: u32,
    slow: u32,
    /// Windows in a row without a slow one.
    quiet: u32,
    patience: u32,
    /// Bulk took a step forward, and nothing is known of it yet.
    is_trying: bool,
    counted_total: u64,
    slow_total: u64,
}

impl WithTarget {
    /// What `below` does, and less of bulk where more than one in a hundred durable writes takes longer than `p99`.
    pub fn new(below: Box<dyn Admission>, p99: Nanos) -> Self {
        Self {
            below,
            p99,
            step: 0,
            counted: 0,
            slow: 0,
            quiet: 0,
            patience: PATIENCE_FIRST,
            is_trying: false,
            counted_total: 0,
            slow_total: 0,
        }
    }

    fn bulk_bytes_max(&self) -> u64 {
        if self.step == 0 { u64::MAX } else { PIECES * u64::from(self.piece_bytes()) }
    }

    fn go_to(&mut self, step: u32, is_trying: bool) {
        (self.step, self.is_trying, self.quiet) = (step, is_trying, 0);
        self.start_window();
    }

    fn start_window(&mut self) {
        (self.counted, self.slow) = (0, 0);
    }

    fn step_back(&mut self) {
        if self.is_trying {
            self.patience = (2 * self.patience).min(PATIENCE_MAX);
        }
        self.go_to((self.step + 1).min(STEP_MAX), false);
    }

    fn end_window(&mut self) {
        self.quiet = if self.slow == 0 { self.quiet + 1 } else { 0 };
        self.start_window();
        if self.is_trying && self.quiet >= self.patience {
            // It holds.
            (self.is_trying, self.patience) = (false, PATIENCE_FIRST);
        }
        if self.step > 0 && self.quiet >= self.patience {
            self.go_to(self.step - 1, true);
        }
    }
}

impl Admission for WithTarget {
    fn admits(&self, class: Class, bytes: u64, waited: Nanos, outstanding: &Outstanding) -> bool {
        let bulk = [Class::Bulk, Class::Background];
        let in_flight: u64 = bulk.iter().map(|class| outstanding.bytes[*class as usize]).sum();
        let fits = in_flight == 0 || in_flight + bytes <= self.bulk_bytes_max();
        let passes = fits || !bulk.contains(&class);
        passes && self.below.admits(class, bytes, waited, outstanding)
    }

    fn durable_took(&mut self, took: Nanos) {
        let is_slow = took > self.p99;
        self.counted += 1;
        self.slow += u32::from(is_slow);
        self.counted_total += 1;
        self.slow_total += u64::from(is_slow);
        if self.slow > 1 {
            self.step_back();
        } else if self.counted >= WINDOW {
            self.end_window();
        }
    }

    fn rest_after(&self, cost: Nanos) -> Nanos {
        self.below.rest_after(cost)
    }

    fn bulk_share_pct(&self) -> Option<u8> {
        self.below.bulk_share_pct()
    }

    fn waiting_weighs_one_in(&self) -> Option<u32> {
        self.below.waiting_weighs_one_in()
    }

    /// A stream in small pieces comes from the drive's memory, one after the other, and would keep each record waiting for a revolution.
    fn memory_passes(&self) -> bool {
        self.step == 0 && self.below.memory_passes()
    }

    fn piece_bytes(&self) -> u32 {
        let whole = self.below.piece_bytes();
        (whole >> self.step).max(PIECE_BYTES_MIN.min(whole))
    }

    fn target(&self) -> Option<TargetStatus> {
        Some(TargetStatus {
            p99: self.p99,
            counted: self.counted_total,
            slower: self.slow_total,
            step: self.step,
            step_max: STEP_MAX,
            piece_bytes: self.piece_bytes(),
        })
    }

    fn boxed(&self) -> Box<dyn Admission> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::DurableFirst;
    use super::*;

    const BELOW: DurableFirst = DurableFirst {
        piece_bytes: 128 << 10,
        bulk_bytes_max: 256 << 10,
        bulk_wait_max: Nanos::from_millis(50),
        background_commands_max: 4,
    };
    const P99: Nanos = Nanos::from_millis(5);

    fn policy() -> WithTarget {
        WithTarget::new(Box::new(BELOW), P99)
    }

    /// So many durable writes, one in `slow_one_in` of which is slow.
    fn writes(policy: &mut WithTarget, count: u32, slow_one_in: u32) {
        for number in 1..=count {
            let is_slow = number % slow_one_in == 0;
            policy.durable_took(if is_slow { Nanos(P99.0 + 1) } else { P99 });
        }
    }

    /// Bytes of bulk that are admitted at once.
    fn admitted(policy: &WithTarget) -> u64 {
        let mut outstanding = Outstanding::default();
        let piece = u64::from(policy.piece_bytes());
        while policy.admits(Class::Bulk, piece, Nanos::ZERO, &outstanding) {
            outstanding.add(Class::Bulk, piece);
        }
        outstanding.bytes[Class::Bulk as usize]
    }

    #[test]
    fn nothing_changes_while_one_in_a_hundred_and_fifty_is_slow() {
        let mut policy = policy();
        writes(&mut policy, 6000, 150);
        assert_eq!((policy.target().unwrap().step, admitted(&policy)), (0, 256 << 10));
        assert_eq!(policy.target().unwrap().slower, 40);
    }

    #[test]
    fn bulk_gives_way_step_by_step_while_more_are_slow_and_always_gets_on() {
        let mut policy = policy();
        let mut before = admitted(&policy);
        for _ in 0..STEP_MAX {
            writes(&mut policy, 2, 1);
            let now = admitted(&policy);
            assert!(now < before && now > 0, "{now} after {before}");
            before = now;
        }
        writes(&mut policy, 1000, 1);
        assert_eq!((policy.piece_bytes(), admitted(&policy)), (16 << 10, 32 << 10));
        let large = policy.admits(Class::Bulk, 1 << 20, Nanos::ZERO, &Outstanding::default());
        assert!(large, "what was cut before passes alone");
        let mut full = Outstanding::default();
        full.add(Class::Bulk, 32 << 10);
        for class in [Class::Durable, Class::Foreground] {
            assert!(policy.admits(class, 1 << 20, Nanos::ZERO, &full), "{class:?} is not bulk");
        }
    }

    #[test]
    fn bulk_comes_back_once_none_is_slow() {
        let mut policy = policy();
        writes(&mut policy, 100, 1);
        writes(&mut policy, WINDOW * PATIENCE_FIRST * (STEP_MAX + 1), u32::MAX);
        assert_eq!(policy.target().unwrap().step, 0);
    }

    #[test]
    fn what_fails_again_and_again_is_tried_ever_more_rarely() {
        let mut policy = policy();
        writes(&mut policy, 2, 1);
        let mut tried = 0;
        for _ in 0..40_000 {
            // All are slow at the first step, none at the second.
            let took = if policy.step == 0 { Nanos(P99.0 + 1) } else { P99 };
            tried += u32::from(policy.step == 0);
            policy.durable_took(took);
        }
        assert!((4..=20).contains(&tried), "{tried} slow ones of 40,000");
    }
}
