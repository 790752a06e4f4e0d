//! A line-based control socket, served by the same loop as the clients.
//!
//! One command a line, one answer a line, in order. Commands run between requests with the service
//! in hand, so they must not take long. A line and the answers that nobody reads are bounded, and
//! so is the number of connections: a control client cannot disturb the disk's clients.

use super::error::{ServerError, in_step};
use super::event_loop::{CONTROL_CONNECTION_TOKENS, CONTROL_TOKENS, Report};
use super::listener::Listener;
use super::poller::{Poller, Ready};
use super::statistics::Statistics;
use nearhead_disk::Nanos;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::os::fd::OwnedFd;

/// Longest command, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Answers waiting to be read beyond which no more commands are taken, in bytes.
const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Most connections to one control socket.
const CONNECTIONS_MAX: usize = 32;

/// What a command or a tick may use.
pub struct Context<'a, S: ?Sized> {
    /// The service; the loop drives it after the command.
    pub service: &'a mut S,
    /// The server's counts.
    pub statistics: Statistics,
    /// The time.
    pub now: Nanos,
}

/// Answers a command line with one line.
pub(crate) type Handler<'a, S> = Box<dyn FnMut(&str, &mut Context<'_, S>) -> String + 'a>;

/// What everybody at a control socket hears last: one line about how it ended.
pub(crate) type LastWords<'a, S> = Box<dyn FnMut(&Report, &S) -> String + 'a>;

/// A control socket.
pub(crate) struct Control<'a, S: ?Sized> {
    index: u32,
    listener: Listener,
    handler: Handler<'a, S>,
    connections: Vec<Option<ControlConnection>>,
}

struct ControlConnection {
    socket: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    interest: EventFlags,
    ended: bool,
}

impl<'a, S: ?Sized> Control<'a, S> {
    pub(crate) fn new(index: u32, listener: Listener, handler: Handler<'a, S>) -> Self {
        Self { index, listener, handler, connections: Vec::new() }
    }

    /// Tells the poller about the socket.
    pub(crate) fn register(&self, poller: &Poller) -> Result<(), ServerError> {
        let token = CONTROL_TOKENS | u64::from(self.index);
        poller.add(&self.listener, token, EventFlags::IN).map_err(in_step("epoll_ctl"))
    }

    /// Takes in those who knock; one too many is let go at once.
    pub(crate) fn accept(&mut self, poller: &Poller) {
        while let Ok(Some(socket)) = self.listener.accept() {
            let free = self.connections.iter().position(Option::is_none);
            let place = free.unwrap_or(self.connections.len());
            if place >= CONNECTIONS_MAX {
                continue;
            }
            let interest = EventFlags::IN;
            if poller.add(&socket, self.token(place), interest).is_err() {
                continue;
            }
            let (input, output) = (Vec::new(), Vec::new());
            let connection = ControlConnection { socket, input, output, interest, ended: false };
            if place == self.connections.len() {
                self.connections.push(None);
            }
            self.connections[place] = Some(connection);
        }
    }

    /// Tells everybody who is still connected one more line, before the socket goes away: as far as it can be sent at once.
    pub(crate) fn tell_last(&mut self, line: &str) {
        for connection in self.connections.iter_mut().flatten() {
            connection.output.extend_from_slice(line.as_bytes());
            connection.output.push(b'\n');
            // Who does not read hears nothing.
            let _ = connection.send();
        }
    }

    fn token(&self, place: usize) -> u64 {
        CONTROL_CONNECTION_TOKENS | u64::from(self.index) << 32 | place as u64
    }

    /// Serves a connection that is ready.
    pub(crate) fn on_ready(&mut self, ready: Ready, poller: &Poller, context: &mut Context<'_, S>) {
        let place = ready.token as u32 as usize;
        let token = self.token(place);
        let Some(slot) = self.connections.get_mut(place) else { return };
        let Some(connection) = slot else { return };
        if ready.flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            connection.receive();
        }
        let mut alive = true;
        // Sending makes room for the answers to further commands.
        while alive && connection.run_commands(&mut self.handler, context) {
            alive = connection.send();
        }
        alive = alive && connection.send();
        let done = connection.ended && connection.output.is_empty();
        if !alive || done || !connection.register(poller, token) {
            *slot = None;
        }
    }
}

