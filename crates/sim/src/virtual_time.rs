//! Virtual time: the clock jumps from one event to the next.
//!
//! [`VirtualTime`] lets any number of workloads talk to one service. At each instant it hands over
//! what the workloads want to do, drives the service, and gives the replies back; then it jumps to
//! the earliest of the service's wake-up and the workloads' next wishes. Nothing here looks at a
//! real clock, so a run depends on its inputs only, which [`VirtualTime::digest`] makes checkable.
//! It never waits for ever: a service that owes replies but asks for no wake-up, or one that keeps
//! asking to be driven at the same instant, ends the run with an error.

use crate::workload::{Issue, Workload};
use nearhead_disk::Nanos;
use nearhead_service::{Reply, Request, RequestId, Service};
use std::fmt;

/// The bits of a request id below the workload's index.
const TAG_BITS: u32 = 56;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// Rounds at one instant after which time is taken to stand still.
const ROUNDS_MAX: u32 = 1 << 20;

/// Rounds of a run after which whoever may stop it is asked.
const ROUNDS_UNTIL_ASKED: u32 = 1 << 10;

/// Why a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every workload has finished and every request was replied to.
    Finished,
    /// The time given is over; requests may be outstanding.
    TimeUp,
    /// Whoever may stop it did so; requests may be outstanding.
    Stopped,
}

/// The service does not keep its side of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// It owes replies, and says that nothing will happen.
    Silent {
        /// When.
        now: Nanos,
        /// How many replies it owes.
        outstanding: u64,
    },
    /// It wants to be driven again and again, and time stands still.
    Spinning {
        /// When.
        now: Nanos,
        /// How many replies it owes.
        outstanding: u64,
    },
    /// It replied to a request that was never made, or a second time.
    UnknownReply {
        /// When.
        now: Nanos,
        /// The reply's id.
        id: RequestId,
    },
    /// Time was up before everything outstanding was replied to.
    NotDrained {
        /// When.
        now: Nanos,
        /// How many replies it owes.
        outstanding: u64,
    },
}

impl fmt::Display for Stuck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { now, outstanding } => write!(
                out,
                "at {now} the service owes {outstanding} replies: expected a time to wake it, found none"
            ),
            Self::Spinning { now, outstanding } => write!(
                out,
                "at {now}, with {outstanding} replies owed: expected time to pass, \
                 found {ROUNDS_MAX} rounds at this instant"
            ),
            Self::UnknownReply { now, id } => {
                write!(out, "at {now}: expected a reply to a request that was made, found {id:?}")
            }
            Self::NotDrained { now, outstanding } => write!(
                out,
                "at {now}: expected every request to be replied to by then, found {outstanding} owed"
            ),
        }
    }
}

impl std::error::Error for Stuck {}

/// The clock of one service.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    now: Nanos,
    outstanding: u64,
    replies: u64,
    digest: u64,
}

impl Default for VirtualTime {
    fn default() -> Self {
        Self::starting_at(Nanos::ZERO)
    }
}

impl VirtualTime {
    /// A clock that shows `now`.
    pub const fn starting_at(now: Nanos) -> Self {
        Self { now, outstanding: 0, replies: 0, digest: 0 }
    }

    /// The time.
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Replies so far.
    pub const fn replies(&self) -> u64 {
        self.replies
    }

    /// A hash of every reply so far: its request, its instant, and whether it failed, in order.
    /// Two runs with the same inputs must show the same digest.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Lets `workloads` work on `service` until all have finished or `until` has passed.
    ///
    /// A workload must keep its place in `workloads` while requests of it are outstanding. The
    /// service may have work of its own left when this returns.
    pub fn run<S: Service + ?Sized>(
        &mut self,
        service: &mut S,
        workloads: &mut [&mut dyn Workload],
        until: Nanos,
    ) -> Result<Ended, Stuck> {
        self.run_while(service, workloads, until, &mut || true)
    }

