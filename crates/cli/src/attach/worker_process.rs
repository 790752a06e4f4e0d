//! A worker as its supervisor has it: the program it runs, what it says, and how it ended.

use super::backend::{HandedOver, VolumeFacts};
use clap::ValueEnum;
use nearhead_output::note;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

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
        match File::open(from) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(format!("{}: expected a program, found {error}", path.display())),
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

/// What a worker says to whoever started it.
#[derive(Debug)]
pub(super) enum Said {
    /// It serves, and answers commands there.
    Ready { control: Option<PathBuf>, volume: VolumeFacts },
    /// It is no more; how it ended, nothing if well.
    Ended(String),
}

/// A line of `serve --json`, as far as it matters here.
#[derive(Deserialize)]
struct Line {
    event: String,
    control: Option<PathBuf>,
    #[serde(flatten)]
    volume: VolumeFacts,
}

/// A worker that was started.
pub(super) struct Worker {
    handle: Option<OwnedFd>,
    process: u32,
}

impl Worker {
    /// Starts `binary` as a worker for `connection`, which is what `handed_over` says. `hears` is called on another thread, at the end with [`Said::Ended`].
    pub(super) fn start(
        binary: &Binary,
        connection: OwnedFd,
        handed_over: HandedOver,
        hears: impl Fn(Said) + Send + 'static,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| {
            format!("attach: {} cannot be started: {error}", binary.path().display())
        };
        let mut command = binary.command();
        command.args(super::arguments_for("worker")).stdin(Stdio::from(connection));
        // An older program that knows only the other one is not told.
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
        let mut child = command.spawn().map_err(failed)?;
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        let process = child.id();
        let stdout = child.stdout.take();
        let listening = std::thread::Builder::new().name("worker".to_owned());
        let listening = listening.spawn(move || {
            for line in stdout.into_iter().flat_map(|it| BufReader::new(it).lines()) {
                let Ok(line) = line else { break };
                match serde_json::from_str(&line) {
                    Ok(Line { event, control, volume }) if event == "serving" => {
                        hears(Said::Ready { control, volume });
                    }
                    _ => note(&line),
                }
            }
            // With all its threads, and what they had open.
            let ended = child.wait();
            hears(Said::Ended(ended.map_or_else(|error| error.to_string(), how)));
        });
        listening.map_err(failed)?;
        Ok(Self { handle, process })
    }

    /// Its number.
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// Asks it to end in order.
    pub(super) fn stop(&self) {
        if let Some(handle) = &self.handle {
            let _ = pidfd_send_signal(handle, Signal::TERM);
        }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.success(), status.signal()) {
        (true, _) => String::new(),
        (false, Some(signal)) => format!("was ended by signal {signal}"),
        (false, None) => format!("ended with exit code {}", status.code().unwrap_or(-1)),
    }
}
