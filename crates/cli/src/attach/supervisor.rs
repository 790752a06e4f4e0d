//! The process that supervises an attached volume: it has the connection to the kernel, and starts a worker whenever there is none.
//!
//! It serves nothing and touches neither the device nor the file: requests for those wait for the worker, and must not keep this process from
//! starting one. What it keeps true:
//!
//! - the block device stays as long as this process or a worker lives, whatever becomes of workers: its users wait;
//! - one worker at a time: the next is started once the last has ended, with everything that it had open;
//! - **every worker after the first opens exactly what the first one opened** ([`super::identity`]), and runs the same program, until another
//!   one is asked for (`nearhead upgrade`);
//! - a worker that ends before it is ready, or cannot be started, is followed by another after a pause that doubles, for as long as the device
//!   is wanted. Only before there is a device does that end this process;
//! - another program that does not get on towards readiness is ended, and the one before goes on;
//! - when the device was taken away, the worker ends on its own, and this process after it; a worker that is killed then is followed by
//!   another, since what it had answered is to be durable.

mod signals;
mod workers;

use super::AttachArgs;
use super::backend::{Backend, Device, Shape, VolumeFacts};
use super::desk;
use super::identity::Identity;
use super::kept::Kept;
use super::place::{Facts, Place};
use super::resume::Resumed;
use super::worker_process::{Binary, Said, Worker};
use crate::bounded_log::BoundedLog;
use crate::control::{Links, directories};
use crate::target::DeviceNames;
use nearhead_output::{note, say, say_json_line};
use nearhead_settings::ServeArgs;
use serde::Serialize;
use signals::watch_signals;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use workers::{PAUSE_MIN, Upgrade};

/// Channel for the outcome of a command.
type Answer = Sender<Result<String, String>>;

/// Events that the supervisor handles.
pub(super) enum Event {
    /// The worker with this number said something.
    Worker(u64, Said),
    /// The block device was made, or not.
    Made(Result<PathBuf, String>),
    /// Go on with another program, and answer how that went. The duration bounds the time without progress.
    Upgrade(PathBuf, Duration, Answer),
    /// The volume has grown to this number of bytes: give the device that size, and answer how that went.
    Resize(u64, Answer),
    /// A signal that stops.
    Signal(i32),
}

/// Reported once the device can be used.
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

struct Supervisor<'a> {
    args: &'a AttachArgs,
    place: Place,
    target: String,
    /// Settings of the first worker, until its volume is known.
    first: Option<(ServeArgs, Option<String>)>,
    identity: Option<Identity>,
    shape: (u32, bool),
    backend: &'static dyn Backend,
    device: Arc<dyn Device>,
    binary: Arc<Binary>,
    worker: Option<Worker>,
    workers: u64,
    /// Whether the worker that runs is ready.
    is_ready: bool,
    /// The worker was started by a supervisor before this one, and has its connection.
    is_adopted: bool,
    /// When the worker showed last that it gets on.
    got_on: Instant,
    /// Reason that the worker gave for its failure.
    problem: Option<String>,
    /// When the next worker is to be started, if there is none.
    start_at: Option<Instant>,
    facts: Option<Facts>,
    links: Links,
    upgrade: Option<Upgrade>,
    /// One that waits until a worker is ready.
    wanted: Option<(PathBuf, Duration, Answer)>,
    pause: Duration,
    /// Workers that did not end in order after the device was taken away.
    endings: u32,
    /// Number of those that gave a reason.
    reasons: u32,
    sender: Sender<Event>,
}

/// Supervises until the device is taken away. `first` has the settings of the first worker and the text of its volume file; `resumed` is what
/// an earlier supervisor left.
pub(super) fn run(
    args: &AttachArgs,
    place: &Place,
    first: Option<(ServeArgs, Option<String>)>,
    resumed: Option<Resumed>,
) -> Result<(), String> {
    place.prepare()?;
    let lock = place.lock()?;
    // Its own name for tools that list processes.
    let _ = std::fs::write("/proc/self/comm", "nearhead-attach");
    // Users of the disk must not wait for a process that was killed to free memory.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
    let (sender, receiver) = channel();
    let begun = watch_signals(&sender)
        .and_then(|()| Supervisor::begin(args, place, first, resumed, sender));
    let (mut supervisor, resumed) = match begun {
        Ok(begun) => begun,
        Err(why) => {
            // The device of an earlier supervisor stays as it is.
            if place.facts().is_err() {
                place.remove();
            }
            return Err(why);
        }
    };
    let ended = supervisor.supervise(resumed, &receiver);
    // Also after an orderly end, of which nothing is left: by force the connection ends before it is unmounted.
    let device = supervisor.facts.as_ref().map(|facts| facts.device.as_path());
    let _ = supervisor.backend.give_up(place, device);
    let ended = match Kept::at(place) {
        None => ended,
        Some(kept) => {
            let why = ended.err();
            let why =
                why.unwrap_or_else(|| format!("attached volume {}: its worker ended", place.name));
            // The worker that refuses them names them.
            let is_named = why.contains(&*place.kept().to_string_lossy());
            let named = if is_named { String::new() } else { format!("; kept are {}", kept.words) };
            Err(format!("{why}{named}: they are not durable; {}", kept.advice(place)))
        }
    };
    // `detach` waits for the lock.
    place.remove();
    if let Err(why) = &ended
        && device.is_some()
    {
        place.leave_word(why);
    }
    drop(lock);
    ended
}

