//! Rules about single files: how they open, how long they are, and what must not stand in them.

use super::Finding;
use super::code::{code_only, lines_with_word};
use super::tree::Tree;

/// Longer files usually hold two ideas.
const LINES_MAX: usize = 500;

/// Files that stay one idea past [`LINES_MAX`]: path, own limit, reason.
const LONG_FILES: &[(&str, usize, &str)] = &[];

/// The directories that may hold `unsafe`: system calls, and what C calls.
const UNSAFE_DIRECTORIES: &[&str] = &["crates/uring/", "crates/wal-c/", "crates/preload/"];

/// Macros that mark unfinished or forgotten work.
const STUB_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];
/// Marks in comments that say the same; split so that this file does not trip over itself.
const STUB_MARKS: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")];

/// First parts of paths that exist on one machine only.
const MACHINE_DIRECTORIES: &[&str] = &["work", "home", "root"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust_sources() {
        let code = code_only(text);
        findings.extend(check_opening(path, text));
        findings.extend(check_length(path, text));
        findings.extend(check_unsafe(path, &code));
        findings.extend(check_stubs(path, text, &code));
    }
    findings.extend(check_long_files(tree));
    findings.extend(tree.texts().flat_map(|(path, text)| check_machine_paths(path, text)));
    findings
}

/// A file says first what it is for.
fn check_opening(path: &str, text: &str) -> Option<Finding> {
    let first = text.lines().next().unwrap_or_default();
    let words = first.strip_prefix("//!").unwrap_or_default().split_whitespace().count();
    (words < 3).then(|| Finding {
        file: path.into(),
        line: 1,
        expected: "a `//!` paragraph".into(),
        found: format!("`{first}`"),
        advice: "say in a paragraph what the file is for, what it keeps true and what it must \
                 never do"
            .into(),
    })
}

fn check_length(path: &str, text: &str) -> Option<Finding> {
    let own_limit = LONG_FILES.iter().find(|(long, _, _)| *long == path).map(|(_, max, _)| *max);
    let (max, lines) = (own_limit.unwrap_or(LINES_MAX), text.lines().count());
    (lines > max).then(|| Finding {
        file: path.into(),
        line: max + 1,
        expected: format!("at most {max} lines"),
        found: format!("{lines}"),
        advice: "split the file by idea; if it is one idea, say why in LONG_FILES \
                 (xtask/src/tidy/sources.rs)"
            .into(),
    })
}

/// An exception that is no longer needed would hide the next long file.
fn check_long_files(tree: &Tree) -> Vec<Finding> {
    let is_stale =
        |path: &str| tree.text(path).is_none_or(|text| text.lines().count() <= LINES_MAX);
    let stale = LONG_FILES.iter().filter(|(path, _, _)| is_stale(path));
    let finding = |(path, _, _): &(&str, usize, &str)| Finding {
        file: "xtask/src/tidy/sources.rs".into(),
        line: 1,
        expected: format!("every file in LONG_FILES to be longer than {LINES_MAX} lines"),
        found: format!("`{path}`, which is not there or no longer that long"),
        advice: "take its line out of LONG_FILES".into(),
    };
    stale.map(finding).collect()
}

fn check_unsafe(path: &str, code: &str) -> Vec<Finding> {
    if UNSAFE_DIRECTORIES.iter().any(|directory| path.starts_with(directory)) {
        return Vec::new();
    }
    let finding = |line| Finding {
        file: path.into(),
        line,
        expected: format!("`unsafe` only below {}", UNSAFE_DIRECTORIES.join(", ")),
        found: "`unsafe`".into(),
        advice: "use a safe wrapper from a crate, or move the block to crates/uring with its \
                 SAFETY reason"
            .into(),
    };
    lines_with_word(code, "unsafe").into_iter().map(finding).collect()
}

