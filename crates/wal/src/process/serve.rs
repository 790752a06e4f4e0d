//! The helper: reads requests, carries them out with the thread's priority, answers.
//!
//! One thread, one request after the other. A `SYNC` or `COMMIT` waits until what had arrived with
//! it is taken in, so that many of them share one write; nothing else is put off. What a client sends
//! is hostile: a body that is wrong is refused, a header that is wrong ends the helper, since nobody
//! knows where the next frame begins. Never is anything answered before it is durable.

use super::frame::{Ask, FrameKind, HANDLES_MAX, Header, refused};
use super::handle::{Handle, choice_of};
use super::link::{Incoming, Outgoing, over_descriptors, over_rings};
use super::message::{ErrorReply, HelloReply, Request, clipped};
use super::region::{Direction, Region};
use crate::error::{Result, WalError, WalErrorKind};
use nearhead_uring::{IoPriority, set_thread_priority};
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long an opening waits for the helper of a killed program to finish and let go.
const OTHER_HELPER_WAIT_MAX: Duration = Duration::from_secs(3);
const OTHER_HELPER_RETRY: Duration = Duration::from_millis(5);

/// Why a helper ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its input ended, and everything in it is answered.
    Finished,
    /// What came was no frame.
    AgainstProtocol,
    /// Nobody reads its answers.
    Unheard,
}

impl Ended {
    /// As the status of its process.
    pub fn status(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::AgainstProtocol => 2,
            Self::Unheard => 3,
        }
    }
}

/// Serves requests from `input` until it ends, with the highest priority that is permitted.
pub fn serve(input: OwnedFd, output: OwnedFd) -> Ended {
    if set_thread_priority(IoPriority::REAL_TIME).is_err() {
        // Without either, writes are only slower; the reply to HELLO says which it is.
        let _ = set_thread_priority(IoPriority::BEST_EFFORT_FIRST);
    }
    let (incoming, outgoing) = over_descriptors(input, output);
    let mut session = Session {
        incoming,
        outgoing,
        handles: BTreeMap::new(),
        unsettled: Vec::new(),
        told_closed: BTreeSet::new(),
        is_greeted: false,
    };
    match session.run() {
        Ok(ended) => ended,
        Err(_) => Ended::Unheard,
    }
}

/// The same over standard input and output.
///
/// # Errors
/// If either is closed.
pub fn serve_standard() -> io::Result<Ended> {
    use std::os::fd::AsFd;
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(serve(input, output))
}

/// A `SYNC` or `COMMIT` that has not been carried out yet.
struct Unsettled {
    ask: Ask,
    tag: u64,
    handle: u32,
}

struct Session {
    incoming: Incoming,
    outgoing: Outgoing,
    handles: BTreeMap<u32, Handle>,
    /// In the order of their arrival: no more than fit the memory of what arrived together.
    unsettled: Vec<Unsettled>,
    /// Handles that were written to without being open, which was answered.
    told_closed: BTreeSet<u32>,
    is_greeted: bool,
}

impl Session {
    /// Errors are those of sending: everything else is answered.
    fn run(&mut self) -> io::Result<Ended> {
        loop {
            match self.incoming.next() {
                Ok(Some((header, body))) => {
                    if !self.take(header, body)? {
                        return Ok(Ended::AgainstProtocol);
                    }
                }
                Ok(None) => {
                    self.settle_all()?;
                    if self.incoming.fill().unwrap_or(0) > 0 {
                        continue;
                    }
                    return match self.incoming.check_end() {
                        Ok(()) => Ok(Ended::Finished),
                        Err(error) => self.give_up(error),
                    };
                }
                Err(error) => {
                    self.settle_all()?;
                    return self.give_up(error);
                }
            }
        }
    }

    fn give_up(&self, error: WalError) -> io::Result<Ended> {
        self.fail(0, 0, &ErrorReply { error, ask: 0, position: 0, durable: 0 })?;
        Ok(Ended::AgainstProtocol)
    }