impl<'a> Supervisor<'a> {
    /// Adopts the device of an earlier supervisor, or begins to make one.
    fn begin(
        args: &'a AttachArgs,
        place: &Place,
        first: Option<(ServeArgs, Option<String>)>,
        resumed: Option<Resumed>,
        sender: Sender<Event>,
    ) -> Result<(Self, Option<Resumed>), String> {
        let (backend, device, resumed) = match resumed {
            Some(resumed) if resumed.is_there(place) => {
                let (backend, device) = resumed.adopt(place)?;
                (backend, device, Some(resumed))
            }
            resumed => {
                super::resume::clear(place)?;
                let backend = match &resumed {
                    Some(resumed) => super::backend::named(&resumed.facts.by)?,
                    None => super::backend::chosen(args.by)?,
                };
                if resumed.is_none() {
                    let _ = std::fs::remove_file(place.settings());
                }
                let resumed = resumed.map(Resumed::without_device);
                (backend, backend.begin(place)?, resumed)
            }
        };
        let (target, read_only) = match (&first, &resumed) {
            (_, Some(resumed)) => (resumed.facts.target.clone(), resumed.identity.read_only),
            (Some((settings, _)), None) => (absolute(settings.target()?), settings.read_only),
            (None, None) => return Err("attach: nothing to attach (internal error)".to_owned()),
        };
        let identity = resumed.as_ref().map(|resumed| resumed.identity.clone());
        let block_bytes =
            identity.as_ref().map_or(args.block_size.bytes(), |identity| identity.block_bytes);
        let supervisor = Self {
            args,
            target,
            first,
            identity,
            shape: (block_bytes, read_only),
            backend,
            device: Arc::from(device),
            binary: Arc::new(Binary::running()?),
            worker: None,
            workers: 0,
            is_ready: false,
            is_adopted: false,
            got_on: Instant::now(),
            problem: None,
            start_at: None,
            facts: None,
            links: Links::default(),
            upgrade: None,
            wanted: None,
            pause: PAUSE_MIN,
            endings: 0,
            reasons: 0,
            sender,
            place: place.clone(),
        };
        Ok((supervisor, resumed))
    }
}

