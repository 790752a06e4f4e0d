//! One rung against one mistake: run it until a test fails, it ends, or its time is up.

use super::Rung;
use super::build::Programs;
use super::patches::SWITCH;
use crate::simulate::MEMORY;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at a program.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A program that waits for what never comes uses no processor time: how long it may take by the clock, at least,
/// and as a multiple of the processor time that it may use. Generous, for machines that do other things as well.
const WAIT_MAX: Duration = Duration::from_secs(300);
const WAIT_FACTOR: u32 = 20;

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
    /// The rung never comes to the place of the mistake.
    NotReached,
    /// Another rung has found the mistake already.
    NotAsked,
}

impl Cell {
    pub(super) fn is_found(&self) -> bool {
        matches!(self, Self::Found(_) | Self::Lives { failed: 1.., .. })
    }

    /// The rung was asked and did not find it.
    pub(super) fn is_asked_in_vain(&self) -> bool {
        !self.is_found() && !matches!(self, Self::NotReached | Self::NotAsked)
    }
}

/// What stands behind the name of the rung.
impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(after) => write!(formatter, " {:.1} s", after.as_secs_f64()),
            Self::Passed(_) | Self::NotReached | Self::NotAsked => Ok(()),
            Self::TimeUp(_) => write!(formatter, " >"),
            Self::Lives { failed: 0, lived } => write!(formatter, " ({lived} lives)"),
            Self::Lives { failed, lived } => write!(formatter, " {failed} of {lived}"),
            Self::Broken => write!(formatter, " cannot be run"),
        }
    }
}

/// Which mistake is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice<'a> {
    Mistake(&'a str),
    /// None, and this file is told which ones the programs come to.
    None {
        reached: &'a Path,
    },
}

impl Choice<'_> {
    fn apply(self, command: &mut Command) {
        command.env_remove(SWITCH.variable).env_remove(SWITCH.met_variable);
        match self {
            Self::Mistake(name) => command.env(SWITCH.variable, name),
            Self::None { reached } => command.env(SWITCH.met_variable, reached),
        };
    }
}

/// Runs the programs of a rung one after the other.
pub(super) fn try_rung(
    root: &Path,
    programs: &Programs,
    rung: &Rung,
    choice: Choice<'_>,
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
        choice.apply(&mut command);
        let left = limit.saturating_sub(spent);
        match run(command, left, WAIT_MAX.max(left * WAIT_FACTOR)) {
            Cell::Passed(took) => spent += took,
            Cell::Found(took) => return Cell::Found(spent + took),
            Cell::TimeUp(_) => return Cell::TimeUp(limit),
            other => return other,
        }
    }
    Cell::Passed(spent)
}

/// Runs a test program until a test fails, it ends, its processor time is up, or it has waited too long.
pub(crate) fn run(mut command: Command, limit: Duration, wait_max: Duration) -> Cell {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let Ok(mut child) = command.spawn() else { return Cell::Broken };
    let stdout = child.stdout.take();
    // A program goes on after its first test that fails; nobody waits for the others.
    let is_failure = |line: &[u8]| line.starts_with(b"test ") && line.ends_with(b"FAILED");
    watch_lines(&mut child, stdout, Bounds { processor: limit, clock: wait_max }, is_failure)
}

/// How long a program may go on.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    processor: Duration,
    clock: Duration,
}

/// Watches a program and looks at each of its lines, until one of them says that a test failed.
fn watch_lines(
    child: &mut Child,
    output: Option<impl Read + Send>,
    bounds: Bounds,
    mut is_failure: impl FnMut(&[u8]) -> bool + Send,
) -> Cell {
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).split(b'\n'));
            for line in lines.map_while(Result::ok) {
                if is_failure(&line) {
                    failed.store(true, Ordering::Relaxed);
                }
            }
        });
        watch(child, &failed, bounds)
    })
}