    /// Carries one request out, or puts it off; false if nothing more can be done.
    fn take(&mut self, header: Header, body: Range<usize>) -> io::Result<bool> {
        let Header { tag, handle, kind, .. } = header;
        let FrameKind::Request(ask) = kind else {
            let error = refused(&format!("expected a request, found {kind:?}"));
            let reply = ErrorReply { error, ask: 0, position: 0, durable: 0 };
            return self.fail(tag, handle, &reply).map(|()| true);
        };
        if !self.is_greeted {
            return self.greet(ask, tag, handle, body);
        }
        if matches!(ask, Ask::Sync | Ask::Commit) && body.is_empty() {
            let open = self.handles.get(&handle).ok_or_else(|| not_open(handle));
            match open.and_then(|open| open.check_may_settle(ask)) {
                Ok(()) => self.unsettled.push(Unsettled { ask, tag, handle }),
                Err(error) => self.conclude(ask, tag, handle, Err(error))?,
            }
            return Ok(true);
        }
        if ask.has_reply() {
            self.settle_all()?;
        }
        let outcome = match Request::decode(ask, self.incoming.bytes(body)) {
            Ok(Request::Hello { .. }) => Err(refused("HELLO comes once, first")),
            // What these open does not lie in the buffer.
            Ok(Request::OpenStream(open)) => self.open(handle, || Handle::stream(&open)),
            Ok(Request::OpenLog(open)) => self.open(handle, || Handle::log(&open)),
            Ok(Request::OpenFile) => self.open_file(handle),
            Ok(Request::OpenRing { ring_bytes }) => match self.open_ring(ring_bytes) {
                Ok((incoming, outgoing)) => {
                    // The answer is the last frame the old way.
                    self.reply(ask, tag, handle, &[])?;
                    (self.incoming, self.outgoing) = (incoming, outgoing);
                    return Ok(true);
                }
                Err(error) => Err(error),
            },
            Ok(Request::Close) => match self.handles.remove(&handle) {
                Some(closing) => {
                    let progress = closing.error(not_open(handle), ask);
                    return match closing.close() {
                        Ok(body) => self.reply(ask, tag, handle, &body),
                        Err(error) => self.fail(tag, handle, &ErrorReply { error, ..progress }),
                    }
                    .map(|()| true);
                }
                None => Err(not_open(handle)),
            },
            Ok(request) => match self.handles.get_mut(&handle) {
                // Told once: nobody may be reading yet, and it must not come to waiting for that.
                None if !ask.has_reply() && !self.told_closed.insert(handle) => return Ok(true),
                None => Err(not_open(handle)),
                Some(open) if ask.has_reply() => open.answer(&request),
                Some(open) => match open.take_in(&request) {
                    Ok(()) => return Ok(true),
                    Err(error) => Err(error),
                },
            },
            Err(error) => Err(error),
        };
        self.conclude(ask, tag, handle, outcome).map(|()| true)
    }

    fn conclude(
        &mut self,
        ask: Ask,
        tag: u64,
        handle: u32,
        outcome: Result<Vec<u8>>,
    ) -> io::Result<()> {
        match outcome {
            Ok(body) => self.reply(ask, tag, handle, &body),
            Err(error) => {
                // Answers come in the order of requests, so what was put off comes first.
                self.settle_all()?;
                let reply = match self.handles.get(&handle) {
                    Some(open) => open.error(error, ask),
                    None => ErrorReply { error, ask: ask as u16, position: 0, durable: 0 },
                };
                self.fail(tag, handle, &reply)
            }
        }
    }

    fn greet(&mut self, ask: Ask, tag: u64, handle: u32, body: Range<usize>) -> io::Result<bool> {
        let outcome = if ask == Ask::Hello {
            Request::decode(ask, self.incoming.bytes(body))
        } else {
            Err(refused("expected HELLO as the first frame, found another"))
        };
        let choice = match outcome {
            Ok(Request::Hello { directory: Some(directory) }) => choice_of(&directory),
            Ok(_) => Ok(String::new()),
            Err(error) => {
                self.fail(tag, handle, &ErrorReply { error, ask: 1, position: 0, durable: 0 })?;
                return Ok(false);
            }
        };
        let hello = choice.map(|choice| {
            HelloReply { pid: std::process::id(), handles: HANDLES_MAX, choice }.encode()
        });
        // A directory that is not there is no reason to end: the next HELLO may name another.
        self.is_greeted = hello.is_ok();
        self.conclude(ask, tag, handle, hello).map(|()| true)
    }

