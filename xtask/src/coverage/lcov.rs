//! Reads lcov's text: which lines of which file ran, without the lines of tests.

use std::fmt::Write as _;
use std::path::Path;

/// Lines of one file that hold code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// How many of them ran.
    pub(crate) ran: usize,
    /// The others, in order.
    pub(crate) missed: Vec<usize>,
}

impl Lines {
    pub(crate) fn all(&self) -> usize {
        self.ran + self.missed.len()
    }

    /// The lines that never ran, as ranges for people.
    pub(crate) fn never_ran(&self) -> String {
        let mut text = String::new();
        let mut rest = &self.missed[..];
        while let Some(&first) = rest.first() {
            let len = rest.iter().zip(first..).take_while(|&(&line, next)| line == next).count();
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = match len {
                1 => write!(text, "{comma}{first}"),
                _ => write!(text, "{comma}{first}-{}", first + len - 1),
            };
            rest = &rest[len..];
        }
        if text.is_empty() { "nothing".to_owned() } else { text }
    }
}

/// Each file with its lines, paths from `root` on; files of tests only are left out.
pub(crate) fn read(text: &str, root: &Path) -> Vec<(String, Lines)> {
    let mut files = Vec::new();
    for record in text.split("end_of_record") {
        let Some(path) = record.lines().find_map(|line| line.strip_prefix("SF:")) else { continue };
        let name = Path::new(path).strip_prefix(root).unwrap_or(Path::new(path));
        let name = name.to_string_lossy().into_owned();
        if is_test_file(&name) {
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap_or_default();
        files.push((name, lines(record, tests_begin(&source))));
    }
    files
}

fn lines(record: &str, end: usize) -> Lines {
    let mut lines = Lines::default();
    for line in record.lines().filter_map(|line| line.strip_prefix("DA:")) {
        let mut numbers = line.split(',').map(str::parse::<usize>);
        let (Some(Ok(number)), Some(Ok(count))) = (numbers.next(), numbers.next()) else {
            continue;
        };
        match count {
            _ if number >= end => {}
            0 => lines.missed.push(number),
            _ => lines.ran += 1,
        }
    }
    lines
}

/// Files that are there for tests alone, by the names this tree gives them.
fn is_test_file(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    name.contains("/tests/")
        || file.ends_with("tests.rs")
        || ["damage.rs", "testing.rs"].contains(&file)
}

/// The line where the module of tests at a file's end begins; past the end if there is none.
fn tests_begin(source: &str) -> usize {
    let mut lines = source.lines().zip(source.lines().skip(1)).zip(1..);
    let module = |line: &str| line.ends_with('{') && line.contains("mod tests");
    lines
        .find(|((attribute, next), _)| *attribute == "#[cfg(test)]" && module(next))
        .map_or(usize::MAX, |(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_ran_are_told_from_those_that_did_not() {
        let lines = lines("SF:x\nDA:1,5\nDA:2,0\nDA:3,0\nDA:4,1\nDA:7,0\nLF:9\n", usize::MAX);
        assert_eq!(lines, Lines { ran: 2, missed: vec![2, 3, 7] });
        assert_eq!((lines.all(), lines.never_ran()), (5, "2-3, 7".to_owned()));
        assert_eq!(Lines::default().never_ran(), "nothing");
    }

    #[test]
    fn lines_of_tests_are_not_counted() {
        let source = "fn code() {}\n\n#[cfg(test)]\nmod tests {\n    fn test() {}\n}\n";
        assert_eq!(tests_begin(source), 3);
        assert_eq!(tests_begin("#[cfg(test)]\nmod damage;\nfn code() {}\n"), usize::MAX);
        let found = lines("DA:1,1\nDA:5,1\nDA:6,0\n", tests_begin(source));
        assert_eq!(found, Lines { ran: 1, missed: Vec::new() });
        assert!(is_test_file("crates/engine/src/state/map/tests.rs"));
        assert!(is_test_file("crates/nbd/src/protocol/machine_tests.rs"));
        assert!(!is_test_file("crates/engine/src/requests/stage.rs"));
    }
}
