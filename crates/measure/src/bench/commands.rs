//! Other programs, run for a bounded time.
//!
//! Each is started in a process group of its own, so that an interrupt from the terminal reaches
//! this program alone, which then undoes things in the right order (`cleanup.rs`). A program that
//! takes too long is ended and reported; none is ever waited for without a bound.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a program is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Most bytes of its output that are kept.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Where administrators' programs are that a user's `PATH` may lack.
const MORE_PATH: &str = ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin";

/// What a program printed.
pub(super) struct Output {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// `program`, to be given arguments and started.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default() + MORE_PATH;
    command.env("PATH", path).stdin(Stdio::null()).process_group(0);
    command
}

/// Whether there is such a program.
pub(super) fn exists(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + MORE_PATH;
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a command to its end, `limit` at most. The error has its last words.
pub(super) fn run(mut command: Command, limit: Duration) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("cannot start {name}: {error}"))?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(|error| format!("{name}: {error}"))? {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::sleep(LOOK),
            None => {
                // It may have ended just now; either way there is nothing more to do with it.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name}: expected an end within {limit:?}, found none"));
            }
        }
    };
    let output = Output { stdout: text(stdout), stderr: text(stderr) };
    if status.success() {
        return Ok(output);
    }
    let said = output.stderr.trim().lines().last().unwrap_or_default().to_owned();
    Err(format!("{name}: {status}: {said}"))
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Option<JoinHandle<String>> {
    let pipe = pipe?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut limited = pipe.take(OUTPUT_BYTES_MAX);
        // What was read before an error is worth showing.
        let _ = limited.read_to_end(&mut bytes);
        // The rest is taken in and dropped, or the program would wait for a reader for ever.
        let _ = std::io::copy(&mut limited.into_inner(), &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

fn text(reader: Option<JoinHandle<String>>) -> String {
    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let mut sleep = command("sleep");
        sleep.arg("600");
        let told = run(sleep, Duration::from_millis(50)).err().unwrap();
        assert!(told.starts_with("sleep: expected an end within"), "{told}");
    }

    #[test]
    fn a_failure_is_told_with_the_programs_last_words() {
        let mut shell = command("sh");
        shell.args(["-c", "echo out; echo first >&2; echo last >&2; exit 3"]);
        let told = run(shell, Duration::from_secs(60)).err().unwrap();
        assert!(told.contains('3') && told.ends_with("last"), "{told}");
        assert!(exists("sh") && !exists("no-such-program"));
    }
}
