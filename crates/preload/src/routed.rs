//! A log file with zeros ahead: untouched, then written through a stream, then perhaps the kernel's again.
//!
//! Only for programs that skip zeros (`--ahead`); the default is `synced.rs`. The guardian keeps where
//! the content ends, and every byte that is not synced yet, for the case that the program dies.
//!
//! The kernel keeps every descriptor's position: nothing of it is kept here, so duplicates,
//! seeks and reads that nobody stands in for cannot disagree with it. The stream is opened by the
//! first write, if that is at the end. It takes bytes at its tail; zeros far behind the tail are
//! padding, and only remembered; any other gap is filled from the file. A write into the middle gives
//! the file back to the kernel, whole, and so does whatever else a stream cannot do.

use crate::bulk::record_sync;
use crate::guard;
use crate::raw;
use crate::settings::settings;
use libc::c_int;
use nearhead_wal::guardian::Watched;
use nearhead_wal::storage::Directory;
use nearhead_wal::writer::{IoPriority, JobThread, PlainWriter};
use nearhead_wal::{At, Result, Stream, StreamOptions, WalError, WalErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A gap larger than this is given back to the kernel, which makes a hole of it.
const GAP_BYTES_MAX: u64 = 64 << 20;

/// Why every file is left when the program ends or becomes another one.
pub(crate) const PROGRAM_ENDS: &str = "the program ends";

/// Bytes that go to the guardian and the stream at a time.
const PIECE_BYTES: usize = 256 << 10;

enum State {
    /// Nothing was written yet.
    Untouched,
    Open(Box<Open>),
    /// The kernel's.
    Through,
    /// Bytes that the program wrote could not be given to the kernel: this `errno`, from now on. A
    /// sync by the kernel would know nothing of them and succeed.
    Lost(c_int),
}

/// A stream of a file of the program.
struct Open {
    stream: Stream,
    /// The length that the program believes in: of the stream, or of the padding behind it.
    size: u64,
    /// A descriptor of our own: it names the inode, whatever happens to the file's name.
    own: Own,
    /// Facts about it that the guardian has.
    watched: Watched,
    /// The newest byte of the content.
    last_byte: u8,
    /// Largest length of the file that was seen: a smaller one is another process's doing.
    seen_bytes: u64,
}

struct Own(c_int);

impl Drop for Own {
    fn drop(&mut self) {
        raw::close(self.0);
    }
}

/// The file.
pub(crate) struct Routed {
    identity: (u64, u64),
    path: String,
    state: Mutex<State>,
}

/// What became of a call.
pub(crate) enum Done {
    /// It returns this.
    Returns(isize),
    /// It fails with this `errno`.
    Fails(c_int),
    /// The kernel does it.
    Pass,
}

impl Routed {
    pub(crate) fn new(identity: (u64, u64), path: String) -> Self {
        Self { identity, path, state: Mutex::new(State::Untouched) }
    }

    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic the stream refuses by itself: its memory is gone.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes at `position`, or where the descriptor is.
    pub(crate) fn write(&self, fd: c_int, parts: &[&[u8]], position: Option<u64>) -> Done {
        let mut state = self.state();
        let flags = raw::flags_of(fd);
        let is_appending = flags & libc::O_APPEND != 0;
        let here = raw::lseek(fd, 0, libc::SEEK_CUR);
        let Ok(here) = u64::try_from(here) else { return Done::Pass };
        if matches!(*state, State::Untouched) {
            self.begin(&mut state, fd, position.unwrap_or(here), is_appending);
        }
        let open = match &mut *state {
            State::Open(open) => open,
            other => return other.pass(),
        };
        if open.is_cut_by_another() {
            self.give_back(&mut state, "another process cut it");
            return state.pass();
        }
        let at = if is_appending { open.size } else { position.unwrap_or(here) };
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let is_padding = at > open.stream.position()
            && parts.iter().all(|part| part.iter().all(|byte| *byte == 0));
        if is_padding && len > 0 {
            if let Err(error) = open.pad(at + len) {
                return self.failed(&error);
            }
        } else if at < open.stream.position() || at - open.stream.position() > GAP_BYTES_MAX {
            self.give_back(&mut state, "a write that is not at its end");
            return state.pass();
        } else if let Err(error) = open.append(at, parts) {
            return self.failed(&error);
        }
        let is_synchronous = flags & (libc::O_DSYNC | libc::O_SYNC) != 0;
        if is_synchronous && let Err(error) = open.sync() {
            return self.failed(&error);
        }
        if position.is_none() {
            raw::lseek(fd, (at + len) as i64, libc::SEEK_SET);
        }
        Done::Returns(len as isize)
    }

    /// Opens the stream, if the first write is at the end of the file.
    fn begin(&self, state: &mut State, fd: c_int, at: u64, is_appending: bool) {
        let Some(status) = raw::status(fd) else { return };
        let size = status.st_size as u64;
        if at < size && !is_appending {
            *state = State::Through;
            self.tell("is left to the kernel: a write that is not at its end");
            return;
        }
        match Open::start(fd, size) {
            Ok(open) => {
                *state = State::Open(Box::new(open));
                if settings().is_some_and(|settings| settings.verbose) {
                    self.tell("is written through a stream");
                }
            }
            Err(error) => {
                *state = State::Through;
                self.tell(&format!("is left to the kernel: {error}"));
            }
        }
    }

    /// Makes everything written durable.
    pub(crate) fn sync(&self) -> Done {
        let mut state = self.state();
        let open = match &mut *state {
            State::Open(open) => open,
            other => return other.pass(),
        };
        if open.is_cut_by_another() {
            self.give_back(&mut state, "another process cut it");
            return state.pass();
        }
        match open.sync() {
            Ok(()) => Done::Returns(0),
            Err(error) => self.failed(&error),
        }
    }

    /// Reads at `position`, or where the descriptor is.
    pub(crate) fn read(&self, fd: c_int, memory: &mut [u8], position: Option<u64>) -> Done {
        let state = self.state();
        let State::Open(open) = &*state else { return Done::Pass };
        let here = || u64::try_from(raw::lseek(fd, 0, libc::SEEK_CUR)).ok();
        let Some(at) = position.or_else(here) else { return Done::Pass };
        let len = (memory.len() as u64).min(open.size.saturating_sub(at)) as usize;
        let memory = &mut memory[..len];
        // Behind the stream there is padding.
        let content = (open.stream.position().saturating_sub(at) as usize).min(len);
        let (written, padding) = memory.split_at_mut(content);
        if let Err(error) = open.stream.read_at(at, written) {
            return self.failed(&error);
        }
        padding.fill(0);
        if position.is_none() {
            raw::lseek(fd, (at + len as u64) as i64, libc::SEEK_SET);
        }
        Done::Returns(len as isize)
    }

    /// Cuts or extends it.
    pub(crate) fn truncate(&self, len: u64) -> Done {
        let mut state = self.state();
        let open = match &mut *state {
            State::Open(open) => open,
            other => return other.pass(),
        };
        match open.truncate(len) {
            Ok(()) => Done::Returns(0),
            Err(error) => self.failed(&error),
        }
    }

    /// Space was asked for up to `end`: the stream writes its own ahead, so the length is all.
    pub(crate) fn extend(&self, end: u64) -> Done {
        let mut state = self.state();
        let State::Open(open) = &mut *state else { return Done::Pass };
        match open.pad(end) {
            Ok(()) => Done::Returns(0),
            Err(error) => self.failed(&error),
        }
    }

    /// Its length, if it is not the file's.
    pub(crate) fn size(&self) -> Option<u64> {
        match &*self.state() {
            State::Open(open) => Some(open.size),
            _ => None,
        }
    }

    /// Whatever comes next is for the kernel: it gets the file as the program believes it to be.
    pub(crate) fn leave(&self, why: &str) {
        let mut state = self.state();
        match &*state {
            State::Open(_) => self.give_back(&mut state, why),
            State::Untouched => *state = State::Through,
            State::Through | State::Lost(_) => {}
        }
    }

    /// The program is done with it. What could not be made durable is told by `errno`.
    pub(crate) fn close(&self) -> Done {
        let mut state = self.state();
        let State::Open(open) = std::mem::replace(&mut *state, State::Untouched) else {
            return Done::Pass;
        };
        match open.end() {
            Ok(()) => Done::Pass,
            Err(error) => self.failed(&error),
        }
    }

    fn give_back(&self, state: &mut State, why: &str) {
        let State::Open(open) = std::mem::replace(state, State::Through) else { return };
        match open.end() {
            // An end in order is nothing to report.
            Ok(()) if why == PROGRAM_ENDS => {}
            Ok(()) => self.tell(&format!("is left to the kernel from here on: {why}")),
            Err(error) => {
                *state = State::Lost(errno_of(&error));
                self.tell(&format!(
                    "cannot be left to the kernel ({why}): {error}; writes and syncs fail from here on, since bytes \
                     written before are lost"
                ));
            }
        }
    }

    fn failed(&self, error: &WalError) -> Done {
        self.tell(&error.to_string());
        Done::Fails(errno_of(error))
    }

    fn tell(&self, what: &str) {
        tell(&self.path, what);
    }
}

impl State {
    /// What becomes of a change that no stream takes.
    fn pass(&self) -> Done {
        if let Self::Lost(errno) = self { Done::Fails(*errno) } else { Done::Pass }
    }
}

/// One line on standard error about a file.
pub(crate) fn tell(path: &dyn std::fmt::Display, what: &str) {
    let line = format!("nearhead run: {path} {what}\n");
    let (at, len) = (line.as_ptr() as usize, line.len());
    let errno = raw::errno();
    // Without a standard error the line is lost, and nothing else.
    raw::call(libc::SYS_write, [2, at, len, 0, 0, 0]);
    raw::fail(errno);
}

fn errno_of(error: &WalError) -> c_int {
    match error.kind {
        WalErrorKind::NoSpace => libc::ENOSPC,
        WalErrorKind::ReadOnly => libc::EROFS,
        WalErrorKind::Permission => libc::EACCES,
        WalErrorKind::OutOfRange => libc::EINVAL,
        _ => libc::EIO,
    }
}

impl Open {
    /// Opens the stream of a descriptor's file, which has `size` bytes.
    fn start(fd: c_int, size: u64) -> Result<Self> {
        let own = Own(raw::open_again(fd));
        if own.0 < 0 {
            let detail = "it cannot be opened for reading and writing";
            return Err(WalError::new(WalErrorKind::Io, detail));
        }
        let failed = |error: std::io::Error| {
            let detail = format!("zeros cannot be written ahead of it: {error}");
            WalError::new(WalErrorKind::Io, detail)
        };
        let client =
            guard::client().ok_or_else(|| failed(std::io::ErrorKind::NotConnected.into()))?;
        // By its descriptor: a log that is renamed stays the same file.
        let storage = Directory::open(Path::new("/proc/self/fd"), true, Arc::new(PlainWriter))?;
        let by_thread = settings().is_some_and(|settings| settings.by_thread);
        let thread = by_thread.then(|| JobThread::start(IoPriority::REAL_TIME)).transpose()?;
        let options = StreamOptions::default();
        let name = own.0.to_string();
        let stream = Stream::open(Arc::new(storage), &name, At::End, &options, thread)?;
        let named = raw::duplicate(own.0).ok_or_else(|| failed(std::io::Error::last_os_error()))?;
        let watched = client.watch(named, size).map_err(failed)?;
        Ok(Self { stream, size, own, watched, last_byte: 1, seen_bytes: size })
    }

    fn append(&mut self, at: u64, parts: &[&[u8]]) -> Result<()> {
        // What lies in a gap is zeros, or what went past us: the file has it.
        let mut block = [0; 4096];
        while self.stream.position() < at {
            let len = (at - self.stream.position()).min(block.len() as u64) as usize;
            block.fill(0);
            let read = raw::pread(self.own.0, &mut block[..len], self.stream.position());
            if read < 0 {
                let detail = "what lies before a write cannot be read; check the disk";
                return Err(WalError::new(WalErrorKind::Io, detail));
            }
            self.add(&block[..len])?;
        }
        for part in parts {
            for piece in part.chunks(PIECE_BYTES) {
                self.add(piece)?;
            }
        }
        self.size = self.size.max(self.stream.position());
        self.note()
    }

    /// Adds bytes at the tail, which the guardian has before the stream does.
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.watched.add(bytes).map_err(unwatched)?;
        let outcome = self.stream.write(bytes);
        if let Some(last) = bytes.last() {
            self.last_byte = *last;
        }
        if outcome.is_err() {
            // A part may have been taken in; which byte is the newest is unknown.
            self.last_byte = 0;
        }
        self.note()?;
        outcome
    }

    /// Has the guardian know where the content ends.
    fn note(&mut self) -> Result<()> {
        let (durable, end) = (self.stream.durable_position(), self.stream.position());
        self.watched.set(durable, end, self.size).map_err(unwatched)
    }

    /// The program sees at least `size` bytes, of zeros behind the content.
    fn pad(&mut self, size: u64) -> Result<()> {
        self.size = self.size.max(size);
        self.note()
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        if len < self.stream.position() {
            self.watched.cut(len, len).map_err(unwatched)?;
            self.watched.reach(len).map_err(unwatched)?;
            self.stream.truncate(len)?;
        }
        self.size = len;
        self.note()
    }

    fn sync(&mut self) -> Result<()> {
        let start = Instant::now();
        let end = self.stream.position();
        if self.last_byte == 0 && self.stream.durable_position() < end {
            self.watched.reach(end).map_err(unwatched)?;
        }
        self.stream.sync()?;
        self.note()?;
        record_sync(start.elapsed().as_nanos() as u64);
        Ok(())
    }

    /// Whether the file is shorter than it was: nothing here cuts it while it is open.
    fn is_cut_by_another(&mut self) -> bool {
        let Some(status) = raw::status(self.own.0) else { return false };
        let is_cut = (status.st_size as u64) < self.seen_bytes;
        self.seen_bytes = self.seen_bytes.max(status.st_size as u64);
        is_cut
    }

    /// Leaves the file as the program believes it to be, durably.
    fn end(mut self) -> Result<()> {
        if self.is_cut_by_another() {
            return self.end_cut();
        }
        let Self { stream, size, own, watched, .. } = self;
        let len = stream.close()?;
        watched.end().map_err(unwatched)?;
        if size > len && raw::truncate(own.0, size) != 0 {
            let detail = format!("cannot extend it to the {size} bytes it had; check the disk");
            return Err(WalError::new(WalErrorKind::Io, detail));
        }
        Ok(())
    }

    /// Leaves a file that another process cut: what was written before is gone, synced or not.
    fn end_cut(self) -> Result<()> {
        let Self { stream, watched, .. } = self;
        // Not closed: that would give the file its old length again.
        drop(stream);
        watched.end().map_err(unwatched)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` takes it")]
fn unwatched(error: std::io::Error) -> WalError {
    let detail =
        format!("the end of its content cannot be kept: {error}; check the disk and memory");
    WalError::new(WalErrorKind::Io, detail)
}
