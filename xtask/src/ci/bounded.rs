//! Output and end of a program whose run is bounded.
//!
//! A program that does not end within its limit is killed. A process that it started and that keeps its output open is not waited for.
//! Nothing here waits without a bound.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Lines that may be pending; the program blocks in its write after that.
const LINES_MAX: usize = 1024;
/// Interval between two looks at a program that prints nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for lines of a program that ended.
const WAIT_AFTER_END: Duration = Duration::from_secs(2);

/// Lines of a program's output, from a thread that ends with it.
pub(super) fn lines_of(stdout: Option<ChildStdout>) -> Receiver<String> {
    let (lines, receiver) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        let read = stdout.into_iter().flat_map(|out| BufReader::new(out).split(b'\n'));
        for line in read.map_while(Result::ok) {
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Passes lines on until the program ended, and returns its exit status.
///
/// # Errors
/// The program did not end within `limit` and was killed, or its status cannot be read.
pub(super) fn read_to_end(
    child: &mut Child,
    lines: &Receiver<String>,
    limit: Duration,
    mut take: impl FnMut(String),
) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    let mut ended: Option<(ExitStatus, Instant)> = None;
    let mut is_open = true;
    loop {
        if is_open {
            match lines.recv_timeout(POLL_INTERVAL) {
                Ok(line) => take(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_open = false,
            }
        } else {
            std::thread::sleep(POLL_INTERVAL);
        }
        if ended.is_none() {
            let status = child.try_wait().map_err(|error| error.to_string())?;
            ended = status.map(|status| (status, Instant::now()));
        }
        match ended {
            Some((status, at)) if !is_open || at.elapsed() > WAIT_AFTER_END => return Ok(status),
            None if begun.elapsed() > limit => return Err(stop(child, limit)),
            _ => {}
        }
    }
}

/// Kills a program that did not end; returns the message about it.
fn stop(child: &mut Child, limit: Duration) -> String {
    let killed = child.kill().and_then(|()| child.wait());
    let problem = killed.err().map(|error| format!(" ({error})")).unwrap_or_default();
    format!(
        "did not end within {} s and was stopped{problem}; tests that ran for more than 60 seconds are named above",
        limit.as_secs()
    )
}
