//! All planted mistakes of a tree, and its files with all of them.
//!
//! Every patch is found in the files as they are, and the changes of all are put in together. So no patch depends on
//! another; two that change the very same words are told of.

use super::patch::{Edit, Patch};
use crate::sandbox::Switch;
use crate::tidy::{Finding, Tree, has_ending};
use std::collections::BTreeMap;

/// Where patches are.
const FOLDER: &str = "planted/";

/// What each crate with mistakes is asked by.
pub(super) const SWITCH: Switch = Switch {
    module: "planted_switch",
    variable: "NEARHEAD_PLANTED",
    met_variable: "NEARHEAD_PLANTED_REACHED",
};

/// The patches of `tree`, by name, and what is wrong with the others.
pub(crate) fn load(tree: &Tree) -> (Vec<Patch>, Vec<Finding>) {
    let texts =
        tree.texts().filter(|(path, _)| path.starts_with(FOLDER) && has_ending(path, "patch"));
    let (mut patches, mut findings) = (Vec::<Patch>::new(), Vec::new());
    for (path, text) in texts {
        match Patch::parse(path, text) {
            Ok(patch) => {
                let other = patches.iter().find(|other| other.what == patch.what);
                findings.extend(other.map(|other| says_what_another_says(&patch, other)));
                patches.push(patch);
            }
            Err(finding) => findings.push(finding),
        }
    }
    (patches, findings)
}

fn says_what_another_says(patch: &Patch, other: &Patch) -> Finding {
    Finding {
        file: patch.path.clone(),
        line: 1,
        expected: "a sentence of its own".to_owned(),
        found: format!("that of {}", other.path),
        advice: "say what is done wrong here".to_owned(),
    }
}

/// A change, and the number of the patch that makes it.
type Numbered = (usize, Edit);

/// Each file that `patches` change with all of them in it, and the switches of the crates; or what does not fit.
pub(crate) fn apply(
    tree: &Tree,
    patches: &[Patch],
) -> Result<BTreeMap<String, String>, Vec<Finding>> {
    let (mut edits, mut findings) = (BTreeMap::<&str, Vec<Numbered>>::new(), Vec::new());
    for (index, patch) in patches.iter().enumerate() {
        let question = SWITCH.question(index as u32 + 1);
        for place in &patch.places {
            let source = tree.text(&place.file).unwrap_or_default();
            let elsewhere = |place: &_| file_with(tree, place);
            match place.edits(&patch.path, source, &question, elsewhere) {
                Ok(here) => {
                    let here = here.into_iter().map(|edit| (index, edit));
                    edits.entry(place.file.as_str()).or_default().extend(here);
                }
                Err(finding) => findings.push(finding),
            }
        }
    }
    let mut files = BTreeMap::new();
    for (file, edits) in edits {
        match merged(tree.text(file).unwrap_or_default(), edits) {
            Ok(text) => drop(files.insert(file.to_owned(), text)),
            Err((one, other)) => findings.push(same_words(file, &patches[one], &patches[other])),
        }
    }
    let names: Vec<&str> = patches.iter().map(|patch| patch.name.as_str()).collect();
    findings.extend(add_switches(tree, &mut files, &names));
    if findings.is_empty() { Ok(files) } else { Err(findings) }
}

/// Another source with the lines of a place, if exactly one has them once.
fn file_with(tree: &Tree, place: &super::patch::Place) -> Option<String> {
    let has_them =
        |(path, text): &(&str, &str)| path.starts_with("crates/") && place.count_in(text) == 1;
    let mut found = tree.rust_sources().filter(has_them);
    let (path, _) = found.next()?;
    found.next().is_none().then(|| path.to_owned())
}

/// The source with all changes, or two patches that change the same words.
fn merged(source: &str, mut edits: Vec<Numbered>) -> Result<String, (usize, usize)> {
    edits.sort_by_key(|(index, edit)| (edit.range.start, edit.range.end, *index));
    let (mut text, mut at, mut last) = (String::with_capacity(source.len()), 0, 0);
    for (index, edit) in edits {
        if edit.range.start < at {
            return Err((last, index));
        }
        text.push_str(&source[at..edit.range.start]);
        text.push_str(&edit.text);
        (at, last) = (edit.range.end, index);
    }
    text.push_str(&source[at..]);
    Ok(text)
}

fn same_words(file: &str, one: &Patch, other: &Patch) -> Finding {
    Finding {
        file: other.path.clone(),
        line: 1,
        expected: format!("changes to {file} beside those of other mistakes"),
        found: format!("the very words that {} changes", one.path),
        advice: "let one of the two add a line, such as `let x = x && !is_made();`, instead of changing the line".to_owned(),
    }
}

