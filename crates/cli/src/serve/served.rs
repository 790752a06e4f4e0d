//! The volume as the daemon serves it: what people are told of it, and a stop that says how it goes.
//!
//! It changes nothing about requests and replies. A request of its own (from the control socket)
//! is answered to the one who asked, never to a client. Where the volume is shown as a file as well, the kernel's
//! requests come and go here ([`super::shown`]), beside those of the server's clients.

use super::coordination::{Coordination, Turns};
use super::devices::Devices;
use super::growing::Growing;
use super::live_settings::LiveSettings;
use super::replacing::Replacer;
use super::rest_command::RestCommands;
use super::shown::Shown;
use crate::backing::Backing;
use crate::journal::ToldPasses;
use crate::report::{DeviceReport, Latencies, RequestCounts};
use crate::service_manager::ServiceManager;
use crate::timed::Timed;
use crate::units::ByteSize;
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::Ack;
use nearhead_handover::Kept;
use nearhead_output::{alarm, blame, inform, note, warn};
use nearhead_service::{Extent, Operation, Reply, Request, RequestId, Service, ServiceInfo, Wake};
use nearhead_settings::{Change, Setting, Tuned, Tuner};
use nearhead_volume::{LossReport, ReopeningVolume, Volume};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;

/// Names requests of the daemon itself; the server numbers those of clients from 0.
const OWN_REQUEST: RequestId = RequestId(u64::MAX);

/// A volume that is opened again if its disk loses writes.
pub(super) type Opened = ReopeningVolume<Box<dyn Disk + Send>>;

/// A served volume.
pub struct Served {
    volume: Timed<Kept<Opened>>,
    read_only: bool,
    /// The file as which it is shown, if it is.
    shown: Option<Shown>,
    replies: VecDeque<Reply>,
    own_reply: Option<Reply>,
    stopping_since: Option<Nanos>,
    told_s: u64,
    failure_told: bool,
    trouble_told: Option<String>,
    told_passes: ToldPasses,
    turns: Option<Turns>,
    rest_commands: Option<RestCommands>,
    backing: Backing,
    pub(super) growing: Growing,
    pub(super) replacing: Replacer,
    tuner: Rc<RefCell<Tuner>>,
    live: Option<LiveSettings>,
}

impl Served {
    /// Serves `volume` on `devices`, which answers writes as `ack` says and whose settings `tuner` knows.
    pub(super) fn new(
        volume: Kept<Opened>,
        read_only: bool,
        ack: Ack,
        (tuner, devices): (Rc<RefCell<Tuner>>, Devices),
    ) -> Self {
        Self {
            tuner,
            growing: Growing::new(devices.clone()),
            replacing: Replacer::new(devices),
            volume: Timed::new(volume, ack),
            read_only,
            shown: None,
            replies: VecDeque::new(),
            own_reply: None,
            stopping_since: None,
            told_s: 0,
            failure_told: false,
            trouble_told: None,
            told_passes: ToldPasses::default(),
            turns: None,
            rest_commands: None,
            backing: Backing::default(),
            live: None,
        }
    }

    fn opened(&self) -> &Opened {
        self.volume.inner().service()
    }

    pub(super) fn opened_mut(&mut self) -> &mut Opened {
        self.volume.inner_mut().service_mut()
    }

    pub(super) fn growing_and_opened(&mut self) -> (&mut Growing, &mut Opened) {
        (&mut self.growing, self.volume.inner_mut().service_mut())
    }

    pub(super) fn replacing_and_opened(&mut self) -> (&mut Replacer, &mut Opened) {
        (&mut self.replacing, self.volume.inner_mut().service_mut())
    }

    /// Finds its backing files again after a change of devices.
    pub(super) fn has_other_devices(&mut self) {
        match Backing::of(&self.target(), &self.replacing.disk_args()) {
            Ok(backing) => self.backing = backing,
            Err(problem) => warn(&problem),
        }
    }

    /// Whether it is being opened, or what a process before this one had answered is being carried out.
    pub(super) fn is_busy_opening(&self) -> bool {
        self.is_reopening() || self.volume.inner().is_catching_up()
    }

    /// Bytes of the one file or device that it lies on, by now.
    pub(super) fn device_bytes(&self) -> Option<u64> {
        self.backing.device_bytes()
    }

