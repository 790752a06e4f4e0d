//! The commands of a mounted file system's control socket: `status`, `checkpoint`, `drain`, `cancel`, `snapshot`, `hint`, `sync`,
//! `metrics`, `set`, `remount`, `stop`.
//!
//! Each is carried out by the thread that has the volume, between two requests, and takes no time there. A checkpoint or a drain is only
//! begun; the client watches its progress through `status`.

use super::report::report;
use super::supervisor::ToSupervisor;
use crate::control::Answer;
use crate::hint::hint_of;
use crate::metrics;
use crate::timed::Timed;
use nearhead_disk::{Disk, Nanos};
use nearhead_fs::{AccessTimes, FsOperation};
use nearhead_fuse::Handle;
use nearhead_output::note;
use nearhead_service::Service;
use nearhead_settings::{Change, Tuned, Tuner};
use nearhead_volume::Volume;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is mounted.
pub(super) type Mounted = nearhead_fs::Mounted<Timed<Volume<Box<dyn Disk + Send>>>>;
/// Something to be done with it by the thread that has it.
type Errand = Box<dyn FnOnce(&mut Mounted, Nanos) + Send>;

/// Errands that wait, at most: as many as there are connections.
const ERRANDS_MAX: usize = 32;
/// Attempts to find nothing unsaved before it becomes read-only: more than one only where the kernel lets changes through.
const SYNCS_MAX: usize = 10;
const COMMANDS: &str = "status, checkpoint, drain, cancel, snapshot, hint OFFSET LEN KIND, sync, metrics, set NAME=VALUE..., remount OPTION..., stop";
const ENDED: &str = "the file system is being unmounted";

/// What is served, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) target: String,
    pub(super) folder: PathBuf,
    pub(super) disk_notes: Vec<String>,
    /// Trouble with the files under the volume, when they were last checked.
    pub(super) trouble: Arc<Mutex<Option<String>>>,
    /// Checkpoints and drains that were cancelled.
    pub(super) cancels: Arc<AtomicU64>,
}

impl Facts {
    pub(super) fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers commands.
pub(super) struct Desk {
    facts: Facts,
    handle: Handle,
    errands: SyncSender<Errand>,
    tuner: Mutex<Tuner>,
    supervisor: ToSupervisor,
}

/// The other end, for the thread that has the volume.
pub(super) struct Errands(Receiver<Errand>);

impl Errands {
    /// Does all that waits.
    pub(super) fn run(&self, mounted: &mut Mounted, now: Nanos) {
        while let Ok(errand) = self.0.try_recv() {
            errand(mounted, now);
        }
    }
}

impl Desk {
    pub(super) fn new(
        facts: Facts,
        handle: Handle,
        tuner: Tuner,
        supervisor: ToSupervisor,
    ) -> (Self, Errands) {
        let (errands, receiver) = sync_channel(ERRANDS_MAX);
        let tuner = Mutex::new(tuner);
        (Self { facts, handle, errands, tuner, supervisor }, Errands(receiver))
    }