    fn open(
        &mut self,
        handle: u32,
        attempt: impl Fn() -> Result<(Handle, String)>,
    ) -> Result<Vec<u8>> {
        self.check_free(handle)?;
        let give_up_at = Instant::now() + OTHER_HELPER_WAIT_MAX;
        let (opened, choice) = loop {
            match attempt() {
                Err(error) if error.kind == WalErrorKind::InUse && Instant::now() < give_up_at => {
                    // Nobody announces that the helper of a killed program has ended.
                    std::thread::sleep(OTHER_HELPER_RETRY);
                }
                outcome => break outcome?,
            }
        };
        let mut body = opened.progress();
        body.extend(clipped(&choice).as_bytes());
        self.told_closed.remove(&handle);
        self.handles.insert(handle, opened);
        Ok(body)
    }

    fn open_file(&mut self, handle: u32) -> Result<Vec<u8>> {
        // Taken whatever comes of it: the next file belongs to the next frame.
        let file = self.incoming.take_file();
        self.check_free(handle)?;
        let file = file.ok_or_else(|| {
            refused(
                "OPEN_FILE: expected an open file beside the frame, over a Unix socket, found none",
            )
        })?;
        self.handles.insert(handle, Handle::file(file));
        Ok(Vec::new())
    }

    fn open_ring(&mut self, ring_bytes: u32) -> Result<(Incoming, Outgoing)> {
        // Taken whatever comes of it, as for a file that is shared.
        let file = self.incoming.take_file();
        let (Some(file), Some(socket)) = (file, self.incoming.quiet_socket()) else {
            return Err(refused(
                "OPEN_RING: expected a memory file beside the frame, over a Unix socket, once, and nothing behind it, found otherwise",
            ));
        };
        let opened = Region::open(file, ring_bytes).and_then(|region| Ok((region, socket?)));
        let (region, socket) = opened.map_err(|error| refused(&format!("OPEN_RING: {error}")))?;
        Ok(over_rings(region, socket, Direction::FromHelper, None))
    }

    fn check_free(&self, handle: u32) -> Result<()> {
        if self.handles.contains_key(&handle) {
            return Err(refused(&format!("handle {handle}: expected one that is free")));
        }
        Ok(())
    }

    /// Carries out what was put off, one write for each handle.
    fn settle_all(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.unsettled);
        let mut outcomes: BTreeMap<u32, Result<()>> = BTreeMap::new();
        for Unsettled { ask, tag, handle } in waiting {
            let Some(open) = self.handles.get_mut(&handle) else {
                let error = not_open(handle);
                let reply = ErrorReply { error, ask: ask as u16, position: 0, durable: 0 };
                self.fail(tag, handle, &reply)?;
                continue;
            };
            let outcome = outcomes.entry(handle).or_insert_with(|| open.settle());
            match outcome {
                Ok(()) => {
                    let progress = open.progress();
                    self.reply(ask, tag, handle, &progress)?;
                }
                Err(error) => {
                    let reply = open.error(error.clone(), ask);
                    self.fail(tag, handle, &reply)?;
                }
            }
        }
        Ok(())
    }

    fn reply(&self, ask: Ask, tag: u64, handle: u32, body: &[u8]) -> io::Result<()> {
        self.outgoing.send(FrameKind::Reply(ask), tag, handle, [body, &[]], None)
    }

    fn fail(&self, tag: u64, handle: u32, reply: &ErrorReply) -> io::Result<()> {
        self.outgoing.send(FrameKind::Error, tag, handle, [&reply.encode(), &[]], None)
    }
}

#[cold]
fn not_open(handle: u32) -> WalError {
    refused(&format!("handle {handle}: expected one that was opened, found a free one"))
}
