//! The process that supervises an attached volume: it has the connection to the kernel, and starts a worker whenever there is none.
//!
//! It serves nothing and touches neither the device nor the file: whatever waits for those waits for the worker, and must not keep this
//! from starting one. What it keeps true:
//!
//! - the block device stays as long as this process or a worker lives, whatever becomes of workers: who uses it waits;
//! - one worker at a time: the next is started once the last has ended, with everything that it had open;
//! - a worker runs the very program that supervises, also if another one lies at its path by now, until somebody asks for that
//!   (`nearhead upgrade`);
//! - a worker that ends before it is ready is started again after a pause that doubles, for as long as anybody wants the device;
//! - when the device was taken away, the worker ends by itself, and this does after it; one that is killed then is followed by another,
//!   since what it had answered is to be durable.

use super::AttachArgs;
use super::backend::{Backend, Device, Shape, VolumeFacts};
use super::desk;
use super::log::{LOOK_EVERY, Watch};
use super::place::{Facts, Place};
use super::worker_process::{Binary, Said, Worker};
use crate::control::{Links, directories};
use nearhead_output::{note, say, say_json_line};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The first pause before a worker that failed at once is followed by another, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So many workers may fail to end in order once the device was taken away.
const ENDINGS_MAX: u32 = 3;

/// Where what came of it is told.
type Answer = Sender<Result<String, String>>;

/// What the supervisor hears.
pub(super) enum Event {
    /// The worker with this number said something.
    Worker(u64, Said),
    /// The block device was made, or not.
    Made(Result<PathBuf, String>),
    /// Go on with another program, and tell how that went.
    Upgrade(PathBuf, Answer),
    /// The volume has grown to so many bytes: give the device that size, and tell how that went.
    Resize(u64, Answer),
    /// A signal that stops.
    Signal(i32),
}

/// Said once the device can be used.
#[derive(Debug, Serialize)]
pub(super) struct Ready<'a> {
    event: &'static str,
    name: &'a str,
    target: &'a str,
    device: &'a Path,
    by: &'a str,
    outlives_a_kill: bool,
    pid: u32,
}

/// An upgrade under way.
struct Upgrade {
    before: Arc<Binary>,
    answer: Answer,
}

struct Supervisor<'a> {
    args: &'a AttachArgs,
    place: Place,
    target: String,
    read_only: bool,
    backend: &'static dyn Backend,
    device: Arc<dyn Device>,
    binary: Arc<Binary>,
    worker: Option<Worker>,
    workers: u64,
    /// Whether the worker that runs is ready.
    is_ready: bool,
    facts: Option<Facts>,
    links: Links,
    upgrade: Option<Upgrade>,
    /// One that waits until a worker is ready.
    wanted: Option<(PathBuf, Answer)>,
    pause: Duration,
    /// Workers that did not end in order after the device was taken away.
    endings: u32,
    sender: Sender<Event>,
}

/// Supervises until the device is taken away.
pub(super) fn run(
    args: &AttachArgs,
    settings: &nearhead_settings::ServeArgs,
) -> Result<(), String> {
    let place = Place::of(settings, args.name.as_deref())?;
    place.prepare()?;
    let lock = place.lock()?;
    let backend = super::backend::chosen(args.by)?;
    // Whoever uses the disk must not wait for a process that was killed to free memory.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
    let (sender, receiver) = channel();
    watch_signals(&sender)?;
    let device: Arc<dyn Device> = Arc::from(backend.begin(&place)?);
    let mut supervisor = Supervisor {
        args,
        target: absolute(settings.target()?),
        read_only: settings.read_only,
        backend,
        device,
        binary: Arc::new(Binary::running()?),
        worker: None,
        workers: 0,
        is_ready: false,
        facts: None,
        links: Links::default(),
        upgrade: None,
        wanted: None,
        pause: PAUSE_MIN,
        endings: 0,
        sender,
        place: place.clone(),
    };
    let ended = supervisor.supervise(&receiver);
    // Also after an orderly end, of which nothing is left: by force the connection ends before it is unmounted.
    let device = supervisor.facts.as_ref().map(|facts| facts.device.as_path());
    let _ = backend.give_up(&place, device);
    // Who waits for the end of this waits for the lock.
    place.remove();
    if let Err(why) = &ended {
        place.leave_word(why);
    }
    drop(lock);
    ended
}

