//! Documents stay true to the tree: links lead somewhere, every crate has its place, the changelog
//! is open for the next change.
//!
//! Only links within the repository are followed; nothing is fetched.

use super::Finding;
use super::manifests::Package;
use super::tree::{Tree, has_ending};
use std::collections::BTreeMap;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const CHANGELOG: &str = "CHANGELOG.md";

pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let documents = tree.texts().filter(|(path, _)| has_ending(path, "md"));
    let mut findings: Vec<Finding> =
        documents.flat_map(|(path, text)| check_links(tree, path, text)).collect();
    findings.extend(check_architecture(tree, packages));
    findings.extend(check_changelog(tree));
    findings
}

/// A newcomer finds every crate in the one document that explains how they hang together.
fn check_architecture(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    // The document may come after the first crates.
    let Some(text) = tree.text(ARCHITECTURE) else { return Vec::new() };
    let directory_of = |package: &Package| {
        package.manifest.strip_suffix("/Cargo.toml").unwrap_or_default().to_owned()
    };
    let is_listed = |directory: &str| {
        let short = directory.rsplit('/').next().unwrap_or(directory);
        [directory.to_owned(), format!("`{short}`"), format!("{short}/")]
            .iter()
            .any(|name| text.contains(name.as_str()))
    };
    let missing = packages.iter().map(directory_of).filter(|directory| !is_listed(directory));
    let finding = |directory: String| Finding {
        file: ARCHITECTURE.into(),
        line: 1,
        expected: "every crate of the workspace".into(),
        found: format!("nothing about `{directory}`"),
        advice: "add a line that says what the crate is for and what it may depend on".into(),
    };
    missing.map(finding).collect()
}

fn check_changelog(tree: &Tree) -> Option<Finding> {
    let heading = tree.text(CHANGELOG).and_then(|text| text.lines().find(|l| l.starts_with("## ")));
    let is_open = heading.is_some_and(|heading| heading.contains("Unreleased"));
    (!is_open).then(|| Finding {
        file: CHANGELOG.into(),
        line: 1,
        expected: "`## Unreleased` as the first section".into(),
        found: heading.map_or_else(|| "none".into(), |heading| format!("`{heading}`")),
        advice: "add the section above the latest release and list what users will notice".into(),
    })
}

fn check_links(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let links = links_of(text).into_iter().filter(|(_, target)| !is_elsewhere(target));
    let broken = links.filter_map(|(line, target)| {
        let problem = problem_with(tree, path, text, &target)?;
        Some(Finding {
            file: path.into(),
            line,
            expected: "a link that leads to a file and heading of this repository".into(),
            found: format!("`{target}`: {problem}"),
            advice: "mend the link, or name what lies outside the repository as plain text".into(),
        })
    });
    broken.collect()
}

/// Why the link does not lead anywhere.
fn problem_with(tree: &Tree, path: &str, text: &str, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let linked = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
    if !tree.contains(&linked) {
        return Some(format!("there is no {linked}"));
    }
    let linked_text = if file.is_empty() { Some(text) } else { tree.text(&linked) };
    let is_checked = !anchor.is_empty() && has_ending(&linked, "md");
    let headings = anchors_of(linked_text.filter(|_| is_checked)?);
    (!headings.iter().any(|heading| heading == anchor))
        .then(|| format!("{linked} has no heading #{anchor}"))
}

pub(super) fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// `target` as seen from the document `path`, from the root of the repository; what climbs out of
/// it keeps its `..`, which no file of the tree has.
pub(super) fn resolve(path: &str, target: &str) -> String {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Targets of Markdown and HTML links with their lines; code is left out.
pub(super) fn links_of(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose_lines(text) {
        let line = without_code_spans(line);
        for (start, end) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
            for (at, _) in line.match_indices(start) {
                let rest = &line[at + start.len()..];
                let target = rest.split([end, ' ']).next().unwrap_or_default();
                links.push((number, target.trim_matches(['<', '>']).to_owned()));
            }
        }
        let reference = line.split_once("]: ").filter(|_| line.starts_with('['));
        let target = reference.and_then(|(_, rest)| rest.split_whitespace().next());
        links.extend(target.map(|target| (number, target.to_owned())));
    }
    links
}

/// Lines outside fenced code, counted from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        (!is_fence && !inside).then_some((index + 1, line))
    })
}

fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The anchors that a Markdown viewer gives to the headings: lower case, spaces to hyphens, other
/// punctuation dropped, repetitions numbered.
fn anchors_of(text: &str) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let headings = prose_lines(text).filter(|(_, line)| line.starts_with('#'));
    let anchors = headings.map(|(_, line)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|&c| c.is_alphanumeric() || "-_ ".contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let earlier: &mut usize = seen.entry(anchor.clone()).or_default();
        *earlier += 1;
        if *earlier == 1 { anchor } else { format!("{anchor}-{}", *earlier - 1) }
    });
    anchors.collect()
}

#[cfg(test)]
mod tests {
    use super::super::manifests::tests::package;
    use super::*;

    fn broken(path: &str, text: &str) -> Vec<(usize, String)> {
        let format = "# Record format\n## Fields\n## Fields\n## `magic`, 8 bytes\n";
        let tree =
            Tree::of(&[("docs/format.md", format), ("README.md", "# Title\n"), (path, text)]);
        let findings = check_links(&tree, path, text);
        findings.into_iter().map(|finding| (finding.line, finding.found)).collect()
    }

    #[test]
    fn links_to_files_directories_and_headings_resolve() {
        for link in [
            "[a](format.md)",
            "[a](../README.md#title)",
            "[a](format.md#fields-1)",
            "[a](format.md#magic-8-bytes)",
            "[a](../docs/)",
            "[a](#own)",
            "<img src=\"format.md\">",
            "[a]: format.md \"title\"",
            "[a](https://example.org/missing)",
            "`[a](missing.md)`",
            "```\n[a](missing.md)\n```",
        ] {
            assert_eq!(broken("docs/a.md", &format!("# Own\n{link}\n")), [], "{link}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_at_its_line() {
        for link in [
            "[a](missing.md)",
            "![picture](missing.svg)",
            "<img width=\"3\" src=\"missing.svg\">",
            "[a]: missing.md",
            "[a](format.md#missing)",
            "[a](#missing)",
            "[a](../../outside.md)",
        ] {
            let found = broken("docs/a.md", &format!("# Own\n\n{link}\n"));
            assert_eq!(found.len(), 1, "{link}: {found:?}");
            assert_eq!(found[0].0, 3, "{link}");
        }
    }

    #[test]
    fn a_crate_missing_from_the_architecture_is_found() {
        let packages = [package("nearhead-disk", &[]), package("nearhead-nbd", &[])];
        let tree = Tree::of(&[(ARCHITECTURE, "# Crates\n- `disk`: commands\n")]);
        let findings = check_architecture(&tree, &packages);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].found, "nothing about `crates/nbd`");
        assert_eq!(check_architecture(&Tree::of(&[]), &packages), []);
    }

    #[test]
    fn a_changelog_that_is_missing_or_closed_is_found() {
        let with = |text: &str| check_changelog(&Tree::of(&[(CHANGELOG, text)]));
        assert!(check_changelog(&Tree::of(&[])).is_some());
        assert!(with("# Changelog\n\n## 0.1.0\n\n## Unreleased\n").is_some());
        assert!(with("# Changelog\n\n## Unreleased\n\n## 0.1.0\n").is_none());
    }
}