impl Supervisor<'_> {
    fn supervise(
        &mut self,
        resumed: Option<Resumed>,
        events: &Receiver<Event>,
    ) -> Result<(), String> {
        desk::listen(&self.place, &self.sender)?;
        match resumed {
            Some(resumed) if resumed.has_device => self.go_on_with(resumed)?,
            _ => self.start_worker()?,
        }
        let mut log = BoundedLog::new(self.place.log(), self.place.log_before());
        loop {
            let event = events.recv_timeout(self.waits_for());
            // Also after an event: workers that fail one after the other leave no pause that long.
            log.check();
            self.give_up_one_that_hangs();
            if self.start_at.is_some_and(|at| at <= Instant::now()) {
                self.start_at = None;
                self.start_worker()?;
            }
            let event = match event {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("attach: nothing is left to supervise (internal error)".to_owned());
                }
            };
            match event {
                Event::Worker(number, said) if number == self.workers => match said {
                    Said::Ready { control, volume } => self.worker_is_ready(control, volume)?,
                    Said::GettingOn => self.got_on = Instant::now(),
                    Said::Devices(names) => self.goes_on_with_devices(&names),
                    Said::Failed(why) => self.problem = Some(why),
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
                Event::Upgrade(path, limit, answer) => self.begin_upgrade(path, limit, answer),
                Event::Resize(bytes, answer) => self.resize(bytes, answer),
                Event::Signal(signal) => self.take_away_at(signal),
            }
        }
    }

    /// Goes on where a supervisor before this one left off.
    fn go_on_with(&mut self, resumed: Resumed) -> Result<(), String> {
        let device = resumed.facts.device.clone();
        self.facts = Some(Facts { supervisor: Some(std::process::id()), ..resumed.facts });
        match resumed.worker {
            Some(worker) => {
                self.workers += 1;
                let (number, sender) = (self.workers, self.sender.clone());
                let heard = move |said| drop(sender.send(Event::Worker(number, said)));
                let control = self.facts.as_ref().and_then(|facts| facts.control.clone());
                self.worker = Some(Worker::adopted(worker, control, self.place.clone(), heard)?);
                self.is_adopted = true;
            }
            None => self.start_worker()?,
        }
        self.announce(&device)
    }

    fn stop_worker(&self) {
        if let Some(worker) = &self.worker {
            worker.stop();
        }
    }

    fn worker_is_ready(
        &mut self,
        control: Option<PathBuf>,
        volume: VolumeFacts,
    ) -> Result<(), String> {
        let process = self.worker.as_ref().map_or(0, Worker::process);
        (self.is_ready, self.pause) = (true, PAUSE_MIN);
        if let Some((settings, config)) = self.first.take().filter(|_| self.identity.is_none()) {
            let id = volume.volume_id.clone();
            let identity = Identity::of(&settings, config, id)?.shown_as(self.shape);
            self.place.note_identity(&identity)?;
            self.identity = Some(identity);
        }
        match &mut self.facts {
            None => {
                // On a thread of its own: it asks the worker, which may end during that time.
                let facts = Facts {
                    target: self.target.clone(),
                    device: PathBuf::new(),
                    by: self.backend.name().to_owned(),
                    control,
                    outlives_a_kill: self.device.outlives_a_kill(),
                    supervisor: Some(std::process::id()),
                    worker: Some(process),
                    trouble: None,
                };
                self.facts = Some(facts);
                let (device, place, sender) =
                    (Arc::clone(&self.device), self.place.clone(), self.sender.clone());
                let (block_bytes, read_only) = self.shape;
                let shape = Shape { block_bytes, read_only, volume };
                on_a_thread(move || {
                    let _ = sender.send(Event::Made(device.make(&place, shape, process)));
                })?;
            }
            Some(facts) => {
                note(&format!("attached volume {}: going on", self.place.name));
                (facts.control, facts.trouble) = (control, None);
                self.tell_others();
                if !self.is_adopted {
                    self.let_go_on(process);
                }
            }
        }
        if let Some(Upgrade { answer, .. }) = self.upgrade.take() {
            let _ = answer.send(Ok(format!(
                "{} goes on with {}",
                self.place.name,
                self.binary.path().display()
            )));
        }
        if let Some((path, limit, answer)) = self.wanted.take() {
            self.begin_upgrade(path, limit, answer);
        }
        Ok(())
    }

    /// Writes the devices that later workers open. The worker polls the file, and goes on only once they are in it.
    fn goes_on_with_devices(&mut self, names: &DeviceNames) {
        let Some(identity) = &self.identity else { return };
        let noted = identity.clone().on(names).and_then(|identity| {
            self.place.note_identity(&identity)?;
            Ok(identity)
        });
        match noted {
            Ok(identity) => self.identity = Some(identity),
            Err(problem) => {
                return note(&format!("attached volume {}: {problem}", self.place.name));
            }
        }
        names.target.clone_into(&mut self.target);
        if let Some(facts) = &mut self.facts {
            names.target.clone_into(&mut facts.target);
        }
        self.tell_others();
    }

    /// Lets the kernel go on with the worker `process`.
    fn let_go_on(&self, process: u32) {
        let (device, name) = (Arc::clone(&self.device), self.place.name.clone());
        // On a thread of its own: it waits for the worker, which may end during that time.
        let started = on_a_thread(move || {
            if let Err(why) = device.go_on(process) {
                note(&format!("attached volume {name}: {why}"));
            }
        });
        if let (Err(why), Some(worker)) = (started, &self.worker) {
            // Its successor goes on.
            note(&format!("attached volume {}: {why}", self.place.name));
            worker.kill();
        }
    }

    fn announce(&mut self, device: &Path) -> Result<(), String> {
        let Some(facts) = &mut self.facts else { return Ok(()) };
        device.clone_into(&mut facts.device);
        self.place.make_link(device)?;
        if let Err(problem) = super::udev::note(device, &self.place.name) {
            // Only mounts by udev and systemd need it.
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

    /// Writes the facts, and links the control socket under the device's name.
    fn tell_others(&mut self) {
        let Some(facts) = &mut self.facts else { return };
        facts.worker = self.worker.as_ref().map(Worker::process);
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

    fn resize(&self, size_bytes: u64, answer: Answer) {
        let name = self.place.name.clone();
        let made = self.facts.as_ref().filter(|facts| !facts.device.as_os_str().is_empty());
        let Some(path) = made.map(|facts| facts.device.clone()) else {
            let _ =
                answer.send(Err(format!("resize {name}: the device is not made yet; try again")));
            return;
        };
        let (device, place) = (Arc::clone(&self.device), self.place.clone());
        let refused = answer.clone();
        // On a thread of its own: the kernel may ask the worker, which may end during that time.
        let started = on_a_thread(move || {
            let resized = device.resize(&place, &path, size_bytes);
            let _ = answer.send(resized.map(|()| format!("{name} has {size_bytes} bytes")));
        });
        if let Err(why) = started {
            let _ = refused.send(Err(why));
        }
    }
}

/// Runs `work` on a thread of its own.
fn on_a_thread(work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let started = std::thread::Builder::new().name("device".to_owned()).spawn(work);
    started.map(drop).map_err(|error| format!("attach: no thread can be started: {error}"))
}

/// A target that others can find from elsewhere.
fn absolute(target: &str) -> String {
    let path = Path::new(target).canonicalize().ok();
    path.and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or_else(|| target.to_owned())
}
