//! Presets are values in one table: nobody asks which one it is.
//!
//! Whoever compares a preset's name or number with one that he knows has to be found again by whoever adds one. So outside the
//! table's file a preset is asked what it is like (its kind of layout, what it logs), and the engine and the format, which
//! run policies and lay out logs for any system, do not even name one. Names may be picked, from the table, and tests may do
//! as they like. The names come from the table itself; what code asks in other words is left to the reader.

use super::Finding;
use super::tree::{Tree, without_tests};

/// The table.
const TABLE: &str = "crates/volume/src/presets.rs";
/// Where no preset is named, not even in a comment.
const NAMELESS: &[&str] = &["crates/engine/src/", "crates/format/src/"];
/// The program, whose commands messages advise: also a preset, and there it is told by the comparison alone.
const PROGRAM: &str = "nearhead";
/// What the line of the table that gives a name begins with.
const NAME: &str = "name: \"";
/// What stands before a name that something is compared with.
const BEFORE: &[&str] = &["==", "!=", "starts_with(", "ends_with(", "contains(", "eq("];
/// What stands behind one.
const BEHIND: &[&str] = &["=>", "==", "!=", "|"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let names = names_in(without_tests(tree.text(TABLE).unwrap_or_default()));
    let mut findings = Vec::new();
    for (path, text) in tree.rust_sources() {
        if NAMELESS.iter().any(|nameless| path.starts_with(nameless)) {
            findings.extend(check_nameless(path, text, &names));
        }
        if path != TABLE && is_product(path) {
            findings.extend(check_source(path, without_tests(text), &names));
        }
    }
    findings
}

fn names_in(table: &str) -> Vec<&str> {
    let lines = table.lines().filter(|line| line.trim_start().starts_with(NAME));
    lines.filter_map(|line| line.split('"').nth(1)).collect()
}

/// Whether a source is neither a test nor a measurement.
fn is_product(path: &str) -> bool {
    let is_apart = |part: &str| ["tests", "benches", "examples"].contains(&part);
    let is_tests = path.ends_with("tests.rs");
    path.split('/').any(|part| part == "src") && !path.split('/').any(is_apart) && !is_tests
}

fn check_nameless(path: &str, text: &str, names: &[&str]) -> Vec<Finding> {
    let of_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_named = |line: &str, name: &str| {
        line.match_indices(name).any(|(at, _)| {
            !line[..at].ends_with(of_name) && !line[at + name.len()..].starts_with(of_name)
        })
    };
    let numbered = text.lines().enumerate();
    let found = numbered.filter_map(|(index, line)| {
        let mut names = names.iter().filter(|name| **name != PROGRAM);
        let name = names.find(|name| is_named(line, name))?;
        Some(Finding {
            file: path.into(),
            line: index + 1,
            expected: "an engine and a format that know no system by name".into(),
            found: format!("`{name}`"),
            advice: "say what it is like: its kind of layout, its policies, what it logs".into(),
        })
    });
    found.collect()
}

fn check_source(path: &str, text: &str, names: &[&str]) -> Vec<Finding> {
    let numbered = text.lines().enumerate();
    let found = numbered.filter_map(|(index, line)| {
        let matched = names.iter().find(|name| is_compared(line, name));
        let found = match matched {
            Some(name) => format!("a comparison with `{name}`"),
            None if has_number(line) => "a preset's number".to_owned(),
            None => return None,
        };
        Some(Finding {
            file: path.into(),
            line: index + 1,
            expected: format!("presets that are told apart in {TABLE} alone"),
            found,
            advice: "ask what the preset is like, or make that a field of the table".into(),
        })
    });
    found.collect()
}

fn is_compared(line: &str, name: &str) -> bool {
    let literal = format!("\"{name}\"");
    line.match_indices(&literal).any(|(at, _)| {
        let (before, behind) = (line[..at].trim_end(), line[at + literal.len()..].trim_start());
        before.contains("matches!(")
            || BEFORE.iter().any(|end| before.ends_with(end))
            || BEHIND.iter().any(|start| behind.starts_with(start))
    })
}

fn has_number(line: &str) -> bool {
    line.split("PresetNumber(").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A_TABLE: &str = "//! x\nPRESETS = [\n    name: \"nolog\",\n    name: \"mlb-256\",\n];\n\
                           #[cfg(test)]\nmod tests { name: \"none\", }\n";

    fn found(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::of(&[(TABLE, A_TABLE), (path, text)]);
        check(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_names_are_those_of_the_table() {
        assert_eq!(names_in(without_tests(A_TABLE)), ["nolog", "mlb-256"]);
    }

    #[test]
    fn a_comparison_with_a_presets_name_is_found_however_it_is_written() {
        for line in [
            "if preset.name == \"nolog\" {",
            "let has_logs = \"nolog\" != preset;",
            "\"nolog\" => 0,",
            "\"singlelog\" | \"mlb-256\" => 1,",
            "matches!(name, \"nolog\")",
            "if name.starts_with(\"mlb-256\") {",
            "preset: PresetNumber(2),",
        ] {
            assert_eq!(found("crates/cli/src/create.rs", &format!("//! x\n{line}")), [2], "{line}");
        }
    }

    #[test]
    fn who_picks_a_preset_or_tests_one_may_name_it() {
        let picks =
            "let preset = NamedPreset::by_name(\"nolog\");\nconst ALL: [&str; 1] = [\"nolog\"];";
        assert!(found("crates/swarm/src/scenario.rs", picks).is_empty());
        let compares = "if preset == \"nolog\" {";
        for path in ["crates/nbd/tests/cuts/main.rs", "crates/volume/src/presets/lookup_tests.rs"] {
            assert!(found(path, compares).is_empty(), "{path}");
        }
        let in_tests = format!("//! x\n#[cfg(test)]\nmod tests {{ {compares} }}");
        assert!(found("crates/volume/src/open.rs", &in_tests).is_empty());
        assert!(found("crates/volume/src/open.rs", "PresetNumber(number)").is_empty());
    }

    #[test]
    fn the_engine_and_the_format_name_no_preset_not_even_in_a_comment() {
        for path in ["crates/engine/src/spill.rs", "crates/format/src/layout/tests.rs"] {
            assert_eq!(found(path, "//! x\n// As `nolog` does."), [2], "{path}");
            assert!(found(path, "let nologs = no_nolog_s;").is_empty(), "{path}");
        }
        assert!(found("crates/volume/src/open.rs", "// As `nolog` does.").is_empty());
    }
}
