//! Waiting for sockets and for the clock, the clock to a few microseconds.
//!
//! A thread that sleeps is woken some tens of microseconds late, more on a busy or virtual
//! machine. For an emulated disk that error would be part of every latency it shows, so the last
//! stretch before a precise deadline is spent looking instead of sleeping; everything that arrives
//! meanwhile is served as usual. Only there is the processor ever offered to others: whoever does that on a
//! busy machine may get it back a tick of the scheduler later.
//!
//! A wait that is interrupted ends. It was a signal, or the kernel brought what a disk has done to the
//! thread that asked for it (`io_uring` with cooperative task running): then the answer is there already,
//! and another wait only to be told of it would be one system call more.

use super::clock::Clock;
use nearhead_disk::Nanos;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

/// Most events taken at once.
const EVENTS_MAX: usize = 256;

/// What became ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// As registered.
    pub(crate) token: u64,
    /// How.
    pub(crate) flags: EventFlags,
}

/// An instant to wake up at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// When.
    pub(crate) at: Nanos,
    /// Whether to look rather than sleep at the end.
    pub(crate) precise: bool,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something is ready, or the deadline has come.
    AsAsked,
    /// Neither: there may be news from the service.
    Interrupted,
}

/// What waiting has cost, in system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) waits: u64,
    pub(crate) yields: u64,
}

/// Waits for descriptors and deadlines.
pub(crate) struct Poller {
    epoll: OwnedFd,
    calls: Calls,
    events: Vec<epoll::Event>,
    /// Time before a precise deadline from which on to look instead of sleep: learnt, so that one
    /// sleep in four hundred ends later than it should.
    look: Nanos,
    look_min: Nanos,
    look_max: Nanos,
}

/// Looking costs processor time: no more than this before a deadline, unless more is asked for.
const LOOK_MAX: Nanos = Nanos::from_millis(1);
/// What a sleep that ended too late adds, and what one in time takes away: a 400th of it.
const LOOK_MORE: Nanos = Nanos(50_000);
const LOOK_LESS: Nanos = Nanos(125);

impl Poller {
    /// One that looks for `look` before a precise deadline, or longer if that turns out to be too little; with 0 it
    /// only ever sleeps.
    pub(crate) fn new(look: Nanos) -> Result<Self, Errno> {
        // Sleeps end when asked, not up to 50 us later (prctl(2), PR_SET_TIMERSLACK). Where it
        // cannot be set, looking covers for it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let events = Vec::with_capacity(EVENTS_MAX);
        let look_max = if look == Nanos::ZERO { look } else { look.max(LOOK_MAX) };
        let calls = Calls::default();
        Ok(Self { epoll, calls, events, look, look_min: look, look_max })
    }

    pub(crate) fn add(
        &self,
        source: impl AsFd,
        token: u64,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        epoll::add(&self.epoll, source, EventData::new_u64(token), flags)
    }

    pub(crate) fn modify(
        &self,
        source: impl AsFd,
        token: u64,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        epoll::modify(&self.epoll, source, EventData::new_u64(token), flags)
    }

    /// Waits until something is ready or `deadline` has come; without one, as long as it takes.
    pub(crate) fn wait(
        &mut self,
        deadline: Option<Deadline>,
        clock: &Clock,
        ready: &mut Vec<Ready>,
    ) -> Result<Woken, Errno> {
        ready.clear();
        loop {
            let span = deadline.map(|deadline| {
                let left = deadline.at.since(clock.now());
                if deadline.precise { left.since(self.look) } else { left }
            });
            let woken = self.take_events(span, ready)?;
            if !ready.is_empty() || woken == Woken::Interrupted {
                return Ok(woken);
            }
            let Some(deadline) = deadline else { continue };
            let come = deadline.at <= clock.now();
            let looks = span == Some(Nanos::ZERO);
            if deadline.precise && !looks {
                self.learn(come);
            }
            if come {
                return Ok(Woken::AsAsked);
            }
            if looks {
                // What an answer sets off in the kernel may wait for this very processor.
                self.calls.yields += 1;
                std::thread::yield_now();
            }
        }
    }

    /// A sleep towards a precise deadline ended, past the deadline or not.
    fn learn(&mut self, late: bool) {
        let look = if late { self.look + LOOK_MORE } else { self.look.since(LOOK_LESS) };
        self.look = look.clamp(self.look_min, self.look_max);
    }

