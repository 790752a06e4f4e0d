//! Style as a test: every rule that a program can decide, over the whole tree.
//!
//! A rule is a function from the tree to findings. Rules share nothing but the tree, read it once,
//! and never write. Each finding says where, what was expected, what was found and what to do.

mod book;
mod code;
mod docs;
mod manifests;
mod owners;
mod planted;
mod presets;
mod purity;
mod sources;
mod tree;

use manifests::Package;
use std::fmt;
use std::path::Path;
pub(crate) use tree::{Tree, has_ending};

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path from the root of the workspace.
    pub(crate) file: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// What the rule asks for.
    pub(crate) expected: String,
    /// What stands there.
    pub(crate) found: String,
    /// How to mend it.
    pub(crate) advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, expected, found, advice } = self;
        writeln!(formatter, "{file}:{line}: expected {expected}, found {found}")?;
        writeln!(formatter, "    what to do: {advice}")
    }
}

/// Everything that was found.
#[derive(Debug)]
struct Report {
    /// Sorted by place.
    findings: Vec<Finding>,
    files_read: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            write!(formatter, "{finding}")?;
        }
        writeln!(formatter, "tidy: {} files, {} findings", self.files_read, self.findings.len())
    }
}

/// Checks the workspace at `root` and prints every finding; true if there is none.
pub(crate) fn report_workspace(root: &Path) -> bool {
    let report = Tree::load(root).and_then(|tree| Ok(check(&tree, &manifests::packages_of(root)?)));
    match &report {
        Ok(report) => print!("{report}"),
        Err(problem) => println!("tidy: {problem}"),
    }
    report.is_ok_and(|report| report.findings.is_empty())
}

fn check(tree: &Tree, packages: &[Package]) -> Report {
    let mut findings = manifests::check(tree, packages);
    findings.extend(owners::check(tree));
    findings.extend(planted::check(tree));
    findings.extend(presets::check(tree));
    findings.extend(purity::check(tree));
    findings.extend(sources::check(tree));
    findings.extend(docs::check(tree, packages));
    findings.extend(book::check(tree));
    findings.sort();
    Report { findings, files_read: tree.texts().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let tree = Tree::of(&[
            ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n"),
            (
                "crates/engine/src/lib.rs",
                "//! The engine's clock and nothing else.\nuse std::fs;\n",
            ),
        ]);
        let report = check(&tree, &[]).to_string();
        assert!(report.starts_with("crates/engine/src/lib.rs:2: expected "), "{report}");
        assert!(report.contains("found `std::fs`"), "{report}");
        assert!(report.contains("what to do: "), "{report}");
        assert!(report.ends_with("tidy: 2 files, 1 findings\n"), "{report}");
    }

    #[test]
    fn a_tree_that_keeps_every_rule_has_no_finding() {
        let tree = Tree::of(&[
            ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n"),
            ("crates/engine/src/lib.rs", "//! A state machine without a clock of its own.\n"),
        ]);
        assert_eq!(check(&tree, &[]).findings, []);
    }
}
