//! The supervisor of a mount: it keeps the kernel's connection and the survival log, and starts a worker whenever there is none.
//!
//! The process that a user starts is the supervisor; it serves nothing and opens neither the volume nor the folder. What it keeps true:
//!
//! - the mount stays as long as this process or its worker lives: programs wait while there is no worker;
//! - one worker at a time: the next one is started once the last has ended;
//! - a worker that ends in order, or before the folder is mounted, is the last one, and its exit code is that of the command;
//! - workers that crash again and again are not followed for ever: then the connection ends, and programs get an error. `SIGKILL` comes from
//!   outside, and is no crash;
//! - a worker whose supervisor has ended starts another ([`worker::ToSupervisor::guard`]).
//!
//! It needs Linux 6.9, which sends unanswered requests again. With an older kernel the mount ends with its worker.

mod channel;
mod process;
mod worker;

use super::MountArgs;
use super::mounts::Served;
use channel::{Agreed, Channel, Message};
use nearhead_fuse::{Connection, MemoryLog};
use nearhead_output::{alarm, note};
use process::{Ended, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

pub(super) use process::Role;
pub(super) use worker::Orders;

/// Pause before the first worker that follows one that ended, doubled with each one that ends soon.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A worker that served this long ended for another reason than the one before.
const LIVES_AFTER: Duration = Duration::from_secs(60);
/// Workers that crashed while they served, one soon after the other, before the mount is given up: a request crashes each of them.
const CRASHES_MAX: u32 = 8;
/// Longest time without a look at whether the folder is mounted, while there is no worker.
const LOOK_AFTER: Duration = Duration::from_millis(200);

/// Events that the supervisor handles; those of a worker have its number.
enum Event {
    Mounted(Connection),
    Ready(u64),
    /// `umount` finds this process, unless no file can be made.
    Noted(Option<Served>),
    GiveUp(u64),
    Ended(u64, Ended),
    /// A signal that stops.
    Signal(i32),
}

struct Supervisor {
    folder: PathBuf,
    log: OwnedFd,
    connection: Option<Connection>,
    worker: Option<Worker>,
    workers: u64,
    /// When the worker began to serve.
    ready_at: Option<Instant>,
    start_at: Option<Instant>,
    pause: Duration,
    crashes: u32,
    is_stopping: bool,
    /// No worker can go on.
    is_hopeless: bool,
    served: Option<Served>,
    sender: Sender<Event>,
}

/// Supervises the mount that `args` describe. Returns once it has ended.
pub(super) fn run(args: &MountArgs) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("mount: {error}");
    let log = MemoryLog::memory().map_err(failed)?;
    let (mut supervisor, events) = Supervisor::new(args, log)?;
    supervisor.start_worker()?;
    supervisor.supervise(&events)
}

/// Goes on for a supervisor that has ended, and whose worker started this process.
pub(super) fn go_on(args: &MountArgs) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("mount: {error}");
    let orders = Channel::inherited().map_err(failed)?;
    let received = orders.receive().map_err(failed)?;
    let Some((Message::Supervise { worker, agreed }, descriptors)) = received else {
        return Err("mount: expected the orders of a worker (internal error)".to_owned());
    };
    let [log, device] = <[OwnedFd; 2]>::try_from(descriptors)
        .map_err(|_| "mount: expected a log and a connection (internal error)".to_owned())?;
    let (mut supervisor, events) = Supervisor::new(args, log)?;
    supervisor.connection = Some(agreed.connection(device));
    supervisor.adopt(worker, orders)?;
    supervisor.supervise(&events)
}

impl Supervisor {
    fn new(args: &MountArgs, log: OwnedFd) -> Result<(Self, Receiver<Event>), String> {
        let (sender, events) = channel();
        watch_signals(&sender)?;
        // Its own name for tools that list processes.
        let _ = std::fs::write("/proc/self/comm", "nearhead-mount");
        let supervisor = Self {
            folder: super::mount::absolute(&args.folder),
            log,
            connection: None,
            worker: None,
            workers: 0,
            ready_at: None,
            start_at: None,
            pause: PAUSE_MIN,
            crashes: 0,
            is_stopping: false,
            is_hopeless: false,
            served: None,
            sender,
        };
        Ok((supervisor, events))
    }

    fn start_worker(&mut self) -> Result<(), String> {
        self.workers += 1;
        let go_on = self.connection.as_ref().map(Agreed::of);
        let device = self.connection.as_ref().map(|connection| connection.device.as_fd());
        let with: Vec<_> = [self.log.as_fd()].into_iter().chain(device).collect();
        let started = Worker::start(&Message::Serve { go_on }, &with, self.workers, &self.sender);
        self.worker =
            Some(started.map_err(|error| format!("mount: no worker can be started: {error}"))?);
        if self.is_stopping {
            self.stop_worker();
        }
        Ok(())
    }

    fn adopt(&mut self, process: u32, channel: Channel) -> Result<(), String> {
        self.workers += 1;
        let adopted = Worker::adopt(process, channel, self.workers, &self.sender);
        self.worker = Some(adopted.map_err(|error| {
            format!("mount: the worker {process} cannot be supervised: {error}")
        })?);
        self.ready_at = Some(Instant::now());
        self.note_served();
        Ok(())
    }