    /// As [`VirtualTime::run`], for as long as `goes_on` says so. It is asked now and then, a thousand times a second or so, and what it
    /// answers changes nothing but the end.
    pub fn run_while<S: Service + ?Sized>(
        &mut self,
        service: &mut S,
        workloads: &mut [&mut dyn Workload],
        until: Nanos,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Ended, Stuck> {
        let (mut rounds, mut rounds_until_asked) = (0, 0);
        loop {
            if rounds_until_asked == 0 {
                if !goes_on() {
                    return Ok(Ended::Stopped);
                }
                rounds_until_asked = ROUNDS_UNTIL_ASKED;
            }
            rounds_until_asked -= 1;
            self.issue(service, workloads);
            service.drive(self.now);
            while let Some(reply) = service.poll_reply() {
                self.deliver(reply, workloads)?;
            }
            if self.outstanding == 0 && workloads.iter().all(|workload| workload.is_finished()) {
                return Ok(Ended::Finished);
            }
            let wishes = workloads.iter().filter_map(|workload| workload.next_at());
            match wishes.chain(service.wake_at()).min() {
                None => return Err(self.silent()),
                Some(next) if next > until => {
                    self.now = until.max(self.now);
                    return Ok(Ended::TimeUp);
                }
                Some(next) if next > self.now => (self.now, rounds) = (next, 0),
                Some(_) => rounds += 1,
            }
            if rounds >= ROUNDS_MAX {
                return Err(Stuck::Spinning { now: self.now, outstanding: self.outstanding });
            }
        }
    }

    /// Lets time pass until `until`, without requests: the service does what it does when idle.
    pub fn advance_to<S: Service + ?Sized>(
        &mut self,
        service: &mut S,
        until: Nanos,
    ) -> Result<(), Stuck> {
        self.advance_while(service, until, &mut || true).map(|_| ())
    }

    /// As [`VirtualTime::advance_to`], for as long as `goes_on` says so, which is asked as in [`VirtualTime::run_while`].
    pub fn advance_while<S: Service + ?Sized>(
        &mut self,
        service: &mut S,
        until: Nanos,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Ended, Stuck> {
        let (mut rounds, mut driven) = (0, 0_u32);
        while let Some(next) = service.wake_at().filter(|next| *next <= until) {
            driven = driven.wrapping_add(1);
            if driven.is_multiple_of(ROUNDS_UNTIL_ASKED) && !goes_on() {
                return Ok(Ended::Stopped);
            }
            rounds = if next > self.now { 0 } else { rounds + 1 };
            if rounds >= ROUNDS_MAX {
                return Err(Stuck::Spinning { now: self.now, outstanding: self.outstanding });
            }
            self.now = next.max(self.now);
            service.drive(self.now);
        }
        self.now = until.max(self.now);
        Ok(Ended::TimeUp)
    }

    /// Tells `workloads` to stop and waits until all that is outstanding was replied to, at most
    /// for the span `limit`.
    pub fn drain<S: Service + ?Sized>(
        &mut self,
        service: &mut S,
        workloads: &mut [&mut dyn Workload],
        limit: Nanos,
    ) -> Result<(), Stuck> {
        for workload in workloads.iter_mut() {
            workload.stop();
        }
        match self.run(service, workloads, self.now + limit)? {
            Ended::Finished => Ok(()),
            Ended::TimeUp | Ended::Stopped => {
                Err(Stuck::NotDrained { now: self.now, outstanding: self.outstanding })
            }
        }
    }

    /// Shuts `service` down gracefully and waits until it has, at most for the span `limit`.
    pub fn shut_down<S: Service + ?Sized>(
        &mut self,
        service: &mut S,
        limit: Nanos,
    ) -> Result<(), Stuck> {
        let until = self.now + limit;
        service.begin_shutdown(self.now);
        let mut rounds = 0;
        loop {
            service.drive(self.now);
            if service.is_shut_down() {
                return Ok(());
            }
            rounds += 1;
            match service.wake_at() {
                None => return Err(self.silent()),
                Some(next) if next > until => {
                    let (now, outstanding) = (self.now, self.outstanding);
                    return Err(Stuck::NotDrained { now, outstanding });
                }
                Some(next) if next > self.now => (self.now, rounds) = (next, 0),
                Some(_) if rounds < ROUNDS_MAX => {}
                Some(_) => {
                    let (now, outstanding) = (self.now, self.outstanding);
                    return Err(Stuck::Spinning { now, outstanding });
                }
            }
        }
    }

    fn silent(&self) -> Stuck {
        Stuck::Silent { now: self.now, outstanding: self.outstanding }
    }

    fn issue<S: Service + ?Sized>(&mut self, service: &mut S, workloads: &mut [&mut dyn Workload]) {
        for (index, workload) in workloads.iter_mut().enumerate() {
            while let Some(Issue { tag, operation, .. }) = workload.poll_issue(self.now) {
                debug_assert!(tag <= TAG_MASK, "a workload's tag has 56 bits");
                let id = RequestId((index as u64) << TAG_BITS | tag & TAG_MASK);
                self.outstanding += 1;
                service.submit(Request { id, operation }, self.now);
            }
        }
    }

    fn deliver(&mut self, reply: Reply, workloads: &mut [&mut dyn Workload]) -> Result<(), Stuck> {
        let unknown = Stuck::UnknownReply { now: self.now, id: reply.id };
        let index = (reply.id.0 >> TAG_BITS) as usize;
        let (Some(workload), Some(left)) =
            (workloads.get_mut(index), self.outstanding.checked_sub(1))
        else {
            return Err(unknown);
        };
        self.outstanding = left;
        self.replies += 1;
        for word in [reply.id.0, self.now.0, u64::from(reply.result.is_err())] {
            // One round of FNV-1a over 64-bit words, with the high bits folded back in.
            let mixed = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01B3);
            self.digest = mixed ^ (mixed >> 29);
        }
        if workload.on_reply(reply.id.0 & TAG_MASK, reply.result, self.now) {
            Ok(())
        } else {
            Err(unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed_latency::FixedLatency;
    use crate::workload::{Content, RandomMix, RandomMixOptions};
    use nearhead_service::{Extent, ServiceInfo, Wake};

    fn mix(seed: u64, requests_max: u64) -> RandomMix {
        RandomMix::new(RandomMixOptions {
            span: 0..1 << 30,
            request_bytes: 4096,
            reads: 0.5,
            fua: true,
            outstanding_max: 4,
            requests_max: Some(requests_max),
            content: Content::Phantom,
            seed,
        })
    }

    #[test]
    fn time_jumps_by_exactly_what_the_service_takes() {
        let mut service = FixedLatency::serial(Nanos::from_millis(5));
        let mut workload = mix(1, 100);
        let mut time = VirtualTime::default();
        assert_eq!(time.run(&mut service, &mut [&mut workload], Nanos::MAX), Ok(Ended::Finished));
        assert_eq!((time.now(), time.replies()), (Nanos::from_millis(500), 100));
    }

    #[test]
    fn the_same_run_has_the_same_digest_and_another_seed_another() {
        let digest = |seed| {
            let mut service = FixedLatency::serial(Nanos::from_micros(100 + seed));
            let mut time = VirtualTime::default();
            let (mut left, mut right) = (mix(seed, 50), mix(seed + 1, 70));
            time.run(&mut service, &mut [&mut left, &mut right], Nanos::MAX).unwrap();
            assert_eq!(time.replies(), 120);
            time.digest()
        };
        assert_eq!(digest(1), digest(1));
        assert_ne!(digest(1), digest(2));
    }

    #[test]
    fn a_run_can_be_interrupted_and_gone_on_with() {
        let whole = {
            let mut time = VirtualTime::default();
            let mut service = FixedLatency::serial(Nanos::from_millis(3));
            time.run(&mut service, &mut [&mut mix(7, 60)], Nanos::MAX).unwrap();
            time
        };
        let mut time = VirtualTime::default();
        let mut service = FixedLatency::serial(Nanos::from_millis(3));
        let mut workload = mix(7, 60);
        let mut stops = 0;
        while time
            .run(&mut service, &mut [&mut workload], time.now() + Nanos::from_millis(10))
            .unwrap()
            == Ended::TimeUp
        {
            stops += 1;
        }
        assert_eq!((time.now(), time.digest()), (whole.now(), whole.digest()));
        assert!(stops > 10, "{stops}");
    }

    #[test]
    fn a_run_is_stopped_by_whoever_may_and_not_changed_by_being_asked() {
        let run = |asked_max: u32| {
            let mut time = VirtualTime::default();
            let mut service = FixedLatency::serial(Nanos::from_millis(3));
            let mut asked = 0;
            let mut goes_on = || {
                asked += 1;
                asked <= asked_max
            };
            let workloads: &mut [&mut dyn Workload] = &mut [&mut mix(7, 60_000)];
            let ended = time.run_while(&mut service, workloads, Nanos::MAX, &mut goes_on);
            (ended.unwrap(), time.replies(), time.digest())
        };
        let (ended, replies, digest) = run(u32::MAX);
        assert_eq!((ended, replies), (Ended::Finished, 60_000));
        assert_eq!(digest, run(1_000_000).2);
        let (ended, replies, _) = run(3);
        assert!(ended == Ended::Stopped && (1000..10_000).contains(&replies), "{replies}");
    }

    #[test]
    fn draining_leaves_nothing_outstanding_and_shutting_down_ends() {
        let mut service = FixedLatency::serial(Nanos::from_millis(3));
        let mut workload = mix(7, u64::MAX);
        let mut time = VirtualTime::default();
        let until = Nanos::from_millis(100);
        assert_eq!(time.run(&mut service, &mut [&mut workload], until), Ok(Ended::TimeUp));
        let error = time.drain(&mut service, &mut [&mut workload], Nanos(1)).unwrap_err();
        assert!(matches!(error, Stuck::NotDrained { outstanding: 4, .. }), "{error}");
        time.drain(&mut service, &mut [&mut workload], Nanos::from_secs(1)).unwrap();
        time.shut_down(&mut service, Nanos::from_secs(1)).unwrap();
    }

    /// Breaks the interface in one chosen way.
    struct Broken {
        replies: Vec<RequestId>,
        wake_at: Option<Nanos>,
        ticks: bool,
    }

    impl Service for Broken {
        fn info(&self) -> ServiceInfo {
            FixedLatency::serial(Nanos(1)).info()
        }
        fn submit(&mut self, _: Request, _: Nanos) {}
        fn drive(&mut self, now: Nanos) {
            // It has something to do every second, for ever.
            if let Some(at) = self.wake_at.as_mut().filter(|at| self.ticks && **at <= now) {
                *at += Nanos::from_secs(1);
            }
        }
        fn poll_reply(&mut self) -> Option<Reply> {
            Some(Reply { id: self.replies.pop()?, result: Ok(Vec::new()) })
        }
        fn wake(&self) -> Wake<'_> {
            Wake::precisely(self.wake_at)
        }
        fn block_status(&self, _: u64, len: u64, _: usize) -> Vec<Extent> {
            vec![Extent::data(len)]
        }
        fn losses(&self) -> u64 {
            0
        }
        fn begin_shutdown(&mut self, _: Nanos) {}
        fn is_shut_down(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_service_that_is_never_done_can_be_left_alone() {
        let advance = |asked_max: u32| {
            let mut service =
                Broken { replies: Vec::new(), wake_at: Some(Nanos::ZERO), ticks: true };
            let mut time = VirtualTime::default();
            let mut asked = 0;
            let mut goes_on = || {
                asked += 1;
                asked <= asked_max
            };
            let until = Nanos::from_secs(10_000);
            let ended = time.advance_while(&mut service, until, &mut goes_on).unwrap();
            (ended, time.now())
        };
        assert_eq!(advance(u32::MAX), (Ended::TimeUp, Nanos::from_secs(10_000)));
        let (ended, now) = advance(2);
        assert!(ended == Ended::Stopped && now < Nanos::from_secs(4000), "{now}");
    }

    fn run_on(replies: &[u64], wake_at: Option<Nanos>) -> Stuck {
        let replies = replies.iter().copied().map(RequestId).collect();
        let mut service = Broken { replies, wake_at, ticks: false };
        let mut time = VirtualTime::default();
        time.run(&mut service, &mut [&mut mix(1, 10)], Nanos::MAX).unwrap_err()
    }

    #[test]
    fn a_service_that_breaks_the_interface_is_found_out() {
        let now = Nanos::ZERO;
        assert_eq!(run_on(&[], None), Stuck::Silent { now, outstanding: 4 });
        assert_eq!(run_on(&[], Some(now)), Stuck::Spinning { now, outstanding: 4 });
        assert!(matches!(run_on(&[1 << 60], None), Stuck::UnknownReply { .. }), "nobody's");
        assert!(matches!(run_on(&[77], None), Stuck::UnknownReply { .. }), "never made");
        assert!(matches!(run_on(&[0, 0], None), Stuck::UnknownReply { .. }), "made once");
    }
}
