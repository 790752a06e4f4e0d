//! Files that a command makes and has not finished, and what is said of them if the command is interrupted.
//!
//! While an [`Unfinished`] lives, SIGINT, SIGTERM and SIGHUP remove its files, say so, and then end the program as they would have without
//! it. A file is removed only if this command made it. It must never touch a file after [`Unfinished::finish`], nor one that another
//! process took over: an image that this process has not locked yet is removed only while it is empty.

use nearhead_output as output;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often, and with which pause, removing is tried while the command opens its images: opening one takes milliseconds.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);
/// Exit code of a program that a signal ended, as a shell shows it, less the signal's number.
const EXIT_BY_SIGNAL: i32 = 128;

#[derive(Debug, Default)]
struct State {
    /// Images that this command made.
    images: Vec<PathBuf>,
    /// Whether this process holds the images' locks, so that no other can have written to them.
    are_locked: bool,
    /// What is left behind that cannot be removed, and what to do about it.
    rest: Option<String>,
    is_finished: bool,
    /// A signal is being handled, which ends the program.
    is_interrupted: bool,
}

/// The files of one command. Ending it by an error is the command's own affair: it removes them itself.
#[derive(Debug)]
pub struct Unfinished {
    state: Arc<Mutex<State>>,
    signals: Handle,
}

impl Unfinished {
    /// From here on an interruption of `command` removes what it made.
    pub fn begin(command: &str) -> Result<Self, String> {
        let failed =
            |error: std::io::Error| format!("{command}: signals cannot be handled: {error}");
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let handle = signals.handle();
        let state = Arc::new(Mutex::new(State::default()));
        let (of_thread, command) = (Arc::clone(&state), command.to_owned());
        let watch = move || {
            if let Some(signal) = signals.forever().next() {
                interrupted(&command, &of_thread, signal);
            }
        };
        std::thread::Builder::new()
            .name("unfinished files".to_owned())
            .spawn(watch)
            .map_err(failed)?;
        Ok(Self { state, signals: handle })
    }

    /// This command is about to make the image at `path`, which does not exist.
    pub fn add(&self, path: &Path) {
        locked(&self.state).images.push(path.to_owned());
    }

    /// The image at `path` was not made after all.
    pub fn forget(&self, path: &Path) {
        locked(&self.state).images.retain(|image| image != path);
    }

    /// This process has all of them to itself.
    pub fn are_locked(&self) {
        locked(&self.state).are_locked = true;
    }

    /// What an interruption leaves behind from here on that cannot be removed, and what to do about it.
    pub fn leaves(&self, rest: &str) {
        locked(&self.state).rest = Some(rest.to_owned());
    }

    /// Making them failed. Where a signal removed them while they were made, that is the reason: its handler reports it and ends the
    /// program, within [`TRIES`] pauses.
    pub fn failed(&self) {
        while locked(&self.state).is_interrupted {
            std::thread::sleep(PAUSE);
        }
    }

    /// All of them are whole: they stay.
    pub fn finish(self) {
        locked(&self.state).is_finished = true;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.signals.close();
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Each change of it is whole: it is sound also after a panic.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what there is, says so, and ends the program. The lock is held to the end: nothing is finished meanwhile.
fn interrupted(command: &str, state: &Mutex<State>, signal: i32) {
    locked(state).is_interrupted = true;
    let mut removed = Vec::new();
    let mut tries = TRIES;
    let state = loop {
        let state = locked(state);
        if state.is_finished {
            break state;
        }
        removed.extend(remove(&state));
        tries -= 1;
        if state.are_locked || tries == 0 || left(&state).is_empty() {
            break state;
        }
        // The command is opening them just now: it will say that it has them.
        drop(state);
        std::thread::sleep(PAUSE);
    };
    let left = left(&state).join(", ");
    let told = [
        (!removed.is_empty()).then(|| format!("removed {}", removed.join(", "))),
        (!left.is_empty() && state.is_finished).then(|| format!("{left} is made and whole")),
        (!left.is_empty() && !state.is_finished)
            .then(|| format!("{left} is left, unfinished; remove it")),
        state.rest.clone().filter(|_| !state.is_finished),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    if !told.is_empty() {
        let code = u8::try_from(EXIT_BY_SIGNAL + signal).unwrap_or(u8::MAX);
        output::fail(&format!("{command}: interrupted: {}", told.join("; ")), code);
    }
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    // Where the signal is blocked or has no default.
    std::process::exit(EXIT_BY_SIGNAL + signal);
}

/// The images that are there.
fn left(state: &State) -> Vec<String> {
    let there = state.images.iter().filter(|path| path.symlink_metadata().is_ok());
    there.map(|path| path.display().to_string()).collect()
}

fn remove(state: &State) -> Vec<String> {
    let mut removed = Vec::new();
    for path in &state.images {
        let was_there = path.symlink_metadata().is_ok();
        if state.are_locked {
            let _ = std::fs::remove_file(path);
        } else {
            nearhead_uring::remove_empty_image(path);
        }
        if was_there && path.symlink_metadata().is_err() {
            removed.push(path.display().to_string());
        }
    }
    removed
}
