//! The program that hears when a side of a mirror begins to rest, and when it is woken (`--rest-command`): a hint, by which any kind of
//! drive can be sent to sleep.
//!
//! What stays true:
//! - nothing waits for it: it is started by a thread of its own (what it lies on may hang, and be this volume), looked after on the
//!   tick, and killed with all that it started once it has run for [`RUNS_MAX`];
//! - for each side one runs at a time. What happens meanwhile is told when it has ended: the last of it, since only that still counts;
//! - whatever it does, the volume is served as without it. That it failed is said once, until it succeeds again;
//! - no shell sees its arguments.

mod running;

use crate::report::{DeviceReport, RestCommandReport};
use nearhead_disk::{Disk, Nanos, Side};
use nearhead_output::warn;
use nearhead_volume::Lanes;
use running::{Outcome, RUNS_MAX, Running};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A side, by its name and which of those with that name it is.
type Name = (String, usize);

/// What happened to a side, as the program is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Rest,
    Wake,
}

impl Event {
    fn word(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Wake => "wake",
        }
    }
}

/// What is known of a side.
#[derive(Default)]
struct Known {
    rests: bool,
    woken: u64,
    /// What it is to be told next.
    next: Option<Event>,
    /// What it is being told, and since when.
    running: Option<(Event, Nanos, Running)>,
    told: RestCommandReport,
}

/// The program, and all sides.
pub(super) struct RestCommands {
    program: PathBuf,
    sides: BTreeMap<Name, Known>,
}

impl RestCommands {
    /// With this program, which need not be there yet; people are told if it is not.
    pub(super) fn new(program: &Path) -> Self {
        let problem = match std::fs::metadata(program) {
            Err(error) => Some(error.to_string()),
            Ok(found) if !found.is_file() => Some("it is no file".to_owned()),
            Ok(_) => rustix::fs::access(program, rustix::fs::Access::EXEC_OK)
                .err()
                .map(|error| std::io::Error::from(error).to_string()),
        };
        if let Some(problem) = problem {
            warn(&format!(
                "--rest-command: expected a program that can be run at {}, found none: {problem}; sides rest without it",
                program.display()
            ));
        }
        Self { program: program.to_owned(), sides: BTreeMap::new() }
    }

    /// Looks who rests now, and at what runs.
    pub(super) fn look<D: Disk>(&mut self, lanes: &Lanes<D>, now: Nanos) {
        let devices = std::iter::once(lanes.main()).chain(lanes.data()).chain(lanes.map());
        self.look_at(devices.flat_map(|device| device.sides(now)), now);
    }

    fn look_at(&mut self, sides: impl Iterator<Item = Side>, now: Nanos) {
        let mut rest = named(sides, |side| &side.name);
        for (name, known) in &mut self.sides {
            // One that is no side any more, or may not rest any more, does not.
            known.note(rest.remove(name).as_ref());
        }
        for (name, side) in rest {
            let mut known = Known { woken: side.woken.total(), ..Known::default() };
            known.note(Some(&side));
            self.sides.insert(name, known);
        }
        for ((name, _), known) in &mut self.sides {
            known.go_on(&self.program, name, now);
        }
        self.sides.retain(|_, known| known.is_of_use());
    }

    /// Adds to the sides in a report how the program did.
    pub(super) fn report(&self, devices: &mut [DeviceReport]) {
        let sides = devices.iter_mut().flat_map(|device| &mut device.sides);
        for (name, side) in named(sides, |side| &side.path) {
            side.command = self.sides.get(&name).map(|known| known.told.clone());
        }
    }
}

/// Each by its name, and by which of those with that name it is.
fn named<T>(all: impl Iterator<Item = T>, name: impl Fn(&T) -> &String) -> BTreeMap<Name, T> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let with_number = |one: T| {
        let count = counts.entry(name(&one).clone()).or_default();
        *count += 1;
        ((name(&one).clone(), *count - 1), one)
    };
    all.map(with_number).collect()
}

impl Known {
    /// Whether there is anything to remember.
    fn is_of_use(&self) -> bool {
        self.rests || self.next.is_some() || self.running.is_some() || self.told.runs > 0
    }

    fn note(&mut self, side: Option<&Side>) {
        let rests = side.is_some_and(|side| side.resting_for.is_some());
        let woken = side.map_or(self.woken, |side| side.woken.total());
        // It may have been woken, and rest again, since anybody looked.
        let was_woken = woken != self.woken;
        match (self.rests, rests) {
            (false, true) => self.next = Some(Event::Rest),
            (true, true) if was_woken => self.next = Some(Event::Rest),
            (true, false) => self.next = Some(Event::Wake),
            _ => {}
        }
        (self.rests, self.woken) = (rests, woken);
    }

