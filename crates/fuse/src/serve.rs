//! How what the kernel asks is carried out: the file system, the service under it, and the clock, in turns.
//!
//! A thread that receives a request carries it out itself, unless another is at it ([`crate::turns`]). The thread that called takes a turn
//! when something is due by itself: a time that came, a disk that answered, the end. It sleeps in between, and is woken only if a turn
//! of another thread left something that is due sooner than it meant to wake up.

use crate::answers::Waiting;
use crate::bell::Bell;
use crate::carrier::Carrier;
use crate::turns::{Broken, Turn, Turns};
use nearhead_disk::Nanos;
use nearhead_fs::{Answer, FsError, FsRequest};
use nearhead_service::Wake;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So long before a time that has to be met precisely the thread stays awake.
const LOOK: Nanos = Nanos::from_micros(100);
/// A file system that is in use is tried again after so long.
const BUSY_FOR: Duration = Duration::from_millis(100);
/// Longest sleep: an end that nobody rang for is found after it.
const SLEEP_MAX: Nanos = Nanos::from_secs(1);

/// Time since the service's clock began.
pub(crate) fn since(start: Instant) -> Nanos {
    Nanos(start.elapsed().as_nanos() as u64)
}

/// A request with whom to answer.
pub(crate) struct Asked {
    pub(crate) request: FsRequest,
    pub(crate) waiting: Waiting,
}

/// Whoever takes requests.
pub(crate) trait Takes: Send + Sync {
    /// Takes one, and carries it out if nobody else is at it.
    fn ask(&self, asked: Asked);

    /// Takes one, and leaves it to what is asked right behind it.
    fn put(&self, asked: Asked);
}

/// Answers to give, each with the number of its request.
type Answers = Vec<(u64, Waiting, Result<Answer, FsError>)>;

/// What the turns are taken of.
struct At<C> {
    carrier: C,
    waiting: HashMap<u64, Waiting>,
    /// Newest number of a request that the kernel cannot ask again: an odd one.
    newest: u64,
    failure: Option<String>,
    /// Until when the thread sleeps that takes turns by itself; none while it is awake.
    sleeps_until: Option<Nanos>,
}

impl<C: Carrier> At<C> {
    /// Takes in what was asked, and moves everything on.
    fn turn(&mut self, asked: VecDeque<Asked>, answered: &[u64], start: Instant) -> Turn<Answers> {
        self.carrier.note_answered(answered);
        for Asked { mut request, waiting } in asked {
            if request.id == 0 {
                self.newest += 2;
                request.id = self.newest;
            }
            self.waiting.insert(request.id, waiting);
            self.carrier.submit(request);
        }
        self.carrier.drive(since(start));
        let mut left = Vec::new();
        while let Some(reply) = self.carrier.poll_reply() {
            let waiting = self.waiting.remove(&reply.id);
            left.extend(waiting.map(|waiting| (reply.id, waiting, reply.result)));
        }
        if let Some(error) = self.carrier.failure() {
            self.failure.get_or_insert_with(|| error.detail.clone());
        }
        let is_due = self.carrier.wake().at.is_some_and(|at| at <= since(start));
        Turn { is_due, left }
    }

    /// Whether the thread that sleeps would wake up too late; it is told once.
    fn is_to_wake_sleeper(&mut self) -> bool {
        let Some(until) = self.sleeps_until else { return false };
        let is_too_late = self.carrier.wake().at.is_some_and(|at| at < until);
        if is_too_late {
            self.sleeps_until = None;
        }
        is_too_late
    }
}

/// The carrier, shared by all threads.
pub(crate) struct Shared<C> {
    turns: Turns<At<C>, Asked>,
    pub(crate) bell: Arc<Bell>,
    /// Readable when the carrier is to be driven.
    descriptor: Option<OwnedFd>,
    start: Instant,
    /// Requests of which the kernel has the answers since the last turn.
    answered: Mutex<Vec<u64>>,
}

impl<C: Carrier> Shared<C> {
    pub(crate) fn new(carrier: C, start: Instant) -> io::Result<Self> {
        let fd = carrier.wake().fd;
        let descriptor = fd.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let (waiting, failure, sleeps_until) = (HashMap::new(), None, None);
        let at = At { carrier, waiting, newest: 1, failure, sleeps_until };
        let (turns, bell) = (Turns::new(at), Arc::new(Bell::new()?));
        Ok(Self { turns, bell, descriptor, start, answered: Mutex::default() })
    }

