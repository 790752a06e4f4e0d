//! Planted mistakes: each patch applies to the tree as it is, and no code of the product knows of them.
//!
//! Who changes a line that a mistake is planted at is told here at once, not by a run of hours. Whether a mistake is
//! found is for `cargo xtask planted`.

use super::Finding;
use super::code::code_only;
use super::tree::{Tree, has_ending};
use crate::planted::patches;

/// What reads patches may speak of them; so may comments.
const MACHINERY: &str = "xtask/";

/// What only a product that knows of planted mistakes has to say.
const WORDS: [&str; 2] = ["planted", "PLANTED"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (patches, mut findings) = patches::load(tree);
    if let Err(unfit) = patches::apply(tree, &patches) {
        findings.extend(unfit);
    }
    findings.extend(check_product(tree));
    findings
}

fn check_product(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !path.starts_with(MACHINERY)) {
        let code = match () {
            () if has_ending(path, "rs") => code_only(text),
            () if path.ends_with("Cargo.toml") => text.to_owned(),
            () => continue,
        };
        let knows = |line: &str| WORDS.iter().any(|word| line.contains(word));
        let lines = code.lines().enumerate().filter(|(_, line)| knows(line));
        findings.extend(lines.map(|(index, line)| Finding {
            file: path.to_owned(),
            line: index + 1,
            expected: "a product that knows nothing of planted mistakes".to_owned(),
            found: format!("`{}`", line.trim()),
            advice: "plant the mistake by a patch below planted/, see docs/planted.md".to_owned(),
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str =
        "something is done wrong\n\ncrates/a/src/a.rs\n-go();\n+if !is_made() { go(); }\n";

    fn found(source: &str) -> Vec<(String, usize, String)> {
        let files = [
            ("planted/a.patch", PATCH),
            ("crates/a/src/a.rs", source),
            ("crates/a/src/lib.rs", "//! A.\n"),
        ];
        let findings = check(&Tree::of(&files)).into_iter();
        findings.map(|finding| (finding.file, finding.line, finding.found)).collect()
    }

    #[test]
    fn a_patch_that_does_not_apply_any_more_is_found() {
        assert!(found("//! A.\nfn f() {\n    go();\n}\n").is_empty());
        let expected = ("planted/a.patch".to_owned(), 3, "no line `go();`".to_owned());
        assert_eq!(found("//! A.\nfn f() {\n    go_on();\n}\n"), [expected]);
    }

    #[test]
    fn a_product_that_knows_of_planted_mistakes_is_found() {
        let source = "//! Planted.\n#[cfg(planted)]\nfn f() {\n    // planted\n    go();\n}\n";
        assert_eq!(
            found(source),
            [("crates/a/src/a.rs".to_owned(), 2, "`#[cfg(planted)]`".to_owned())]
        );
        let manifest = Tree::of(&[("crates/a/Cargo.toml", "nearhead-planted.workspace = true\n")]);
        assert_eq!(check(&manifest).len(), 1);
        assert!(check(&Tree::of(&[("xtask/src/planted.rs", "mod planted;\n")])).is_empty());
    }
}
