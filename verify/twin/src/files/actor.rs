//! The process that makes system calls on one side, and the other end of its pipe.
//!
//! A process of its own has open files, locks and users as a real program has; it ends with all of
//! them. It reads one call per line and answers with one line. The program `nearhead-twin actor ROOT`
//! is this process.

use super::call::Call;
use super::system_calls::Caller;
use crate::tools;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// Longest time of a call: far more than the slowest takes on a busy machine.
const CALL_MAX: Duration = Duration::from_secs(60);

/// A running actor; killed when dropped.
#[derive(Debug)]
pub struct Actor {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// Result of a call with the clock around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Result of the call in words: `ok ...` or the name of an error.
    pub text: String,
    /// Time of the real-time clock before the call.
    pub before: (i64, u32),
    /// The same after it.
    pub after: (i64, u32),
}

impl Actor {
    /// Starts one with `program`, which must be `nearhead-twin`, for the file system at `root`.
    pub fn start(program: &Path, root: &Path) -> Result<Self, String> {
        let args = ["actor".as_ref(), root.as_os_str()];
        let mut command = tools::command(program.to_str().unwrap_or_default(), &args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process =
            command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let (Some(to), Some(from)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("an actor has no pipes".to_owned());
        };
        Ok(Self { process, to, from: BufReader::new(from) })
    }

    /// Makes a call and waits for its result; None if there is none after [`CALL_MAX`].
    pub fn call(&mut self, call: &Call) -> Result<Option<Outcome>, String> {
        let before = clock();
        writeln!(self.to, "{call}").map_err(|error| format!("actor: {call}: {error}"))?;
        if !self.waits_for_answer().map_err(|error| format!("actor: {call}: {error}"))? {
            return Ok(None);
        }
        let mut line = String::new();
        let read = self.from.read_line(&mut line);
        read.map_err(|error| format!("actor: {call}: {error}"))?;
        if !line.ends_with('\n') {
            return Err(format!("actor: {call}: the process ended"));
        }
        let text = line.trim_end().to_owned();
        Ok(Some(Outcome { text, before, after: clock() }))
    }

    /// Whether the process answers, or ends, in time.
    fn waits_for_answer(&self) -> rustix::io::Result<bool> {
        let mut answer = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
        let begun = Instant::now();
        loop {
            let left = CALL_MAX.saturating_sub(begun.elapsed());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: 0 };
            match poll(&mut answer, Some(&timeout)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Time of the real-time clock.
pub fn clock() -> (i64, u32) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    (now.tv_sec, now.tv_nsec as u32)
}

/// Waits for the next tick of the coarse clock, from which ext4 takes its times.
///
/// Then a time that an act moves differs from every earlier one.
pub fn await_tick() {
    let coarse = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        (now.tv_sec, now.tv_nsec)
    };
    let first = coarse();
    while coarse() == first {
        std::thread::yield_now();
    }
}

/// Makes the calls of standard input until its end.
pub fn serve(root: &Path) -> Result<(), String> {
    let mut caller = Caller::new(root);
    let failed = |error: std::io::Error| format!("actor: {error}");
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let call: Call = line.map_err(failed)?.parse()?;
        writeln!(out, "{}", caller.make(&call)).and_then(|()| out.flush()).map_err(failed)?;
    }
    Ok(())
}