    /// Requests that were answered since the last call.
    fn take_answered(&self) -> Vec<u64> {
        std::mem::take(&mut *self.answered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer(&self, answers: Answers) {
        let mut answered = Vec::with_capacity(answers.len());
        for (request, waiting, result) in answers {
            waiting.answer(result);
            answered.push(request);
        }
        if !answered.is_empty() {
            let mut all = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            all.append(&mut answered);
        }
    }
}

impl<C: Carrier + Send> Takes for Shared<C> {
    fn put(&self, asked: Asked) {
        self.turns.put(asked);
    }

    fn ask(&self, asked: Asked) {
        self.turns.put(asked);
        let taken = self.turns.take(
            |at, asked| {
                let turn = at.turn(asked, &self.take_answered(), self.start);
                if !turn.is_due && at.is_to_wake_sleeper() {
                    self.bell.ring();
                }
                turn
            },
            |answers| self.answer(answers),
        );
        if taken.is_err() {
            self.bell.ring();
        }
    }
}

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    Closing,
    Ended,
}

/// Takes the turns that nobody takes who asks, until the kernel asks nothing any more and all is durable. What is in the way of that is
/// the inner error; the outer one is that a thread broke off in the middle. At the end of each of its turns, at least every second,
/// `also` gets the carrier.
pub(crate) fn run<C: Carrier>(
    shared: &Shared<C>,
    folder: &Path,
    also: &mut dyn FnMut(&mut C, Nanos),
) -> Result<Result<(), String>, Broken> {
    let (mut stage, mut failure) = (Stage::Serving, None);
    loop {
        if shared.bell.is_to_stop() {
            unmount_when_unused(folder);
        }
        // Before the queue is taken: what was asked before the end is in it.
        let has_ended = shared.bell.has_ended();
        let mut sleep = Sleep { at: None, is_precise: false };
        let is_due = shared.turns.take_one(
            |at, asked| {
                let turn = at.turn(asked, &shared.take_answered(), shared.start);
                also(&mut at.carrier, since(shared.start));
                if has_ended && stage == Stage::Serving {
                    stage = Stage::Closing;
                    at.carrier.begin_shutdown(since(shared.start));
                    return Turn { is_due: true, ..turn };
                }
                if stage == Stage::Closing && at.carrier.is_shut_down() {
                    stage = Stage::Ended;
                    failure = at.failure.take();
                }
                let wake = at.carrier.wake();
                sleep = Sleep::until(&wake);
                at.sleeps_until = Some(wake.at.unwrap_or(Nanos(u64::MAX)));
                turn
            },
            |answers| shared.answer(answers),
        )?;
        if stage == Stage::Ended {
            break;
        }
        if !is_due {
            sleep.sleep(
                shared.start,
                Some(&shared.bell),
                shared.descriptor.as_ref().map(AsFd::as_fd),
            );
            shared.bell.silence();
        }
    }
    Ok(match failure {
        None => Ok(()),
        Some(detail) => Err(format!(
            "{}: {detail}; what was written last and not answered as durable may be lost",
            folder.display()
        )),
    })
}

/// Unmounts `folder` once no program uses it, on a thread of its own: the kernel may ask the file system for something first, which the
/// caller's process has to answer.
pub fn unmount_when_unused(folder: &Path) {
    let folder = folder.to_owned();
    let unmounting = std::thread::Builder::new().name("unmount".to_owned());
    // Without a thread the file system stays until a user unmounts it.
    let _ = unmounting.spawn(move || {
        while let Err(error) = crate::unmount(&folder) {
            if error.kind() != ErrorKind::ResourceBusy {
                break;
            }
            std::thread::sleep(BUSY_FOR);
        }
    });
}

/// Until when to sleep.
pub(crate) struct Sleep {
    at: Option<Nanos>,
    is_precise: bool,
}

impl Sleep {
    pub(crate) fn until(wake: &Wake<'_>) -> Self {
        Self { at: wake.at, is_precise: wake.is_precise }
    }

    /// Sleeps until then, or until one of the descriptors is readable.
    pub(crate) fn sleep(
        &self,
        start: Instant,
        bell: Option<&Bell>,
        of_disk: Option<BorrowedFd<'_>>,
    ) {
        let now = since(start);
        let left = self.at.map_or(SLEEP_MAX, |at| at.since(now)).min(SLEEP_MAX);
        if left == Nanos::ZERO {
            return;
        }
        let left = if self.is_precise && left <= LOOK {
            std::thread::yield_now();
            Nanos::ZERO
        } else if self.is_precise && self.at.is_some() {
            Nanos(left.0 - LOOK.0.min(left.0))
        } else {
            left
        };
        let timeout = Timespec {
            tv_sec: (left.0 / 1_000_000_000) as i64,
            tv_nsec: (left.0 % 1_000_000_000) as i64,
        };
        let mut descriptors: Vec<PollFd<'_>> = Vec::with_capacity(2);
        descriptors.extend(bell.map(|bell| PollFd::new(bell, PollFlags::IN)));
        descriptors.extend(of_disk.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        // Interrupted or not: whoever calls looks again.
        let _ = poll(&mut descriptors, Some(&timeout));
    }
}
