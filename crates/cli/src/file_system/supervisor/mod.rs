//! The supervisor of a mount: it keeps the kernel's connection and the survival log, and starts a worker whenever there is none.
//!
//! The process that a user starts is the supervisor; it serves nothing and opens neither the volume nor the folder. What it keeps true:
//!
//! - the mount stays as long as this process or its worker lives: programs wait while there is no worker;
//! - no process uses the folder that it serves: a killed worker would wait for an answer of the next one. So the supervisor unmounts it;
//! - one worker at a time: the next one is started once the last has ended;
//! - each worker opens the same volume, unchanged since the worker before, or waits for it ([`VolumeMark`]);
//! - a worker that ends in order, or before the folder is mounted, is the last one, and its exit code is that of the command;
//! - workers that crash again and again are not followed for ever: then the connection ends, and programs get an error. `SIGKILL` comes from
//!   outside, and is no crash;
//! - a worker whose supervisor has ended starts another ([`worker::ToSupervisor::guard`]).
//!
//! Linux 6.9 and later send unanswered requests again. With an older kernel the mount ends with its worker.

mod channel;
mod process;
mod worker;

use super::MountArgs;
use super::mounts::Served;
use crate::service_manager::ServiceManager;
use crate::stopping_signals::stopping_signals;
pub(super) use channel::VolumeMark;
use channel::{Agreed, Channel, Message};
use nearhead_fuse::{Connection, MemoryLog};
use nearhead_output::{alarm, note};
use process::{Ended, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

pub(super) use process::Role;
pub(super) use worker::{CannotGoOn, Orders, ToSupervisor};

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
    Mounted(Agreed, OwnedFd),
    Ready(u64, VolumeMark),
    /// The worker was asked to end.
    Stop,
    GiveUp(u64),
    Ended(u64, Ended),
    /// A signal that stops.
    Signal(i32),
}

struct Supervisor {
    folder: PathBuf,
    log: OwnedFd,
    connection: Option<(Agreed, Connection)>,
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
    supervisor.connection = Some((agreed, agreed.connection(device)));
    supervisor.adopt(worker, orders)?;
    supervisor.supervise(&events)
}

impl Supervisor {
    fn new(args: &MountArgs, log: OwnedFd) -> Result<(Self, Receiver<Event>), String> {
        let (sender, events) = channel();
        let signalled = sender.clone();
        stopping_signals(move |signal| drop(signalled.send(Event::Signal(signal))))?;
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
        let go_on = self.connection.as_ref().map(|(agreed, _)| agreed.opened_again());
        let device = self.connection.as_ref().map(|(_, connection)| connection.device.as_fd());
        let with: Vec<_> = [self.log.as_fd()].into_iter().chain(device).collect();
        let started = Worker::start(&Message::Serve { go_on }, &with, self.workers, &self.sender);
        self.worker =
            Some(started.map_err(|error| format!("mount: no worker can be started: {error}"))?);
        if let (Some((kept, _)), Some(agreed)) = (&mut self.connection, go_on) {
            *kept = agreed;
        }
        Ok(())
    }

    /// Starts a worker, or tries again later: processes or descriptors may be short for a while.
    fn start_another(&mut self) {
        if let Err(why) = self.start_worker() {
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            let (place, after) = (self.folder.display(), self.pause.as_millis());
            alarm(&format!("mount {place}: {why}; tried again in {after} ms"));
            self.start_at = Some(Instant::now() + self.pause);
        }
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
                Ok(Event::Mounted(agreed, device)) => {
                    self.connection = Some((agreed, agreed.connection(device)));
                    self.unmount_if_stopping();
                }
                Ok(Event::Ready(number, volume)) if number == self.workers => {
                    self.worker_is_ready(volume);
                }
                Ok(Event::GiveUp(number)) if number == self.workers => self.is_hopeless = true,
                Ok(Event::Stop) => self.stop("unmounting"),
                Ok(Event::Ended(number, how)) if number == self.workers => {
                    self.worker = None;
                    if let Some(code) = self.follow(how)? {
                        return self.end(code);
                    }
                }
                Ok(Event::Signal(signal)) => {
                    self.stop(&format!("signal {signal}: unmounting"));
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
                self.start_another();
            }
        }
    }

    /// Decides what follows a worker that has ended: another one later, or the end of the command with an exit code.
    fn follow(&mut self, how: Ended) -> Result<Option<i32>, String> {
        let place = self.folder.display();
        let (served, reason) = (self.ready_at.take(), how.in_words());
        if how.is_in_order() || self.has_been_unmounted() {
            return Ok(Some(how.code()));
        }
        let Some((_, connection)) = &self.connection else {
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

    fn worker_is_ready(&mut self, volume: VolumeMark) {
        if let Some((agreed, _)) = &mut self.connection {
            agreed.volume = volume;
        }
        if self.workers > 1 {
            note(&format!("mount {}: going on", self.folder.display()));
        }
        (self.ready_at, self.pause) = (Some(Instant::now()), PAUSE_MIN);
        self.note_served();
        if let Some(worker) = &self.worker {
            worker.answer_ready();
        }
    }

    /// Lets `umount` find this process.
    fn note_served(&mut self) {
        let mount = self.connection.as_ref().and_then(|(agreed, _)| agreed.mount);
        if self.served.is_none() {
            self.served = mount.and_then(Served::note);
        }
    }

    /// Unmounts the folder once no program uses it.
    fn stop(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            ServiceManager::find().stopping("unmounting");
            note(why);
            self.unmount_if_stopping();
        }
    }

    fn unmount_if_stopping(&self) {
        if self.is_stopping && self.connection.is_some() {
            nearhead_fuse::unmount_when_unused(&self.folder);
        }
    }

    /// Whether the kernel has ended the connection.
    fn has_been_unmounted(&self) -> bool {
        let Some((_, connection)) = &self.connection else { return false };
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
