//! Where the time of a test run went: the build, each long program, each long test, and how long a
//! lane had nothing to do at the end.
//!
//! Programs run two at a time (`programs.rs`), so a single program that ends long after the others
//! costs the run as much as it takes alone. Only prints; nothing here decides whether a run succeeds.

use super::programs::Times;
use crate::test_output::TestOutput;
use std::cmp::Reverse;
use std::time::Duration;

/// Programs and tests that are listed, the longest first.
const LISTED: usize = 15;

/// The lines of the report.
pub(super) fn lines(times: &Times, tests: &TestOutput) -> Vec<String> {
    let seconds = |took: Duration| format!("{:>9.1} s", took.as_secs_f64());
    let mut lines = vec![
        format!("{}  build of the test programs", seconds(times.build)),
        format!("{}  their run, two at a time", seconds(times.run)),
    ];
    if let [.., before, last] = &times.programs[..] {
        let alone = last.ended.saturating_sub(before.ended);
        lines.push(format!("{}  of that alone at the end: {}", seconds(alone), last.name));
    }
    let mut programs: Vec<_> = times.programs.iter().collect();
    programs.sort_by_key(|program| Reverse(program.took));
    lines.push(format!("  the {LISTED} longest programs of {}:", programs.len()));
    let of_program = programs.iter().take(LISTED);
    lines.extend(of_program.map(|program| format!("{}  {}", seconds(program.took), program.name)));
    lines.push(format!("  the {LISTED} longest tests:"));
    let of_test = tests.longest(LISTED).into_iter();
    lines.extend(of_test.map(|(test, took)| format!("{}  {test}", seconds(*took))));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::programs::ProgramTime;
    use super::*;

    fn program(name: &str, took: u64, ended: u64) -> ProgramTime {
        let (took, ended) = (Duration::from_secs(took), Duration::from_secs(ended));
        ProgramTime { name: name.to_owned(), took, ended }
    }

    #[test]
    fn the_report_names_the_program_that_ran_alone_and_sorts() {
        let mut tests = TestOutput::default();
        tests.read_line("test one ... ok <3.000s>");
        let programs =
            vec![program("short", 2, 2), program("middle", 9, 11), program("long", 30, 30)];
        let times =
            Times { build: Duration::from_secs(60), run: Duration::from_secs(30), programs };
        let lines = lines(&times, &tests);
        assert!(
            lines.contains(&"     19.0 s  of that alone at the end: long".to_owned()),
            "{lines:#?}"
        );
        let place = |text: &str| lines.iter().position(|line| line.ends_with(text)).unwrap();
        assert!(place("s  long") < place("s  middle") && place("s  middle") < place("s  one"));
    }

    #[test]
    fn a_run_that_was_not_built_has_a_report_too() {
        assert_eq!(lines(&Times::default(), &TestOutput::default()).len(), 4);
    }
}