impl ControlConnection {
    fn receive(&mut self) {
        while !self.ended && self.input.len() < LINE_BYTES_MAX {
            let mut bytes = [0; 4096];
            match rustix::io::read(&self.socket, &mut bytes[..]) {
                Ok(0) => self.ended = true,
                Ok(len) => self.input.extend_from_slice(&bytes[..len]),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => self.ended = true,
            }
        }
    }

    /// Runs the commands that were received whole; whether any ran.
    fn run_commands<S: ?Sized>(
        &mut self,
        handler: &mut Handler<'_, S>,
        context: &mut Context<'_, S>,
    ) -> bool {
        let mut ran = false;
        while self.output.len() < UNSENT_BYTES_MAX {
            let Some(line) = self.take_line() else { break };
            let answer = match std::str::from_utf8(&line) {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => handler(line.trim(), context),
                Err(_) => "error: expected a command in UTF-8".to_owned(),
            };
            self.output.extend_from_slice(answer.as_bytes());
            self.output.push(b'\n');
            ran = true;
        }
        ran
    }

    /// The next line; the last one needs no line end.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.input.iter().position(|byte| *byte == b'\n');
        if let Some(end) = end {
            return Some(self.input.drain(..=end).collect());
        }
        if self.input.len() >= LINE_BYTES_MAX {
            self.input.clear();
            self.ended = true;
            let words = format!("error: expected a command of at most {LINE_BYTES_MAX} bytes\n");
            self.output.extend_from_slice(words.as_bytes());
        }
        let last = self.ended && !self.input.is_empty();
        last.then(|| std::mem::take(&mut self.input))
    }

    /// Sends what the socket takes; whether the other side is still there.
    fn send(&mut self) -> bool {
        while !self.output.is_empty() {
            match rustix::net::send(&self.socket, &self.output, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn register(&mut self, poller: &Poller, token: u64) -> bool {
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::OUT, !self.output.is_empty());
        let full = self.output.len() >= UNSENT_BYTES_MAX;
        interest.set(EventFlags::IN, !self.ended && !full);
        if interest == self.interest {
            return true;
        }
        self.interest = interest;
        poller.modify(&self.socket, token, interest).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn connection() -> (ControlConnection, Poller, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let poller = Poller::new(Nanos::ZERO).unwrap();
        poller.add(&ours, 1, EventFlags::IN).unwrap();
        let connection = ControlConnection {
            socket: ours.into(),
            input: Vec::new(),
            output: Vec::new(),
            interest: EventFlags::IN,
            ended: false,
        };
        (connection, poller, theirs)
    }

    #[test]
    fn a_connection_waits_for_room_to_send_and_for_commands_exactly_while_it_can_use_them() {
        let (read, write) = (EventFlags::IN, EventFlags::OUT);
        let (mut connection, poller, _theirs) = connection();
        for (waiting, ended, expected) in [
            (0, false, read),
            (1, false, read | write),
            (UNSENT_BYTES_MAX - 1, false, read | write),
            (UNSENT_BYTES_MAX, false, write),
            (UNSENT_BYTES_MAX + 1, false, write),
            (UNSENT_BYTES_MAX, true, write),
            (1, true, write),
            (0, true, EventFlags::empty()),
            (0, false, read),
        ] {
            connection.output.resize(waiting, 0);
            connection.ended = ended;
            // As often as it is asked.
            for _ in 0..2 {
                assert!(connection.register(&poller, 1));
                assert_eq!(connection.interest, expected, "{waiting} bytes, ended: {ended}");
            }
        }
        let other = Poller::new(Nanos::ZERO).unwrap();
        connection.ended = true;
        assert!(!connection.register(&other, 1), "a poller that does not know it");
    }

    #[test]
    fn commands_run_until_as_many_answers_wait_as_may() {
        let mut handler: Handler<'_, ()> = Box::new(|_, _| "y".repeat(99));
        for (waiting, expected) in
            [(UNSENT_BYTES_MAX - 101, 2), (UNSENT_BYTES_MAX - 1, 1), (UNSENT_BYTES_MAX, 0)]
        {
            let (mut connection, _poller, mut theirs) = connection();
            theirs.write_all(b"one\ntwo\nthree\n").unwrap();
            connection.receive();
            connection.output.resize(waiting, 0);
            let statistics = Statistics::default();
            let mut context = Context { service: &mut (), statistics, now: Nanos::ZERO };
            assert_eq!(connection.run_commands(&mut handler, &mut context), expected > 0);
            assert_eq!(connection.output.len(), waiting + 100 * expected, "behind {waiting}");
        }
    }

    #[test]
    fn a_conversation_goes_on_for_as_long_as_the_other_side_wants_and_answers_may_be_long() {
        let path = std::env::temp_dir().join(format!("nearhead-nbd-{}-talk", std::process::id()));
        let listener = Listener::unix(&path, super::super::SocketAccess::default()).unwrap();
        let answer = |line: &str, _: &mut Context<'_, ()>| line.repeat(100_000);
        let mut control = Control::new(3, listener, Box::new(answer));
        let mut poller = Poller::new(Nanos::ZERO).unwrap();
        control.register(&poller).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client.set_nonblocking(true).unwrap();
        let clock = super::super::Clock::start();
        let mut turn = |control: &mut Control<'_, ()>| {
            let mut ready = Vec::new();
            let at_once = super::super::poller::Deadline { at: Nanos::ZERO, precise: false };
            poller.wait(Some(at_once), &clock, &mut ready).unwrap();
            for event in &ready {
                if event.token == CONTROL_TOKENS | 3 {
                    control.accept(&poller);
                } else {
                    assert_eq!(event.token >> 32, (CONTROL_CONNECTION_TOKENS >> 32) + 3);
                    let statistics = Statistics::default();
                    let mut context = Context { service: &mut (), statistics, now: Nanos::ZERO };
                    control.on_ready(*event, &poller, &mut context);
                }
            }
            ready.len()
        };
        for word in ["a", "word", "again"] {
            writeln!(client, "{word}").unwrap();
            let (mut found, expected) = (Vec::new(), word.len() * 100_000 + 1);
            let mut turns = 0;
            while found.len() < expected {
                turn(&mut control);
                let mut bytes = [0; 4096];
                match client.read(&mut bytes) {
                    Ok(0) => panic!("it hung up after {} of {expected} bytes", found.len()),
                    Ok(len) => found.extend_from_slice(&bytes[..len]),
                    Err(_) => turns += 1,
                }
                assert!(turns < 1000, "{} of {expected} bytes came", found.len());
            }
            assert!(found.starts_with(word.as_bytes()) && found.ends_with(b"\n"));
            assert_eq!(turn(&mut control), 0, "nothing is to be done");
        }
        drop(client);
        turn(&mut control);
        assert!(control.connections.iter().all(Option::is_none));
    }

    #[test]
    fn last_words_reach_whoever_is_still_connected() {
        let folder = std::env::temp_dir().join(format!("nearhead-last-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("c.sock");
        let listener = Listener::unix(&path, crate::SocketAccess::default()).unwrap();
        let mut control: Control<'_, ()> =
            Control::new(0, listener, Box::new(|line, _| line.to_uppercase()));
        let poller = Poller::new(Nanos::ZERO).unwrap();
        let mut staying = UnixStream::connect(&path).unwrap();
        let leaving = UnixStream::connect(&path).unwrap();
        control.accept(&poller);
        drop(leaving);
        control.tell_last("the end");
        drop(control);
        let mut heard = String::new();
        staying.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "the end\n");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
