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
use std::sync::mpsc;

/// Program of this process, whatever is at its path by now.
const SELF: &str = "/proc/self/exe";
/// Exit code of a shell for a process that a signal ended: 128 and the signal.
const SIGNAL_CODE: i32 = 128;

/// Part of a process in a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Serves the folder.
    Worker,
    /// Supervises a worker that runs.
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
        events: &mpsc::Sender<Event>,
    ) -> io::Result<Self> {
        let (channel, other) = Channel::pair()?;
        channel.send(orders, with)?;
        // The thread first: a worker that is started has one that sees its end.
        let (sender, receiver) = mpsc::channel::<Child>();
        watch(channel.try_clone()?, number, events, move || {
            // Nothing comes of a worker that was not started.
            let status = receiver.recv().ok()?.wait();
            // It fails only for a process that was waited for.
            status.ok().map(Ended::Child)
        })?;
        let mut command = command_as(Role::Worker);
        let child = command.stdin(Stdio::from(other)).spawn()?;
        let _ = sender.send(child);
        Ok(Self(channel))
    }

    /// The worker `process`, which another supervisor started.
    pub(super) fn adopt(
        process: u32,
        channel: Channel,
        number: u64,
        events: &mpsc::Sender<Event>,
    ) -> io::Result<Self> {
        let found = Pid::from_raw(process.cast_signed());
        let found = found.ok_or_else(|| io::Error::other("expected the number of a process"))?;
        let pidfd = pidfd_open(found, PidfdFlags::empty())?;
        watch(channel.try_clone()?, number, events, move || {
            let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
            while poll(&mut ended, None) == Err(Errno::INTR) {}
            Some(Ended::Adopted)
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

/// Turns the messages of a worker into events, and its end after the last of them.
fn watch(
    channel: Channel,
    number: u64,
    events: &mpsc::Sender<Event>,
    end: impl FnOnce() -> Option<Ended> + Send + 'static,
) -> io::Result<()> {
    let events = events.clone();
    thread("worker", move || {
        // An error is the end of the messages: the process is waited for below.
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
        if let Some(how) = end() {
            let _ = events.send(Event::Ended(number, how));
        }
    })
}
