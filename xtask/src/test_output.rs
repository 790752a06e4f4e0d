//! Reads what `cargo test -- --show-output` prints, line by line.
//!
//! Three things get lost in the output of many test programs: how many tests there were in all,
//! which of them found nothing to test (a tool or data set is missing) and said `skipped: <why>`,
//! and how long each took. This keeps them, and drops everything else that passing tests print.

use std::time::Duration;

/// Counts, skipped tests and durations of the tests read so far.
#[derive(Debug, Default)]
pub(crate) struct TestOutput {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// Name and reason of each test that said it was skipped.
    skipped: Vec<(String, String)>,
    /// Name and duration of each test whose line has one.
    took: Vec<(String, Duration)>,
    section: Section,
}

#[derive(Debug, Default)]
enum Section {
    /// Names and results, and everything about failures.
    #[default]
    Results,
    /// Between the results and the failures: what passing tests printed.
    Successes {
        /// Whose output this is.
        test: String,
    },
}

impl TestOutput {
    /// Takes in one line; says whether it is worth showing.
    pub(crate) fn read_line(&mut self, line: &str) -> bool {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.section = Section::Results;
            self.add_result(result);
            return true;
        }
        match (&mut self.section, line) {
            (section @ Section::Results, "successes:") => {
                *section = Section::Successes { test: String::new() };
                false
            }
            (Section::Results, line) => {
                self.took.extend(duration_of_test(line));
                true
            }
            (section @ Section::Successes { .. }, "failures:") => {
                *section = Section::Results;
                true
            }
            (Section::Successes { test }, line) => {
                if let Some(name) = test_of_heading(line) {
                    name.clone_into(test);
                }
                // At the start of the line or after the test's own `path: `, not inside a value.
                let said = line.split_once("skipped: ").filter(|(before, _)| !before.contains('{'));
                if let Some((_, reason)) = said {
                    let is_first = self.skipped.last().is_none_or(|(last, _)| last != test);
                    if is_first {
                        self.skipped.push((test.clone(), reason.to_owned()));
                    }
                }
                false
            }
        }
    }

    /// Takes in what the tests of another program said.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.skipped.extend(other.skipped);
        self.took.extend(other.took);
    }

    /// Puts `program` before the name of each test that has a duration.
    pub(crate) fn name_program(&mut self, program: &str) {
        for (test, _) in &mut self.took {
            *test = format!("{program}: {test}");
        }
    }

    /// The tests that took longest, the longest first; at most `count`.
    pub(crate) fn longest(&self, count: usize) -> Vec<&(String, Duration)> {
        let mut tests: Vec<_> = self.took.iter().collect();
        tests.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        tests.truncate(count);
        tests
    }

    /// Takes the run as failed although no test said so: a test program that did not compile or
    /// that died says nothing at all.
    pub(crate) fn end_with_failure(&mut self) {
        self.failed = self.failed.max(1);
    }

    /// Whether tests ran and none failed.
    pub(crate) fn is_success(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// Each skipped test with its reason.
    pub(crate) fn skipped(&self) -> &[(String, String)] {
        &self.skipped
    }

    /// The closing line; a skipped test does not count as passed.
    pub(crate) fn closing_line(&self) -> String {
        let passed = self.passed.saturating_sub(self.skipped.len());
        let skipped = self.ignored + self.skipped.len();
        format!("{passed} passed, {} failed, {skipped} skipped", self.failed)
    }

    /// Adds `ok. 3 passed; 0 failed; 1 ignored; 0 measured; ...`.
    fn add_result(&mut self, result: &str) {
        let counts = result.split_once(". ").map_or(result, |(_, counts)| counts);
        for part in counts.split("; ") {
            let Some((count, what)) = part.split_once(' ') else { continue };
            let Ok(count) = count.parse::<usize>() else { continue };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

/// Name and duration in `test name ... ok <1.234s>`.
fn duration_of_test(line: &str) -> Option<(String, Duration)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = result.split_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
    Some((name.to_owned(), Duration::try_from_secs_f64(seconds).ok()?))
}

/// The name in `---- name stdout ----`.
fn test_of_heading(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (TestOutput, String) {
        let mut output = TestOutput::default();
        let shown = text.lines().filter(|line| output.read_line(line)).collect::<Vec<_>>();
        (output, shown.join("\n"))
    }

    const WITH_A_SKIPPED_TEST: &str = "
running 2 tests
test a_loop_device_mounts ... ok
test numbers_add_up ... ok

successes:

---- a_loop_device_mounts stdout ----
looking around
skipped: no loop devices here
skipped: and no mount either

successes:
    a_loop_device_mounts
    numbers_add_up

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn a_skipped_test_is_counted_once_and_not_as_passed() {
        let (output, shown) = read(WITH_A_SKIPPED_TEST);
        assert_eq!(output.closing_line(), "1 passed, 0 failed, 2 skipped");
        let expected = ("a_loop_device_mounts".to_owned(), "no loop devices here".to_owned());
        assert_eq!(output.skipped(), [expected]);
        assert!(!shown.contains("looking around"), "{shown}");
        assert!(shown.contains("test numbers_add_up ... ok"), "{shown}");
    }

    #[test]
    fn the_longest_tests_are_named_with_their_program() {
        let (mut output, _) = read(
            "test quick ... ok <0.250s>\ntest slow ... FAILED <12.500s>\ntest untimed ... ok\n\
             test odd ... ok <-1s>\ntest none ... ignored",
        );
        output.name_program("laws");
        let expected = [("laws: slow", 12_500), ("laws: quick", 250)];
        let longest = output.longest(9).into_iter();
        let longest: Vec<_> = longest.map(|(name, took)| (&**name, took.as_millis())).collect();
        assert_eq!(longest, expected);
        assert_eq!(output.longest(1).len(), 1);
    }

    #[test]
    fn results_of_several_programs_add_up() {
        let (output, _) = read(&WITH_A_SKIPPED_TEST.repeat(3));
        assert_eq!(output.closing_line(), "5 passed, 0 failed, 4 skipped");
        assert!(output.is_success());
    }

    #[test]
    fn a_failure_is_shown_in_full() {
        let (output, shown) = read(
            "successes:\n---- b stdout ----\nnoise\n\nsuccesses:\n    b\n\nfailures:\n
---- a stdout ----\nseed 7\n\nfailures:\n    a\n
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        assert_eq!(output.closing_line(), "1 passed, 1 failed, 0 skipped");
        assert!(!output.is_success());
        assert!(shown.contains("seed 7") && !shown.contains("noise"), "{shown}");
    }

    #[test]
    fn no_test_at_all_is_no_success_and_a_dead_program_is_a_failure() {
        let mut output = TestOutput::default();
        assert!(!output.is_success());
        output.end_with_failure();
        assert_eq!(output.closing_line(), "0 passed, 1 failed, 0 skipped");
    }
}
