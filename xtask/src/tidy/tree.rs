//! The files of the workspace, read once.
//!
//! Paths are relative to the root and use `/`. Build output and git's own files are left out.
//! Tests make small trees in memory, so that every rule is tested without a disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Directories nobody writes by hand.
const SKIPPED_DIRECTORIES: &[&str] = &[".git", "target", "node_modules", "__pycache__"];
/// Endings of files whose text is checked.
const TEXT_ENDINGS: &[&str] = &[
    "rs", "md", "toml", "sh", "py", "c", "h", "java", "html", "css", "js", "svg", "yml", "service",
    "socket", "conf", "patch", "ipynb", "cff",
];
/// Directories whose files are scripts even without an ending.
const SCRIPT_DIRECTORIES: &[&str] = &[".ci/", "scripts/"];
/// A larger file is data, not text that somebody wrote.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// Every path of the workspace, with the text of those that hold text.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    entries: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the workspace at `root`.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.load_directory(root, "")?;
        Ok(tree)
    }

    /// A tree in memory.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let entries = files.iter().map(|(path, text)| ((*path).into(), Some((*text).into())));
        Self { entries: entries.collect() }
    }

    /// Every file that holds text, with its path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Every Rust source, with its path.
    pub(crate) fn rust_sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| has_ending(path, "rs"))
    }

    /// The text of one file, if it is there and holds text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.entries.get(path)?.as_deref()
    }

    /// Whether a file or a directory has this path; the empty path is the root.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        path.is_empty()
            || self.entries.contains_key(path)
            || self
                .entries
                .range(below.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&below))
    }

    fn load_directory(&mut self, root: &Path, relative: &str) -> Result<(), String> {
        let directory = root.join(relative);
        let failed = |error| format!("cannot read {}: {error}", directory.display());
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path =
                if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_file() {
                let text = read_text(&entry.path(), &path)?;
                self.entries.insert(path, text);
            } else if kind.is_dir() && !SKIPPED_DIRECTORIES.contains(&name.as_str()) {
                self.load_directory(root, &path)?;
            }
        }
        Ok(())
    }
}

/// The text of the file, or nothing if it is data.
fn read_text(file: &Path, path: &str) -> Result<Option<String>, String> {
    let failed = |error| format!("cannot read {}: {error}", file.display());
    if !is_text(path) || fs::metadata(file).map_err(failed)?.len() > TEXT_BYTES_MAX {
        return Ok(None);
    }
    fs::read_to_string(file).map(Some).map_err(failed)
}

fn is_text(path: &str) -> bool {
    path == "Makefile"
        || SCRIPT_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
        || TEXT_ENDINGS.iter().any(|ending| has_ending(path, ending))
}

/// Whether `path` ends in `.ending`.
pub(crate) fn has_ending(path: &str, ending: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, found)| found == ending)
}

/// The source up to its tests, which stand last.
pub(super) fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests").map_or(text, |(product, _)| product)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_there_if_a_file_is_below_it() {
        let tree = Tree::of(&[("docs/format.md", "")]);
        assert!(tree.contains("docs") && tree.contains("docs/") && tree.contains("docs/format.md"));
        assert!(!tree.contains("doc") && !tree.contains("docs/format"));
    }

    #[test]
    fn scripts_without_an_ending_are_text() {
        assert!(is_text(".ci/run") && is_text("scripts/install-deps") && is_text("Makefile"));
        assert!(!is_text("docs/picture.png"));
    }
}
