//! Which tests come upon which changes: a test that never does cannot notice one, and is not asked.
//!
//! Each test runs once by itself with no change on and notes what it comes upon. Where threads race it may miss a change
//! that it meets now and then; such a change may be called unnoticed for that, never noticed.

use super::switch::SWITCH;
use super::trial::side_by_side;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The tests of one program.
pub(super) struct Meetings {
    /// By change, the names of those that come upon it.
    by_change: BTreeMap<u32, BTreeSet<String>>,
    /// Tests that do not pass by themselves: nothing is known of them, so they are always asked.
    unclear: BTreeSet<String>,
}

impl Meetings {
    /// Those of the program that `command` begins, of the tests that `filters` choose; `passes` runs one, and says whether it
    /// passes in time. Files are kept in `folder`.
    pub(super) fn of(
        command: &(impl Fn() -> Command + Sync),
        passes: &(impl Fn(Command) -> bool + Sync),
        filters: &[&str],
        folder: &Path,
    ) -> Result<Self, String> {
        let mut list = command();
        list.args(filters).args(["--list", "--format", "terse"]);
        let output =
            list.output().map_err(|error| format!("a test program lists no tests: {error}"))?;
        let tests = names(&String::from_utf8_lossy(&output.stdout));
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let meetings = Mutex::new(Self { by_change: BTreeMap::new(), unclear: BTreeSet::new() });
        let numbered: Vec<(usize, String)> = tests.into_iter().enumerate().collect();
        side_by_side(&numbered, |(number, test)| {
            let path = folder.join(number.to_string());
            let _ = std::fs::remove_file(&path);
            let mut alone = command();
            alone.args(["--exact", test]).env(SWITCH.met_variable, &path);
            let passes = passes(alone);
            let met = std::fs::read_to_string(&path).unwrap_or_default();
            let mut meetings = meetings.lock().unwrap_or_else(PoisonError::into_inner);
            meetings.note(test, passes, &met);
        });
        Ok(meetings.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&mut self, test: &str, passes: bool, met: &str) {
        if !passes {
            self.unclear.insert(test.to_owned());
            return;
        }
        for id in met.lines().filter_map(|line| line.parse().ok()) {
            self.by_change.entry(id).or_default().insert(test.to_owned());
        }
    }

    /// Those that may notice change `id`.
    pub(super) fn tests_of(&self, id: u32) -> Vec<&str> {
        let met = self.by_change.get(&id).into_iter().flatten();
        met.chain(&self.unclear).map(String::as_str).collect()
    }
}

/// The tests that a program lists.
fn names(list: &str) -> Vec<String> {
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_come_upon_a_change_or_are_unclear_are_asked_of_it() {
        let list = "map::one: test\nmap::two: test\nspeed: benchmark\nmap::three: test\n";
        let tests = names(list);
        assert_eq!(tests, ["map::one", "map::two", "map::three"]);
        let mut meetings = Meetings { by_change: BTreeMap::new(), unclear: BTreeSet::new() };
        meetings.note(&tests[0], true, "3\n7\n");
        meetings.note(&tests[1], true, "7\nnot a number\n");
        meetings.note(&tests[2], false, "");
        assert_eq!(meetings.tests_of(3), ["map::one", "map::three"]);
        assert_eq!(meetings.tests_of(7), ["map::one", "map::two", "map::three"]);
        assert_eq!(meetings.tests_of(8), ["map::three"]);
    }
}
