//! The control socket of a mounted file system: the same commands as that of `serve`, answered between two requests of the kernel.
//!
//! Threads of their own read commands; what they ask is carried out by the one thread that has the volume. Lines, connections and
//! what waits are bounded: who asks cannot disturb those who use the files.

use super::desk::Desk;
use crate::control::{
    Answer, Links, check_socket_path, name_of_mounted, places, prepare_for, remove_old,
    why_not_there,
};
use nearhead_output::note;
use rustix::fs::{Mode, chmod};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Longest command, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Most connections at once.
const CONNECTIONS_MAX: usize = 32;

/// A control socket that is there until this is dropped, under all its names.
pub(super) struct Control {
    _socket: Socket,
    _links: Links,
}

/// The socket's file, which goes with this.
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A socket that is bound, and answers once it is asked to: a client that comes early waits.
pub(super) struct Listening {
    listener: UnixListener,
    socket: Socket,
    others: Vec<PathBuf>,
}

impl Listening {
    /// At `given`, or where commands look for the socket of who serves `target`. None where nothing can be made: it is mounted all the same.
    pub(super) fn of(target: &str, given: Option<&Path>) -> Result<Option<Self>, String> {
        let mut derived = places(target)?.into_iter().next().unwrap_or_default();
        let path = match given {
            Some(path) => {
                check_socket_path("--control", path)?;
                prepare_for(path);
                path.to_owned()
            }
            None if derived.is_empty() => {
                note(
                    "no directory for a control socket can be written: `nearhead status` will not find this mount; give --control PATH",
                );
                return Ok(None);
            }
            None => derived.remove(0),
        };
        remove_old(&path);
        let listener = UnixListener::bind(&path).map_err(|error| {
            let why = why_not_there(&path);
            format!("mount: no control socket can be made at {}: {error}{why}", path.display())
        })?;
        // Its owner's and group's, as that of `serve`.
        let _ = chmod(&path, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP);
        Ok(Some(Self { listener, socket: Socket(path), others: derived }))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.socket.0
    }

    /// Answers from now on, also under the name that follows from the number of the mounted device.
    pub(super) fn answer(self, device: Option<u64>, desk: Arc<Desk>) -> Control {
        let Self { listener, socket, mut others } = self;
        let path = socket.0.clone();
        let beside = path.parent().unwrap_or(Path::new("/"));
        others.extend(device.map(name_of_mounted).map(|name| match others.first() {
            Some(other) => other.with_file_name(name),
            None => beside.join(name),
        }));
        let links = Links::make(others, &path);
        let waiting = std::thread::Builder::new().name("control".to_owned());
        // Without it the file system is served, and nobody answers.
        let _ = waiting.spawn(move || accept(&listener, &desk));
        Control { _socket: socket, _links: links }
    }
}

/// One place among [`CONNECTIONS_MAX`].
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept(listener: &UnixListener, desk: &Arc<Desk>) {
    let taken = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors: they come back when others let go of theirs.
            std::thread::sleep(std::time::Duration::from_millis(100));
            continue;
        };
        if taken.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            taken.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (place, desk) = (Place(Arc::clone(&taken)), Arc::clone(desk));
        let talking = std::thread::Builder::new().name("control".to_owned());
        // Who gets no thread is let go.
        let _ = talking.spawn(move || {
            let _place = place;
            let _ = talk(stream, &desk);
        });
    }
}

/// One answer for each line, in order, until the client is gone.
fn talk(stream: UnixStream, desk: &Desk) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let len = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if len == 0 {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n") || (len as u64) < LINE_BYTES_MAX;
        let answer = match std::str::from_utf8(&line) {
            Ok(line) if is_whole => desk.answer(line.trim()),
            _ => Answer::<()>::Error("control: expected a line of text".to_owned()).line(),
        };
        writeln!(reader.get_mut(), "{answer}")?;
        if !is_whole {
            return Ok(());
        }
    }
}
