//! The list of changes, as `cargo mutants --list --json` has it: where each is and what it puts there. Nothing
//! is compiled or changed here.

use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// One small change to a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mutant {
    /// Counted from 1; 0 is the original.
    pub(super) id: u32,
    /// Below the workspace's root.
    pub(super) file: String,
    /// Bytes of the file that are replaced.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) replacement: String,
    /// What kind of change: cargo-mutants' word, like `BinaryOperator`.
    pub(super) genre: String,
    /// As people read it, with file, line and column.
    pub(super) name: String,
}

impl Mutant {
    /// The name without line and column, which move when anything above them changes.
    pub(super) fn lasting_name(&self) -> String {
        let change = self.name.splitn(4, ':').nth(3).unwrap_or(&self.name);
        format!("{}:{change}", self.file)
    }

    /// The file with this change.
    pub(super) fn applied(&self, source: &str) -> String {
        [&source[..self.start], &self.replacement, &source[self.end..]].concat()
    }
}

/// Every change to `files` (a pattern below `root`) whose name matches `only`.
pub(super) fn list(root: &Path, files: &str, only: Option<&str>) -> Result<Vec<Mutant>, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(["mutants", "--list", "--json", "--file", files]).current_dir(root);
    if let Some(words) = only {
        command.args(["--re", words]);
    }
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "`cargo mutants --list --json` failed: {}\nif cargo-mutants is missing: \
             cargo install cargo-mutants --locked --version 27.1.0",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    parse(&text, |file| {
        std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
    })
}

/// What the list says; `source` gives the content of a file.
fn parse(
    text: &str,
    source: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<Mutant>, String> {
    let list: Value = serde_json::from_str(text)
        .map_err(|error| format!("the list of cargo-mutants: expected JSON, found {error}"))?;
    let list = list.as_array().ok_or("the list of cargo-mutants: expected an array")?;
    let mut read = (String::new(), String::new());
    let mut mutants = Vec::new();
    for (id, item) in (1..).zip(list) {
        let text = |key: &str| {
            let word = item[key].as_str().map(str::to_owned);
            word.ok_or_else(|| format!("the list of cargo-mutants: entry {id} has no `{key}`"))
        };
        let file = text("file")?;
        if read.0 != file {
            read = (file.clone(), source(&file)?);
        }
        let place = |which: &str| {
            position(&read.1, &item["span"][which]).ok_or_else(|| {
                format!("the list of cargo-mutants: entry {id} is not inside {file}: is it of this tree?")
            })
        };
        mutants.push(Mutant {
            id,
            start: place("start")?,
            end: place("end")?,
            replacement: item["replacement"].as_str().unwrap_or_default().to_owned(),
            genre: text("genre")?,
            name: text("name")?,
            file,
        });
    }
    Ok(mutants)
}

/// Byte of a line and column, both counted from 1, columns in characters.
fn position(source: &str, place: &Value) -> Option<usize> {
    let line = usize::try_from(place["line"].as_u64()?).ok()?;
    let column = usize::try_from(place["column"].as_u64()?).ok()?;
    let start = match line.checked_sub(1)? {
        0 => 0,
        above => source.match_indices('\n').nth(above - 1)?.0 + 1,
    };
    let rest = &source[start..];
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.skip(column.checked_sub(1)?).map(|at| start + at).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn a() -> u32 {\n    b(\"ö\") + 1\n}\n";

    fn entry(column: u32, end: u32) -> String {
        format!(
            r#"[{{"file":"a.rs","genre":"BinaryOperator","replacement":"-",
            "name":"a.rs:2:{column}: replace + with - in a",
            "span":{{"start":{{"line":2,"column":{column}}},"end":{{"line":2,"column":{end}}}}}}}]"#
        )
    }

    #[test]
    fn a_change_is_found_by_line_and_character() {
        let mutants = parse(&entry(12, 13), |_| Ok(SOURCE.to_owned())).unwrap();
        assert_eq!(mutants[0].applied(SOURCE), SOURCE.replace('+', "-"));
        assert_eq!(mutants[0].lasting_name(), "a.rs: replace + with - in a");
    }

    #[test]
    fn a_list_that_is_not_of_this_tree_is_refused() {
        let error = parse(&entry(12, 13), |_| Ok("short\n".to_owned())).unwrap_err();
        assert!(error.contains("entry 1 is not inside a.rs"), "{error}");
        assert!(parse("{}", |_| Ok(String::new())).unwrap_err().contains("expected an array"));
        assert!(parse("no", |_| Ok(String::new())).unwrap_err().contains("expected JSON"));
    }
}
