//! The test programs of the workspace: cargo builds them, and they run two at a time.
//!
//! `cargo test` runs one after the other. Where the last test of a program takes long, or a test waits for a daemon, cores have nothing to
//! do, and that is a good part of the time of the whole run. What a program prints is kept until it is over, so that it stays together.
//! Each runs as cargo would run it: in the folder of its package, with as many threads as there are cores. No test is left out here.

use super::bounded::{lines_of, read_to_end};
use super::cargo_command;
use crate::test_output::TestOutput;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Programs that run at once, on any machine: each has threads for all cores already.
const AT_ONCE: usize = 2;

/// Duration after which a program is stopped: several times what the longest one takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(25 * 60);

/// Targets with much to do, which begin first: last, one of them would go on alone.
const LONG: [&str; 4] = ["laws", "nth_failure", "losing_disk", "shingled"];

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    package: String,
    /// Of the package.
    folder: PathBuf,
    /// What chooses it of the package: `--test laws`, say.
    target: Vec<String>,
    executable: PathBuf,
    /// Longest duration of its run.
    limit: Duration,
}

/// Durations of the test programs.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The build of all of them.
    pub(super) build: Duration,
    /// From the start of the first program to the end of the last.
    pub(super) run: Duration,
    /// Each program, in the order in which they ended.
    pub(super) programs: Vec<ProgramTime>,
}

/// Duration of a test program.
#[derive(Debug)]
pub(super) struct ProgramTime {
    /// Package and target: `nearhead-volume --test laws`.
    pub(super) name: String,
    pub(super) took: Duration,
    /// Its end, from the start of the first program.
    pub(super) ended: Duration,
}

/// Builds and runs all of them, and reads along; None if they cannot be built.
pub(super) fn run(root: &Path, output: &mut TestOutput) -> Option<Times> {
    let begun = Instant::now();
    let programs = build(root)?;
    let mut times = Times { build: begun.elapsed(), ..Times::default() };
    let begun = Instant::now();
    let waiting = Mutex::new(VecDeque::from(programs));
    let total = Mutex::new((output, &mut times.programs));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let started = Instant::now();
                    let (mut own, shown) = program.run();
                    let name = format!("{} {}", program.package, program.target.join(" "));
                    own.name_program(&name);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    println!("{shown}");
                    total.0.add(own);
                    let (took, ended) = (started.elapsed(), begun.elapsed());
                    total.1.push(ProgramTime { name, took, ended });
                }
            });
        }
    });
    times.run = begun.elapsed();
    Some(times)
}

/// Builds them as `cargo test` does, those that take longest first.
fn build(root: &Path) -> Option<Vec<Program>> {
    let arguments = ["test", "--workspace", "--no-run", "--message-format"];
    let mut command = cargo_command(root, &arguments);
    let child = command.arg("json-render-diagnostics").stdout(Stdio::piped()).spawn();
    let mut child = child.inspect_err(|error| println!("cargo cannot be run: {error}")).ok()?;
    let lines = child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines());
    let messages = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
    let mut programs: Vec<Program> = messages.filter_map(|line| program_in(&line)).collect();
    if !child.wait().is_ok_and(|status| status.success()) {
        println!("the tests do not compile; repeat with: cargo {}", arguments[..3].join(" "));
        return None;
    }
    programs.sort_by_key(|program| {
        let is_long = program.target.last().is_some_and(|name| LONG.contains(&name.as_str()));
        (!is_long, program.package.clone(), program.target.clone())
    });
    Some(programs)
}

/// The test program that a message of cargo tells of.
fn program_in(message: &Value) -> Option<Program> {
    let executable = message["executable"].as_str().filter(|_| message["profile"]["test"] == true);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    // `path+file:///folder#name@version`, or without a name if that is the folder's.
    let id = message["package_id"].as_str()?.rsplit('#').next()?;
    let package = id.split_once('@').map(|(name, _)| name.to_owned());
    let package = package.or_else(|| Some(folder.file_name()?.to_str()?.to_owned()))?;
    let name = message["target"]["name"].as_str()?;
    let target = match message["target"]["kind"][0].as_str()? {
        kind @ ("bin" | "test" | "example" | "bench") => vec![format!("--{kind}"), name.to_owned()],
        _ => vec!["--lib".to_owned()],
    };
    let executable = PathBuf::from(executable?);
    Some(Program { package, folder, target, executable, limit: LIMIT })
}

