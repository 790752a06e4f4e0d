//! Frames through the rings in shared memory, and the socket that is their bell.
//!
//! A frame is its header, 4 zero bytes, its body, and zeros up to a whole word. A side that finds
//! nothing to do looks again for a moment, then says that it sleeps and waits on the socket: one byte
//! there wakes it, an open file comes beside one, and its end is the end of the other side. So
//! while both are awake no system call is made, and death is noticed as with the socket alone.
//!
//! What is looked at was copied out of the shared memory before: the header to be checked, the body
//! to where it is written from (aligned for `O_DIRECT`). What cannot be is an error that stays.

use super::frame::{BODY_BYTES_MAX, FrameKind, HEADER_BYTES, Header, refused};
use super::region::{Direction, Region};
use super::ring::{Consumer, Nonsense, Producer, WORD_BYTES};
use super::transport::{receive, send_message};
use crate::error::{Result, WalError};
use nearhead_disk::BufferMut;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A header and what fills its last word up.
const HEADER_WORDS: usize = HEADER_BYTES.div_ceil(WORD_BYTES);
/// Where bodies begin in memory: the bytes of a `WRITE_AT` lie behind its offset, so at a page.
const BODY_AT: usize = 4096 - WORD_BYTES;
/// How long a side looks again before it sleeps: about what a sleep and its end cost.
const LOOK_AGAIN: Duration = Duration::from_micros(20);
/// After a look that was in vain, the next waits sleep at once: twice as many each time, up to this. With
/// a slow disk or busy processors looking again only keeps the other side from running.
const SLEEPS_AT_ONCE_MAX: u32 = 256;
/// Looks between two looks at the clock.
const LOOKS_AT_ONCE: u32 = 32;
/// Bytes taken from the bell at once.
const BELL_BYTES: usize = 64;

/// What both directions of one side share.
pub(super) struct RingLink {
    region: Region,
    socket: OwnedFd,
    /// The ring that this side fills.
    outgoing: Direction,
    files: Mutex<VecDeque<OwnedFd>>,
    /// Longest wait for the other side.
    deadline: Option<Duration>,
    look_again: Duration,
    in_vain: Mutex<InVain>,
}

/// Whether looking again has paid lately.
#[derive(Default)]
struct InVain {
    /// Waits that sleep at once before the next one looks again.
    left: u32,
    /// How many it was last.
    last: u32,
}

impl RingLink {
    /// One side; `outgoing` is the ring that it fills.
    pub(super) fn ends(
        region: Region,
        socket: OwnedFd,
        outgoing: Direction,
        deadline: Option<Duration>,
    ) -> (RingIncoming, RingOutgoing) {
        // With one processor the other side cannot do anything while this one looks.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let look_again = if processors > 1 { LOOK_AGAIN } else { Duration::ZERO };
        let files = Mutex::default();
        let in_vain = Mutex::default();
        let link = Self { region, socket, outgoing, files, deadline, look_again, in_vain };
        let link = Arc::new(link);
        let incoming = RingIncoming {
            link: Arc::clone(&link),
            consumer: Consumer::default(),
            memory: BufferMut::zeroed(BODY_AT + BODY_BYTES_MAX),
            header: None,
            filled: 0,
            broken: None,
        };
        (incoming, RingOutgoing { link, producer: Mutex::default() })
    }