impl Supervisor<'_> {
    fn supervise(&mut self, events: &Receiver<Event>) -> Result<(), String> {
        desk::listen(&self.place, &self.sender)?;
        self.start_worker()?;
        let mut log = Watch::begin();
        loop {
            let event = events.recv_timeout(LOOK_EVERY);
            // Also after an event: workers that fail one after the other leave no pause that long.
            log.look(&self.place);
            let event = match event {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("attach: nobody is left (internal error)".to_owned());
                }
            };
            match event {
                Event::Worker(number, said) if number == self.workers => match said {
                    Said::Ready { control, volume } => self.worker_is_ready(control, volume),
                    Said::Ended(how) => {
                        if self.worker_ended(&how)? {
                            return Ok(());
                        }
                    }
                },
                Event::Worker(..) => {}
                Event::Made(Ok(device)) => self.announce(&device)?,
                Event::Made(Err(why)) => {
                    self.stop_worker();
                    return Err(why);
                }
                Event::Upgrade(path, answer) => self.begin_upgrade(path, answer),
                Event::Resize(bytes, answer) => self.resize(bytes, answer),
                Event::Signal(signal) => self.take_away_at(signal),
            }
        }
    }

    fn start_worker(&mut self) -> Result<(), String> {
        self.workers += 1;
        self.is_ready = false;
        let (number, sender) = (self.workers, self.sender.clone());
        let (connection, what) = self.device.for_worker()?;
        let worker = Worker::start(&self.binary, connection, what, move |said| {
            // Nobody hears it once this process ends.
            let _ = sender.send(Event::Worker(number, said));
        })?;
        self.worker = Some(worker);
        Ok(())
    }

    fn stop_worker(&self) {
        if let Some(worker) = &self.worker {
            worker.stop();
        }
    }

    fn worker_is_ready(&mut self, control: Option<PathBuf>, volume: VolumeFacts) {
        let process = self.worker.as_ref().map_or(0, Worker::process);
        (self.is_ready, self.pause) = (true, PAUSE_MIN);
        match &mut self.facts {
            None => {
                // On a thread of its own: it asks the worker, who may end meanwhile.
                let facts = Facts {
                    target: self.target.clone(),
                    device: PathBuf::new(),
                    by: self.backend.name().to_owned(),
                    control,
                };
                self.facts = Some(facts);
                let (device, place, sender) =
                    (Arc::clone(&self.device), self.place.clone(), self.sender.clone());
                let shape = Shape {
                    block_bytes: self.args.block_size.bytes(),
                    read_only: self.read_only,
                    volume,
                };
                std::thread::spawn(move || {
                    let _ = sender.send(Event::Made(device.make(&place, shape, process)));
                });
            }
            Some(facts) => {
                note(&format!("attached volume {}: going on", self.place.name));
                facts.control = control;
                self.tell_others();
                let (device, name) = (Arc::clone(&self.device), self.place.name.clone());
                // On a thread of its own: it waits for the worker, who may end meanwhile.
                std::thread::spawn(move || {
                    if let Err(why) = device.go_on(process) {
                        note(&format!("attached volume {name}: {why}"));
                    }
                });
            }
        }
        if let Some(Upgrade { answer, .. }) = self.upgrade.take() {
            let _ = answer.send(Ok(format!(
                "{} goes on with {}",
                self.place.name,
                self.binary.path().display()
            )));
        }
        if let Some((path, answer)) = self.wanted.take() {
            self.begin_upgrade(path, answer);
        }
    }

    /// Whether that is the end.
    fn worker_ended(&mut self, how: &str) -> Result<bool, String> {
        self.worker = None;
        let name = &self.place.name;
        if self.device.has_ended() {
            if how.is_empty() {
                return Ok(true);
            }
            self.endings += 1;
            if self.endings == ENDINGS_MAX || self.facts.is_none() {
                return Err(format!(
                    "attached volume {name}: it was detached, and its worker {how}: what was written last may not be durable"
                ));
            }
            self.start_worker()?;
            return Ok(false);
        }
        let was_ready = self.is_ready;
        if !was_ready && self.facts.is_none() {
            // It has said why.
            return Err(format!("attach {}: the volume cannot be served ({how})", self.target));
        }
        if !how.is_empty() && !self.device.outlives_a_kill() {
            return Err(format!(
                "attached volume {name}: the worker ended ({how}), and this kernel (before Linux 6.9) cannot repeat what it had not \
                 answered: whoever uses the device gets errors"
            ));
        }
        match self.upgrade.take() {
            Some(upgrade) if !was_ready => {
                self.binary = upgrade.before;
                let _ = upgrade.answer.send(Err(format!(
                    "{name} goes on with the program that it had: the other one ended before it was ready ({how})"
                )));
            }
            other => self.upgrade = other,
        }
        if self.upgrade.is_none() {
            let how = if how.is_empty() { "was stopped" } else { how };
            note(&format!(
                "attached volume {name}: the worker {how}; starting another, who uses the device waits"
            ));
        }
        if !was_ready {
            std::thread::sleep(self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        self.start_worker()?;
        Ok(false)
    }

    fn announce(&mut self, device: &Path) -> Result<(), String> {
        let Some(facts) = &mut self.facts else { return Ok(()) };
        device.clone_into(&mut facts.device);
        self.place.make_link(device)?;
        if let Err(problem) = super::udev::note(device, &self.place.name) {
            // Who mounts it by hand does not need it.
            note(&problem);
        }
        self.tell_others();
        let (name, link) = (&self.place.name, self.place.link());
        let outlives_a_kill = self.device.outlives_a_kill();
        if !outlives_a_kill {
            note(
                "this kernel (before Linux 6.9) cannot repeat requests: if the worker is killed, whoever uses the device gets errors",
            );
        }
        let ready = Ready {
            event: "attached",
            name,
            target: &self.target,
            device: &link,
            by: self.backend.name(),
            outlives_a_kill,
            pid: std::process::id(),
        };
        crate::service_manager::ServiceManager::find().ready();
        if self.args.serve.json || self.args.role.is_some() {
            return say_json_line(&ready);
        }
        say(&link.display().to_string());
        Ok(())
    }

    /// What others need, and the control socket under the device's name.
    fn tell_others(&mut self) {
        let Some(facts) = &self.facts else { return };
        if let Err(problem) = self.place.note(facts) {
            note(&problem);
        }
        let control = facts.control.clone();
        let number = std::fs::metadata(&facts.device).map(|found| found.rdev()).ok();
        if let (Some(control), Some(number)) = (control, number) {
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            let name = format!("device-{major}-{minor}.control");
            let folder = directories().into_iter().next().unwrap_or_default();
            self.links = Links::default();
            self.links = Links::make([folder.join(name)], &control);
        }
    }

    fn begin_upgrade(&mut self, path: PathBuf, answer: Answer) {
        let refused = |why: String| {
            let _ = answer.send(Err(why));
        };
        if self.upgrade.is_some() || self.wanted.is_some() {
            return refused(format!("{}: an upgrade is under way already", self.place.name));
        }
        if !self.is_ready {
            self.wanted = Some((path, answer));
            return;
        }
        match Binary::at(&path) {
            Err(why) => refused(why),
            Ok(binary) => {
                let before = std::mem::replace(&mut self.binary, Arc::new(binary));
                self.upgrade = Some(Upgrade { before, answer });
                self.stop_worker();
            }
        }
    }

    fn resize(&self, size_bytes: u64, answer: Answer) {
        let name = self.place.name.clone();
        let made = self.facts.as_ref().filter(|facts| !facts.device.as_os_str().is_empty());
        let Some(path) = made.map(|facts| facts.device.clone()) else {
            let _ =
                answer.send(Err(format!("resize {name}: the device is not made yet; try again")));
            return;
        };
        let (device, place) = (Arc::clone(&self.device), self.place.clone());
        // On a thread of its own: the kernel may ask the worker, who may end meanwhile.
        std::thread::spawn(move || {
            let resized = device.resize(&place, &path, size_bytes);
            let _ = answer.send(resized.map(|()| format!("{name} has {size_bytes} bytes")));
        });
    }

    /// A signal: the device is taken away if nobody uses it.
    fn take_away_at(&self, signal: i32) {
        let name = &self.place.name;
        let Some(facts) = self.facts.clone().filter(|facts| !facts.device.as_os_str().is_empty())
        else {
            // Nobody has seen it yet.
            self.stop_worker();
            let _ = self.backend.give_up(&self.place, None);
            return;
        };
        note(&format!("signal {signal}: detaching {name}"));
        let (place, backend) = (self.place.clone(), self.backend);
        // It asks the worker, so it is another thread's.
        std::thread::spawn(move || {
            if let Err(why) = super::detach::take_away(&place, &facts, backend) {
                note(&why);
            }
        });
    }
}

/// A target that others can find from elsewhere.
fn absolute(target: &str) -> String {
    let path = Path::new(target).canonicalize().ok();
    path.and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or_else(|| target.to_owned())
}

fn watch_signals(sender: &Sender<Event>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("signals cannot be handled: {error}");
    let mut signals =
        signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP]).map_err(failed)?;
    let sender = sender.clone();
    let waiting = std::thread::Builder::new().name("signals".to_owned());
    let started = waiting.spawn(move || {
        // A terminal that goes away must not take the disk of a file system with it.
        for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
            let _ = sender.send(Event::Signal(signal));
        }
    });
    started.map(drop).map_err(failed)
}
