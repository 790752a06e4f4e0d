//! A worker as its supervisor has it: the program it runs, what it says, and how it ended.

use super::backend::{HandedOver, VolumeFacts};
use super::identity::Identity;
use super::place::Place;
use crate::control::Client;
use crate::report::StatusReport;
use crate::target::DeviceNames;
use clap::ValueEnum;
use nearhead_output::note;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::Deserialize;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;

/// A program by its content: what lies at its path may be another one by now.
#[derive(Debug)]
pub(super) struct Binary {
    file: File,
    path: PathBuf,
}

impl Binary {
    /// The one that runs here.
    pub(super) fn running() -> Result<Self, String> {
        let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("nearhead"));
        Self::opened(Path::new("/proc/self/exe"), path)
    }

    /// The one at `path`.
    pub(super) fn at(path: &Path) -> Result<Self, String> {
        Self::opened(path, path.to_owned())
    }

    fn opened(from: &Path, path: PathBuf) -> Result<Self, String> {
        // Opening a named pipe would wait for a writer, and the supervisor with it.
        let found = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(from);
        let shown = path.display();
        match found.and_then(|file| Ok((file.metadata()?, file))) {
            Ok((facts, _)) if !facts.is_file() => {
                Err(format!("{shown}: expected a program, found no regular file"))
            }
            // Not even root may execute a file without any such bit.
            Ok((facts, _)) if facts.mode() & 0o111 == 0 => {
                Err(format!("{shown}: expected a program, found a file that may not be executed"))
            }
            Ok((_, file)) => Ok(Self { file, path }),
            Err(error) => Err(format!("{shown}: expected a program, found {error}")),
        }
    }

    /// Where it was found.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn command(&self) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        command.arg0(&self.path);
        command
    }
}

/// Lines of a worker's standard output that are logged as they are; it has a handful.
const LINES_MAX: u32 = 64;
/// Longest line that is read in one piece, in bytes.
const PIECE_BYTES_MAX: u64 = 64 << 10;
/// Longest part of such a line that is logged, in bytes.
const LINE_BYTES_MAX: usize = 1024;

/// Message of a worker to its supervisor.
#[derive(Debug)]
pub(super) enum Said {
    /// It serves, and answers commands there.
    Ready { control: Option<PathBuf>, volume: VolumeFacts },
    /// It gets on towards that.
    GettingOn,
    /// The volume uses other devices from now on: a member of a mirror is being replaced, or was.
    Devices(DeviceNames),
    /// It ends, and this is why.
    Failed(String),
    /// It is no more; how it ended, nothing if well.
    Ended(String),
}

/// A line of `serve --json`, as far as it matters here.
#[derive(Deserialize)]
struct Line {
    event: String,
    control: Option<PathBuf>,
    problem: Option<String>,
    devices: Option<DeviceNames>,
    #[serde(flatten)]
    volume: VolumeFacts,
}

/// A worker that was started.
pub(super) struct Worker {
    handle: Option<OwnedFd>,
    process: u32,
}

