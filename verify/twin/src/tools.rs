//! Programs that the twin runs, and whether this machine has them.
//!
//! Each is run to its end with nothing on standard input; a failure carries what it printed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Folders of programs, with those that only root's PATH has.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// The program `name`, if this machine has it.
pub fn find(name: &str) -> Option<PathBuf> {
    path().split(':').map(|folder| Path::new(folder).join(name)).find(|file| file.is_file())
}

/// Fails with the name of the first program that is not installed.
pub fn need(names: &[&str]) -> Result<(), String> {
    let missing = names.iter().find(|name| find(name).is_none());
    missing.map_or(Ok(()), |name| Err(format!("{name} is not installed")))
}

/// A command with nothing on standard input.
pub fn command<S: AsRef<std::ffi::OsStr>>(program: &str, args: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env("PATH", path()).stdin(Stdio::null());
    command
}

/// Runs a program to its end.
pub fn run<S: AsRef<std::ffi::OsStr>>(program: &str, args: &[S]) -> Result<Output, String> {
    command(program, args).output().map_err(|error| format!("{program} cannot be run: {error}"))
}

/// Runs a program that must succeed; returns its standard output without the last line end.
pub fn ok<S: AsRef<std::ffi::OsStr>>(program: &str, args: &[S]) -> Result<String, String> {
    let output = run(program, args)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    Err(format!("{program} {}: {}: {}", words.join(" "), output.status, words_of(&output)))
}

/// What a program printed, on one line.
pub fn words_of(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&all);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" | ")
}

/// Tries of [`unmounted`], and the pause between two.
const UNMOUNT_TRIES: u32 = 100;
const UNMOUNT_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Runs a program that unmounts, again while the mount is busy: a child of another thread holds copies of descriptors until it is another
/// program, and the kernel ends `io_uring` a moment after its process.
pub fn unmounted(program: &str, args: &[&std::ffi::OsStr]) -> Result<(), String> {
    let mut tries = 1;
    loop {
        match ok(program, args) {
            Err(why) if why.contains("busy") && tries < UNMOUNT_TRIES => {
                tries += 1;
                std::thread::sleep(UNMOUNT_PAUSE);
            }
            other => return other.map(drop),
        }
    }
}
