//! The book of all documents: every page is a chapter, and no link in it is dead.
//!
//! Links are checked as those of the repository are ([`super::docs`]); in the book they lead to chapters, and to what `scripts/book` copies
//! beside them. A page in `docs/` that no chapter names would be found by nobody, so that is a finding too. And sources name pages in plain
//! text (comments, help, messages): those pages are there.

use super::Finding;
use super::docs::{is_elsewhere, links_of, resolve};
use super::tree::{Tree, has_ending};

/// The list of chapters.
const SUMMARY: &str = "docs/SUMMARY.md";
/// What `scripts/book` copies beside the chapters.
const COPIED: &[&str] = &["docs/", "contrib/", "LICENSE-"];
/// How a source names a page.
const MENTION: &str = "docs/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_mentions(tree);
    // A tree without a book has no chapters to miss.
    if let Some(summary) = tree.text(SUMMARY) {
        let chapters = targets_of(SUMMARY, summary);
        findings.extend(check_every_page(tree, &chapters));
        findings.extend(check_what_is_linked(tree, &chapters));
    }
    findings
}

/// Files that a document links to, from the root of the repository, with the lines.
fn targets_of(path: &str, text: &str) -> Vec<(usize, String)> {
    let links = links_of(text).into_iter();
    let inside = links.filter(|(_, target)| !is_elsewhere(target) && !target.starts_with('#'));
    let file = |target: &str| resolve(path, target.split('#').next().unwrap_or_default());
    inside.map(|(line, target)| (line, file(&target))).collect()
}

fn check_every_page(tree: &Tree, chapters: &[(usize, String)]) -> Vec<Finding> {
    let pages = tree.texts().map(|(path, _)| path);
    let pages = pages.filter(|path| path.starts_with("docs/") && has_ending(path, "md"));
    let count = |page: &str| chapters.iter().filter(|(_, chapter)| chapter == page).count();
    let finding = |page: &str| Finding {
        file: SUMMARY.into(),
        line: 1,
        expected: "each page of docs/ as one chapter".into(),
        found: format!("{} of {page}", count(page)),
        advice: "name the page where somebody looks for it, once".into(),
    };
    pages.filter(|page| *page != SUMMARY && count(page) != 1).map(finding).collect()
}

fn check_what_is_linked(tree: &Tree, chapters: &[(usize, String)]) -> Vec<Finding> {
    let is_chapter = |file: &str| chapters.iter().any(|(_, chapter)| chapter == file);
    let is_there = |file: &str| {
        file == SUMMARY
            || is_chapter(file)
            || !has_ending(file, "md") && COPIED.iter().any(|start| file.starts_with(start))
    };
    let finding = |chapter: &str, line: usize, file: String| Finding {
        file: chapter.to_owned(),
        line,
        expected: "a link to a chapter of the book, or to what scripts/book copies".into(),
        found: format!("one to {file}"),
        advice: format!("make it a chapter ({SUMMARY}), or name it as plain text"),
    };
    let texts = chapters.iter().filter_map(|(_, chapter)| Some((chapter, tree.text(chapter)?)));
    let found = texts.flat_map(|(chapter, text)| {
        let dead = targets_of(chapter, text).into_iter().filter(|(_, file)| !is_there(file));
        dead.map(|(line, file)| finding(chapter, line, file)).collect::<Vec<_>>()
    });
    found.collect()
}

/// Pages that sources and documents name in plain text. The rules' own tests name some that are not there.
fn check_mentions(tree: &Tree) -> Vec<Finding> {
    let sources = tree.texts().filter(|(path, _)| !path.starts_with("xtask/src/tidy/"));
    let found = sources.flat_map(|(path, text)| {
        let lines = text.lines().enumerate().flat_map(|(index, line)| {
            mentions_of(line).map(move |page| (index + 1, page)).collect::<Vec<_>>()
        });
        let dead = lines.filter(|(_, page)| !tree.contains(page));
        let finding = move |(line, page): (usize, &str)| Finding {
            file: path.to_owned(),
            line,
            expected: "the name of a page that is there".into(),
            found: page.to_owned(),
            advice: "name the page that has it".into(),
        };
        dead.map(finding).collect::<Vec<_>>()
    });
    found.collect()
}

/// The pages that a line names, such as docs/format.md.
fn mentions_of(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices(MENTION).map(|(at, _)| at);
    starts.filter_map(|at| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let end = line[at..].find(|c| !is_part(c)).map_or(line.len(), |len| at + len);
        let page = line[at..end].trim_end_matches('.');
        has_ending(page, "md").then_some(page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAPTERS: &str = "# Summary\n\n- [a](a.md)\n- [words](../GLOSSARY.md)\n";

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize, String)> {
        let findings = check(&Tree::of(files));
        findings.into_iter().map(|it| (it.file, it.line, it.found)).collect()
    }

    #[test]
    fn a_book_of_all_pages_that_link_each_other_has_no_finding() {
        let page =
            "# A\n[b](../GLOSSARY.md#b) ![p](p.svg) [u](../contrib/u) [e](https://e.org/x.md)\n";
        let files = [
            (SUMMARY, CHAPTERS),
            ("docs/a.md", page),
            ("docs/p.svg", ""),
            ("contrib/u", ""),
            ("GLOSSARY.md", "# Words\n[all](docs/SUMMARY.md)\n"),
            ("src/lib.rs", "//! See docs/a.md, and `GLOSSARY.md`.\n"),
        ];
        assert_eq!(found(&files), []);
    }

    #[test]
    fn a_page_that_is_no_chapter_or_twice_one_is_found() {
        let files = [(SUMMARY, CHAPTERS), ("docs/a.md", "# A\n"), ("docs/b.md", "# B\n")];
        assert_eq!(found(&files), [(SUMMARY.to_owned(), 1, "0 of docs/b.md".to_owned())]);
        let twice = format!("{CHAPTERS}- [again](a.md)\n");
        let files = [(SUMMARY, twice.as_str()), ("docs/a.md", "# A\n")];
        assert_eq!(found(&files), [(SUMMARY.to_owned(), 1, "2 of docs/a.md".to_owned())]);
    }

    #[test]
    fn a_link_that_leaves_the_book_is_found_at_its_line() {
        for file in ["README.md", "crates/x/x.toml"] {
            let page = format!("# A\n\n[x](../{file})\n");
            let files = [(SUMMARY, CHAPTERS), ("docs/a.md", page.as_str()), (file, "")];
            assert_eq!(found(&files), [("docs/a.md".to_owned(), 3, format!("one to {file}"))]);
        }
    }

    #[test]
    fn a_page_that_a_source_names_and_that_is_not_there_is_found() {
        let source = "//! docs/a.md has more.\n// `../docs/gone.md#b`, and docs/also-gone.md.\n";
        let files = [("docs/a.md", "# A\n"), ("src/lib.rs", source)];
        let at = |page: &str| ("src/lib.rs".to_owned(), 2, page.to_owned());
        assert_eq!(found(&files), [at("docs/gone.md"), at("docs/also-gone.md")]);
    }
}