fn watch(child: &mut Child, failed: &AtomicBool, bounds: Bounds) -> Cell {
    let (began, mut spent) = (Instant::now(), Duration::ZERO);
    loop {
        let may_go_on = spent < bounds.processor && began.elapsed() < bounds.clock;
        // Before it is asked whether it has ended: then its times are gone.
        spent = processor_time(child.id()).unwrap_or(spent);
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Cell::Passed(spent),
            Ok(Some(_)) => return Cell::Found(spent),
            Ok(None) if !failed.load(Ordering::Relaxed) && may_go_on => {}
            _ => {
                end_group(child);
                let found = failed.load(Ordering::Relaxed);
                return if found { Cell::Found(spent) } else { Cell::TimeUp(spent) };
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Ends a program and what it started: a server that outlives it would hold the other end of our pipe.
fn end_group(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.kill();
    let _ = child.wait();
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

/// Seeds, and steered lives, unless one that fails comes before. Lower seeds have no choice of what was added later.
const SEEDS: &str = "79600000000000..79600000001000";
const SEEDS_OF_CHAINS: &str = "79600000000000..79600000010000";
const STEERED_LIVES_MAX: &str = "1000";

/// So many lives are counted of those by seed, whether they fail or not.
const COUNTED: u64 = 100;

/// Steered lives without a mistake, of which none may fail.
const STEERED_WITHOUT: u64 = 240;

/// Which of the simulator's lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lives {
    /// As seeds choose them.
    BySeed,
    /// Those of seeds that choose a chain.
    OnChains,
    /// A campaign.
    Steered,
}

/// The simulator's lives: a hundred, or as many as the first that fails needs, within a bound of processor time.
pub(super) fn try_swarm(
    root: &Path,
    programs: &Programs,
    choice: Choice<'_>,
    lives: Lives,
    limit: Duration,
) -> Cell {
    let Some(path) = programs.simulator() else { return Cell::Broken };
    let mut command = Command::new(path);
    command.args(["--count", "--threads", "1"]);
    match lives {
        Lives::BySeed => command.args(["--seeds", SEEDS]),
        Lives::OnChains => command.args(["--seeds", SEEDS_OF_CHAINS, "--preset", "gecko"]),
        Lives::Steered => command.args(["--steer", STEERED_LIVES_MAX, "--campaign", "1"]),
    };
    choice.apply(&mut command);
    command.envs(MEMORY).current_dir(root);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let Ok(mut child) = command.spawn() else { return Cell::Broken };
    let stderr = child.stderr.take();
    let mut last = None;
    let bounds = Bounds { processor: limit, clock: WAIT_MAX.max(limit * WAIT_FACTOR) };
    let without = matches!(choice, Choice::None { .. });
    let cell = watch_lines(&mut child, stderr, bounds, |line| {
        // What it says until it ends is more than was asked for.
        let had_enough = last.as_ref().is_some_and(|last| is_enough(last, without, lives));
        if !had_enough {
            last = lives_of(line).or(last.take());
        }
        last.as_ref().is_some_and(|last| is_enough(last, without, lives))
    });
    // One that ends before a life has ended was not understood.
    last.unwrap_or(if matches!(cell, Cell::TimeUp(_)) { cell } else { Cell::Broken })
}

/// Whether no more lives are asked for.
fn is_enough(cell: &Cell, without: bool, lives: Lives) -> bool {
    let Cell::Lives { failed, lived } = *cell else { return false };
    match (without, lives) {
        (true, Lives::Steered) => lived >= STEERED_WITHOUT,
        (false, Lives::Steered) => failed > 0,
        _ => lived >= COUNTED && (failed > 0 || without),
    }
}

/// From what the simulator says after each life.
fn lives_of(line: &[u8]) -> Option<Cell> {
    let words = std::str::from_utf8(line).ok()?.strip_suffix(" lives")?;
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
    fn the_lives_that_found_a_mistake_are_read_from_what_the_simulator_says() {
        let found = lives_of(b"3 of 100 lives");
        assert_eq!(found, Some(Cell::Lives { failed: 3, lived: 100 }));
        assert!(found.is_some_and(|cell| cell.is_found()));
        assert_eq!(lives_of(b"a warning about lives"), None);
        assert!(!Cell::Lives { failed: 0, lived: 2000 }.is_found());
    }

    #[test]
    fn a_hundred_lives_are_counted_and_more_only_until_one_fails() {
        let enough = |failed, lived, without, lives| {
            is_enough(&Cell::Lives { failed, lived }, without, lives)
        };
        let (by_seed, steered) = (Lives::BySeed, Lives::Steered);
        assert!(!enough(3, 99, false, by_seed) && enough(3, 100, false, by_seed));
        assert!(!enough(0, 100, false, Lives::OnChains) && enough(1, 700, false, by_seed));
        assert!(!enough(0, 99, true, by_seed) && enough(0, 100, true, by_seed));
        assert!(!enough(0, 900, false, steered) && enough(1, 2, false, steered));
        assert!(!enough(1, 239, true, steered) && enough(0, 240, true, steered));
    }

    #[test]
    fn a_program_that_fails_or_goes_on_for_ever_is_told_from_one_that_ends() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let try_it = |script, limit, wait_max| run(shell(script), limit, wait_max);
        let (short, ever) = (Duration::from_millis(50), Duration::MAX);
        assert!(matches!(try_it("exit 0", ever, ever), Cell::Passed(_)));
        assert!(matches!(try_it("exit 101", ever, ever), Cell::Found(_)));
        assert!(matches!(try_it("while :; do :; done", short, ever), Cell::TimeUp(_)));
        assert!(matches!(try_it("exec sleep 1000", ever, short), Cell::TimeUp(_)));
        let goes_on = "echo 'test a_law ... FAILED'; while :; do :; done";
        // What it started has the pipe, too.
        assert!(matches!(try_it("sleep 1000 & sleep 1000", ever, short), Cell::TimeUp(_)));
        assert!(matches!(try_it(goes_on, ever, ever), Cell::Found(_)));
    }
}