    fn take_events(&mut self, span: Option<Nanos>, ready: &mut Vec<Ready>) -> Result<Woken, Errno> {
        // A day at most: far deadlines (`Nanos::MAX`) must not overflow the kernel's arithmetic.
        let span = span.map(|span| span.min(Nanos::from_secs(86_400)));
        let timeout = span.map(|span| Timespec {
            tv_sec: (span.0 / 1_000_000_000) as i64,
            tv_nsec: (span.0 % 1_000_000_000) as i64,
        });
        self.events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        self.calls.waits += 1;
        match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Woken::Interrupted),
            Err(errno) => return Err(errno),
        }
        let found = self.events.iter();
        ready.extend(found.map(|event| Ready { token: event.data.u64(), flags: event.flags }));
        Ok(Woken::AsAsked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::{Class, Command, CommandId, Disk, Submission, Ticket};

    #[test]
    fn a_deadline_is_never_woken_before() {
        let clock = Clock::start();
        let mut poller = Poller::new(Nanos::from_micros(60)).unwrap();
        let mut ready = Vec::new();
        for micros in [0, 10, 59, 61, 500, 3_000] {
            for precise in [false, true] {
                let at = clock.now() + Nanos::from_micros(micros);
                poller.wait(Some(Deadline { at, precise }), &clock, &mut ready).unwrap();
                assert!(clock.now() >= at, "{micros} us, precise: {precise}");
                assert!(ready.is_empty());
            }
        }
    }

    #[test]
    fn looking_is_learnt_within_its_bounds_and_never_where_only_sleep_is_asked_for() {
        let clock = Clock::start();
        let micros = Nanos::from_micros;
        for (least, most) in [(Nanos::ZERO, Nanos::ZERO), (micros(60), LOOK_MAX)] {
            let mut poller = Poller::new(least).unwrap();
            for is_late in [true, false] {
                (0..10_000).for_each(|_| poller.learn(is_late));
                assert_eq!(poller.look, if is_late { most } else { least });
            }
            let at = clock.now() + micros(300);
            poller.wait(Some(Deadline { at, precise: true }), &clock, &mut Vec::new()).unwrap();
            assert!(clock.now() >= at);
        }
    }

    /// A plain volume's deadlines are coarse, and other programs want the processor too.
    #[test]
    fn a_wait_for_a_coarse_deadline_is_one_system_call() {
        let clock = Clock::start();
        let mut poller = Poller::new(Nanos::from_micros(60)).unwrap();
        for micros in [0, 10, 59, 61, 500, 3_000] {
            let before = poller.calls;
            let at = clock.now() + Nanos::from_micros(micros);
            let coarse = Deadline { at, precise: false };
            poller.wait(Some(coarse), &clock, &mut Vec::new()).unwrap();
            let one_more = Calls { waits: before.waits + 1, ..before };
            assert_eq!(poller.calls, one_more, "{micros} us");
        }
    }

    #[test]
    fn only_looking_offers_the_processor_to_others() {
        let clock = Clock::start();
        let mut sleeper = Poller::new(Nanos::ZERO).unwrap();
        let at = clock.now() + Nanos::from_micros(700);
        sleeper.wait(Some(Deadline { at, precise: true }), &clock, &mut Vec::new()).unwrap();
        assert_eq!(sleeper.calls, Calls { waits: 1, yields: 0 }, "one that never looks");
    }

    /// Whichever way the kernel tells of it: by the ring's descriptor, or by an interruption.
    #[test]
    fn what_a_disk_has_done_is_there_after_one_wait() {
        let path = std::env::temp_dir().join(format!("nearhead-poller-{}", std::process::id()));
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let options = nearhead_uring::OpenOptions {
            engine: nearhead_uring::Engine::Uring,
            ..Default::default()
        };
        match nearhead_uring::open(&path, &options) {
            Ok(mut disk) => read_ten_times(&mut disk),
            Err(error) => println!("skipped: {error}"),
        }
        std::fs::remove_file(&path).unwrap();
    }

    fn read_ten_times(disk: &mut nearhead_uring::RealDisk) {
        let clock = Clock::start();
        let mut poller = Poller::new(Nanos::ZERO).unwrap();
        poller.add(disk.wake_fd().unwrap(), 1, EventFlags::IN).unwrap();
        for number in 0..10 {
            let ticket = Ticket::new(CommandId(number));
            let command = Command::Read { offset: number * 65_536, len: 4096 };
            disk.submit(Submission { ticket, class: Class::Foreground, command }, Nanos::ZERO);
            disk.kick();
            let before = poller.calls;
            let never = Deadline { at: Nanos::MAX, precise: true };
            poller.wait(Some(never), &clock, &mut Vec::new()).unwrap();
            let done = disk.poll(Nanos::ZERO).expect("a wait ended for it");
            assert_eq!((done.id, done.result.is_ok()), (CommandId(number), true));
            assert_eq!(poller.calls, Calls { waits: before.waits + 1, ..before });
        }
    }

    #[test]
    fn a_ready_descriptor_ends_the_wait_before_the_deadline() {
        let clock = Clock::start();
        let mut poller = Poller::new(Nanos::ZERO).unwrap();
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        poller.add(&near, 42, EventFlags::IN).unwrap();
        drop(far);
        let mut ready = Vec::new();
        let never = Deadline { at: Nanos::MAX, precise: true };
        poller.wait(Some(never), &clock, &mut ready).unwrap();
        assert_eq!(ready[0].token, 42);
    }

    #[test]
    fn only_sleeping_towards_a_precise_deadline_teaches_and_looking_yields() {
        let clock = Clock::start();
        let look = Nanos::from_secs(10);
        let mut poller = Poller::new(look).unwrap();
        poller.look_max = look + look;
        let wait = |poller: &mut Poller, micros, precise| {
            let at = clock.now() + Nanos::from_micros(micros);
            poller.wait(Some(Deadline { at, precise }), &clock, &mut Vec::new()).unwrap();
        };
        wait(&mut poller, 300, false);
        assert_eq!((poller.look, poller.calls.yields), (look, 0));
        // Longer each time, in case that the thread does not get to look before it is over.
        let mut spans = (0..).map(|turn| 300 << turn);
        while poller.calls.yields < 2 {
            wait(&mut poller, spans.next().unwrap(), true);
        }
        assert_eq!(poller.look, look, "nothing is learnt from looking");
        poller.look = Nanos::ZERO;
        poller.look_min = Nanos::ZERO;
        wait(&mut poller, 300, true);
        assert_ne!(poller.look, Nanos::ZERO, "a sleep that ended at its deadline is too late");
    }
}
