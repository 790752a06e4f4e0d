//! The state machines stay state machines: no clock, file, socket, thread or chance in them.
//!
//! The engine and the codecs must do the same on a simulated disk as on a real one, and the same
//! twice. So everything that differs between two runs or two machines stays out of their sources;
//! time comes in as an argument, and what is done to the outside goes out as a command.
//!
//! The figures read traces and write files, but no clock: their numbers are those of virtual time, and a
//! busy machine must not be able to change one.

use super::Finding;
use super::code::{code_only, lines_with_word, paths_below};
use super::tree::Tree;

/// Directories whose sources must be deterministic.
const PURE_DIRECTORIES: &[&str] = &[
    "crates/basics/src/",
    "crates/engine/src/",
    "crates/ext4/src/",
    "crates/format/src/",
    "crates/fs/src/",
    "crates/journal/src/",
    "crates/read-cache/src/",
];

/// Directories whose results must not depend on how fast the machine is: no clock, no thread, no table
/// with an order of its own.
const TIMELESS_DIRECTORIES: &[&str] = &["figures/src/"];

/// What those may use nevertheless, though a state machine may not.
const ALLOWED_IN_TIMELESS: &[&str] = &["std::fs", "std::env", "std::os"];

/// Parts of `std` that reach outside, and what to use instead.
const OUTSIDE: &[(&str, &str)] = &[
    ("std::fs", "leave files to the disks (crates/uring) and the program (crates/cli)"),
    ("std::net", "leave sockets to the fronts (crates/nbd)"),
    ("std::os", "leave descriptors to the disks and the fronts"),
    ("std::env", "take settings as arguments"),
    ("std::process", "return an error that the program above can report"),
    ("std::thread", "leave threads to the program; the engine is driven from one"),
    ("std::time", "take the time as a `Nanos` argument"),
    ("std::collections::hash_map::RandomState", "use an ordered map or a hasher with a fixed key"),
];

/// Words that have no business in a state machine, and what to use instead.
const WORDS: &[(&str, &str)] = &[
    ("async", "hand out commands and take their completions as events"),
    ("await", "hand out commands and take their completions as events"),
    ("tokio", "hand out commands and take their completions as events"),
    ("rand", "take a seed, or better the numbers themselves, as arguments"),
    ("getrandom", "take a seed, or better the numbers themselves, as arguments"),
    ("Instant", "take the time as a `Nanos` argument"),
    ("SystemTime", "take the time as a `Nanos` argument"),
];

/// Constructors that exist only for tables with a random key, whose order differs in every process.
const RANDOM_ORDER: &[&str] =
    &["HashMap::new(", "HashMap::with_capacity(", "HashSet::new(", "HashSet::with_capacity("];

/// Whether a package's sources are held to this rule.
pub(crate) fn is_pure(manifest: &str) -> bool {
    PURE_DIRECTORIES
        .iter()
        .any(|pure| pure.strip_suffix("src/") == manifest.strip_suffix("Cargo.toml"))
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_below = |path: &str, directories: &[&str]| {
        directories.iter().any(|directory| path.starts_with(directory))
    };
    let mut findings = Vec::new();
    for (path, text) in tree.rust_sources() {
        if is_below(path, PURE_DIRECTORIES) {
            findings.extend(check_source(path, &code_only(text), &[]));
        } else if is_below(path, TIMELESS_DIRECTORIES) {
            findings.extend(check_source(path, &code_only(text), ALLOWED_IN_TIMELESS));
        }
    }
    findings
}

fn check_source(path: &str, code: &str, allowed: &[&str]) -> Vec<Finding> {
    let finding = |line, found: String, advice: &str| Finding {
        file: path.into(),
        line,
        expected: if allowed.is_empty() {
            "a state machine that reaches nothing outside itself".into()
        } else {
            "figures whose numbers no clock and no chance can change".into()
        },
        found,
        advice: advice.into(),
    };
    let mut findings = Vec::new();
    for (line, name) in paths_below(code, "std") {
        let mut outside = OUTSIDE.iter().filter(|(outside, _)| !allowed.contains(outside));
        let reached = outside.find(|(outside, _)| is_or_is_below(&name, outside));
        findings.extend(reached.map(|(_, advice)| finding(line, format!("`{name}`"), advice)));
    }
    for (word, advice) in WORDS {
        let lines = lines_with_word(code, word).into_iter();
        // One finding per line is enough: a path of `std` was named above.
        let new = lines.filter(|line| findings.iter().all(|known| known.line != *line));
        let new: Vec<_> = new.map(|line| finding(line, format!("`{word}`"), advice)).collect();
        findings.extend(new);
    }
    for (index, line) in code.lines().enumerate() {
        let made = RANDOM_ORDER.iter().find(|constructor| line.contains(**constructor));
        let advice = "use an ordered map or a hasher with a fixed key";
        findings.extend(made.map(|made| finding(index + 1, format!("`{made}...)`"), advice)));
    }
    findings
}

fn is_or_is_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_clock_in_the_engine_is_found_however_it_is_named() {
        for named in [
            "use std::time::Instant;",
            "use std::{fmt, time::{Duration, SystemTime}};",
            "let now = std::time::Instant::now();",
            "let now = Instant::now();",
        ] {
            let found = lines_found("crates/engine/src/a/b.rs", &format!("//! x\n{named}"));
            assert!(!found.is_empty() && found.iter().all(|line| *line == 2), "{named}: {found:?}");
        }
    }

    #[test]
    fn a_clock_or_a_thread_in_the_figures_is_found_and_a_file_is_not() {
        let found = |text| lines_found("figures/src/lab.rs", text);
        assert_eq!(found("let begun = std::time::Instant::now();"), [1]);
        assert_eq!(found("std::thread::spawn(work);"), [1]);
        assert_eq!(found("let names: HashMap<u8, u8> = HashMap::new();"), [1]);
        assert!(found("std::fs::write(path, text)").is_empty());
    }

    #[test]
    fn files_sockets_threads_and_chance_are_found() {
        for named in ["std::fs::read", "std::net::TcpStream", "std::thread::spawn", "rand::random"]
        {
            assert_eq!(lines_found("crates/format/src/lib.rs", named), [1], "{named}");
        }
        assert_eq!(lines_found("crates/engine/src/lib.rs", "async fn go() {}"), [1]);
    }

    #[test]
    fn a_table_with_a_random_order_is_found() {
        let random = "let a: HashMap<u8, u8> = HashMap::new();";
        assert_eq!(lines_found("crates/engine/src/lib.rs", random), [1]);
        let fixed = "let a: HashMap<u8, u8, Fixed> = HashMap::with_hasher(Fixed);";
        assert!(lines_found("crates/engine/src/lib.rs", fixed).is_empty());
    }

    #[test]
    fn other_crates_and_the_engines_own_tests_directory_may() {
        assert!(lines_found("crates/uring/src/lib.rs", "use std::fs;").is_empty());
        assert!(lines_found("crates/engine/tests/replay.rs", "use std::fs;").is_empty());
    }

    #[test]
    fn words_in_comments_and_longer_names_do_not_count() {
        let text = "//! No std::fs and no async here.\nlet operand = strand(\"std::net\");";
        assert!(lines_found("crates/engine/src/lib.rs", text).is_empty());
    }

    #[test]
    fn the_packages_held_to_the_rule_are_known_by_manifest() {
        assert!(is_pure("crates/engine/Cargo.toml") && is_pure("crates/format/Cargo.toml"));
        assert!(!is_pure("crates/uring/Cargo.toml") && !is_pure("Cargo.toml"));
    }
}
