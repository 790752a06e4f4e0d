//! `mount --background`: the command returns once the folder can be used, and a process of its own serves it.
//!
//! The process has the arguments of the command, a session of its own, and a log next to the control socket. fstab and systemd mount this
//! way, through `mount.nearhead`.

use super::MountArgs;
use crate::bounded_log::BoundedLog;
use crate::control::places;
use crate::in_background::{self, Started};
use nearhead_output::{note, pass_on_json, say};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Message at Ctrl-C.
const INTERRUPTED: &str = "interrupted: nothing stays mounted; this ends once its process has";

/// Starts the process that serves, and waits until the folder can be used.
pub(super) fn start(args: &MountArgs) -> Result<(), String> {
    let failed = |why: &dyn Display| format!("mount --background: {why}");
    let log = log_of(&args.target)?;
    let mut own = std::env::args_os();
    let mut command = Command::new(std::env::current_exe().map_err(|error| failed(&error))?);
    if let Some(name) = own.next() {
        std::os::unix::process::CommandExt::arg0(&mut command, name);
    }
    command.args(own).arg("--detached").arg(&log);
    let started = in_background::start(&mut command, &log, INTERRUPTED);
    let Started { line, mut messages } = started.map_err(|why| failed(&why))?;
    let why = if line.is_none() { messages.pop() } else { None };
    for message in &messages {
        note(message);
    }
    match line {
        Some(line) => {
            let line = line.trim_end();
            if args.json { pass_on_json(line) } else { say(line) }
            Ok(())
        }
        None => Err(why.unwrap_or_else(|| {
            failed(&format!(
                "its process ended before the folder could be used (log: {}); without --background it shows why",
                log.display()
            ))
        })),
    }
}

/// Makes this process independent of the command that started it and of its terminal.
pub(super) fn detach() {
    nearhead_output::tell_times();
    // It fails only for the leader of a group, which this process never is.
    let _ = rustix::process::setsid();
}

/// The log at `log`, with a bound.
pub(super) fn bounded(log: PathBuf) -> BoundedLog {
    let before = log.with_extension("log.before");
    BoundedLog::new(log, before)
}

/// The log of the process that serves `target`: next to its control socket.
fn log_of(target: &str) -> Result<PathBuf, String> {
    let socket = places(target)?.into_iter().flatten().next();
    Ok(socket
        .map_or_else(|| Path::new("/dev/null").to_owned(), |socket| socket.with_extension("log")))
}
