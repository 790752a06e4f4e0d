//! A program under way: begun on a thread of its own, looked after without waiting, and ended with whoever looks after it.

use nearhead_disk::Nanos;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// So long it may take: twice what a drive takes at most to stop or to turn.
pub(super) const RUNS_MAX: Nanos = Nanos::from_secs(30);
/// Of what it says on standard error so much is read, for the first line.
const SAID_BYTES_MAX: u64 = 512;

/// A program under way.
pub(super) enum Running {
    /// It is being started.
    Starting(Receiver<std::io::Result<Started>>),
    Started(Started),
}

/// A program that was started; it ends with whoever looks after it.
pub(super) struct Started {
    child: Child,
    is_killed: bool,
    has_ended: bool,
}

/// How a program is doing.
pub(super) enum Outcome {
    /// It runs; what is wrong with that, if anything.
    Runs(Option<String>),
    Well,
    Badly(String),
}

fn late() -> String {
    format!("expected it to end within {:.0} s", RUNS_MAX.as_secs_f64())
}

impl Running {
    /// Starts a program with these two arguments, for which nobody waits.
    pub(super) fn start(program: &Path, words: [&str; 2]) -> Self {
        let (sender, receiver) = sync_channel(1);
        let mut command = Command::new(program);
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .env_remove("LISTEN_FDS")
            .env_remove("NOTIFY_SOCKET")
            .process_group(0);
        let thread = std::thread::Builder::new().name("rest-command".to_owned());
        // If there is no thread the sender is gone, which is what is seen then.
        let _ = thread.spawn(move || spawn(command, &sender));
        Self::Starting(receiver)
    }

    /// How it is doing; it `is_late` once it has run for [`RUNS_MAX`].
    pub(super) fn look(&mut self, is_late: bool) -> Outcome {
        let receiver = match self {
            Self::Started(started) => return started.look(is_late),
            Self::Starting(receiver) => receiver,
        };
        match receiver.try_recv() {
            Ok(Ok(mut started)) => {
                let outcome = started.look(is_late);
                *self = Self::Started(started);
                outcome
            }
            Ok(Err(error)) => Outcome::Badly(format!("it cannot be run: {error}")),
            Err(TryRecvError::Disconnected) => {
                Outcome::Badly("it cannot be run: there is no thread to start it".to_owned())
            }
            Err(TryRecvError::Empty) => {
                let problem = || format!("{}, found that it did not begin", late());
                Outcome::Runs(is_late.then(problem))
            }
        }
    }
}

impl Started {
    fn look(&mut self, is_late: bool) -> Outcome {
        let killed = || format!("{}, and killed it", late());
        let status = match self.child.try_wait() {
            Err(error) => {
                // Its number may be another one's by now.
                self.has_ended = true;
                return Outcome::Badly(format!("it cannot be waited for: {error}"));
            }
            Ok(None) if is_late => {
                kill(&self.child);
                // What hangs in the kernel goes on until that lets go of it.
                self.is_killed = true;
                return Outcome::Runs(Some(killed()));
            }
            Ok(None) => return Outcome::Runs(None),
            Ok(Some(status)) => status,
        };
        self.has_ended = true;
        match status {
            _ if self.is_killed => Outcome::Badly(killed()),
            status if status.success() => Outcome::Well,
            status => Outcome::Badly(ended(status, &mut self.child)),
        }
    }
}

/// How it ended, and the first line of what it said.
fn ended(status: ExitStatus, child: &mut Child) -> String {
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take()
        // Somebody that it started may still hold the other end.
        && rustix::io::ioctl_fionbio(&stderr, true).is_ok()
    {
        // What is there by now is enough.
        let _ = stderr.take(SAID_BYTES_MAX).read_to_end(&mut said);
    }
    let text = String::from_utf8_lossy(&said);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String =
        line.unwrap_or("it said nothing").chars().filter(|c| !c.is_control()).collect();
    format!("{status}: {line}")
}

fn kill(child: &Child) {
    // All that it started is in its group. It may have ended by now.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Hands it over as what ends when it is dropped: also if nobody comes for it any more.
fn spawn(mut command: Command, sender: &SyncSender<std::io::Result<Started>>) {
    let started =
        command.spawn().map(|child| Started { child, is_killed: false, has_ended: false });
    let _ = sender.send(started);
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.has_ended {
            kill(&self.child);
        }
    }
}
