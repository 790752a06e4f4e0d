//! The engine's rooms have owners: nobody reaches into another's fields, and no two rooms need each other.
//!
//! A room is a folder of the engine, or a file beside them. Every activity is a type with private fields in a room of its
//! own; the type that holds them all together stands in `engine.rs` and below, and no room names it or another room that
//! names it. So a stranger can read a room without reading the house, and a new one is put beside the others.

use super::Finding;
use super::tree::{Tree, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// The rooms.
const ENGINE: &str = "crates/engine/src/";
/// What holds them together.
const HOLDER: &str = "engine";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.rust_sources().filter_map(|(path, text)| {
        let inside = path.strip_prefix(ENGINE)?;
        let is_tests = inside.ends_with("tests.rs");
        (!is_tests).then(|| (path, room_of(inside), without_tests(text)))
    });
    let sources: Vec<(&str, &str, &str)> = sources.collect();
    let mut findings = Vec::new();
    for (path, room, text) in &sources {
        let is_file = !path[ENGINE.len()..].contains('/');
        findings.extend(open_fields(path, text, is_file));
        if *room != HOLDER {
            findings.extend(strangers(path, text));
        }
    }
    findings.extend(circles(&sources));
    findings
}

/// `state` for `state/map/mod.rs` and `core` for `core.rs`.
fn room_of(inside: &str) -> &str {
    let first = inside.split('/').next().unwrap_or(inside);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Lines of code with their numbers, without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Of a room that `is_file` the parent is the crate.
fn open_fields(path: &str, text: &str, is_file: bool) -> Vec<Finding> {
    let found = code(text).filter_map(|(line, code)| {
        let code = code.trim_start();
        let to_parent = || code.strip_prefix("pub(super) ").filter(|_| is_file);
        let rest = code.strip_prefix("pub(crate) ").or_else(to_parent)?;
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        rest[name.len()..].starts_with(": ").then(|| Finding {
            file: path.into(),
            line,
            expected: "fields that their own room alone can see".into(),
            found: format!("`{name}`, which the whole crate sees"),
            advice: "make it private, and say in a method what others may ask or tell".into(),
        })
    });
    found.collect()
}

fn strangers(path: &str, text: &str) -> Vec<Finding> {
    let found = code(text).filter(|(_, code)| {
        code.starts_with("impl") && code.trim_end_matches([' ', '{']).ends_with(" Engine")
    });
    let finding = |(line, _)| Finding {
        file: path.into(),
        line,
        expected: format!("methods of `Engine` in {ENGINE}{HOLDER}.rs and below alone"),
        found: "`impl Engine`".into(),
        advice: "make it a method of the room's own type, which is handed what it needs".into(),
    };
    found.map(finding).collect()
}

/// What each room names of the others, and one place where it does.
type Names<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (&'a str, usize)>>;

fn circles(sources: &[(&str, &str, &str)]) -> Vec<Finding> {
    let rooms: BTreeSet<&str> = sources.iter().map(|(_, room, _)| *room).collect();
    let mut names: Names<'_> = BTreeMap::new();
    for (path, room, text) in sources.iter().filter(|(_, room, _)| *room != "lib") {
        for (line, code) in code(text) {
            for other in named(code).filter(|other| other != room) {
                let Some(other) = rooms.get(other) else { continue };
                names.entry(room).or_default().entry(other).or_insert((path, line));
            }
        }
    }
    let mut findings = Vec::new();
    for (room, others) in &names {
        for (other, (path, line)) in others {
            let Some(way) = way_between(&names, other, room) else { continue };
            findings.push(Finding {
                file: (*path).into(),
                line: *line,
                expected: "rooms of which no two need each other".into(),
                found: format!("`{room}` names {}", way.join(", which names ")),
                advice: "hand over the facts, or say what is wanted and let the engine do it"
                    .into(),
            });
        }
    }
    findings
}

/// What stands behind each `crate::` of a line.
fn named(code: &str) -> impl Iterator<Item = &str> {
    code.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// The shortest way from one room to another, both of them in it.
fn way_between<'a>(names: &Names<'a>, from: &'a str, to: &'a str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![from]];
    let mut seen = BTreeSet::from([from]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = *way.last()?;
            if last == to {
                return Some(way);
            }
            for next in names.get(last).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next) {
                    longer.push([way.as_slice(), &[*next]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("{ENGINE}{path}"), *text)).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        check(&Tree::of(&files)).into_iter().map(|finding| finding.found).collect()
    }

    #[test]
    fn a_field_that_the_whole_crate_sees_is_found_and_a_method_is_none() {
        let text = "//! x\nstruct A {\n    pub(crate) at: u64,\n    pub(super) to: u64,\n}\n\
                    pub(crate) fn at() {}\npub(crate) const AT: u64 = 1;\n";
        let seen = |name: &str| format!("`{name}`, which the whole crate sees");
        assert_eq!(found(&[("state/a.rs", text)]), [seen("at")]);
        assert_eq!(found(&[("a.rs", text)]), [seen("at"), seen("to")]);
    }

    #[test]
    fn methods_of_the_engine_stand_with_it_or_below() {
        let text = "//! x\nimpl Engine {\n}\nimpl Commit {\n}\nimpl From<u8> for Engine {\n}\n";
        assert_eq!(found(&[("commit/send.rs", text)]), ["`impl Engine`"; 2]);
        assert_eq!(found(&[("engine.rs", text), ("engine/room.rs", text)]), [""; 0]);
    }

    #[test]
    fn a_circle_of_rooms_is_found_however_long_it_is() {
        let names = |other: &str| format!("//! x\nuse crate::{other}::X;\n");
        let (to_b, to_c, to_a) = (names("b"), names("c"), names("a"));
        let line = [("a/mod.rs", to_b.as_str()), ("b.rs", &to_c), ("c/mod.rs", "//! x\n")];
        assert_eq!(found(&line), [""; 0]);
        let circle = [("a/mod.rs", to_b.as_str()), ("b.rs", &to_c), ("c/mod.rs", &to_a)];
        assert_eq!(
            found(&circle),
            [
                "`a` names b, which names c, which names a",
                "`b` names c, which names a, which names b",
                "`c` names a, which names b, which names c"
            ]
        );
    }

    #[test]
    fn what_tests_and_comments_name_makes_no_circle() {
        let tests =
            "//! x\n/// See [`crate::b::B`].\n#[cfg(test)]\nmod tests { use crate::b::B; }\n";
        assert_eq!(found(&[("a.rs", tests), ("b.rs", "//! x\nuse crate::a::A;\n")]), [""; 0]);
    }
}
