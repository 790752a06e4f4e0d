//! One rung against one mistake: run it until a test fails, it ends, or its time is up.

use super::Rung;
use super::build::Programs;
use crate::simulate::MEMORY;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// As `nearhead_planted::VARIABLE`.
const VARIABLE: &str = "NEARHEAD_PLANTED";

/// Between two looks at a program.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Kernel clock ticks in a second, as `/proc` counts processor time (proc(5): `USER_HZ`, 100 on every
/// architecture that Rust's standard library supports there).
const TICKS_PER_SECOND: u64 = 100;

/// What one rung made of one mistake.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Found, after so much processor time.
    Found(Duration),
    /// The rung ended, after so much, and found nothing.
    Passed(Duration),
    /// It was stopped.
    TimeUp(Duration),
    /// So many of so many lives found it.
    Lives { failed: u64, lived: u64 },
    /// It cannot be run.
    Broken,
    /// Another rung has found the mistake already.
    NotAsked,
}

impl Cell {
    pub(super) fn is_found(&self) -> bool {
        matches!(self, Self::Found(_) | Self::Broken | Self::Lives { failed: 1.., .. })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(after) => write!(formatter, "**{:.1} s**", after.as_secs_f64()),
            Self::Passed(after) => write!(formatter, "– ({:.0} s)", after.as_secs_f64()),
            Self::TimeUp(limit) => write!(formatter, "> {} s", limit.as_secs()),
            Self::Lives { failed: 0, lived } => write!(formatter, "– ({lived} lives)"),
            Self::Lives { failed, lived } => write!(formatter, "**{failed} of {lived}**"),
            Self::Broken => write!(formatter, "cannot be run"),
            Self::NotAsked => write!(formatter, "·"),
        }
    }
}

/// Runs the programs of a rung one after the other.
pub(super) fn try_rung(
    root: &Path,
    programs: &Programs,
    rung: &Rung,
    mistake: Option<&str>,
    limit: Duration,
) -> Cell {
    let mut spent = Duration::ZERO;
    for (package, target) in rung.programs {
        let Some(path) = programs.test(package, target) else { return Cell::Broken };
        let folder = package.strip_prefix("nearhead-").unwrap_or(package);
        let mut command = Command::new(path);
        command.args(["--test-threads", "1"]).args(rung.tests);
        command
            .envs(rung.environment.iter().copied())
            .current_dir(root.join("crates").join(folder));
        choose(&mut command, mistake);
        match run(command, limit.saturating_sub(spent)) {
            Cell::Passed(took) => spent += took,
            Cell::Found(took) => return Cell::Found(spent + took),
            Cell::TimeUp(_) => return Cell::TimeUp(limit),
            other => return other,
        }
    }
    Cell::Passed(spent)
}

fn choose(command: &mut Command, mistake: Option<&str>) {
    command.env_remove(VARIABLE);
    command.envs(mistake.map(|name| (VARIABLE, name)));
}

/// Runs a test program until a test fails, it ends, or its processor time is up.
pub(crate) fn run(mut command: Command, limit: Duration) -> Cell {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return Cell::Broken };
    let failed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&failed);
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).split(b'\n'));
        for line in lines.map_while(Result::ok) {
            // A program goes on after its first test that fails; nobody waits for the others.
            if line.starts_with(b"test ") && line.ends_with(b"FAILED") {
                seen.store(true, Ordering::Relaxed);
            }
        }
    });
    let cell = watch(&mut child, &failed, limit);
    let _ = reader.join();
    cell
}

fn watch(child: &mut Child, failed: &AtomicBool, limit: Duration) -> Cell {
    let mut spent = Duration::ZERO;
    loop {
        // Before it is asked whether it has ended: then its times are gone.
        spent = processor_time(child.id()).unwrap_or(spent);
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Cell::Passed(spent),
            Ok(Some(_)) => return Cell::Found(spent),
            Ok(None) if !failed.load(Ordering::Relaxed) && spent < limit => {}
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                let found = failed.load(Ordering::Relaxed);
                return if found { Cell::Found(spent) } else { Cell::TimeUp(limit) };
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What a process has used of all processors, as Linux tells.
fn processor_time(process: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&text).map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Fields 14 and 15; the second one, the name in brackets, may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Steered lives, unless one fails before.
const STEERED_LIVES_MAX: &str = "1000";

/// The simulator's lives: a hundred, or as many as the first that fails needs.
pub(super) fn try_swarm(
    root: &Path,
    programs: &Programs,
    mistake: Option<&str>,
    is_steered: bool,
) -> Cell {
    let Some(path) = programs.simulator() else { return Cell::Broken };
    let mut command = Command::new(path);
    command.args(["--planted", mistake.unwrap_or("none"), "--threads", "1"]);
    if is_steered {
        command.args(["--steer", STEERED_LIVES_MAX]);
    }
    command
        .env_remove(VARIABLE)
        .envs(MEMORY)
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let Ok(output) = command.output() else { return Cell::Broken };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(lives).unwrap_or(Cell::Broken)
}

/// From a row of the simulator's table.
fn lives(line: &str) -> Option<Cell> {
    let words = line.split('|').nth(2)?.trim();
    let (failed, lived) = words.split_once(" of ")?;
    Some(Cell::Lives { failed: failed.parse().ok()?, lived: lived.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_whatever_a_program_is_called() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 99";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn the_lives_that_found_a_mistake_are_read_from_the_simulators_table() {
        let found = lives("| `flush-skipped`: why | 3 of 100 | 10 | 0.1 s | how |");
        assert_eq!(found, Some(Cell::Lives { failed: 3, lived: 100 }));
        assert!(found.is_some_and(|cell| cell.is_found()));
        assert_eq!(lives("| mistake | caught by seeds | first seed |"), None);
        assert!(!Cell::Lives { failed: 0, lived: 2000 }.is_found());
    }

    #[test]
    fn a_program_that_fails_or_goes_on_for_ever_is_told_from_one_that_ends() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let limit = Duration::from_millis(50);
        assert!(matches!(run(shell("exit 0"), Duration::MAX), Cell::Passed(_)));
        assert!(matches!(run(shell("exit 101"), Duration::MAX), Cell::Found(_)));
        assert_eq!(run(shell("while :; do :; done"), limit), Cell::TimeUp(limit));
        let goes_on = "echo 'test a_law ... FAILED'; while :; do :; done";
        assert!(matches!(run(shell(goes_on), Duration::MAX), Cell::Found(_)));
    }
}