    fn supervise(&mut self, events: &Receiver<Event>) -> Result<(), String> {
        loop {
            let left = self.start_at.map(|at| at.saturating_duration_since(Instant::now()));
            let event = match left {
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(left) => events.recv_timeout(left.min(LOOK_AFTER)),
            };
            match event {
                Ok(Event::Mounted(connection)) => self.connection = Some(connection),
                Ok(Event::Ready(number)) if number == self.workers => self.worker_is_ready(),
                Ok(Event::GiveUp(number)) if number == self.workers => self.is_hopeless = true,
                Ok(Event::Noted(served)) => self.served_is_noted(served),
                Ok(Event::Ended(number, how)) if number == self.workers => {
                    self.worker = None;
                    if let Some(code) = self.follow(how)? {
                        return self.end(code);
                    }
                }
                Ok(Event::Signal(signal)) => {
                    self.is_stopping = true;
                    note(&format!("signal {signal}: unmounting"));
                    self.stop_worker();
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("mount: nothing is left to supervise (internal error)".to_owned());
                }
            }
            if self.start_at.is_none() {
                continue;
            }
            if self.has_been_unmounted() {
                return Err(format!(
                    "mount {}: it was unmounted while no process served it; what was not durable is lost",
                    self.folder.display()
                ));
            }
            if self.start_at.is_some_and(|at| at <= Instant::now()) {
                self.start_at = None;
                self.start_worker()?;
            }
        }
    }

    /// What follows a worker that has ended: another one later, or the end of the command with this exit code.
    fn follow(&mut self, how: Ended) -> Result<Option<i32>, String> {
        let place = self.folder.display();
        let (served, reason) = (self.ready_at.take(), how.in_words());
        if how.is_in_order() || self.has_been_unmounted() {
            return Ok(Some(how.code()));
        }
        let Some(connection) = &self.connection else {
            // The worker has printed why.
            return Ok(Some(how.code()));
        };
        if self.is_hopeless {
            return Err(format!(
                "mount {place}: no process can go on; it is given up: `nearhead umount {place}`, and mount it again"
            ));
        }
        if !connection.has_resend {
            return Err(format!(
                "mount {place}: its process {reason}; with a kernel before Linux 6.9 no other can go on: `nearhead umount {place}`, and mount it again"
            ));
        }
        match served {
            Some(since) if since.elapsed() >= LIVES_AFTER => {
                (self.crashes, self.pause) = (u32::from(how.is_crash()), PAUSE_MIN);
            }
            Some(_) => self.crashes += u32::from(how.is_crash()),
            None => self.pause = (self.pause * 2).min(PAUSE_MAX),
        }
        if self.crashes > CRASHES_MAX {
            return Err(format!(
                "mount {place}: {CRASHES_MAX} processes crashed one soon after the other; the last one {reason}. It is given up: `nearhead umount \
                 {place}`, and mount it again"
            ));
        }
        let after = self.pause.as_millis();
        alarm(&format!("mount {place}: its process {reason}; another one goes on in {after} ms"));
        self.start_at = Some(Instant::now() + self.pause);
        Ok(None)
    }

    fn worker_is_ready(&mut self) {
        if self.workers > 1 {
            note(&format!("mount {}: going on", self.folder.display()));
        }
        (self.ready_at, self.pause) = (Some(Instant::now()), PAUSE_MIN);
        match self.served {
            Some(_) => self.answer_ready(),
            None => self.note_served(),
        }
    }

    /// Lets `umount` find this process. On a thread of its own, as it asks the worker, which may end during that time.
    fn note_served(&self) {
        let (folder, sender) = (self.folder.clone(), self.sender.clone());
        let noting = std::thread::Builder::new().name("noting".to_owned());
        let started = noting.spawn(move || {
            let _ = sender.send(Event::Noted(Served::note(&folder)));
        });
        if started.is_err() {
            self.answer_ready();
        }
    }

    fn served_is_noted(&mut self, served: Option<Served>) {
        self.served = served;
        self.answer_ready();
    }

    fn answer_ready(&self) {
        if let Some(worker) = &self.worker {
            worker.answer_ready();
        }
    }

    fn stop_worker(&self) {
        if let Some(worker) = &self.worker {
            worker.stop();
        }
    }

    /// Whether the kernel has ended the connection.
    fn has_been_unmounted(&self) -> bool {
        let Some(connection) = &self.connection else { return false };
        let mut found = [PollFd::new(&connection.device, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut found, Some(&now)).is_ok()
            && found[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// Ends with the exit code of the worker, which has printed its reason.
    fn end(&mut self, code: i32) -> Result<(), String> {
        self.served = None;
        match code {
            0 => Ok(()),
            code => std::process::exit(code),
        }
    }
}

fn watch_signals(sender: &Sender<Event>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("signals cannot be handled: {error}");
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP]).map_err(failed)?;
    let sender = sender.clone();
    let waiting = std::thread::Builder::new().name("signals".to_owned());
    let started = waiting.spawn(move || {
        // A terminal that goes away must not take the file system with it.
        for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
            let _ = sender.send(Event::Signal(signal));
        }
    });
    started.map(drop).map_err(failed)
}