    fn ring_bell(&self, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let byte = [IoSlice::new(&[1])];
        // A file has to get through; of bells that nobody has heard yet, one is enough.
        let wait = if file.is_some() { SendFlags::empty() } else { SendFlags::DONTWAIT };
        loop {
            match send_message(&self.socket, &byte, file, wait) {
                Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) if file.is_none() => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn files(&self) -> MutexGuard<'_, VecDeque<OwnedFd>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what has come over the socket; false at its end.
    fn take_bells(&self) -> io::Result<bool> {
        let mut bytes = [0; BELL_BYTES];
        match receive(&self.socket, &mut bytes, &mut self.files(), RecvFlags::DONTWAIT) {
            Ok(read) => Ok(read > 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sleeps until the bell rings; false at the end of the socket.
    fn listen(&self, until: Option<Instant>) -> io::Result<bool> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut event = [PollFd::new(&self.socket, PollFlags::IN)];
        match rustix::event::poll(&mut event, timeout.as_ref()) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => self.take_bells(),
            Err(Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Looks again for a moment, unless that was in vain lately.
    fn look_again(&self, wait: &mut impl Wait, begun: Instant) -> io::Result<bool> {
        let mut in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        if in_vain.left > 0 {
            in_vain.left -= 1;
            return Ok(false);
        }
        while begun.elapsed() < self.look_again {
            for _ in 0..LOOKS_AT_ONCE {
                if wait.is_ready().map_err(nonsense)? {
                    *in_vain = InVain::default();
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
        }
        in_vain.last = (in_vain.last * 2).clamp(1, SLEEPS_AT_ONCE_MAX);
        in_vain.left = in_vain.last;
        Ok(false)
    }

    /// Waits until `wait.is_ready()`; false if the other side has ended before that.
    fn wait_for(&self, mut wait: impl Wait) -> io::Result<bool> {
        let begun = Instant::now();
        if wait.is_ready().map_err(nonsense)? || self.look_again(&mut wait, begun)? {
            return Ok(true);
        }
        let until = self.deadline.map(|most| begun + most);
        loop {
            let may_sleep = wait.may_sleep();
            let heard = match may_sleep {
                Ok(true) => self.listen(until),
                _ => Ok(true),
            };
            wait.wake();
            may_sleep.map_err(nonsense)?;
            let is_there = heard?;
            // What was stored before the end is still good.
            if wait.is_ready().map_err(nonsense)? {
                return Ok(true);
            }
            if !is_there {
                return Ok(false);
            }
        }
    }
}

/// What a side waits for, as `ring.rs` has it.
trait Wait {
    fn is_ready(&mut self) -> std::result::Result<bool, Nonsense>;
    fn may_sleep(&mut self) -> std::result::Result<bool, Nonsense>;
    fn wake(&self);
}

struct ForWords<'a>(&'a mut Consumer, &'a RingLink, usize);

impl Wait for ForWords<'_> {
    fn is_ready(&mut self) -> std::result::Result<bool, Nonsense> {
        Ok(self.0.available(&self.1.region.lane(self.1.outgoing.opposite()))? >= self.2)
    }

    fn may_sleep(&mut self) -> std::result::Result<bool, Nonsense> {
        self.0.may_sleep(&self.1.region.lane(self.1.outgoing.opposite()), self.2)
    }

    fn wake(&self) {
        Consumer::wake(&self.1.region.lane(self.1.outgoing.opposite()));
    }
}

struct ForRoom<'a>(&'a mut Producer, &'a RingLink, usize);

impl Wait for ForRoom<'_> {
    fn is_ready(&mut self) -> std::result::Result<bool, Nonsense> {
        Ok(self.0.room(&self.1.region.lane(self.1.outgoing))? >= self.2)
    }

    fn may_sleep(&mut self) -> std::result::Result<bool, Nonsense> {
        self.0.may_sleep(&self.1.region.lane(self.1.outgoing), self.2)
    }

    fn wake(&self) {
        Producer::wake(&self.1.region.lane(self.1.outgoing));
    }
}

#[cold]
fn nonsense(Nonsense { what, least, most, found }: Nonsense) -> io::Error {
    let detail = format!("ring: {what}: expected {least} to {most}, found {found}");
    io::Error::new(io::ErrorKind::InvalidData, refused(&detail).detail)
}

/// The direction in which frames come.
pub(super) struct RingIncoming {
    link: Arc<RingLink>,
    consumer: Consumer,
    memory: BufferMut,
    /// Of the frame whose body is being copied out.
    header: Option<Header>,
    /// How much of its body is there.
    filled: usize,
    /// Why nothing more is believed.
    broken: Option<WalError>,
}

impl RingIncoming {
    /// The next frame, if it has arrived whole: its header, and where its body lies until the next.
    pub(super) fn next(&mut self) -> Result<Option<(Header, Range<usize>)>> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let outcome = self.take_frame();
        if let Err(error) = &outcome {
            self.broken = Some(error.clone());
        }
        outcome
    }

    fn take_frame(&mut self) -> Result<Option<(Header, Range<usize>)>> {
        let lane = self.link.region.lane(self.link.outgoing.opposite());
        let io_error = |error: io::Error| refused(&error.to_string());
        let there = self.consumer.available(&lane).map_err(|found| io_error(nonsense(found)))?;
        if self.header.is_none() && there >= HEADER_WORDS {
            let mut bytes = [0; HEADER_WORDS * WORD_BYTES];
            self.consumer.get(&lane, &mut bytes);
            let (header, zeros) = bytes.split_at(HEADER_BYTES);
            if zeros.iter().any(|byte| *byte != 0) {
                return Err(refused("ring: behind a header: expected zeros, found something"));
            }
            self.header =
                Some(Header::decode(&nearhead_basics::little_endian::array_at(header, 0))?);
            self.filled = 0;
        }
        let Some(header) = self.header else { return Ok(None) };
        let body = BODY_AT..BODY_AT + header.body_bytes as usize;
        self.filled += self.consumer.get(&lane, &mut self.memory[body.clone()][self.filled..]);
        if self.consumer.free(&lane) {
            // The end of the other side is found when more is awaited.
            let _ = self.link.ring_bell(None);
        }
        if self.filled < body.len() {
            return Ok(None);
        }
        self.header = None;
        Ok(Some((header, body)))
    }

    /// The bytes of a body that was just handed out.
    pub(super) fn bytes(&self, body: Range<usize>) -> &[u8] {
        &self.memory[body]
    }

    /// The oldest open file that arrived and was not taken. It was sent before the frame it is for.
    pub(super) fn take_file(&mut self) -> Option<OwnedFd> {
        // What stands in the way shows as a file that is missing.
        let _ = self.link.take_bells();
        self.link.files().pop_front()
    }

    /// Waits for more; returns 0 at the end.
    pub(super) fn fill(&mut self) -> io::Result<usize> {
        let wanted = if self.header.is_some() { 1 } else { HEADER_WORDS };
        let outcome = self.link.wait_for(ForWords(&mut self.consumer, &self.link, wanted));
        if let Err(error) = &outcome
            && error.kind() == io::ErrorKind::InvalidData
        {
            self.broken = Some(refused(&error.to_string()));
        }
        outcome.map(usize::from)
    }

    /// Tells the other side that nothing more will come.
    pub(super) fn shut_down(&self) {
        // It may be gone already, which is as good.
        let _ = rustix::net::shutdown(&self.link.socket, rustix::net::Shutdown::Write);
    }

    /// What stands in the way of ending here: nonsense, or part of a frame.
    pub(super) fn check_end(&mut self) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let lane = self.link.region.lane(self.link.outgoing.opposite());
        match (self.consumer.available(&lane), self.header) {
            (Ok(0), None) => Ok(()),
            _ => Err(refused("end of input: expected whole frames, found part of one")),
        }
    }
}

/// The direction in which frames go.
pub(super) struct RingOutgoing {
    link: Arc<RingLink>,
    producer: Mutex<Producer>,
}

impl RingOutgoing {
    /// Sends a frame whose body is `parts`, and an open file beside it. The first part is whole words
    /// unless the second is empty.
    pub(super) fn send(
        &self,
        kind: FrameKind,
        tag: u64,
        handle: u32,
        parts: [&[u8]; 2],
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let joined;
        let parts = if parts[0].len().is_multiple_of(WORD_BYTES) || parts[1].is_empty() {
            parts
        } else {
            joined = parts.concat();
            [&joined[..], &[]]
        };
        if file.is_some() {
            // First the file: when the frame is found, it is there.
            self.link.ring_bell(file)?;
        }
        let body_bytes = (parts[0].len() + parts[1].len()) as u32;
        let mut header = [0; HEADER_WORDS * WORD_BYTES];
        header[..HEADER_BYTES].copy_from_slice(&Header { body_bytes, kind, tag, handle }.encode());
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        self.reserve(&mut producer, HEADER_WORDS)?;
        for part in [&header[..], parts[0], parts[1]] {
            self.put_all(&mut producer, part)?;
        }
        self.publish(&mut producer)
    }

    fn put_all(&self, producer: &mut Producer, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let lane = self.link.region.lane(self.link.outgoing);
            bytes = &bytes[producer.put(&lane, bytes)..];
            if bytes.is_empty() {
                return Ok(());
            }
            // The consumer makes room of what it knows of.
            self.publish(producer)?;
            self.reserve(producer, 1)?;
        }
    }

    fn publish(&self, producer: &mut Producer) -> io::Result<()> {
        if producer.publish(&self.link.region.lane(self.link.outgoing)) {
            self.link.ring_bell(None)?;
        }
        Ok(())
    }

    /// Waits for room.
    fn reserve(&self, producer: &mut Producer, words: usize) -> io::Result<()> {
        if self.link.wait_for(ForRoom(producer, &self.link, words))? {
            return Ok(());
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
#[path = "ring_link_tests.rs"]
mod tests;