    fn go_on(&mut self, program: &Path, side: &str, now: Nanos) {
        if let Some((event, since, running)) = &mut self.running {
            let event = *event;
            let outcome = running.look(now.since(*since) >= RUNS_MAX);
            if !matches!(outcome, Outcome::Runs(_)) {
                self.running = None;
                self.told.runs += 1;
            }
            match outcome {
                Outcome::Runs(None) => {}
                Outcome::Runs(Some(problem)) => self.failed(program, (event, side), problem),
                Outcome::Well => self.told.problem = None,
                Outcome::Badly(problem) => {
                    self.told.failed += 1;
                    self.failed(program, (event, side), problem);
                }
            }
        }
        if self.running.is_none()
            && let Some(event) = self.next.take()
        {
            let running = Running::start(program, [event.word(), side]);
            self.running = Some((event, now, running));
        }
        self.told.is_running = self.running.is_some();
    }

    /// Says so once, until it succeeds.
    fn failed(&mut self, program: &Path, (event, side): (Event, &str), problem: String) {
        if self.told.problem.is_none() {
            warn(&format!(
                "--rest-command: {} {} {side}: {problem}; it is served as without it, and nothing more is said until it succeeds",
                program.display(),
                event.word(),
            ));
        }
        self.told.problem = Some(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::{Woken, WokenBy};
    use std::io::Write;
    use std::process::{Command, Stdio};

    const START: Nanos = Nanos::from_secs(1000);

    /// A folder of its own with a script, and what the script wrote.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = format!("nearhead-rest-command-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        /// A script that notes what it is told, and then does this.
        fn script(&self, then: &str) -> RestCommands {
            let path = self.0.join("script");
            let text =
                format!("#!/bin/sh\necho \"$1 $2 $#\" >> {}/said\n{then}\n", self.0.display());
            // By another process: nobody may run what a process that begins just then has open to be written.
            let mut writer = Command::new("sh")
                .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
                .arg(&path)
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            assert!(writer.wait().unwrap().success());
            RestCommands::new(&path)
        }

        fn said(&self) -> Vec<String> {
            let text = std::fs::read_to_string(self.0.join("said")).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn side(name: &str, rests: bool, woken: u64) -> Side {
        let mut by = Woken::default();
        (0..woken).for_each(|_| by.note(WokenBy::Write));
        let resting_for = rests.then_some(Nanos::ZERO);
        Side {
            name: name.to_owned(),
            resting_for,
            idle: Nanos::ZERO,
            rested: Nanos::ZERO,
            woken: by,
        }
    }

    /// Looks until nothing runs.
    fn until_ended(commands: &mut RestCommands, sides: &[Side], now: Nanos) {
        loop {
            commands.look_at(sides.iter().cloned(), now);
            if commands.sides.values().all(|known| known.running.is_none()) {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn told(commands: &RestCommands, name: &str) -> RestCommandReport {
        commands.sides[&(name.to_owned(), 0)].told.clone()
    }

    #[test]
    fn one_that_was_started_and_never_looked_at_ends_with_whoever_started_it() {
        let scratch = Scratch::new("unseen");
        let mut commands =
            scratch.script(&format!("echo $$ >> {}/said; exec sleep 1000", scratch.0.display()));
        commands.look_at([side("a", true, 0)].into_iter(), START);
        let said = loop {
            match scratch.said() {
                said if said.len() == 2 => break said,
                _ => std::thread::yield_now(),
            }
        };
        drop(commands);
        let stat = format!("/proc/{}/stat", said[1]);
        // Nobody waits for it any more.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn it_is_run_once_when_a_side_begins_to_rest_and_once_when_it_is_woken() {
        let scratch = Scratch::new("once");
        let mut commands = scratch.script("");
        let name = "/dev/a; touch b";
        for (rests, woken) in [(false, 0), (true, 0), (true, 0), (false, 1), (false, 1)] {
            until_ended(&mut commands, &[side(name, rests, woken)], START);
        }
        assert_eq!(scratch.said(), [format!("rest {name} 2"), format!("wake {name} 2")]);
        let report = told(&commands, name);
        assert_eq!((report.runs, report.failed, report.problem), (2, 0, None));
        // It was woken and rests again since anybody looked.
        until_ended(&mut commands, &[side(name, true, 1)], START);
        until_ended(&mut commands, &[side(name, true, 2)], START);
        assert_eq!(scratch.said().len(), 4);
        // Nothing may rest any more.
        until_ended(&mut commands, &[], START);
        assert_eq!(scratch.said()[4], format!("wake {name} 2"));
    }

    #[test]
    fn one_runs_at_a_time_for_each_side_and_the_last_that_happened_meanwhile_is_told_then() {
        let scratch = Scratch::new("turns");
        let gate = scratch.0.join("gate");
        let mut commands =
            scratch.script(&format!("while ! [ -e {} ]; do :; done", gate.display()));
        let sides = |rests, woken| [side("a", rests, woken), side("b", true, 0)];
        commands.look_at(sides(true, 0).into_iter(), START);
        for woken in 1..5 {
            commands.look_at(sides(false, woken).into_iter(), START);
            commands.look_at(sides(true, woken).into_iter(), START);
        }
        commands.look_at(sides(false, 5).into_iter(), START);
        std::fs::write(gate, "").unwrap();
        until_ended(&mut commands, &sides(false, 5), START);
        let said = scratch.said();
        let of = |name: &str| said.iter().filter(|line| line.contains(name)).cloned().collect();
        let (a, b): (Vec<String>, Vec<String>) = (of(" a "), of(" b "));
        assert_eq!((a, b), (vec!["rest a 2".into(), "wake a 2".into()], vec!["rest b 2".into()]));
    }

    #[test]
    fn one_that_hangs_is_killed_with_what_it_started_after_half_a_minute() {
        let scratch = Scratch::new("hangs");
        let mut commands = scratch.script("sleep 1000 & echo $! >> $0.child; wait");
        let resting = [side("a", true, 0)];
        while !scratch.0.join("script.child").exists() {
            commands.look_at(resting.iter().cloned(), START);
        }
        commands.look_at(resting.iter().cloned(), START + Nanos::from_secs(29));
        assert!(told(&commands, "a").is_running);
        until_ended(&mut commands, &resting, START + Nanos::from_secs(30));
        let report = told(&commands, "a");
        assert_eq!((report.runs, report.failed), (1, 1));
        assert!(report.problem.unwrap().contains("within 30 s, and killed it"));
        let child = std::fs::read_to_string(scratch.0.join("script.child")).unwrap();
        // Whoever took it over may not have waited for it yet.
        let stat = format!("/proc/{}/stat", child.trim());
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !is_gone() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_it_failed_of_is_told_with_the_first_line_of_what_it_said() {
        let scratch = Scratch::new("fails");
        let mut commands = scratch.script("echo \"$2: no such drive\" >&2; echo more >&2; exit 3");
        until_ended(&mut commands, &[side("a", true, 0)], START);
        let report = told(&commands, "a");
        assert_eq!(report.problem.as_deref(), Some("exit status: 3: a: no such drive"));
        // One that ends well makes good for it.
        commands.program = scratch.script("").program.clone();
        until_ended(&mut commands, &[side("a", false, 1)], START);
        assert_eq!((told(&commands, "a").problem, told(&commands, "a").failed), (None, 1));
    }

    #[test]
    fn what_cannot_be_run_is_told_and_nothing_else_comes_of_it() {
        let scratch = Scratch::new("none");
        let file = scratch.0.join("plain");
        std::fs::write(&file, "no program").unwrap();
        for program in [scratch.0.join("missing"), file, scratch.0.clone()] {
            let mut commands = RestCommands::new(&program);
            for woken in 0..3 {
                until_ended(&mut commands, &[side("a", true, woken)], START);
            }
            let report = told(&commands, "a");
            assert_eq!((report.runs, report.failed), (3, 3));
            assert!(report.problem.unwrap().starts_with("it cannot be run: "), "{program:?}");
        }
    }

    #[test]
    fn it_is_killed_when_nobody_looks_after_it_any_more() {
        let scratch = Scratch::new("ends");
        let mut commands = scratch.script("echo $$ > $0.pid; exec sleep 1000");
        let pid = scratch.0.join("script.pid");
        let read = || std::fs::read_to_string(&pid).unwrap_or_default().trim().to_owned();
        while read().is_empty() || !told(&commands, "a").is_running {
            commands.look_at([side("a", true, 0)].into_iter(), START);
        }
        let stat = format!("/proc/{}/stat", read());
        // Once more, so that it is known to have begun.
        commands.look_at([side("a", true, 0)].into_iter(), START);
        drop(commands);
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !is_gone() {
            std::thread::yield_now();
        }
    }
}
