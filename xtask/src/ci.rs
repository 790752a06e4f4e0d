//! The whole test run, the same for everybody: what `make test` and the CI script run.
//!
//! Every step runs even if an earlier one failed, so that one run tells everything; the summary at
//! the end names each step, where the time went (`times.rs`), each skipped test with its reason, and
//! the counts. No duration fails the run.

mod bounded;
mod programs;
mod times;

use crate::protocol;
use crate::simulate;
use crate::test_output::TestOutput;
use crate::tidy;
use programs::Times;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The promise of README.md for two cores, build included.
const DURATION_PROMISED: Duration = Duration::from_secs(20 * 60);

struct Step {
    name: &'static str,
    succeeded: bool,
    took: Duration,
}

/// Runs every step in the workspace at `root`; true if all succeeded.
pub(crate) fn run(root: &Path) -> bool {
    let started = Instant::now();
    let mut tests = TestOutput::default();
    let mut times = Times::default();
    let mut steps = vec![
        step("format", || cargo(root, &["fmt", "--all", "--", "--check"])),
        step("tidy", || tidy::report_workspace(root)),
        step("clippy", || {
            cargo(root, &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])
        }),
    ];
    if is_installed(root, "deny") {
        let arguments = ["deny", "check", "licenses", "bans", "sources"];
        steps.push(step("deny", || cargo(root, &arguments)));
    } else {
        println!("== deny: not run, cargo-deny is not installed (see `make deny`)");
    }
    steps.push(step("tests", || run_tests(root, &mut tests, &mut times)));
    steps.push(step("protocol", || protocol::run(root, &[])));
    steps.push(step("simulate", || simulate::repeated(root)));
    print_summary(&steps, &tests, &times, started.elapsed());
    steps.iter().all(|step| step.succeeded)
}

fn step(name: &'static str, work: impl FnOnce() -> bool) -> Step {
    println!("== {name}");
    let started = Instant::now();
    let succeeded = work();
    Step { name, succeeded, took: started.elapsed() }
}

/// Runs cargo to its end with its output passed on; says on failure how to repeat it.
fn cargo(root: &Path, arguments: &[&str]) -> bool {
    match cargo_command(root, arguments).status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            println!("cargo ended with {status}; repeat with: cargo {}", arguments.join(" "));
            false
        }
        Err(error) => {
            println!("cargo cannot be run: {error}");
            false
        }
    }
}

fn cargo_command(root: &Path, arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).stdin(Stdio::null());
    command
}

fn is_installed(root: &Path, subcommand: &str) -> bool {
    let mut command = cargo_command(root, &[subcommand, "--version"]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs every test of the workspace and reads along; true if tests ran and none failed.
fn run_tests(root: &Path, output: &mut TestOutput, times: &mut Times) -> bool {
    match programs::run(root, output) {
        Some(of_programs) => *times = of_programs,
        None => output.end_with_failure(),
    }
    let in_documents = ["test", "--workspace", "--doc", "--no-fail-fast", "--", "--show-output"];
    read_along(cargo_command(root, &in_documents), output);
    output.is_success()
}

/// Runs a command that prints what tests say.
fn read_along(mut command: Command, output: &mut TestOutput) {
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cargo cannot be run: {error}");
            return output.end_with_failure();
        }
    };
    let stdout = child.stdout.take().into_iter();
    for line in stdout.flat_map(|stdout| BufReader::new(stdout).split(b'\n')).map_while(Result::ok)
    {
        let line = String::from_utf8_lossy(&line);
        if output.read_line(&line) {
            println!("{line}");
        }
    }
    if !child.wait().is_ok_and(|status| status.success()) {
        output.end_with_failure();
    }
}

fn print_summary(steps: &[Step], tests: &TestOutput, times: &Times, took: Duration) {
    println!("== where the time of the tests went");
    for line in times::lines(times, tests) {
        println!("{line}");
    }
    println!("== summary");
    for Step { name, succeeded, took } in steps {
        let word = if *succeeded { "ok" } else { "FAILED" };
        println!("  {word:<7} {name:<8} {:>7.1} s", took.as_secs_f64());
    }
    println!("  in all           {:>7.1} s", took.as_secs_f64());
    if took > DURATION_PROMISED {
        println!(
            "  longer than the {} minutes promised for 2 cores",
            DURATION_PROMISED.as_secs() / 60
        );
    }
    for (test, reason) in tests.skipped() {
        println!("  skipped {test}: {reason}");
    }
    println!("{}", tests.closing_line());
}