    /// It is larger than it was.
    pub(super) fn has_grown(&mut self) {
        self.backing.look_anew();
        let info = self.info();
        if let Some(shown) = &mut self.shown {
            shown.resized(&info);
        }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume<Box<dyn Disk + Send>> {
        self.opened().volume()
    }

    /// The volume, for what is no request.
    pub fn volume_mut(&mut self) -> &mut Volume<Box<dyn Disk + Send>> {
        self.opened_mut().volume_mut()
    }

    /// Whether the volume is being opened again, and takes requests only.
    pub fn is_reopening(&self) -> bool {
        self.opened().is_reopening()
    }

    /// What its disk lost so far.
    pub fn losses(&self) -> &LossReport {
        self.opened().loss_report()
    }

    /// Latencies so far.
    pub fn latencies(&self) -> Latencies {
        self.volume.latencies()
    }

    /// Requests so far.
    pub fn counts(&self) -> RequestCounts {
        self.volume.counts()
    }

    /// Runs a request that is answered at once (a hint), and gives its answer.
    pub fn run_own(&mut self, operation: Operation, now: Nanos) -> Result<(), String> {
        if self.is_busy_opening() {
            return Err("the volume is being opened again; try again".to_owned());
        }
        self.volume.submit(Request { id: OWN_REQUEST, operation }, now);
        self.drive(now);
        match self.own_reply.take() {
            Some(Reply { result: Ok(_), .. }) => Ok(()),
            Some(Reply { result: Err(error), .. }) => Err(error.to_string()),
            None => Err("the volume is not ready for it yet; try again".to_owned()),
        }
    }

    /// Settings that may change while it is served.
    pub(super) fn settings(&self) -> Vec<Setting> {
        self.tuner.borrow().settings()
    }

    /// Sets some of them: what changed.
    pub(super) fn set(&mut self, words: &[&str], now: Nanos) -> Result<Vec<Change>, String> {
        if self.is_reopening() {
            return Err("the volume is being opened again; try again".to_owned());
        }
        let Tuned { changes, tuning, rest_mirrors } = self.tuner.borrow_mut().set(words)?;
        self.volume_mut().tune(tuning, now);
        if changes.iter().any(|change| change.name == "rest_mirrors") {
            self.volume_mut().let_mirrors_rest(rest_mirrors);
        }
        for Change { name, before, after } in &changes {
            note(&format!("set {name}: from {before} to {after}"));
        }
        if let Some(live) = &mut self.live {
            live.note(words).map_err(|error| {
                format!("set: it holds now, and a later worker would not know: {error}")
            })?;
        }
        Ok(changes)
    }

    /// Sets again what was set while an earlier process served the volume, and keeps what is set from now on for a later one.
    pub(super) fn go_on_with(&mut self, path: PathBuf, now: Nanos) {
        let live = LiveSettings::read(path);
        for word in live.words() {
            if let Err(problem) = self.set(&[word.as_str()], now) {
                warn(&format!("{word}, which was set before, does not hold: {problem}"));
            }
        }
        self.live = Some(live);
    }

    /// Notes which generation the volume has by now.
    fn note_generation(&mut self) {
        let volume = self.volume();
        let (generation, may_raise) = (volume.generation(), volume.may_raise_generation());
        self.volume.inner_mut().set_generation(generation, may_raise);
    }

    /// From now on checkpoints that can wait take turns, if there is something to take turns by.
    pub(super) fn take_turns_by(&mut self, turns: Option<Turns>) {
        self.turns = turns;
    }

    /// Tells the lease what the volume wants, and the volume what the lease has.
    pub(super) fn take_turns(&mut self, now: Nanos) {
        let wants = self.volume().engine().wants_checkpoint_permit();
        if let Some(is_held) = self.turns.as_mut().and_then(|turns| turns.exchange(wants)) {
            inform(if is_held {
                "permit for checkpoints: got"
            } else {
                "permit for checkpoints: given back, or lost"
            });
            self.volume_mut().set_checkpoint_permit(is_held, now);
        }
    }

    /// The volume was opened again, or is being.
    pub(super) fn tell_of_permit_again(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.tell_again();
        }
    }

    /// How it takes turns, if it does.
    pub fn coordination(&self) -> Option<Coordination> {
        let wants = self.volume().engine().wants_checkpoint_permit();
        self.turns.as_ref().map(|turns| turns.report(wants))
    }

    /// From now on a program hears which sides of mirrors rest, if there is one.
    pub(super) fn hear_of_rest(&mut self, commands: Option<RestCommands>) {
        self.rest_commands = commands;
    }

    /// Tells it of those that began to, or were woken.
    pub(super) fn look_who_rests(&mut self, now: Nanos) {
        let lanes = self.volume.inner().service().volume().lanes();
        if let Some(commands) = &mut self.rest_commands {
            commands.look(lanes, now);
        }
    }

    /// Adds to a report what that program did.
    pub(super) fn tell_of_rest(&self, devices: &mut [DeviceReport]) {
        if let Some(commands) = &self.rest_commands {
            commands.report(devices);
        }
    }

    /// From now on says if one of the files under it is deleted or cut short.
    pub(super) fn watch(&mut self, backing: Backing) {
        self.backing = backing;
    }

    /// From now on the kernel's requests are served, too.
    pub(super) fn show(&mut self, shown: Shown) {
        self.shown = Some(shown);
    }

