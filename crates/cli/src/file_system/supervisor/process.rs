//! The processes of a mount: how each is started, and a worker as its supervisor has it.

use super::Event;
use super::channel::{Channel, Message};
use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

/// Program of this process, whatever is at its path by now.
const SELF: &str = "/proc/self/exe";
/// Exit code of a shell for a process that a signal ended: 128 and the signal.
const SIGNAL_CODE: i32 = 128;

/// Part of a process in a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// It serves the folder.
    Worker,
    /// It supervises a worker that runs.
    Supervisor,
}

/// End of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    Child(ExitStatus),
    /// One that this process did not start; only its parent learns how it ended.
    Adopted,
}

impl Ended {
    pub(super) fn is_in_order(self) -> bool {
        matches!(self, Self::Child(status) if status.success())
    }

    /// Whether the process ended by a fault of its own, as far as that can be known.
    pub(super) fn is_crash(self) -> bool {
        matches!(self, Self::Child(status) if status.signal() != Some(Signal::KILL.as_raw()))
    }

    pub(super) fn code(self) -> i32 {
        match self {
            Self::Child(status) => {
                status.code().unwrap_or_else(|| SIGNAL_CODE + status.signal().unwrap_or_default())
            }
            Self::Adopted => 0,
        }
    }

    pub(super) fn in_words(self) -> String {
        match self {
            Self::Child(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("was ended by signal {signal}"),
                (None, code) => format!("ended with exit code {}", code.unwrap_or(-1)),
            },
            Self::Adopted => "ended".to_owned(),
        }
    }
}

/// A worker that runs.
pub(super) struct Worker(Channel);

impl Worker {
    /// Starts a worker with these orders. Its messages and its end become events with `number`.
    pub(super) fn start(
        orders: &Message,
        with: &[BorrowedFd<'_>],
        number: u64,
        events: &Sender<Event>,
    ) -> io::Result<Self> {
        let (channel, other) = Channel::pair()?;
        channel.send(orders, with)?;
        let mut command = command_as(Role::Worker);
        let mut child = command.stdin(Stdio::from(other)).spawn()?;
        // Its copy of the other end: without it the end of the worker is noticed.
        drop(command);
        let listening = channel.try_clone().and_then(|channel| listen(channel, number, events));
        if let Err(error) = listening {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        wait_for(child, number, events)?;
        Ok(Self(channel))
    }

    /// The worker `process`, which another supervisor started.
    pub(super) fn adopt(
        process: u32,
        channel: Channel,
        number: u64,
        events: &Sender<Event>,
    ) -> io::Result<Self> {
        let found = Pid::from_raw(process.cast_signed());
        let found = found.ok_or_else(|| io::Error::other("expected the number of a process"))?;
        let pidfd = pidfd_open(found, PidfdFlags::empty())?;
        listen(channel.try_clone()?, number, events)?;
        let (ends, events) = (pidfd, events.clone());
        thread("worker", move || {
            let mut ended = [PollFd::new(&ends, PollFlags::IN)];
            while poll(&mut ended, None) == Err(Errno::INTR) {}
            let _ = events.send(Event::Ended(number, Ended::Adopted));
        })?;
        Ok(Self(channel))
    }

    /// Answers [`Message::Ready`].
    pub(super) fn answer_ready(&self) {
        let _ = self.0.send(&Message::Noted, &[]);
    }
}

pub(super) fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// This command in another role.
pub(super) fn command_as(role: Role) -> Command {
    let mut own = std::env::args_os();
    let mut command = Command::new(SELF);
    if let Some(name) = own.next() {
        command.arg0(name);
    }
    let mut arguments: Vec<OsString> = own.collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--role") {
        arguments.drain(at..(at + 2).min(arguments.len()));
    }
    let name = role.to_possible_value();
    let name = name.as_ref().map_or("", |value| value.get_name());
    command.args(arguments).arg("--role").arg(name);
    command
}

/// Messages of a worker become events.
fn listen(channel: Channel, number: u64, events: &Sender<Event>) -> io::Result<()> {
    let events = events.clone();
    thread("messages", move || {
        // An error is the end: the process itself is watched by another thread.
        while let Ok(Some((message, descriptors))) = channel.receive() {
            let event = match (message, descriptors.into_iter().next()) {
                (Message::Mounted(agreed), Some(device)) => Event::Mounted(agreed, device),
                (Message::Stop, _) => Event::Stop,
                (Message::Ready(volume), _) => Event::Ready(number, volume),
                (Message::GiveUp, _) => Event::GiveUp(number),
                _ => continue,
            };
            let _ = events.send(event);
        }
    })
}

fn wait_for(mut child: Child, number: u64, events: &Sender<Event>) -> io::Result<()> {
    let events = events.clone();
    thread("worker", move || {
        // It fails only for a process that was waited for.
        if let Ok(status) = child.wait() {
            let _ = events.send(Event::Ended(number, Ended::Child(status)));
        }
    })
}
