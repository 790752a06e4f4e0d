//! Undoes what the bench did to the system, newest first, on every way out.
//!
//! Each thing done (a mount, a loop device, a process) is a step. Dropping what it was done for
//! undoes its steps; so does a signal, after which the program ends. Whoever undoes holds the list
//! until it is done, and after a signal for ever: nothing new can be done meanwhile. What a kill -9
//! leaves behind is cleared by the next run ([`super::wal`]).

use super::commands::{command, run};
use nearhead_output::note;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Long enough for a file system on a slow disk to be written back.
const LIMIT: Duration = Duration::from_secs(60);

/// Something that was done.
pub(super) enum Step {
    /// A file system was mounted here, the kernel's or one in user space.
    Mount(PathBuf),
    /// A loop device was set up.
    Loop(PathBuf),
    /// A program was started.
    Program(Child),
    /// Something else, for tests.
    #[cfg(test)]
    Note(std::sync::mpsc::Sender<u32>, u32),
}

/// The steps so far. Clones are the same list.
#[derive(Clone, Default)]
pub(super) struct Cleanup {
    steps: Arc<Mutex<Vec<Step>>>,
}

impl Cleanup {
    /// The list that is also undone when a signal asks this program to end. There is one: with
    /// two, whoever is done first would end the program before the other.
    pub(super) fn on_signals() -> Result<Self, String> {
        static INSTALLED: OnceLock<Result<Cleanup, String>> = OnceLock::new();
        INSTALLED.get_or_init(Self::install).clone()
    }

    fn install() -> Result<Self, String> {
        let cleanup = Self::default();
        let failed = |error: std::io::Error| format!("signals cannot be handled: {error}");
        let (mut receiver, sender) = UnixStream::pair().map_err(failed)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let sender = sender.try_clone().map_err(failed)?;
            signal_hook::low_level::pipe::register(signal, sender).map_err(failed)?;
        }
        let steps = cleanup.clone();
        let body = move || {
            let mut byte = [0];
            if receiver.read_exact(&mut byte).is_ok() {
                let mut steps = steps.locked();
                undo(&mut steps, 0);
                std::process::exit(130);
            }
        };
        let thread = std::thread::Builder::new().name("bench cleanup".to_owned()).spawn(body);
        thread.map_err(failed)?;
        Ok(cleanup)
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Step>> {
        // Steps are added and taken whole: the list is sound also after a panic.
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something and adds it. A signal that comes meanwhile waits for it; after one, nothing is done any more.
    pub(super) fn perform(
        &self,
        action: impl FnOnce() -> Result<Step, String>,
    ) -> Result<(), String> {
        let mut steps = self.locked();
        steps.push(action()?);
        Ok(())
    }

    /// How many steps there are: a place to come back to.
    pub(super) fn depth(&self) -> usize {
        self.locked().len()
    }

    /// Undoes everything that was done after there were `depth` steps.
    pub(super) fn undo_to(&self, depth: usize) {
        undo(&mut self.locked(), depth);
    }
}

fn undo(steps: &mut Vec<Step>, depth: usize) {
    while steps.len() > depth {
        let Some(step) = steps.pop() else { return };
        if let Err(problem) = undo_step(step) {
            // The older steps are worth undoing all the same.
            note(&format!("bench: {problem}"));
        }
    }
}

fn undo_step(step: Step) -> Result<(), String> {
    match step {
        Step::Mount(path) => unmount(&path),
        Step::Loop(device) => {
            let mut detach = command("losetup");
            detach.arg("--detach").arg(device);
            run(detach, LIMIT).map(drop)
        }
        Step::Program(mut child) => {
            // What it serves is in memory and nobody uses it any more.
            let _ = child.kill();
            child.wait().map(drop).map_err(|error| error.to_string())
        }
        #[cfg(test)]
        Step::Note(sender, number) => sender.send(number).map_err(|error| error.to_string()),
    }
}

/// Unmounts; if somebody still uses it, at least nobody else will.
pub(super) fn unmount(path: &Path) -> Result<(), String> {
    let mut umount = command("umount");
    umount.arg(path);
    let Err(problem) = run(umount, LIMIT) else { return Ok(()) };
    let mut lazily = command("umount");
    lazily.arg("--lazy").arg(path);
    run(lazily, LIMIT).map(drop).map_err(|also| format!("{problem}; then {also}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn steps_are_undone_newest_first_down_to_the_depth_asked_for() {
        let (sender, undone) = channel();
        let cleanup = Cleanup::default();
        let step = |sender: &std::sync::mpsc::Sender<u32>, number| {
            cleanup.perform(|| Ok(Step::Note(sender.clone(), number))).unwrap();
        };
        step(&sender, 1);
        let depth = cleanup.depth();
        step(&sender, 2);
        step(&sender, 3);
        assert!(cleanup.perform(|| Err("not done".to_owned())).is_err());
        cleanup.undo_to(depth);
        assert_eq!(undone.try_iter().collect::<Vec<_>>(), [3, 2]);
        cleanup.undo_to(0);
        assert_eq!(undone.try_iter().collect::<Vec<_>>(), [1]);
        cleanup.undo_to(0);
        assert_eq!(undone.try_iter().count(), 0);
    }

    #[test]
    fn a_step_that_cannot_be_undone_does_not_keep_the_older_ones() {
        let (sender, undone) = channel();
        let cleanup = Cleanup::default();
        cleanup.perform(|| Ok(Step::Note(sender, 1))).unwrap();
        // Nobody listens to this one: it fails.
        cleanup.perform(|| Ok(Step::Note(channel().0, 2))).unwrap();
        cleanup.undo_to(0);
        assert_eq!(undone.try_iter().collect::<Vec<_>>(), [1]);
    }
}
