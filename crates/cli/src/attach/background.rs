//! The command `attach` itself: starts the process that supervises, and waits until there is a device.
//!
//! Lines that the supervisor logs until then are shown here. Ctrl-C takes back what was begun, and says so. This must never end before the
//! supervisor without a message about what goes on.

use super::place::Place;
use super::{AttachArgs, arguments_for, backend, mounting};
use nearhead_output::{note, say};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::process::{Child, Command, Stdio};

/// Part of the message about a device that was never made a volume.
const NO_VOLUME: &str = "expected a Nearhead volume, found no sound superblock";

/// Runs the command.
pub(super) fn attach(args: &AttachArgs, place: &Place) -> Result<(), String> {
    // Found out here, where the user sees it.
    backend::chosen(args.by)?;
    if let Some(folder) = &args.mount {
        mounting::refuse_folder(folder)?;
    }
    let _ = place.take_word();
    let begun = begin(args, place);
    if begun.is_err() {
        place.remove_attempt();
    }
    begun?;
    match &args.mount {
        Some(folder) => mounting::mount(place, folder),
        None => Ok(()),
    }
}

/// Starts the supervisor, and waits until it has made the device.
fn begin(args: &AttachArgs, place: &Place) -> Result<(), String> {
    place.prepare()?;
    drop(place.lock()?);
    let failed = |error: std::io::Error| format!("attach: {}: {error}", place.log().display());
    let mut log = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(place.log())
        .map_err(failed)?;
    let before = log.seek(SeekFrom::End(0)).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(arguments_for("supervisor")).stdin(Stdio::null()).stdout(Stdio::piped());
    // Before there is one to interrupt.
    let signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let mut child = command.stderr(log.try_clone().map_err(failed)?).spawn().map_err(failed)?;
    let handle = take_back_at(signals, &child)?;
    let mut line = String::new();
    let is_there = child.stdout.take().is_some_and(
        |stdout| matches!(BufReader::new(stdout).read_line(&mut line), Ok(len) if len > 0),
    );
    handle.close();
    let mut lines = new_lines(&mut log, before);
    if !is_there {
        let _ = child.wait();
        // It is reported here.
        let _ = place.take_word();
        let why = lines.pop().unwrap_or_else(|| {
            format!("attach {}: it ended before there was a device", place.name)
        });
        // The worker logged the same before.
        lines.iter().filter(|line| !why.contains(line.as_str())).for_each(|line| note(line));
        let is_blank = why.contains(NO_VOLUME);
        let advice = if is_blank { "; to make a volume on it: `nearhead create`" } else { "" };
        return Err(why + advice);
    }
    for line in &lines {
        note(line);
    }
    if args.serve.json {
        say(line.trim_end());
    } else {
        say(&place.link().display().to_string());
    }
    Ok(())
}

/// From now on a signal takes back what the supervisor `child` has begun.
fn take_back_at(
    mut signals: signal_hook::iterator::Signals,
    child: &Child,
) -> Result<signal_hook::iterator::Handle, String> {
    let failed = |error: std::io::Error| format!("attach: signals cannot be handled: {error}");
    let supervisor = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let supervisor = supervisor.map_err(|error| failed(error.into()))?;
    let handle = signals.handle();
    let waiting = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            note("interrupted: nothing stays attached; this ends once its processes have");
            let _ = pidfd_send_signal(&supervisor, Signal::TERM);
        }
    });
    waiting.map_err(failed)?;
    Ok(handle)
}

/// Lines that were logged since the log had `before` bytes, without times and the program's name.
fn new_lines(log: &mut File, before: u64) -> Vec<String> {
    let mut logged = String::new();
    // It may have been cut during that time: all of it is new then.
    let was_cut = log.metadata().is_ok_and(|found| found.len() < before);
    let from = SeekFrom::Start(if was_cut { 0 } else { before });
    let _ = log.seek(from).and_then(|_| log.read_to_string(&mut logged));
    logged.lines().map(|line| nearhead_output::without_time(line).to_owned()).collect()
}
