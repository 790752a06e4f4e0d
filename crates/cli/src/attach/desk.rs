//! Commands for a supervisor over its socket: `upgrade PATH`, `upgrade-within MILLISECONDS PATH` or `resize BYTES`, one line, answered with one line of JSON once it is done.

use super::place::Place;
use super::supervisor::Event;
use crate::control::Answer;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Longest time that a new program may take without getting on towards readiness: a disk that spins up takes less.
const UPGRADE_LIMIT: Duration = Duration::from_secs(60);
/// Longest command, in bytes.
const LINE_BYTES_MAX: u64 = 8 << 10;

/// Answers from now on, one client at a time.
pub(super) fn listen(place: &Place, events: &Sender<Event>) -> Result<(), String> {
    let path = place.socket();
    let failed = |error: std::io::Error| {
        format!("attach: no socket can be made at {}: {error}", path.display())
    };
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(failed)?;
    let _ = rustix::fs::chmod(&path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    let events = events.clone();
    let answering = std::thread::Builder::new().name("socket".to_owned());
    let answering = answering.spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            // A client that went away needs no answer.
            let _ = answer(stream, &events);
        }
    });
    answering.map(drop).map_err(failed)
}

fn answer(mut stream: UnixStream, events: &Sender<Event>) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new((&mut stream).take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let (sender, receiver) = channel();
    let event = match line.trim_end().split_once(' ') {
        Some(("upgrade", path)) => Some(Event::Upgrade(PathBuf::from(path), UPGRADE_LIMIT, sender)),
        Some(("upgrade-within", words)) => words.split_once(' ').and_then(|(limit, path)| {
            let limit = Duration::from_millis(limit.parse().ok()?);
            Some(Event::Upgrade(PathBuf::from(path), limit, sender))
        }),
        Some(("resize", bytes)) => bytes.parse().ok().map(|bytes| Event::Resize(bytes, sender)),
        _ => None,
    };
    let said = match event {
        None => Err(format!(
            "expected upgrade PATH, upgrade-within MILLISECONDS PATH or resize BYTES, found {line:?}"
        )),
        Some(event) => {
            let ended = || "it is being detached".to_owned();
            let sent = events.send(event);
            sent.map_err(|_| ended()).and_then(|()| receiver.recv().map_err(|_| ended())?)
        }
    };
    let answer = match said {
        Ok(done) => Answer::Ok(done),
        Err(problem) => Answer::Error(problem),
    };
    writeln!(stream, "{}", answer.line())
}

/// Asks the supervisor of `place` to go on with the program at `path`, which may take `limit` without getting on; what it says.
pub(super) fn ask_for_upgrade(
    place: &Place,
    path: &Path,
    limit: Option<Duration>,
) -> Result<String, String> {
    match limit {
        // As a supervisor of an older program knows it.
        None => ask(place, "upgrade", &path.display()),
        Some(limit) => {
            ask(place, &format!("upgrade-within {}", limit.as_millis()), &path.display())
        }
    }
}

/// Asks it to give the block device this size.
pub(super) fn ask_to_resize(place: &Place, size_bytes: u64) -> Result<String, String> {
    ask(place, "resize", &size_bytes)
}

fn ask(place: &Place, what: &str, of: &dyn std::fmt::Display) -> Result<String, String> {
    let failed = |problem: &dyn std::fmt::Display| {
        format!("{what} {}: expected its supervisor to answer, found {problem}", place.name)
    };
    let mut stream = UnixStream::connect(place.socket()).map_err(|error| failed(&error))?;
    writeln!(stream, "{what} {of}").map_err(|error| failed(&error))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(|error| failed(&error))?;
    match serde_json::from_str(&line) {
        Ok(Answer::Ok(done)) => Ok(done),
        Ok(Answer::Error(problem)) => Err(problem),
        Err(error) => Err(failed(&error)),
    }
}