impl Worker {
    /// Starts `binary` as a worker for a connection, which is what the second value says. `hears` is called on another thread, at the end with
    /// [`Said::Ended`].
    pub(super) fn start(
        binary: &Binary,
        (connection, handed_over): (OwnedFd, HandedOver),
        orders: Orders,
        hears: impl Fn(Said) + Send + 'static,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| {
            format!("attach: {} cannot be started: {error}", binary.path().display())
        };
        let mut command = binary.command();
        command.args(orders.arguments).stdin(Stdio::from(connection));
        if let Some(folder) = orders.folder.filter(|folder| folder.is_dir()) {
            command.current_dir(folder);
        }
        // An older program knows only the other one.
        if handed_over != HandedOver::default()
            && let Some(value) = handed_over.to_possible_value()
        {
            command.args(["--handed-over", value.get_name()]);
        }
        // A signal for the terminal's programs is the supervisor's to judge.
        command
            .stdout(Stdio::piped())
            .env_remove("LISTEN_FDS")
            .env_remove("NOTIFY_SOCKET")
            .process_group(0);
        // The thread first: a worker that is started has one that sees its end.
        let (sender, receiver) = channel::<Child>();
        let listening = std::thread::Builder::new().name("worker".to_owned());
        let listening = listening.spawn(move || {
            if let Ok(child) = receiver.recv() {
                listen(child, &hears);
            }
        });
        listening.map_err(failed)?;
        let child = command.spawn().map_err(failed)?;
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        let process = child.id();
        let _ = sender.send(child);
        Ok(Self { handle, process })
    }

    /// The worker `process`, which a supervisor before this one started, and which answers at `control`.
    pub(super) fn adopted(
        process: Pid,
        control: Option<PathBuf>,
        place: Place,
        hears: impl Fn(Said) + Send + Clone + 'static,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| {
            format!("attach: the worker {} cannot be watched: {error}", process.as_raw_nonzero())
        };
        let handle =
            pidfd_open(process, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        let ends = handle.try_clone().map_err(failed)?;
        let tells_end = hears.clone();
        let watching = std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
            let mut ended = [PollFd::new(&ends, PollFlags::IN)];
            while poll(&mut ended, None) == Err(Errno::INTR) {}
            // How it ended only its parent hears; whether anything is left, its file says.
            let how = if place.keeps_nothing() { "" } else { "ended" };
            tells_end(Said::Ended(how.to_owned()));
        });
        watching.map_err(failed)?;
        let asking = std::thread::Builder::new().name("readiness".to_owned()).spawn(move || {
            let client = control.as_deref().map(Client::connect);
            let report = client.and_then(|client| client.ok()?.ask::<StatusReport>("status").ok());
            if let Some(report) = report {
                let volume_id = report.volume.volume_id;
                let volume = VolumeFacts { volume_id, ..VolumeFacts::default() };
                hears(Said::Ready { control, volume });
            }
        });
        asking.map_err(failed)?;
        Ok(Self { handle: Some(handle), process: process.as_raw_nonzero().get().cast_unsigned() })
    }

    /// Its number.
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// Asks it to end in order.
    pub(super) fn stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it at once.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(handle) = &self.handle {
            let _ = pidfd_send_signal(handle, signal);
        } else if let Some(process) = Pid::from_raw(self.process.cast_signed()) {
            // Its end is not noticed yet, so the number is still its own.
            let _ = kill_process(process, signal);
        }
    }
}

/// Arguments and folder of a worker.
#[derive(Debug)]
pub(super) struct Orders {
    arguments: Vec<OsString>,
    folder: Option<PathBuf>,
}

impl Orders {
    /// To find out what the user means.
    pub(super) fn first() -> Self {
        Self { arguments: super::arguments_for("worker"), folder: None }
    }

    /// To open exactly what the first worker opened.
    pub(super) fn again(identity: &Identity, place: &Place) -> Self {
        let arguments = identity.arguments.iter().map(OsString::from);
        let exactly = [OsString::from("--exactly"), place.identity().into_os_string()];
        let folder = Some(identity.folder.clone());
        Self { arguments: arguments.chain(exactly).collect(), folder }
    }
}

/// Takes what a worker says until its end.
fn listen(mut child: Child, hears: &impl Fn(Said)) {
    let mut lines_left = LINES_MAX;
    let mut stdout = child.stdout.take().map(BufReader::new);
    let mut next = move || {
        let mut line = Vec::new();
        let mut piece = stdout.as_mut()?.take(PIECE_BYTES_MAX);
        let len = piece.read_until(b'\n', &mut line).ok().filter(|len| *len > 0);
        len.map(|_| line)
    };
    while let Some(line) = next() {
        let line = line.trim_ascii_end();
        match serde_json::from_slice(line) {
            Ok(Line { event, control, volume, .. }) if event == "serving" => {
                hears(Said::Ready { control, volume });
            }
            Ok(Line { event, .. }) if event == "progress" => hears(Said::GettingOn),
            Ok(Line { event, devices: Some(devices), .. }) if event == "devices" => {
                hears(Said::Devices(devices));
            }
            Ok(Line { event, problem: Some(problem), .. }) if event == "failed" => {
                hears(Said::Failed(problem));
            }
            // Another program may print what it likes.
            _ if lines_left == 0 => {}
            _ => {
                lines_left -= 1;
                let line = &line[..line.len().min(LINE_BYTES_MAX)];
                note(&String::from_utf8_lossy(line));
            }
        }
    }
    // With all its threads, and what they had open.
    let ended = child.wait();
    hears(Said::Ended(ended.map_or_else(|error| error.to_string(), how)));
}

fn how(status: ExitStatus) -> String {
    match (status.success(), status.signal()) {
        (true, _) => String::new(),
        (false, Some(signal)) => format!("was ended by signal {signal}"),
        (false, None) => format!("ended with exit code {}", status.code().unwrap_or(-1)),
    }
}