    /// It ended with everything durable.
    pub(super) fn is_done(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("what was kept for a successor: {error}");
        self.volume.inner_mut().everything_is_durable().map_err(failed)
    }

    /// What an orderly stop cannot promise, if anything.
    pub(super) fn unkept(&self) -> Option<&'static str> {
        self.backing.unkept()
    }

    /// Which of them may take more space than there is now.
    pub(super) fn without_space(&self) -> Vec<String> {
        if self.info().read_only { Vec::new() } else { self.backing.without_space() }
    }

    /// What people must know about the disk, if anything.
    pub(super) fn trouble(&self) -> Option<String> {
        self.volume().lanes().trouble().or_else(|| self.backing.trouble())
    }

    /// Says what the disk did wrong since the last call; the engine bounds how often.
    pub(super) fn tell_disk_events(&mut self) {
        while let Some(event) = self.opened_mut().poll_disk_event() {
            warn(&event.to_string());
        }
    }

    /// Tells people how a stop goes, of passes, of disk errors, and of a failure or of trouble with the disk once.
    pub fn tell(&mut self, now: Nanos, shutdown_max: Nanos) {
        self.tell_disk_events();
        while let Some(event) = self.opened_mut().poll_loss_event() {
            blame(&event.to_string());
            self.tell_of_permit_again();
        }
        self.volume.inner_mut().take_told().iter().for_each(|told| note(told));
        let passes = self.volume.inner().service().volume().engine().passes();
        self.told_passes.tell(passes, now);
        let trouble = self.trouble();
        if trouble != self.trouble_told {
            self.trouble_told = trouble;
            match &self.trouble_told {
                Some(trouble) => blame(trouble),
                None => note("the disk is in order again"),
            }
        }
        if !self.failure_told
            && !self.is_reopening()
            && let Some(failure) = self.volume.inner().service().volume().engine().failure()
        {
            self.failure_told = true;
            alarm(&format!(
                "the volume failed: {failure}; reads go on where they can, changes are refused"
            ));
        }
        let Some(since) = self.stopping_since else { return };
        let second = now.since(since).0 / 1_000_000_000;
        if second > self.told_s {
            self.told_s = second;
            let staged = self.volume().status().staged_bytes;
            note(&format!(
                "stopping for {second} s of at most {:.0}: {} left to log, {} requests under way",
                shutdown_max.as_secs_f64(),
                ByteSize(staged),
                self.volume.running(),
            ));
        }
    }

    fn collect(&mut self) {
        while let Some(reply) = self.volume.poll_reply() {
            if reply.id == OWN_REQUEST {
                self.own_reply = Some(reply);
                continue;
            }
            match self.shown.as_mut().filter(|shown| shown.is_mine(reply.id)) {
                Some(shown) => shown.reply(reply),
                None => self.replies.push_back(reply),
            }
        }
        if let Some(shown) = &mut self.shown {
            shown.send();
        }
    }

    /// Takes what the kernel asks by now.
    fn take_from_kernel(&mut self, now: Nanos) {
        for _ in 0..super::shown::REQUESTS_MAX {
            let losses = Service::losses(&self.volume);
            let is_catching_up = self.volume.inner().is_catching_up();
            let shown = self.shown.as_mut();
            let request = shown.and_then(|shown| shown.receive(losses, is_catching_up));
            let Some(request) = request else { return };
            self.submit(request, now);
        }
    }
}

impl Service for Served {
    fn info(&self) -> ServiceInfo {
        let mut info = self.volume.info();
        info.read_only |= self.read_only;
        info
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        self.volume.submit(request, now);
    }

    fn drive(&mut self, now: Nanos) {
        self.take_from_kernel(now);
        self.volume.drive(now);
        self.note_generation();
        self.go_on_growing(now);
        self.go_on_replacing(now);
        self.collect();
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        let wake = self.volume.wake();
        match &self.shown {
            Some(shown) => Wake { fd: Some(shown.wake_fd()), ..wake },
            None => wake,
        }
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        self.volume.block_status(offset, len, runs_max)
    }

    fn losses(&self) -> u64 {
        Service::losses(&self.volume)
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        if self.stopping_since.is_none() {
            self.stopping_since = Some(now);
            let staged = ByteSize(self.volume().status().staged_bytes);
            let how = if self.info().read_only {
                "nothing is written, as it was read-only".to_owned()
            } else {
                format!("making {staged} durable and writing a snapshot")
            };
            ServiceManager::find().stopping(&how);
            note(&format!("stopping: {how}; a second signal stops at once"));
        }
        if let Some(shown) = &mut self.shown {
            shown.leave();
        }
        self.volume.begin_shutdown(now);
    }

    fn is_shut_down(&self) -> bool {
        self.volume.is_shut_down() && self.replies.is_empty()
    }
}
