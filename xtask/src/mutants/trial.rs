//! The tests of a part against one change: noticed, not noticed, or never done.

use super::meetings::Meetings;
use super::switch::SWITCH;
use super::verdicts::Verdict;
use super::{Part, Program};
use crate::planted::cell::{Cell, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A loop without end may ask for memory without end, too: KiB that a test program may have.
const MEMORY_KIB_MAX: &str = "6000000";
/// Processor time of a program, at least, before a change is said to make it endless.
const LIMIT_MIN: Duration = Duration::from_secs(6);
/// And how many times what it takes without a change.
const LIMIT_FACTOR: u32 = 8;
/// The same by the clock, for a change that makes it wait for what never comes; several programs share a processor.
const WAIT_MIN: Duration = Duration::from_secs(40);
const WAIT_FACTOR: u32 = 12;
/// Programs that run at once for each processor: many of them wait most of the time.
const AT_ONCE: usize = 3;

/// Fewer and shorter runs of the invented ones, and no search for the shortest failure.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("SEEDS", "4"),
    ("FROM", "0"),
    ("EXHAUSTIVE_STRIDE", "9973"),
    ("PROPTEST_MAX_SHRINK_ITERS", "0"),
    ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true"),
];

/// A built test program, and how long it may take.
pub(super) struct Judge {
    program: Program,
    path: PathBuf,
    limit: Duration,
    wait_max: Duration,
    /// Which of its tests come upon which change, where that is known; then no others are asked.
    meetings: Option<Meetings>,
}

impl Judge {
    /// The programs as they do without a change, which must pass; otherwise nothing they say means anything.
    pub(super) fn all(root: &Path, part: &Part, paths: Vec<PathBuf>) -> Result<Vec<Self>, String> {
        let mut judges = Vec::new();
        for (program, path) in part.programs.iter().zip(paths) {
            let ever = Duration::MAX;
            let mut judge =
                Self { program: *program, path, limit: ever, wait_max: ever, meetings: None };
            let began = Instant::now();
            let Cell::Passed(took) = judge.ask(root, 0, judge.program.tests) else {
                return Err(format!(
                    "{} of {} fails without any change; run it to see why",
                    program.target_name(),
                    program.package
                ));
            };
            judge.limit = LIMIT_MIN.max(took * LIMIT_FACTOR);
            judge.wait_max = WAIT_MIN.max(began.elapsed() * WAIT_FACTOR);
            judges.push(judge);
        }
        Ok(judges)
    }

    /// As it is after it was built again, with the same bound.
    pub(super) fn at(&self, path: PathBuf) -> Self {
        Self { path, meetings: None, ..*self }
    }

    /// Finds out which of its tests come upon which change: each runs once more, alone.
    pub(super) fn learn(&mut self, root: &Path, folder: &Path) -> Result<(), String> {
        let passes = |command| matches!(run(command, self.limit, self.wait_max), Cell::Passed(_));
        let command = || self.command(root, 0);
        let meetings = Meetings::of(&command, &passes, self.program.tests, folder)?;
        self.meetings = Some(meetings);
        Ok(())
    }

    /// The program, about to be asked of change `id`.
    fn command(&self, root: &Path, id: u32) -> Command {
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {MEMORY_KIB_MAX}; exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(&self.path);
        command.envs(ENVIRONMENT).env(SWITCH.variable, id.to_string());
        command.current_dir(root.join("crates").join(self.program.folder()));
        command
    }

    fn ask(&self, root: &Path, id: u32, tests: &[&str]) -> Cell {
        let mut command = self.command(root, id);
        command.args(tests);
        run(command, self.limit, self.wait_max)
    }

    /// What this program makes of change `id`; none if it does not notice it.
    pub(super) fn judge(&self, root: &Path, id: u32) -> Option<Verdict> {
        let cell = match &self.meetings {
            None => self.ask(root, id, self.program.tests),
            Some(meetings) => {
                let tests = meetings.tests_of(id);
                if tests.is_empty() {
                    return None;
                }
                self.ask(root, id, &[&["--exact"], tests.as_slice()].concat())
            }
        };
        match cell {
            Cell::Passed(_) => None,
            Cell::TimeUp(_) => Some(Verdict::Endless),
            Cell::Broken => Some(Verdict::NotTried),
            _ => Some(Verdict::Noticed),
        }
    }
}

/// What the programs, one after the other, make of change `id`.
pub(super) fn judge(judges: &[Judge], root: &Path, id: u32) -> Verdict {
    judges.iter().find_map(|judge| judge.judge(root, id)).unwrap_or(Verdict::Unnoticed)
}

/// Does `work` for every one of `items`, on [`AT_ONCE`] threads for each processor, in any order.
pub(super) fn side_by_side<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = threads * AT_ONCE;
    let next = AtomicUsize::new(0);
    let said = Mutex::new(());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                    let done = next.load(Ordering::Relaxed).min(items.len());
                    let _one_at_a_time = said.lock();
                    if done.is_multiple_of(50) {
                        println!("  {done} of {}", items.len());
                    }
                }
            });
        }
    });
}