fn check_stubs(path: &str, text: &str, code: &str) -> Vec<Finding> {
    let finding = |line: usize, found: &str| Finding {
        file: path.into(),
        line,
        expected: "finished work".into(),
        found: format!("`{found}`"),
        advice: "finish it, or leave the feature out and note it in the changelog or an issue"
            .into(),
    };
    let code_lines: Vec<&str> = code.lines().collect();
    let mut findings = Vec::new();
    for name in STUB_MACROS {
        let call = format!("{name}!");
        let calls = lines_with_word(code, name);
        let calls = calls.into_iter().filter(|line| code_lines[line - 1].contains(&call));
        findings.extend(calls.map(|line| finding(line, &call)));
    }
    for mark in STUB_MARKS {
        findings.extend(lines_with_word(text, mark).into_iter().map(|line| finding(line, mark)));
    }
    findings
}

fn check_machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for directory in MACHINE_DIRECTORIES {
            let start = format!("/{directory}/");
            // Preceded by a name it is the middle of some other path or address.
            let within = |before: &str| {
                before.ends_with(|c: char| c.is_alphanumeric() || "._~-})*".contains(c))
            };
            if line.match_indices(&start).any(|(at, _)| !within(&line[..at])) {
                findings.push(Finding {
                    file: path.into(),
                    line: index + 1,
                    expected: "paths that exist on every machine".into(),
                    found: format!("`{start}...`"),
                    advice: "name it relative to the workspace, take it from the environment, or \
                             use a temporary directory"
                        .into(),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENING: &str = "//! What this is for.\n";

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let findings = check(&Tree::of(&[(path, text)]));
        findings.into_iter().map(|finding| (finding.line, finding.found)).collect()
    }

    #[test]
    fn a_source_without_an_opening_paragraph_is_found() {
        for text in ["", "use std::fmt;\n", "//!\n//! Late.\n", "// No doc comment at all.\n"] {
            assert_eq!(found("crates/a/src/lib.rs", text).len(), 1, "{text:?}");
        }
        assert_eq!(found("crates/a/src/lib.rs", OPENING), []);
    }

    #[test]
    fn a_source_past_the_limit_is_found_at_the_first_line_too_many() {
        let longest = format!("{OPENING}{}", "\n".repeat(LINES_MAX - 1));
        assert_eq!(found("crates/a/src/lib.rs", &longest), []);
        let too_long = format!("{longest}\n");
        assert_eq!(found("crates/a/src/lib.rs", &too_long), [(501, "501".to_owned())]);
    }

    #[test]
    fn unsafe_is_found_outside_the_real_device() {
        let text = format!("{OPENING}unsafe {{}}\n");
        assert_eq!(found("crates/nbd/src/lib.rs", &text), [(2, "`unsafe`".to_owned())]);
        assert_eq!(found("crates/uring/src/ring.rs", &text), []);
        let denied = format!("{OPENING}#![deny(unsafe_code)] // unsafe is for others\n");
        assert_eq!(found("crates/nbd/src/lib.rs", &denied), []);
    }

    #[test]
    fn stubs_are_found_in_code_and_marks_in_comments() {
        for name in STUB_MACROS {
            let text = format!("{OPENING}fn f() {{ {name}!() }}\nfn {name}() {{}}\n");
            assert_eq!(found("crates/a/src/lib.rs", &text), [(2, format!("`{name}!`"))]);
        }
        for mark in STUB_MARKS {
            let text = format!("{OPENING}// {mark}: later\n");
            assert_eq!(found("crates/a/src/lib.rs", &text), [(2, format!("`{mark}`"))]);
        }
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_any_text() {
        for directory in MACHINE_DIRECTORIES {
            let text = format!("See `/{directory}/somebody/file`.\n");
            assert_eq!(found("docs/a.md", &text).len(), 1, "{directory}");
        }
    }

    #[test]
    fn relative_paths_and_addresses_are_no_machine_paths() {
        for before in ["..", "https://example.org", "$TMPDIR", "crates"] {
            let text = format!("{before}/{}/x\n", MACHINE_DIRECTORIES[0]);
            assert_eq!(found("docs/a.md", &text), [], "{before}");
        }
    }
}
