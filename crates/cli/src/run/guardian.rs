//! The guardian that `nearhead run --ahead` leaves waiting for the program's death.
//!
//! The guardian must be no child of the program, which may wait for all of its children: so `run` starts a
//! process that starts the guardian and ends at once. What it does is `nearhead_wal::guardian`.

use nearhead_wal::guardian::{listen, serve};
use nearhead_wal::writer::block_signals;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

/// Starts a guardian for this process, which is about to become the program. Returns its name.
pub(super) fn start() -> Result<String, String> {
    let failed = |what: &str, error: std::io::Error| {
        format!("run: --ahead: cannot {what} a guardian: {error}; run without --ahead")
    };
    let program = std::process::id();
    let mut number = [0; 8];
    rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| failed("name", error.into()))?;
    let name = format!("nearhead-run-{program}-{:016x}", u64::from_le_bytes(number));
    let listener = listen(name.as_bytes()).map_err(|error| failed("reach", error))?;
    let status = of_stage("first", program)
        .and_then(|mut command| command.stdin(Stdio::from(listener)).status())
        .map_err(|error| failed("start", error))?;
    if status.success() {
        Ok(name)
    } else {
        Err(failed("start", std::io::Error::other(status.to_string())))
    }
}

fn of_stage(stage: &str, program: u32) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["run", "--guardian", stage, "--guardian-of", &program.to_string()]);
    command.stdout(Stdio::null());
    Ok(command)
}

/// Is the guardian, or starts it: `stage` says which. Standard input is the socket at which it is reached.
pub(super) fn run(stage: &str, program: u32) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("run: guardian: {error}");
    if stage == "first" {
        // Not waited for: when this process ends it has another parent.
        of_stage("second", program).and_then(|mut command| command.spawn()).map_err(failed)?;
        return Ok(());
    }
    // It outlives the program for a moment, whatever ends that.
    let _ = rustix::process::setsid();
    block_signals();
    let _ = std::env::set_current_dir("/");
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    serve(socket, program, &mut |line| nearhead_output::note(&format!("run: {line}")))
        .map_err(failed)
}
