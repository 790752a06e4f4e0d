//! Processes that go on in the background: started with a log, and waited for until they can be used.
//!
//! The started process writes one line to its standard output once it can be used, and its messages to the log. Messages logged until
//! then are returned to the command that the user typed. Ctrl-C ends what was begun, with a message. The command must never end before
//! the process without the caller's knowledge of whether it can be used.

use nearhead_output::note;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Error, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that was started.
pub struct Started {
    /// The line it wrote once it could be used; none if it ended before.
    pub line: Option<String>,
    /// Messages that it logged until then, without times and the program's name.
    pub messages: Vec<String>,
}

/// Starts `command` with its messages appended to the file at `log`, and waits until it can be used or has ended. `interrupted` is the
/// message at Ctrl-C; the process gets a signal to end in order.
pub fn start(
    command: &mut Command,
    log: &Path,
    interrupted: &'static str,
) -> Result<Started, String> {
    let failed = |error: Error| format!("{}: {error}", log.display());
    let opened = OpenOptions::new().read(true).append(true).create(true).open(log);
    let mut file = opened.map_err(failed)?;
    let before = file.seek(SeekFrom::End(0)).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // Before there is a process to interrupt.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let mut child = command.stderr(file.try_clone().map_err(failed)?).spawn().map_err(failed)?;
    let handle = end_at(signals, &child, interrupted)?;
    let mut line = String::new();
    let is_there = child.stdout.take().is_some_and(
        |stdout| matches!(BufReader::new(stdout).read_line(&mut line), Ok(len) if len > 0),
    );
    handle.close();
    if !is_there {
        let _ = child.wait();
    }
    Ok(Started { line: is_there.then_some(line), messages: new_lines(&mut file, before) })
}

/// From now on a signal ends `child`.
fn end_at(mut signals: Signals, child: &Child, message: &'static str) -> Result<Handle, String> {
    let failed = |error: Error| format!("signals cannot be handled: {error}");
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let process = process.map_err(|error| failed(error.into()))?;
    let handle = signals.handle();
    let waiting = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            note(message);
            let _ = pidfd_send_signal(&process, Signal::TERM);
        }
    });
    waiting.map_err(failed)?;
    Ok(handle)
}

/// Lines that were logged since the log had `before` bytes.
fn new_lines(log: &mut File, before: u64) -> Vec<String> {
    let mut logged = String::new();
    // It may have been cut during that time: all of it is new then.
    let was_cut = log.metadata().is_ok_and(|found| found.len() < before);
    let from = SeekFrom::Start(if was_cut { 0 } else { before });
    let _ = log.seek(from).and_then(|_| log.read_to_string(&mut logged));
    logged.lines().map(|line| nearhead_output::without_time(line).to_owned()).collect()
}