    /// What `look` finds at the mounted file system.
    fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Mounted, Nanos) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = channel();
        let errand: Errand = Box::new(move |mounted, now| {
            // Who has gone away needs no answer.
            let _ = sender.send(look(mounted, now));
        });
        self.errands.send(errand).map_err(|_| ENDED.to_owned())?;
        self.handle.rouse();
        receiver.recv().map_err(|_| ENDED.to_owned())
    }

    /// Asks the file system for something as a program would.
    fn ask(&self, operation: FsOperation) -> Result<nearhead_fs::Answer, String> {
        let answer = self.handle.ask(operation).recv().map_err(|_| ENDED.to_owned())?;
        answer.map_err(|error| error.detail)
    }

    /// Answers one command.
    pub(super) fn answer(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["status"] => said(self.report()),
            ["metrics"] => said(self.report().map(|report| metrics::render(&report))),
            ["snapshot"] => said(self.begin(Volume::start_snapshot)),
            ["checkpoint"] => said(self.write_back(false)),
            ["drain"] => said(self.write_back(true)),
            ["cancel"] => said(self.cancel()),
            ["hint", offset, len, kind] => said(self.hint(offset, len, kind)),
            ["sync"] => said(self.ask(FsOperation::SyncAll).map(|_| "done")),
            ["set"] => Answer::Ok(self.tuner().settings()).line(),
            ["set", words @ ..] => said(self.set(words)),
            ["remount", words @ ..] => said(self.remount(words)),
            ["stop"] => {
                self.supervisor.stop();
                Answer::Ok("stopping").line()
            }
            _ => said::<()>(Err(format!("control: expected one of {COMMANDS}, found {line:?}"))),
        }
    }

    fn report(&self) -> Result<crate::report::StatusReport, String> {
        let facts = self.facts.clone();
        self.look(move |mounted, now| report(&facts, mounted, now))
    }

    /// Makes all files durable, then begins to bring what is in the logs to its place: what is still in memory would be lost by a kill.
    fn write_back(&self, everything: bool) -> Result<&'static str, String> {
        self.ask(FsOperation::SyncAll)?;
        if everything {
            self.begin(|volume, now| volume.start_checkpoint(true, now))
        } else {
            self.begin(|volume, now| volume.start_checkpoint(false, now))
        }
    }

    /// Begins something that the volume does by itself.
    fn begin(
        &self,
        begin: fn(&mut Volume<Box<dyn Disk + Send>>, Nanos),
    ) -> Result<&'static str, String> {
        self.look(move |mounted, now| {
            let volume = mounted.service_mut().inner_mut();
            if volume.info().read_only {
                return Err("it is mounted read-only: nothing can be brought home".to_owned());
            }
            if let Some(failure) = volume.engine().failure() {
                return Err(format!("the volume accepts no change since a failure: {failure}"));
            }
            begin(volume, now);
            Ok("started")
        })?
    }

    /// Ends a checkpoint or a drain that is under way.
    fn cancel(&self) -> Result<&'static str, String> {
        self.facts.cancels.fetch_add(1, Ordering::Relaxed);
        self.look(|mounted, now| mounted.service_mut().inner_mut().cancel_checkpoint(now))?;
        Ok("cancelled")
    }

    fn tuner(&self) -> MutexGuard<'_, Tuner> {
        self.tuner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets some settings: what changed. One command at a time, in the order in which the volume hears of them.
    fn set(&self, words: &[&str]) -> Result<Vec<Change>, String> {
        let mut tuner = self.tuner();
        let Tuned { changes, tuning, rest_mirrors } = tuner.set(words)?;
        let sets_rest = changes.iter().any(|change| change.name == "rest_mirrors");
        self.look(move |mounted, now| {
            let volume = mounted.service_mut().inner_mut();
            volume.tune(tuning, now);
            if sets_rest {
                volume.let_mirrors_rest(rest_mirrors);
            }
        })?;
        for Change { name, before, after } in &changes {
            note(&format!("set {name}: from {before} to {after}"));
        }
        Ok(changes)
    }

    /// Changes options of the mount. To read-only everything is made durable first; the kernel takes no change at that time.
    fn remount(&self, words: &[&str]) -> Result<&'static str, String> {
        for word in words {
            match *word {
                "ro" => self.become_read_only()?,
                "rw" => self
                    .look(|mounted, _| mounted.set_read_only(false))?
                    .map_err(|error| error.detail)?,
                "noatime" => self.look(|it, _| it.keep_access_times(AccessTimes::Never))?,
                "relatime" => self.look(|it, _| it.keep_access_times(AccessTimes::Relative))?,
                "strictatime" => self.look(|it, _| it.keep_access_times(AccessTimes::Always))?,
                "discard" => self.look(|it, _| it.trim_freed(true))?,
                "nodiscard" => self.look(|it, _| it.trim_freed(false))?,
                other => {
                    return Err(format!("remount: {other} cannot be changed while it is mounted"));
                }
            }
        }
        Ok("done")
    }

    fn become_read_only(&self) -> Result<(), String> {
        for _ in 0..SYNCS_MAX {
            self.ask(FsOperation::SyncAll)?;
            if self.look(|mounted, _| mounted.set_read_only(true))?.is_ok() {
                return Ok(());
            }
        }
        Err("files are written without end: it is still writable".to_owned())
    }

    fn hint(&self, offset: &str, len: &str, kind: &str) -> Result<&'static str, String> {
        let (offset, len, hint) = hint_of(offset, len, kind)?;
        self.ask(FsOperation::Hint { offset, len, hint })?;
        // Hints live in snapshots: without one this would be forgotten at a crash.
        self.begin(Volume::start_snapshot).map(|_| "done")
    }
}

fn said<T: Serialize>(result: Result<T, String>) -> String {
    match result {
        Ok(answer) => Answer::Ok(answer).line(),
        Err(problem) => Answer::<()>::Error(problem).line(),
    }
}
