//! A volume file with some settings changed: `nearhead set --keep`.
//!
//! Lines that are not changed stay as they are, with their comments. The file is replaced as a whole, and only by text that can be read.

use crate::ServeArgs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What ends `checkpoint_window`, as `nearhead set` has it.
const NONE: &str = "none";

/// A volume file and its text.
#[derive(Clone, Debug)]
pub struct VolumeFile {
    path: PathBuf,
    text: String,
}

impl VolumeFile {
    /// Reads the one at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is no volume file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let failed =
            |problem: &dyn std::fmt::Display| format!("volume file {}: {problem}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        ServeArgs::from_text(&text).map_err(|error| failed(&error))?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// The same with `words`, each `NAME=VALUE`, in place of what it says of these names.
    ///
    /// # Errors
    /// A volume file cannot have such a line.
    pub fn with(mut self, words: &[String]) -> Result<Self, String> {
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("set: expected NAME=VALUE, found {word:?}"))?;
            let name = name.replace('-', "_");
            // A number or a truth as it is, anything else as text.
            let values = [value.to_owned(), format!("{value:?}")];
            let lines = values.iter().map(|value| format!("{name} = {value}"));
            let texts = lines.map(|line| {
                changed(&self.text, &name, if value == NONE { None } else { Some(&line) })
            });
            let is_good = |text: &String| ServeArgs::from_text(text).is_ok();
            self.text = texts.into_iter().find(is_good).ok_or_else(|| {
                format!(
                    "volume file {}: expected to write {word} there, found that it would not be read again; write it by hand",
                    self.path.display()
                )
            })?;
        }
        Ok(self)
    }

    /// Writes it in place of the file.
    ///
    /// # Errors
    /// It cannot be written; the file is as it was.
    pub fn write(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| {
            format!(
                "volume file {}: expected to write it, found {error}; the settings hold until the daemon ends",
                self.path.display()
            )
        };
        // A link stays, and what it leads to is replaced.
        let path = self.path.canonicalize().map_err(failed)?;
        let new = path.with_extension("toml.new");
        let mut file = std::fs::File::create(&new).map_err(failed)?;
        let permissions = std::fs::metadata(&path).map_err(failed)?.permissions();
        let written = file
            .set_permissions(permissions)
            .and_then(|()| file.write_all(self.text.as_bytes()))
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&new, &path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written.map_err(failed)
    }
}

/// The text with `line` where it says something of `name` before its first table, or there at the end; without such a line if there is none.
fn changed(text: &str, name: &str, line: Option<&str>) -> String {
    let is_it = |found: &str| {
        let rest = found.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let tables = text.lines().position(|found| found.trim_start().starts_with('['));
    let top = tables.unwrap_or(usize::MAX);
    let mut lines: Vec<&str> = Vec::new();
    let mut left = line;
    for (number, found) in text.lines().enumerate() {
        if number == top {
            lines.extend(left.take());
        }
        if number < top && is_it(found) {
            lines.extend(left.take());
        } else {
            lines.push(found);
        }
    }
    lines.extend(left);
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_setting_replaces_its_line_and_no_other() {
        let text = "# mine\ntarget = \"/a\"\nwatermark = 70 # percent\n";
        let file = VolumeFile { path: PathBuf::from("v.toml"), text: text.to_owned() };
        let words = ["watermark=40", "checkpoint_idle=7s", "checkpoint_window=none"];
        let kept = file.clone().with(&words.map(str::to_owned)).unwrap();
        assert_eq!(
            kept.text,
            "# mine\ntarget = \"/a\"\nwatermark = 40\ncheckpoint_idle = \"7s\"\n"
        );
        let none = kept.with(&["checkpoint_idle=9s".to_owned()]).unwrap();
        assert!(none.text.ends_with("checkpoint_idle = \"9s\"\n"));
        assert!(file.with(&["odd=1".to_owned()]).is_err());
    }
}