impl Program {
    /// Runs it to its end; gives what its tests said, and what is worth showing of that.
    fn run(&self) -> (TestOutput, String) {
        let mut output = TestOutput::default();
        let name = format!("cargo test --package {} {}", self.package, self.target.join(" "));
        let mut shown = vec![format!("     {name}")];
        let mut command = Command::new(&self.executable);
        command.args(["--show-output", "-Z", "unstable-options", "--report-time"]);
        // libtest measures each test, but takes that flag only so from a stable compiler.
        command.env("RUSTC_BOOTSTRAP", "1").current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => {
                output.end_with_failure();
                return (output, format!("{name}: cannot be run: {error}"));
            }
        };
        let lines = lines_of(child.stdout.take());
        let ended = read_to_end(&mut child, &lines, self.limit, |line| {
            if output.read_line(&line) {
                shown.push(line);
            }
        });
        if !ended.as_ref().is_ok_and(ExitStatus::success) {
            let ended = ended.map_or_else(|problem| problem, |status| status.to_string());
            shown.push(format!("{ended}; repeat with: {name}"));
            output.end_with_failure();
        }
        (output, shown.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(id: &str, kind: &str, is_test: bool) -> Value {
        json!({
            "package_id": id, "manifest_path": "/x/crates/volume/Cargo.toml", "profile": {"test": is_test},
            "target": {"name": "laws", "kind": [kind]}, "executable": "/x/laws-1"
        })
    }

    #[test]
    fn test_programs_are_found_in_what_cargo_says_and_no_others() {
        let program = |package: &str, target: &[&str]| Program {
            package: package.to_owned(),
            folder: PathBuf::from("/x/crates/volume"),
            target: target.iter().map(|word| (*word).to_owned()).collect(),
            executable: PathBuf::from("/x/laws-1"),
            limit: LIMIT,
        };
        let (named, unnamed) = (
            "path+file:///x/crates/volume#nearhead-volume@0.1.0",
            "path+file:///x/crates/volume#0.1.0",
        );
        let found = |id, kind| program_in(&message(id, kind, true));
        assert_eq!(found(named, "test"), Some(program("nearhead-volume", &["--test", "laws"])));
        assert_eq!(found(named, "cdylib"), Some(program("nearhead-volume", &["--lib"])));
        assert_eq!(found(unnamed, "bin"), Some(program("volume", &["--bin", "laws"])));
        assert_eq!(program_in(&message(named, "bin", false)), None);
        assert_eq!(program_in(&json!({"reason": "build-finished"})), None);
    }

    fn script_path(script: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("nearhead-programs-{}", std::process::id()));
        folder.join(format!("{}.sh", script.len()))
    }

    fn of_shell(script: &str) -> (TestOutput, String) {
        of_shell_within(script, LIMIT)
    }

    fn of_shell_within(script: &str, limit: Duration) -> (TestOutput, String) {
        // The shell takes `--show-output` for the name of what it runs.
        let executable = script_path(script);
        let folder = executable.parent().unwrap().to_owned();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&executable, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&executable, mode).unwrap();
        let (package, target) = ("nearhead-x".to_owned(), vec!["--lib".to_owned()]);
        Program { package, folder, target, executable, limit }.run()
    }

    #[test]
    fn a_program_that_dies_without_a_word_is_a_failure_and_says_how_to_repeat_it() {
        let well = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'";
        let (output, shown) = of_shell(well);
        assert!(output.is_success() && shown.contains("2 passed"), "{shown}");
        let (output, shown) = of_shell(&format!("{well}; kill -9 $$"));
        assert!(!output.is_success(), "{shown}");
        assert!(shown.contains("repeat with: cargo test --package nearhead-x --lib"), "{shown}");
    }

    #[test]
    fn a_process_that_keeps_the_output_open_holds_up_nothing() {
        let script = "echo 'test result: ok. 2 passed; 0 failed'; sleep 600 & echo $! > \"$0.pid\"";
        let (output, shown) = of_shell(script);
        assert!(shown.contains("2 passed") && output.is_success(), "{shown}");
        let pid = std::fs::read_to_string(script_path(script).with_extension("sh.pid")).unwrap();
        let ended_by_us = Command::new("kill").arg(pid.trim()).status().unwrap();
        assert!(ended_by_us.success(), "the process that keeps the output open was waited for");
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped_and_named() {
        let (output, shown) =
            of_shell_within("echo begun; exec sleep 60", Duration::from_millis(1));
        assert!(!output.is_success() && shown.contains("was stopped"), "{shown}");
    }
}