/// Puts a switch into every crate that has a file here.
fn add_switches(tree: &Tree, files: &mut BTreeMap<String, String>, names: &[&str]) -> Vec<Finding> {
    let mut roots = BTreeMap::new();
    let mut findings = Vec::new();
    for file in files.keys() {
        let root = file.split_once("/src/").map(|(folder, _)| format!("{folder}/src/lib.rs"));
        match root.and_then(|root| tree.text(&root).map(|text| (root.clone(), text.to_owned()))) {
            Some((root, text)) => drop(roots.insert(root, text)),
            None => findings.push(Finding {
                file: file.clone(),
                line: 1,
                expected: "planted mistakes in libraries only".to_owned(),
                found: "a file of no library".to_owned(),
                advice: "plant the mistake in the library that does the work".to_owned(),
            }),
        }
    }
    for (root, text) in roots {
        let text = files.get(&root).cloned().unwrap_or(text);
        files.extend(SWITCH.files(&root, &text, names));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "//! A.\nfn f(a: bool, b: bool) {\n    if a && b {\n        g();\n    }\n}\n";

    fn applied(patches: &[(&str, &str)]) -> Result<BTreeMap<String, String>, Vec<Finding>> {
        let texts: Vec<(String, String)> = patches
            .iter()
            .map(|(name, lines)| {
                let text = format!("{name} does something wrong\n\ncrates/a/src/a.rs\n{lines}");
                (format!("planted/{name}.patch"), text)
            })
            .collect();
        let mut files: Vec<(&str, &str)> =
            texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        files.extend([("crates/a/src/a.rs", SOURCE), ("crates/a/src/lib.rs", "//! L.\nmod a;\n")]);
        let tree = Tree::of(&files);
        let (patches, findings) = load(&tree);
        assert!(findings.is_empty(), "{findings:?}");
        apply(&tree, &patches)
    }

    #[test]
    fn two_mistakes_at_one_place_are_both_asked_for_in_any_order() {
        let first = "-    if a && b {\n+    if a && !is_made() && b {\n";
        let second = "-    if a && b {\n+    if a && b && !is_made() {\n";
        let third = "     if a && b {\n+        is_made();\n         g();\n";
        let fourth = " if a && b {\n+    h(is_made());\n";
        let wanted = "    if a && !crate::planted_switch::on(1) && b && !crate::planted_switch::on(2) {\n        \
                      crate::planted_switch::on(3);\n        h(crate::planted_switch::on(4));\n        g();\n";
        let files = applied(&[("a", first), ("b", second), ("c", third), ("d", fourth)]).unwrap();
        assert!(files["crates/a/src/a.rs"].contains(wanted), "{}", files["crates/a/src/a.rs"]);
        // The other way round only the numbers differ.
        let files = applied(&[("d", first), ("c", second), ("b", third), ("a", fourth)]).unwrap();
        let text = &files["crates/a/src/a.rs"];
        assert!(
            text.contains(
                "if a && !crate::planted_switch::on(4) && b && !crate::planted_switch::on(3) {"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "h(crate::planted_switch::on(1));\n        crate::planted_switch::on(2);\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_crate_gets_a_switch_that_knows_the_names() {
        let files = applied(&[("a-b", "+    is_made();\n     if a && b {\n")]).unwrap();
        assert!(files["crates/a/src/lib.rs"].contains("mod planted_switch;"));
        assert!(files["crates/a/src/planted_switch.rs"].contains("&[\"a-b\"]"));
        assert!(files["crates/a/src/planted_switch.rs"].contains("\"NEARHEAD_PLANTED\""));
    }

    #[test]
    fn two_mistakes_that_change_the_same_words_are_told_of() {
        let findings = applied(&[
            ("a", "-    if a && b {\n+    if is_made() {\n"),
            ("b", "-    if a && b {\n+    if a || is_made() {\n"),
        ]);
        let findings = findings.unwrap_err();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].found, "the very words that planted/a.patch changes");
    }

    #[test]
    fn a_place_in_no_library_or_in_no_file_and_a_sentence_said_twice_are_told_of() {
        let with = |file: &str| {
            let text = format!("something is done wrong\n\n{file}\n line\n+is_made()\n");
            let files = [
                ("crates/a/tests/a.rs", "//! T.\nline\n"),
                ("planted/a.patch", text.as_str()),
                ("planted/b.patch", text.as_str()),
            ];
            let tree = Tree::of(&files);
            let (patches, findings) = load(&tree);
            assert_eq!(findings[0].found, "that of planted/a.patch");
            apply(&tree, &patches[..1]).unwrap_err()
        };
        assert_eq!(with("crates/a/tests/a.rs")[0].found, "a file of no library");
        let gone = with("crates/a/src/gone.rs");
        assert_eq!(gone[0].found, "no line `line`");
        assert_eq!(gone[0].advice, "they stand in crates/a/tests/a.rs now: name that file");
    }
}
